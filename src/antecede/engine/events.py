"""The events that a node reports about its peers: frozen values, named in the past tense.

``str(event)`` is the line that the node logs: what happened, and what to do.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from antecede.engine.message import Message

__all__ = [
    "Blocked",
    "DuplicateName",
    "EventsDropped",
    "Gap",
    "InboxFull",
    "KeyMismatch",
    "LimitsMismatch",
    "MessageFailed",
    "NodeEvent",
    "PeerLeft",
    "PeerMet",
    "PeerMoved",
    "PeerRemoved",
    "PeerRestarted",
    "PeerReturned",
    "PeerSilent",
    "ProtocolMismatch",
    "ReceiveLoopDeadlock",
    "UnknownPeer",
    "format_address",
    "format_ranges",
]

RANGES_SHOWN_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """The base class of all events."""

    needs_attention: ClassVar[bool] = False
    """Whether the node logs the event as a warning."""

    peer: str | None = None
    """The peer that the event is about; None if there is none, or if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMet(NodeEvent):
    """A peer answered for the first time since the node was opened."""

    address: object

    def __str__(self) -> str:
        return f"met {self.peer} at {format_address(self.address)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSilent(NodeEvent):
    """A peer did not answer for ``Limits.silence_s`` while an answer was due."""

    needs_attention: ClassVar[bool] = True

    address: object
    silent_s: float
    """The time since the last datagram from the peer or, if it was never met, since the
    node contacted it first."""
    was_met: bool
    """Whether the peer has answered since the node was opened."""
    fault: NodeEvent | None = None
    """The latest fault of the peer that the node has reported since it met the peer; None
    if there was none that explains the silence."""

    def __str__(self) -> str:
        since = "" if self.was_met else ", which was never met"
        advice = "check its address, its key, and the firewall"
        return (
            f"no answer from {self.peer}{since} at {format_address(self.address)} for"
            f" {self.silent_s:.0f} s: {advice if self.fault is None else self.fault}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerReturned(NodeEvent):
    """A silent peer answered."""

    silent_s: float
    """The time for which the peer was silent."""

    def __str__(self) -> str:
        return f"{self.peer} answers again, after {self.silent_s:.0f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMoved(NodeEvent):
    """A peer is reached at another address from now on."""

    address: object
    former_address: object

    def __str__(self) -> str:
        former = format_address(self.former_address)
        return f"{self.peer} moved from {former} to {format_address(self.address)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRestarted(NodeEvent):
    """Another incarnation of a peer answered."""

    kept_history: bool
    """Whether the peer continues from its journal. If not, its numbers start at 1 again,
    and the messages that it had not delivered are given up."""

    def __str__(self) -> str:
        how = "from its journal" if self.kept_history else "without its history"
        return f"{self.peer} restarted {how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLeft(NodeEvent):
    """A peer closed, after all its messages were delivered."""

    def __str__(self) -> str:
        return f"{self.peer} left"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRemoved(NodeEvent):
    """The removal of a peer began; its unacked copies are given up after a lease."""

    is_timeout: bool
    """Whether the peer was removed because of ``Limits.peer_timeout_s``, and not by the
    application."""

    def __str__(self) -> str:
        if self.is_timeout:
            return (
                f"{self.peer} was silent for Limits.peer_timeout_s and is removed: call"
                " add_peer when it is back"
            )
        return f"{self.peer} is removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap(NodeEvent):
    """Messages to or from a peer were given up; some of them may have been delivered."""

    needs_attention: ClassVar[bool] = True

    direction: Literal["to", "from"]
    """Whether the messages are those of this node to the peer, or those from the peer."""
    numbers: tuple[tuple[int, int], ...]
    """Ranges, first and last, of the numbers of messages that are known to be given up.
    A range has no other messages in this direction. Messages from the peer that never
    arrived are not among them: the Gap at the peer has their numbers."""
    after: int
    """The last message in this direction that is known to be delivered; 0 for none."""

    def __str__(self) -> str:
        known = format_ranges(self.numbers)
        if self.direction == "to":
            return (
                f"gave up messages {known or 'in fragments'} to {self.peer}, after message"
                f" {self.after}: send the messages again that it still needs"
            )
        names = f", {known} among them" if known else ""
        return (
            f"gave up messages from {self.peer} after message {self.after}{names}: ask it"
            " for the missing ones"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMismatch(NodeEvent):
    """Datagrams that name a peer as their sender cannot be decrypted."""

    needs_attention: ClassVar[bool] = True

    address: object
    """The source address of the last datagram."""
    count: int
    """The number of datagrams since the last event about this peer."""

    def __str__(self) -> str:
        return (
            f"{_datagrams(self.count)} in the name of {self.peer} from"
            f" {format_address(self.address)} cannot be decrypted: give both nodes the"
            " same key"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPeer(NodeEvent):
    """Datagrams arrived from a node that is not a peer.

    ``peer`` is None, unless the node was removed.
    """

    needs_attention: ClassVar[bool] = True

    address: object
    """The source address of the last datagram."""
    name_hash: int
    """The hash of its name: :func:`antecede.engine.datagram.name_hash`."""
    expected: str | None
    """The peer that was expected at this address."""
    count: int
    """The number of datagrams from any such node since the last event."""

    def __str__(self) -> str:
        where = format_address(self.address)
        if self.expected is not None:
            return (
                f"the node at {where} does not have the name {self.expected}: correct the"
                " name or the address in peers"
            )
        if self.peer is not None:
            return (
                f"{self.peer} was removed, but transmits from {where}: call add_peer to"
                " receive its messages again"
            )
        return (
            f"{_datagrams(self.count)} from {where}, which is not the address of a peer and"
            " does not have the name of one: call add_peer with its name"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateName(NodeEvent):
    """Two running nodes have the same name: a peer, or this node and another one."""

    needs_attention: ClassVar[bool] = True

    name: str
    address: object
    """The source address of the datagrams that show it."""

    def __str__(self) -> str:
        return (
            f"two running nodes have the name {self.name} (shown by a datagram from"
            f" {format_address(self.address)}): give one of them another name"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolMismatch(NodeEvent):
    """A peer runs another protocol or, if the members are fixed, names other members."""

    needs_attention: ClassVar[bool] = True

    own: str
    """The protocol of this node."""
    other: str | None
    """The protocol of the peer; None if its members are fixed."""

    def __str__(self) -> str:
        if self.other is None or self.other == self.own:
            return (
                f"{self.peer} runs {self.own} with other members, or another protocol:"
                " give all nodes the same protocol and the same names"
            )
        return (
            f"{self.peer} runs the protocol {self.other}, not {self.own}: give all nodes"
            " the same protocol"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsMismatch(NodeEvent):
    """A peer has another value of a limit that both nodes should agree on."""

    needs_attention: ClassVar[bool] = True

    limit: str
    own: float
    other: float

    def __str__(self) -> str:
        return (
            f"Limits.{self.limit} is {self.own:g} here and {self.other:g} at {self.peer}:"
            " give both nodes the same value"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked(NodeEvent):
    """The oldest message that waits for a peer did not change for ``Limits.silence_s``."""

    needs_attention: ClassVar[bool] = True

    source: str
    number: int
    stage: str
    """``queued``, ``in_flight``, ``held``, or ``delivered`` without a permit."""
    blocked_s: float
    """The time for which the message has waited, at least."""

    def __str__(self) -> str:
        stage = self.stage.replace("_", " ")
        return (
            f"{self.source}:{self.number} ({stage}) has waited for {self.peer} for"
            f" {self.blocked_s:.0f} s: node.waiting({self.source!r}, {self.number})"
            " explains it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxFull(NodeEvent):
    """Peers wait because the inbox is full and the application receives nothing."""

    needs_attention: ClassVar[bool] = True

    messages: int
    """The number of messages in the inbox."""

    def __str__(self) -> str:
        return (
            f"{self.messages} messages wait in the inbox and the application receives none,"
            " so that peers wait: receive in a task of its own"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveLoopDeadlock(NodeEvent):
    """A send waits while the inbox is full and the application receives nothing."""

    needs_attention: ClassVar[bool] = True

    targets: tuple[str, ...]
    waiting_s: float
    """The time for which the application has received nothing, at least."""

    def __str__(self) -> str:
        return (
            f"waits in send to {', '.join(self.targets)}, while its inbox is full and its"
            f" application has received nothing for {self.waiting_s:g} s; two nodes that"
            " send inside their receive loops can block each other for ever: send from"
            " another task, or put the answers into an asyncio.Queue that another task"
            " empties"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFailed(NodeEvent):
    """The function ``on_message`` raised; ``peer`` is the source of the message.

    The node continues with the next message. With a journal, a message that was not
    committed is redelivered when the node is opened again.
    """

    needs_attention: ClassVar[bool] = True

    message: Message
    """The message, for another try."""
    error: Exception

    def __str__(self) -> str:
        return (
            f"on_message raised {type(self.error).__name__} for {self.message!r}: its"
            " event in node.events() has the message, for another try"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsDropped(NodeEvent):
    """Events were dropped, because the application did not read them in time."""

    needs_attention: ClassVar[bool] = True

    count: int

    def __str__(self) -> str:
        return f"{self.count} events were dropped: read node.events() in a task of its own"


def _datagrams(count: int) -> str:
    return f"{count} datagram{'' if count == 1 else 's'}"


def format_address(address: object) -> str:
    """Return an address as text, ``host:port`` if it is one of a socket."""
    if not isinstance(address, tuple) or len(address) < 2:
        return "an unknown address" if address is None else str(address)
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def format_ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    """Return ranges as text, ``3, 5-9``; the first ones if there are many."""
    shown = [
        str(first) if first == last else f"{first}-{last}"
        for first, last in ranges[:RANGES_SHOWN_MAX]
    ]
    rest = len(ranges) - len(shown)
    return ", ".join(shown) + (f" and {rest} more ranges" if rest > 0 else "")
