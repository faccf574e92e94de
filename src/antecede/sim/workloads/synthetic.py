"""Workloads: who sends what to whom, and when.

A workload is asked at three moments what is to be sent next: when a process starts, after
a send, and after a delivery. Its answers depend on the seed and on the messages' own ids,
never on the protocol or on time, so every protocol gets the same work. A message's *id* is
the workload's name for it, unique among those of its source; it is not its number, since
two protocols may deliver, and hence answer, in another order.

Here are the workloads in which processes send of their own accord; those in which they
answer are in :mod:`antecede.sim.workloads.services`, fixed programs in :mod:`antecede.sim.workloads.program`.
"""

from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.support.keyed_random import begin, stir, uniform
from antecede.errors import ConfigError
from antecede.sim.distribution import Constant, Distribution

__all__ = [
    "PAYLOAD_BYTES_MAX",
    "Broadcast",
    "Groups",
    "Hotspot",
    "Pace",
    "Paced",
    "Sending",
    "Traffic",
    "Uniform",
    "Workload",
]

PAYLOAD_BYTES_MAX: Final = (1 << 31) - 1
"""What the column of a trace holds."""
HOT: Final = 0.1
"""What share of the processes are hotspots, unless it is set."""
WORK: Final = 0x574F524B
"""Tells the workload's random numbers from the network's."""
GAP: Final = 1
SIZE: Final = 2
TARGET: Final = 3
JOB: Final = 4
JOB_LENGTH: Final = 5
PEER: Final = 6


@mypyc_attr(acyclic=True)
class Sending:
    """Something to be sent."""

    __slots__ = ("id", "payload_bytes", "targets", "wait_s")

    targets: list[int]
    """Whom it is for; empty for a broadcast to all members."""
    id: int
    """The workload's name for it, at least 1."""
    payload_bytes: int
    """How large it is."""
    wait_s: float
    """How long from now it is to be sent."""

    def __init__(
        self, targets: list[int], id: int, payload_bytes: int = 0, wait_s: float = 0.0
    ) -> None:
        """Make the plan; the fields are documented on the class."""
        self.targets = targets
        self.id = id
        self.payload_bytes = payload_bytes
        self.wait_s = wait_s


class Workload:
    """What the processes of a run do; see the module for when it is asked what."""

    __slots__ = ("processes",)

    processes: int
    """How many processes there are; their ids are 0 and up."""

    def __init__(self, processes: int) -> None:
        """Raise ConfigError unless there are at least two processes."""
        if processes < 2:
            raise ConfigError(f"a run needs at least 2 processes, got {processes}")
        self.processes = processes

    @property
    def fan_out_max(self) -> int:
        """The most targets that a message of this workload may have."""
        return 1

    @property
    def broadcast(self) -> bool:
        """Whether its messages go to all members."""
        return False

    @property
    def plain(self) -> bool:
        """Whether ids are numbers and deliveries lead to nothing, so nobody need ask."""
        return False

    def start(self, process: int) -> list[Sending]:
        """Return what ``process`` is to send first."""
        return []

    def sent(self, process: int, sending: Sending) -> list[Sending]:
        """Return what ``process`` is to send now that it has sent ``sending``."""
        return []

    def delivered(self, process: int, source: int, id: int) -> list[Sending]:
        """Return what ``process`` is to send now that this message is delivered there."""
        return []

    def job_s(self, process: int, source: int, id: int) -> float:
        """Return how long the delivery of this message keeps ``process`` busy."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast processes send, how much, and what a delivered message makes them do."""

    gap: Distribution = field(default_factory=lambda: Constant(0.05))
    """The seconds from a send to the next."""
    size: Distribution = field(default_factory=lambda: Constant(0))
    """The payload's bytes."""
    job: Distribution = field(default_factory=lambda: Constant(0))
    """The seconds that the job takes which a delivered message asks for."""
    job_share: float = 0.0
    """The share of messages that ask for one."""
    seed: int = 0
    """What all choices depend on."""

    def __post_init__(self) -> None:
        """Raise ConfigError if the share is none."""
        if not 0 <= self.job_share <= 1:
            raise ConfigError(f"job_share must be from 0 to 1, got {self.job_share}")


class Paced(Workload):
    """A workload with a pace: the part that all but fixed programs share."""

    __slots__ = ("_begin", "pace")

    def __init__(self, processes: int, pace: Pace) -> None:
        """Set the pace of every process."""
        super().__init__(processes)
        self.pace = pace
        self._begin = stir(begin(pace.seed), WORK)

    def job_s(self, process: int, source: int, id: int) -> float:
        """Return the length of the job, for those messages that ask for one."""
        if self.pace.job_share == 0:
            return 0.0
        state = stir(stir(stir(self._begin, source), id), process)
        if uniform(stir(state, JOB)) >= self.pace.job_share:
            return 0.0
        return self.pace.job.draw(stir(state, JOB_LENGTH))

    def _size(self, state: int) -> int:
        size = int(self.pace.size.draw(stir(state, SIZE)))
        if size > PAYLOAD_BYTES_MAX:
            raise ConfigError(
                f"a payload has at most {PAYLOAD_BYTES_MAX} bytes, not {size}"
            )
        return size

    def _other(self, process: int, state: int, among: int) -> int:
        """Choose one of the first ``among`` processes other than ``process``."""
        if process >= among:
            return int(uniform(state) * among)
        other = int(uniform(state) * (among - 1))
        return other + 1 if other >= process else other


