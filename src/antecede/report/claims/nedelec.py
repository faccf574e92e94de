"""Claims of Nédelec, Molli and Mostéfaoui on PC-broadcast."""

from functools import partial
from itertools import pairwise

from antecede.report.claims.claim import Claim, ClaimResult, ClaimStatus, not_measured
from antecede.report.claims.evidence import axis_value, curves, format_range, ratios
from antecede.report.claims.rules import (
    by_share,
    constant_metadata,
    exponent_between,
    no_receiver_wait,
    property_holds,
)
from antecede.report.tables import CellRow, Parameters, SummaryRow, Tables

__all__ = ["CLAIMS"]

AUTHORS_UNSAFE_LINKS = {0.1: 0.06, 1.0: 0.65, 5.0: 3.46}
"""By link delay in seconds, at 1,000 processes: the results of the authors' simulator."""
AUTHORS_MEAN_PATH = {0.1: 2.774, 1.0: 2.779, 5.0: 2.969}


claim = partial(Claim, paper="Nédelec, Molli, Mostéfaoui: PC-broadcast")


def _vector_linear(tables: Tables) -> ClaimResult:
    found = curves(tables, "metadata_bytes_mean", "vector", span=2)
    explanation = "The bytes that identify a message dominate in small groups."
    return exponent_between(found, 0.75, 1.25, explanation=explanation)


def _factor_n(tables: Tables) -> ClaimResult:
    found = ratios(tables, "metadata_bytes_mean", "vector", "pc-broadcast")
    values = [(row.processes, row.mean or 0.0) for row in found]
    good = sum(0.1 * n <= ratio <= 2 * n for n, ratio in values)
    observed = ", ".join(f"{ratio:.1f} at n = {n}" for n, ratio in sorted(set(values))[-4:])
    explanation = "Both also identify the message, which reduces the factor for small n."
    return by_share(observed, good, len(values), explanation=explanation)


def _along_delay(
    tables: Tables, measure: str, protocol: str
) -> list[tuple[float, SummaryRow]]:
    rows = tables.rows(measure, protocol=protocol)
    points = [(axis_value("delay", row, tables.parameters(row)), row) for row in rows]
    return sorted(points, key=lambda point: (*_series(point[1]), point[0]))


def _view_measure(tables: Tables, measure: str) -> str:
    """Return the measure of view links only, as in the paper, if it was measured."""
    return f"view_{measure}" if tables.rows(f"view_{measure}") else measure


def _series(row: SummaryRow) -> tuple[str, str, int]:
    return (row.study, row.grid, row.processes)


def _unsafe_grow(tables: Tables) -> ClaimResult:
    points = _along_delay(tables, "unsafe_links", "pc-broadcast")
    if len({delay for delay, _ in points}) < 2:
        return not_measured()
    steps = rising = 0
    for (_, one), (_, two) in pairwise(points):
        if _series(one) == _series(two):
            steps += 1
            rising += (two.mean or 0.0) > (one.mean or 0.0)
    observed = ", ".join(f"{row.mean:.2f} at {delay:g} s" for delay, row in points[-5:])
    return by_share(observed, rising, steps)


def _unsafe_few(tables: Tables) -> ClaimResult:
    shares = []
    for _, row in _along_delay(tables, "unsafe_links", "pc-broadcast"):
        links = tables.mean_of(row, _view_measure(tables, "links"))
        if links:
            shares.append((row.mean or 0.0) / links)
    good = sum(share <= 0.25 for share in shares)
    observed = f"{format_range(shares, '{:.1%}')} of the links" if shares else ""
    explanation = "Views change faster, relative to the time of a ping, than in the paper."
    return by_share(observed, good, len(shares), explanation=explanation)


def _as_authors(
    measure: str, authors: dict[float, float], tolerance: float, tables: Tables
) -> ClaimResult:
    points = {
        delay: row.mean or 0.0
        for delay, row in _along_delay(
            tables, _view_measure(tables, measure), "pc-broadcast"
        )
        if row.processes == 1000 and delay in authors
    }
    if not points:
        return not_measured("needs 1,000 processes: antecede study run pc-fig7")
    words = [
        f"{points[d]:.3g} (authors: {authors[d]:.3g}) at {d:g} s" for d in sorted(points)
    ]
    good = sum(abs(points[d] / authors[d] - 1) <= tolerance for d in points)
    explanation = (
        "The value depends on when views are exchanged, how long links exist, and which"
        " path a ping takes; the paper does not specify these."
    )
    return by_share(", ".join(words), good, len(points), explanation=explanation)


def _path_little(tables: Tables) -> ClaimResult:
    found = ratios(tables, _view_measure(tables, "mean_path"), "pc-broadcast", "flood")
    values = [row.mean or 0.0 for row in found]
    good = sum(value <= 1.1 for value in values)
    observed = f"{format_range(values, '{:.3f}')} times that of flood" if values else ""
    explanation = "Paths cannot use links that are not yet safe."
    return by_share(observed, good, len(values), explanation=explanation)


def _path_flat(tables: Tables) -> ClaimResult:
    by_size: dict[int, list[float]] = {}
    for _, row in _along_delay(tables, _view_measure(tables, "mean_path"), "flood"):
        by_size.setdefault(row.processes, []).append(row.mean or 0.0)
    spans = [max(means) / min(means) for means in by_size.values() if len(means) > 1]
    good = sum(span <= 1.05 for span in spans)
    observed = f"largest over smallest {format_range(spans, '{:.3f}')}" if spans else ""
    return by_share(observed, good, len(spans))


