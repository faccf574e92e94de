"""Confidence intervals for a mean over few runs, by Student's t distribution.

For integer degrees of freedom the distribution function is a finite sum (Abramowitz and
Stegun, 26.7.3 and 26.7.4); its inverse is found by bisection.
"""

from functools import cache
from math import atan2, cos, inf, pi, sin, sqrt, tan

from antecede.errors import LocalError

__all__ = ["CONFIDENCE", "central_probability", "student_t"]

CONFIDENCE = 0.95
"""The confidence level of the intervals in the tables."""


def central_probability(t: float, freedom: int) -> float:
    """Return the probability that the absolute value of Student's t is at most ``t``.

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
    """Return the t within which a value lies with probability ``confidence``.

    With n - 1 degrees of freedom, the mean of n runs lies within t standard errors.
    """
    if freedom < 1:
        raise LocalError(f"degrees of freedom must be at least 1, got {freedom}")
    if not 0 < confidence < 1:
        raise LocalError(f"confidence must be between 0 and 1, got {confidence}")
    low, high = 0.0, pi / 2
    while True:
        middle = (low + high) / 2
        if not low < middle < high:  # Adjacent floating-point numbers.
            return sqrt(freedom) * tan(low)
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle


def _within(angle: float, freedom: int) -> float:
    """Return the central probability of t = sqrt(freedom) * tan(angle)."""
    square = cos(angle) ** 2
    odd = freedom % 2 == 1
    # From term to term, the power of the cosine rises by two.
    term = cos(angle) if odd else 1.0
    total = 0.0
    for power in range(3 if odd else 2, freedom + 1, 2):
        total += term
        term *= square * (power - 1) / power
    if odd:
        return 2 / pi * (angle + sin(angle) * total)
    return sin(angle) * total
