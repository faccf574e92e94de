"""The summary of a study in the terminal."""

from dataclasses import replace
from pathlib import Path

from antecede.report.claims.claim import ClaimStatus
from antecede.report.claims.papers import evaluate_claims
from antecede.report.overview import describe_verdicts
from antecede.report.tables import Tables, read_tables
from antecede.report.terminal_summary import summary_lines
from tests.report.study_builder import make_study
from tests.report.study_fixtures import STUDY

PAGE = Path("/results/report.html")


def check_size(lines: list[str]) -> None:
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 92


def test_the_summary_has_runs_verdicts_winners_claims_and_the_page(tables: Tables) -> None:
    lines = summary_lines(tables, PAGE)
    text = "\n".join(lines)
    check_size(lines)
    events = sum(verdict.events or 0 for verdict in tables.studies[0].verdicts)
    assert lines[0] == f"study small: 72 runs of 6 protocols, {events:,} events"
    assert "causal order promised: all properties held in 60 of 60 runs" in text
    assert "no order promised: violated by unordered in " in text
    for title in ("mean latency", "throughput", "metadata per message"):
        (row,) = [line for line in lines if line.startswith(f"  {title} ")]
        assert " of 6" in row
    assert "16 processes" in text
    assert lines[-2] == "report: /results/report.html"
    assert lines[-1].endswith("python3 -m webbrowser file:///results/report.html")


def test_the_claims_are_counted_and_those_that_do_not_hold_are_named(
    tables: Tables,
) -> None:
    results = evaluate_claims(tables)
    lines = summary_lines(tables, PAGE, results)
    assert lines == summary_lines(tables, PAGE)
    failed = [claim.id for claim, r in results if r.status is ClaimStatus.FAILS]
    held = sum(result.status is ClaimStatus.HOLDS for _, result in results)
    text = " ".join(line.strip() for line in lines)
    assert f"claims of the papers: {held} hold, " in text
    assert f"{len(failed)} do not hold" in text
    if failed:
        assert f"claims that do not hold: {', '.join(failed)}" in text


def test_a_violated_promise_is_named(tmp_path: Path) -> None:
    study = {**STUDY, "protocols": ["hybrid", "matrix"], "processes": [8]}
    directory = make_study(tmp_path, study, substitutes={"hybrid": "unordered"})
    lines = summary_lines(read_tables([directory]), PAGE)
    check_size(lines)
    assert "violated by hybrid (causal in " in " ".join(lines)


def test_runs_that_ended_early_are_not_counted_as_held(tables: Tables) -> None:
    (study,) = tables.studies
    ordered = {cell.cell for cell in study.cells if cell.protocol != "unordered"}
    early = [
        replace(verdict, statuses={**verdict.statuses, "liveness": "unknown"})
        if verdict.run in ordered and i % 2
        else verdict
        for i, verdict in enumerate(study.verdicts)
    ]
    count = sum(each.statuses["liveness"] == "unknown" for each in early)
    assert 0 < count < 60
    changed = Tables(studies=(replace(study, verdicts=tuple(early)),))
    text = " ".join(line.strip() for line in summary_lines(changed, PAGE))
    assert f"all properties held in {60 - count} of 60 runs; liveness unknown in" in text
    sentences = " ".join(describe_verdicts(changed))
    assert f"In {count} runs that ended early, liveness is unknown." in sentences
    assert f"In the {60 - count} verified runs" in sentences


def test_a_study_without_a_comparison_has_no_table_of_winners(tiny: Path) -> None:
    lines = summary_lines(read_tables([tiny]), PAGE)
    check_size(lines)
    assert not any("best protocol" in line for line in lines)


def test_without_studies_the_summary_has_no_runs() -> None:
    lines = summary_lines(Tables(studies=()), PAGE)
    check_size(lines)
    assert "0 runs" in lines[0]
