"""Recommend a protocol for recorded traffic, by a rule over measured costs.

Of the protocols that guarantee causal order and preserved it, those are *fast* whose 99th
percentile of latency exceeds the best one's by at most :data:`TOLERANCE` of that of
``unordered``. Of the fast ones, those are *lean* whose metadata bytes in all frames,
control frames and retransmissions included, exceed the leanest one's by at most
:data:`TOLERANCE`. The fastest of the lean ones is recommended.

Everything here is a function of :class:`ProtocolCost`; nothing is run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["ProtocolCost", "Recommendation", "crossover_size", "fast", "pick", "recommend"]

TOLERANCE = 0.1
"""A tenth of a latency is less than the difference between two runs."""
GROWTH = {"matrix": 2.0, "vector": 1.0, "optimal": 0.6}
"""The exponent of the growth of a message's metadata with the number of processes, as
``make bench-protocols`` measures it from 10 to 1,000; about 0 for all other protocols."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolCost:
    """The measured costs of one protocol on one network; means over seeds, in seconds.

    Copies and early deliveries are summed over the seeds.
    """

    protocol: str
    network: str
    causal: bool
    """Whether the protocol guarantees causal order."""
    held: bool
    """Whether every property held in every run."""
    runs: int
    """The number of seeds."""
    copies: int
    latency_p50: float
    latency_p99: float
    added_p50: float
    """The median latency minus that of ``unordered`` on the same network."""
    added_p99: float
    """The 99th percentile of latency minus that of ``unordered``."""
    metadata_bytes: float
    """Per copy, in its first transmission."""
    metadata_total: float
    """In all frames."""
    control_frames: float
    sender_buffer: float
    """The most copies that were queued at one source at once."""
    receiver_buffer: float
    """The most copies that were held at one target at once."""
    too_early: int
    """Copies delivered before a message that happened before them."""
    too_early_fifo: int
    """Copies delivered before an earlier message of the same source."""
    duration: float
    """From the start to the last delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The recommended protocol, and the reasons."""

    protocol: str
    sentence: str
    evidence: tuple[str, ...]
    """The measurements behind it, one sentence each."""
    sensitivity: tuple[str, ...]
    """Changes of the conditions and their effect on it, one sentence each."""


def fast(costs: Sequence[ProtocolCost]) -> list[ProtocolCost]:
    """Return the fast protocols of one network, by their metadata bytes."""
    causal = _causal(costs)
    unordered = _find(costs, "unordered")
    if not causal or unordered is None:
        return []
    limit = min(cost.added_p99 for cost in causal) + TOLERANCE * unordered.latency_p99
    found = [cost for cost in causal if cost.added_p99 <= limit]
    return sorted(found, key=lambda cost: (cost.metadata_total, cost.added_p99))


def pick(costs: Sequence[ProtocolCost]) -> ProtocolCost | None:
    """Return the protocol to use on one network; None if none preserved causal order."""
    found = fast(costs)
    if not found:
        return None
    limit = (1 + TOLERANCE) * found[0].metadata_total
    lean = [cost for cost in found if cost.metadata_total <= limit]
    return min(lean, key=lambda cost: (cost.added_p99, cost.metadata_total))


def recommend(
    costs: Mapping[str, Sequence[ProtocolCost]], processes: int
) -> Recommendation | None:
    """Recommend a protocol for the first of some networks.

    Args:
        costs: The costs on each network, by its phrase ("with 1 % loss"); the first is the
            network to decide for.
        processes: The number of processes.

    Returns:
        None if no protocol preserved causal order on the first network.
    """
    (_, here), *others = costs.items()
    best = pick(here)
    if best is None:
        return None
    return Recommendation(
        protocol=best.protocol,
        sentence=_sentence(best, here),
        evidence=tuple(_evidence(best, here)),
        sensitivity=tuple(_sensitivity(best, here, others, processes)),
    )


def crossover_size(best: ProtocolCost, other: ProtocolCost, processes: int) -> int | None:
    """Return the number of processes beyond which ``other`` carries less metadata.

    None if the metadata of ``best`` does not grow faster.
    """
    exponent = GROWTH.get(best.protocol, 0.0) - GROWTH.get(other.protocol, 0.0)
    if exponent <= 0 or not best.metadata_total:
        return None
    ratio = other.metadata_total / best.metadata_total
    return round(processes * math.pow(ratio, 1 / exponent))


