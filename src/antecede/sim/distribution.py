"""The usual distributions, for delays, gaps between sends, job lengths and payload sizes.

A distribution turns a state of :mod:`antecede.core.support.keyed_random` into a number that is finite and
at least 0. On the command line it is a word and its parameters, ``uniform:0.01,0.1``; a
bare number is a constant (:func:`parse_distribution`).
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final, TypeVar

from antecede.core.support.keyed_random import exponential, lognormal, normal, uniform
from antecede.errors import ConfigError

__all__ = [
    "Constant",
    "Distribution",
    "Exponential",
    "LogNormal",
    "Normal",
    "Uniform",
    "check_amount",
    "numbers",
    "parameters",
    "parse_distribution",
]

T = TypeVar("T")

FORMS: Final = (
    "NUMBER, constant:NUMBER, uniform:LOW,HIGH, exponential:MEAN[,MINIMUM],"
    " lognormal:MEDIAN,SIGMA, normal:MEAN,DEVIATION"
)


SIGMA_MAX: Final = 10.0
"""Beyond this, a log-normal number soon leaves the range of floats."""


class Distribution:
    """A distribution; subclasses say how a number is drawn."""

    __slots__ = ()

    def draw(self, state: int) -> float:
        """Return the number that belongs to this random state."""
        raise TypeError("a bare Distribution draws nothing")


class Constant(Distribution):
    """Always the same."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        """Raise ConfigError unless ``value`` is finite and at least 0."""
        check_amount(value, "a constant")
        self.value = value

    def draw(self, state: int) -> float:
        """Return the constant."""
        return self.value


class Uniform(Distribution):
    """Anything between two bounds, equally likely."""

    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float) -> None:
        """Raise ConfigError unless 0 <= low <= high."""
        check_amount(low, "the lower bound")
        check_amount(high - low, "the width")
        self.low = low
        self.high = high

    def draw(self, state: int) -> float:
        """Draw from between the bounds."""
        return self.low + (self.high - self.low) * uniform(state)


class Exponential(Distribution):
    """Mostly small, now and then large: a minimum and an exponential part."""

    __slots__ = ("mean", "minimum")

    def __init__(self, mean: float, minimum: float = 0.0) -> None:
        """Set the mean of the exponential part, and what is added to it."""
        check_amount(mean, "the mean")
        check_amount(minimum, "the minimum")
        self.mean = mean
        self.minimum = minimum

    def draw(self, state: int) -> float:
        """Draw the exponential part and add the minimum."""
        return self.minimum + exponential(state, self.mean)


class LogNormal(Distribution):
    """A median and a factor of spread, as measured on wide-area networks."""

    __slots__ = ("median", "sigma")

    def __init__(self, median: float, sigma: float) -> None:
        """Set the median, and the deviation of the logarithm."""
        check_amount(median, "the median")
        if not 0 <= sigma <= SIGMA_MAX:
            raise ConfigError(f"sigma must be from 0 to {SIGMA_MAX}, got {sigma}")
        self.median = median
        self.sigma = sigma

    def draw(self, state: int) -> float:
        """Draw from the distribution."""
        return lognormal(state, self.median, self.sigma)


class Normal(Distribution):
    """A mean and a deviation; what would be below 0 is 0."""

    __slots__ = ("deviation", "mean")

    def __init__(self, mean: float, deviation: float) -> None:
        """Set the mean and the standard deviation."""
        check_amount(mean, "the mean")
        check_amount(deviation, "the deviation")
        self.mean = mean
        self.deviation = deviation

    def draw(self, state: int) -> float:
        """Draw from the distribution, cut off at 0."""
        return max(0.0, self.mean + self.deviation * normal(state))


def parse_distribution(text: str) -> Distribution:
    """Turn ``NAME:PARAMETERS`` into a distribution, or raise ConfigError."""
    name, colon, rest = text.partition(":")
    if not colon:
        name, rest = "constant", text
    values = numbers(rest)
    count = len(values)
    if name == "constant" and count == 1:
        return Constant(values[0])
    if name == "uniform" and count == 2:
        return Uniform(values[0], values[1])
    if name == "exponential" and count in (1, 2):
        return Exponential(values[0], values[1] if count > 1 else 0.0)
    if name == "lognormal" and count == 2:
        return LogNormal(values[0], values[1])
    if name == "normal" and count == 2:
        return Normal(values[0], values[1])
    raise ConfigError(f"{text!r} is none of {FORMS}")


def numbers(text: str) -> list[float]:
    """Split numbers at commas; none at all if one of them is no number."""
    try:
        return [float(value) for value in text.split(",")]
    except ValueError:
        return []


def parameters(
    what: str, text: str, known: Mapping[str, Callable[[str], T]]
) -> dict[str, T]:
    """Read ``key=value``, split at commas, or raise ConfigError.

    Args:
        what: Whose parameters they are, for the error.
        text: What was given; may be empty.
        known: What reads the value of each; it raises ValueError.
    """
    values: dict[str, T] = {}
    for part in text.split(",") if text else ():
        key, _, value = part.partition("=")
        if key not in known:
            raise ConfigError(
                f"{what} has no parameter {key!r}; it has: {', '.join(known) or 'none'}"
            )
        try:
            values[key] = known[key](value)
        except ValueError:
            raise ConfigError(f"{key} of {what} cannot be {value!r}") from None
    return values


def check_amount(value: float, what: str) -> None:
    """Raise ConfigError unless ``value`` is finite and at least 0."""
    if not 0 <= value < inf:
        raise ConfigError(f"{what} must be finite and at least 0, got {value}")
