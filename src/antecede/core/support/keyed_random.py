"""Random numbers that depend on their purpose, not on the order in which they are drawn.

Protocols are compared on the same network: the fate of the k-th transmission of a message
depends on (seed, source, target, message, k) only, so two protocols that transmit it at
different times, or in another order, see the same loss, duplication and delay. That needs
no generator with a state, but a hash that mixes well::

    fate = fold_in(fold_in(fold_in(key(seed), source), target), message)
    if uniform(fold_in(fate, LOSS)) < loss: ...

The hash works on 30 bits, because the product of two such numbers fits into a machine
integer of 64 bits, with which compiled code calculates. Two different purposes may get the
same number, as with any random numbers; a test verifies that the numbers are uniform and
independent.
"""

from math import cos, exp, log, pi, sqrt
from typing import Final

from mypy_extensions import i64

__all__ = ["exponential", "fold_in", "key", "lognormal", "normal", "uniform"]

BITS: Final = 30
MASK: Final = (1 << BITS) - 1
SECOND: Final = 0x2545F491
"""Separates the second of two draws from one key from the first."""


def key(seed: int) -> int:
    """Return the key of a seed."""
    return fold_in(fold_in(0x1F83D9AB, seed & MASK), seed >> BITS & MASK)


def fold_in(state: i64, value: int) -> i64:
    """Return a new key that depends on all bits of ``state`` and ``value``."""
    if value > MASK:
        state = fold_in(state, value >> BITS)
    low: i64 = value & MASK
    mixed = state ^ low
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & MASK
    mixed = ((mixed ^ (mixed >> 14)) * 0x297A2D39) & MASK
    mixed = ((mixed ^ (mixed >> 13)) * 0x3AC4F42D) & MASK
    return mixed ^ (mixed >> 15)


def uniform(state: int) -> float:
    """Return a uniformly distributed number above 0 and below 1."""
    return (state + 0.5) / 1073741824.0


def exponential(state: int, mean: float) -> float:
    """Return an exponentially distributed number."""
    return -mean * log(uniform(state))


def normal(state: int) -> float:
    """Return a number of the standard normal distribution (Box and Muller)."""
    radius = sqrt(-2.0 * log(uniform(state)))
    return radius * cos(2.0 * pi * uniform(fold_in(state, SECOND)))


def lognormal(state: int, median: float, sigma: float) -> float:
    """Return a log-normally distributed number."""
    return median * exp(sigma * normal(state))
