"""One event of a run: a row of the trace."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["Event", "Kind"]


class Kind(Enum):
    """The kind of an event; a message passes through the first four."""

    SEND = "send"
    """The application sent a message."""
    RELEASE = "release"
    """The source transmitted a copy of a message for the first time."""
    ARRIVE = "arrive"
    """A frame with a message arrived at its target."""
    DELIVER = "deliver"
    """A process delivered a message to its application."""
    CONTROL = "control"
    """A process transmitted a frame that carries no message."""
    TRANSMIT = "transmit"
    """A process retransmitted a copy, or forwarded a message of another process."""
    DROP = "drop"
    """The network lost a frame."""
    FAULT = "fault"
    """The process was paused, or a partition that includes it began or ended."""
    JOB_START = "job_start"
    """The application began to process a delivered message."""
    JOB_END = "job_end"
    """The application finished processing a delivered message."""
    JOIN = "join"
    """The process became a member."""
    LEAVE = "leave"
    """The process left the group."""
    CRASH = "crash"
    """The process stopped permanently."""
    LOCAL = "local"
    """An event of the application itself."""
    MISSING = "missing"
    """Deliveries are missing in the trace: ``number`` of them, or an unknown number if it
    is null. Properties that are not violated are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event at one process; events of a process are in the order of its history."""

    process: int
    """The process at which the event happened."""
    kind: Kind
    """The kind of the event."""
    time: float = 0.0
    """The time in seconds; it does not order events of different processes."""
    source: int | None = None
    """The source of the message, if the event has one."""
    number: int | None = None
    """The number of the message among those of its source, from 1."""
    target: int | None = None
    """The target of a release, arrive, deliver, transmit, control or drop."""
    targets: tuple[int, ...] | None = None
    """The targets of a send; None for a broadcast."""
    payload_bytes: int | None = None
    """The payload of a transmitted frame."""
    metadata_bytes: int | None = None
    """All other bytes of a transmitted frame."""
