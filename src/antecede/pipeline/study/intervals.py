"""Confidence intervals for a mean over few runs: Student's t distribution, exactly.

With a whole number of degrees of freedom the distribution function is a finite sum
(Abramowitz and Stegun, 26.7.3 and 26.7.4), and its inverse a bisection.
"""

from functools import cache
from math import atan2, cos, inf, pi, sin, sqrt, tan

from antecede.errors import LocalError

__all__ = ["CONFIDENCE", "central_probability", "student_t"]

CONFIDENCE = 0.95
"""How sure an interval of the tables is."""


def central_probability(t: float, freedom: int) -> float:
    """Return how likely a value of Student's t is at most ``t`` away from 0.

    Args:
        t: At least 0.
        freedom: The degrees of freedom, at least 1.
    """
    if freedom < 1:
        raise LocalError(f"degrees of freedom must be at least 1, got {freedom}")
    if not t >= 0:
        raise LocalError(f"t must be at least 0, got {t}")
    return _within(pi / 2 if t == inf else atan2(t, sqrt(freedom)), freedom)


@cache
def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Return the t that a value exceeds on neither side, this likely.

    The mean of n runs lies within that many standard errors, with n - 1 degrees of
    freedom.
    """
    if freedom < 1:
        raise LocalError(f"degrees of freedom must be at least 1, got {freedom}")
    if not 0 < confidence < 1:
        raise LocalError(f"a confidence is between 0 and 1, got {confidence}")
    low, high = 0.0, pi / 2
    while True:
        middle = (low + high) / 2
        if not low < middle < high:  # Neighbours: no angle is left between them.
            return sqrt(freedom) * tan(low)
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle


def _within(angle: float, freedom: int) -> float:
    """Return the central probability of t = sqrt(freedom) * tan(angle)."""
    square = cos(angle) ** 2
    odd = freedom % 2 == 1
    # The terms' powers of the cosine go up by two, their factors by the next fraction.
    term = cos(angle) if odd else 1.0
    total = 0.0
    for power in range(3 if odd else 2, freedom + 1, 2):
        total += term
        term *= square * (power - 1) / power
    if odd:
        return 2 / pi * (angle + sin(angle) * total)
    return sin(angle) * total
