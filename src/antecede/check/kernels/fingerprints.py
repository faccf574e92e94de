"""Fingerprints of global states, equal for states that are equal up to a permutation.

Every component of a row is hashed with its position, and the hashes are added, so the order
of packets does not matter. With symmetry, this is done for each permutation that sorts the
processes by their orbits (as in :mod:`antecede.check.canonical`), and the results are mixed
and added. So no permuted row is written.
"""

import numpy as np

from antecede.check.kernels.expansion import (
    IN_FLIGHT,
    IS_FIFO,
    LOCAL_ORBIT,
    PROCESSES,
    SENDS,
    Fingerprints,
    SpaceArrays,
    Steps,
    Words,
)
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs

__all__ = ["fingerprints"]


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
def _hash(position: int, value: int) -> np.uint64:
    word = (np.uint64(position + 1) << np.uint64(32)) | np.uint64(value)
    return _mix(word * np.uint64(0x9E3779B97F4A7C15))


@compiled
def _permute(copies: int, permuted: Longs, which: int) -> int:
    """Return a set of copies under a permutation, looked up a byte at a time."""
    base = which * 1024
    return int(
        permuted[base + (copies & 0xFF)]
        | permuted[base + 256 + ((copies >> 8) & 0xFF)]
        | permuted[base + 512 + ((copies >> 16) & 0xFF)]
        | permuted[base + 768 + ((copies >> 24) & 0xFF)]
    )


@compiled
def _fingerprint(
    row: Longs,
    size: int,
    shape: Longs,
    permutations: Longs,
    permuted: Longs,
    locals_: Longs,
    permuted_locals: Ints,
    channels: Ints,
    permuted_packets: Ints,
) -> np.uint64:
    processes, sends, in_flight = shape[PROCESSES], shape[SENDS], shape[IN_FLIGHT]
    orders = permutations.size // processes
    messages = 2 * processes + 1
    total = np.uint64(0)
    for which in range(orders):
        order = which * processes
        sorts = True
        if orders > 1:
            for a in range(processes):
                for b in range(processes):
                    if (
                        locals_[2 * row[a] + LOCAL_ORBIT]
                        < locals_[2 * row[b] + LOCAL_ORBIT]
                        and permutations[order + a] > permutations[order + b]
                    ):
                        sorts = False
        if not sorts:
            continue
        sum_ = np.uint64(0)
        for process in range(processes):
            target = permutations[order + process]
            sum_ += _hash(target, permuted_locals[row[process] * orders + which])
            past = row[processes + process]
            if past != 0:
                sum_ += _hash(processes + target, _permute(past, permuted, which))
        pending = row[2 * processes]
        if pending != 0:
            sum_ += _hash(2 * processes, _permute(pending, permuted, which))
        for process in range(processes):
            message = messages + process * sends
            target = messages + permutations[order + process] * sends
            for send in range(sends):
                before = row[message + send]
                if before != 0:
                    sum_ += _hash(target + send, _permute(before, permuted, which))
        for index in range(messages + processes * sends, in_flight):
            sum_ += _hash(index, row[index])
        position = 0  # In the channel, if channels are FIFO.
        for index in range(in_flight, size):
            if shape[IS_FIFO] != 0:
                position += 1
                if index == in_flight or channels[row[index]] != channels[row[index - 1]]:
                    position = 0
            packet = permuted_packets[row[index] * orders + which]
            sum_ += _hash(in_flight + position, packet)
        total += _mix(sum_)
    return total if total != np.uint64(0) else np.uint64(1)


@compiled
def fingerprints(
    words: Words, starts: Longs, model: SpaceArrays, steps: Steps
) -> Fingerprints:
    """Return the fingerprint of each row of a block."""
    shape, _, _, permutations, permuted, _ = model
    locals_, _, permuted_locals, channels, permuted_packets, _, _, _ = steps
    found = np.empty(starts.size - 1, np.uint64)
    widest = 0
    for index in range(found.size):
        widest = max(widest, starts[index + 1] - starts[index])
    row = np.empty(widest, np.int64)
    for index in range(found.size):
        size = starts[index + 1] - starts[index]
        for word in range(size):
            row[word] = words[starts[index] + word]
        found[index] = _fingerprint(
            row,
            size,
            shape,
            permutations,
            permuted,
            locals_,
            permuted_locals,
            channels,
            permuted_packets,
        )
    return found
