"""The page works offline, is valid HTML, and shows the values of the tables."""

import csv
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from antecede.errors import StorageError
from antecede.report import ReportFiles, write_report
from antecede.report.comparison import (
    RANKED_MEASURES,
    count_wins,
    decimals,
    main_configuration,
    winners,
)
from antecede.report.overview import (
    count_verdicts,
    describe_verdicts,
    describe_winners,
)
from antecede.report.schedule import draw_schedule
from antecede.report.tables import Tables, read_tables
from tests.report.study_builder import make_study, write_synthetic_study
from tests.report.study_fixtures import STUDY

VOID = {"meta", "link", "input", "br", "img", "hr"}
ADDRESSES = ("src", "href", "srcset", "action", "data", "poster", "xlink:href")


class Reader(HTMLParser):
    """Collects the addresses, ids and tags of a page."""

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


def external_references(text: str) -> list[str]:
    """Return the addresses that a page would fetch."""
    reader = read(text)
    found = [a for a in reader.addresses if re.match(r"(?i)\s*([a-z]+:)?//", a)]
    found += [a for a in reader.addresses if re.match(r"(?i)(http|ftp|ws)", a)]
    styles = "".join(reader.styles)
    return found + re.findall(r"(?i)@import[^;]*|url\([^)]*\)", styles)


@pytest.fixture(scope="module")
def page(report: ReportFiles) -> str:
    return report.page.read_text(encoding="utf-8")


def test_the_page_has_no_external_references(page: str) -> None:
    assert external_references(page) == []


@pytest.mark.parametrize(
    "reference",
    [
        '<script src="https://example.org/vega.js"></script>',
        '<img src="//example.org/a.png">',
        '<link href="http://example.org/a.css">',
        "<style>@import 'a.css';</style>",
        '<p style="background: url(a.png)"></p>',
    ],
)
def test_an_external_reference_is_detected(page: str, reference: str) -> None:
    assert external_references(page.replace("</main>", f"{reference}</main>"))


def test_the_content_security_policy_forbids_all_requests(page: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none';")
    assert "http" not in policy[1]


def test_the_targets_of_all_links_exist(page: str, report: ReportFiles) -> None:
    reader = read(page)
    for address in reader.addresses:
        if address.startswith("#"):
            assert address[1:] in reader.ids, address
        elif not address.startswith("data:"):
            assert (report.page.parent / address).is_file(), address


def test_ids_are_unique_and_every_label_refers_to_one(page: str) -> None:
    reader = read(page)
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.labels) <= set(reader.ids)


def test_the_page_has_the_elements_that_assistive_technology_needs(page: str) -> None:
    reader = read(page)
    assert reader.attributes["html"]["lang"] == "en"
    assert reader.tags.count("h1") == 1
    assert reader.tags.count("caption") == reader.tags.count("table")
    assert {"main", "header", "nav", "figure", "figcaption"} <= set(reader.tags)
    assert reader.open == []


def test_text_of_a_study_is_escaped(tiny: Path, page: str, tmp_path: Path) -> None:
    assert "A &lt;small&gt; study &amp; nothing more" in page
    shutil.copytree(tiny, tmp_path / "evil")
    note = {"name": "evil", "title": "<script>alert(1)</script>"}
    note["skipped"] = ["</script><img src=x>"]  # type: ignore[assignment]
    (tmp_path / "evil" / "study.json").write_text(json.dumps(note))
    error = {"error": "Oops: <img src=x>", "seed": "1", "command": "antecede simulate"}
    (tmp_path / "evil" / "errors").mkdir()
    (tmp_path / "evil" / "errors" / "hybrid-1.json").write_text(json.dumps(error))
    files = write_report([tmp_path / "evil"], tmp_path / "report.html")
    text = files.page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img src=x>" not in text
    assert "hybrid-1: Oops: &lt;img src=x&gt;" in text


