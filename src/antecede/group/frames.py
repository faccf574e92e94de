"""The control messages of a room; :mod:`antecede.group.codec` encodes them."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from antecede.group.member import CutEntry, Member

__all__ = [
    "APPLICATION",
    "CONTROL",
    "NAME_BYTES_MAX",
    "Added",
    "Adding",
    "Answer",
    "AnswerKind",
    "Chunk",
    "ChunkAck",
    "ControlFrame",
    "CutNotice",
    "Excluded",
    "Inquiry",
    "Introduction",
    "JoinedNotice",
    "Leaving",
    "MemberState",
    "Offer",
    "Outdated",
    "Progress",
    "Refused",
    "Removing",
    "Request",
    "RosterEntry",
    "SnapshotHeader",
    "SnapshotStart",
]

APPLICATION: Final = 0
"""The first byte of a payload in a room that is data of the application."""
CONTROL: Final = 1
"""The first byte of a payload in a room that is a control message."""
NAME_BYTES_MAX: Final = 255
"""The longest name of a node or a room, and the longest address, in UTF-8."""


class MemberState(IntEnum):
    """The state of an admission, in the order in which it changes."""

    ADDED = 0
    """The node gets all broadcasts of the room, and is catching up."""
    JOINED = 1
    """The node is a member."""
    GONE = 2
    """The node has left, or was removed."""


class AnswerKind(IntEnum):
    """The relation of a node to the room that another node looks for."""

    ABSENT = 0
    SEEKING = 1
    BUSY = 2
    PRESENT = 3


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """The latest admission of a node, and its state."""

    member: Member
    state: MemberState


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Ask whether the receiver is a member of the room."""

    address: str
    """The address of the sender."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer an Inquiry, or a Request that the sender cannot serve at present."""

    kind: AnswerKind
    seekers: tuple[tuple[str, str], ...]
    """Names and addresses of other nodes that look for the room."""
    protocol: str = ""
    """The protocol of the room, if the sender is a member."""


@dataclass(frozen=True, slots=True)
class Request:
    """Ask a member to admit the sender."""

    protocol: str
    member: Member


@dataclass(frozen=True, slots=True)
class Refused:
    """Refuse a Request for good."""

    admission: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outdated:
    """Refuse a Request whose admission is not higher than a known one of the node."""

    admission: int
    """The known admission."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Accept a Request: name all members, so that their messages can arrive."""

    admission: int
    members: tuple[RosterEntry, ...]


@dataclass(frozen=True, slots=True)
class Introduction:
    """Inform a newcomer of another newcomer that was added after the Offer."""

    member: Member


@dataclass(frozen=True, slots=True)
class Progress:
    """Inform a newcomer of the members whose answers its sponsor waits for."""

    admission: int
    waiting_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotStart:
    """Announce a snapshot: its size with the header, and its BLAKE2b digest."""

    admission: int
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a snapshot."""

    admission: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ChunkAck:
    """Confirm the first ``received`` bytes of a snapshot."""

    admission: int
    received: int


@dataclass(frozen=True, slots=True)
class Excluded:
    """Inform a node that the sender has removed it, with the size of the sender's room."""

    admission: int
    """The admission of the receiver that the sender has removed; 0 for an unknown one."""
    members: int
    least: str
    """The alphabetically first of the members that the sender knows."""


@dataclass(frozen=True, slots=True)
class Adding:
    """In the room, to all: the sender admits this newcomer. All add it as a peer."""

    member: Member


@dataclass(frozen=True, slots=True)
class Added:
    """In the room, to the sponsor: every later broadcast of the sender goes to it, too."""

    newcomer: str
    admission: int


@dataclass(frozen=True, slots=True)
class CutNotice:
    """In the room, to a newcomer: the snapshot is taken.

    Every message that the snapshot contains happened before this one, also at the level of
    the room's protocol. So the messages that the newcomer sends after it are ordered after
    these.
    """

    admission: int


@dataclass(frozen=True, slots=True)
class JoinedNotice:
    """In the room, to all: the sender has caught up, and is a member."""

    admission: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """In the room, to all: the last message of the sender."""

    admission: int


@dataclass(frozen=True, slots=True)
class Removing:
    """In the room, to all others: the sender has removed this admission of a member."""

    name: str
    admission: int


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """The header of a snapshot, before the state of the application."""

    entries: tuple[RosterEntry, ...]
    cut: tuple[CutEntry, ...]
    state: bytes


ControlFrame = (
    Inquiry
    | Answer
    | Request
    | Refused
    | Outdated
    | Offer
    | Introduction
    | Progress
    | SnapshotStart
    | Chunk
    | ChunkAck
    | Excluded
    | Adding
    | Added
    | CutNotice
    | JoinedNotice
    | Leaving
    | Removing
    | SnapshotHeader
)
