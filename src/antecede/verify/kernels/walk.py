"""The walk that finds every message delivered too early, and keeps what is in flight.

The rows of a run stand in a linear extension of happened-before, and its deliveries are
known in advance (:mod:`antecede.verify.kernels.matching`): the copy of message b to target t is
delivered at row D(b, t). It is *overtaken*, which breaks causal order, just if some message
a that happened before b is delivered at t after it: D(a, t) > D(b, t). So each process has
to know, per target t, only the largest D(a, t) among the messages a in its causal past, the
*limit* of t. At the send of b the limit of t is compared with D(b, t).

**How the past travels.** A send adds the message's own copies to its sender's limits. A
message carries the limits that its sender then has. A delivery merges what the message
carries into the receiver's limits, target by target, taking the larger.

**What may be forgotten.** Let the walk stand at row n. A copy sent at a row r >= n is
delivered at D(b, t) > r >= n, since a delivery follows its send in a linear extension. A
limit L <= n is therefore less than every D(b, t) that it can still be compared with, here
or wherever it is carried: it finds nothing any more, and is dropped. What is left are
limits L > n, deliveries still to come of messages already sent: copies in flight. One limit
per target is enough, since the others of that target are lower, so they find nothing that
it does not find, and are dropped no later.

For the same reason a message need not carry a limit L <= E, the row of its own first
delivery: at row E, where it would first be merged, it is dropped already. In a run that is
in causal order, most messages carry little or nothing.

**Where it may begin.** The walk may begin in the middle of a run, at row w, with a new
state; a delivery of a message sent before w is then passed over. What it finds is exact
from row v on, if every copy that is in flight at v (sent before, delivered later) was sent
at w or later: limits of other copies from before w are dropped by row v, and every event by
which a copy becomes known to others comes after its send, so after w.

A copy in flight at v that was sent before w is no obstacle if it is known which processes
know of it, and since when: its limit is then given to each of them at that row
(:class:`Known`), and what is found is exact again. For a limit that one of them passes on
from w or later is carried as any other; and who learns of it from a message that was sent
before w is in the list.

**FIFO** is the same, with the largest D(a, t) among the sender's own messages: kept beside
the limit, and never larger than it, so that it may be dropped with it.

**Cost.** Time is that of rows times the targets in flight in one process's past. Memory is
that of the processes and of what is in flight (:mod:`antecede.verify.kernels.state`).
"""

from typing import NamedTuple

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.matching import Copies
from antecede.verify.kernels.slots import Ints, Longs
from antecede.verify.kernels.state import (
    CARRIED_USED,
    KEPT,
    KEPT_MAX,
    LENGTH,
    LIMIT,
    OWN,
    OWN_NONE,
    PAST_USED,
    REMAINING,
    ROOM,
    START,
    TARGET,
    UNSENT,
    State,
    move_carried,
    move_past,
    widen,
)
from antecede.verify.kernels.stream import Disordered, Rows

__all__ = ["Known", "Overtaken", "nothing_known", "walk"]

ROW, FOUND, ENDED, NEED, LEARNED = 0, 1, 2, 3, 4
"""In ``at``: the next row, copies found, messages ended, the room that a pool lacks, and
how much of what is known from elsewhere has been learned."""
DONE, DISORDERED, FULL_PAST, FULL_CARRIED = 0, 1, 2, 3
"""Why a walk stopped: all rows are walked; they are in disorder; a pool is full."""


class Overtaken(NamedTuple):
    """Copies that were delivered too early, in the order of their sends."""

    send: Longs
    """Which of the rows of the batch is the send."""
    target: Longs
    """Where it was delivered too early."""
    limit: Longs
    """The row at which that process delivered a message that happened before."""
    own: Longs
    """The same for a message of the same source, or -1: FIFO is not broken."""


class Known(NamedTuple):
    """Limits of copies that were sent before the walk began, in the order of rows."""

    row: Longs
    """From which row on it is known."""
    process: Longs
    """Who knows it."""
    target: Longs
    """The target of the copy."""
    limit: Longs
    """The row at which its target delivered it."""
    own: Longs
    """The same if the process itself sent it, or -1."""


def nothing_known() -> Known:
    """Return what is known at the start of a run."""
    return Known(*(np.empty(0, np.int64) for _ in Known._fields))


