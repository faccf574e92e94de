"""The page needs nothing but itself, and says nothing that it should not."""

import csv
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from antecede.errors import ConfigError
from antecede.report import ReportFiles, write_report
from antecede.report.overview import (
    CONTESTS,
    count_verdicts,
    decimals,
    standings,
    tell,
    winners,
)
from antecede.report.schedule import draw_schedule
from antecede.report.tables import Tables, read_tables
from tests.report.studies import STUDY
from tests.report.made import make_study

VOID = {"meta", "link", "input", "br", "img", "hr"}
ADDRESSES = ("src", "href", "srcset", "action", "data", "poster", "xlink:href")


class Reader(HTMLParser):
    """Collects what a page refers to, and how it is built."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.tags: list[str] = []
        self.styles: list[str] = []
        self.open: list[str] = []
        self.attributes: dict[str, dict[str, str | None]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.attributes.setdefault(tag, given)
        self.addresses += [given[k] or "" for k in ADDRESSES if k in given]
        self.ids += [given["id"] or ""] if "id" in given else []
        self.labels += (given.get("aria-labelledby") or "").split()
        self.styles.append(given.get("style") or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.styles.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def strangers(text: str) -> list[str]:
    """Name what a page would have to fetch from elsewhere."""
    reader = read(text)
    found = [a for a in reader.addresses if re.match(r"(?i)\s*([a-z]+:)?//", a)]
    found += [a for a in reader.addresses if re.match(r"(?i)(http|ftp|ws)", a)]
    styles = "".join(reader.styles)
    return found + re.findall(r"(?i)@import[^;]*|url\([^)]*\)", styles)


@pytest.fixture(scope="module")
def page(report: ReportFiles) -> str:
    return report.page.read_text(encoding="utf-8")


def test_the_page_refers_to_nothing_outside(page: str) -> None:
    assert strangers(page) == []


@pytest.mark.parametrize(
    "stranger",
    [
        '<script src="https://example.org/vega.js"></script>',
        '<img src="//example.org/a.png">',
        '<link href="http://example.org/a.css">',
        "<style>@import 'a.css';</style>",
        '<p style="background: url(a.png)"></p>',
    ],
)
def test_a_reference_to_the_outside_is_noticed(page: str, stranger: str) -> None:
    assert strangers(page.replace("</main>", f"{stranger}</main>"))


def test_the_page_forbids_itself_to_fetch_anything(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none';")
    assert "http" not in policy[1]


def test_links_lead_to_places_and_files_that_are_there(
    page: str, report: ReportFiles
) -> None:
    reader = read(page)
    for address in reader.addresses:
        if address.startswith("#"):
            assert address[1:] in reader.ids, address
        elif not address.startswith("data:"):
            assert (report.page.parent / address).is_file(), address


def test_ids_are_there_once_and_every_label_is_one(page: str) -> None:
    reader = read(page)
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.labels) <= set(reader.ids)


def test_the_page_is_built_for_readers_of_all_kinds(page: str) -> None:
    reader = read(page)
    assert reader.attributes["html"]["lang"] == "en"
    assert reader.tags.count("h1") == 1
    assert reader.tags.count("caption") == reader.tags.count("table")
    assert {"main", "header", "nav", "figure", "figcaption"} <= set(reader.tags)
    assert reader.open == []


def test_words_of_a_study_are_text_and_never_markup(
    tiny: Path, page: str, tmp_path: Path
) -> None:
    assert "A &lt;small&gt; study &amp; nothing more" in page
    shutil.copytree(tiny, tmp_path / "evil")
    note = {"name": "evil", "title": "<script>alert(1)</script>"}
    note["left_out"] = ["</script><img src=x>"]  # type: ignore[assignment]
    (tmp_path / "evil" / "study.json").write_text(json.dumps(note))
    error = {"error": "Oops: <img src=x>", "seed": "1", "command": "antecede simulate"}
    (tmp_path / "evil" / "errors").mkdir()
    (tmp_path / "evil" / "errors" / "hybrid-1.json").write_text(json.dumps(error))
    files = write_report([tmp_path / "evil"], tmp_path / "report.html")
    text = files.page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img src=x>" not in text
    assert "hybrid-1: Oops: &lt;img src=x&gt;" in text


def test_several_studies_share_a_page(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "other")
    (tmp_path / "other" / "study.json").write_text(json.dumps({"name": "other"}))
    files = write_report([tiny, tmp_path / "other"], tmp_path / "report.html")
    reader = read(files.page.read_text(encoding="utf-8"))
    assert {"study-tiny", "study-other"} <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))


def test_the_same_tables_give_the_same_page(
    study: Path, report: ReportFiles, tmp_path: Path
) -> None:
    again = write_report([study], tmp_path / "report.html")
    assert again.page.read_bytes() == report.page.read_bytes()
    assert [p.name for p in again.figures] == [p.name for p in report.figures]
    assert again.figures[0].read_bytes() == report.figures[0].read_bytes()


def test_tables_are_written_as_csv_with_every_row(
    tables: Tables, report: ReportFiles
) -> None:
    by_name = {path.name: path for path in report.tables}
    with by_name["small-summary.csv"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    summary = tables.studies[0].summary
    assert len(rows) == len(summary)
    for row, wanted in zip(rows, summary, strict=True):
        assert row["group"] == wanted.group
        assert row["mean"] == ("" if wanted.mean is None else repr(wanted.mean))
    with by_name["claims.csv"].open(encoding="utf-8", newline="") as file:
        verdicts = [row["verdict"] for row in csv.DictReader(file)]
    assert verdicts == [finding.outcome.value for _, finding in report.findings]


def test_files_of_an_earlier_report_do_not_stay(tiny: Path, tmp_path: Path) -> None:
    stale = tmp_path / "report_files" / "figures" / "stale.svg"
    other = tmp_path / "report_files" / "notes.txt"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    other.write_text("mine")
    write_report([tiny], tmp_path / "report.html")
    assert not stale.exists()
    assert other.read_text() == "mine"


def test_a_page_that_cannot_be_written_is_refused(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"):
        write_report([tiny], tmp_path / "file" / "report.html")


def test_the_schedule_is_broken_by_one_protocol_and_kept_by_the_other() -> None:
    broken, kept = draw_schedule()
    assert (broken.protocol, broken.held) == ("unordered", False)
    assert (kept.protocol, kept.held) == ("hybrid", True)
    assert len(broken.violations) == 1
    assert "-> 2:2 ->" in broken.violations[0]  # By way of a third process.
    assert broken.command.replace("--protocol unordered ", "") == kept.command


def test_the_summary_says_that_promises_were_kept(tables: Tables) -> None:
    told = " ".join(tell(tables, {}))
    assert "of protocols that promise causal order none broke it" in told
    assert re.search(
        r"without that promise unordered broke it in [1-9]\d* of 12 runs", told
    )


def test_the_summary_expects_no_order_of_flooding_where_links_change(
    tmp_path: Path,
) -> None:
    study = {
        **STUDY,
        "protocols": ["flood", "preventive"],
        "sizes": [6],
        "workloads": {"all": {"workload": "broadcast:senders=2"}},
        "networks": {
            "ring": {"overlay": "ring", "reliable": True},
            "spray": {"overlay": "spray:exchange_s=5,until_s=10", "reliable": True},
        },
    }
    tables = read_tables([make_study(tmp_path, study)])
    counts = {(c.protocol, c.causal): c.runs for c in count_verdicts(tables)}
    assert counts == {("flood", True): 2, ("flood", False): 2, ("preventive", True): 4}
    assert "flood on links that change broke it in" in " ".join(tell(tables, {}))
    latency = next(each for each in CONTESTS if each.measure == "latency_mean")
    assert {each.entered for each in standings(tables, latency)} == {1}


def test_the_summary_names_a_protocol_that_broke_its_promise(tmp_path: Path) -> None:
    study = {**STUDY, "protocols": ["hybrid", "matrix"], "sizes": [8]}
    made = make_study(tmp_path, study, impostors={"hybrid": "unordered"})
    told = " ".join(tell(read_tables([made]), {}))
    assert re.search(r"broke a property: hybrid \(causal in [1-4] of 4 runs\)", told)


@pytest.mark.parametrize(
    ("values", "digits"),
    [
        ([0.01234, 0.5], 4),
        ([3.0, 10004.0], 2),
        ([250.0, 3.0e6], 0),
        ([0.0, None, 0.0], 0),
        ([1e-12], 6),
    ],
)
def test_a_column_has_as_many_decimals_as_its_small_values_need(
    values: list[float | None], digits: int
) -> None:
    assert decimals(values) == digits


def test_who_is_best_is_counted_in_every_setting(tables: Tables) -> None:
    latency, *_, metadata = CONTESTS
    assert {
        each.protocol: each.entered for each in standings(tables, latency)
    } == dict.fromkeys(("hybrid", "buffer", "cykas", "matrix", "optimal"), 6)
    assert sum(each.won for each in standings(tables, latency)) >= 6
    by_name = {each.protocol: each.won for each in standings(tables, metadata)}
    assert by_name["matrix"] == 0
    assert len(winners(tables)) == 6
