"""The sliding array, the sliding map and the indexed sliding map (Almeida §5.3).

All three keep a window of consecutive indexes that only moves forward: elements are added
at ``next`` and removed at ``first``. Every operation takes amortised constant time.

The paper's sliding array is a short array of pointers to larger arrays. Here it is one
list with a removed prefix, which is deleted once it is at least as long as the rest: an
element is moved at most once for each element removed, and an access is one subtraction.
The paper's sliding map marks presence by bits; here a slot holds the key or None, which
costs CPython the same, and the indexed variant needs the keys.
"""

from typing import Final, Generic, TypeVar, cast

__all__ = ["IndexedSlidingMap", "SlidingArray", "SlidingMap"]

E = TypeVar("E")
K = TypeVar("K")

PREFIX_MIN: Final = 32
"""A shorter removed prefix is kept: deleting it would cost more than its memory."""


class SlidingArray(Generic[E]):
    """A window of elements, added at the end, removed at the start, read by index."""

    __slots__ = ("_base", "_items", "first", "next")

    first: int
    """The index of the oldest element, or ``next`` when there is none."""
    next: int
    """The index that the next added element gets."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.next = first
        self._base = first
        self._items: list[E] = []

    def __len__(self) -> int:
        return self.next - self.first

    def add(self, element: E) -> int:
        """Append ``element`` and return its index."""
        index = self.next
        self._items.append(element)
        self.next = index + 1
        return index

    def remove(self) -> E:
        """Remove and return the oldest element; raise IndexError if there is none."""
        if self.first == self.next:
            raise IndexError("remove from an empty sliding array")
        items = self._items
        removed = self.first - self._base
        element = items[removed]
        items[removed] = cast("E", None)  # Release the reference.
        self.first += 1
        removed += 1
        if removed >= PREFIX_MIN and removed * 2 >= len(items):
            del items[:removed]
            self._base = self.first
        return element

    def peek(self) -> E:
        """Return the oldest element; raise IndexError if there is none."""
        if self.first == self.next:
            raise IndexError("peek into an empty sliding array")
        return self._items[self.first - self._base]

    def __getitem__(self, index: int) -> E:
        """Return the element at ``index``; raise IndexError outside the window."""
        if index < self.first:
            raise IndexError(f"index {index} is before the window")
        return self._items[index - self._base]

    def to_list(self) -> list[E]:
        """Return the elements of the window, oldest first."""
        return self._items[self.first - self._base :]

    def __setitem__(self, index: int, element: E) -> None:
        """Replace the element at ``index``; raise IndexError outside the window."""
        if index < self.first:
            raise IndexError(f"index {index} is before the window")
        self._items[index - self._base] = element


class SlidingMap(Generic[K]):
    """A window of keys, added at the end and removed by key, from anywhere.

    ``first`` is the index of the oldest key still present, so ``first >= index`` tests in
    constant time whether all keys added before ``index`` have been removed.
    """

    __slots__ = ("_indexes", "_slots")

    def __init__(self) -> None:
        self._slots: SlidingArray[K | None] = SlidingArray()
        self._indexes: dict[K, int] = {}

    @property
    def first(self) -> int:
        """The index of the oldest key present, or ``next`` when there is none."""
        return self._slots.first

    @property
    def next(self) -> int:
        """The index that the next added key gets."""
        return self._slots.next

    def __len__(self) -> int:
        return len(self._indexes)

    def __contains__(self, key: K) -> bool:
        return key in self._indexes

    def add(self, key: K) -> int:
        """Add ``key`` and return its index; raise KeyError if it is present already."""
        index = self._slots.next
        if self._indexes.setdefault(key, index) != index:
            raise KeyError(key)
        return self._slots.add(key)

    def remove(self, key: K) -> bool:
        """Remove ``key``; return whether it was present."""
        index = self._indexes.pop(key, -1)
        if index < 0:
            return False
        slots = self._slots
        slots[index] = None
        while slots.first < slots.next and slots.peek() is None:
            slots.remove()
        return True

    def index(self, key: K) -> int | None:
        """Return the index of ``key``, or None if it is not present."""
        return self._indexes.get(key)


class IndexedSlidingMap(SlidingMap[K]):
    """A sliding map that can also be read by index."""

    __slots__ = ()

    def peek(self) -> K:
        """Return the oldest key present; raise IndexError if there is none."""
        key = self._slots.peek()
        assert key is not None  # The window never starts at an empty slot.
        return key

    def __getitem__(self, index: int) -> K | None:
        """Return the key at ``index``, or None if it was removed."""
        return self._slots[index]