class Traffic(Paced):
    """Every process sends so many messages, one after the other, with gaps between."""

    __slots__ = ("messages",)

    def __init__(self, processes: int, messages: int, pace: Pace) -> None:
        """Let each of ``processes`` send ``messages`` at this pace."""
        super().__init__(processes, pace)
        if messages < 0:
            raise ConfigError(f"messages must be at least 0, got {messages}")
        self.messages = messages

    @property
    def plain(self) -> bool:
        """Whether there are no jobs; subclasses with answers say otherwise."""
        return self.pace.job_share == 0

    def targets(self, process: int, state: int) -> list[int]:
        """Choose whom a message is for; ``state`` is the message's own randomness."""
        raise TypeError("bare Traffic goes nowhere")

    def start(self, process: int) -> list[Sending]:
        """Return the first message."""
        return [self._sending(process, 1)] if self.messages else []

    def sent(self, process: int, sending: Sending) -> list[Sending]:
        """Return the next message, if this was not the last."""
        if sending.id < self.messages:
            return [self._sending(process, sending.id + 1)]
        return []

    def _sending(self, process: int, id: int) -> Sending:
        state = stir(stir(self._begin, process), id)
        return Sending(
            self.targets(process, stir(state, TARGET)),
            id,
            self._size(state),
            self.pace.gap.draw(stir(state, GAP)),
        )


class Uniform(Traffic):
    """To any other processes, all equally likely; or to any of a few fixed peers."""

    __slots__ = ("fan_out", "peers")

    def __init__(
        self, processes: int, messages: int, pace: Pace, *, fan_out: int = 1, peers: int = 0
    ) -> None:
        """Set the traffic.

        Args:
            processes: How many processes there are.
            messages: How many messages each of them sends.
            pace: How fast, and how large.
            fan_out: How many targets each message has.
            peers: How many others a process ever speaks to; 0 for all of them.
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
        """The fan-out."""
        return self.fan_out

    def targets(self, process: int, state: int) -> list[int]:
        """Choose different targets, one after the other."""
        chosen: list[int] = []
        while len(chosen) < self.fan_out:
            state = stir(state, TARGET)
            if self.peers:
                target = self._peer(process, int(uniform(state) * self.peers))
            else:
                target = self._other(process, state, self.processes)
            if target not in chosen:
                chosen.append(target)
        return chosen

    def _peer(self, process: int, which: int) -> int:
        """Return one of the peers of ``process``: a run of neighbours somewhere else."""
        others = self.processes - 1
        start = int(uniform(stir(stir(self._begin, PEER), process)) * others)
        return (process + 1 + (start + which) % others) % self.processes


class Hotspot(Traffic):
    """Most messages go to few processes."""

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
        """Set the traffic.

        Args:
            processes: How many processes there are.
            messages: How many messages each of them sends.
            pace: How fast, and how large.
            hot: The share of processes that are hotspots; they are the first ones.
            share: The share of messages that go to a hotspot.
        """
        super().__init__(processes, messages, pace)
        if not (0 <= hot <= 1 and 0 <= share <= 1):
            raise ConfigError(f"hot and share must be from 0 to 1, got {hot}, {share}")
        self.hot = round(hot * processes)
        self.share = share

    def targets(self, process: int, state: int) -> list[int]:
        """Choose a hotspot, or one of the others."""
        hot = self.hot - (process < self.hot)
        cold = self.processes - self.hot - (process >= self.hot)
        if cold == 0 or (hot > 0 and uniform(stir(state, PEER)) < self.share):
            return [self._other(process, state, self.hot)]
        target = self.hot + int(uniform(state) * cold)
        return [target + 1 if self.hot <= process <= target else target]


class Groups(Traffic):
    """Processes stand in groups; a message goes to all others of its sender's group."""

    __slots__ = ("group",)

    def __init__(
        self, processes: int, messages: int, pace: Pace, *, group: int = 4
    ) -> None:
        """Set the traffic.

        Args:
            processes: How many processes there are.
            messages: How many messages each of them sends.
            pace: How fast, and how large.
            group: How many processes stand together; the last group may be larger.
        """
        super().__init__(processes, messages, pace)
        if not 2 <= group <= processes:
            raise ConfigError(f"a group has from 2 to {processes} processes, got {group}")
        self.group = group

    @property
    def fan_out_max(self) -> int:
        """One less than the largest group."""
        return self.processes - (self.processes // self.group - 1) * self.group - 1

    def targets(self, process: int, state: int) -> list[int]:
        """Name the others of the group."""
        last = self.processes // self.group - 1
        mine = min(process // self.group, last)
        end = self.processes if mine == last else (mine + 1) * self.group
        return [other for other in range(mine * self.group, end) if other != process]


class Broadcast(Traffic):
    """Every message goes to all members of the moment."""

    __slots__ = ("senders",)

    def __init__(
        self, processes: int, messages: int, pace: Pace, *, senders: int = 0
    ) -> None:
        """Set the traffic.

        Args:
            processes: How many processes there are.
            messages: How many messages each sender sends.
            pace: How fast, and how large.
            senders: How many processes send, the first ones; 0 for all.
        """
        super().__init__(processes, messages, pace)
        if not 0 <= senders <= processes:
            raise ConfigError(f"senders must be from 0 to {processes}, got {senders}")
        self.senders = senders if senders > 0 else processes

    def start(self, process: int) -> list[Sending]:
        """Return the first message of a sender."""
        return super().start(process) if process < self.senders else []

    @property
    def broadcast(self) -> bool:
        """Whether its messages go to all members: yes."""
        return True

    def targets(self, process: int, state: int) -> list[int]:
        """Name nobody."""
        return []
