"""Rules that decide several claims."""

from collections.abc import Callable, Iterable, Sequence

from antecede.report.claims.claim import ClaimResult, ClaimStatus, not_measured
from antecede.report.claims.conditions import reliable
from antecede.report.claims.evidence import Curve, curves, format_range, verdict_counts
from antecede.report.tables import CellRow, Parameters, Tables

__all__ = [
    "by_share",
    "constant_metadata",
    "exponent_between",
    "no_receiver_wait",
    "property_holds",
]


def by_share(
    observed: str,
    good: int,
    total: int,
    *,
    explanation: str = "",
    partly_share: float = 0.5,
) -> ClaimResult:
    """Decide by the number of configurations in which a claim is true.

    The claim holds if it is true in all ``total`` configurations, and in part if it is true
    in the share ``partly_share`` of them or more.
    """
    if total == 0:
        return not_measured()
    if good == total:
        return ClaimResult(observed=observed, status=ClaimStatus.HOLDS)
    partly = good >= partly_share * total
    status = ClaimStatus.PARTLY if partly else ClaimStatus.FAILS
    return ClaimResult(observed=observed, status=status, explanation=explanation)


def exponent_between(
    found: Sequence[Curve],
    low: float,
    high: float,
    *,
    extra: str = "",
    explanation: str = "",
) -> ClaimResult:
    """Decide whether the fitted exponent of every curve is between two bounds."""
    exponents = [curve.fit.exponent for curve in found]
    good = sum(low <= exponent <= high for exponent in exponents)
    observed = ""
    if found:
        plural = "s" * (len(found) > 1)
        observed = f"exponent {format_range(exponents)} ({len(found)} curve{plural}){extra}"
    return by_share(observed, good, len(found), explanation=explanation)


def property_holds(
    tables: Tables,
    protocols: Iterable[str],
    which: str,
    *,
    where: Callable[[CellRow, Parameters], bool] | None = None,
    explanation: str = "",
) -> ClaimResult:
    """Decide whether a property held in every verified run of some protocols."""
    held = violated = unknown = 0
    for protocol in protocols:
        counts = verdict_counts(tables, protocol, which, where=where)
        held += counts["held"]
        violated += counts["violated"]
        unknown += counts["unknown"]
    if held + violated == 0:
        return not_measured()
    observed = f"{which} held in {held:,} of {held + violated:,} runs"
    if unknown:
        observed += f", unknown in {unknown:,}"
    if not violated:
        return ClaimResult(observed=observed, status=ClaimStatus.HOLDS)
    return ClaimResult(observed=observed, status=ClaimStatus.FAILS, explanation=explanation)


def no_receiver_wait(protocols: Sequence[str], tables: Tables) -> ClaimResult:
    """Decide whether messages are delivered on arrival, on reliable networks."""
    for measure in ("receiver_wait_max", "receiver_wait_mean"):
        rows = [
            row
            for name in protocols
            for row in tables.rows(measure, protocol=name, where=reliable)
        ]
        if rows:
            break
    values = [row.mean or 0.0 for row in rows]
    good = sum(value == 0 for value in values)
    observed = f"longest wait at the receiver {max(values) * 1000:.3g} ms" if values else ""
    return by_share(
        observed,
        good,
        len(values),
        explanation="The link layer reorders frames if the protocol requires FIFO links.",
    )


def constant_metadata(protocols: Sequence[str], tables: Tables) -> ClaimResult:
    """Decide whether the metadata of a message is independent of n."""
    found = [
        curve
        for name in protocols
        for curve in curves(tables, "metadata_bytes_mean", name, span=2)
    ]
    extra = ""
    if found:
        extra = f"; at most {max(c.points[-1][1].mean or 0.0 for c in found):.1f} bytes"
    explanation = "Larger process and message numbers take more bytes."
    return exponent_between(found, -0.1, 0.1, extra=extra, explanation=explanation)
