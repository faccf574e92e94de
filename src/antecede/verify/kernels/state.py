"""The state of the delivery order check at one row of a run, in flat arrays.

The limits of :mod:`antecede.verify.kernels.delivery_order` are in two pools, one for the
limits that processes know and one for those that messages carry. Each process and each
message has a segment of its pool. A new segment is allocated at the end of the pool. When
the pool is full, the limits that are still in flight are moved to a new pool with as much
free space again. So memory is proportional to the processes and to the copies in flight,
and the cost of a move is amortised over the limits added since the last one.
"""

from typing import NamedTuple

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import grow

__all__ = [
    "EarlyDeliveries",
    "InitialLimits",
    "OrderState",
    "move_carried",
    "move_past",
    "new_state",
    "no_initial_limits",
    "resize",
]

START, LENGTH, CAPACITY, REMAINING = 0, 1, 2, 2
"""Columns of ``processes`` and ``messages``."""
TARGET, LIMIT, OWN = 0, 1, 2
"""Columns of ``past`` and ``carried``."""
UNSENT = -1
"""The start of a message whose send has not been processed."""
OWN_NONE = -1
"""No copy of an own message is in flight."""
POOL_ROWS_MIN = 1 << 12
"""The minimum capacity of a pool; smaller pools would be moved too often."""
PAST_USED, CARRIED_USED, LIMITS, LIMITS_MAX = 0, 1, 2, 3
"""Indexes of ``counters``: used rows of each pool; limits held now, and the maximum."""


class OrderState(NamedTuple):
    """The limits of processes and of messages; the kernels change it in place."""

    processes: Longs
    """By process: the start, length and capacity of its segment in ``past``."""
    past: Longs
    """The limits of processes: a target, its limit, and the limit by own messages only."""
    position: Longs
    """By target: its position in the segment that was pruned last."""
    messages: Longs
    """By message: the start of its segment in ``carried``, or UNSENT; its length; and the
    number of deliveries that follow."""
    carried: Longs
    """The limits that messages carry: a target and its limit."""
    counters: Longs
    """Indexed by PAST_USED, CARRIED_USED, LIMITS and LIMITS_MAX."""

    @property
    def limits_max(self) -> int:
        """The maximum number of limits held at any time."""
        return int(self.counters[LIMITS_MAX])


class EarlyDeliveries(NamedTuple):
    """Copies that were delivered too early, in the order of their sends."""

    send: Longs
    """The index of the send among the rows of the batch."""
    target: Longs
    """The process that delivered the copy too early."""
    row: Longs
    """The row at which it did."""
    limit: Longs
    """The row at which that process delivered a message that happened before."""
    own: Longs
    """The same for messages of the same source, or -1 if FIFO order holds."""


class InitialLimits(NamedTuple):
    """Limits of copies that were sent before the pass started, in the order of rows."""

    row: Longs
    """The row from which on the process knows the limit."""
    process: Longs
    """The process that knows the limit."""
    target: Longs
    """The target of the copy."""
    limit: Longs
    """The row at which the target delivered the copy."""
    own: Longs
    """The same row if the process itself sent the copy, or -1."""


def no_initial_limits() -> InitialLimits:
    """Return the initial limits of a pass from the first row of a run."""
    return InitialLimits(*(np.empty(0, np.int64) for _ in InitialLimits._fields))


def new_state() -> OrderState:
    """Return the state before the first row of a run, or of a part of it."""
    return OrderState(
        processes=np.empty((0, 3), np.int64),
        past=np.empty((POOL_ROWS_MIN, 3), np.int64),
        position=np.empty(0, np.int64),
        messages=np.empty((0, 3), np.int64),
        carried=np.empty((POOL_ROWS_MIN, 2), np.int64),
        counters=np.zeros(4, np.int64),
    )


def resize(state: OrderState, *, processes: int, messages: int) -> OrderState:
    """Return the state with arrays for at least these numbers of processes and messages."""
    return state._replace(
        processes=grow(state.processes, processes, 0),
        position=grow(state.position, processes, 0),
        messages=grow(state.messages, messages, UNSENT),
    )


def move_past(state: OrderState, *, now: int, need: int) -> OrderState:
    """Move the limits of processes to a pool with space for ``need`` more."""
    live = _count(state.processes, state.past, now)
    # Half of the limits again is spare capacity of segments; the rest is for new segments.
    size = 3 * live + need + max(POOL_ROWS_MIN, len(state.processes))
    past = np.empty((size, 3), np.int64)
    _move_past(state.processes, state.past, past, state.counters, now)
    return state._replace(past=past)


def move_carried(state: OrderState, *, now: int, need: int) -> OrderState:
    """Move the limits of messages to a pool with space for ``need`` more."""
    live = _count(state.messages, state.carried, now)
    size = 2 * live + need + max(POOL_ROWS_MIN, len(state.messages))
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
        processes[process, CAPACITY] = kept + kept // 2
        counters[LIMITS] -= length - kept
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
        counters[LIMITS] -= length - kept
    counters[CARRIED_USED] = used
