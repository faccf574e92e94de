"""Summarize a finished study in a few lines of text for the terminal."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from antecede.report.claims.claim import Claim, ClaimResult, ClaimStatus
from antecede.report.claims.papers import evaluate_claims
from antecede.report.comparison import (
    RANKED_MEASURES,
    best_rows,
    count_wins,
    format_value,
    main_configuration,
)
from antecede.report.overview import (
    VerdictCount,
    count_events,
    count_verdicts,
    frequent_winners,
    join_words,
)
from antecede.report.tables import Tables

__all__ = ["summary_lines"]

COLUMNS = 92
LINES_MAX = 3
"""The most lines of one list of names."""


def summary_lines(
    tables: Tables,
    page_path: Path,
    claim_results: Sequence[tuple[Claim, ClaimResult]] | None = None,
) -> list[str]:
    """Return at most 25 lines of at most 92 columns about a finished study.

    The lines give the number of runs, the verdicts, the best protocol by each measure, the
    claims that do not hold, and the path of the report's page. A long path may exceed 92
    columns.

    Args:
        tables: The tables of the study, or of several studies.
        page_path: The page of the report.
        claim_results: The results of all claims; None to compute them from the tables.
    """
    results = evaluate_claims(tables) if claim_results is None else claim_results
    counts = count_verdicts(tables)
    runs = sum(count.runs for count in counts)
    names = join_words([study.name for study in tables.studies])
    noun = "study" if len(tables.studies) == 1 else "studies"
    return [
        *_wrapped(
            f"{noun} {names}: {runs:,} runs of {len(tables.protocols())} protocols,"
            f" {count_events(tables):,} events"
        ),
        *_verdict_lines(counts),
        *_winner_lines(tables),
        *_claim_lines(results),
        f"report: {page_path}",
        f"open it with: python3 -m webbrowser {page_path.absolute().as_uri()}",
    ]


def _verdict_lines(counts: Sequence[VerdictCount]) -> list[str]:
    ordered = [count for count in counts if count.promises_order]
    lines = []
    if ordered:
        no_verdict = sum(count.no_verdict for count in ordered)
        verified = sum(count.runs for count in ordered) - no_verdict
        unknown = sum(count.unknown_runs for count in ordered)
        held = verified - unknown - sum(count.broken_runs for count in ordered)
        broken = [
            f"{count.protocol} ({which} in {times} of {count.runs} runs)"
            for count in ordered
            for which, times in count.violated.items()
            if times
        ]
        text = (
            f"causal order promised: all properties held in {held:,} of {verified:,} runs"
        )
        if broken:
            text += f"; violated by {join_words(broken)}"
        if unknown:
            text += f"; liveness unknown in {unknown:,} that ended early"
        if no_verdict:
            text += f"; {no_verdict:,} runs have no verdict"
        lines += _wrapped(text)
    unordered = [
        f"{count.protocol}{count.qualifier} in {count.violated['causal']:,} of"
        f" {count.runs:,} runs"
        for count in counts
        if not count.promises_order
    ]
    if unordered:
        lines += _wrapped(f"no order promised: violated by {join_words(unordered)}")
    return lines


def _winner_lines(tables: Tables) -> list[str]:
    configuration = main_configuration(tables)
    if configuration is None:
        return []
    rows = [("best protocol by", "in the main configuration", "in most configurations")]
    for ranked in RANKED_MEASURES:
        best = best_rows(tables, configuration, ranked)
        if not best:
            continue
        value = format_value(ranked.measure, best[0].mean or 0.0)
        main = f"{_first([row.protocol for row in best])}: {value}"
        frequent = frequent_winners(count_wins(tables, ranked))
        most = ""
        if frequent:
            wins, comparisons = frequent[0].wins, frequent[0].comparisons
            names = [
                each.protocol
                for each in frequent
                if (each.wins, each.comparisons) == (wins, comparisons)
            ]
            most = f"{_first(names)}: {wins} of {comparisons}"
        rows.append((ranked.title, main, most))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [
        *(
            f"  {title:{widths[0]}}  {main:{widths[1]}}  {most}".rstrip()
            for title, main, most in rows
        ),
        *_wrapped(f"  main configuration: {configuration.label}; +n: n others share it"),
    ]


def _first(names: Sequence[str]) -> str:
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else names[0]


def _claim_lines(results: Sequence[tuple[Claim, ClaimResult]]) -> list[str]:
    totals = dict.fromkeys(ClaimStatus, 0)
    for _, result in results:
        totals[result.status] += 1
    lines = _wrapped(
        f"claims of the papers: {totals[ClaimStatus.HOLDS]} hold,"
        f" {totals[ClaimStatus.PARTLY]} hold in part, {totals[ClaimStatus.FAILS]} do not"
        f" hold, {totals[ClaimStatus.NOT_MEASURED]} not measured"
    )
    failed = [claim.id for claim, result in results if result.status is ClaimStatus.FAILS]
    if failed:
        lines += _wrapped(f"  claims that do not hold: {', '.join(failed)}")
    return lines


def _wrapped(text: str) -> list[str]:
    indent = " " * (4 if text.startswith(" ") else 2)
    lines = wrap(text, COLUMNS, subsequent_indent=indent)
    if len(lines) > LINES_MAX:
        lines = lines[:LINES_MAX]
        lines[-1] = f"{lines[-1][: COLUMNS - 4]} ..."
    return lines