def test_a_page_can_have_several_studies(tiny: Path, tmp_path: Path) -> None:
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
    by_name = {path.name: path for path in report.csv_tables}
    with by_name["small-summary.csv"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    summary = tables.studies[0].summary
    assert len(rows) == len(summary)
    for row, wanted in zip(rows, summary, strict=True):
        assert row["group"] == wanted.group
        assert row["mean"] == ("" if wanted.mean is None else repr(wanted.mean))
    with by_name["claims.csv"].open(encoding="utf-8", newline="") as file:
        statuses = [row["status"] for row in csv.DictReader(file)]
    assert statuses == [result.status.value for _, result in report.claim_results]


def test_files_of_an_earlier_report_are_removed(tiny: Path, tmp_path: Path) -> None:
    stale = tmp_path / "report_files" / "figures" / "stale.svg"
    other = tmp_path / "report_files" / "notes.txt"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    other.write_text("mine")
    write_report([tiny], tmp_path / "report.html")
    assert not stale.exists()
    assert other.read_text() == "mine"


def test_a_page_that_cannot_be_written_is_an_error(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_report([tiny], tmp_path / "file" / "report.html")


def test_one_protocol_violates_causal_order_on_the_schedule() -> None:
    broken, kept = draw_schedule()
    assert (broken.protocol, broken.held) == ("unordered", False)
    assert (kept.protocol, kept.held) == ("hybrid", True)
    assert len(broken.violations) == 1
    assert "-> 2:2 ->" in broken.violations[0]  # By way of a third process.
    assert broken.command.replace("--protocol unordered ", "") == kept.command


def test_the_sentences_say_that_all_promises_held(tables: Tables) -> None:
    text = " ".join(describe_verdicts(tables))
    assert "protocols that promise causal order, all properties held." in text
    assert re.search(
        r"Without a promise of causal order, unordered violated it in [1-9]\d* of 12 runs",
        text,
    )


def test_flooding_on_changing_links_is_counted_as_without_a_promise(
    tmp_path: Path,
) -> None:
    study = {
        **STUDY,
        "protocols": ["flood", "pc-broadcast"],
        "processes": [6],
        "workloads": {"all": {"workload": "broadcast:senders=2"}},
        "networks": {
            "ring": {"overlay": "ring", "reliable": True},
            "spray": {"overlay": "spray:exchange_s=5,until_s=10", "reliable": True},
        },
    }
    tables = read_tables([make_study(tmp_path, study)])
    counts = {(c.protocol, c.promises_order): c.runs for c in count_verdicts(tables)}
    assert counts == {("flood", True): 2, ("flood", False): 2, ("pc-broadcast", True): 4}
    assert "flood on changing links violated it in" in " ".join(describe_verdicts(tables))
    latency = next(each for each in RANKED_MEASURES if each.measure == "latency_mean")
    assert {each.comparisons for each in count_wins(tables, latency)} == {1}


def test_the_sentences_name_a_protocol_that_violated_its_promise(tmp_path: Path) -> None:
    study = {**STUDY, "protocols": ["hybrid", "matrix"], "processes": [8]}
    made = make_study(tmp_path, study, substitutes={"hybrid": "unordered"})
    text = " ".join(describe_verdicts(read_tables([made])))
    assert re.search(r"violated a property: hybrid \(causal in [1-4] of 4 runs\)", text)


def test_the_sentences_name_the_frequent_winners(
    tables: Tables,
) -> None:
    sentences = describe_winners(tables)
    assert len(sentences) == sum(
        bool(count_wins(tables, ranked)) for ranked in RANKED_MEASURES
    )
    assert sentences[0].startswith("Protocols with the lowest mean latency: ")


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


def test_wins_are_counted_in_every_configuration(tables: Tables) -> None:
    latency = RANKED_MEASURES[0]
    metadata = next(r for r in RANKED_MEASURES if r.measure == "metadata_bytes_mean")
    assert {
        each.protocol: each.comparisons for each in count_wins(tables, latency)
    } == dict.fromkeys(("hybrid", "buffer", "cykas", "matrix", "optimal"), 6)
    assert sum(each.wins for each in count_wins(tables, latency)) >= 6
    by_name = {each.protocol: each.wins for each in count_wins(tables, metadata)}
    assert by_name["matrix"] == 0
    assert len(winners(tables)) == 6


def test_the_main_configuration_compares_all_protocols_of_the_largest_group(
    tables: Tables,
) -> None:
    configuration = main_configuration(tables)
    assert configuration is not None
    assert configuration.row.processes == 16
    assert set(configuration.rows) == set(tables.protocols())
    for protocol, rows in configuration.rows.items():
        for measure, row in rows.items():
            assert (row.protocol, row.measure) == (protocol, measure)
            assert row.configuration == configuration.row.configuration


def test_without_two_ordered_protocols_there_is_no_main_configuration(tiny: Path) -> None:
    assert main_configuration(read_tables([tiny])) is None
    assert main_configuration(Tables(studies=())) is None


def test_the_page_opens_with_the_costs_and_ends_with_the_claims(page: str) -> None:
    sections = re.findall(r'<section id="([^"]+)"', page)
    assert sections == [
        "costs",
        "verdicts",
        "schedule",
        "study-small",
        "claims",
        "complexities",
        "reproduce",
    ]
    claims = page.index('<section id="claims"')
    assert page.rindex("<figure") < claims
    assert page.index('class="cost-chart"') < page.index("<table")


def test_the_cost_charts_have_the_values_of_the_tables(page: str, tables: Tables) -> None:
    found = re.search(r'id="charts-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    costs = json.loads(found[1])["costs"]
    configuration = main_configuration(tables)
    assert configuration is not None
    latency: dict[str, float] = {}
    for value in costs["cost-latency"]["data"]["values"]:
        latency[value["protocol"]] = latency.get(value["protocol"], 0.0) + value["ms"]
    metadata = {
        value["protocol"]: value["bytes"]
        for value in costs["cost-metadata"]["data"]["values"]
        if value["kind"] == "on the message"
    }
    for name, rows in configuration.rows.items():
        mean = rows["latency_mean"].mean
        assert mean is not None
        assert latency[name] == pytest.approx(mean * 1000)
        assert metadata[name] == rows["metadata_bytes_mean"].mean
    assert "unordered (no order)" in json.dumps(costs["cost-latency"])


def test_the_page_says_that_percentiles_of_long_runs_are_from_a_sketch(
    tmp_path: Path,
) -> None:
    study = {"name": "long", "protocols": ["hybrid"], "processes": [4]}
    for copies, expected in ((16_777_216, 0), (16_777_217, 1)):
        directory = write_synthetic_study(
            tmp_path / str(copies),
            study,
            lambda scenario, copies=copies: {"copies": copies, "latency_p50": 0.1},  # type: ignore[misc]
        )
        text = write_report([directory], tmp_path / f"{copies}.html").page.read_text()
        found = text.count("values of a run are from a sketch, with a relative error of at")
        assert found == expected
