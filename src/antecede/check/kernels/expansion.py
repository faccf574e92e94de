"""The compiled expansion of global states: every successor of every state of a block.

A block holds rows (:mod:`antecede.check.row_layout`) of different lengths one after the
other. The steps of processes are looked up in :mod:`antecede.check.kernels.tables`. A state
with a step that the tables lack yields no successors, only the missing steps; the
caller computes them and expands the state again.

"""

import numpy as np
from numpy.typing import NDArray

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs

__all__ = [
    "Words",
    "Fingerprints",
    "SpaceArrays",
    "Steps",
    "Expansion",
    "expand",
    "put_step",
    "rehash_steps",
]

Words = NDArray[np.uint32]
Fingerprints = NDArray[np.uint64]
Doubles = NDArray[np.float64]

SpaceArrays = tuple[Longs, Longs, Longs, Longs, Longs, Doubles]
"""The numbers of a state space, which do not change: the shape (the constants below), the
target sets, the offset of the target sets of each message, the permutations, the permuted
sets of copies, and the maximum wait of a process."""
Steps = tuple[Longs, Doubles, Ints, Ints, Ints, Fingerprints, Longs, Longs]
"""The computed local states, packets and steps: see ``KernelTables.arrays``."""
Expansion = tuple[Words, Longs, Longs, Longs, Longs, Longs]
"""The successors: their rows, offsets and states of origin; the states to expand again; the
missing steps; and the counts."""

# The shape: numbers of processes and of messages of each, and the offset of the packets.
PROCESSES, SENDS, IN_FLIGHT = 0, 1, 2
IS_FIFO, HAS_TIMERS, EFFECT_MAX, MOVES_MAX, COPIES = 3, 4, 5, 6, 7
"""EFFECT_MAX is the largest number of packets of a step, MOVES_MAX of moves beside those of
packets. From COPIES on, the shape has the
copies to each process, and then the copies of each message."""
# The counts of an expansion; VIOLATED and STUCK are states, or -1.
TRANSITIONS, ENDS, VIOLATED, STUCK, COUNTS = 0, 1, 2, 3, 4
INPUT_BASE = 1 << 16
"""Added to an input, which makes it positive."""
TIMER_INPUT = -1
# The columns of a local state.
LOCAL_SENDS, LOCAL_ORBIT = 0, 1
LOCAL_CLOCK, LOCAL_DUE = 0, 1
NONE = -1
DROPPED, DUPLICATED = 1 << 8, 1
"""The units of the budgets of faults."""


@compiled
def _step_key(local: int, input: int) -> int:
    """Return the key of a step: the local state, and the input made positive."""
    return (np.int64(local) << 32) | (np.int64(input) + INPUT_BASE)  # type: ignore[return-value]


@compiled
def _mix(x: np.uint64) -> np.uint64:
    """Return a hash of a 64-bit number (the last steps of MurmurHash3)."""
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xC4CEB9FE1A85EC53)
    x ^= x >> np.uint64(33)
    return x


@compiled
def _find_step(keys: Fingerprints, offsets: Longs, local: int, input: int) -> int:
    """Return the offset of a step among the effects, or NONE."""
    key = np.uint64(_step_key(local, input))
    mask = np.uint64(keys.size - 1)
    cell = _mix(key) & mask
    while keys[cell] != np.uint64(0):
        if keys[cell] == key:
            return int(offsets[cell])
        cell = (cell + np.uint64(1)) & mask
    return NONE


@compiled
def put_step(keys: Fingerprints, offsets: Longs, key: int, offset: int) -> None:
    """Add the offset of a step, whose key is not in the table."""
    mask = np.uint64(keys.size - 1)
    cell = _mix(np.uint64(key)) & mask
    while keys[cell] != np.uint64(0):
        cell = (cell + np.uint64(1)) & mask
    keys[cell] = np.uint64(key)
    offsets[cell] = offset


@compiled
def rehash_steps(
    old_keys: Fingerprints, old_offsets: Longs, keys: Fingerprints, offsets: Longs
) -> None:
    """Copy all steps to a larger table."""
    for index in range(old_keys.size):
        if old_keys[index] != np.uint64(0):
            put_step(keys, offsets, old_keys[index], old_offsets[index])


