"""Claims of Blessing, Clebsch and Drossopoulou: tree topologies."""

from functools import partial
from math import log2

from antecede.report.claims.claim import Claim, Finding, unmeasured
from antecede.report.claims.evidence import spread
from antecede.report.claims.rules import by_share, constant, immediate, judged_runs
from antecede.report.tables import Tables

__all__ = ["CLAIMS"]

claim = partial(Claim, paper="Blessing, Clebsch, Drossopoulou: tree topologies")


def _relays_grow(tables: Tables) -> Finding:
    values = []
    for row in tables.rows("relays", protocol="tree"):
        delivered = tables.other(row, "delivered")
        if delivered and row.processes >= 8:
            values.append((row.processes, (row.mean or 0.0) / delivered))
    if not values:
        return unmeasured()
    good = sum(hops <= 2 * log2(n) for n, hops in values)
    figure = f"{spread([hops for _, hops in values])} relayed frames per copy"
    return by_share(figure, good, len(values))


CLAIMS = (
    claim(
        id="B1",
        study="microservices",
        place="§4, Theorem 4.1",
        claim="FIFO links on a tree deliver in causal order.",
        measured="Verdicts of the oracle",
        rule="causal order held in all runs of tree",
        judge=partial(
            judged_runs,
            protocols=["tree"],
            which="causal",
            why="See the verdicts of its runs.",
        ),
    ),
    claim(
        id="B2",
        study="microservices",
        place="§1, §5",
        claim="Messages need no metadata for it.",
        measured="Bytes beside the payload against n: origin and targets, for the way",
        rule="the exponent is at most 0.1",
        judge=partial(constant, ["tree"]),
    ),
    claim(
        id="B3",
        study="microservices",
        place="§1",
        claim="Messages can be processed as they arrive.",
        measured="Wait at the receiver on reliable links",
        rule="there is none",
        judge=partial(immediate, ["tree"]),
    ),
    claim(
        id="B4",
        study="microservices",
        place="§5, as an open question",
        claim="A tree trades space for time: messages take a longer way.",
        measured="Relayed frames per delivered copy",
        rule="there are at most 2 log₂ n, the way up a balanced tree and down again",
        judge=_relays_grow,
    ),
)
