"""Group elements by a small integer, faster than a sort."""

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs

__all__ = ["group"]


def group(key: Ints | Longs, groups: int) -> tuple[Longs, Longs]:
    """Return the elements by group, and where each group starts.

    The elements of a group keep their order. Elements with a negative key are left out.

    Args:
        key: By element, its group.
        groups: The number of groups.
    """
    found: tuple[Longs, Longs] = _group(key, groups)
    return found


@compiled
def _group(key: Ints | Longs, groups: int) -> tuple[Longs, Longs]:
    start = np.zeros(groups + 1, np.int64)
    for i in range(key.size):
        if key[i] >= 0:
            start[key[i] + 1] += 1
    for each in range(groups):
        start[each + 1] += start[each]
    position = start[:-1].copy()
    order = np.empty(start[groups], np.int64)
    for i in range(key.size):
        if key[i] >= 0:
            order[position[key[i]]] = i
            position[key[i]] += 1
    return order, start
