"""The nodes and messages of the model of a room, and the comparison of states."""

from enum import Enum
from typing import Final, NamedTuple

from antecede.core.support.attributes import listed_attributes
from antecede.group.member import Member
from antecede.group.membership import RoomMembership
from antecede.group.settings import MembershipSettings

__all__ = [
    "HISTORY",
    "SETTINGS",
    "Action",
    "Arrival",
    "JoinViolation",
    "Message",
    "Node",
    "canonical_form",
    "model_member",
]

SETTINGS: Final = MembershipSettings(answer_timeout_s=1.0, join_timeout_s=1e9)
HISTORY: Final = 1

Action = tuple[str, ...]
"""A step: its kind, and the nodes that take part."""


class JoinViolation(Exception):
    """A property does not hold; the message names the node."""


class Message(NamedTuple):
    """A message in the room that some of its targets have not delivered."""

    data: bytes
    targets: frozenset[str]
    """The targets that have not delivered it."""
    past: frozenset[tuple[str, int]]
    """The messages that happened before it, in the view of the multicast."""


class Arrival(NamedTuple):
    """A delivered message, as the membership receives it."""

    source: str
    history: int
    number: int
    data: bytes


class Node:
    """A node: its membership, its multicast and its application."""

    __slots__ = (
        "log",
        "membership",
        "now",
        "past",
        "peers",
        "received",
        "sent",
        "snaps",
        "text",
    )

    def __init__(self, name: str, admission: int) -> None:
        own = model_member(name, admission)
        self.membership = RoomMembership("room", "hybrid", own, SETTINGS)
        self.peers: set[str] = set()
        self.past: frozenset[tuple[str, int]] = frozenset()
        """The messages that happened before the next one, in the view of the multicast, and
        that some targets have not delivered."""
        self.log: tuple[tuple[str, int], ...] = ()
        self.received: dict[str, int] = {}
        self.sent = 0
        self.snaps: set[tuple[str, int]] = set()
        """The newcomers and admissions for which the application makes a snapshot."""
        self.now = 0.0
        self.text = ""
        """The canonical form of the other attributes; empty if it must be computed
        again."""

    def canonical(self) -> str:
        """Return a text that is equal if and only if the states are."""
        if not self.text:
            self.text = repr(canonical_form([getattr(self, n) for n in _NODE_STATE]))
        return self.text


_NODE_STATE: Final = tuple(name for name in Node.__slots__ if name != "text")


def model_member(name: str, admission: int) -> Member:
    """Return a member whose address is its name."""
    return Member(name=name, address=name, incarnation=1, admission=admission)


_PLAIN: Final = (int, str, bytes, bytearray, float, Enum, type(None))


def canonical_form(value: object) -> object:
    """Return nested tuples that are equal if and only if the values are."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        return sorted((key, canonical_form(item)) for key, item in value.items())
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [canonical_form(item) for item in value]
    if isinstance(value, MembershipSettings):
        return None
    names = listed_attributes(type(value))
    if names is None:
        raise TypeError(f"{type(value).__name__} declares no attributes")
    return [canonical_form(getattr(value, name)) for name in names]
