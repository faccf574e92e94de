"""Claims of Blessing, Clebsch and Drossopoulou on tree topologies."""

from functools import partial
from math import log2

from antecede.report.claims.claim import Claim, ClaimResult, not_measured
from antecede.report.claims.evidence import format_range
from antecede.report.claims.rules import (
    by_share,
    constant_metadata,
    no_receiver_wait,
    property_holds,
)
from antecede.report.tables import Tables

__all__ = ["CLAIMS"]

claim = partial(
    Claim,
    paper="Blessing, Clebsch, Drossopoulou: tree topologies",
    study="microservices",
)


def _relays_grow(tables: Tables) -> ClaimResult:
    values = []
    for row in tables.rows("relays", protocol="tree"):
        delivered = tables.mean_of(row, "delivered")
        if delivered and row.processes >= 8:
            values.append((row.processes, (row.mean or 0.0) / delivered))
    if not values:
        return not_measured()
    good = sum(relays <= 2 * log2(n) for n, relays in values)
    observed = f"{format_range([relays for _, relays in values])} relayed frames per copy"
    return by_share(observed, good, len(values))


CLAIMS = (
    claim(
        id="B1",
        section="§4, Theorem 4.1",
        claim="FIFO links on a tree deliver in causal order.",
        measurement="Verdicts of the oracle",
        rule="causal order held in all runs of tree",
        decide=partial(
            property_holds,
            protocols=["tree"],
            which="causal",
            explanation="See the verdicts on its runs.",
        ),
    ),
    claim(
        id="B2",
        section="§1, §5",
        claim="Messages on a tree need no causal metadata.",
        measurement="Metadata bytes per message against n: origin and targets",
        rule="the exponent is at most 0.1",
        decide=partial(constant_metadata, ["tree"]),
    ),
    claim(
        id="B3",
        section="§1",
        claim="A process on a tree can deliver messages on arrival.",
        measurement="Wait at the receiver on reliable links",
        rule="there is none",
        decide=partial(no_receiver_wait, ["tree"]),
    ),
    claim(
        id="B4",
        section="§5, as an open question",
        claim="A tree trades space for time: messages take longer paths.",
        measurement="Relayed frames per delivered copy",
        rule="there are at most 2 log₂ n, the path up and down a balanced tree",
        decide=_relays_grow,
    ),
)