@compiled
def _take_step(
    new: Longs,
    size: int,
    process: int,
    offset: int,
    shape: Longs,
    channels: Ints,
    effects: Longs,
) -> int:
    """Carry out a step on a row; return its new size, or NONE if it violates a property."""
    processes = shape[PROCESSES]
    pending = 2 * processes
    messages = pending + 1
    count = processes * shape[SENDS]
    new[process] = effects[offset]
    packets = effects[offset + 1]
    offset += 2
    for index in range(packets):
        size = _insert(new, size, effects[offset + index], shape, channels)
    offset += packets
    deliveries = effects[offset]
    for index in range(deliveries):
        message = effects[offset + 1 + 2 * index]
        bit = effects[offset + 2 + 2 * index]
        if bit & new[pending] == 0:
            return NONE  # A duplicate, or never sent.
        before = new[messages + message]
        if before & shape[COPIES + process] != 0:
            return NONE  # An earlier copy for this process is pending.
        new[processes + process] |= before | shape[COPIES + processes + message]
        new[pending] &= ~bit
        left = new[pending]
        for word in range(processes, messages + count):
            new[word] &= left
        for other in range(count):
            if shape[COPIES + processes + other] & left == 0:
                new[messages + other] = 0
    return size


@compiled
def _insert(new: Longs, size: int, packet: int, shape: Longs, channels: Ints) -> int:
    """Put a packet in flight behind those with a smaller or equal key; return the size."""
    is_fifo = shape[IS_FIFO] != 0
    at = size
    while at > shape[IN_FLIGHT]:
        other = new[at - 1]
        if is_fifo:
            if channels[other] <= channels[packet]:
                break
        elif other <= packet:
            break
        new[at] = other
        at -= 1
    new[at] = packet
    return size + 1


@compiled
def _without(row: Longs, size: int, index: int, new: Longs) -> int:
    """Copy a row without one word; return the size."""
    new[:index] = row[:index]
    new[index : size - 1] = row[index + 1 : size]
    return size - 1


# The columns of a move: an action, before its step is looked up.
KIND, PROCESS, INPUT, ARGUMENT, OFFSET, MOVE_WORDS = 0, 1, 2, 3, 4, 5
SENT, ARRIVED, LOST, TWICE, FIRED = 0, 1, 2, 3, 4


@compiled
def _list_moves(
    row: Longs,
    size: int,
    shape: Longs,
    options: Longs,
    starts: Longs,
    patience: Doubles,
    locals_: Longs,
    times: Doubles,
    channels: Ints,
    moves: Longs,
) -> int:
    """Write every action that a row permits; return their number."""
    processes, sends, in_flight = shape[PROCESSES], shape[SENDS], shape[IN_FLIGHT]
    count = 0
    for process in range(processes):
        which = locals_[2 * row[process] + LOCAL_SENDS]
        if which < sends:
            message = process * sends + which
            for option in range(starts[message], starts[message + 1]):
                moves[count, KIND] = SENT
                moves[count, PROCESS] = process
                moves[count, INPUT] = options[2 * option]
                moves[count, ARGUMENT] = options[2 * option + 1]
                count += 1
    budgets = row[in_flight - 1]
    for index in range(in_flight, size):
        if index > in_flight:
            other = row[index - 1]
            if other == row[index]:
                continue  # A second instance of the same packet.
            if shape[IS_FIFO] != 0 and channels[other] == channels[row[index]]:
                continue  # Another packet of the channel is before it.
        for kind in range(ARRIVED, TWICE + 1):
            if (kind == LOST and budgets < DROPPED) or (
                kind == TWICE and not budgets & 0xFF
            ):
                continue
            moves[count, KIND] = kind
            moves[count, PROCESS] = channels[row[index]] % processes
            moves[count, INPUT] = row[index]
            moves[count, ARGUMENT] = index
            count += 1
    if shape[HAS_TIMERS] != 0 and size == in_flight:
        due = np.inf
        for process in range(processes):
            due = min(due, times[2 * row[process] + LOCAL_DUE])
        for process in range(processes):
            own = times[2 * row[process] + LOCAL_DUE]
            if (
                due <= patience[0]
                and own < np.inf
                and times[2 * row[process] + LOCAL_CLOCK] <= due
            ):
                moves[count, KIND] = FIRED
                moves[count, PROCESS] = process
                moves[count, INPUT] = TIMER_INPUT
                count += 1
    return count


@compiled
def _is_over(row: Longs, shape: Longs, patience: Doubles, times: Doubles) -> bool:
    """Return whether no timer will fire, in a row without moves."""
    if shape[HAS_TIMERS] == 0:
        return True
    due = np.inf
    for process in range(shape[PROCESSES]):
        due = min(due, times[2 * row[process] + LOCAL_DUE])
    return due == np.inf or due > patience[0]


