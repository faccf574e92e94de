"""More claims of Almeida: latency, throughput, liveness, control messages, safety."""

from dataclasses import replace
from functools import partial

from antecede.report.claims.almeida import PAPER
from antecede.report.claims.claim import Claim, Finding, Outcome, unmeasured
from antecede.report.claims.conditions import calm, pressed, unhurried
from antecede.report.claims.evidence import (
    control_per_copy,
    curves,
    in_round_trips,
    ratios,
    round_trip,
    spread,
    verdict_counts,
)
from antecede.report.claims.rules import by_share, grown, judged_runs
from antecede.report.tables import Tables

__all__ = ["CLAIMS"]

claim = partial(Claim, paper=PAPER, study="table1")


def _earliest(tables: Tables) -> Finding:
    rows = tables.rows("non_causal_latency_mean", protocol="matrix", where=unhurried)
    compared = {row.place for row in tables.rows("latency_mean", protocol="optimal")}
    parts = []
    for row in rows:
        latency = tables.other(row, "latency_mean")
        if latency and row.place in compared:
            parts.append(abs(row.mean or 0.0) / latency)
    good = sum(part <= 0.01 for part in parts)
    if not parts:
        return unmeasured()
    why = "Where messages are answers, they do not pair up exactly."
    figure = f"matrix differs from optimal by {spread(parts, '{:.2%}')} of the latency"
    return by_share(figure, good, len(parts), why=why)


def _hybrid_latency(tables: Tables) -> Finding:
    trips = in_round_trips(tables, "non_causal_latency_mean", "hybrid")
    if not trips:
        return unmeasured()
    good = sum(trip <= 2 for trip in trips)
    why = "Waits add up along chains of messages, each of which waits for its own permits."
    return by_share(f"mean {spread(trips)} round trips", good, len(trips), why=why)


def _buffer_latency(tables: Tables) -> Finding:
    good = total = 0
    shares = []
    for row in tables.rows("non_causal_latency_max", protocol="buffer", where=unhurried):
        trip, depth = round_trip(tables, row), tables.other(row, "sender_buffer_max")
        if trip and depth and depth >= 3:
            share = (row.mean or 0.0) / (trip * (depth + 1))
            shares.append(share)
            total += 1
            good += 0.1 <= share <= 1.5
    if not shares:
        return unmeasured()
    why = "A long delay of one message holds up all that wait behind it."
    figure = f"the longest is {spread(shares)} of (waiting + 1) round trips"
    return by_share(figure, good, total, why=why)


def _newtop_latency(tables: Tables) -> Finding:
    found = [r.mean or 0.0 for r in ratios(tables, "latency_mean", "newtop", "vector")]
    if not found:
        return unmeasured()
    good = sum(ratio > 1.2 for ratio in found)
    why = "Where everybody sends all the time, nobody has to be waited for."
    figure = f"{spread(found)} times the latency of vector, which delivers earliest"
    return by_share(figure, good, len(found), why=why)


def _throughput(protocol: str, low: float, high: float, tables: Tables) -> Finding:
    found = curves(tables, "throughput", protocol, along="delay", where=pressed)
    if protocol == "cykas":
        found = [curve for curve in found if curve.points[0][1].processes == 2]
    why = "The time that the last messages are under way counts too, and grows."
    finding = grown(found, low, high, why=why)
    if not found:
        return finding
    return replace(finding, figure=finding.figure.replace("exponent ", "delay^"))


def _one_in_transit(measure: str, protocol: str, whose: str, tables: Tables) -> Finding:
    most = [row.mean or 0.0 for row in tables.rows(measure, protocol=protocol)]
    good = sum(each <= 1 for each in most)
    figure = f"at most {max(most):.4g} {whose}" if most else ""
    return by_share(figure, good, len(most), why="There were more.", part=1)


def _many_in_transit(tables: Tables) -> Finding:
    rows = tables.rows("in_transit_pair_max", protocol="hybrid", where=pressed)
    most = [row.mean or 0.0 for row in rows]
    good = sum(each > 1 for each in most)
    figure = f"{spread(most, '{:.0f}')} between two processes" if most else ""
    why = "Where a process seldom speaks to the same one, there are few to each."
    return by_share(figure, good, len(most), why=why)


def _live(tables: Tables) -> Finding:
    return judged_runs(
        tables, ["hybrid", "hybrid-basic"], "live", why="Something got stuck."
    )


