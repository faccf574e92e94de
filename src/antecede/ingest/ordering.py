"""Where the timestamps of a process do not tell the order of its own events.

A timestamp of a certain resolution stands for a stretch of time. Two events of one process
whose stretches touch may have happened in either order, unless something else tells it. An
order that was guessed would make violations of nothing, so of two such events one is given
up: the coarser one, or else the later in the sorting. What is left is certain.
"""

from collections.abc import Callable

import numpy as np

from antecede.trace.slots import Ints, Longs
from antecede.trace.stream import Bools

__all__ = ["UNSURE", "unsure_events"]

UNSURE = "events whose order among those of their process the timestamps do not tell"
NEIGHBOURS_MAX = 64
"""How many of those after it an event is compared with; if so many share a moment, all but
one of them are given up in any case."""


def unsure_events(
    process: Ints,
    time_ns: Longs,
    resolution_ns: Longs,
    is_ordered: Callable[[Longs, Longs], Bools] | None = None,
) -> Bools:
    """Return which events to give up so that the order of all others is certain.

    Args:
        process: By event, where it happened.
        time_ns: By event, the start of the stretch that its timestamp stands for.
        resolution_ns: By event, how long that is; 0 for one moment.
        is_ordered: Tells for pairs of events, as two arrays, whether something else says
            that the first happened before the second.
    """
    order = np.lexsort((resolution_ns, time_ns, process))
    at, time, length = process[order], time_ns[order], resolution_ns[order]
    first: list[Longs] = []
    second: list[Longs] = []
    for step in range(1, min(NEIGHBOURS_MAX, len(order))):
        near = at[step:] == at[:-step]
        gap = time[step:] - time[:-step]
        near &= (gap == 0) | (gap < length[:-step])
        if not np.any(near):
            break
        found = np.flatnonzero(near)
        one, other = order[found], order[found + step]
        if is_ordered is not None:
            open_ = ~(is_ordered(one, other) | is_ordered(other, one))
            one, other = one[open_], other[open_]
        first.append(one)
        second.append(other)
    unsure = np.zeros(len(order), np.bool_)
    for ones, others in zip(first, second, strict=True):
        for one, other in zip(ones.tolist(), others.tolist(), strict=True):
            if not unsure[one] and not unsure[other]:
                coarser = resolution_ns[one] > resolution_ns[other]
                unsure[one if coarser else other] = True
    return unsure
