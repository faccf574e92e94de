"""Hash texts to 64 bits, in the workers.

A hash mixes eight bytes at a time, with the multipliers and shifts of SplitMix64. It is the
same on every machine, and not meant to resist texts that are chosen to collide.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Longs

__all__ = ["hash_texts"]


def hash_texts(texts: pa.Array, seeds: Longs | None = None) -> Longs:
    """Return a hash of each text; that of null is not defined.

    Args:
        texts: A column of strings.
        seeds: By text, a number that the hash depends on, too.
    """
    column = texts.cast(pa.string())
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]
    bytes_ = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if seeds is None:
        seeds = np.zeros(len(column), np.int64)
    found: Longs = _hash(bytes_, bounds, seeds)
    return found


@compiled
def _hash(data: NDArray[np.uint8], bounds: NDArray[np.int32], seeds: Longs) -> Longs:
    found = np.empty(seeds.size, np.int64)
    for i in range(seeds.size):
        start, end = bounds[i], bounds[i + 1]
        state = np.uint64(seeds[i]) ^ np.uint64(end - start)
        while start < end:
            word = np.uint64(0)
            for k in range(min(8, end - start)):
                word |= np.uint64(data[start + k]) << np.uint64(8 * k)
            start += 8
            state = (state ^ word) * np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
        found[i] = np.int64(state)
    return found