def _starvation(tables: Tables) -> Finding:
    found = ratios(tables, "sender_wait_max", "cykas", "buffer")
    values = [row.mean or 0.0 for row in found]
    if not values:
        return unmeasured()
    stuck = verdict_counts(tables, "cykas", "live")["violated"]
    figure = f"{stuck} runs stuck; longest wait {spread(values)} times that of buffer"
    if stuck:
        return Finding(figure=figure, outcome=Outcome.HOLDS)
    # Waits beyond those for acks, which buffer has too, are due to secret mode.
    outcome = Outcome.PART if max(values) > 1.5 else Outcome.FAILS
    why = "A run that ends cannot show starvation, only waits that get long."
    return Finding(figure=figure, outcome=outcome, why=why)


def _control(protocol: str, low: float, high: float, tables: Tables) -> Finding:
    found = control_per_copy(tables, protocol)
    if not found:
        return unmeasured()
    good = sum(low <= each <= high for each in found)
    return by_share(
        f"{spread(found)} control frames per copy", good, len(found), why=BATCHED
    )


BATCHED = (
    "Acks and permits are cumulative in our implementation: one frame may do for many."
)


def _safe_under_faults(tables: Tables) -> Finding:
    return judged_runs(
        tables,
        ["hybrid", "hybrid-basic"],
        "causal",
        where=lambda cell, setting: bool(
            setting["loss"] or setting["duplicate"] or setting["reorder"]
        ),
        why="The oracle found messages delivered out of causal order.",
    )


def _no_later_than(
    measure: str, first: str, second: str, why: str, tables: Tables
) -> Finding:
    found = [r.mean or 0.0 for r in ratios(tables, measure, first, second)]
    if not found:
        return unmeasured()
    good = sum(ratio <= 1.02 for ratio in found)
    figure = f"{spread(found)} times (less is better)"
    return by_share(figure, good, len(found), why=why)


def _wins_bytes(tables: Tables) -> Finding:
    good = total = 0
    most = 0.0
    for other in ("matrix", "optimal"):
        for row in ratios(tables, "metadata_bytes_total", other, "hybrid"):
            if row.processes >= 100:
                total += 1
                good += (row.mean or 0.0) > 1
                most = max(most, row.mean or 0.0)
    why = "On sparse traffic the optimal protocol has little to say, and sends no acks."
    return by_share(f"up to {most:,.0f} times the bytes of hybrid", good, total, why=why)


def _tree_latency(tables: Tables) -> Finding:
    found = ratios(tables, "latency_mean", "tree", "fifo", where=calm)
    found = found or ratios(tables, "latency_mean", "tree", "optimal", where=calm)
    values = [row.mean or 0.0 for row in found if row.processes >= 10]
    if not values:
        return unmeasured()
    good = sum(value > 1.5 for value in values)
    why = "A pipeline whose neighbours are neighbours in the tree takes no detour."
    return by_share(f"{spread(values)} times the direct way", good, len(values), why=why)


