"""Which protocol to take for recorded traffic: a rule over measured figures.

Of the protocols that promise causal order and kept it, those are *fast* whose 99th
percentile of latency is no more than :data:`TOLERANCE` of that of ``unordered`` above the
best one's. Of the fast ones, those are *lean* which put at most :data:`TOLERANCE` more
bytes of metadata on the network than the leanest, control frames and repeats included. Of
these the fastest is picked.

Everything here is a function of :class:`Figures`; nothing is run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Figures", "Recommendation", "fast", "growth_limit", "pick", "recommend"]

TOLERANCE = 0.1
"""A tenth of a latency is less than what one run differs from the next."""
GROWTH = {"matrix": 2.0, "vector": 1.0, "optimal": 0.6}
"""How the metadata of a message grows with the processes: the exponent, as ``make
bench-protocols`` measures it from 10 to 1,000 of them; that of all others hardly does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one protocol cost on one network; means over seeds, times in seconds.

    Copies, and those delivered too early, are of all seeds together.
    """

    protocol: str
    network: str
    causal: bool
    """It promises causal order."""
    held: bool
    """It kept every property, in every run."""
    runs: int
    """How many seeds."""
    copies: int
    latency_p50: float
    latency_p99: float
    added_p50: float
    """What the median of latency is above that of ``unordered`` on the same network."""
    added_p99: float
    metadata_bytes: float
    """Of a copy, when it is first transmitted."""
    metadata_total: float
    """In all frames."""
    control_frames: float
    sender_buffer: float
    """The most copies that waited at one source at once."""
    receiver_buffer: float
    too_early: int
    """Copies delivered before one that happened before them."""
    too_early_fifo: int
    """Those of them that overtook one of the same source."""
    duration: float
    """From the start to the last delivery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Which protocol to take, and why."""

    protocol: str
    sentence: str
    rests_on: tuple[str, ...]
    """The figures behind it, a sentence each."""
    changes: tuple[str, ...]
    """What would change it, or would not, a sentence each."""


def fast(figures: Sequence[Figures]) -> list[Figures]:
    """Return those of one network that may be picked, by their bytes in all."""
    able = [each for each in figures if each.causal and each.held]
    plain = _of(figures, "unordered")
    if not able or plain is None:
        return []
    limit = min(each.added_p99 for each in able) + TOLERANCE * plain.latency_p99
    found = [each for each in able if each.added_p99 <= limit]
    return sorted(found, key=lambda each: (each.metadata_total, each.added_p99))


def pick(figures: Sequence[Figures]) -> Figures | None:
    """Return the one to take on one network; None if none kept what it promises."""
    found = fast(figures)
    if not found:
        return None
    limit = (1 + TOLERANCE) * found[0].metadata_total
    lean = [each for each in found if each.metadata_total <= limit]
    return min(lean, key=lambda each: (each.added_p99, each.metadata_total))


def recommend(
    figures: Mapping[str, Sequence[Figures]], processes: int
) -> Recommendation | None:
    """Return which protocol to take on the first of some networks.

    Args:
        figures: Of each network, by what it is called in a sentence ("with 1 % loss"), what
            was measured; the first one is the network to decide for.
        processes: How many there are.

    Returns:
        None if no protocol kept causal order there.
    """
    (_, here), *others = figures.items()
    best = pick(here)
    if best is None:
        return None
    return Recommendation(
        protocol=best.protocol,
        sentence=_sentence(best, here),
        rests_on=tuple(_rests_on(best, here)),
        changes=tuple(_changes(best, here, others, processes)),
    )


def growth_limit(best: Figures, other: Figures, processes: int) -> int | None:
    """Return from how many processes on ``other`` would carry fewer bytes than ``best``.

    None if it never would, as far as their growth tells.
    """
    faster = GROWTH.get(best.protocol, 0.0) - GROWTH.get(other.protocol, 0.0)
    if faster <= 0 or not best.metadata_total:
        return None
    ratio = other.metadata_total / best.metadata_total
    return round(processes * math.pow(ratio, 1 / faster))


def _sentence(best: Figures, here: Sequence[Figures]) -> str:
    plain, fifo = _of(here, "unordered"), _of(here, "fifo")
    assert plain is not None, "there is no pick without it"
    cost = f"{_latency(best)} and {best.metadata_bytes:.1f} bytes a message"
    by_fifo = "" if fifo is None else f" and fifo {_count(fifo)}"
    several = f" in {plain.runs} runs" if plain.runs > 1 else ""
    broke = (
        f"of {plain.copies:,} copies{several} unordered delivers {_count(plain)}{by_fifo}"
    )
    if plain.too_early == 0:
        return (
            f"In these runs the traffic came in causal order by itself: {broke} too early."
            f" If it must whatever happens, take {best.protocol}, for {cost}."
        )
    if fifo is not None and fifo.too_early == 0:
        return (
            f"In these runs FIFO channels were enough: {broke} too early. For causal order"
            f" whatever happens, take {best.protocol}, for {cost}."
        )
    return f"Take {best.protocol}, for {cost}: {broke} too early."


def _rests_on(best: Figures, here: Sequence[Figures]) -> list[str]:
    able = [each for each in here if each.causal and each.held]
    near = fast(here)
    plain = _of(here, "unordered")
    assert plain is not None, "there is no pick without it"
    names = ", ".join(each.protocol for each in near)
    margin_ms = 1e3 * TOLERANCE * plain.latency_p99
    lines = [
        f"of {len(able)} protocols that kept causal order, these are the fastest or within"
        f" {margin_ms:.2f} ms of it at p99, a tenth of unordered's: {names}",
    ]
    if len(near) > 1:
        told = ", ".join(f"{each.protocol} {each.metadata_total:,.0f}" for each in near[:3])
        lines.append(
            f"of these the fewest bytes in all: {told}; a tenth more counts as equal, and"
            f" the fastest of equals is {best.protocol}"
        )
    broken = [each.protocol for each in here if each.causal and not each.held]
    if broken:
        lines.append(f"left aside, since a property was violated: {', '.join(broken)}")
    return lines


def _changes(
    best: Figures,
    here: Sequence[Figures],
    others: Sequence[tuple[str, Sequence[Figures]]],
    processes: int,
) -> list[str]:
    lines = []
    for name, figures in others:
        there = pick(figures)
        if there is None:
            lines.append(f"{name}: no protocol kept causal order")
            continue
        same = "the same" if there.protocol == best.protocol else f"{there.protocol}"
        lines.append(
            f"{name}: {same}, {_latency(there)}, {there.metadata_bytes:.1f} bytes a message"
        )
        own = _of(figures, best.protocol)
        if own is not None and own.protocol != there.protocol:
            lines[-1] += f" ({own.protocol}: {_latency(own)})"
        early = [each for each in figures if not each.causal]
        told = ", ".join(f"{each.protocol} {_count(each)}" for each in early)
        lines[-1] += f"; too early: {told}" if told else ""
    able = [each for each in here if each.causal and each.held]
    quickest = min(able, key=lambda each: (each.added_p99, each.metadata_total))
    leanest = min(able, key=lambda each: (each.metadata_total, each.added_p99))
    for what, other in (("latency", quickest), ("bytes", leanest)):
        if other.protocol != best.protocol:
            lines.append(
                f"if only {what} counted: {other.protocol}, {_latency(other)},"
                f" {other.metadata_total:,.0f} bytes in all"
            )
    lines.append(_with_more(best, here, processes))
    return lines


def _with_more(best: Figures, here: Sequence[Figures], processes: int) -> str:
    """Say what becomes of the pick with more processes."""
    if best.protocol not in GROWTH:
        return f"with more processes: the same, {best.protocol} carries no more for them"
    found = [
        (limit, each.protocol)
        for each in fast(here)
        if (limit := growth_limit(best, each, processes)) is not None
    ]
    grows = f"what {best.protocol} carries grows as n^{GROWTH[best.protocol]:g}"
    if not found:
        return f"with more processes: {grows}, and no other is as fast here"
    limit, name = min(found)
    return f"with more processes: {grows}; beyond about {limit:,}, {name} carries less"


def _of(figures: Sequence[Figures], protocol: str) -> Figures | None:
    return next((each for each in figures if each.protocol == protocol), None)


def _latency(figures: Figures) -> str:
    """Say what a protocol adds to the latency."""
    half, most = (1e3 * each for each in (figures.added_p50, figures.added_p99))
    return f"{half:+.2f} ms at the median, {most:+.2f} ms at p99"


def _count(figures: Figures) -> str:
    return f"{figures.too_early:,}" if figures.too_early else "none"
