"""Models of the propagation delay between processes.

A delay model maps a key of :mod:`antecede.core.support.keyed_random` to seconds, so that
the same transmission takes equally long under every protocol. :func:`parse_delay` parses
the forms of the command line: a distribution, or ``geographic:ACROSS[,MINIMUM[,JITTER]]``.
"""

from collections.abc import Sequence
from math import sqrt

from antecede.core.support.keyed_random import fold_in, key, uniform
from antecede.errors import ConfigError
from antecede.sim.distribution import (
    Constant,
    Distribution,
    check_amount,
    numbers,
    parse_distribution,
)

__all__ = ["Delay", "Everywhere", "Geographic", "Matrix", "parse_delay"]


class Delay:
    """Base class of all delay models."""

    __slots__ = ()

    @property
    def is_random(self) -> bool:
        """Whether the delay depends on the random key."""
        return True

    def check_processes(self, processes: int) -> None:
        """Raise ConfigError if the model is for fewer processes."""

    def draw(self, source: int, target: int, random_key: int) -> float:
        """Return the delay in seconds of the transmission with this random key."""
        raise NotImplementedError


class Everywhere(Delay):
    """The same distribution between any two processes."""

    __slots__ = ("distribution",)

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution

    @property
    def is_random(self) -> bool:
        return not isinstance(self.distribution, Constant)

    def draw(self, source: int, target: int, random_key: int) -> float:
        return self.distribution.draw(random_key)


class Matrix(Delay):
    """A delay for every ordered pair of processes, plus jitter."""

    __slots__ = ("jitter", "rows")

    def __init__(self, rows: Sequence[Sequence[float]], jitter: float = 0.0) -> None:
        """Set the delays by source and target, and the maximum jitter as a share."""
        for row in rows:
            if len(row) != len(rows):
                raise ConfigError(
                    f"a delay matrix must be square: {len(rows)} rows, one with"
                    f" {len(row)} columns"
                )
            for seconds in row:
                check_amount(seconds, "the delay of a pair")
        check_amount(jitter, "the jitter")
        self.rows = [list(row) for row in rows]
        self.jitter = jitter

    @property
    def is_random(self) -> bool:
        return self.jitter > 0

    def check_processes(self, processes: int) -> None:
        if processes > len(self.rows):
            raise ConfigError(
                f"the delay matrix is for {len(self.rows)} processes, not {processes}"
            )

    def draw(self, source: int, target: int, random_key: int) -> float:
        return self.rows[source][target] * (1.0 + self.jitter * uniform(random_key))


class Geographic(Delay):
    """Processes at random positions in a square; delay by distance, plus jitter.

    A position depends on ``seed`` and the process, not on the number of processes.
    """

    __slots__ = ("_root", "across", "jitter", "minimum")

    def __init__(
        self, across: float, minimum: float = 0.0, jitter: float = 0.1, seed: int = 0
    ) -> None:
        """Set the delay from one edge to the other, the minimum delay, and the jitter."""
        check_amount(across, "the delay across")
        check_amount(minimum, "the minimum")
        check_amount(jitter, "the jitter")
        self.across = across
        self.minimum = minimum
        self.jitter = jitter
        self._root = key(seed)

    @property
    def is_random(self) -> bool:
        return self.jitter > 0

    def position(self, process: int) -> tuple[float, float]:
        """Return the position of ``process`` in the unit square."""
        state = fold_in(self._root, process)
        return uniform(fold_in(state, 1)), uniform(fold_in(state, 2))

    def draw(self, source: int, target: int, random_key: int) -> float:
        x, y = self.position(source)
        u, v = self.position(target)
        seconds = self.across * sqrt((x - u) * (x - u) + (y - v) * (y - v))
        return self.minimum + seconds * (1.0 + self.jitter * uniform(random_key))


def parse_delay(text: str) -> Delay:
    """Parse a delay of the command line; raise ConfigError if it is not valid."""
    name, _, rest = text.partition(":")
    if name == "geographic":
        values = numbers(rest)
        if len(values) not in (1, 2, 3):
            raise ConfigError(
                f"{text!r} is not of the form geographic:ACROSS[,MINIMUM[,JITTER]]"
            )
        minimum = values[1] if len(values) > 1 else 0.0
        return Geographic(values[0], minimum, values[2] if len(values) > 2 else 0.1)
    return Everywhere(parse_distribution(text))