CLAIMS = (
    claim(
        id="A12",
        place="Table 1, latency",
        claim="RST and KS deliver at the earliest moment that causal order allows.",
        measured="Latency of matrix beyond that of optimal, copy by copy",
        rule="the mean differs by at most 1 % of the latency",
        judge=_earliest,
    ),
    claim(
        id="A13",
        place="Table 1, latency",
        claim="The latency that hybrid buffering adds is of the order of a round trip.",
        measured="Mean non-causal latency in round trips, no loss, no bound of bandwidth",
        rule="it is at most 2 in every setting",
        judge=_hybrid_latency,
    ),
    claim(
        id="A14",
        place="Table 1, latency; §3.2",
        claim="The latency that the buffer protocol adds is that of a round trip for every"
        " message that waits before it.",
        measured="Largest non-causal latency over (most waiting + 1) round trips, where at"
        " least three wait",
        rule="it is between 0.1 and 1.5",
        judge=_buffer_latency,
    ),
    claim(
        id="A15",
        place="Table 1, latency; §3.1",
        claim="Newtop delivers late, since it waits to hear from everybody.",
        measured="Latency of newtop over that of vector, same runs",
        rule="it is more than 1.2 in every setting",
        judge=_newtop_latency,
    ),
    claim(
        id="A16",
        place="Table 1, throughput; §2.3",
        claim="The throughput of hybrid buffering is not bounded by the round trip.",
        measured="Throughput against the delay of a link",
        rule="the exponent is above -0.3 where sends are faster than acks come back",
        judge=partial(_throughput, "hybrid", -0.3, 9),
    ),
    claim(
        id="A17",
        place="Table 1, throughput; §3.2",
        claim="The throughput of the buffer protocol is bounded by the round trip.",
        measured="Throughput against the delay of a link",
        rule="the exponent is below -0.7 where sends are faster than acks come back",
        judge=partial(_throughput, "buffer", -9, -0.7),
    ),
    claim(
        id="A18",
        place="Table 1, throughput; §3.2",
        claim="So is that of Cykas between two processes.",
        measured="Throughput against the delay of a link",
        rule="the same, of two processes",
        judge=partial(_throughput, "cykas", -9, -0.7),
    ),
    claim(
        id="A19",
        place="Table 1, in transit",
        claim="The buffer protocol has one message in transit per sender.",
        measured="Most copies of one source in transit at once",
        rule="it is at most 1",
        judge=partial(_one_in_transit, "in_transit_source_max", "buffer", "of one source"),
    ),
    claim(
        id="A20",
        place="Table 1, in transit",
        claim="Hybrid buffering does not limit the messages in transit.",
        measured="Most copies between two processes in transit at once, where messages are"
        " sent faster than acks come back",
        rule="it is more than 1 in every setting",
        judge=_many_in_transit,
    ),
    claim(
        id="A21",
        place="Table 1, in transit",
        claim="Cykas has one message in transit to each receiver of a sender.",
        measured="Most copies between two processes in transit at once",
        rule="it is at most 1",
        judge=partial(
            _one_in_transit, "in_transit_pair_max", "cykas", "between two processes"
        ),
    ),
    claim(
        id="A22",
        place="Table 1, liveness; Prop. 5.5",
        claim="Every message of hybrid buffering is delivered in the end.",
        measured="Verdicts of the oracle",
        rule="liveness held in all runs",
        judge=_live,
    ),
    claim(
        id="A23",
        place="Table 1, liveness; §4",
        claim="Cykas can starve: new eager messages keep a process from sending.",
        measured="Runs that get stuck; longest wait at the sender, cykas over buffer",
        rule="a run gets stuck; in part if the wait is over 1.5 times as long somewhere",
        judge=_starvation,
    ),
    claim(
        id="A24",
        place="Table 1, control messages",
        claim="The matrix protocol needs no control messages on a reliable network.",
        measured="Control frames per copy",
        rule="there are none",
        judge=partial(_control, "matrix", 0, 0),
    ),
    claim(
        id="A25",
        place="Table 1, control messages",
        claim="Hybrid buffering needs acks and permits: at most two for a message.",
        measured="Control frames per copy on a reliable network",
        rule="there are more than 0 and at most 2",
        judge=partial(_control, "hybrid", 1e-9, 2),
    ),
    claim(
        id="A26",
        study="microservices",
        place="§5.5, Prop. 5.1 and 5.2",
        claim="Hybrid buffering keeps causal order on a network that loses, duplicates and"
        " reorders.",
        measured="Verdicts of the oracle on networks with faults",
        rule="causal order held in all runs",
        judge=_safe_under_faults,
    ),
    claim(
        id="A27",
        study="microservices",
        place="§5.6",
        claim="The SPS-optimal variant delivers no later than the basic one.",
        measured="Mean latency, hybrid over hybrid-basic, same runs",
        rule="it is at most 1.02 in every setting",
        judge=partial(
            _no_later_than,
            "latency_mean",
            "hybrid",
            "hybrid-basic",
            "A workload of answers runs a little differently under each.",
        ),
    ),
    claim(
        id="A28",
        place="§4, §7",
        claim="Hybrid buffering holds messages back less than Cykas does.",
        measured="Mean wait at the sender, hybrid over cykas, same runs",
        rule="it is at most 1.02 in every setting",
        judge=partial(
            _no_later_than,
            "sender_wait_mean",
            "hybrid",
            "cykas",
            "Hybrid lets more messages go early, and each that needs a permit may hold up"
            " its receiver's sends.",
        ),
    ),
    claim(
        id="A29",
        study="microservices",
        place="§6, §7",
        claim="At large scale hybrid buffering wins in metadata over receiver buffering.",
        measured="All metadata bytes of matrix and of optimal over those of hybrid, n at"
        " least 100",
        rule="it is more than 1 in every setting",
        judge=_wins_bytes,
    ),
    claim(
        id="A30",
        study="microservices",
        place="§1",
        claim="The long ways along a tree cost a good deal of latency.",
        measured="Mean latency of tree over that of the direct way, n at least 10, no loss",
        rule="it is more than 1.5 in every setting",
        judge=_tree_latency,
    ),
)
