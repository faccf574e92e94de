"""The page of ``antecede verify --report``: its values, and how a browser shows it."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from antecede.cli import main as cli
from antecede.errors import ConfigError, StorageError
from antecede.report.rendering import write_atomically
from antecede.report.verification.charts import NAMES_MAX, heat_map
from antecede.report.verification.page import VerificationPage
from antecede.report.verification.paths import worst_paths
from antecede.trace.reader import read_trace
from antecede.verify import MessageId, Property, Violation
from antecede.verify.breakdown import PairCount
from antecede.verify.verifier import verify_trace
from tests.ingest.foreign_samples import SHIVIZ, SHOP_SPANS, span_csv, write_sample
from tests.pipeline.test_verify_runs import write
from tests.report.browser import Visit, needs_chromium
from tests.report.test_page import external_references, read
from tests.verify.test_verifier import FIGURE, deliver, send

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CAUSAL = Property.CAUSAL
BANK = "<b>bank</b>"
SHOP = "</script><script>document.title='hacked'</script>"
MESSAGES = f"""source,target,sent,received
{BANK},"{SHOP}",0.0,9.0
{BANK},customer,1.0,2.0
customer,"{SHOP}",3.0,4.0
customer,"{SHOP}",5.0,6.0
"""
"""Two messages of customer overtake the first of bank, at seconds 4 and 6."""
OVERTAKEN = [
    send(0, 1, 1),
    send(0, 2, 1),
    deliver(1, 0, 2),
    deliver(1, 0, 1),
    deliver(1, 0, 1),
    deliver(1, 0, 9),
    send(0, 3, 1),
]
"""Without times: a violation of each property; 0:1 is delivered twice, 0:3 never."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("page")
    messages = directory / "messages.csv"
    messages.write_text(MESSAGES, encoding="utf-8")
    inputs = [
        write(directory / "all-kinds", OVERTAKEN, complete=True),
        write(directory / "held", [send(0, 1, 1), deliver(1, 0, 1)]),
        messages,
        write_sample(directory / "shop.csv", span_csv(SHOP_SPANS)),
        write_sample(directory / "run.log", SHIVIZ),
    ]
    out = directory / "pages" / "page.html"
    assert cli.main(["verify", *map(str, inputs), "--report", str(out)]) == 1
    return out


def charts(text: str) -> dict[str, Any]:
    (data,) = re.findall(r'id="charts-data">(.*?)</script>', text)
    found: dict[str, Any] = json.loads(data)["charts"]
    return found


def section(text: str, name: str) -> str:
    """Return the HTML of the section of a run."""
    return next(
        part
        for part in text.split('<section id="run-')[1:]
        if name in part.partition("</h2>")[0]
    )


def test_the_page_is_valid_html_and_needs_no_network(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    reader = read(text)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.labels) <= set(reader.ids)
    assert external_references(text) == []
    assert list(page.parent.iterdir()) == [page]


def test_the_charts_have_the_counts_of_the_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = charts(text)
    (key,) = re.findall(r'id="(run-\d+-causal)"', section(text, "messages.csv"))
    assert found[f"{key}-pairs"]["data"]["values"] == [
        {"source": BANK, "process": SHOP, "violations": 2}
    ]
    bars = found[f"{key}-time"]["data"]["values"]
    assert [(bar["start"], bar["violations"]) for bar in bars if bar["violations"]] == [
        (4.0, 1),
        (6.0, 1),
    ]
    # Times from 0 to 9 in buckets of 0.2 seconds.
    assert len(bars) == 46
    assert sum(bar["deliveries"] for bar in bars) == 4


