"""A member of a room, and the cut of a snapshot."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["CutEntry", "Member", "RoomMessage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node in a room, or one that is being admitted to it."""

    name: str
    address: str
    """Where its node is reached, as text that the driver understands."""
    incarnation: int
    """The incarnation of its process in the room; a restart of its node has another one."""
    admission: int
    """The number of its admission. A node takes a higher one for every attempt to join,
    also after a restart; of two statements about a node, the one with the higher number
    holds."""


@dataclass(frozen=True, slots=True)
class CutEntry:
    """The last message of one history of a member that a snapshot contains."""

    source: str
    history: int
    number: int


class RoomMessage(Protocol):
    """What the membership reads of a delivered message (``antecede.engine.Message``)."""

    @property
    def source(self) -> str:
        """The name of the sender."""

    @property
    def history(self) -> int:
        """The history of the sender that the number belongs to."""

    @property
    def number(self) -> int:
        """The number of the message in this history."""

    @property
    def data(self) -> bytes:
        """The payload; its first byte is ``APPLICATION`` or ``CONTROL``."""