@compiled
def _find_steps(
    row: Longs,
    moves: Longs,
    count: int,
    keys: Fingerprints,
    offsets: Longs,
    missing: Longs,
    missing_count: int,
) -> int:
    """Write the offset of the step of each move; return the new number of missing steps."""
    for move in range(count):
        if moves[move, KIND] == LOST or moves[move, KIND] == TWICE:
            continue
        local = row[moves[move, PROCESS]]
        offset = _find_step(keys, offsets, local, moves[move, INPUT])
        moves[move, OFFSET] = offset
        if offset == NONE:
            missing[missing_count] = _step_key(local, moves[move, INPUT])
            missing_count += 1
    return missing_count


@compiled
def _act(
    row: Longs,
    size: int,
    moves: Longs,
    move: int,
    shape: Longs,
    locals_: Longs,
    channels: Ints,
    effects: Longs,
    new: Longs,
) -> int:
    """Write the row after a move; return its size, or NONE if it violates a property."""
    kind, process = moves[move, KIND], moves[move, PROCESS]
    if kind in (ARRIVED, LOST):
        size = _without(row, size, moves[move, ARGUMENT], new)
    else:
        new[:size] = row[:size]
    if kind == LOST:
        new[shape[IN_FLIGHT] - 1] -= DROPPED
        return size
    if kind == TWICE:
        new[shape[IN_FLIGHT] - 1] -= DUPLICATED
        return _insert(new, size, moves[move, INPUT], shape, channels)
    if kind == SENT:
        processes = shape[PROCESSES]
        which = locals_[2 * row[process] + LOCAL_SENDS]
        message = 2 * processes + 1 + process * shape[SENDS] + which
        new[message] = new[processes + process]
        new[2 * processes] |= moves[move, ARGUMENT]
        new[processes + process] |= moves[move, ARGUMENT]
    return _take_step(new, size, process, moves[move, OFFSET], shape, channels, effects)


@compiled
def _bounds(starts: Longs, chosen: Longs, shape: Longs) -> tuple[int, int, int]:
    """Return the largest row, and bounds on the moves and words of all successors."""
    widest = all_moves = all_words = 0
    for state in chosen:
        size = starts[state + 1] - starts[state]
        widest = max(widest, size)
        moves = shape[MOVES_MAX] + 3 * (size - shape[IN_FLIGHT])
        all_moves += moves
        all_words += moves * (size + 1 + shape[EFFECT_MAX])
    return widest, all_moves, all_words


@compiled
def expand(
    words: Words, starts: Longs, chosen: Longs, model: SpaceArrays, steps: Steps
) -> Expansion:
    """Expand the chosen states of a block.

    Args:
        words: The rows of the block.
        starts: The offset of each row, and of the end.
        chosen: The indexes of the states to expand.
        model: The state space.
        steps: The computed local states, packets and steps.
    """
    shape, options, firsts, _, _, patience = model
    locals_, times, _, channels, _, keys, offsets, effects = steps
    counts = np.zeros(COUNTS, np.int64)
    counts[VIOLATED] = counts[STUCK] = NONE
    widest, all_moves, all_words = _bounds(starts, chosen, shape)
    row = np.empty(widest, np.int64)
    new = np.empty(widest + 1 + shape[EFFECT_MAX], np.int64)
    moves = np.empty((shape[MOVES_MAX] + 3 * widest, MOVE_WORDS), np.int64)
    out = np.empty(all_words, np.uint32)  # Pages that are not written take no memory.
    out_starts = np.zeros(all_moves + 1, np.int64)
    out_origins = np.empty(all_moves, np.int64)
    missing = np.empty(all_moves, np.int64)
    again = np.empty(chosen.size, np.int64)
    found = again_count = missing_count = 0
    for state in chosen:
        size = starts[state + 1] - starts[state]
        for index in range(size):
            row[index] = words[starts[state] + index]
        count = _list_moves(
            row, size, shape, options, firsts, patience, locals_, times, channels, moves
        )
        known = missing_count
        missing_count = _find_steps(row, moves, count, keys, offsets, missing, known)
        if missing_count > known:
            again[again_count] = state
            again_count += 1
            continue
        counts[TRANSITIONS] += count
        if count == 0 and _is_over(row, shape, patience, times):
            counts[ENDS] += 1
            if row[2 * shape[PROCESSES]] != 0 and counts[STUCK] == NONE:
                counts[STUCK] = state
        for move in range(count):
            size_now = _act(row, size, moves, move, shape, locals_, channels, effects, new)
            if size_now == NONE:
                if counts[VIOLATED] == NONE:
                    counts[VIOLATED] = state
                continue
            at = out_starts[found]
            for index in range(size_now):
                out[at + index] = new[index]
            out_origins[found] = state
            found += 1
            out_starts[found] = at + size_now
    return (
        out[: out_starts[found]].copy(),
        out_starts[: found + 1].copy(),
        out_origins[:found].copy(),
        again[:again_count].copy(),
        missing[:missing_count].copy(),
        counts,
    )
