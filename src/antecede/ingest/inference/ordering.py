"""Find events of one process whose order their timestamps do not determine.

A timestamp with a resolution stands for an interval of time. Two events of one process
whose intervals overlap can have happened in either order, unless another source orders
them. A guessed order could produce false violations, so one of the two events is dropped:
the one with the coarser timestamp, or else the later one. Of equal timestamps, a key that
depends on the contents of the records decides, so that the choice does not depend on the
order of the records. The order of all remaining events is certain.
"""

from collections.abc import Callable, Sequence

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.sorting import stable_order
from antecede.verify.kernels.stream import Bools

__all__ = ["AMBIGUOUS_ORDER", "TieKeys", "ambiguous_events", "sort_histories"]

AMBIGUOUS_ORDER = "events whose order in their process the timestamps do not determine"


TieKeys = Callable[[Longs], Sequence[np.ndarray]]
"""Returns the sort keys of some events of one process with equal times: by event, the first
key, then the second one, and so on."""


def sort_histories(process: Ints, time: Longs, tie_keys: TieKeys | None = None) -> Longs:
    """Return the events by process, and those of each process by time.

    Args:
        process: By event, its process.
        time: By event, its time.
        tie_keys: Orders events of one process with equal times; by default, they keep their
            order.
    """
    order = stable_order(process, time)
    at, when = process[order], time[order]
    is_tie = np.zeros(len(order) + 1, np.bool_)
    is_tie[1:-1] = (at[1:] == at[:-1]) & (when[1:] == when[:-1])
    tied = np.flatnonzero(is_tie[:-1] | is_tie[1:])
    if len(tied):
        events = np.sort(order[tied])
        ties = () if tie_keys is None else tie_keys(events)
        order[tied] = events[np.lexsort((*reversed(ties), time[events], process[events]))]
    return order


def ambiguous_events(
    process: Ints,
    time_ns: Longs,
    resolution_ns: Longs,
    is_ordered: Callable[[int, int], bool] | None = None,
    *,
    order: Longs | None = None,
) -> Bools:
    """Return the events to drop so that the order of all others is certain.

    Args:
        process: By event, its process.
        time_ns: By event, the start of the interval of its timestamp.
        resolution_ns: By event, the length of the interval; 0 for an instant.
        is_ordered: Returns whether another source orders one event before another of the
            same process.
        order: The events by process and time, if the caller has sorted them.
    """
    if order is None:
        order = sort_histories(process, time_ns)
    dropped = np.zeros(len(process), np.bool_)
    overlapping = order[_overlapping(order, process, time_ns, resolution_ns)]
    if not len(overlapping):
        return dropped
    keys = (resolution_ns, time_ns, process)
    order = overlapping[np.lexsort([key[overlapping] for key in keys])]
    time, at = time_ns[order], process[order]
    end = time + np.maximum(resolution_ns[order], 1)
    # Overlapping intervals of a process are adjacent, and form clusters.
    cluster: list[tuple[int, int, int]] = []
    latest_end = 0
    for i in range(len(order)):
        if cluster and (at[i] != at[i - 1] or time[i] >= latest_end):
            dropped[_select_dropped(cluster, is_ordered)] = True
            cluster, latest_end = [], 0
        cluster.append((int(order[i]), int(time[i]), int(end[i])))
        latest_end = max(latest_end, int(end[i])) if len(cluster) > 1 else int(end[i])
    dropped[_select_dropped(cluster, is_ordered)] = True
    return dropped


@compiled
def _overlapping(order: Longs, process: Ints, time: Longs, resolution: Longs) -> Bools:
    """Return whether the interval of each event of an order overlaps another one."""
    found = np.zeros(order.size, np.bool_)
    start, latest_end = 0, np.int64(0)
    for i in range(order.size):
        event = order[i]
        end = time[event] + max(resolution[event], 1)
        if i > start and process[event] == process[order[start]]:
            if time[event] < latest_end:
                found[i - 1] = found[i] = True
            latest_end = max(latest_end, end)
        else:
            start, latest_end = i, end
    return found


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
