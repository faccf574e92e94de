"""Choose consistent cuts so that no slice is too large.

The guess is closed first (:mod:`antecede.pipeline.records.cuts`). That can make a slice
much larger than others, because the clocks mislead the guess. Such a slice, between the
cuts A and B with n events, is divided as follows:

1. Let the *past* of an event be the least consistent cut that contains A and the event. Up
   to :data:`CHAINS_MAX` processes are chosen. For each, m events at equal distances in its
   part of the slice are chosen, with the first and the last; their pasts are a chain of
   cuts, and all chains are closed at once. Another chain has guesses by shares: j/m of the
   events of each process.
2. These cuts are sorted by their numbers of events. The maximum of each cut and all before
   it is consistent, since the union of consistent cuts is, and these maxima ascend.

**Each part is small, unless there is a cycle.** Let all processes be chosen. Consider an
event f in the part that a cut D adds, and a chosen event e before f in the same process.
The past of e is contained in that of f, and so in D. If it has fewer events than D, it
comes earlier, and e is in an earlier part. Otherwise, it is equal to D, and contains f, so
that e and f are in a cycle. So of each process, the part has at most the events between two
chosen ones, n/m in all, and beside these only events of one cycle. If no cut divides a
slice, all its events are in one cycle: the past of the first event of each process is the
slice.

Of more processes, some are drawn at random, weighted by their events. If processes that
have g events of a part were not chosen, and each had more than 1/m of its events there, one
of them would have been chosen with probability 1 - (1 - g/n) ** CHAINS_MAX. So the parts
become smaller by a factor with high probability, and the large ones are divided again,
with other processes. A slice that stays as large :data:`FAILURES_MAX` times is kept.

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
FRONTIERS_MAX = 1 << 23
"""The most frontiers in the chains of one attempt: 64 MiB."""
SAMPLES_MAX = 1 << 20
"""About the most events that the driver gets to divide slices."""
FAILURES_MAX = 2
FAILURE_SHARE = 0.75
"""A slice was not divided if a part has more than this share of its events."""
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
            found, failures = self._divide(found, failures, is_large)

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
        self, found: FoundCuts, failures: Longs, is_large: Bools
    ) -> tuple[FoundCuts, Longs]:
        step = max(1, int(found.sizes[is_large].sum()) // SAMPLES_MAX)
        samples = self.sample(found.frontier, is_large, step)
        seed = int(failures.sum()) + len(found.sizes)
        guess = _Guess(found, is_large, samples, self.slice_events, seed)
        frontiers, sizes, is_closed = close_cuts(
            round_up(guess.frontiers, self.units[:, None]), self.close
        )
        columns = [found.frontier]
        for first, last in guess.ranges:
            chosen = is_closed[:, first:last]
            inside = frontiers[:, :, first:last].transpose(0, 2, 1)[chosen]
            order = np.argsort(sizes[:, first:last][chosen], kind="stable")
            columns.append(np.maximum.accumulate(inside[order], axis=0).T)
        frontier = np.concatenate(columns, axis=1)
        # The cuts ascend, so each process sorts them alike.
        frontier = np.unique(np.sort(frontier, axis=1), axis=1)
        counts = self.close(frontier[None]).counts[0]
        ends = np.cumsum(counts)
        parent = np.searchsorted(np.cumsum(found.sizes), ends)
        is_same = counts > FAILURE_SHARE * found.sizes[parent]
        is_same &= is_large[parent]
        return self._join(frontier, ends, np.where(is_same, failures[parent] + 1, 0))


class _Guess:
    """Chains of cuts that divide large slices; each chain has guesses for all of them."""

    frontiers: Frontiers
    ranges: list[tuple[int, int]]
    """By large slice, the first of its cuts in every chain, and the cut after the last."""

    def __init__(
        self,
        found: FoundCuts,
        is_large: Bools,
        samples: Longs,
        slice_events: int,
        seed: int,
    ) -> None:
        processes = len(found.frontier)
        bounds = np.full((processes, found.frontier.shape[1] + 2), NOTHING)
        bounds[:, 1:-1], bounds[:, -1] = found.frontier, ALL
        large = np.flatnonzero(is_large)
        wanted = -(-LIMIT * found.sizes[large] // max(1, slice_events))
        parts = np.clip(wanted, 2, PARTS_MAX)
        cuts = int(np.sum(parts + 2))
        chains = min(CHAINS_MAX, processes, FRONTIERS_MAX // (processes * cuts))
        self.ranges = []
        self.frontiers = np.empty((max(2, chains + 1), processes, cuts), np.int64)
        random = np.random.default_rng(seed)
        first = 0
        for number, count in zip(large.tolist(), parts.tolist(), strict=True):
            low, high = bounds[:, number], bounds[:, number + 1]
            part = self.frontiers[:, :, first : first + count + 2]
            part[:, :, :-1] = low[:, None]
            part[:, :, -1] = high
            chosen = samples[:, samples[0] == number]
            self._fill(part[:, :, 1:-1], chosen[1], chosen[2], random)
            self.ranges.append((first + 1, first + count + 1))
            first += count + 2

    def _fill(
        self,
        part: Longs,
        process: Longs,
        position: Longs,
        random: np.random.Generator,
    ) -> None:
        """Fill in the cuts of a slice from a sample of its events."""
        order = np.lexsort((position, process))
        process, position = process[order], position[order]
        cuts = part.shape[2]
        names, first, counts = np.unique(process, return_index=True, return_counts=True)
        share = np.arange(cuts) / cuts
        for p, start, count in zip(names, first, counts, strict=True):
            at = start + np.floor(share * count).astype(np.int64)
            part[0, p, 1:] = position[at][1:]
        chains = min(len(names), len(part) - 1)
        weights = counts / max(1, counts.sum())
        drawn = random.choice(len(names), size=chains, replace=False, p=weights)
        for chain, which in enumerate(drawn, start=1):
            at = np.linspace(0, counts[which] - 1, cuts).astype(np.int64)
            part[chain, names[which]] = position[first[which] + at]


def sample_events(
    events: CutEvents, frontier: Longs, is_wanted: Bools, step: int, start: int
) -> Longs:
    """Return the slice, the process and the position of some events of a bucket, as rows.

    Args:
        events: The bucket.
        frontier: By process and cut.
        is_wanted: By slice, whether its events are wanted.
        step: Every so many events, one is returned.
        start: The number of events before the first that is returned.
    """
    number = slice_numbers(events.process, events.position, frontier)
    chosen = np.flatnonzero(is_wanted[number])[start % step :: step]
    columns = (number[chosen], events.process[chosen], events.position[chosen])
    return np.stack([column.astype(np.int64) for column in columns])