def walk(
    state: State,
    rows: Rows,
    slot: Ints,
    copies: Copies,
    *,
    processes: int,
    messages: int,
    known: Known | None = None,
) -> tuple[State, Overtaken, Ints]:
    """Walk a batch; return the state after it, what was delivered too early, and slots.

    These slots are of messages whose last delivery has been walked. Take them back before
    the next batch.

    Args:
        state: The state before it, which is used up.
        rows: The batch; its rows follow those walked before.
        slot: For each row, the slot of its message; -1 if it was sent before the walk
            began, or never, or is never delivered.
        copies: What its sends lead to.
        processes: All processes are below this number.
        messages: All slots are below this number.
        known: What processes know from before the walk; rows after the batch do not count.

    Raises:
        Disordered: A delivery stands before its send.
    """
    state = widen(state, processes=processes, messages=messages)
    found = np.empty((4, len(copies.limit)), np.int64)
    ended = np.empty(len(slot), np.int32)
    at = np.zeros(5, np.int64)
    ordinal = np.cumsum(rows.is_send) - 1
    known = nothing_known() if known is None else known
    while True:
        why = _walk(state, rows, slot, ordinal, copies, known, found, ended, at)
        if why == DONE:
            overtaken = Overtaken(*found[:, : at[FOUND]].copy())
            return state, overtaken, ended[: at[ENDED]]
        if why == DISORDERED:
            raise Disordered
        move = move_past if why == FULL_PAST else move_carried
        state = move(state, now=int(rows.row[at[ROW]]), need=int(at[NEED]))


@compiled
def _walk(
    state: State,
    rows: Rows,
    slot: Ints,
    ordinal: Longs,
    copies: Copies,
    known: Known,
    found: Longs,
    ended: Ints,
    at: Longs,
) -> int:
    """Walk on from row ``at[ROW]``, and say why the walk stopped."""
    processes, past, place, messages, carried, counters = state
    row, is_send, process = rows.row, rows.is_send, rows.process
    deliveries, earliest, start, stop, target, limit = copies
    for i in range(at[ROW], len(row)):
        at[ROW] = i
        while at[LEARNED] < len(known.row) and known.row[at[LEARNED]] <= row[i]:
            at[NEED] = _learn(processes, past, place, counters, known, at, row[i])
            if at[NEED] > 0:
                return FULL_PAST
            at[LEARNED] += 1
        message = slot[i]
        if message < 0:
            continue
        here, now = process[i], row[i]
        if is_send[i]:
            send = ordinal[i]
            first, last = start[send], stop[send]
            _prune(processes, past, place, counters, here, now)
            at[NEED] = _reserve(processes, past, counters, here, last - first)
            if at[NEED] > 0:
                return FULL_PAST
            at[NEED] = processes[here, LENGTH] + last - first
            if counters[CARRIED_USED] + at[NEED] > len(carried):
                return FULL_CARRIED
            for copy in range(first, last):
                _compare(
                    processes, past, place, counters, here, target[copy], limit[copy],
                    i, found, at,
                )  # fmt: skip
            _load(
                processes, past, messages, carried, counters, here, message, earliest[send]
            )
            messages[message, REMAINING] = deliveries[send]
        else:
            length = messages[message, LENGTH]
            if messages[message, START] == UNSENT:
                return DISORDERED
            if length > 0:
                _prune(processes, past, place, counters, here, now)
                at[NEED] = _reserve(processes, past, counters, here, length)
                if at[NEED] > 0:
                    return FULL_PAST
                _merge(
                    processes, past, place, messages, carried, counters, here, message, now
                )
            messages[message, REMAINING] -= 1
            if messages[message, REMAINING] == 0:
                counters[KEPT] -= length
                messages[message, LENGTH] = 0
                messages[message, START] = UNSENT
                ended[at[ENDED]] = message
                at[ENDED] += 1
        counters[KEPT_MAX] = max(counters[KEPT_MAX], counters[KEPT])
    return DONE


@compiled
def _prune(
    processes: Longs, past: Longs, place: Longs, counters: Longs, here: int, now: int
) -> None:
    """Drop the limits of a process that are reached, and note where the others stand."""
    start = processes[here, START]
    length = processes[here, LENGTH]
    kept = start
    for i in range(start, start + length):
        if past[i, LIMIT] > now:
            past[kept, TARGET] = past[i, TARGET]
            past[kept, LIMIT] = past[i, LIMIT]
            past[kept, OWN] = past[i, OWN]
            place[past[kept, TARGET]] = kept - start
            kept += 1
    processes[here, LENGTH] = kept - start
    counters[KEPT] -= start + length - kept


