"""Put the events of a slice into a linear extension of happened-before.

The events come in a *preferred order*, by times with the offsets of the clocks, in which
the events of each process are in the order of its history. A pass over them takes each
event, unless it is a delivery whose send has not been taken. Then its process waits, and
its later events form a queue. A send that is taken ends the waiting of the processes whose
next event delivers its message, and their queues are taken at once. So the result follows
the preferred order, and the pass takes constant time per event. Events that are never taken
wait for each other, or for such events: happened-before has a cycle.

Without times, :func:`order_on_demand` takes the events of one process after the other. It
takes what happened before an event only when the event needs it. If the first process
communicates with the others, this is close to the order in which the events happened, and
few messages are in flight at a time.
"""

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["order_events", "order_on_demand", "overlapping_processes", "send_slots"]

NONE = -1
NEVER = np.iinfo(np.int64).min


@compiled
def order_events(
    preferred: Longs,
    process: Ints,
    is_send: Bools,
    slot: Ints,
    processes: int,
    slots: int,
) -> Longs:
    """Return the events in a linear extension; without some if there is a cycle.

    Args:
        preferred: The events in the preferred order.
        process: By event, its process.
        is_send: By event, whether it is a send.
        slot: By event, the slot of its message; NONE if no event of the slice waits for it.
        processes: The number of processes.
        slots: The number of slots.
    """
    order = np.empty(process.size, np.int64)
    taken = 0
    is_sent = np.zeros(slots, np.bool_)
    # Processes that wait for the same message form a list, and so do the events of a queue.
    waiting_first = np.full(slots, NONE, np.int32)
    waiting_next = np.full(processes, NONE, np.int32)
    queue_first = np.full(processes, NONE, np.int64)
    queue_last = np.full(processes, NONE, np.int64)
    queue_next = np.full(process.size, NONE, np.int64)
    released = np.empty(processes, np.int32)
    for event in preferred:
        p = process[event]
        if queue_first[p] != NONE:
            queue_next[queue_last[p]] = event
            queue_last[p] = event
            continue
        queue_first[p] = queue_last[p] = event
        released[0], count = p, 1
        while count > 0:
            count -= 1
            q = released[count]
            next_event = queue_first[q]
            while next_event != NONE:
                message = slot[next_event]
                if message != NONE:
                    if is_send[next_event]:
                        is_sent[message] = True
                        while waiting_first[message] != NONE:
                            released[count] = waiting_first[message]
                            waiting_first[message] = waiting_next[released[count]]
                            count += 1
                    elif not is_sent[message]:
                        waiting_next[q] = waiting_first[message]
                        waiting_first[message] = q
                        break
                order[taken] = next_event
                taken += 1
                next_event = queue_next[next_event]
            queue_first[q] = next_event
    return order[:taken]


@compiled
def order_on_demand(
    by_history: Longs,
    bounds: Longs,
    leaders: Longs,
    process: Ints,
    is_send: Bools,
    slot: Ints,
    slots: int,
) -> Longs:
    """Return the events in a linear extension; without some if there is a cycle.

    Args:
        by_history: The events, by process and in the order of its history.
        bounds: For each process and one more, the start of its history in ``by_history``.
        leaders: All processes; their events are taken in this order.
        process: By event, its process.
        is_send: By event, whether it is a send.
        slot: By event, the slot of its message; NONE if no event of the slice waits for it.
        slots: The number of slots.
    """
    order = np.empty(by_history.size, np.int64)
    taken = 0
    position = bounds[:-1].copy()
    sent_at = np.full(slots, NONE, np.int64)
    for i in range(by_history.size):
        event = by_history[i]
        if is_send[event] and slot[event] != NONE:
            sent_at[slot[event]] = i
    # Each process on the stack waits for the next one, which is taken to its end.
    stack = np.empty(position.size, np.int64)
    end = np.empty(position.size, np.int64)
    is_on_stack = np.zeros(position.size, np.bool_)
    for leader in leaders:
        stack[0], end[0], depth = leader, bounds[leader + 1], 1
        is_on_stack[leader] = True
        while depth > 0:
            p = stack[depth - 1]
            if position[p] >= end[depth - 1]:
                is_on_stack[p] = False
                depth -= 1
                continue
            event = by_history[position[p]]
            if not is_send[event] and slot[event] != NONE:
                send = sent_at[slot[event]]
                source = process[by_history[send]]
                if position[source] <= send:
                    if is_on_stack[source]:
                        return order[:taken]
                    stack[depth], end[depth] = source, send + 1
                    is_on_stack[source] = True
                    depth += 1
                    continue
            order[taken] = event
            taken += 1
            position[p] += 1
    return order


@compiled
def overlapping_processes(
    preferred: Longs,
    process: Ints,
    time: Longs,
    part: Ints,
    is_mixed: Bools,
    unit: int,
    processes: int,
) -> Bools:
    """Return the processes that have events of different parts with overlapping intervals.

    Args:
        preferred: The events in the preferred order, hence by time in each process.
        process: By event, its process.
        time: By event, the start of the interval of its timestamp.
        part: By event, the part that it comes from.
        is_mixed: By process, whether a multiple of the unit stands for a unit of time.
        unit: In nanoseconds.
        processes: The number of processes.
    """
    found = np.zeros(processes, np.bool_)
    # By process: the latest end of an interval, its part, and the latest of other parts.
    end = np.full(processes, NEVER, np.int64)
    end_part = np.full(processes, NONE, np.int32)
    other_end = np.full(processes, NEVER, np.int64)
    for event in preferred:
        p, start, own = process[event], time[event], part[event]
        latest = other_end[p] if end_part[p] == own else end[p]
        if start < latest:
            found[p] = True
        stop = start + 1
        if is_mixed[p] and start % unit == 0:
            stop = start + unit
        if own == end_part[p]:
            end[p] = max(end[p], stop)
        elif stop > end[p]:
            other_end[p] = end[p]
            end[p], end_part[p] = stop, own
        else:
            other_end[p] = max(other_end[p], stop)
    return found


@compiled
def send_slots(
    number: Ints, message: Ints, is_send: Bools, slices: int, messages: int
) -> tuple[Ints, Bools]:
    """Number the messages of a bucket that an event of a slice may wait for.

    Args:
        number: By event, its slice.
        message: By event, its message.
        is_send: By event, whether it is a send.
        slices: The number of slices.
        messages: The number of messages.

    Returns:
        By event, the slot of its message if its send and a delivery are in the slice of
        the event, otherwise NONE; and by event, whether its message has events in several
        slices. Slots are unique in the slice.
    """
    sent_in = np.full(messages, NONE, np.int32)
    slots = np.full(messages, NONE, np.int32)
    is_split = np.zeros(messages, np.bool_)
    for i in range(number.size):
        if is_send[i]:
            sent_in[message[i]] = number[i]
    counts = np.zeros(slices, np.int32)
    for i in range(number.size):
        m = message[i]
        if not is_send[i]:
            if sent_in[m] != number[i]:
                is_split[m] = True
            elif slots[m] == NONE:
                slots[m] = counts[number[i]]
                counts[number[i]] += 1
    slot = np.full(number.size, NONE, np.int32)
    crosses = np.empty(number.size, np.bool_)
    for i in range(number.size):
        m = message[i]
        crosses[i] = is_split[m]
        if sent_in[m] == number[i]:
            slot[i] = slots[m]
    return slot, crosses
