"""The network under test: what happens to a frame between two processes.

:class:`Network` is what a caller writes down. :class:`Wire` is that in motion: it takes
every frame that a process transmits and says when, if ever, it arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from antecede.core.process import NEVER
from antecede.core.support.keyed_random import stir, uniform
from antecede.errors import ConfigError
from antecede.sim.delay import Delay, Everywhere
from antecede.sim.distribution import Constant

__all__ = ["Network", "Partition", "Pause", "Wire", "check_processes"]

LOSS: Final = 1
DUPLICATE: Final = 2
REORDER: Final = 3
DELAY: Final = 4
DELAY_REORDERED: Final = 5
DELAY_DUPLICATE: Final = 6


@dataclass(frozen=True, kw_only=True)
class Partition:
    """For a while, frames between different groups are lost."""

    start_s: float
    end_s: float
    """When it heals."""
    groups: tuple[tuple[int, ...], ...]
    """Processes in none of the groups are together in one more."""

    def __post_init__(self) -> None:
        """Raise ConfigError if the times or the groups make no sense."""
        _check_span(self.start_s, self.end_s, "a partition")
        members = [process for group in self.groups for process in group]
        if len(members) != len(set(members)):
            raise ConfigError("a process is in two groups of a partition")


@dataclass(frozen=True, kw_only=True)
class Pause:
    """For a while, a process does nothing; what arrives waits until it goes on."""

    process: int
    start_s: float
    end_s: float

    def __post_init__(self) -> None:
        """Raise ConfigError if the times make no sense."""
        _check_span(self.start_s, self.end_s, "a pause")


@dataclass(frozen=True, kw_only=True)
class Network:
    """What a frame may meet on its way, and a process in its life."""

    delay: Delay = field(default_factory=lambda: Everywhere(Constant(0.05)))
    """The propagation delay."""
    bandwidth: float = NEVER
    """Bytes per second out of each process; frames queue for it."""
    loss: float = 0.0
    """The probability that a frame is lost."""
    duplicate: float = 0.0
    """The probability that it arrives twice, the second time with a delay of its own."""
    reorder: float = 0.0
    """The probability that it is held back for another delay."""
    fifo: bool = False
    """A frame never overtakes another of its pair: it arrives with it at the earliest."""
    partitions: tuple[Partition, ...] = ()
    pauses: tuple[Pause, ...] = ()
    crashes: tuple[tuple[int, float], ...] = ()
    """Processes that stop for good, each with the second at which it does."""
    service_s: tuple[tuple[int, float], ...] = ()
    """Slow processes, each with the seconds that it takes over every input."""

    def __post_init__(self) -> None:
        """Raise ConfigError if a value is out of range."""
        if not self.bandwidth > 0:
            raise ConfigError(f"bandwidth must be above 0, got {self.bandwidth}")
        if not 0 <= self.loss < 1:
            raise ConfigError(f"loss must be at least 0 and below 1, got {self.loss}")
        for name, value in (("duplicate", self.duplicate), ("reorder", self.reorder)):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} must be from 0 to 1, got {value}")
        if self.fifo and self.duplicate > 0:
            raise ConfigError("a network that duplicates frames keeps no order")
        for _, seconds in (*self.crashes, *self.service_s):
            if not 0 <= seconds < NEVER:
                raise ConfigError(f"a time must be finite and at least 0, got {seconds}")


class Wire:
    """A network in motion."""

    __slots__ = (
        "_bandwidth",
        "_cuts",
        "_delay",
        "_duplicate",
        "_free",
        "_last",
        "_loss",
        "_reorder",
        "again",
        "chancy",
        "fifo",
        "narrow",
        "orderly",
    )

    chancy: bool
    """Whether anything depends on a frame's fate."""
    narrow: bool
    """Whether anything depends on a frame's size."""
    orderly: bool
    """Whether frames of a pair all arrive, once, in the order transmitted."""

    again: float
    """When the frame carried last arrives a second time; infinite if it does not."""

    def __init__(self, network: Network) -> None:
        """Start with empty queues."""
        self._delay = network.delay
        self._bandwidth = network.bandwidth
        self._loss = network.loss
        self._duplicate = network.duplicate
        self._reorder = network.reorder
        self._free: dict[int, float] = {}
        self._cuts = [_Cut(partition) for partition in network.partitions]
        self.again = NEVER
        self.fifo = network.fifo
        self._last: dict[tuple[int, int], float] = {}
        hostile = self._loss + self._duplicate + self._reorder > 0
        self.chancy = self._delay.chancy or hostile
        self.narrow = self._bandwidth != NEVER
        self.orderly = not self.chancy and not self._cuts

    def carry(self, source: int, target: int, size: int, fate: int, now: float) -> float:
        """Return when the frame arrives, infinite if it is lost; then see ``again``.

        Args:
            source: Who transmits.
            target: Whom it is for.
            size: Its bytes, which take their time to leave.
            fate: The random state of this transmission.
            now: When it is transmitted.
        """
        self.again = NEVER
        leaves = now
        if self.narrow:
            leaves = max(now, self._free.get(source, 0.0)) + size / self._bandwidth
            self._free[source] = leaves
        if self._loss > 0 and uniform(stir(fate, LOSS)) < self._loss:
            return NEVER
        for cut in self._cuts:
            if cut.start <= leaves < cut.end and cut.side(source) != cut.side(target):
                return NEVER
        delay = self._delay
        arrives = leaves + delay.draw(source, target, stir(fate, DELAY))
        if self._reorder > 0 and uniform(stir(fate, REORDER)) < self._reorder:
            arrives += delay.draw(source, target, stir(fate, DELAY_REORDERED))
        if self._duplicate > 0 and uniform(stir(fate, DUPLICATE)) < self._duplicate:
            self.again = leaves + delay.draw(source, target, stir(fate, DELAY_DUPLICATE))
        if self.fifo:
            pair = (source, target)
            arrives = max(arrives, self._last.get(pair, 0.0))
            self._last[pair] = arrives
        return arrives


class _Cut:
    """A partition, by process."""

    __slots__ = ("_sides", "end", "start")

    def __init__(self, partition: Partition) -> None:
        self.start = partition.start_s
        self.end = partition.end_s
        self._sides: dict[int, int] = {}
        for side, group in enumerate(partition.groups):
            for process in group:
                self._sides[process] = side

    def side(self, process: int) -> int:
        return self._sides.get(process, -1)


def check_processes(network: Network, processes: int) -> None:
    """Raise ConfigError if the network is for other processes than there are.

    It may name none that there is not, and must know how long the way is between any two.
    """
    network.delay.check_processes(processes)
    named: Sequence[int] = [
        *(
            process
            for cut in network.partitions
            for group in cut.groups
            for process in group
        ),
        *(pause.process for pause in network.pauses),
        *(process for process, _ in network.crashes),
        *(process for process, _ in network.service_s),
    ]
    for process in named:
        if not 0 <= process < processes:
            raise ConfigError(f"the network names process {process} of {processes}")


def _check_span(start_s: float, end_s: float, what: str) -> None:
    if not 0 <= start_s <= end_s < NEVER:
        raise ConfigError(f"{what} needs 0 <= start <= end, got {start_s}, {end_s}")
