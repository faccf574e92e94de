"""The effects: actions that a membership requests from its driver, in order.

The driver takes the effects with :meth:`RoomMembership.effects` after every input, and
executes all of them, in order, before the next input.
"""

from dataclasses import dataclass

from antecede.group.member import CutEntry, Member, RoomMessage

__all__ = [
    "AddMember",
    "Broadcast",
    "Connect",
    "Deliver",
    "Effect",
    "JoinFailed",
    "Joined",
    "Left",
    "MemberChanged",
    "Rejoining",
    "RemoveMember",
    "Restore",
    "SendControl",
    "SendInRoom",
    "TakeSnapshot",
]


@dataclass(frozen=True, slots=True)
class Connect:
    """Make a node a peer of the link layer, so that control messages reach it."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class SendControl:
    """Send ``data`` to one node, reliably, outside the room (over the control room).

    The message must never wait for the protocol of the room or for the application.
    """

    target: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SendInRoom:
    """Send ``data`` in the room to one member: a message of the room's protocol."""

    target: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send ``data`` in the room to all current peers: one message of its protocol."""

    data: bytes


@dataclass(frozen=True, slots=True)
class AddMember:
    """Make a node a peer of the room, and of the link layer.

    Every later broadcast in the room, including those of the application, goes to the node.
    Call :meth:`RoomMembership.member_added` as soon as messages from now on reach
    ``member.incarnation``: at once if the room has no such peer. If the room knows the peer
    with another incarnation, or its removal is under way, call it when the room's process
    is bound to this incarnation, and the removal is complete.
    """

    member: Member


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Remove a peer of the room. No later broadcast goes to it."""

    name: str
    has_left: bool
    """Whether the member left by itself: all its messages are delivered here, so wait for
    its BYE instead of a lease."""


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Have the application make a snapshot for a newcomer.

    Take it when the application has received every message that the room has delivered up
    to now; then call :meth:`RoomMembership.snapshot_taken` or ``snapshot_failed``.
    """

    newcomer: str
    admission: int


@dataclass(frozen=True, slots=True)
class Restore:
    """Have the application replace its state by a snapshot, then call ``restored``."""

    snapshot: bytes
    cut: tuple[CutEntry, ...]
    """For each history of a member, the last message that the snapshot contains. An entry
    of this node itself has the last of its own messages that the snapshot contains."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Give a message to the application."""

    message: RoomMessage


@dataclass(frozen=True, slots=True)
class Joined:
    """The node is a member: the application may send."""

    has_founded: bool
    """Whether the room begins with this node."""


@dataclass(frozen=True, slots=True)
class JoinFailed:
    """The join has failed; the membership does nothing any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rejoining:
    """Other members have removed this node; it joins again, and gets another snapshot.

    Until the next Joined, the application must not send in the room.
    """

    removed_by: str


@dataclass(frozen=True, slots=True)
class Left:
    """The goodbye is sent in the room: flush the room, then close it."""


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """The list of members has changed: inform the application."""

    name: str
    change: str
    """``"joined"``, ``"left"`` or ``"removed"``."""
    by: str
    """The member that removed it, or its own name."""


Effect = (
    Connect
    | SendControl
    | SendInRoom
    | Broadcast
    | AddMember
    | RemoveMember
    | TakeSnapshot
    | Restore
    | Deliver
    | Joined
    | JoinFailed
    | Rejoining
    | Left
    | MemberChanged
)
"""Any effect."""
