"""Where the timestamps of a process do not tell the order of its own events.

A timestamp of a certain resolution stands for a stretch of time. Two events of one process
whose stretches touch may have happened in either order, unless something else tells it. An
order that was guessed would make violations of nothing, so of two such events one is given
up: the coarser one, or else the later in the sorting. What is left is certain.
"""

from collections.abc import Callable

import numpy as np

from antecede.verify.kernels.slots import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["UNSURE", "unsure_events"]

UNSURE = "events whose order among those of their process the timestamps do not tell"


def unsure_events(
    process: Ints,
    time_ns: Longs,
    resolution_ns: Longs,
    is_ordered: Callable[[int, int], bool] | None = None,
) -> Bools:
    """Return which events to give up so that the order of all others is certain.

    Args:
        process: By event, where it happened.
        time_ns: By event, the start of the stretch that its timestamp stands for.
        resolution_ns: By event, how long that is; 0 for one moment.
        is_ordered: Tells whether something else says that one event happened before
            another of its process.
    """
    order = np.lexsort((resolution_ns, time_ns, process))
    at, time = process[order], time_ns[order]
    reach = time + np.maximum(resolution_ns[order], 1)
    unsure = np.zeros(len(order), np.bool_)
    bounds = np.flatnonzero(np.diff(at, prepend=-1, append=-1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        # Up to where the stretches reach of all events before each.
        covered = np.maximum.accumulate(reach[first : last - 1])
        touches = np.concatenate(([False], time[first + 1 : last] < covered, [False]))
        # Stretches that touch each other come one after the other.
        starts = np.flatnonzero(~touches[:-1] & touches[1:]) + first
        stops = np.flatnonzero(touches[:-1] & ~touches[1:]) + first + 1
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            cluster = [
                (int(order[i]), int(time[i]), int(reach[i])) for i in range(start, stop)
            ]
            unsure[_give_up(cluster, is_ordered)] = True
    return unsure


def _give_up(
    cluster: list[tuple[int, int, int]],
    is_ordered: Callable[[int, int], bool] | None,
) -> list[int]:
    """Go through events, with their time and reach, and return those to give up."""
    given_up: list[int] = []
    kept: list[tuple[int, int, int]] = []
    for event, time, reach in cluster:
        kept = [each for each in kept if each[2] > time]
        open_to = [
            each
            for each in kept
            if is_ordered is None
            or not (is_ordered(each[0], event) or is_ordered(event, each[0]))
        ]
        if all(each[2] - each[1] > reach - time for each in open_to):
            given_up += [each[0] for each in open_to]
            kept = [each for each in kept if each not in open_to]
            kept.append((event, time, reach))
        else:
            given_up.append(event)
    return given_up
