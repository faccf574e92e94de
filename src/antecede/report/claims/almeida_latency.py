"""Claims of Almeida on latency, throughput and messages in transit."""

from dataclasses import replace
from functools import partial

from antecede.report.claims.almeida import PAPER
from antecede.report.claims.claim import Claim, ClaimResult, not_measured
from antecede.report.claims.conditions import bandwidth_unlimited, saturated
from antecede.report.claims.evidence import (
    curves,
    format_range,
    in_round_trips,
    ratios,
    round_trip,
)
from antecede.report.claims.rules import by_share, exponent_between
from antecede.report.tables import Tables

__all__ = ["CLAIMS"]

claim = partial(Claim, paper=PAPER, study="table1")


def _earliest(tables: Tables) -> ClaimResult:
    rows = tables.rows(
        "non_causal_latency_mean", protocol="matrix", where=bandwidth_unlimited
    )
    optimal = {row.configuration for row in tables.rows("latency_mean", protocol="optimal")}
    shares = []
    for row in rows:
        latency = tables.mean_of(row, "latency_mean")
        if latency and row.configuration in optimal:
            shares.append(abs(row.mean or 0.0) / latency)
    if not shares:
        return not_measured()
    good = sum(share <= 0.01 for share in shares)
    return by_share(
        f"matrix and optimal differ by {format_range(shares, '{:.2%}')} of the latency",
        good,
        len(shares),
        explanation="Messages that are sent in reply to others differ between the runs.",
    )


def _hybrid_latency(tables: Tables) -> ClaimResult:
    trips = in_round_trips(tables, "non_causal_latency_mean", "hybrid")
    if not trips:
        return not_measured()
    good = sum(trip <= 2 for trip in trips)
    explanation = "Waits add up along a chain of messages that each wait for permits."
    observed = f"mean {format_range(trips)} round trips"
    return by_share(observed, good, len(trips), explanation=explanation)


def _buffer_latency(tables: Tables) -> ClaimResult:
    shares = []
    for row in tables.rows(
        "non_causal_latency_max", protocol="buffer", where=bandwidth_unlimited
    ):
        trip = round_trip(tables, row)
        queued = tables.mean_of(row, "sender_buffer_max")
        if trip and queued and queued >= 3:
            shares.append((row.mean or 0.0) / (trip * (queued + 1)))
    if not shares:
        return not_measured()
    good = sum(0.1 <= share <= 1.5 for share in shares)
    explanation = (
        "A long network delay of one message delays all messages queued behind it."
    )
    observed = f"longest latency {format_range(shares)} times (queued + 1) round trips"
    return by_share(observed, good, len(shares), explanation=explanation)


def _newtop_latency(tables: Tables) -> ClaimResult:
    found = [r.mean or 0.0 for r in ratios(tables, "latency_mean", "newtop", "vector")]
    if not found:
        return not_measured()
    good = sum(ratio > 1.2 for ratio in found)
    explanation = "If all processes send continuously, Newtop waits for none of them."
    observed = f"{format_range(found)} times the latency of vector, which delivers earliest"
    return by_share(observed, good, len(found), explanation=explanation)


def _throughput(protocol: str, low: float, high: float, tables: Tables) -> ClaimResult:
    found = curves(tables, "throughput", protocol, along="delay", where=saturated)
    if protocol == "cykas":
        found = [curve for curve in found if curve.points[0][1].processes == 2]
    explanation = "The network delay of the last messages counts and grows with the delay."
    result = exponent_between(found, low, high, explanation=explanation)
    return replace(result, observed=result.observed.replace("exponent ", "delay^"))


def _one_in_transit(measure: str, protocol: str, scope: str, tables: Tables) -> ClaimResult:
    most = [row.mean or 0.0 for row in tables.rows(measure, protocol=protocol)]
    good = sum(each <= 1 for each in most)
    observed = f"at most {max(most):.4g} {scope}" if most else ""
    explanation = "Several copies were in transit at once."
    return by_share(observed, good, len(most), explanation=explanation, partly_share=1)