@compiled
def _reserve(processes: Longs, past: Longs, counters: Longs, here: int, more: int) -> int:
    """Make room for more limits of a process; return how much is lacking, or 0."""
    length = processes[here, LENGTH]
    if length + more <= processes[here, ROOM]:
        return 0
    room = length + more + (length + more) // 2 + 1
    used = counters[PAST_USED]
    if used + room > len(past):
        return int(room)
    start = processes[here, START]
    for i in range(length):
        past[used + i, TARGET] = past[start + i, TARGET]
        past[used + i, LIMIT] = past[start + i, LIMIT]
        past[used + i, OWN] = past[start + i, OWN]
    processes[here, START] = used
    processes[here, ROOM] = room
    counters[PAST_USED] = used + room
    return 0


@compiled
def _find(processes: Longs, past: Longs, place: Longs, here: int, target: int) -> int:
    """Return where a process has its limit of a target, or -1; it was just pruned."""
    at = processes[here, START] + place[target]
    if place[target] < processes[here, LENGTH] and past[at, TARGET] == target:
        return int(at)
    return -1


@compiled
def _append(
    processes: Longs,
    past: Longs,
    counters: Longs,
    here: int,
    target: int,
    limit: int,
    own: int,
) -> None:
    """Add the limit of a target; it is not looked up again before the next pruning."""
    length = processes[here, LENGTH]
    at = processes[here, START] + length
    past[at, TARGET] = target
    past[at, LIMIT] = limit
    past[at, OWN] = own
    processes[here, LENGTH] = length + 1
    counters[KEPT] += 1


@compiled
def _learn(
    processes: Longs,
    past: Longs,
    place: Longs,
    counters: Longs,
    known: Known,
    at: Longs,
    now: int,
) -> int:
    """Let a process know a limit from before the walk; return what room lacks, or 0."""
    i = at[LEARNED]
    here, target, limit = known.process[i], known.target[i], known.limit[i]
    _prune(processes, past, place, counters, here, now)
    lacking = _reserve(processes, past, counters, here, 1)
    if lacking > 0 or limit <= now:
        return lacking
    found = _find(processes, past, place, here, target)
    if found < 0:
        _append(processes, past, counters, here, target, limit, known.own[i])
    else:
        past[found, LIMIT] = max(past[found, LIMIT], limit)
        past[found, OWN] = max(past[found, OWN], known.own[i])
    return 0


@compiled
def _compare(
    processes: Longs,
    past: Longs,
    place: Longs,
    counters: Longs,
    here: int,
    target: int,
    limit: int,
    row: int,
    found: Longs,
    at: Longs,
) -> None:
    """Report a copy of a message that is overtaken, and add it to the past."""
    known = _find(processes, past, place, here, target)
    if known < 0:
        _append(processes, past, counters, here, target, limit, limit)
        return
    if past[known, LIMIT] > limit:
        found[0, at[FOUND]] = row
        found[1, at[FOUND]] = target
        found[2, at[FOUND]] = past[known, LIMIT]
        found[3, at[FOUND]] = past[known, OWN] if past[known, OWN] > limit else OWN_NONE
        at[FOUND] += 1
    past[known, LIMIT] = max(past[known, LIMIT], limit)
    past[known, OWN] = max(past[known, OWN], limit)


@compiled
def _load(
    processes: Longs,
    past: Longs,
    messages: Longs,
    carried: Longs,
    counters: Longs,
    here: int,
    message: int,
    earliest: int,
) -> None:
    """Let a message carry what will still be in flight at its first delivery."""
    used = counters[CARRIED_USED]
    messages[message, START] = used
    start = processes[here, START]
    for i in range(start, start + processes[here, LENGTH]):
        if past[i, LIMIT] > earliest:
            carried[used, TARGET] = past[i, TARGET]
            carried[used, LIMIT] = past[i, LIMIT]
            used += 1
    messages[message, LENGTH] = used - counters[CARRIED_USED]
    counters[KEPT] += messages[message, LENGTH]
    counters[CARRIED_USED] = used


@compiled
def _merge(
    processes: Longs,
    past: Longs,
    place: Longs,
    messages: Longs,
    carried: Longs,
    counters: Longs,
    here: int,
    message: int,
    now: int,
) -> None:
    """Let a process know what a message carries and what is still in flight."""
    start = messages[message, START]
    for i in range(start, start + messages[message, LENGTH]):
        target, limit = carried[i, TARGET], carried[i, LIMIT]
        if limit > now:
            known = _find(processes, past, place, here, target)
            if known < 0:
                _append(processes, past, counters, here, target, limit, OWN_NONE)
            else:
                past[known, LIMIT] = max(past[known, LIMIT], limit)
