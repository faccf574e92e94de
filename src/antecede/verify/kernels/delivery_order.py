"""Find every message that was delivered too early, in bounded memory.

The rows of a run are in a linear extension of happened-before, and all deliveries are known
in advance (:mod:`antecede.verify.kernels.matching`): target t delivers its copy of message
b at row D(b, t). The delivery violates causal order if and only if t delivers some message
a that happened before b later: D(a, t) > D(b, t). So a process has to know, for each target
t, only the largest D(a, t) among the messages a in its causal past: the *limit* of t. The
send of b compares the limit of t with D(b, t).

**Propagation.** A send adds the message's own copies to the limits of its sender. A message
carries the limits that its sender then has. A delivery merges the limits that the message
carries into those of the receiver: for each target, the larger one.

**Pruning.** Let the pass be at row n. A copy sent at a row r >= n is delivered at
D(b, t) > r >= n, because a delivery follows its send in a linear extension. A limit L <= n
is therefore less than every D(b, t) with which it can still be compared, at this process or
at any other that it is carried to. It cannot reveal a violation any more, and is dropped.
The remaining limits L > n are future deliveries of messages already sent: copies in flight.
One limit per target is enough: the other copies to that target have lower limits, so they
reveal no violation that it does not reveal, and are dropped no later.

For the same reason a message need not carry a limit L <= E, where E is the row of its own
first delivery: at row E, where the limit would first be merged, it is already dropped. In a
run that is in causal order, most messages carry few limits or none.

**Start in the middle of a run.** The pass may start at any row w with a new state; it then
ignores the deliveries of messages sent before w. Its result is exact from row v on if every
copy in flight at v (sent before v, delivered later) was sent at w or later: limits of other
copies from before w are dropped by row v, and every event by which a process learns of a
copy comes after its send, so after w.

A copy in flight at v that was sent before w is allowed if it is known which processes know
of it, and from which row on. Its limit is then given to each of them at that row
(:class:`InitialLimits`), and the result is exact again: a limit that one of them passes on
at w or later is carried like any other, and a process that learns of the copy from a
message sent before w is in the list.

**FIFO** is the same with the largest D(a, t) among the sender's own messages. It is stored
beside the limit and never larger, so it may be dropped with it.

**Cost.** Time is proportional to the rows times the targets in flight in the past of one
process. Memory is proportional to the processes and to the copies in flight
(:mod:`antecede.verify.kernels.state`).
"""

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.matching import Copies
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.state import (
    CAPACITY,
    CARRIED_USED,
    LENGTH,
    LIMIT,
    LIMITS,
    LIMITS_MAX,
    OWN,
    OWN_NONE,
    PAST_USED,
    REMAINING,
    START,
    TARGET,
    UNSENT,
    EarlyDeliveries,
    InitialLimits,
    OrderState,
    move_carried,
    move_past,
    no_initial_limits,
    resize,
)
from antecede.verify.kernels.stream import NotLinearExtensionError, Rows

__all__ = ["check_delivery_order"]

ROW, FOUND, ENDED, NEED, APPLIED = 0, 1, 2, 3, 4
"""Indexes of ``cursor``: the next row, the numbers of early deliveries found and of
messages ended, the space that a full pool lacks, and the number of initial limits
applied."""
DONE, NOT_LINEAR, PAST_FULL, CARRIED_FULL = 0, 1, 2, 3
"""Why the kernel returned: the batch is done, a delivery precedes its send, or a pool is
full."""


def check_delivery_order(
    state: OrderState,
    rows: Rows,
    slot: Ints,
    copies: Copies,
    *,
    processes: int,
    messages: int,
    initial: InitialLimits | None = None,
) -> tuple[OrderState, EarlyDeliveries, Ints]:
    """Process a batch; return the next state, the early deliveries, and the freed slots.

    The freed slots belong to messages whose last delivery is in the batch. Remove them from
    the slot map before the next batch.

    Args:
        state: The state before the batch; do not use it again.
        rows: The batch; its rows follow those of the batch before.
        slot: The slot of the message of each row; -1 if the message was sent before the
            pass started, was never sent, or is never delivered.
        copies: The copies of the messages sent in the batch.
        processes: The number of processes; all indexes are below it.
        messages: The number of slots; all slots are below it.
        initial: Limits from before the pass; those of rows after the batch are ignored.

    Raises:
        NotLinearExtensionError: A delivery precedes its send.
    """
    state = resize(state, processes=processes, messages=messages)
    found = np.empty((5, len(copies.limit)), np.int64)
    ended = np.empty(len(slot), np.int32)
    cursor = np.zeros(5, np.int64)
    ordinal = np.cumsum(rows.is_send) - 1
    initial = no_initial_limits() if initial is None else initial
    while True:
        why = _process(state, rows, slot, ordinal, copies, initial, found, ended, cursor)
        if why == DONE:
            early = EarlyDeliveries(*found[:, : cursor[FOUND]].copy())
            return state, early, ended[: cursor[ENDED]]
        if why == NOT_LINEAR:
            raise NotLinearExtensionError
        move = move_past if why == PAST_FULL else move_carried
        state = move(state, now=int(rows.row[cursor[ROW]]), need=int(cursor[NEED]))