def _many_in_transit(tables: Tables) -> ClaimResult:
    rows = tables.rows("in_transit_pair_max", protocol="hybrid", where=saturated)
    most = [row.mean or 0.0 for row in rows]
    good = sum(each > 1 for each in most)
    observed = f"{format_range(most, '{:.0f}')} between two processes" if most else ""
    explanation = "A process that rarely sends to the same target has few copies to each."
    return by_share(observed, good, len(most), explanation=explanation)


CLAIMS = (
    claim(
        id="A12",
        section="Table 1, latency",
        claim="The matrix and optimal protocols (RST, KS) deliver at the earliest time that"
        " causal order permits.",
        measurement="Latency of matrix minus that of optimal, copy by copy",
        rule="the mean difference is at most 1 % of the latency",
        decide=_earliest,
    ),
    claim(
        id="A13",
        section="Table 1, latency",
        claim="Hybrid buffering adds a latency of the order of one round trip.",
        measurement="Mean non-causal latency in round trips, without loss or bandwidth"
        " limit",
        rule="it is at most 2 in every configuration",
        decide=_hybrid_latency,
    ),
    claim(
        id="A14",
        section="Table 1, latency; §3.2",
        claim="The buffer protocol adds one round trip of latency for each message that is"
        " queued before.",
        measurement="Largest non-causal latency divided by (most queued + 1) round trips,"
        " if at least three messages were queued",
        rule="it is between 0.1 and 1.5",
        decide=_buffer_latency,
    ),
    claim(
        id="A15",
        section="Table 1, latency; §3.1",
        claim="Newtop delivers late, because it waits for a message from every process.",
        measurement="Latency of newtop divided by that of vector in the same configuration",
        rule="it is more than 1.2 in every configuration",
        decide=_newtop_latency,
    ),
    claim(
        id="A16",
        section="Table 1, throughput; §2.3",
        claim="The round-trip time does not limit the throughput of hybrid buffering.",
        measurement="Throughput against the delay of a link",
        rule="the exponent is above -0.3 if processes send faster than acks return",
        decide=partial(_throughput, "hybrid", -0.3, 9),
    ),
    claim(
        id="A17",
        section="Table 1, throughput; §3.2",
        claim="The round-trip time limits the throughput of the buffer protocol.",
        measurement="Throughput against the delay of a link",
        rule="the exponent is below -0.7 if processes send faster than acks return",
        decide=partial(_throughput, "buffer", -9, -0.7),
    ),
    claim(
        id="A18",
        section="Table 1, throughput; §3.2",
        claim="The round-trip time limits the throughput of Cykas between two processes.",
        measurement="Throughput against the delay of a link, with two processes",
        rule="the exponent is below -0.7 if processes send faster than acks return",
        decide=partial(_throughput, "cykas", -9, -0.7),
    ),
    claim(
        id="A19",
        section="Table 1, in transit",
        claim="The buffer protocol has at most one message per sender in transit.",
        measurement="Most copies of one source in transit at once",
        rule="it is at most 1",
        decide=partial(_one_in_transit, "in_transit_source_max", "buffer", "of one source"),
    ),
    claim(
        id="A20",
        section="Table 1, in transit",
        claim="Hybrid buffering does not limit the number of messages in transit.",
        measurement="Most copies between two processes in transit at once, if processes"
        " send faster than acks return",
        rule="it is more than 1 in every configuration",
        decide=_many_in_transit,
    ),
    claim(
        id="A21",
        section="Table 1, in transit",
        claim="Cykas has at most one message in transit from a sender to each receiver.",
        measurement="Most copies between two processes in transit at once",
        rule="it is at most 1",
        decide=partial(
            _one_in_transit, "in_transit_pair_max", "cykas", "between two processes"
        ),
    ),
)
