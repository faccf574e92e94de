"""Random numbers of an engine whose driver supplies none, such as a test."""

from collections.abc import Callable
from typing import Final

from antecede.core.support.keyed_random import fold_in, key

__all__ = ["SeededRandom", "random_bits_of"]

DRAW_BITS: Final = 30


class SeededRandom:
    """A sequence of random numbers that a seed determines; they can be guessed."""

    __slots__ = ("_draws", "_key")

    def __init__(self, seed: int) -> None:
        self._key = key(seed)
        self._draws = 0

    def bits(self, count: int) -> int:
        """Return a random number of ``bits`` bits."""
        number = 0
        for _ in range(0, count, DRAW_BITS):
            self._draws += 1
            # A wider number than a machine integer: an operation with one would not fit.
            drawn: int = fold_in(self._key, self._draws)
            number = number << DRAW_BITS | drawn
        return number & ((1 << count) - 1)


def random_bits_of(
    given: Callable[[int], int] | None, incarnation: int
) -> Callable[[int], int]:
    """Return the random function of the driver, or a seeded one if it is None."""
    return given if given is not None else SeededRandom(incarnation).bits
