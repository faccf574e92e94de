"""Claims of Nédelec, Molli and Mostéfaoui: PC-broadcast."""

from functools import partial
from itertools import pairwise

from antecede.report.claims.claim import Claim, Finding, Outcome, unmeasured
from antecede.report.claims.evidence import axis_value, curves, ratios, spread
from antecede.report.claims.rules import by_share, constant, grown, immediate, judged_runs
from antecede.report.tables import CellRow, Setting, SummaryRow, Tables

__all__ = ["CLAIMS"]

THEIR_UNSAFE = {0.1: 0.06, 1.0: 0.65, 5.0: 3.46}
"""Unsafe links at 1,000 processes by the seconds of a link's delay, as the authors' own
simulator has them."""
THEIR_PATH = {0.1: 2.774, 1.0: 2.779, 5.0: 2.969}


claim = partial(Claim, paper="Nédelec, Molli, Mostéfaoui: PC-broadcast")


def _vector_linear(tables: Tables) -> Finding:
    found = curves(tables, "metadata_bytes_mean", "vector", span=2)
    why = "The few bytes that name a message weigh on small groups."
    return grown(found, 0.75, 1.25, why=why)


def _factor_n(tables: Tables) -> Finding:
    found = ratios(tables, "metadata_bytes_mean", "vector", "preventive")
    values = [(row.processes, row.mean or 0.0) for row in found]
    if not values:
        return unmeasured()
    good = sum(0.1 * n <= ratio <= 2 * n for n, ratio in values)
    figure = ", ".join(f"{ratio:.1f} at n = {n}" for n, ratio in sorted(set(values))[-4:])
    why = "Both also name the message, which dilutes the factor while n is small."
    return by_share(figure, good, len(values), why=why)


def _along_delay(
    tables: Tables, measure: str, protocol: str
) -> list[tuple[float, SummaryRow]]:
    rows = tables.rows(measure, protocol=protocol)
    points = [(axis_value("delay", row, tables.setting(row)), row) for row in rows]
    return sorted(points, key=lambda point: (*_series(point[1]), point[0]))


def _of_views(tables: Tables, measure: str) -> str:
    """Return the measure of the links of views only, as in the paper, if there is one."""
    return f"view_{measure}" if tables.rows(f"view_{measure}") else measure


def _series(row: SummaryRow) -> tuple[str, str, int]:
    return (row.study, row.grid, row.processes)


def _unsafe_grow(tables: Tables) -> Finding:
    points = _along_delay(tables, "unsafe_links", "preventive")
    if len({delay for delay, _ in points}) < 2:
        return unmeasured()
    steps = rising = 0
    for (_, one), (_, two) in pairwise(points):
        if _series(one) == _series(two):
            steps += 1
            rising += (two.mean or 0.0) > (one.mean or 0.0)
    figure = ", ".join(f"{row.mean:.2f} at {delay:g} s" for delay, row in points[-5:])
    return by_share(figure, rising, steps)


def _unsafe_few(tables: Tables) -> Finding:
    shares = []
    for _, row in _along_delay(tables, "unsafe_links", "preventive"):
        links = tables.other(row, _of_views(tables, "links"))
        if links:
            shares.append((row.mean or 0.0) / links)
    good = sum(share <= 0.25 for share in shares)
    figure = f"{spread(shares, '{:.1%}')} of the links" if shares else ""
    why = "Views change faster, for the time that a ping takes, than in the paper."
    return by_share(figure, good, len(shares), why=why)


def _as_authors(
    measure: str, theirs: dict[float, float], near: float, tables: Tables
) -> Finding:
    points = {
        delay: row.mean or 0.0
        for delay, row in _along_delay(tables, _of_views(tables, measure), "preventive")
        if row.processes == 1000 and delay in theirs
    }
    if not points:
        return unmeasured("needs 1,000 processes: antecede study run pc-fig7")
    words = [f"{points[d]:.3g} (theirs {theirs[d]:.3g}) at {d:g} s" for d in sorted(points)]
    good = sum(abs(points[d] / theirs[d] - 1) <= near for d in points)
    why = (
        "The figure depends on when exchanges happen, how long links live, and what counts"
        " as a ping's way, which the paper leaves to its simulator."
    )
    return by_share(", ".join(words), good, len(points), why=why)


def _path_little(tables: Tables) -> Finding:
    found = ratios(tables, _of_views(tables, "mean_path"), "preventive", "flood")
    values = [row.mean or 0.0 for row in found]
    good = sum(value <= 1.1 for value in values)
    figure = f"{spread(values, '{:.3f}')} times that of flood" if values else ""
    why = "Links that are not safe yet are missing."
    return by_share(figure, good, len(values), why=why)


def _path_flat(tables: Tables) -> Finding:
    points = _along_delay(tables, _of_views(tables, "mean_path"), "flood")
    by_size: dict[int, list[float]] = {}
    for _, row in points:
        by_size.setdefault(row.processes, []).append(row.mean or 0.0)
    spans = [max(means) / min(means) for means in by_size.values() if len(means) > 1]
    good = sum(span <= 1.05 for span in spans)
    figure = f"largest over smallest {spread(spans, '{:.3f}')}" if spans else ""
    return by_share(figure, good, len(spans))


