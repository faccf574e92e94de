"""Synthetic workloads, in which processes send messages at random intervals.

Workloads with replies are in :mod:`antecede.sim.workloads.services`, fixed programs in
:mod:`antecede.sim.workloads.program`.
"""

from dataclasses import dataclass, field
from typing import Final

from antecede.core.support.keyed_random import fold_in, key, uniform
from antecede.errors import ConfigError
from antecede.sim.distribution import Constant, Distribution
from antecede.sim.workloads.workload import PlannedSend, Workload

__all__ = [
    "PAYLOAD_BYTES_MAX",
    "Broadcast",
    "Groups",
    "Hotspot",
    "Pace",
    "PacedWorkload",
    "SyntheticWorkload",
    "Uniform",
]

PAYLOAD_BYTES_MAX: Final = (1 << 31) - 1
"""The maximum of the column of a trace."""
HOT: Final = 0.1
"""The default share of processes that are hotspots."""
WORKLOAD_KEY: Final = 0x574F524B
"""Separates the random numbers of workloads from those of the network."""
GAP: Final = 1
SIZE: Final = 2
TARGET: Final = 3
JOB: Final = 4
SERVICE_TIME: Final = 5
PEER: Final = 6


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The gaps, payloads and service times of a workload."""

    gap: Distribution = field(default_factory=lambda: Constant(0.05))
    """The seconds from a send to the next."""
    payload_bytes: Distribution = field(default_factory=lambda: Constant(0))
    service_time: Distribution = field(default_factory=lambda: Constant(0))
    """The seconds of the job that a delivered message starts."""
    service_share: float = 0.0
    """The share of messages that start a job."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError if the share is out of range."""
        if not 0 <= self.service_share <= 1:
            raise ConfigError(
                f"service_share must be from 0 to 1, got {self.service_share}"
            )


class PacedWorkload(Workload):
    """Base class of workloads with a pace: all but fixed programs."""

    __slots__ = ("_has_fixed_size", "_root", "pace")

    def __init__(self, processes: int, pace: Pace) -> None:
        super().__init__(processes)
        self.pace = pace
        self._has_fixed_size = isinstance(pace.payload_bytes, Constant)
        self._root = fold_in(key(pace.seed), WORKLOAD_KEY)

    def service_time_s(self, process: int, source: int, id: int) -> float:
        if self.pace.service_share == 0:
            return 0.0
        job_key = fold_in(fold_in(fold_in(self._root, source), id), process)
        if uniform(fold_in(job_key, JOB)) >= self.pace.service_share:
            return 0.0
        return self.pace.service_time.draw(fold_in(job_key, SERVICE_TIME))

    def _draw_payload_bytes(self, random_key: int) -> int:
        size_key = 0 if self._has_fixed_size else fold_in(random_key, SIZE)
        size = int(self.pace.payload_bytes.draw(size_key))
        if size > PAYLOAD_BYTES_MAX:
            raise ConfigError(
                f"a payload has at most {PAYLOAD_BYTES_MAX} bytes, not {size}"
            )
        return size

    def _draw_other(self, process: int, random_key: int, among: int) -> int:
        """Choose one of the first ``among`` processes other than ``process``."""
        if process >= among:
            return int(uniform(random_key) * among)
        other = int(uniform(random_key) * (among - 1))
        return other + 1 if other >= process else other


class SyntheticWorkload(PacedWorkload):
    """Base class of workloads in which every process sends messages with gaps between."""

    __slots__ = ("messages",)

    def __init__(self, processes: int, messages: int, pace: Pace) -> None:
        """Set the number of messages of each process."""
        super().__init__(processes, pace)
        if messages < 0:
            raise ConfigError(f"messages must be at least 0, got {messages}")
        self.messages = messages

    @property
    def is_open_loop(self) -> bool:
        return self.pace.service_share == 0

    def targets(self, process: int, random_key: int) -> list[int]:
        """Choose the targets of the message with this random key."""
        raise NotImplementedError

    def start(self, process: int) -> list[PlannedSend]:
        return [self._plan(process, 1)] if self.messages else []

    def sent(self, process: int, planned: PlannedSend) -> list[PlannedSend]:
        if planned.id < self.messages:
            return [self._plan(process, planned.id + 1)]
        return []

    def _plan(self, process: int, id: int) -> PlannedSend:
        message_key = fold_in(fold_in(self._root, process), id)
        return PlannedSend(
            self.targets(process, fold_in(message_key, TARGET)),
            id,
            self._draw_payload_bytes(message_key),
            self.pace.gap.draw(fold_in(message_key, GAP)),
        )


