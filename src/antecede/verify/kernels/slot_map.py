"""Map keys to small integers, with which the kernels index arrays.

A process has any 32-bit id, and a message is identified by its source and number. Each key
gets a *slot*, a small integer, and returns it when the key is removed. So arrays indexed by
slot are as long as the largest number of keys held at once, not as the number of keys over
time.

The keys are in an open-addressing hash table with linear probing, in flat arrays. A cell
holds a slot, and the slot leads to the key. A removal moves later cells of the same cluster
back, so there are no tombstones, and a table that is mostly empty stays fast.
"""

import numpy as np
from numpy.typing import NDArray

from antecede.verify.kernels.compiled import compiled

__all__ = ["Ints", "Longs", "SlotMap"]

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

NONE = -1
"""No slot: an empty cell, or a key that is not held."""
INITIAL_SLOTS = 256
"""The number of keys that a new map has room for; a power of two."""
CELLS_PER_SLOT = 2
"""At most half of the cells are in use, so a lookup probes about 1.5 cells."""
USED, FREE = 0, 1
"""Indexes of ``counts``: the number of slots ever assigned, and of those now free."""


class SlotMap:
    """Maps keys, which are pairs of integers, to slots."""

    first: Longs
    """By slot, the first component of its key."""
    second: Longs
    """By slot, the second component of its key."""

    def __init__(self) -> None:
        self.first = np.zeros(INITIAL_SLOTS, np.int64)
        self.second = np.zeros(INITIAL_SLOTS, np.int64)
        self._free = np.zeros(INITIAL_SLOTS, np.int32)
        self._cells = np.full(INITIAL_SLOTS * CELLS_PER_SLOT, NONE, np.int32)
        self._counts = np.zeros(2, np.int64)

    def __len__(self) -> int:
        """Return the number of slots ever assigned: the length of an array by slot."""
        return int(self._counts[USED])

    @property
    def held(self) -> int:
        """The number of keys held now."""
        return int(self._counts[USED] - self._counts[FREE])

    def add(self, first: Longs, second: Longs) -> Ints:
        """Return the slot of each key, and assign one to each new key."""
        self._reserve(len(first))
        return _add(
            self._cells, self.first, self.second, self._free, self._counts, first, second
        )

    def find(self, first: Longs, second: Longs) -> Ints:
        """Return the slot of each key, or -1 for a key that is not held."""
        return _find(self._cells, self.first, self.second, first, second)

    def remove(self, slots: Ints) -> None:
        """Remove the keys of these slots; each slot must be held, and occur once."""
        _remove(self._cells, self.first, self.second, self._free, self._counts, slots)

    def _reserve(self, keys: int) -> None:
        size = len(self.first)
        while size < self._counts[USED] + keys:
            size *= 2
        if size == len(self.first):
            return
        self.first = np.resize(self.first, size)
        self.second = np.resize(self.second, size)
        self._free = np.resize(self._free, size)
        cells = np.full(size * CELLS_PER_SLOT, NONE, np.int32)
        _rehash(self._cells, cells, self.first, self.second)
        self._cells = cells


@compiled
def _home(first: int, second: int, mask: int) -> int:
    """Return the cell where the search for a key begins."""
    mixed = np.uint64(first) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64(second) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(mask))  # type: ignore[return-value]


@compiled
def _cell_of(cells: Ints, firsts: Longs, seconds: Longs, first: int, second: int) -> int:
    """Return the cell of the key, or the empty cell where it would be inserted."""
    mask = cells.size - 1
    cell = _home(first, second, mask)
    while True:
        slot = cells[cell]
        if slot == NONE or (firsts[slot] == first and seconds[slot] == second):
            return cell
        cell = (cell + 1) & mask


@compiled
def _add(
    cells: Ints,
    firsts: Longs,
    seconds: Longs,
    free: Ints,
    counts: Longs,
    first: Longs,
    second: Longs,
) -> Ints:
    slots = np.empty(first.size, np.int32)
    for i in range(first.size):
        cell = _cell_of(cells, firsts, seconds, first[i], second[i])
        if cells[cell] == NONE:
            if counts[FREE] > 0:
                counts[FREE] -= 1
                slot = np.int64(free[counts[FREE]])
            else:
                slot = counts[USED]
                counts[USED] += 1
            firsts[slot] = first[i]
            seconds[slot] = second[i]
            cells[cell] = slot
        slots[i] = cells[cell]
    return slots


@compiled
def _find(cells: Ints, firsts: Longs, seconds: Longs, first: Longs, second: Longs) -> Ints:
    slots = np.empty(first.size, np.int32)
    for i in range(first.size):
        slots[i] = cells[_cell_of(cells, firsts, seconds, first[i], second[i])]
    return slots


@compiled
def _remove(
    cells: Ints, firsts: Longs, seconds: Longs, free: Ints, counts: Longs, slots: Ints
) -> None:
    mask = cells.size - 1
    for slot in slots:
        gap = _cell_of(cells, firsts, seconds, firsts[slot], seconds[slot])
        cell = gap
        while True:
            cell = (cell + 1) & mask
            if cells[cell] == NONE:
                break
            home = _home(firsts[cells[cell]], seconds[cells[cell]], mask)
            # The cell may move to the gap unless its search begins after the gap.
            if ((cell - home) & mask) >= ((cell - gap) & mask):
                cells[gap] = cells[cell]
                gap = cell
        cells[gap] = NONE
        free[counts[FREE]] = slot
        counts[FREE] += 1


@compiled
def _rehash(old: Ints, cells: Ints, firsts: Longs, seconds: Longs) -> None:
    for slot in old:
        if slot != NONE:
            cells[_cell_of(cells, firsts, seconds, firsts[slot], seconds[slot])] = slot
