"""Claims of Almeida: causal delivery through hybrid buffering."""

from dataclasses import replace
from functools import partial

from antecede.report.claims.claim import Claim, Finding, Outcome, unmeasured
from antecede.report.claims.evidence import (
    curves,
    ratios,
    spread,
)
from antecede.report.claims.rules import by_share, grown
from antecede.report.tables import Tables

__all__ = ["CLAIMS", "PAPER"]

PAPER = "Almeida: hybrid buffering"
CONSTANT = 0.1
"""An exponent up to this counts as constant."""
STEADY = 0.3
"""The same for processor time, which is never measured exactly."""
LONG_NUMBERS = (
    "Numbers take more bytes as they grow, so bytes grow a little where counts do not."
)

claim = partial(Claim, paper=PAPER, study="table1")


def _metadata(protocol: str, low: float, high: float, why: str, tables: Tables) -> Finding:
    found = curves(tables, "metadata_bytes_mean", protocol, span=4)
    at = [curve.points[-1][1] for curve in found]
    extra = ""
    if at:
        most = max(at, key=lambda row: row.processes)
        extra = f"; {most.mean:,.1f} bytes at n = {most.processes:,}"
    return grown(found, low, high, extra=extra, why=why)


def _work(
    measure: str, protocol: str, low: float, high: float, part: float, tables: Tables
) -> Finding:
    found = curves(tables, measure, protocol, span=4)
    why = "While n is small, what does not depend on it outweighs what does."
    if high <= STEADY:
        why = "Processor time also depends on caches, and on what else the machine does."
    finding = grown(found, low, high, why=why)
    near = all(curve.fit.exponent >= part for curve in found)
    if finding.outcome is Outcome.FAILS and near and low >= part:
        return replace(finding, outcome=Outcome.PART)
    return finding


def _optimal_growth(tables: Tables) -> Finding:
    found = curves(tables, "metadata_bytes_mean", "optimal", span=4)
    why = (
        "It depends on how many processes each one speaks to: entries for those that nobody"
        " has heard of cost nothing."
    )
    finding = grown(found, 0.9, 1.5, why=why)
    below = all(curve.fit.exponent < 1.5 for curve in found)
    if finding.outcome is Outcome.FAILS and below:
        return replace(finding, outcome=Outcome.PART)
    return finding


def _share_of_matrix(tables: Tables) -> Finding:
    found = [
        row
        for row in ratios(tables, "metadata_bytes_mean", "optimal", "matrix")
        if row.processes >= 30
    ]
    shares = [row.mean or 0.0 for row in found]
    if not shares:
        return unmeasured()
    good = sum(0.05 <= share <= 0.35 for share in shares)
    low = min(shares)
    why = (
        "Ours is counted in bytes: the matrix has one byte per small count, an entry of"
        " the optimal protocol several."
    )
    if low < 0.05:
        why = f"It is even less, down to {low:.1%}, where processes are many. " + why
    return by_share(
        f"{spread(shares, '{:.1%}')} of the matrix's bytes",
        good,
        len(shares),
        why=why,
        part=0.3,
    )


CLAIMS = (
    claim(
        id="A1",
        place="Table 1, space; §5",
        claim="A message of hybrid buffering carries a constant amount of metadata, however"
        " many processes there are.",
        measured="Bytes beside the payload against n",
        rule=f"the fitted exponent is at most {CONSTANT} on every curve",
        judge=partial(_metadata, "hybrid", -CONSTANT, CONSTANT, LONG_NUMBERS),
    ),
    claim(
        id="A2",
        place="Table 1, space",
        claim="A message of the matrix protocol (RST) carries n² counts.",
        measured="Bytes beside the payload against n",
        rule="the exponent is between 1.8 and 2.2",
        judge=partial(_metadata, "matrix", 1.8, 2.2, LONG_NUMBERS),
    ),
    claim(
        id="A3",
        place="§3.1",
        claim="The optimal protocol (KS) carries about n^k, k nearer to 1 than to 2, and"
        " never less than linear.",
        measured="Bytes beside the payload against n",
        rule="the exponent is between 0.9 and 1.5; in part if below 1.5",
        judge=_optimal_growth,
    ),
    claim(
        id="A4",
        place="§1, citing Chandra et al.",
        claim="In practice the optimal protocol needs 5 to 35 % of what the matrix needs.",
        measured="Bytes of optimal over those of matrix, same runs, n at least 30",
        rule="every setting is between 5 and 35 %",
        judge=_share_of_matrix,
    ),
    claim(
        id="A5",
        place="Table 1, space",
        claim="Newtop's messages carry a constant amount.",
        measured="Bytes beside the payload against n",
        rule=f"the exponent is at most {CONSTANT}",
        judge=partial(_metadata, "newtop", -CONSTANT, CONSTANT, LONG_NUMBERS),
    ),
    claim(
        id="A6",
        place="Table 1, space",
        claim="Messages of Cykas carry a constant amount.",
        measured="Bytes beside the payload against n",
        rule=f"the exponent is at most {CONSTANT}",
        judge=partial(_metadata, "cykas", -CONSTANT, CONSTANT, LONG_NUMBERS),
    ),
    claim(
        id="A7",
        place="Table 1, space at a process",
        claim="What a process of hybrid buffering keeps depends on its own peers and"
        " messages, never on the number of all processes.",
        measured="Numbers kept by a process against n",
        rule="the exponent is at most 0.2",
        judge=lambda tables: grown(
            curves(tables, "state_numbers_mean", "hybrid", span=4),
            -1,
            0.2,
            why="With uniform traffic everybody becomes a peer as n grows.",
        ),
    ),
    claim(
        id="A8",
        place="Table 1, space at a process",
        claim="A process of the matrix protocol keeps n² numbers.",
        measured="Numbers kept by a process against n",
        rule="the exponent is between 1.7 and 2.3",
        judge=lambda tables: grown(
            curves(tables, "state_numbers_mean", "matrix", span=4), 1.7, 2.3
        ),
    ),
    claim(
        id="A9",
        place="Table 1, computation; §5.6",
        claim="Hybrid buffering takes amortised constant time at the sender.",
        measured="Processor time per message against n",
        rule=f"the exponent is at most {STEADY}",
        judge=partial(_work, "sender_work_us", "hybrid", -1, STEADY, 0),
    ),
    claim(
        id="A10",
        place="Table 1, computation; §5.6",
        claim="Hybrid buffering takes amortised constant time at the receiver.",
        measured="Processor time per message against n",
        rule=f"the exponent is at most {STEADY}",
        judge=partial(_work, "receiver_work_us", "hybrid", -1, STEADY, 0),
    ),
    claim(
        id="A11",
        place="Table 1, computation",
        claim="The matrix protocol takes time in n² at the receiver.",
        measured="Processor time per message against n",
        rule="the exponent is between 1.5 and 2.3; in part if at least 0.8",
        judge=partial(_work, "receiver_work_us", "matrix", 1.5, 2.3, 0.8),
    ),
)
