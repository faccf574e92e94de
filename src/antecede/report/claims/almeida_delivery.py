"""Claims of Almeida on delivery, control messages, and comparisons of protocols."""

from functools import partial

from antecede.report.claims.almeida import PAPER
from antecede.report.claims.claim import Claim, ClaimResult, ClaimStatus, not_measured
from antecede.report.claims.conditions import lossless
from antecede.report.claims.evidence import (
    control_per_copy,
    format_range,
    ratios,
    verdict_counts,
)
from antecede.report.claims.rules import by_share, property_holds
from antecede.report.tables import Tables

__all__ = ["CLAIMS"]

claim = partial(Claim, paper=PAPER, study="table1")


def _starvation(tables: Tables) -> ClaimResult:
    values = [r.mean or 0.0 for r in ratios(tables, "sender_wait_max", "cykas", "buffer")]
    if not values:
        return not_measured()
    stuck = verdict_counts(tables, "cykas", "liveness")["violated"]
    observed = (
        f"{stuck} runs stuck; longest wait {format_range(values)} times that of buffer"
    )
    if stuck:
        return ClaimResult(observed=observed, status=ClaimStatus.HOLDS)
    # Both protocols wait for acks; a longer wait of cykas is due to its secret mode.
    status = ClaimStatus.PARTLY if max(values) > 1.5 else ClaimStatus.FAILS
    explanation = "A run that ends shows long waits, but cannot show starvation."
    return ClaimResult(observed=observed, status=status, explanation=explanation)


def _control(protocol: str, low: float, high: float, tables: Tables) -> ClaimResult:
    found = control_per_copy(tables, protocol)
    if not found:
        return not_measured()
    good = sum(low <= each <= high for each in found)
    explanation = "Acks and permits are cumulative: one frame can serve many messages."
    observed = f"{format_range(found)} control frames per copy"
    return by_share(observed, good, len(found), explanation=explanation)


def _safe_under_faults(tables: Tables) -> ClaimResult:
    return property_holds(
        tables,
        ["hybrid", "hybrid-basic"],
        "causal",
        where=lambda cell, parameters: bool(
            parameters["loss"] or parameters["duplicate"] or parameters["reorder"]
        ),
        explanation="The oracle found deliveries that violate causal order.",
    )


def _no_later_than(
    measure: str, first: str, second: str, explanation: str, tables: Tables
) -> ClaimResult:
    found = [row.mean or 0.0 for row in ratios(tables, measure, first, second)]
    if not found:
        return not_measured()
    good = sum(ratio <= 1.02 for ratio in found)
    observed = f"{format_range(found)} times (less is better)"
    return by_share(observed, good, len(found), explanation=explanation)


def _least_metadata(tables: Tables) -> ClaimResult:
    values = [
        row.mean or 0.0
        for other in ("matrix", "optimal")
        for row in ratios(tables, "metadata_bytes_total", other, "hybrid")
        if row.processes >= 100
    ]
    good = sum(value > 1 for value in values)
    explanation = "On sparse traffic the optimal protocol has few entries and no acks."
    observed = f"up to {max(values, default=0.0):,.0f} times the bytes of hybrid"
    return by_share(observed, good, len(values), explanation=explanation)


def _tree_latency(tables: Tables) -> ClaimResult:
    found = ratios(tables, "latency_mean", "tree", "fifo", where=lossless)
    found = found or ratios(tables, "latency_mean", "tree", "optimal", where=lossless)
    values = [row.mean or 0.0 for row in found if row.processes >= 10]
    if not values:
        return not_measured()
    good = sum(value > 1.5 for value in values)
    explanation = "A pipeline between neighbours in the tree needs no relays."
    observed = f"{format_range(values)} times the latency of the direct path"
    return by_share(observed, good, len(values), explanation=explanation)


CLAIMS = (
    claim(
        id="A22",
        section="Table 1, liveness; Prop. 5.5",
        claim="Hybrid buffering delivers every message eventually.",
        measurement="Verdicts of the oracle",
        rule="liveness held in all runs",
        decide=partial(
            property_holds,
            protocols=["hybrid", "hybrid-basic"],
            which="liveness",
            explanation="Some messages were never delivered.",
        ),
    ),
    claim(
        id="A23",
        section="Table 1, liveness; §4",
        claim="Cykas can starve: new eager messages can prevent a process from sending.",
        measurement="Stuck runs, and the longest wait at the sender of cykas divided by"
        " that of buffer",
        rule="a run is stuck; in part if the wait is more than 1.5 times as long in a"
        " configuration",
        decide=_starvation,
    ),
    claim(
        id="A24",
        section="Table 1, control messages",
        claim="The matrix protocol needs no control messages on a reliable network.",
        measurement="Control frames per copy on a reliable network",
        rule="there are none",
        decide=partial(_control, "matrix", 0, 0),
    ),
    claim(
        id="A25",
        section="Table 1, control messages",
        claim="Hybrid buffering needs acks and permits: at most two per message.",
        measurement="Control frames per copy on a reliable network",
        rule="there are more than 0 and at most 2",
        decide=partial(_control, "hybrid", 1e-9, 2),
    ),
    claim(
        id="A26",
        study="microservices",
        section="§5.5, Prop. 5.1 and 5.2",
        claim="Hybrid buffering preserves causal order on a network that loses, duplicates"
        " and reorders frames.",
        measurement="Verdicts of the oracle on networks with faults",
        rule="causal order held in all runs",
        decide=_safe_under_faults,
    ),
    claim(
        id="A27",
        study="microservices",
        section="§5.6",
        claim="The SPS-optimal variant of hybrid buffering delivers no later than the basic"
        " one.",
        measurement="Mean latency of hybrid divided by that of hybrid-basic in the same"
        " configuration",
        rule="it is at most 1.02 in every configuration",
        decide=partial(
            _no_later_than,
            "latency_mean",
            "hybrid",
            "hybrid-basic",
            "Messages that are sent in reply to others differ between the runs.",
        ),
    ),
    claim(
        id="A28",
        section="§4, §7",
        claim="Messages of hybrid buffering wait less at the sender than those of Cykas.",
        measurement="Mean wait at the sender of hybrid divided by that of cykas in the same"
        " configuration",
        rule="it is at most 1.02 in every configuration",
        decide=partial(
            _no_later_than,
            "sender_wait_mean",
            "hybrid",
            "cykas",
            "Hybrid buffering releases more messages early, and each message that needs a"
            " permit can delay the sends of its receiver.",
        ),
    ),
    claim(
        id="A29",
        study="microservices",
        section="§6, §7",
        claim="With many processes, hybrid buffering needs less metadata than receiver"
        " buffering.",
        measurement="Metadata bytes of all frames of matrix and of optimal divided by those"
        " of hybrid, n at least 100",
        rule="it is more than 1 in every configuration",
        decide=_least_metadata,
    ),
    claim(
        id="A30",
        study="microservices",
        section="§1",
        claim="The long paths along a tree cost considerable latency.",
        measurement="Mean latency of tree divided by that of the direct path, n at least"
        " 10, without loss",
        rule="it is more than 1.5 in every configuration",
        decide=_tree_latency,
    ),
)
