"""The interface of workloads.

The simulator asks a workload for messages to send when a process starts, after a send, and
after a delivery. The answers depend on the seed and on the ids of messages, never on the
protocol or on time, so every protocol gets the same work. The *id* of a message is chosen
by the workload and unique among those of its source. It is not the message's number,
because two protocols may deliver, and therefore answer, in different orders.
"""

from mypy_extensions import mypyc_attr

from antecede.errors import ConfigError

__all__ = ["PlannedSend", "Workload"]


@mypyc_attr(acyclic=True)
class PlannedSend:
    """A message to send."""

    __slots__ = ("id", "payload_bytes", "targets", "wait_s")

    targets: list[int]
    """The targets; empty for a broadcast to all members."""
    id: int
    """The workload's id of the message, at least 1."""
    payload_bytes: int
    wait_s: float
    """The time from now to the send."""

    def __init__(
        self, targets: list[int], id: int, payload_bytes: int = 0, wait_s: float = 0.0
    ) -> None:
        self.targets = targets
        self.id = id
        self.payload_bytes = payload_bytes
        self.wait_s = wait_s


@mypyc_attr(allow_interpreted_subclasses=True)
class Workload:
    """Base class of all workloads."""

    __slots__ = ("processes",)

    processes: int
    """The number of processes; their ids are 0 and up."""

    def __init__(self, processes: int) -> None:
        """Raise ConfigError unless there are at least two processes."""
        if processes < 2:
            raise ConfigError(f"a run needs at least 2 processes, got {processes}")
        self.processes = processes

    @property
    def fan_out_max(self) -> int:
        """The maximum number of targets of a message."""
        return 1

    @property
    def broadcast(self) -> bool:
        """Whether its messages go to all members."""
        return False

    @property
    def is_open_loop(self) -> bool:
        """Whether deliveries have no effect and ids equal numbers."""
        return False

    def start(self, process: int) -> list[PlannedSend]:
        """Return the first messages of ``process``."""
        return []

    def sent(self, process: int, planned: PlannedSend) -> list[PlannedSend]:
        """Return the messages of ``process`` that follow its send of ``planned``."""
        return []

    def delivered(self, process: int, source: int, id: int) -> list[PlannedSend]:
        """Return the messages of ``process`` that follow the delivery of a message."""
        return []

    def service_time_s(self, process: int, source: int, id: int) -> float:
        """Return the length of the job that the delivery of a message starts."""
        return 0.0
