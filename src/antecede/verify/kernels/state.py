"""What the walk knows at one row of a run, in flat arrays.

The limits of :mod:`antecede.verify.kernels.walk` stand in two pools, one for what processes know
and one for what messages carry, each process and each message in a stretch of its own. A
new stretch is taken from the end of the pool. When the pool is full, the limits that are
still in flight are moved to a new one, with as much room again. So memory is that of the
processes and of what is in flight, and the cost of moving is shared among the limits that
were added since.
"""

from typing import NamedTuple

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slots import Longs
from antecede.verify.kernels.stream import grown

__all__ = ["State", "move_carried", "move_past", "new_state", "widen"]

START, LENGTH, ROOM, REMAINING = 0, 1, 2, 2
"""Columns of ``processes`` and ``messages``."""
TARGET, LIMIT, OWN = 0, 1, 2
"""Columns of ``past`` and ``carried``."""
UNSENT = -1
"""In place of a message's start: its send has not been walked."""
OWN_NONE = -1
"""No own copy is in flight."""
ROOM_FIRST = 1 << 12
"""Limits that a pool has room for at least; fewer would be moved too often."""
PAST_USED, CARRIED_USED, KEPT, KEPT_MAX = 0, 1, 2, 3
"""In ``counters``: how much of each pool is taken; limits kept now, and at most so far."""


class State(NamedTuple):
    """What is known; the walk brings it up to date in place, and returns the next one."""

    processes: Longs
    """By process: where its limits start in ``past``, how many there are, and how many
    fit there."""
    past: Longs
    """The first pool: a target, its limit, and the same among the process's own messages
    alone."""
    place: Longs
    """By process, as a target: its place in the stretch that was last gone through."""
    messages: Longs
    """By message: where the limits that it carries start in ``carried``, or UNSENT; how
    many there are; and how many of its deliveries are still to come."""
    carried: Longs
    """The second pool: a target and its limit."""
    counters: Longs
    """See PAST_USED and what follows it."""

    @property
    def kept_max(self) -> int:
        """The most limits that were kept at any time."""
        return int(self.counters[KEPT_MAX])


def new_state() -> State:
    """Return the state at the start of a run, or of a part of it; walk from there."""
    return State(
        processes=np.empty((0, 3), np.int64),
        past=np.empty((ROOM_FIRST, 3), np.int64),
        place=np.empty(0, np.int64),
        messages=np.empty((0, 3), np.int64),
        carried=np.empty((ROOM_FIRST, 2), np.int64),
        counters=np.zeros(4, np.int64),
    )


def widen(state: State, *, processes: int, messages: int) -> State:
    """Return the state with arrays for so many processes and messages."""
    return state._replace(
        processes=grown(state.processes, processes, 0),
        place=grown(state.place, processes, 0),
        messages=grown(state.messages, messages, UNSENT),
    )


def move_past(state: State, *, now: int, need: int) -> State:
    """Move what processes know to a pool that has room for ``need`` limits more."""
    live = _count(state.processes, state.past, now)
    # Half as much again is slack behind the stretches; the rest is for new ones.
    size = 3 * live + need + max(ROOM_FIRST, len(state.processes))
    past = np.empty((size, 3), np.int64)
    _move_past(state.processes, state.past, past, state.counters, now)
    return state._replace(past=past)


def move_carried(state: State, *, now: int, need: int) -> State:
    """Move what messages carry to a pool that has room for ``need`` limits more."""
    live = _count(state.messages, state.carried, now)
    size = 2 * live + need + max(ROOM_FIRST, len(state.messages))
    carried = np.empty((size, 2), np.int64)
    _move_carried(state.messages, state.carried, carried, state.counters, now)
    return state._replace(carried=carried)


@compiled
def _count(owners: Longs, pool: Longs, now: int) -> int:
    live = 0
    for owner in range(len(owners)):
        for i in range(owners[owner, START], owners[owner, START] + owners[owner, LENGTH]):
            live += pool[i, LIMIT] > now
    return live


@compiled
def _move_past(
    processes: Longs, past: Longs, moved: Longs, counters: Longs, now: int
) -> None:
    used = 0
    for process in range(len(processes)):
        start = processes[process, START]
        length = processes[process, LENGTH]
        processes[process, START] = used
        for i in range(start, start + length):
            if past[i, LIMIT] > now:
                moved[used, TARGET] = past[i, TARGET]
                moved[used, LIMIT] = past[i, LIMIT]
                moved[used, OWN] = past[i, OWN]
                used += 1
        kept = used - processes[process, START]
        processes[process, LENGTH] = kept
        processes[process, ROOM] = kept + kept // 2
        counters[KEPT] -= length - kept
        used += kept // 2
    counters[PAST_USED] = used


@compiled
def _move_carried(
    messages: Longs, carried: Longs, moved: Longs, counters: Longs, now: int
) -> None:
    used = 0
    for message in range(len(messages)):
        start = messages[message, START]
        length = messages[message, LENGTH]
        if start == UNSENT:
            continue
        messages[message, START] = used
        for i in range(start, start + length):
            if carried[i, LIMIT] > now:
                moved[used, TARGET] = carried[i, TARGET]
                moved[used, LIMIT] = carried[i, LIMIT]
                used += 1
        kept = used - messages[message, START]
        messages[message, LENGTH] = kept
        counters[KEPT] -= length - kept
    counters[CARRIED_USED] = used