def _several(cell: CellRow, parameters: Parameters) -> bool:
    """Return whether a run has several broadcasts, which causal order needs."""
    return cell.messages > 1 or parameters.get("traffic_senders") != 1


def _flood_violates(tables: Tables) -> ClaimResult:
    def dynamic(cell: CellRow, parameters: Parameters) -> bool:
        changing = str(parameters.get("overlay") or "").startswith("spray")
        return changing and _several(cell, parameters)

    result = property_holds(tables, ["flood"], "causal", where=dynamic)
    if result.status is ClaimStatus.NOT_MEASURED:
        return not_measured("needs several broadcasts on a changing overlay")
    if result.status is ClaimStatus.FAILS:
        return ClaimResult(observed=result.observed, status=ClaimStatus.HOLDS)
    return ClaimResult(
        observed=result.observed,
        status=ClaimStatus.FAILS,
        explanation="In these runs, no message overtook another on a new link.",
    )


CLAIMS = (
    claim(
        id="N1",
        study="table1",
        section="Table 1; §3.4",
        claim="Messages of PC-broadcast and of flooding carry control information of"
        " constant size.",
        measurement="Metadata bytes per message against n",
        rule="the exponent is at most 0.1",
        decide=partial(constant_metadata, ["pc-broadcast", "flood"]),
    ),
    claim(
        id="N2",
        study="table1",
        section="Table 1; §5",
        claim="The control information of vector-based broadcast grows linearly with n.",
        measurement="Metadata bytes per message against n",
        rule="the exponent is between 0.75 and 1.25",
        decide=_vector_linear,
    ),
    claim(
        id="N3",
        study="table1",
        section="§5",
        claim="PC-broadcast needs about n times less control information than vectors.",
        measurement="Metadata bytes per message of vector divided by those of pc-broadcast",
        rule="it is between n/10 and 2n",
        decide=_factor_n,
    ),
    claim(
        id="N4",
        study="table1",
        section="§3; Table 1, delivery",
        claim="PC-broadcast and flooding deliver messages on arrival.",
        measurement="Wait at the receiver of pc-broadcast and flood on reliable links",
        rule="there is none",
        decide=partial(no_receiver_wait, ["pc-broadcast", "flood"]),
    ),
    claim(
        id="N5",
        study="table1",
        section="Table 1, delivery execution time",
        claim="PC-broadcast delivers in constant time.",
        measurement="Processor time per message at the receiver against n",
        rule="the exponent is at most 0.2",
        decide=lambda tables: exponent_between(
            curves(tables, "receiver_work_us", "pc-broadcast", span=2),
            -1,
            0.2,
            explanation="Each link brings a copy, and the number of links grows.",
        ),
    ),
    claim(
        id="N6",
        study="pc-fig7",
        section="§3.2, Theorem 2",
        claim="PC-broadcast preserves causal order on static and on changing overlays.",
        measurement="Verdicts of the oracle on runs with several broadcasts",
        rule="causal order held in all of them",
        decide=partial(
            property_holds,
            protocols=["pc-broadcast"],
            which="causal",
            where=_several,
            explanation="See the verdicts on its runs.",
        ),
    ),
    claim(
        id="N7",
        study="pc-fig7",
        section="§2, Figure 3",
        claim="Flooding violates causal order if links are added and removed.",
        measurement="Verdicts of the oracle on changing overlays",
        rule="causal order was violated in a run",
        decide=_flood_violates,
    ),
    claim(
        id="N8",
        study="pc-fig7",
        section="§4, Figure 7, bottom",
        claim="The longer the delay, the more links are not yet safe.",
        measurement="Mean number of unsafe links of a process against the delay",
        rule="it rises with every step of the delay",
        decide=_unsafe_grow,
    ),
    claim(
        id="N9",
        study="pc-fig7",
        section="§4, Figure 7, bottom",
        claim="Few links are unsafe even with long delays: about 3 of 17.",
        measurement="Unsafe links divided by the links of a process, of views",
        rule="at most 25 % are unsafe at every delay",
        decide=_unsafe_few,
    ),
    claim(
        id="N10",
        study="pc-fig7",
        section="§4, Figure 7, and the authors' simulator",
        claim="At 1,000 processes 0.06, 0.65 and 3.46 links are unsafe at 0.1, 1 and 5 s.",
        measurement="Mean number of unsafe links at 1,000 processes",
        rule="each value differs by at most 25 %",
        decide=partial(_as_authors, "unsafe_links", AUTHORS_UNSAFE_LINKS, 0.25),
    ),
    claim(
        id="N11",
        study="pc-fig7",
        section="§4, Figure 7, and the authors' simulator",
        claim="At 1,000 processes the shortest path is 2.774, 2.779 and 2.969 hops at 0.1,"
        " 1 and 5 s.",
        measurement="Mean shortest path at 1,000 processes, along safe links of views",
        rule="each value differs by at most 5 %",
        decide=partial(_as_authors, "mean_path", AUTHORS_MEAN_PATH, 0.05),
    ),
    claim(
        id="N12",
        study="pc-fig7",
        section="§4, Figure 7, top",
        claim="The shortest path of PC-broadcast grows little, even with long delays.",
        measurement="Mean shortest path along views of pc-broadcast divided by that of"
        " flood",
        rule="it is at most 1.1 at every delay",
        decide=_path_little,
    ),
    claim(
        id="N13",
        study="pc-fig7",
        section="§4, Figure 7, top",
        claim="The shortest path of flooding does not depend on the delay.",
        measurement="Largest mean shortest path of flood divided by the smallest",
        rule="it is at most 1.05",
        decide=_path_flat,
    ),
)
