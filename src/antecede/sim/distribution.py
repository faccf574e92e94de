"""Distributions of delays, gaps between sends, service times and payload sizes.

A distribution maps a key of :mod:`antecede.core.support.keyed_random` to a number that is
finite and at least 0. On the command line it is written as a name and parameters, such as
``uniform:0.01,0.1``; a bare number is a constant (:func:`parse_distribution`).
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
"""Beyond this, log-normal numbers overflow."""


class Distribution:
    """Base class of all distributions."""

    __slots__ = ()

    def draw(self, random_key: int) -> float:
        """Return the number for a random key."""
        raise NotImplementedError


class Constant(Distribution):
    """Always the same number."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        """Raise ConfigError unless ``value`` is finite and at least 0."""
        check_amount(value, "a constant")
        self.value = value

    def draw(self, random_key: int) -> float:
        return self.value


class Uniform(Distribution):
    """All numbers between two bounds, equally likely."""

    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float) -> None:
        """Raise ConfigError unless 0 <= low <= high."""
        check_amount(low, "the lower bound")
        check_amount(high - low, "the width")
        self.low = low
        self.high = high

    def draw(self, random_key: int) -> float:
        return self.low + (self.high - self.low) * uniform(random_key)


class Exponential(Distribution):
    """A minimum plus an exponentially distributed number."""

    __slots__ = ("mean", "minimum")

    def __init__(self, mean: float, minimum: float = 0.0) -> None:
        """Set the mean of the exponential part, and the minimum added to it."""
        check_amount(mean, "the mean")
        check_amount(minimum, "the minimum")
        self.mean = mean
        self.minimum = minimum

    def draw(self, random_key: int) -> float:
        return self.minimum + exponential(random_key, self.mean)


class LogNormal(Distribution):
    """Log-normal numbers, as measured on wide-area networks."""

    __slots__ = ("median", "sigma")

    def __init__(self, median: float, sigma: float) -> None:
        """Set the median, and the standard deviation of the logarithm."""
        check_amount(median, "the median")
        if not 0 <= sigma <= SIGMA_MAX:
            raise ConfigError(f"sigma must be from 0 to {SIGMA_MAX}, got {sigma}")
        self.median = median
        self.sigma = sigma

    def draw(self, random_key: int) -> float:
        return lognormal(random_key, self.median, self.sigma)


class Normal(Distribution):
    """Normal numbers; negative ones become 0."""

    __slots__ = ("deviation", "mean")

    def __init__(self, mean: float, deviation: float) -> None:
        check_amount(mean, "the mean")
        check_amount(deviation, "the deviation")
        self.mean = mean
        self.deviation = deviation

    def draw(self, random_key: int) -> float:
        return max(0.0, self.mean + self.deviation * normal(random_key))


def parse_distribution(text: str) -> Distribution:
    """Parse ``NAME:PARAMETERS``; raise ConfigError if it is not a distribution."""
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
    raise ConfigError(f"{text!r} is not a valid distribution; the forms are: {FORMS}")


def numbers(text: str) -> list[float]:
    """Parse numbers separated by commas; return an empty list if one is invalid."""
    try:
        return [float(value) for value in text.split(",")]
    except ValueError:
        return []


def parameters(
    owner: str, text: str, known: Mapping[str, Callable[[str], T]]
) -> dict[str, T]:
    """Parse ``key=value`` pairs separated by commas; raise ConfigError if one is invalid.

    Args:
        owner: The owner of the parameters, for the error message.
        text: The pairs; may be empty.
        known: The parser of each known key, which raises ValueError.
    """
    values: dict[str, T] = {}
    for part in text.split(",") if text else ():
        key, _, value = part.partition("=")
        if key not in known:
            raise ConfigError(
                f"{owner} has no parameter {key!r}; it has: {', '.join(known) or 'none'}"
            )
        try:
            values[key] = known[key](value)
        except ValueError:
            raise ConfigError(f"invalid value {value!r} for {key} of {owner}") from None
    return values


def check_amount(value: float, name: str) -> None:
    """Raise ConfigError unless ``value`` is finite and at least 0."""
    if not 0 <= value < inf:
        raise ConfigError(f"{name} must be finite and at least 0, got {value}")
