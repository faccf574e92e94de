"""Choose consistent cuts so that no slice is too large.

The guess is closed first (:mod:`antecede.pipeline.records.cuts`). That can make a slice
much larger than others, because the clocks mislead the guess. Such a slice, which begins at
the cut A and has n events, is divided as follows:

1. Let the *past* of an event be the least consistent cut that contains A and the event. Up
   to :data:`CHAINS_MAX` processes are chosen. For each, m events at equal distances in its
   part of the slice are chosen, with the first and the last; their pasts are a chain of
   cuts, and all chains are closed at once.
2. These cuts are sorted by their numbers of events. The maximum of each cut and all before
   it is consistent, since the union of consistent cuts is, and these maxima ascend.

The first attempt chooses only the process with the most deliveries. If it hears from the
others, directly or not, its pasts are close to the true state of the run at the time of its
events, whatever the clocks show, and few messages are in flight at the cuts. If a part
still has most of the events, the next attempt chooses many processes.

**Each part is small, unless there is a cycle.** Let all processes be chosen. Consider an
event f in the part that a cut D adds, and a chosen event e before f in the same process.
The past of e is contained in that of f, and so in D. If it has fewer events than D, it
comes earlier, and e is in an earlier part. Otherwise, it is equal to D, and contains f, so
that e and f are in a cycle. So of each process, the part has at most the events between two
chosen ones, about n/m in all, and beside these only events of one cycle. If no cut divides
a slice, all its events are in one cycle: the past of the first event of each process is the
slice.

Of more processes, some are drawn at random, weighted by their events. If processes that
have g events of a part were not chosen, and each had more than 1/m of its events there, one
of them would have been chosen with probability 1 - (1 - g/n) ** CHAINS_MAX. So the parts
become smaller by a factor with high probability, and the large ones are divided again, with
other processes. A slice that stays as large :data:`FAILURES_MAX` times is kept.

Small slices are joined, so that the cuts remain few.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from antecede.pipeline.records.cuts import (
    ALL,
    NOTHING,
    CloseJob,
    CutEvents,
    Frontiers,
    close_cuts,
    round_up,
    slice_numbers,
)
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["CutSearch", "FoundCuts", "SampleJob", "sample_events"]

CHAINS_MAX = 64
"""The most processes whose events are used to divide a slice."""
PARTS_MAX = 64
"""The most parts that a slice is divided into at a time."""
FRONTIERS_MAX = 1 << 19
"""The maximum number of frontiers in the chains of an attempt, and from each task."""
SAMPLES_MAX = 1 << 20
"""About the most events that the driver gets to divide slices."""
FAILURES_MAX = 3
FAILURE_SHARES = (0.75, 0.95)
"""A slice was not divided if a part has more than this share of its events, by the pasts of
one process, and of many."""
LIMIT = 2
"""A slice is divided if it has more than this times the wanted number of events."""

SampleJob = Callable[[Longs, Bools, int], Longs]
"""Returns every n-th event of some slices, as :func:`sample_events` does for a bucket; the
arguments are the frontiers by process and cut, by slice whether it is wanted, and n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCuts:
    """Consistent cuts of a run."""

    frontier: Longs
    """By process and cut."""
    sizes: Longs
    """By slice, the number of its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSearch:
    """Finds consistent cuts."""

    close: CloseJob
    sample: SampleJob
    units: Longs
    """By process, the length of the interval that a timestamp can stand for."""
    slice_events: int
    """The wanted number of events of a slice."""

    def find(self, guess: Longs) -> FoundCuts:
        """Return consistent cuts, with few more events in a slice than wanted.

        Args:
            guess: By process and cut, a frontier.
        """
        frontiers = np.maximum.accumulate(round_up(guess, self.units[:, None]), axis=1)
        (frontier,), (sizes,), (is_closed,) = close_cuts(frontiers[None], self.close)
        ends = sizes[np.append(is_closed, True)]
        found, failures = self._join(
            frontier[:, is_closed], ends, np.zeros(len(ends), np.int64)
        )
        while True:
            is_large = found.sizes > LIMIT * self.slice_events
            is_large &= failures < FAILURES_MAX
            if not np.any(is_large):
                return found
            # Slices that the pasts of one process may divide come first.
            is_large &= (failures > 0) == np.all(failures[is_large] > 0)
            chains = 1 if np.all(failures[is_large] == 0) else CHAINS_MAX
            found, failures = self._divide(found, failures, is_large, chains)

    def _join(
        self, frontier: Longs, ends: Longs, failures: Longs
    ) -> tuple[FoundCuts, Longs]:
        """Join small slices.

        Args:
            frontier: By process and cut.
            ends: By cut, and for the whole run, the number of its events.
            failures: By slice, the number of times that it was not divided.
        """
        kept, kept_failures, begin, worst = [], [], 0, 0
        for cut in range(len(ends) - 1):
            worst = max(worst, int(failures[cut]) if ends[cut] > begin else 0)
            if ends[cut] > begin and ends[cut + 1] - begin > self.slice_events:
                kept.append(cut)
                kept_failures.append(worst)
                begin, worst = int(ends[cut]), 0
        kept_failures.append(max(worst, int(failures[-1])))
        sizes = np.diff(ends[[*kept, -1]], prepend=0)
        found = FoundCuts(frontier=np.ascontiguousarray(frontier[:, kept]), sizes=sizes)
        return found, np.array(kept_failures)

    def _divide(
        self, found: FoundCuts, failures: Longs, is_large: Bools, chains: int
    ) -> tuple[FoundCuts, Longs]:
        """Divide large slices by the pasts of events of ``chains`` processes."""
        large = self._choose(found, is_large)
        is_large = np.zeros_like(is_large)
        is_large[[each.number for each in large]] = True
        step = max(1, int(found.sizes[is_large].sum()) // SAMPLES_MAX)
        samples = self.sample(found.frontier, is_large, step)
        random = np.random.default_rng(int(failures.sum()) + len(found.sizes))
        guess = _guess(found.frontier, large, samples, chains, random)
        frontiers, sizes, is_closed = close_cuts(
            round_up(guess, self.units[:, None]), self.close
        )
        columns = [found.frontier]
        for each in large:
            chosen = is_closed[:, each.cuts]
            inside = frontiers[:, :, each.cuts].transpose(0, 2, 1)[chosen]
            order = np.argsort(sizes[:, each.cuts][chosen], kind="stable")
            columns.append(np.maximum.accumulate(inside[order], axis=0).T)
        # The cuts ascend, so a sort of each process sorts them.
        frontier = np.sort(np.concatenate(columns, axis=1), axis=1)
        is_new = np.any(frontier[:, 1:] != frontier[:, :-1], axis=0)
        frontier = np.ascontiguousarray(frontier[:, np.append(is_new, True)])
        counts = self.close(frontier[None]).counts[0]
        ends = np.cumsum(counts)
        parent = np.searchsorted(np.cumsum(found.sizes), ends)
        share = FAILURE_SHARES[chains > 1]
        is_divided = is_large[parent] & (counts <= share * found.sizes[parent])
        failures = np.where(is_divided, 0, failures[parent] + is_large[parent])
        return self._join(frontier, ends, failures)

    def _choose(self, found: FoundCuts, is_large: Bools) -> "list[_Large]":
        """Return the slices to divide in one attempt, the largest first."""
        processes, first = len(found.frontier), 0
        chosen: list[_Large] = []
        for number in np.argsort(-found.sizes, kind="stable").tolist():
            if is_large[number]:
                wanted = int(-(-LIMIT * found.sizes[number] // self.slice_events))
                parts = min(max(2, wanted), PARTS_MAX)
                if chosen and (first + parts + 2) * processes * 2 > FRONTIERS_MAX:
                    break
                chosen.append(_Large(number, slice(first + 1, first + parts + 1)))
                first += parts + 2
        # The cuts of a chain ascend.
        chosen.sort(key=lambda each: each.number)
        first = 0
        for each in chosen:
            parts = each.cuts.stop - each.cuts.start
            each.cuts = slice(first + 1, first + parts + 1)
            first += parts + 2
        return chosen


@dataclass(slots=True)
class _Large:
    """A slice to divide."""

    number: int
    cuts: slice
    """The new cuts in each chain; the cut before and the one after are its bounds."""


def _guess(
    frontier: Longs,
    large: list[_Large],
    samples: Longs,
    chains: int,
    random: np.random.Generator,
) -> Frontiers:
    """Return chains of cuts; each has events of one process of each slice."""
    processes, cuts = len(frontier), large[-1].cuts.stop + 1
    room = FRONTIERS_MAX // (processes * cuts)
    count = max(1, min(chains, processes, room))
    found = np.empty((count, processes, cuts), np.int64)
    for each in large:
        first, last = each.cuts.start - 1, each.cuts.stop
        low = frontier[:, each.number - 1] if each.number else np.full(processes, NOTHING)
        high = np.full(processes, ALL)
        if each.number < frontier.shape[1]:
            high = frontier[:, each.number]
        found[:, :, first:last] = low[:, None]
        found[:, :, last] = high
        chosen = samples[1:, samples[0] == each.number]
        chosen = chosen[:, np.lexsort((chosen[1], chosen[0]))]
        _fill(found[:, :, each.cuts], chosen, random)
    return found


def _fill(cuts: Frontiers, samples: Longs, random: np.random.Generator) -> None:
    """Fill in the new cuts of a slice from a sample of its events, sorted by process."""
    parts = cuts.shape[2]
    process, position, is_delivery = samples
    which, first, counts = np.unique(process, return_index=True, return_counts=True)
    if not len(which):
        return
    deliveries = np.bincount(process, weights=is_delivery)[which]
    drawn = np.lexsort((counts, deliveries))[-1:]
    if len(cuts) > 1:
        chains = min(len(which), len(cuts))
        weights = counts / counts.sum()
        drawn = random.choice(len(which), size=chains, replace=False, p=weights)
    for chain, index in enumerate(drawn):
        at = np.linspace(0, counts[index] - 1, parts).astype(np.int64)
        cuts[chain, which[index]] = position[first[index] + at]


def sample_events(
    events: CutEvents, frontier: Longs, is_wanted: Bools, step: int, start: int
) -> Longs:
    """Return some events of a bucket.

    The rows are the slice, the process, the position, and 1 for a delivery, otherwise 0.

    Args:
        events: The bucket.
        frontier: By process and cut.
        is_wanted: By slice, whether its events are wanted.
        step: Every so many events, one is returned.
        start: The number of events before the first that is returned.
    """
    number = slice_numbers(events.process, events.position, frontier)
    chosen = np.flatnonzero(is_wanted[number])[start % step :: step]
    is_delivery = ~events.is_send[chosen] & (events.sent[chosen] != NOTHING)
    columns = (
        number[chosen], events.process[chosen], events.position[chosen], is_delivery,
    )  # fmt: skip
    return np.stack([column.astype(np.int64) for column in columns])
