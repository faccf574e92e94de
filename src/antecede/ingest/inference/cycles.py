"""Find the messages that form cycles of happened-before.

Happened-before has a cycle if an event happened before itself: some message that was
inferred does not exist, was not delivered at that event, or the order of the events of some
process is wrong. The events of all cycles are the *strongly connected components* of more
than one event. All other messages are in no cycle.
"""

import numpy as np

from antecede.ingest.event_table import DELIVER, NONE, SEND
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.grouping import group
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["messages_in_cycles"]


def messages_in_cycles(
    process: Ints, kind: Ints, message: Longs, is_doubtful: Bools
) -> Longs:
    """Return messages without which happened-before has no cycle.

    Of each strongly connected component, the doubtful messages are removed. If it is not
    resolved by that, all its messages are.

    Args:
        process: By event, its process; events of a process are together and in order.
        kind: By event, SEND, DELIVER or another kind.
        message: By event, its message, or NONE.
        is_doubtful: By message, whether its delivery is less certain than others.
    """
    kind = kind.copy()
    removed: list[Longs] = [np.empty(0, np.int64)]
    # A component without its messages is a part of a history, so two rounds are enough.
    for only_doubtful in (True, False):
        if _is_acyclic(process, kind == SEND, kind == DELIVER, message, len(is_doubtful)):
            break
        component = _components(process, kind, message, len(is_doubtful))
        sends = np.flatnonzero(kind == SEND)
        sent_in = np.full(len(is_doubtful), NONE, np.int64)
        sent_in[message[sends]] = component[sends]
        got = np.flatnonzero(kind == DELIVER)
        inside = got[component[got] == sent_in[message[got]]]
        found, where = message[inside], component[inside]
        if only_doubtful:
            chosen = is_doubtful[found]
            chosen |= ~np.isin(where, where[chosen])
            found = found[chosen]
        removed.append(np.unique(found))
        kind[np.isin(message, removed[-1])] = NONE
    return np.concatenate(removed)


def _components(process: Ints, kind: Ints, message: Longs, messages: int) -> Longs:
    """Return the strongly connected component of each event, as a number."""
    by_message, first = group(np.where(kind == DELIVER, message, NONE), messages)
    return _tarjan(process, kind == SEND, message, by_message, first)


@compiled
def _is_acyclic(
    process: Ints, is_send: Bools, is_delivery: Bools, message: Longs, messages: int
) -> bool:
    """Return whether all events can be taken in an order of happened-before.

    Each history is followed until a delivery whose send is not taken; that send resumes it.
    """
    count = process.size
    is_awaited = np.zeros(messages, np.bool_)  # It has a send, which is not taken.
    for event in range(count):
        if is_send[event]:
            is_awaited[message[event]] = True
    # Deliveries that wait for the same message form a list.
    waiting = np.full(messages, NONE, np.int64)
    next_waiting = np.full(count, NONE, np.int64)
    ready = np.empty(count + 1, np.int64)
    taken = 0
    for first in range(count):
        if first > 0 and process[first] == process[first - 1]:
            continue
        ready[0], size = first, 1
        while size > 0:
            size -= 1
            event = ready[size]
            while True:
                if is_delivery[event] and is_awaited[message[event]]:
                    next_waiting[event] = waiting[message[event]]
                    waiting[message[event]] = event
                    break
                taken += 1
                if is_send[event]:
                    is_awaited[message[event]] = False
                    resumed = waiting[message[event]]
                    waiting[message[event]] = NONE
                    while resumed != NONE:
                        ready[size] = resumed
                        size += 1
                        resumed = next_waiting[resumed]
                if event + 1 == count or process[event + 1] != process[event]:
                    break
                event += 1
    return taken == count


@compiled
def _tarjan(
    process: Ints, is_send: Bools, message: Longs, delivery: Longs, first: Longs
) -> Longs:
    """Find strongly connected components by Tarjan's algorithm, without recursion.

    The successors of an event are the next event of its process and, if it is a send, the
    deliveries of its message.
    """
    count = process.size
    component = np.full(count, NONE, np.int64)
    index = np.full(count, NONE, np.int64)
    low = np.zeros(count, np.int64)
    tried = np.zeros(count, np.int64)  # The number of successors that were followed.
    path = np.empty(count, np.int64)
    pending = np.empty(count, np.int64)
    visited, pending_size, components = 0, 0, 0
    for root in range(count):
        if index[root] != NONE:
            continue
        path[0], depth = root, 1
        while depth > 0:
            event = path[depth - 1]
            if tried[event] == 0:
                index[event] = low[event] = visited
                visited += 1
                pending[pending_size] = event
                pending_size += 1
            follower = NONE
            if tried[event] == 0:
                if event + 1 < count and process[event + 1] == process[event]:
                    follower = event + 1
            elif is_send[event]:
                position = first[message[event]] + tried[event] - 1
                if position < first[message[event] + 1]:
                    follower = delivery[position]
            tried[event] += 1
            if follower != NONE:
                if index[follower] == NONE:
                    path[depth] = follower
                    depth += 1
                elif component[follower] == NONE:
                    low[event] = min(low[event], index[follower])
                continue
            if is_send[event] and tried[event] == 1:
                continue  # The last event of its process; its deliveries are next.
            depth -= 1
            if depth > 0:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[event])
            if low[event] == index[event]:
                member = NONE
                while member != event:
                    pending_size -= 1
                    member = pending[pending_size]
                    component[member] = components
                components += 1
    return component
