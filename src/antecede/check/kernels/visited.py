"""The set of visited states: their fingerprints in an open-addressing hash table.

A fingerprint is its own hash. The table is at most 60 % full, so a state takes 13 to 27
bytes.
"""

import numpy as np

from antecede.check.kernels.expansion import Fingerprints, Words
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Longs

__all__ = ["Visited"]

INITIAL_CELLS = 1 << 16
FULL = 0.6
"""The largest fraction of the cells that is in use."""


class Visited:
    """A set of fingerprints, none of which is 0."""

    cells: Fingerprints
    """The fingerprints, each at the first free cell from its own; 0 is a free cell."""

    def __init__(self) -> None:
        self.cells = np.zeros(INITIAL_CELLS, np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def bytes_to_add(self, count: int) -> int:
        """Return the bytes of the new table that adding fingerprints needs; 0 if none."""
        cells = self._cells_for(count)
        return 0 if cells == len(self.cells) else cells * self.cells.itemsize

    def without(self, values: Fingerprints) -> Longs:
        """Return the indexes of the fingerprints that are not in the set."""
        found: Longs = _without(self.cells, values)
        return found

    def add_rows(
        self, chosen: Longs, values: Fingerprints, words: Words, starts: Longs
    ) -> tuple[Longs, Words, Longs]:
        """Add the chosen fingerprints; return which are new, and their rows.

        Args:
            chosen: The indexes of the fingerprints to add.
            values: The fingerprints.
            words: The rows.
            starts: The offset of each row, and of the end.

        Returns:
            The indexes of the new fingerprints, their rows, and the offsets of these.
        """
        self._reserve(len(chosen))
        found: tuple[Longs, Words, Longs] = _add_rows(
            self.cells, chosen, values, words, starts
        )
        self._count += len(found[0])
        return found

    def add(self, values: Fingerprints) -> None:
        """Add fingerprints without rows."""
        starts = np.zeros(len(values) + 1, np.int64)
        self.add_rows(np.arange(len(values)), values, np.empty(0, np.uint32), starts)

    def _cells_for(self, count: int) -> int:
        cells = len(self.cells)
        while self._count + count > FULL * cells:
            cells *= 2
        return cells

    def _reserve(self, count: int) -> None:
        cells = self._cells_for(count)
        if cells != len(self.cells):
            larger = np.zeros(cells, np.uint64)
            _rehash(self.cells, larger)
            self.cells = larger


@compiled
def _without(cells: Fingerprints, values: Fingerprints) -> Longs:
    mask = np.uint64(cells.size - 1)
    new = np.empty(values.size, np.int64)
    found = 0
    for index in range(values.size):
        cell = values[index] & mask
        while cells[cell] != np.uint64(0) and cells[cell] != values[index]:
            cell = (cell + np.uint64(1)) & mask
        if cells[cell] == np.uint64(0):
            new[found] = index
            found += 1
    return new[:found].copy()


@compiled
def _add_rows(
    cells: Fingerprints, chosen: Longs, values: Fingerprints, words: Words, starts: Longs
) -> tuple[Longs, Words, Longs]:
    mask = np.uint64(cells.size - 1)
    new = np.empty(chosen.size, np.int64)
    new_words = np.empty(words.size, np.uint32)
    new_starts = np.zeros(chosen.size + 1, np.int64)
    found = 0
    at = 0
    for index in chosen:
        value = values[index]
        cell = value & mask
        while cells[cell] != np.uint64(0) and cells[cell] != value:
            cell = (cell + np.uint64(1)) & mask
        if cells[cell] == value:
            continue
        cells[cell] = value
        new[found] = index
        for word in range(starts[index], starts[index + 1]):
            new_words[at] = words[word]
            at += 1
        found += 1
        new_starts[found] = at
    return new[:found].copy(), new_words[:at].copy(), new_starts[: found + 1].copy()


@compiled
def _rehash(old: Fingerprints, cells: Fingerprints) -> None:
    mask = np.uint64(cells.size - 1)
    for value in old:
        if value != np.uint64(0):
            cell = value & mask
            while cells[cell] != np.uint64(0):
                cell = (cell + np.uint64(1)) & mask
            cells[cell] = value
