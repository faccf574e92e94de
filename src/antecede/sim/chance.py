"""Random numbers that are functions of what they are for, not of when they are drawn.

Protocols are compared on the same network: the fate of the k-th transmission of a message
depends on (seed, source, target, message, k) and on nothing else, so two protocols that
transmit it at different times, or in another order, see it lost, duplicated and delayed
alike. That needs no generator with a state, but a hash that scrambles well::

    fate = stir(stir(stir(begin(seed), source), target), message)
    if uniform(stir(fate, LOSS)) < loss: ...

The hash works on 31 bits, so that every product fits the machine's integers, which is
where compiled code is fast. Two different things may get the same number by chance, as
they may with any random numbers; a test checks that they are uniform and independent.
"""

from math import cos, exp, log, pi, sqrt
from typing import Final

__all__ = ["begin", "exponential", "lognormal", "normal", "stir", "uniform"]

MASK: Final = 0x7FFFFFFF
SECOND: Final = 0x2545F491
"""Tells the second of two draws for one thing from the first."""


def begin(seed: int) -> int:
    """Return the state that everything in a run with this seed is stirred into."""
    return stir(stir(0x1F83D9AB, seed & MASK), seed >> 31 & MASK)


def stir(state: int, value: int) -> int:
    """Return a new state that depends on all of ``state`` and ``value``."""
    if value > MASK:
        state = stir(state, value >> 31)
    mixed = state ^ (value & MASK)
    mixed = ((mixed ^ (mixed >> 16)) * 0x7FEB352D) & MASK
    mixed = ((mixed ^ (mixed >> 15)) * 0x6CA68B35) & MASK
    mixed = ((mixed ^ (mixed >> 14)) * 0x5851F42D) & MASK
    return mixed ^ (mixed >> 16)


def uniform(state: int) -> float:
    """Turn a state into a number above 0 and below 1, all equally likely."""
    return (state + 0.5) / 2147483648.0


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
