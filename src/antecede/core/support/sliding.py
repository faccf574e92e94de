"""The sliding array, and a sparse one in place of the sliding map (Almeida §5.3).

Both keep a window of consecutive indexes that only moves forward: elements are added at
``next`` and removed at ``first``. Every operation takes amortised constant time.

The paper's sliding array is a short array of pointers to larger arrays. Here it is one
list with a removed prefix, which is deleted once it is at least as long as the rest: an
element is moved at most once for each element removed, and an access is one subtraction.
The paper's sliding map finds the index of a key in a map. Here an element keeps its index
itself, so that a sliding array whose slots may be empty suffices.
"""

from typing import Final, Generic, TypeVar, cast

from mypy_extensions import i64

__all__ = ["SlidingArray", "SparseSlidingArray"]

E = TypeVar("E")

PREFIX_MIN: Final = 8
"""A shorter removed prefix is kept: deleting it would cost more than its memory."""


class SlidingArray(Generic[E]):
    """A window of elements, added at the end, removed at the start, read by index."""

    __slots__ = ("_base", "_items", "first", "next")

    first: i64
    """The index of the oldest element, or ``next`` when there is none."""
    next: i64
    """The index that the next added element gets."""
    _base: i64
    """The index of the first element of the list."""

    def __init__(self, first: i64 = 0) -> None:
        self.first = first
        self.next = first
        self._base = first
        self._items: list[E] = []

    def __len__(self) -> int:
        return self.next - self.first

    def add(self, element: E) -> i64:
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

    def __getitem__(self, index: i64) -> E:
        """Return the element at ``index``; raise IndexError outside the window."""
        if not self.first <= index < self.next:  # Compiled, list[0] may pass the end.
            raise IndexError("the index is outside of the window")
        return self._items[index - self._base]

    def to_list(self) -> list[E]:
        """Return the elements of the window, oldest first."""
        return self._items[self.first - self._base :]

    def __setitem__(self, index: i64, element: E) -> None:
        """Replace the element at ``index``; raise IndexError outside the window."""
        if not self.first <= index < self.next:  # Compiled, list[0] may pass the end.
            raise IndexError("the index is outside of the window")
        self._items[index - self._base] = element


class SparseSlidingArray(SlidingArray[E | None]):
    """A sliding array from which elements are removed by index, from anywhere.

    ``first`` is the index of the oldest element still present, so ``first >= index`` tests
    in constant time whether all elements added before ``index`` have been removed.
    """

    __slots__ = ()

    def oldest(self) -> E:
        """Return the oldest element present; raise IndexError if there is none."""
        element = self.peek()
        assert element is not None  # The window never starts at an empty slot.
        return element

    def discard(self, index: i64) -> None:
        """Remove the element at ``index``; raise IndexError outside the window."""
        self[index] = None
        while self.first < self.next and self.peek() is None:
            self.remove()
