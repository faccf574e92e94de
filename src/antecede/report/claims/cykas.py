"""Claims of Tong, Liittschwager and Kuper on the scaling and the delivery of Cykas."""

from functools import partial

from antecede.report.claims.claim import Claim, ClaimResult, ClaimStatus, not_measured
from antecede.report.claims.conditions import reliable
from antecede.report.claims.evidence import (
    axis_value,
    curves,
    fit_exponent,
    format_range,
    ratios,
)
from antecede.report.claims.rules import by_share, exponent_between, property_holds
from antecede.report.tables import Parameters, SummaryRow, Tables

__all__ = ["CLAIMS", "PAPER"]

PAPER = "Tong, Liittschwager, Kuper: Cykas"
CROSSOVER = 0.02
"""Processes per kB/s at which the matrix protocol becomes the slowest (Figure 4)."""

claim = partial(Claim, paper=PAPER, study="cykas-fig4")


def _limited(row: SummaryRow, parameters: Parameters) -> bool:
    """Return whether the bandwidth is limited, without jobs, on a reliable network."""
    return (
        bool(parameters["bandwidth"])
        and not parameters["service_share"]
        and reliable(row, parameters)
    )


def _scarce(row: SummaryRow, parameters: Parameters) -> bool:
    return _limited(row, parameters) and axis_value("bandwidth", row, parameters) <= 100_000


def _ratio(tables: Tables, row: SummaryRow) -> float:
    return axis_value("ratio", row, tables.parameters(row))


def _quadratic(tables: Tables) -> ClaimResult:
    rows = tables.rows("execution_time", protocol="matrix", where=_limited)
    points = [(_ratio(tables, row), row.mean or 0.0) for row in rows]
    points = [point for point in points if point[0] >= 0.2]
    if len(points) < 3:
        return not_measured()
    exponent = fit_exponent(points).exponent
    by_size = curves(tables, "execution_time", "matrix", span=2, where=_scarce)
    by_size_exponents = [curve.fit.exponent for curve in by_size]
    observed = f"ratio^{exponent:.2f} over all configurations"
    if by_size:
        observed += f"; n^{format_range(by_size_exponents)} at one bandwidth"
    if 1.7 <= exponent <= 2.3:
        return ClaimResult(observed=observed, status=ClaimStatus.HOLDS)
    partly = any(1.7 <= each <= 2.3 for each in by_size_exponents)
    return ClaimResult(
        observed=observed,
        status=ClaimStatus.PARTLY if partly else ClaimStatus.FAILS,
        explanation="The time is the number of bytes divided by the bandwidth: it grows"
        " with n², but only linearly with 1/bandwidth, so the ratio does not determine it.",
    )


def _crossover(tables: Tables) -> ClaimResult:
    compared: dict[object, list[SummaryRow]] = {}
    for other in ("buffer", "cykas"):
        for row in ratios(tables, "execution_time", "matrix", other, where=_limited):
            compared.setdefault(row.configuration, []).append(row)
    slower: list[float] = []
    faster: list[float] = []
    for rows in compared.values():
        if len(rows) == 2:
            is_slower = all((row.mean or 0.0) > 1 for row in rows)
            (slower if is_slower else faster).append(_ratio(tables, rows[0]))
    if not slower or not faster:
        return not_measured()
    low, high = min(slower), max(faster)
    observed = f"matrix is slower from {low:g}, faster up to {high:g} processes per kB/s"
    middle = (low * high) ** 0.5
    if CROSSOVER / 2 <= middle <= CROSSOVER * 2:
        return ClaimResult(observed=observed, status=ClaimStatus.HOLDS)
    near = CROSSOVER / 10 <= middle <= CROSSOVER * 10
    return ClaimResult(
        observed=observed,
        status=ClaimStatus.PARTLY if near else ClaimStatus.FAILS,
        explanation="Here a small count takes one byte in the matrix, and frames of buffer"
        " and cykas a few bytes. The paper calls its own value illustrative.",
    )


def _few_bytes(tables: Tables) -> ClaimResult:
    values = [
        row.mean or 0.0
        for name in ("buffer", "cykas")
        for row in tables.rows("metadata_bytes_mean", protocol=name, where=reliable)
    ]
    good = sum(value <= 8 for value in values)
    observed = ""
    if values:
        observed = f"{format_range(values, '{:.1f}')} bytes: kind, number, length"
    return by_share(observed, good, len(values))


def _sender_side_scales(tables: Tables) -> ClaimResult:
    found = [
        curve
        for name in ("buffer", "cykas")
        for curve in curves(tables, "execution_time", name, span=2, where=_limited)
    ]
    explanation = "With more processes, the last message of a run is later."
    return exponent_between(found, -0.5, 0.3, explanation=explanation)


CLAIMS = (
    claim(
        id="C1",
        section="§5.2, Figure 4",
        claim="The execution time of the matrix protocol grows with the square of the ratio"
        " of processes to bandwidth.",
        measurement="Execution time against the ratio, from 0.2; and against n at 100 kB/s"
        " or less",
        rule="the exponent of the ratio is between 1.7 and 2.3; in part if that of n is",
        decide=_quadratic,
    ),
    claim(
        id="C2",
        section="§5.2, Figure 4",
        claim="The matrix protocol becomes slower than both sender-side protocols at about"
        " 0.02 processes per kB/s.",
        measurement="The geometric mean of the smallest ratio at which it is slower and the"
        " largest at which it is faster",
        rule="it differs from 0.02 by at most a factor of 2; in part by a factor of 10",
        decide=_crossover,
    ),
    claim(
        id="C3",
        section="§5.2",
        claim="Sender-side protocols scale: their execution time hardly depends on n.",
        measurement="Execution time of buffer and cykas against n at one bandwidth",
        rule="the exponent is at most 0.3",
        decide=_sender_side_scales,
    ),
    claim(
        id="C11",
        section="§1, §5.2",
        claim="Messages of sender-side protocols carry no causal metadata.",
        measurement="Metadata bytes per message of buffer and cykas on a reliable network",
        rule="there are at most 8 bytes, which identify the message",
        decide=_few_bytes,
    ),
    claim(
        id="C12",
        section="§3.1, Prop. 3.1",
        claim="Cykas preserves causal order.",
        measurement="Verdicts of the oracle",
        rule="causal order held in all runs",
        decide=partial(
            property_holds,
            protocols=["cykas"],
            which="causal",
            explanation="See the verdicts on its runs.",
        ),
    ),
    claim(
        id="C13",
        section="§3.2, Prop. 3.2",
        claim="Cykas delivers every message eventually.",
        measurement="Verdicts of the oracle",
        rule="liveness held in all runs",
        decide=partial(
            property_holds,
            protocols=["cykas"],
            which="liveness",
            explanation="See the verdicts on its runs.",
        ),
    ),
)
