"""Hybrid logical clocks of the events of a run.

The clock of an event is a pair. Its first part is the latest time of the event itself and
of all events that happened before it. Its second part is 0 if the event is the first with
this time among them, and otherwise one more than that of its latest predecessor. If a
happened before b, then the clock of a is less than that of b, so the order by clocks is a
linear extension of happened-before.
"""

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["hybrid_clocks"]

NEVER = np.iinfo(np.int64).min


@compiled
def hybrid_clocks(
    order: Longs,
    process: Ints,
    time: Longs,
    is_send: Bools,
    slot: Longs,
    processes: int,
    slots: int,
) -> tuple[Longs, Longs]:
    """Return both parts of the clock of each event.

    Args:
        order: The events in a linear extension.
        process: By event, its process.
        time: By event, its time; the times of a process ascend along its history.
        is_send: By event, whether it is a send, and otherwise a delivery.
        slot: By event, the slot of its message.
        processes: The number of processes.
        slots: The number of slots.
    """
    clock, count = np.empty(time.size, np.int64), np.empty(time.size, np.int64)
    own_clock, own_count = np.full(processes, NEVER), np.zeros(processes, np.int64)
    sent_clock, sent_count = np.full(slots, NEVER), np.zeros(slots, np.int64)
    for i in range(order.size):
        event = order[i]
        p, m = process[event], slot[event]
        latest, steps = own_clock[p], own_count[p] + 1
        if not is_send[event] and sent_clock[m] >= latest:
            if sent_clock[m] > latest:
                latest, steps = sent_clock[m], sent_count[m] + 1
            else:
                steps = max(steps, sent_count[m] + 1)
        if time[event] > latest:
            latest, steps = time[event], 0
        clock[event], count[event] = latest, steps
        own_clock[p], own_count[p] = latest, steps
        if is_send[event]:
            sent_clock[m], sent_count[m] = latest, steps
    return clock, count
