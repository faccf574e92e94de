"""The network under test: it delays, loses, duplicates and reorders frames."""

from dataclasses import dataclass
from math import inf
from random import Random

from antecede.errors import ConfigError

__all__ = ["Network"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What may happen to a frame between two processes."""

    delay_s: float = 0.05
    """The mean of its exponentially distributed delay; frames overtake each other."""
    loss: float = 0.0
    """The probability that it is lost."""
    duplicate: float = 0.0
    """The probability that it arrives twice, each time after a delay of its own."""

    def __post_init__(self) -> None:
        """Raise ConfigError if a value is out of range."""
        if not 0 <= self.delay_s < inf:
            raise ConfigError(f"delay must be at least 0 seconds, got {self.delay_s}")
        if not 0 <= self.loss < 1:
            raise ConfigError(f"loss must be at least 0 and below 1, got {self.loss}")
        if not 0 <= self.duplicate <= 1:
            raise ConfigError(f"duplicate must be from 0 to 1, got {self.duplicate}")

    def carry(self, random: Random) -> list[float]:
        """Draw the delays after which one frame arrives: none, one or two."""
        if random.random() < self.loss:
            return []
        count = 2 if random.random() < self.duplicate else 1
        rate = 1 / self.delay_s if self.delay_s else inf
        return [random.expovariate(rate) for _ in range(count)]
