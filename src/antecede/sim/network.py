"""The simulated network: delay, loss, duplication, reordering, partitions and faults.

A caller describes it by a :class:`Network`. A :class:`NetworkState` is a network during a
run: for every frame it computes when, if ever, the frame arrives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from antecede.core.process import NEVER
from antecede.core.support.keyed_random import fold_in, uniform
from antecede.errors import ConfigError
from antecede.sim.delay import Delay, Everywhere
from antecede.sim.distribution import Constant

__all__ = ["Network", "NetworkState", "Partition", "Pause", "check_processes"]

LOSS: Final = 1
DUPLICATE: Final = 2
REORDER: Final = 3
DELAY: Final = 4
DELAY_REORDERED: Final = 5
DELAY_DUPLICATE: Final = 6


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A period in which frames between different groups of processes are lost."""

    start_s: float
    end_s: float
    groups: tuple[tuple[int, ...], ...]
    """The groups; all processes in none of them form another group."""

    def __post_init__(self) -> None:
        """Raise ConfigError if the period is invalid, or a process is in two groups."""
        _check_period(self.start_s, self.end_s, "a partition")
        members = [process for group in self.groups for process in group]
        if len(members) != len(set(members)):
            raise ConfigError("a process is in two groups of a partition")


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A period in which a process does nothing; its inputs wait until the end."""

    process: int
    start_s: float
    end_s: float

    def __post_init__(self) -> None:
        """Raise ConfigError if the period is invalid."""
        _check_period(self.start_s, self.end_s, "a pause")


@dataclass(frozen=True, kw_only=True)
class Network:
    """The behaviour of a network, and the faults of its processes."""

    delay: Delay = field(default_factory=lambda: Everywhere(Constant(0.05)))
    """The propagation delay."""
    bandwidth: float = NEVER
    """Bytes per second out of each process; frames queue for it."""
    loss: float = 0.0
    """The probability that a frame is lost."""
    duplicate: float = 0.0
    """The probability that a frame arrives twice, the second time with its own delay."""
    reorder: float = 0.0
    """The probability that a frame is delayed twice."""
    fifo: bool = False
    """No frame overtakes another of the same pair of processes."""
    partitions: tuple[Partition, ...] = ()
    pauses: tuple[Pause, ...] = ()
    crashes: tuple[tuple[int, float], ...] = ()
    """Processes that stop for good, and the time in seconds."""
    processing_s: tuple[tuple[int, float], ...] = ()
    """Slow processes, and the seconds that each input takes."""

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
            raise ConfigError("a FIFO network cannot duplicate frames: set duplicate to 0")
        for _, seconds in (*self.crashes, *self.processing_s):
            if not 0 <= seconds < NEVER:
                raise ConfigError(f"a time must be finite and at least 0, got {seconds}")


class NetworkState:
    """A network during a run."""

    __slots__ = (
        "_bandwidth",
        "_delay",
        "_duplicate",
        "_free",
        "_last",
        "_loss",
        "_partitions",
        "_reorder",
        "duplicate_arrival",
        "fifo",
        "fixed_s",
        "is_bandwidth_limited",
        "is_random",
        "preserves_order",
    )

    is_random: bool
    """Whether a transmission depends on its random key."""
    is_bandwidth_limited: bool
    """Whether a transmission depends on the size of its frame."""
    preserves_order: bool
    """Whether all frames of a pair arrive, once, in the order of their transmission."""
    fixed_s: float
    """The delay of every frame; -1 if delays may differ, or be infinite."""
    duplicate_arrival: float
    """When the last frame arrives a second time; infinite if it does not."""

    def __init__(self, network: Network) -> None:
        self._delay = network.delay
        self._bandwidth = network.bandwidth
        self._loss = network.loss
        self._duplicate = network.duplicate
        self._reorder = network.reorder
        self._free: dict[int, float] = {}  # When the link out of a process is free.
        self._partitions = [_PartitionState(each) for each in network.partitions]
        self.duplicate_arrival = NEVER
        self.fifo = network.fifo
        self._last: dict[tuple[int, int], float] = {}
        is_faulty = self._loss + self._duplicate + self._reorder > 0
        self.is_random = self._delay.is_random or is_faulty
        self.is_bandwidth_limited = self._bandwidth != NEVER
        self.preserves_order = not self.is_random and not self._partitions
        self.fixed_s = -1.0
        if self.preserves_order and not self.is_bandwidth_limited:
            delay = network.delay
            if isinstance(delay, Everywhere) and isinstance(delay.distribution, Constant):
                self.fixed_s = delay.distribution.value  # Times never decrease: FIFO, too.

    def transmit(self, source: int, target: int, size: int, key: int, now: float) -> float:
        """Return when a frame arrives, infinite if it is lost; set ``duplicate_arrival``.

        Args:
            source: The process that transmits.
            target: The process that the frame is for.
            size: The bytes of the frame.
            key: The random key of the transmission.
            now: The time of the transmission.
        """
        self.duplicate_arrival = NEVER
        departure = now
        if self.is_bandwidth_limited:
            departure = max(now, self._free.get(source, 0.0)) + size / self._bandwidth
            self._free[source] = departure
        if self._loss > 0 and uniform(fold_in(key, LOSS)) < self._loss:
            return NEVER
        for partition in self._partitions:
            if partition.separates(source, target, departure):
                return NEVER
        delay = self._delay
        arrival = departure + delay.draw(source, target, fold_in(key, DELAY))
        if self._reorder > 0 and uniform(fold_in(key, REORDER)) < self._reorder:
            arrival += delay.draw(source, target, fold_in(key, DELAY_REORDERED))
        if self._duplicate > 0 and uniform(fold_in(key, DUPLICATE)) < self._duplicate:
            delay_s = delay.draw(source, target, fold_in(key, DELAY_DUPLICATE))
            self.duplicate_arrival = departure + delay_s
        if self.fifo:
            pair = (source, target)
            arrival = max(arrival, self._last.get(pair, 0.0))
            self._last[pair] = arrival
        return arrival


class _PartitionState:
    """A partition, with the group of each process."""

    __slots__ = ("_end", "_groups", "_start")

    def __init__(self, partition: Partition) -> None:
        self._start = partition.start_s
        self._end = partition.end_s
        self._groups: dict[int, int] = {}
        for number, group in enumerate(partition.groups):
            for process in group:
                self._groups[process] = number

    def separates(self, source: int, target: int, time: float) -> bool:
        """Return whether a frame that departs at ``time`` is lost."""
        if not self._start <= time < self._end:
            return False
        return self._groups.get(source, -1) != self._groups.get(target, -1)


def check_processes(network: Network, processes: int) -> None:
    """Raise ConfigError if the network does not fit the number of processes."""
    network.delay.check_processes(processes)
    named: Sequence[int] = [
        *(
            process
            for partition in network.partitions
            for group in partition.groups
            for process in group
        ),
        *(pause.process for pause in network.pauses),
        *(process for process, _ in network.crashes),
        *(process for process, _ in network.processing_s),
    ]
    for process in named:
        if not 0 <= process < processes:
            raise ConfigError(f"the network names process {process} of {processes}")


def _check_period(start_s: float, end_s: float, name: str) -> None:
    if not 0 <= start_s <= end_s < NEVER:
        raise ConfigError(f"{name} needs 0 <= start <= end, got {start_s}, {end_s}")
