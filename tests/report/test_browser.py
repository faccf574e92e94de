"""The page in headless Chromium, driven by Playwright."""

import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from antecede.report import ReportFiles
from tests.report.browser import WAIT_MS, Visit, needs_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def wide(browser: "Browser", report: ReportFiles) -> Iterator[Visit]:
    visit = Visit(browser, report.page, 1440, "light")
    yield visit
    visit.context.close()


def chart(visit: Visit) -> "Locator":
    return visit.page.locator(".chart[data-drawn]").first


def marks(chart: "Locator", protocol: str) -> int:
    return chart.locator(
        f"[aria-roledescription=point][aria-label*='protocol: {protocol};']"
    ).count()


def samples(png: bytes) -> list[int]:
    """Return some bytes of a screenshot; those of a blank page are 0."""
    width, height, _, kind = struct.unpack(">IIBB", png[16:26])
    channels = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    raw = zlib.decompress(data)
    stride = width * channels + 1
    assert len(raw) == stride * height
    # The bytes are filtered: a byte is 0 if the pixel equals its neighbour.
    return [b for y in range(height) for b in raw[y * stride + 2 : (y + 1) * stride : 16]]


def test_the_page_logs_nothing_and_requests_nothing(
    wide: Visit, report: ReportFiles
) -> None:
    assert wide.messages == []
    assert wide.requests == [report.page.as_uri()]


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (1440, "light"), (1440, "dark")]
)
def test_the_page_is_neither_blank_nor_wider_than_the_screen(
    browser: "Browser", report: ReportFiles, width: int, scheme: str
) -> None:
    visit = Visit(browser, report.page, width, scheme)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    visit.page.locator("figure.chart-figure").first.scroll_into_view_if_needed()
    seen = samples(visit.page.screenshot())
    assert sum(value != 0 for value in seen) > 0.01 * len(seen)
    ground = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 28)" if scheme == "dark" else "rgb(253, 253, 252)")
    assert visit.messages == []
    visit.context.close()


def test_a_blank_page_is_detected(browser: "Browser") -> None:
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.set_content("<p></p>")
    seen = samples(page.screenshot())
    assert sum(value != 0 for value in seen) <= 0.01 * len(seen)
    page.close()


def test_a_tooltip_shows_the_values_of_a_mark(wide: Visit) -> None:
    mark = chart(wide).locator("[aria-roledescription=point]").first
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    tip = wide.page.locator("#vg-tooltip-element.visible")
    tip.wait_for(timeout=WAIT_MS)
    text = tip.inner_text()
    for word in ("protocol", "95 % interval", "seeds", "processes"):
        assert word in text
    wide.page.mouse.move(0, 0)


def test_the_picker_filters_the_marks_of_every_chart(wide: Visit) -> None:
    places = wide.page.locator(".chart[data-drawn]").all()
    assert len(places) >= 6
    before = [(marks(place, "hybrid"), marks(place, "buffer")) for place in places]
    assert all(min(each) > 0 for each in before)
    box = wide.page.locator("input[name=protocol][value=buffer]")
    box.uncheck()
    wide.page.wait_for_function(
        "!document.querySelector('.chart [aria-label*=\"protocol: buffer;\"]')"
    )
    after = [(marks(place, "hybrid"), marks(place, "buffer")) for place in places]
    assert after == [(hybrid, 0) for hybrid, _ in before]
    box.check()
    wide.page.wait_for_function(
        "document.querySelector('.chart [aria-label*=\"protocol: buffer;\"]')"
    )
    assert [(marks(p, "hybrid"), marks(p, "buffer")) for p in places] == before


def test_the_picker_works_from_the_keyboard(wide: Visit) -> None:
    box = wide.page.locator("input[name=protocol][value=matrix]")
    box.focus()
    wide.page.keyboard.press("Space")
    assert not box.is_checked()
    wide.page.keyboard.press("Space")
    assert box.is_checked()


def test_axes_can_be_switched_between_linear_and_logarithmic(wide: Visit) -> None:
    figure = wide.page.locator("figure.chart-figure").first
    place = figure.locator(".chart").first
    box = figure.locator(".log-y")
    ticks = place.locator(".role-axis-label").all_text_contents()
    box.set_checked(not box.is_checked())
    wide.page.wait_for_function(
        "([place, ticks]) => place.querySelector('.role-axis-label') &&"
        " [...place.querySelectorAll('.role-axis-label')]"
        ".map((e) => e.textContent).join() !== ticks",
        arg=[place.element_handle(), ",".join(ticks)],
    )
    assert place.locator("[aria-roledescription=point]").count() > 0
    assert wide.messages == []


def test_a_heading_sorts_its_table_in_both_directions(wide: Visit) -> None:
    wide.page.locator("details.table summary").first.click()
    table = wide.page.locator("table.data").first
    head = table.locator("thead th").nth(5)

    def values() -> list[float]:
        cells = table.locator("tbody tr td:nth-child(6)").all()
        return [float(cell.get_attribute("data-value") or "nan") for cell in cells]

    unsorted = values()
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(unsorted)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(unsorted, reverse=True)
    assert unsorted not in (sorted(unsorted), sorted(unsorted, reverse=True))


def test_hidden_charts_are_drawn_when_they_are_opened(wide: Visit) -> None:
    more = wide.page.locator("details.more").first
    assert more.locator(".chart[data-drawn]").count() == 0
    more.locator("summary").first.click()
    more.locator(".chart[data-drawn]").last.wait_for(timeout=WAIT_MS)
    assert more.locator("[aria-roledescription=point]").count() > 0


def test_the_first_screen_shows_the_cost_charts(wide: Visit) -> None:
    charts = wide.page.locator(".cost-chart[data-drawn]")
    assert charts.count() == 2
    bars = charts.first.locator("[aria-roledescription=bar]")
    assert bars.count() == 3 * 6  # Three parts of the latency of six protocols.
    points = charts.last.locator("[aria-roledescription=point]")
    assert points.count() >= 6
    box = charts.first.bounding_box()
    assert box is not None
    assert box["y"] < 900
