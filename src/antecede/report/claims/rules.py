"""Rules that several claims are judged by."""

from collections.abc import Callable, Iterable, Sequence

from antecede.report.claims.claim import Finding, Outcome, unmeasured
from antecede.report.claims.conditions import reliable
from antecede.report.claims.evidence import Curve, curves, spread, verdict_counts
from antecede.report.tables import CellRow, Setting, Tables

__all__ = [
    "by_share",
    "constant",
    "exponents",
    "grown",
    "immediate",
    "judged_runs",
]


def by_share(
    figure: str, good: int, total: int, *, why: str = "", part: float = 0.5
) -> Finding:
    """Judge by how many settings agree: all hold, at least ``part`` hold in part."""
    if total == 0:
        return unmeasured()
    outcome = Outcome.FAILS
    if good == total:
        outcome = Outcome.HOLDS
    elif good >= part * total:
        outcome = Outcome.PART
    return Finding(figure=figure, outcome=outcome, why="" if good == total else why)


def exponents(found: Sequence[Curve]) -> str:
    """Write the exponents of curves."""
    values = [curve.fit.exponent for curve in found]
    return f"exponent {spread(values)} ({len(values)} curve{'s' * (len(values) > 1)})"


def grown(
    found: Sequence[Curve],
    low: float,
    high: float,
    *,
    extra: str = "",
    why: str = "",
) -> Finding:
    """Judge whether measures grow with an exponent between two bounds."""
    good = sum(low <= curve.fit.exponent <= high for curve in found)
    figure = f"{exponents(found)}{extra}" if found else ""
    return by_share(figure, good, len(found), why=why)


def judged_runs(
    tables: Tables,
    protocols: Iterable[str],
    which: str,
    *,
    where: Callable[[CellRow, Setting], bool] | None = None,
    why: str = "",
) -> Finding:
    """Judge by the oracle: a property must hold in every run of some protocols."""
    held = violated = unknown = 0
    for protocol in protocols:
        counts = verdict_counts(tables, protocol, which, where=where)
        held += counts["held"]
        violated += counts["violated"]
        unknown += counts["unknown"]
    if held + violated == 0:
        return unmeasured()
    figure = f"{which} held in {held:,} of {held + violated:,} runs"
    if unknown:
        figure += f", unknown in {unknown:,}"
    outcome = Outcome.FAILS if violated else Outcome.HOLDS
    return Finding(figure=figure, outcome=outcome, why=why if violated else "")


def immediate(protocols: Sequence[str], tables: Tables) -> Finding:
    """Judge whether messages are delivered as they arrive, on reliable networks."""
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
    figure = f"longest wait at the receiver {max(values) * 1000:.3g} ms" if values else ""
    why = "The link layer puts frames in order where the protocol assumes FIFO links."
    return by_share(figure, good, len(values), why=why)


def constant(protocols: Sequence[str], tables: Tables) -> Finding:
    """Judge whether the metadata of a message does not depend on n."""
    found = [
        curve
        for name in protocols
        for curve in curves(tables, "metadata_bytes_mean", name, span=2)
    ]
    extra = ""
    if found:
        extra = f"; at most {max(c.points[-1][1].mean or 0.0 for c in found):.1f} bytes"
    why = "Names and numbers take more bytes as they grow."
    return grown(found, -0.1, 0.1, extra=extra, why=why)