@compiled
def _process(
    state: OrderState,
    rows: Rows,
    slot: Ints,
    ordinal: Longs,
    copies: Copies,
    initial: InitialLimits,
    found: Longs,
    ended: Ints,
    cursor: Longs,
) -> int:
    """Process the batch from row ``cursor[ROW]`` on, and return why it stopped."""
    processes, past, position, messages, carried, counters = state
    row, is_send, process = rows.row, rows.is_send, rows.process
    deliveries, earliest, start, stop, target, limit = copies
    for i in range(cursor[ROW], len(row)):
        cursor[ROW] = i
        while cursor[APPLIED] < len(initial.row) and initial.row[cursor[APPLIED]] <= row[i]:
            cursor[NEED] = _apply_initial_limit(
                processes, past, position, counters, initial, cursor, row[i]
            )
            if cursor[NEED] > 0:
                return PAST_FULL
            cursor[APPLIED] += 1
        message = slot[i]
        if message < 0:
            continue
        owner, now = process[i], row[i]
        if is_send[i]:
            send = ordinal[i]
            first, last = start[send], stop[send]
            _prune(processes, past, position, counters, owner, now)
            cursor[NEED] = _reserve(processes, past, counters, owner, last - first)
            if cursor[NEED] > 0:
                return PAST_FULL
            cursor[NEED] = processes[owner, LENGTH] + last - first
            if counters[CARRIED_USED] + cursor[NEED] > len(carried):
                return CARRIED_FULL
            for copy in range(first, last):
                _check_copy(
                    processes, past, position, counters, owner, target[copy], limit[copy],
                    i, found, cursor,
                )  # fmt: skip
            _attach_limits(
                processes, past, messages, carried, counters, owner, message, earliest[send]
            )
            messages[message, REMAINING] = deliveries[send]
        else:
            length = messages[message, LENGTH]
            if messages[message, START] == UNSENT:
                return NOT_LINEAR
            if length > 0:
                _prune(processes, past, position, counters, owner, now)
                cursor[NEED] = _reserve(processes, past, counters, owner, length)
                if cursor[NEED] > 0:
                    return PAST_FULL
                _merge(
                    processes, past, position, messages, carried, counters, owner, message,
                    now,
                )  # fmt: skip
            messages[message, REMAINING] -= 1
            if messages[message, REMAINING] == 0:
                counters[LIMITS] -= length
                messages[message, LENGTH] = 0
                messages[message, START] = UNSENT
                ended[cursor[ENDED]] = message
                cursor[ENDED] += 1
        counters[LIMITS_MAX] = max(counters[LIMITS_MAX], counters[LIMITS])
    return DONE


@compiled
def _prune(
    processes: Longs, past: Longs, position: Longs, counters: Longs, owner: int, now: int
) -> None:
    """Drop the limits of a process up to row ``now``; note the positions of the others."""
    start = processes[owner, START]
    length = processes[owner, LENGTH]
    kept = start
    for i in range(start, start + length):
        if past[i, LIMIT] > now:
            past[kept, TARGET] = past[i, TARGET]
            past[kept, LIMIT] = past[i, LIMIT]
            past[kept, OWN] = past[i, OWN]
            position[past[kept, TARGET]] = kept - start
            kept += 1
    processes[owner, LENGTH] = kept - start
    counters[LIMITS] -= start + length - kept


@compiled
def _reserve(processes: Longs, past: Longs, counters: Longs, owner: int, more: int) -> int:
    """Reserve space for more limits of a process; return the missing space, or 0."""
    length = processes[owner, LENGTH]
    if length + more <= processes[owner, CAPACITY]:
        return 0
    capacity = length + more + (length + more) // 2 + 1
    used = counters[PAST_USED]
    if used + capacity > len(past):
        return int(capacity)
    start = processes[owner, START]
    for i in range(length):
        past[used + i, TARGET] = past[start + i, TARGET]
        past[used + i, LIMIT] = past[start + i, LIMIT]
        past[used + i, OWN] = past[start + i, OWN]
    processes[owner, START] = used
    processes[owner, CAPACITY] = capacity
    counters[PAST_USED] = used + capacity
    return 0