def _sentence(best: ProtocolCost, here: Sequence[ProtocolCost]) -> str:
    unordered, fifo = _find(here, "unordered"), _find(here, "fifo")
    assert unordered is not None, "there is no pick without it"
    cost = f"{_latency(best)} and {best.metadata_bytes:.1f} bytes per message"
    by_fifo = "" if fifo is None else f" and fifo {_early_count(fifo)}"
    runs = f" in {unordered.runs} runs" if unordered.runs > 1 else ""
    early = (
        f"of {unordered.copies:,} copies{runs} unordered delivers"
        f" {_early_count(unordered)}{by_fifo} too early"
    )
    if unordered.too_early == 0:
        return (
            f"The traffic was in causal order without a protocol: {early}. To guarantee"
            f" causal order, use {best.protocol}, for {cost}."
        )
    if fifo is not None and fifo.too_early == 0:
        return (
            f"FIFO channels were sufficient in these runs: {early}. To guarantee causal"
            f" order, use {best.protocol}, for {cost}."
        )
    return f"Use {best.protocol}, for {cost}: {early}."


def _evidence(best: ProtocolCost, here: Sequence[ProtocolCost]) -> list[str]:
    found = fast(here)
    unordered = _find(here, "unordered")
    assert unordered is not None, "there is no pick without it"
    names = ", ".join(cost.protocol for cost in found)
    margin_ms = 1e3 * TOLERANCE * unordered.latency_p99
    lines = [
        f"of {len(_causal(here))} protocols that preserved causal order, these are at p99"
        f" within {margin_ms:.2f} ms of the fastest, a tenth of unordered's: {names}",
    ]
    if len(found) > 1:
        totals = [f"{cost.protocol} {cost.metadata_total:,.0f}" for cost in found[:3]]
        lines.append(
            f"of these, total metadata bytes: {', '.join(totals)}; a tenth more counts as"
            f" equal, and the fastest of equals is {best.protocol}"
        )
    violated = [cost.protocol for cost in here if cost.causal and not cost.held]
    if violated:
        lines.append(f"excluded, because a property was violated: {', '.join(violated)}")
    return lines


def _sensitivity(
    best: ProtocolCost,
    here: Sequence[ProtocolCost],
    others: Sequence[tuple[str, Sequence[ProtocolCost]]],
    processes: int,
) -> list[str]:
    lines = []
    for phrase, costs in others:
        there = pick(costs)
        if there is None:
            lines.append(f"{phrase}: no protocol preserved causal order")
            continue
        name = "the same" if there.protocol == best.protocol else there.protocol
        line = f"{phrase}: {name}, {_latency(there)}"
        line += f", {there.metadata_bytes:.1f} bytes per message"
        own = _find(costs, best.protocol)
        if own is not None and own.protocol != there.protocol:
            line += f" ({own.protocol}: {_latency(own)})"
        early = [
            f"{cost.protocol} {_early_count(cost)}" for cost in costs if not cost.causal
        ]
        lines.append(line + (f"; too early: {', '.join(early)}" if early else ""))
    causal = _causal(here)
    fastest = min(causal, key=lambda cost: (cost.added_p99, cost.metadata_total))
    leanest = min(causal, key=lambda cost: (cost.metadata_total, cost.added_p99))
    for criterion, other in (("latency", fastest), ("bytes", leanest)):
        if other.protocol != best.protocol:
            lines.append(
                f"if only {criterion} mattered: {other.protocol}, {_latency(other)},"
                f" {other.metadata_total:,.0f} bytes in total"
            )
    lines.append(_with_more_processes(best, here, processes))
    return lines


def _with_more_processes(
    best: ProtocolCost, here: Sequence[ProtocolCost], processes: int
) -> str:
    """Return a sentence on the recommendation with more processes."""
    if best.protocol not in GROWTH:
        return f"with more processes: the same, metadata of {best.protocol} does not grow"
    found = [
        (size, cost.protocol)
        for cost in fast(here)
        if (size := crossover_size(best, cost, processes)) is not None
    ]
    growth = f"metadata of {best.protocol} grows as n^{GROWTH[best.protocol]:g}"
    if not found:
        return f"with more processes: {growth}, and no other protocol is as fast here"
    size, name = min(found)
    return f"with more processes: {growth}; beyond about {size:,}, {name} carries less"


def _causal(costs: Sequence[ProtocolCost]) -> list[ProtocolCost]:
    """Return the protocols that guarantee causal order, if every property held."""
    return [cost for cost in costs if cost.causal and cost.held]


def _find(costs: Sequence[ProtocolCost], protocol: str) -> ProtocolCost | None:
    return next((cost for cost in costs if cost.protocol == protocol), None)


def _latency(cost: ProtocolCost) -> str:
    """Return the added latency as text."""
    p50, p99 = 1e3 * cost.added_p50, 1e3 * cost.added_p99
    return f"{p50:+.2f} ms at the median, {p99:+.2f} ms at p99"


def _early_count(cost: ProtocolCost) -> str:
    return f"{cost.too_early:,}" if cost.too_early else "none"
