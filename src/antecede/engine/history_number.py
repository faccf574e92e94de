"""Numbers of histories.

A node with a journal begins another history when it learns that its journal is outdated.
The number of the new history informs every peer, and the node itself if it is restored from
the same outdated journal again, that the new history is the later one. A number consists of
the origin, which is drawn with a new journal, a count of the histories of that origin, and
random bits, because a node may begin a history, forget it, and begin another one. It is
even. The history of a node without a journal has the number of its incarnation, which is
odd, and has neither origin nor count.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["first_history", "is_later", "next_history"]

ORIGIN_BITS: Final = 30
COUNT_BITS: Final = 16
RANDOM_BITS: Final = 15
_COUNT_SHIFT: Final = RANDOM_BITS + 1
_COUNT_MAX: Final = (1 << COUNT_BITS) - 1


def first_history(random_bits: Callable[[int], int]) -> int:
    """Return the number of the first history of a new journal."""
    return _make(random_bits(ORIGIN_BITS) | 1, 0, random_bits)


def next_history(latest: int, random_bits: Callable[[int], int]) -> int:
    """Return the number of a history that is later than ``latest``."""
    count = _count(latest)
    if count == _COUNT_MAX:
        return first_history(random_bits)
    return _make(_origin(latest), count + 1, random_bits)


def is_later(history: int, than: int) -> bool:
    """Return whether a node in history ``than`` has forgotten that it had ``history``.

    Both are numbers of one node's histories; 0 stands for an unknown one. Two different
    histories with the same count exist only if the node has forgotten one of them.
    """
    return (
        history != than
        and (history | than) & 1 == 0
        and 0 != _origin(history) == _origin(than)
        and _count(history) >= _count(than)
    )


def _make(origin: int, count: int, random_bits: Callable[[int], int]) -> int:
    counted = (origin << COUNT_BITS) + count
    return (counted << _COUNT_SHIFT) + (random_bits(RANDOM_BITS) << 1)


def _origin(history: int) -> int:
    return history >> (COUNT_BITS + _COUNT_SHIFT)


def _count(history: int) -> int:
    return history >> _COUNT_SHIFT & _COUNT_MAX
