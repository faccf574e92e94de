"""Claims of Almeida on metadata, state and processor time."""

from dataclasses import replace
from functools import partial

from antecede.report.claims.claim import Claim, ClaimResult, ClaimStatus, not_measured
from antecede.report.claims.evidence import curves, format_range, ratios
from antecede.report.claims.rules import by_share, exponent_between
from antecede.report.tables import Tables

__all__ = ["CLAIMS", "PAPER"]

PAPER = "Almeida: hybrid buffering"
CONSTANT = 0.1
"""The largest exponent of a measure that counts as constant."""
CONSTANT_WORK = 0.3
"""The same for processor time, which cannot be measured exactly."""
LONG_NUMBERS = "Larger numbers take more bytes, so bytes grow slightly if counts do not."

claim = partial(Claim, paper=PAPER, study="table1")


def _metadata(
    protocol: str, low: float, high: float, explanation: str, tables: Tables
) -> ClaimResult:
    found = curves(tables, "metadata_bytes_mean", protocol, span=4)
    extra = ""
    if found:
        largest = max((c.points[-1][1] for c in found), key=lambda row: row.processes)
        extra = f"; {largest.mean:,.1f} bytes at n = {largest.processes:,}"
    return exponent_between(found, low, high, extra=extra, explanation=explanation)


def _work(
    measure: str, protocol: str, low: float, high: float, part: float, tables: Tables
) -> ClaimResult:
    found = curves(tables, measure, protocol, span=4)
    explanation = "For small n, work that does not depend on n dominates."
    if high <= CONSTANT_WORK:
        explanation = (
            "Processor time also depends on caches and on the load of the machine."
        )
    result = exponent_between(found, low, high, explanation=explanation)
    near = all(curve.fit.exponent >= part for curve in found)
    if result.status is ClaimStatus.FAILS and near and low >= part:
        return replace(result, status=ClaimStatus.PARTLY)
    return result


def _optimal_growth(tables: Tables) -> ClaimResult:
    found = curves(tables, "metadata_bytes_mean", "optimal", span=4)
    explanation = (
        "Metadata depends on the number of processes that each process sends to: a process"
        " that never received a message needs no entry."
    )
    result = exponent_between(found, 0.9, 1.5, explanation=explanation)
    below = all(curve.fit.exponent < 1.5 for curve in found)
    if result.status is ClaimStatus.FAILS and below:
        return replace(result, status=ClaimStatus.PARTLY)
    return result


def _share_of_matrix(tables: Tables) -> ClaimResult:
    rows = ratios(tables, "metadata_bytes_mean", "optimal", "matrix")
    shares = [row.mean or 0.0 for row in rows if row.processes >= 30]
    if not shares:
        return not_measured()
    good = sum(0.05 <= share <= 0.35 for share in shares)
    explanation = (
        "This report counts bytes: a small count takes one byte in the matrix, an entry of"
        " the optimal protocol several."
    )
    if min(shares) < 0.05:
        explanation = f"The share falls to {min(shares):.1%} for large n. {explanation}"
    observed = f"{format_range(shares, '{:.1%}')} of the matrix's bytes"
    return by_share(observed, good, len(shares), explanation=explanation, partly_share=0.3)


CLAIMS = (
    claim(
        id="A1",
        section="Table 1, space; §5",
        claim="A message of hybrid buffering carries a constant amount of metadata for any"
        " number of processes.",
        measurement="Metadata bytes per message against n",
        rule=f"the fitted exponent is at most {CONSTANT} on every curve",
        decide=partial(_metadata, "hybrid", -CONSTANT, CONSTANT, LONG_NUMBERS),
    ),
    claim(
        id="A2",
        section="Table 1, space",
        claim="A message of the matrix protocol (RST) carries n² counts.",
        measurement="Metadata bytes per message against n",
        rule="the exponent is between 1.8 and 2.2",
        decide=partial(_metadata, "matrix", 1.8, 2.2, LONG_NUMBERS),
    ),
    claim(
        id="A3",
        section="§3.1",
        claim="A message of the optimal protocol (KS) carries about n^k entries, where k is"
        " closer to 1 than to 2 and at least 1.",
        measurement="Metadata bytes per message against n",
        rule="the exponent is between 0.9 and 1.5; in part if it is below 1.5",
        decide=_optimal_growth,
    ),
    claim(
        id="A4",
        section="§1, citing Chandra et al.",
        claim="In practice the optimal protocol needs 5 to 35 % of the metadata of the"
        " matrix protocol.",
        measurement="Metadata bytes of optimal divided by those of matrix in the same"
        " configuration, n at least 30",
        rule="the share is between 5 and 35 % in every configuration",
        decide=_share_of_matrix,
    ),
    claim(
        id="A5",
        section="Table 1, space",
        claim="A message of Newtop carries a constant amount of metadata.",
        measurement="Metadata bytes per message against n",
        rule=f"the exponent is at most {CONSTANT}",
        decide=partial(_metadata, "newtop", -CONSTANT, CONSTANT, LONG_NUMBERS),
    ),
    claim(
        id="A6",
        section="Table 1, space",
        claim="A message of Cykas carries a constant amount of metadata.",
        measurement="Metadata bytes per message against n",
        rule=f"the exponent is at most {CONSTANT}",
        decide=partial(_metadata, "cykas", -CONSTANT, CONSTANT, LONG_NUMBERS),
    ),
    claim(
        id="A7",
        section="Table 1, space at a process",
        claim="The state of a hybrid buffering process depends on its peers and messages,"
        " not on the number of all processes.",
        measurement="Numbers kept by a process against n",
        rule="the exponent is at most 0.2",
        decide=lambda tables: exponent_between(
            curves(tables, "state_numbers_mean", "hybrid", span=4),
            -1,
            0.2,
            explanation="With uniform traffic, the number of peers grows with n.",
        ),
    ),
    claim(
        id="A8",
        section="Table 1, space at a process",
        claim="A process of the matrix protocol keeps n² numbers.",
        measurement="Numbers kept by a process against n",
        rule="the exponent is between 1.7 and 2.3",
        decide=lambda tables: exponent_between(
            curves(tables, "state_numbers_mean", "matrix", span=4), 1.7, 2.3
        ),
    ),
    claim(
        id="A9",
        section="Table 1, computation; §5.6",
        claim="Hybrid buffering takes amortised constant time at the sender.",
        measurement="Processor time per message at the sender against n",
        rule=f"the exponent is at most {CONSTANT_WORK}",
        decide=partial(_work, "sender_work_us", "hybrid", -1, CONSTANT_WORK, 0),
    ),
    claim(
        id="A10",
        section="Table 1, computation; §5.6",
        claim="Hybrid buffering takes amortised constant time at the receiver.",
        measurement="Processor time per message at the receiver against n",
        rule=f"the exponent is at most {CONSTANT_WORK}",
        decide=partial(_work, "receiver_work_us", "hybrid", -1, CONSTANT_WORK, 0),
    ),
    claim(
        id="A11",
        section="Table 1, computation",
        claim="The matrix protocol takes time proportional to n² at the receiver.",
        measurement="Processor time per message at the receiver against n",
        rule="the exponent is between 1.5 and 2.3; in part if it is at least 0.8",
        decide=partial(_work, "receiver_work_us", "matrix", 1.5, 2.3, 0.8),
    ),
)
