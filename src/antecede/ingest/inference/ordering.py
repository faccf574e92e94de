"""Find events of one process whose order their timestamps do not determine.

A timestamp with a resolution stands for an interval of time. Two events of one process
whose intervals overlap can have happened in either order, unless another source orders
them. A guessed order could produce false violations, so one of the two events is dropped:
the one with the coarser timestamp, or else the later one. The order of all remaining events
is certain.
"""

from collections.abc import Callable

import numpy as np

from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["AMBIGUOUS_ORDER", "ambiguous_events"]

AMBIGUOUS_ORDER = "events whose order in their process the timestamps do not determine"


def ambiguous_events(
    process: Ints,
    time_ns: Longs,
    resolution_ns: Longs,
    is_ordered: Callable[[int, int], bool] | None = None,
) -> Bools:
    """Return the events to drop so that the order of all others is certain.

    Args:
        process: By event, its process.
        time_ns: By event, the start of the interval of its timestamp.
        resolution_ns: By event, the length of the interval; 0 for an instant.
        is_ordered: Returns whether another source orders one event before another of the
            same process.
    """
    order = np.lexsort((resolution_ns, time_ns, process))
    at, time = process[order], time_ns[order]
    end = time + np.maximum(resolution_ns[order], 1)
    dropped = np.zeros(len(order), np.bool_)
    bounds = np.flatnonzero(np.diff(at, prepend=-1, append=-1))
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        # For each event but the first, the latest end of all intervals before it.
        latest_end = np.maximum.accumulate(end[first : last - 1])
        overlaps = np.concatenate(([False], time[first + 1 : last] < latest_end, [False]))
        # Overlapping intervals are adjacent, and form clusters.
        starts = np.flatnonzero(~overlaps[:-1] & overlaps[1:]) + first
        stops = np.flatnonzero(overlaps[:-1] & ~overlaps[1:]) + first + 1
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            cluster = [
                (int(order[i]), int(time[i]), int(end[i])) for i in range(start, stop)
            ]
            dropped[_select_dropped(cluster, is_ordered)] = True
    return dropped


def _select_dropped(
    cluster: list[tuple[int, int, int]],
    is_ordered: Callable[[int, int], bool] | None,
) -> list[int]:
    """Return the events of a cluster to drop; each is an event, its start and its end."""
    dropped: list[int] = []
    kept: list[tuple[int, int, int]] = []
    for event, time, end in cluster:
        kept = [each for each in kept if each[2] > time]
        ambiguous = [
            each
            for each in kept
            if is_ordered is None
            or not (is_ordered(each[0], event) or is_ordered(event, each[0]))
        ]
        if all(each[2] - each[1] > end - time for each in ambiguous):
            dropped += [each[0] for each in ambiguous]
            kept = [each for each in kept if each not in ambiguous]
            kept.append((event, time, end))
        else:
            dropped.append(event)
    return dropped
