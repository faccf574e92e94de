"""Sort elements by several numbers, faster than by comparing all of them."""

import numpy as np

from antecede.verify.kernels.slot_map import Ints, Longs

__all__ = ["stable_order"]

NUMBER_BITS = 63


def stable_order(*keys: Ints | Longs) -> Longs:
    """Return the elements by the first key, then by the second one, and so on.

    Elements with equal keys keep their order. If all keys of an element and its index fit
    into one number, NumPy sorts these numbers several times as fast as it sorts indices.

    Args:
        keys: The keys; by element, a number.
    """
    count = len(keys[0])
    if not count:
        return np.empty(0, np.int64)
    lows = [int(key.min()) for key in keys]
    bits = [
        (int(key.max()) - low).bit_length() for key, low in zip(keys, lows, strict=True)
    ]
    index_bits = (count - 1).bit_length()
    if sum(bits) + index_bits > NUMBER_BITS:
        found: Longs = np.lexsort(keys[::-1])
        return found
    packed = np.zeros(count, np.int64)
    for key, low, width in zip(keys, lows, bits, strict=True):
        packed <<= width
        packed += key
        packed -= low
    packed <<= index_bits
    packed += np.arange(count)
    packed.sort()
    packed &= (1 << index_bits) - 1
    return packed
