"""Random numbers that are functions of what they are for, not of when they are drawn.

Protocols are compared on the same network: the fate of the k-th transmission of a message
depends on (seed, source, target, message, k) and on nothing else, so two protocols that
transmit it at different times, or in another order, see it lost, duplicated and delayed
alike. That needs no generator with a state, but a hash that scrambles well::

    fate = stir(stir(stir(begin(seed), source), target), message)
    if uniform(stir(fate, LOSS)) < loss: ...

The hash works on 30 bits, since compiled code multiplies numbers below 2**30 without
leaving the machine's integers. Two different things may get the same number by chance, as
they may with any random numbers; a test checks that they are uniform and independent.
"""

from math import cos, exp, log, pi, sqrt
from typing import Final

__all__ = ["begin", "exponential", "lognormal", "normal", "stir", "uniform"]

BITS: Final = 30
MASK: Final = (1 << BITS) - 1
SECOND: Final = 0x2545F491
"""Tells the second of two draws for one thing from the first."""


def begin(seed: int) -> int:
    """Return the state that everything in a run with this seed is stirred into."""
    return stir(stir(0x1F83D9AB, seed & MASK), seed >> BITS & MASK)


def stir(state: int, value: int) -> int:
    """Return a new state that depends on all of ``state`` and ``value``."""
    if value > MASK:
        state = stir(state, value >> BITS)
    mixed = state ^ (value & MASK)
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & MASK
    mixed = ((mixed ^ (mixed >> 14)) * 0x297A2D39) & MASK
    mixed = ((mixed ^ (mixed >> 13)) * 0x3AC4F42D) & MASK
    return mixed ^ (mixed >> 15)


def uniform(state: int) -> float:
    """Turn a state into a number above 0 and below 1, all equally likely."""
    return (state + 0.5) / 1073741824.0


def exponential(state: int, mean: float) -> float:
    """Turn a state into an exponentially distributed number."""
    return -mean * log(uniform(state))


def normal(state: int) -> float:
    """Turn a state into a number of the standard normal distribution (Box and Muller)."""
    radius = sqrt(-2.0 * log(uniform(state)))
    return radius * cos(2.0 * pi * uniform(stir(state, SECOND)))


def lognormal(state: int, median: float, sigma: float) -> float:
    """Turn a state into a number whose logarithm is normal around that of ``median``."""
    return median * exp(sigma * normal(state))