def _several(cell: CellRow, setting: Setting) -> bool:
    """Tell whether there are several broadcasts, without which there is no order."""
    return cell.messages > 1 or setting.get("traffic_senders") != 1


def _flood_breaks(tables: Tables) -> Finding:
    def dynamic(cell: CellRow, setting: Setting) -> bool:
        changing = str(setting.get("overlay") or "").startswith("spray")
        return changing and _several(cell, setting)

    finding = judged_runs(tables, ["flood"], "causal", where=dynamic)
    if finding.outcome is Outcome.UNMEASURED:
        return unmeasured("needs several broadcasts on an overlay that changes")
    broken = finding.outcome is Outcome.FAILS
    why = "" if broken else "No message overtook another on a new link in these runs."
    outcome = Outcome.HOLDS if broken else Outcome.FAILS
    return Finding(figure=finding.figure, outcome=outcome, why=why)


CLAIMS = (
    claim(
        id="N1",
        study="table1",
        place="Table 1; §3.4",
        claim="Messages of PC-broadcast and of flooding carry control information of"
        " constant size.",
        measured="Bytes beside the payload against n",
        rule="the exponent is at most 0.1",
        judge=partial(constant, ["preventive", "flood"]),
    ),
    claim(
        id="N2",
        study="table1",
        place="Table 1; §5",
        claim="Those of vector-based broadcast grow linearly.",
        measured="Bytes beside the payload against n",
        rule="the exponent is between 0.75 and 1.25",
        judge=_vector_linear,
    ),
    claim(
        id="N3",
        study="table1",
        place="§5",
        claim="Against vectors the control information shrinks by a factor of about N.",
        measured="Metadata of a message, vector over preventive",
        rule="it is between n/10 and 2n",
        judge=_factor_n,
    ),
    claim(
        id="N4",
        study="table1",
        place="§3; Table 1, delivery",
        claim="Messages are delivered as they arrive.",
        measured="Wait at the receiver, preventive and flood on reliable links",
        rule="there is none",
        judge=partial(immediate, ["preventive", "flood"]),
    ),
    claim(
        id="N5",
        study="table1",
        place="Table 1, delivery execution time",
        claim="Delivery takes constant time.",
        measured="Processor time per message at the receiver against n",
        rule="the exponent is at most 0.2",
        judge=lambda tables: grown(
            curves(tables, "receiver_work_us", "preventive", span=2),
            -1,
            0.2,
            why="Every copy along a link is work, and there are more links.",
        ),
    ),
    claim(
        id="N6",
        study="pc-fig7",
        place="§3.2, Theorem 2",
        claim="PC-broadcast keeps causal order on static and on changing overlays.",
        measured="Verdicts of the oracle on runs with several broadcasts",
        rule="causal order held in all of them",
        judge=partial(
            judged_runs,
            protocols=["preventive"],
            which="causal",
            where=_several,
            why="See the verdicts of its runs.",
        ),
    ),
    claim(
        id="N7",
        study="pc-fig7",
        place="§2, Figure 3",
        claim="Flooding breaks causal order where links come and go.",
        measured="Verdicts of the oracle on overlays that change",
        rule="some run broke it",
        judge=_flood_breaks,
    ),
    claim(
        id="N8",
        study="pc-fig7",
        place="§4, Figure 7, bottom",
        claim="The longer the delay, the more links are not safe yet.",
        measured="Mean unsafe links of a process against the delay",
        rule="every step is up",
        judge=_unsafe_grow,
    ),
    claim(
        id="N9",
        study="pc-fig7",
        place="§4, Figure 7, bottom",
        claim="Even with long delays they are few: about 3 of 17.",
        measured="Unsafe links over the links of a process, of views",
        rule="they are at most 25 % at every delay",
        judge=_unsafe_few,
    ),
    claim(
        id="N10",
        study="pc-fig7",
        place="§4, Figure 7, and the authors' simulator",
        claim="At 1,000 processes 0.06, 0.65 and 3.46 links are unsafe at 0.1, 1 and 5 s.",
        measured="Mean unsafe links at 1,000 processes",
        rule="each is within 25 %",
        judge=partial(_as_authors, "unsafe_links", THEIR_UNSAFE, 0.25),
    ),
    claim(
        id="N11",
        study="pc-fig7",
        place="§4, Figure 7, and the authors' simulator",
        claim="At 1,000 processes the shortest path is 2.774, 2.779 and 2.969 hops at 0.1,"
        " 1 and 5 s.",
        measured="Mean shortest path at 1,000 processes, along safe links of views",
        rule="each is within 5 %",
        judge=partial(_as_authors, "mean_path", THEIR_PATH, 0.05),
    ),
    claim(
        id="N12",
        study="pc-fig7",
        place="§4, Figure 7, top",
        claim="The shortest path grows little, even with long delays.",
        measured="Mean shortest path along views, preventive over flood",
        rule="it is at most 1.1 at every delay",
        judge=_path_little,
    ),
    claim(
        id="N13",
        study="pc-fig7",
        place="§4, Figure 7, top",
        claim="That of R-broadcast does not depend on the delay.",
        measured="Largest over smallest mean shortest path of flood",
        rule="it is at most 1.05",
        judge=_path_flat,
    ),
)