def test_a_run_without_times_is_shown_by_the_order_of_its_events(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    part = section(text, "all-kinds")
    found = charts(text)
    rows = {
        "causal": [2],
        "fifo": [2],
        "no-duplication": [4],
        "no-creation": [5],
        "liveness": [6],
    }
    for which, expected in rows.items():
        (key,) = re.findall(rf'id="(run-\d+-{which})"', part)
        bars = found[f"{key}-time"]["data"]["values"]
        assert [bar["start"] for bar in bars if bar["violations"]] == expected
        assert "position of the event" in found[f"{key}-time"]["encoding"]["x"]["title"]
    assert part.count('antecede-diagram"') == len(rows)


def test_names_are_text_and_not_html(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert BANK not in text
    assert SHOP not in text
    assert "&lt;b&gt;bank&lt;/b&gt;" in text


def test_texts_have_the_lines_of_the_file(page: Path) -> None:
    part = section(page.read_text(encoding="utf-8"), "messages.csv")
    assert "customer:1 (line 4) before &lt;b&gt;bank&lt;/b&gt;:1 (line 2)" in part


def test_a_page_of_runs_that_held_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run", [send(0, 1, 1), deliver(1, 0, 1)])
    out = tmp_path / "page.html"
    out.write_text("an earlier page")
    assert cli.main(["verify", str(run), "--report", str(out)]) == 0
    assert f"wrote {out}" in capsys.readouterr().out
    text = out.read_text(encoding="utf-8")
    assert "No violations: every property held in the run." in text
    assert charts(text) == {}
    assert "an earlier page" not in text


def test_a_run_that_cannot_be_verified_is_listed_with_its_error(tmp_path: Path) -> None:
    good = write(tmp_path / "good", FIGURE)
    bad = write(tmp_path / "bad", [send(0, 1, 1), send(0, 1, 1)])
    unreadable = tmp_path / "a.csv"
    unreadable.write_text("no header")
    foreign = write_sample(tmp_path / "shop.csv", span_csv(SHOP_SPANS))
    out = tmp_path / "page.html"
    inputs = [good, bad, unreadable, foreign]
    assert cli.main(["verify", *map(str, inputs), "--report", str(out)]) == 2
    text = out.read_text(encoding="utf-8")
    assert "0:1 is sent twice" in text
    assert "a.csv: line 1: unknown format" in text
    assert 'id="run-1-causal"' in text
    assert 'id="run-2-fifo"' in text


def test_the_printed_verdict_does_not_depend_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run", OVERTAKEN)
    words = ["verify", str(run), "--max-violations", "0"]
    assert cli.main(words) == 1
    alone = capsys.readouterr().out
    out = tmp_path / "page.html"
    assert cli.main([*words, "--report", str(out)]) == 1
    assert capsys.readouterr().out == f"{alone}wrote {out}\n"
    assert cli.main([*words, "--json", "--report", str(out)]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["violations"] == []
    assert f"wrote {out}" in captured.err
    # The page lists violations that the command does not print.
    assert 'antecede-diagram"' in out.read_text(encoding="utf-8")


def test_a_directory_is_not_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run", FIGURE)
    assert cli.main(["verify", str(run), "--report", str(tmp_path)]) == 2
    assert "is a directory: give the name of a file" in capsys.readouterr().err


def test_a_file_that_cannot_be_replaced_keeps_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "page.html"
    out.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("antecede.report.rendering.os.replace", fail)
    with pytest.raises(StorageError, match="No space left on device"):
        write_atomically(out, "new")
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_the_numbers_of_the_page_are_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = write_sample(tmp_path / "messages.csv", MESSAGES)
    words = ["verify", str(messages), "--json", "--max-violations", "0"]
    assert cli.main(words) == 1
    assert "breakdown" not in json.loads(capsys.readouterr().out)
    assert cli.main([*words, "--report", str(tmp_path / "page.html")]) == 1
    found = json.loads(capsys.readouterr().out)["breakdown"]
    assert found["pairs"] == [
        {"property": "causal", "source": BANK, "process": SHOP, "violations": 2}
    ]
    # The run lasts from 0 s to 9 s: 46 parts of 0.2 s, the last of which begins at 9 s.
    assert found["unit"] == "seconds"
    assert len(found["starts"]) == 47
    assert (found["starts"][0], found["starts"][-1]) == (0.0, 9.2)
    (counts,) = found["violations"].values()
    times = {found["starts"][i]: count for i, count in enumerate(counts) if count}
    assert times == {4.0: 1, 6.0: 1}
    assert sum(found["deliveries"]) == 4


def test_a_verdict_without_a_breakdown_is_an_error(tmp_path: Path) -> None:
    run = write(tmp_path / "run", FIGURE)
    with pytest.raises(ConfigError, match="breakdown"):
        VerificationPage().add("run", read_trace(run), verify_trace(run))


def test_a_heat_map_shows_the_processes_with_the_most_violations() -> None:
    pairs = [
        PairCount(property=CAUSAL, process=7, source=source, count=count)
        for source, count in enumerate(range(100, 100 + NAMES_MAX + 2))
    ]
    found = heat_map(pairs, str, row_title="source")
    assert found.left_out == 100 + 101
    shown = {value["source"] for value in found.spec["data"]["values"]}
    assert shown == {str(source) for source in range(2, NAMES_MAX + 2)}


def test_paths_are_counted_by_the_processes_of_their_chains() -> None:
    def violation(*chain: tuple[int, int]) -> Violation:
        messages = tuple(MessageId(*each) for each in chain)
        return Violation(property=CAUSAL, process=9, message=messages[-1], chain=messages)

    violations = [
        violation((0, 1), (0, 2), (1, 1)),
        violation((0, 1), (0, 2), (1, 1), (2, 1)),
        violation((0, 5), (1, 2)),
        Violation(property=Property.LIVENESS, process=9, message=MessageId(0, 1)),
    ]
    first, second = worst_paths(violations, ["a", "b", "c", "d"], "p{}".format)
    assert (first.processes, first.process, first.violations) == (("p0", "p1"), "p9", 2)
    assert (first.messages, first.example) == (3, "a")
    assert (second.processes, second.violations, second.messages) == (
        ("p0", "p1", "p2"), 1, 4,
    )  # fmt: skip


def test_a_diagram_needs_no_linear_extension_on_disk(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from antecede.diagram.message_events import read_messages
    from antecede.report.verification.examples import draw_examples

    run = write(tmp_path / "run", FIGURE)
    expected = draw_examples(
        partial(read_messages, read_trace(run)), verify_trace(run).violations, {}
    )
    table = pq.read_table(run / "events.parquet")
    order = Random(3).sample(range(table.num_rows), table.num_rows)
    pq.write_table(table.take(pa.array(order)), run / "events.parquet")
    found = draw_examples(
        partial(read_messages, read_trace(run)), verify_trace(run).violations, {}
    )
    arrows = r'data-message="\d+:\d+" data-target="\d+"'
    for which in expected:
        ours, theirs = found[which].svg or "", expected[which].svg or ""
        assert sorted(re.findall(arrows, ours)) == sorted(re.findall(arrows, theirs))
        assert ours.count('class="arrow') == theirs.count('class="arrow') == 4


@pytest.fixture(scope="module")
def visit(browser: "Browser", page: Path) -> Iterator[Visit]:
    visit = Visit(browser, page, 1200, "light")
    yield visit
    visit.context.close()


@needs_chromium
def test_a_browser_shows_every_chart_and_diagram(visit: Visit, page: Path) -> None:
    assert visit.messages == []
    assert visit.requests == [page.as_uri()]
    assert visit.page.title().startswith("Where order was violated")
    # Five properties of all-kinds, one of messages.csv, two of shop.csv.
    parts = visit.page.locator("section.grid")
    assert parts.count() == 8
    for index in range(8):
        part = parts.nth(index)
        assert part.locator(".heat-map svg .mark-rect path").count() > 0
        assert part.locator(".timeline svg .mark-rect path").count() > 0
        assert part.locator("svg.antecede-diagram .message.violation").count() > 0
    assert visit.page.locator("table.paths").count() == 3


@needs_chromium
def test_a_browser_shows_names_as_text(visit: Visit) -> None:
    row = visit.page.locator("table.overtakings tbody tr").filter(has_text=BANK)
    assert row.locator("td").all_inner_texts() == [BANK, "customer", SHOP, "2"]
    labels = visit.page.locator(".heat-map .role-axis-label text").all_text_contents()
    assert BANK in labels
    assert visit.page.locator("main b").count() == 0


@needs_chromium
def test_the_early_delivery_is_marked(visit: Visit) -> None:
    part = visit.page.locator("section.grid").filter(has_text="customer:1 (line 4)").first
    dot = part.locator("svg.antecede-diagram .around.violation .dot").first
    assert dot.evaluate("dot => getComputedStyle(dot).strokeWidth") == "5px"
    other = part.locator("svg.antecede-diagram .violation:not(.around) .dot").first
    assert other.evaluate("dot => getComputedStyle(dot).strokeWidth") != "5px"


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_not_wider_than_a_phone(
    browser: "Browser", page: Path, scheme: str
) -> None:
    visit = Visit(browser, page, 390, scheme)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert visit.messages == []
    visit.context.close()
