"""The events of a room about its members."""

from dataclasses import dataclass
from typing import ClassVar

from antecede.engine.events import NodeEvent

__all__ = ["MemberJoined", "MemberLeft", "MemberRemoved", "RoomJoined", "RoomRejoining"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomJoined(NodeEvent):
    """This node is a member of the room: it has founded the room, or caught up."""

    room: str
    has_founded: bool
    protocol: str
    """The protocol of the room."""

    def __str__(self) -> str:
        verb = "founded" if self.has_founded else "joined"
        return f"{verb} the room {self.room} with protocol {self.protocol}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRejoining(NodeEvent):
    """Others have removed this node from the room; it joins again, with a snapshot.

    ``peer`` is the member that has notified it.
    """

    needs_attention: ClassVar[bool] = True

    room: str

    def __str__(self) -> str:
        return (
            f"{self.peer} has removed this node from the room {self.room}: it joins again,"
            " and its undelivered messages are given up"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(NodeEvent):
    """A node has joined the room: it has caught up, and may be a target."""

    room: str

    def __str__(self) -> str:
        return f"{self.peer} joined the room {self.room}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft(NodeEvent):
    """A member has left the room."""

    room: str

    def __str__(self) -> str:
        return f"{self.peer} left the room {self.room}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRemoved(NodeEvent):
    """A member was removed from the room, because it was silent or because ``by`` did."""

    needs_attention: ClassVar[bool] = True

    room: str
    by: str
    """The member that removed it."""

    def __str__(self) -> str:
        return f"{self.peer} was removed from the room {self.room} by {self.by}"
