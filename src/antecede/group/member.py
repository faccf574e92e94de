"""A member of a room, and the cut of a snapshot."""

from dataclasses import dataclass
from typing import Protocol

__all__ = ["CutEntry", "Member", "RoomMessage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node in a room, or one that is being admitted to it."""

    name: str
    address: str
    """The address of its node, as text that the driver understands."""
    incarnation: int
    """The incarnation of its process in the room; a restart of its node has another one."""
    admission: int
    """The number of its admission. A node takes a higher one for every attempt to join,
    also after a restart; of two statements about a node, the one with the higher number is
    valid."""


@dataclass(frozen=True, slots=True)
class CutEntry:
    """The last message of one history of a member that a snapshot contains."""

    source: str
    history: int
    number: int


class RoomMessage(Protocol):
    """The attributes of an ``antecede.engine.Message`` that the membership reads."""

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