class Uniform(SyntheticWorkload):
    """Messages to random other processes, or to a few fixed peers, all equally likely."""

    __slots__ = ("fan_out", "peers")

    def __init__(
        self, processes: int, messages: int, pace: Pace, *, fan_out: int = 1, peers: int = 0
    ) -> None:
        """Set the parameters.

        Args:
            processes: The number of processes.
            messages: The number of messages of each process.
            pace: The gaps, payloads and service times.
            fan_out: The number of targets of each message.
            peers: The number of processes that each process sends to; 0 for all others.
        """
        super().__init__(processes, messages, pace)
        if not 0 <= peers < processes:
            raise ConfigError(f"peers must be from 0 to {processes - 1}, got {peers}")
        if not 1 <= fan_out <= (peers or processes - 1):
            raise ConfigError(
                f"fan_out must be from 1 to {peers or processes - 1}, got {fan_out}"
            )
        self.fan_out = fan_out
        self.peers = peers

    @property
    def fan_out_max(self) -> int:
        return self.fan_out

    def targets(self, process: int, random_key: int) -> list[int]:
        chosen: list[int] = []
        while len(chosen) < self.fan_out:
            random_key = fold_in(random_key, TARGET)
            if self.peers:
                target = self._peer(process, int(uniform(random_key) * self.peers))
            else:
                target = self._draw_other(process, random_key, self.processes)
            if target not in chosen:
                chosen.append(target)
        return chosen

    def _peer(self, process: int, which: int) -> int:
        """Return one of the peers of ``process``, which have consecutive ids."""
        others = self.processes - 1
        start = int(uniform(fold_in(fold_in(self._root, PEER), process)) * others)
        return (process + 1 + (start + which) % others) % self.processes


class Hotspot(SyntheticWorkload):
    """Messages of which most go to a few processes."""

    __slots__ = ("hot", "share")

    def __init__(
        self,
        processes: int,
        messages: int,
        pace: Pace,
        *,
        hot: float = HOT,
        share: float = 0.8,
    ) -> None:
        """Set the parameters.

        Args:
            processes: The number of processes.
            messages: The number of messages of each process.
            pace: The gaps, payloads and service times.
            hot: The share of processes that are hotspots; they are the first ones.
            share: The share of messages that go to a hotspot.
        """
        super().__init__(processes, messages, pace)
        if not (0 <= hot <= 1 and 0 <= share <= 1):
            raise ConfigError(f"hot and share must be from 0 to 1, got {hot}, {share}")
        self.hot = round(hot * processes)
        self.share = share

    def targets(self, process: int, random_key: int) -> list[int]:
        hot = self.hot - (process < self.hot)
        cold = self.processes - self.hot - (process >= self.hot)
        if cold == 0 or (hot > 0 and uniform(fold_in(random_key, PEER)) < self.share):
            return [self._draw_other(process, random_key, self.hot)]
        target = self.hot + int(uniform(random_key) * cold)
        return [target + 1 if self.hot <= process <= target else target]


class Groups(SyntheticWorkload):
    """Messages to all other processes of the sender's group."""

    __slots__ = ("group",)

    def __init__(
        self, processes: int, messages: int, pace: Pace, *, group: int = 4
    ) -> None:
        """Set the parameters.

        Args:
            processes: The number of processes.
            messages: The number of messages of each process.
            pace: The gaps, payloads and service times.
            group: The number of processes of a group; the last group may be larger.
        """
        super().__init__(processes, messages, pace)
        if not 2 <= group <= processes:
            raise ConfigError(f"a group has from 2 to {processes} processes, got {group}")
        self.group = group

    @property
    def fan_out_max(self) -> int:
        return self.processes - (self.processes // self.group - 1) * self.group - 1

    def targets(self, process: int, random_key: int) -> list[int]:
        last = self.processes // self.group - 1
        mine = min(process // self.group, last)
        end = self.processes if mine == last else (mine + 1) * self.group
        return [other for other in range(mine * self.group, end) if other != process]


class Broadcast(SyntheticWorkload):
    """Messages to all current members."""

    __slots__ = ("senders",)

    def __init__(
        self, processes: int, messages: int, pace: Pace, *, senders: int = 0
    ) -> None:
        """Set the parameters.

        Args:
            processes: The number of processes.
            messages: The number of messages of each sender.
            pace: The gaps, payloads and service times.
            senders: The number of processes that send, the first ones; 0 for all.
        """
        super().__init__(processes, messages, pace)
        if not 0 <= senders <= processes:
            raise ConfigError(f"senders must be from 0 to {processes}, got {senders}")
        self.senders = senders if senders > 0 else processes

    def start(self, process: int) -> list[PlannedSend]:
        return super().start(process) if process < self.senders else []

    @property
    def broadcast(self) -> bool:
        return True

    def targets(self, process: int, random_key: int) -> list[int]:
        return []
