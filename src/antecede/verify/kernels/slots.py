"""Small numbers for large names: what lets the kernels work on plain arrays.

A process is known by any 32-bit id, a message by its source and its number there. The
kernels index arrays, so each name gets a *slot*, the smallest number that is free, and
gives it back when it is no longer needed: arrays by slot are as long as the most names that
were ever held at once, however many there are over time.

The names stand in an open-addressing hash table with linear probing, in flat arrays. A cell
holds a slot, and the slot's name is looked up by it. Removal shifts later cells of the same
cluster back, so that there are no tombstones and a table that is mostly empty stays fast.
"""

import numpy as np
from numpy.typing import NDArray

from antecede.verify.kernels.compiled import compiled

__all__ = ["Ints", "Longs", "Slots"]

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

NONE = -1
"""No slot: an empty cell, or a name that is not held."""
SLOTS_FIRST = 256
"""How many names there is room for at first; a power of two."""
CELLS_PER_SLOT = 2
"""At most half of the cells are taken, so that a probe looks at about one and a half."""
USED, FREE = 0, 1
"""In ``counts``: how many slots were ever given out, and how many of them are free."""


class Slots:
    """Names, each a pair of integers, and the slot that each of them holds."""

    first: Longs
    """By slot, the first half of its name."""
    second: Longs
    """By slot, the second half of its name."""

    def __init__(self) -> None:
        """Start with no names."""
        self.first = np.zeros(SLOTS_FIRST, np.int64)
        self.second = np.zeros(SLOTS_FIRST, np.int64)
        self._free = np.zeros(SLOTS_FIRST, np.int32)
        self._cells = np.full(SLOTS_FIRST * CELLS_PER_SLOT, NONE, np.int32)
        self._counts = np.zeros(2, np.int64)

    def __len__(self) -> int:
        """Count the slots that were ever given out: the length of an array by slot."""
        return int(self._counts[USED])

    @property
    def held(self) -> int:
        """How many names hold a slot now."""
        return int(self._counts[USED] - self._counts[FREE])

    def add(self, first: Longs, second: Longs) -> Ints:
        """Return the slot of each name, giving one to each that has none."""
        self._make_room(len(first))
        return _add(
            self._cells, self.first, self.second, self._free, self._counts, first, second
        )

    def find(self, first: Longs, second: Longs) -> Ints:
        """Return the slot of each name, or -1 where it has none."""
        return _find(self._cells, self.first, self.second, first, second)

    def remove(self, slots: Ints) -> None:
        """Take these slots back, each of which must be held and named once."""
        _remove(self._cells, self.first, self.second, self._free, self._counts, slots)

    def _make_room(self, names: int) -> None:
        size = len(self.first)
        while size < self._counts[USED] + names:
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
    """Return the cell where the search for a name begins."""
    mixed = np.uint64(first) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64(second) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(mask))  # type: ignore[return-value]


@compiled
def _cell_of(cells: Ints, firsts: Longs, seconds: Longs, first: int, second: int) -> int:
    """Return the cell that holds the name, or else the empty one where it belongs."""
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
        hole = _cell_of(cells, firsts, seconds, firsts[slot], seconds[slot])
        cell = hole
        while True:
            cell = (cell + 1) & mask
            if cells[cell] == NONE:
                break
            home = _home(firsts[cells[cell]], seconds[cells[cell]], mask)
            # It may fill the hole unless its search begins only after the hole.
            if ((cell - home) & mask) >= ((cell - hole) & mask):
                cells[hole] = cells[cell]
                hole = cell
        cells[hole] = NONE
        free[counts[FREE]] = slot
        counts[FREE] += 1


@compiled
def _rehash(old: Ints, cells: Ints, firsts: Longs, seconds: Longs) -> None:
    for slot in old:
        if slot != NONE:
            cells[_cell_of(cells, firsts, seconds, firsts[slot], seconds[slot])] = slot
