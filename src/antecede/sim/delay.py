"""How long a frame takes from one process to another.

A delay model turns a state of :mod:`antecede.core.support.keyed_random` into seconds, so the same
transmission takes equally long under every protocol. :func:`parse_delay` reads what the
command line takes: any distribution, or ``geographic:ACROSS[,MINIMUM[,JITTER]]``.
"""

from collections.abc import Sequence
from math import sqrt

from antecede.core.support.keyed_random import begin, stir, uniform
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
    """A delay model; subclasses say how a delay is drawn."""

    __slots__ = ()

    @property
    def chancy(self) -> bool:
        """Whether the delay depends on the random state at all."""
        return True

    def check_processes(self, processes: int) -> None:
        """Raise ConfigError if it knows the way between fewer processes than these."""

    def draw(self, source: int, target: int, state: int) -> float:
        """Return the seconds that the transmission with this random state takes."""
        raise TypeError("a bare Delay draws nothing")


class Everywhere(Delay):
    """The same distribution between any two processes."""

    __slots__ = ("distribution",)

    def __init__(self, distribution: Distribution) -> None:
        """Set the distribution; with a constant one, frames never overtake each other."""
        self.distribution = distribution

    @property
    def chancy(self) -> bool:
        """Whether the distribution is more than a constant."""
        return not isinstance(self.distribution, Constant)

    def draw(self, source: int, target: int, state: int) -> float:
        """Draw from the distribution."""
        return self.distribution.draw(state)


class Matrix(Delay):
    """A delay for every ordered pair of processes, plus a jitter."""

    __slots__ = ("jitter", "rows")

    def __init__(self, rows: Sequence[Sequence[float]], jitter: float = 0.0) -> None:
        """Set row ``source`` and column ``target``, and the share added at most."""
        for row in rows:
            if len(row) != len(rows):
                raise ConfigError(
                    f"a delay matrix of {len(rows)} rows has one of {len(row)}"
                )
            for seconds in row:
                check_amount(seconds, "the delay of a pair")
        check_amount(jitter, "the jitter")
        self.rows = [list(row) for row in rows]
        self.jitter = jitter

    @property
    def chancy(self) -> bool:
        """Whether there is a jitter."""
        return self.jitter > 0

    def check_processes(self, processes: int) -> None:
        """Raise ConfigError if there are more processes than rows."""
        if processes > len(self.rows):
            raise ConfigError(
                f"the delay matrix is for {len(self.rows)} processes, not {processes}"
            )

    def draw(self, source: int, target: int, state: int) -> float:
        """Look the pair up and add the jitter."""
        return self.rows[source][target] * (1.0 + self.jitter * uniform(state))


class Geographic(Delay):
    """Processes at random places on a square; delay by distance, plus a jitter.

    The places depend on ``seed`` and the process alone, not on the number of processes.
    """

    __slots__ = ("_begin", "across", "jitter", "minimum")

    def __init__(
        self, across: float, minimum: float = 0.0, jitter: float = 0.1, seed: int = 0
    ) -> None:
        """Set the seconds from one edge to the other, and what is added in any case."""
        check_amount(across, "the delay across")
        check_amount(minimum, "the minimum")
        check_amount(jitter, "the jitter")
        self.across = across
        self.minimum = minimum
        self.jitter = jitter
        self._begin = begin(seed)

    @property
    def chancy(self) -> bool:
        """Whether there is a jitter."""
        return self.jitter > 0

    def place(self, process: int) -> tuple[float, float]:
        """Return where ``process`` is, in the unit square."""
        state = stir(self._begin, process)
        return uniform(stir(state, 1)), uniform(stir(state, 2))

    def draw(self, source: int, target: int, state: int) -> float:
        """Measure the distance and add the jitter."""
        x, y = self.place(source)
        u, v = self.place(target)
        seconds = self.across * sqrt((x - u) * (x - u) + (y - v) * (y - v))
        return self.minimum + seconds * (1.0 + self.jitter * uniform(state))


def parse_delay(text: str) -> Delay:
    """Turn the command line's word for a delay into a model, or raise ConfigError."""
    name, _, rest = text.partition(":")
    if name == "geographic":
        values = numbers(rest)
        if len(values) not in (1, 2, 3):
            raise ConfigError(f"{text!r} is not geographic:ACROSS[,MINIMUM[,JITTER]]")
        minimum = values[1] if len(values) > 1 else 0.0
        return Geographic(values[0], minimum, values[2] if len(values) > 2 else 0.1)
    return Everywhere(parse_distribution(text))