@compiled
def _find(processes: Longs, past: Longs, position: Longs, owner: int, target: int) -> int:
    """Return the index of a process's limit of a target, or -1; prune the process first."""
    index = processes[owner, START] + position[target]
    if position[target] < processes[owner, LENGTH] and past[index, TARGET] == target:
        return int(index)
    return -1


@compiled
def _append(
    processes: Longs,
    past: Longs,
    counters: Longs,
    owner: int,
    target: int,
    limit: int,
    own: int,
) -> None:
    """Append the limit of a target; :func:`_find` finds it only after the next pruning."""
    length = processes[owner, LENGTH]
    index = processes[owner, START] + length
    past[index, TARGET] = target
    past[index, LIMIT] = limit
    past[index, OWN] = own
    processes[owner, LENGTH] = length + 1
    counters[LIMITS] += 1


@compiled
def _apply_initial_limit(
    processes: Longs,
    past: Longs,
    position: Longs,
    counters: Longs,
    initial: InitialLimits,
    cursor: Longs,
    now: int,
) -> int:
    """Add an initial limit to a process; return the missing space, or 0."""
    i = cursor[APPLIED]
    owner, target, limit = initial.process[i], initial.target[i], initial.limit[i]
    _prune(processes, past, position, counters, owner, now)
    lacking = _reserve(processes, past, counters, owner, 1)
    if lacking > 0 or limit <= now:
        return lacking
    found = _find(processes, past, position, owner, target)
    if found < 0:
        _append(processes, past, counters, owner, target, limit, initial.own[i])
    else:
        past[found, LIMIT] = max(past[found, LIMIT], limit)
        past[found, OWN] = max(past[found, OWN], initial.own[i])
    return 0


@compiled
def _check_copy(
    processes: Longs,
    past: Longs,
    position: Longs,
    counters: Longs,
    owner: int,
    target: int,
    limit: int,
    row: int,
    found: Longs,
    cursor: Longs,
) -> None:
    """Store a copy in ``found`` if it is delivered too early, and add it to the limits."""
    known = _find(processes, past, position, owner, target)
    if known < 0:
        _append(processes, past, counters, owner, target, limit, limit)
        return
    if past[known, LIMIT] > limit:
        found[0, cursor[FOUND]] = row
        found[1, cursor[FOUND]] = target
        found[2, cursor[FOUND]] = limit
        found[3, cursor[FOUND]] = past[known, LIMIT]
        found[4, cursor[FOUND]] = past[known, OWN] if past[known, OWN] > limit else OWN_NONE
        cursor[FOUND] += 1
    past[known, LIMIT] = max(past[known, LIMIT], limit)
    past[known, OWN] = max(past[known, OWN], limit)


@compiled
def _attach_limits(
    processes: Longs,
    past: Longs,
    messages: Longs,
    carried: Longs,
    counters: Longs,
    owner: int,
    message: int,
    earliest: int,
) -> None:
    """Let a message carry the limits that are in flight at its first delivery."""
    used = counters[CARRIED_USED]
    messages[message, START] = used
    start = processes[owner, START]
    for i in range(start, start + processes[owner, LENGTH]):
        if past[i, LIMIT] > earliest:
            carried[used, TARGET] = past[i, TARGET]
            carried[used, LIMIT] = past[i, LIMIT]
            used += 1
    messages[message, LENGTH] = used - counters[CARRIED_USED]
    counters[LIMITS] += messages[message, LENGTH]
    counters[CARRIED_USED] = used


@compiled
def _merge(
    processes: Longs,
    past: Longs,
    position: Longs,
    messages: Longs,
    carried: Longs,
    counters: Longs,
    owner: int,
    message: int,
    now: int,
) -> None:
    """Merge the limits that a message carries, and that are in flight, into a process."""
    start = messages[message, START]
    for i in range(start, start + messages[message, LENGTH]):
        target, limit = carried[i, TARGET], carried[i, LIMIT]
        if limit > now:
            known = _find(processes, past, position, owner, target)
            if known < 0:
                _append(processes, past, counters, owner, target, limit, OWN_NONE)
            else:
                past[known, LIMIT] = max(past[known, LIMIT], limit)
