"""Consistent cuts: they divide a run into slices that can be ordered one by one.

A *cut* has a *frontier* for each process: a position in its history. The events up to the
frontiers are inside the cut. Here, the position of an event is its time by the clock of its
process, or its ``seq``. A cut is *consistent* if each delivery inside has its send inside.
The cuts of a run ascend: each contains the one before. *Slice* k has the events that are
inside cut k, and not inside cut k - 1.

**Slices are independent.** Let all cuts be consistent. Then a send is in the slice of its
delivery or in an earlier one, and so is the previous event of the same process. So if each
slice is put into a linear extension of happened-before, and the slices follow one another,
the result is a linear extension of the whole run. This holds for clocks of any skew: times
of different processes are never compared, except to guess. A cycle of happened-before lies
in one slice, since a consistent cut that contains one of its events contains all.

**Closure.** The cuts begin as a guess. A delivery in cut k whose send is not in it *raises*
the frontier of the source to the send, in cut k and all later ones. Each task raises the
frontiers for the messages of its buckets; the driver takes the maximum of the results, and
starts another round until nothing changes. A frontier is only raised if every consistent
cut that contains the guess has it as high, so the result is the least of these. It ends:
frontiers only ascend, and each is the guess or the position of a send.

**Rounds.** A path of messages, backward from the guess, that makes a frontier as high as it
becomes visits each process at most once, unless there is a cycle: while it is at a process
again, but earlier in its history, it could have stayed there. So the closure takes at most
as many rounds as there are processes, and usually two or three. If a cut is still raised
after :func:`rounds_max` rounds, it is left out. Each round treats each cut by itself, so
the others are consistent.

A timestamp in whole milliseconds can stand for an interval. The *unit* of a process is the
length of that interval; a frontier is always the end of one. So events of a process that
overlap are in one slice, whose task finds that their order is not certain.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = [
    "ALL",
    "NOTHING",
    "CloseJob",
    "CutEvents",
    "Frontiers",
    "RoundResult",
    "close_cuts",
    "close_locally",
    "count_events",
    "merge_rounds",
    "raised_frontiers",
    "round_up",
    "rounds_max",
    "slice_numbers",
]

NOTHING, ALL = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""The frontiers of a process that has no event, or all events, in a cut."""
LOCAL_PASSES_MAX = 16
"""A task passes over its events at most this many times in a round."""
ROUNDS_MIN, ROUNDS_LIMIT = 16, 200

Frontiers = Longs
"""By chain of cuts, process and cut: the frontier. The cuts of a chain ascend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutEvents:
    """The sends and deliveries of a bucket, by process, in the order of its history."""

    process: Ints
    position: Longs
    is_send: Bools
    source: Ints
    """By delivery: the process of the send."""
    sent: Longs
    """By delivery: the position of the send; NOTHING if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """The result of a round, of a task or of all tasks."""

    raised: Longs
    """Rows for chain, process, cut and new frontier; it applies to the later cuts, too."""
    counts: Longs
    """By chain, the number of events in each slice, for the cuts before the round."""


CloseJob = Callable[[Frontiers], RoundResult]
"""Runs a round over all buckets."""


def rounds_max(processes: int) -> int:
    """Return the most rounds of a closure."""
    return min(ROUNDS_LIMIT, max(ROUNDS_MIN, processes + 2))


def close_cuts(guess: Frontiers, job: CloseJob) -> tuple[Frontiers, Longs, Bools]:
    """Return the least consistent cuts that contain a guess.

    Args:
        guess: The chains of cuts.
        job: Runs a round.

    Returns:
        The frontiers; by chain, the number of events in each cut and in the whole run; and
        whether a cut is consistent. A cut that is not has no valid number of events.
    """
    frontiers = guess.copy()
    is_closed = np.ones((guess.shape[0], guess.shape[2]), np.bool_)
    for _ in range(rounds_max(guess.shape[1])):
        found = job(frontiers)
        sizes = np.cumsum(found.counts, axis=1)
        if not found.raised.shape[1]:
            return frontiers, sizes, np.ones_like(is_closed)
        chain, process, cut, value = found.raised
        raised = frontiers.copy()
        np.maximum.at(raised, (chain, process, cut), value)
        np.maximum.accumulate(raised, axis=2, out=raised)
        is_closed = np.all(raised == frontiers, axis=1)
        frontiers = raised
    return frontiers, sizes, is_closed


