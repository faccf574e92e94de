"""A set of integers that is stored as intervals."""

from bisect import bisect_right

__all__ = ["IntervalSet"]


class IntervalSet:
    """A set of integers whose memory is proportional to its number of intervals."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        # Interval i contains the integers from starts[i] to ends[i], in ascending order.
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        """Return the number of intervals, not of integers."""
        return len(self._starts)

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._starts, number) - 1
        return index >= 0 and number <= self._ends[index]

    def add(self, number: int) -> bool:
        """Add ``number``; return whether it is new."""
        starts = self._starts
        ends = self._ends
        if ends and number == ends[-1] + 1:
            ends[-1] = number  # The usual case.
            return True
        after = bisect_right(starts, number)
        if after > 0 and number <= ends[after - 1]:
            return False
        joins_before = after > 0 and ends[after - 1] == number - 1
        joins_after = after < len(starts) and starts[after] == number + 1
        if joins_before and joins_after:
            ends[after - 1] = ends[after]
            del starts[after], ends[after]
        elif joins_before:
            ends[after - 1] = number
        elif joins_after:
            starts[after] = number
        else:
            starts.insert(after, number)
            ends.insert(after, number)
        return True

    def last(self, count: int) -> list[tuple[int, int]]:
        """Return the first and last integer of the highest intervals, highest first."""
        starts = self._starts
        ends = self._ends
        if len(starts) == 1:
            return [(starts[0], ends[0])]  # The usual case.
        bottom = max(len(starts) - count, 0)
        return [(starts[i], ends[i]) for i in range(len(starts) - 1, bottom - 1, -1)]

    def discard_first(self) -> None:
        """Remove the lowest interval, if there is one."""
        del self._starts[:1], self._ends[:1]

    def discard_up_to(self, number: int) -> None:
        """Remove all integers up to ``number``."""
        starts = self._starts
        if not starts or starts[0] > number:
            return
        count = 0
        for end in self._ends:  # Usually the first end is above ``number``.
            if end > number:
                break
            count += 1
        if count > 0:
            del starts[:count], self._ends[:count]
        if starts and starts[0] <= number:
            starts[0] = number + 1
