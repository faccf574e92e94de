"""Hash texts to 64 bits with XXH64, as Spark's function ``xxhash64`` does.

So a record has the same hash in Spark and in a worker, and choices that depend on hashes
are the same for files and DataFrames. The hash does not resist texts that are chosen to
collide.

The algorithm is specified at
https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Longs

__all__ = ["hash_texts"]

SEED = 42
"""The seed of Spark."""
PRIME_1 = np.uint64(0x9E3779B185EBCA87)
PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
PRIME_3 = np.uint64(0x165667B19E3779F9)
PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
PRIME_5 = np.uint64(0x27D4EB2F165667C5)
BITS = np.uint64(64)


def hash_texts(texts: pa.Array, seeds: Longs | None = None) -> Longs:
    """Return a hash of each text; that of null is not defined.

    Args:
        texts: A column of strings.
        seeds: By text, a number that the hash depends on, too. With the hashes of another
            column, the result is that of ``xxhash64`` of both columns.
    """
    column = texts.cast(pa.string())
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]
    bytes_ = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if seeds is None:
        seeds = np.full(len(column), SEED, np.int64)
    found: Longs = _hash(bytes_, bounds, seeds)
    return found


@compiled
def _rotate(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> (BITS - np.uint64(bits)))


@compiled
def _word(data: NDArray[np.uint8], start: int, size: int) -> np.uint64:
    """Return a little-endian number of up to eight bytes."""
    found = np.uint64(0)
    for k in range(size):
        found |= np.uint64(data[start + k]) << np.uint64(8 * k)
    return found


@compiled
def _mix(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * PRIME_2, 31) * PRIME_1


@compiled
def _hash(data: NDArray[np.uint8], bounds: NDArray[np.int32], seeds: Longs) -> Longs:
    found = np.empty(seeds.size, np.int64)
    zero = np.uint64(0)
    for i in range(seeds.size):
        start, end = bounds[i], bounds[i + 1]
        seed = np.uint64(seeds[i])
        state = seed + PRIME_5
        length = np.uint64(end - start)
        if end - start >= 32:
            a, b = seed + PRIME_1 + PRIME_2, seed + PRIME_2
            c, d = seed, seed - PRIME_1
            while end - start >= 32:
                a = _mix(a, _word(data, start, 8))
                b = _mix(b, _word(data, start + 8, 8))
                c = _mix(c, _word(data, start + 16, 8))
                d = _mix(d, _word(data, start + 24, 8))
                start += 32
            state = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
            state = (state ^ _mix(zero, a)) * PRIME_1 + PRIME_4
            state = (state ^ _mix(zero, b)) * PRIME_1 + PRIME_4
            state = (state ^ _mix(zero, c)) * PRIME_1 + PRIME_4
            state = (state ^ _mix(zero, d)) * PRIME_1 + PRIME_4
        state += length
        while end - start >= 8:
            state ^= _mix(zero, _word(data, start, 8))
            state = _rotate(state, 27) * PRIME_1 + PRIME_4
            start += 8
        if end - start >= 4:
            state ^= _word(data, start, 4) * PRIME_1
            state = _rotate(state, 23) * PRIME_2 + PRIME_3
            start += 4
        while start < end:
            state ^= np.uint64(data[start]) * PRIME_5
            state = _rotate(state, 11) * PRIME_1
            start += 1
        state = (state ^ (state >> np.uint64(33))) * PRIME_2
        state = (state ^ (state >> np.uint64(29))) * PRIME_3
        found[i] = np.int64(state ^ (state >> np.uint64(32)))
    return found