def round_up(position: Longs, unit: Longs) -> Longs:
    """Return the ends of the intervals that positions are in."""
    if not np.any(unit > 1):
        return position
    is_end = (position == NOTHING) | (position == ALL)
    return np.where(is_end, position, position - position % unit + unit - 1)


def close_locally(events: CutEvents, units: Longs, frontiers: Frontiers) -> None:
    """Raise frontiers, in place, as the messages of a bucket require it."""
    _close(
        events.process,
        events.position,
        events.is_send,
        events.source,
        events.sent,
        units,
        frontiers,
        LOCAL_PASSES_MAX,
    )


def raised_frontiers(before: Frontiers, after: Frontiers) -> Longs:
    """Return the difference of frontiers for :attr:`RoundResult.raised`."""
    is_raised = after > before
    is_raised[:, :, 1:] &= after[:, :, 1:] > after[:, :, :-1]
    chain, process, cut = np.nonzero(is_raised)
    return np.stack((chain, process, cut, after[chain, process, cut])).astype(np.int64)


def merge_rounds(parts: list[RoundResult], frontiers: Frontiers) -> RoundResult:
    """Return the result of a round from those of its tasks."""
    chains, _, cuts = frontiers.shape
    counts = np.zeros((chains, cuts + 1), np.int64)
    for part in parts:
        counts += part.counts
    raised = [np.empty((4, 0), np.int64), *(part.raised for part in parts)]
    return RoundResult(raised=np.concatenate(raised, axis=1), counts=counts)


def count_events(events: CutEvents, frontiers: Frontiers) -> Longs:
    """Return by chain the number of events of a bucket in each slice."""
    chains, _, cuts = frontiers.shape
    counts = np.zeros((chains, cuts + 1), np.int64)
    _count(events.process, events.position, frontiers, counts)
    return counts


def slice_numbers(process: Ints, position: Longs, frontier: Longs) -> Ints:
    """Return the slice of each event; events are by process, in order.

    Args:
        process: By event, its process.
        position: By event, its position.
        frontier: By process and cut, the frontier.
    """
    return _slice_numbers(process, position, frontier)


@compiled
def _close(
    process: Ints,
    position: Longs,
    is_send: Bools,
    source: Ints,
    sent: Longs,
    units: Longs,
    frontiers: Longs,
    passes: int,
) -> None:
    chains, _, cuts = frontiers.shape
    for chain in range(chains):
        frontier = frontiers[chain]
        for _ in range(passes):
            is_changed = False
            last, cut = -1, 0
            for i in range(process.size):
                p = process[i]
                if p != last:
                    last, cut = p, 0
                while cut < cuts and frontier[p, cut] < position[i]:
                    cut += 1
                if is_send[i] or cut == cuts or frontier[source[i], cut] >= sent[i]:
                    continue
                unit = units[source[i]]
                value = sent[i]
                if unit > 1:
                    value += unit - 1 - value % unit
                above = cut
                while above < cuts and frontier[source[i], above] < value:
                    frontier[source[i], above] = value
                    above += 1
                is_changed = True
            if not is_changed:
                break


@compiled
def _count(process: Ints, position: Longs, frontiers: Longs, counts: Longs) -> None:
    for chain in range(frontiers.shape[0]):
        for cut in _slice_numbers(process, position, frontiers[chain]):
            counts[chain, cut] += 1


@compiled
def _slice_numbers(process: Ints, position: Longs, frontier: Longs) -> Ints:
    found = np.empty(process.size, np.int32)
    cuts = frontier.shape[1]
    last, cut = -1, 0
    for i in range(process.size):
        p = process[i]
        if p != last:
            last, cut = p, 0
        while cut < cuts and frontier[p, cut] < position[i]:
            cut += 1
        found[i] = cut
    return found
