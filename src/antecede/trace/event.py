"""One event of a run: a row of the trace."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["Event", "Kind"]


class Kind(Enum):
    """What happened; the first four are the life of a message (docs/glossary.md)."""

    SEND = "send"
    """The application handed the message over."""
    RELEASE = "release"
    """The protocol let a copy of it onto the network, for the first time."""
    ARRIVE = "arrive"
    """A copy's frame reached its target's process."""
    DELIVER = "deliver"
    """The message was handed to its target's application."""
    CONTROL = "control"
    """A frame that carries no message was transmitted."""
    TRANSMIT = "transmit"
    """A copy that had been released before was transmitted again."""
    DROP = "drop"
    """The network lost a frame."""
    FAULT = "fault"
    """Something was done to the process: it was paused, or a partition that names it began
    or ended."""
    JOB_START = "job_start"
    """The application began the job that a delivered message asked for."""
    JOB_END = "job_end"
    """The application ended that job and goes on."""
    JOIN = "join"
    """The process became a member."""
    LEAVE = "leave"
    """The process ceased to be a member."""
    CRASH = "crash"
    """The process stopped for good."""
    LOCAL = "local"
    """Something else, of the application's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at one process, in the order of that process's history."""

    process: int
    """Where it happened."""
    kind: Kind
    """What happened."""
    time: float = 0.0
    """When, in seconds; never evidence of order across processes."""
    source: int | None = None
    """Whose message it concerns, if any."""
    number: int | None = None
    """Which of the source's messages, from 1."""
    target: int | None = None
    """The one target of a release, arrive, deliver, transmit, control or drop."""
    targets: tuple[int, ...] | None = None
    """On a send: all its targets."""
    payload_bytes: int | None = None
    """On a release, transmit or control: the payload on the wire."""
    metadata_bytes: int | None = None
    """On a release, transmit or control: everything else of the frame on the wire."""
