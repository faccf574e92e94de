"""The records that an engine writes to a journal, and is restored from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from antecede.engine.peer_session import PeerSession
from antecede.engine.process_names import Identity

__all__ = [
    "MET",
    "WILDCARD",
    "JournalWriter",
    "NamedEntry",
    "SavedCopy",
    "SavedDelivery",
    "SavedPeer",
    "SavedState",
]

MET: Final = -1
"""Stands for a number: the latest incarnation has met the peer, and may have transmitted
every message in the journal to it."""


@dataclass(frozen=True)
class SavedPeer:
    """A peer: its session, and the numbers of the last messages between it and the node."""

    name: str
    state: str
    """The value of its :class:`antecede.engine.peer_session.SessionState`."""
    stopped: bool
    history: int
    epoch_in: int
    epoch_out: int
    acked_base: int
    sent: int
    acked: int
    delivered: int
    permitted: int
    number_before: int
    """The last number that may have been transmitted to the peer, or ``MET``."""


@dataclass(frozen=True)
class SavedCopy:
    """A copy that was not acked; ``seq`` is its position among all records."""

    seq: int
    number: int
    target: str
    predecessor: int
    payload: bytes


@dataclass(frozen=True)
class SavedDelivery:
    """A delivered message that was not processed by the application or has no permit.

    ``seq`` is its position among all records.
    """

    seq: int
    source: str
    history: int
    number: int
    processed: bool
    needs_permit: bool
    """The permit of the message is missing, unless a later permit covers it."""
    payload: bytes


WILDCARD: Final[Identity] = (0, 0)
"""Stands for the source of a wildcard."""


@dataclass(frozen=True)
class NamedEntry:
    """An entry of ``bounded``; ``seq`` is its position among all records."""

    seq: int
    source: Identity
    """The source, or ``WILDCARD``."""
    target: int
    """The hash of the target's name."""
    number: int
    """The number of the entry, or of the message with the wildcard."""
    reporter: tuple[str, int]
    """The name and the history of the peer whose message brought the entry."""


@dataclass(frozen=True)
class SavedState:
    """Everything that a journal holds about a node."""

    clock: int
    """The number of the last message sent."""
    generation: int
    """The generation of the latest session."""
    forgotten_number: int
    """The last number that may have been transmitted to a peer that was forgotten."""
    peers: Sequence[SavedPeer]
    copies: Sequence[SavedCopy]
    deliveries: Sequence[SavedDelivery]
    entries: Sequence[NamedEntry] = ()
    wildcards: Sequence[NamedEntry] = ()
    """The wildcards on messages of this node; ``seq`` is that of the message, and the
    reporter is its target."""


class JournalWriter(Protocol):
    """The interface of a journal to an engine: :class:`antecede.net.journal.Journal`.

    The driver makes the records durable before it transmits what the engine flushes.
    """

    def record_sent(self, number: int, targets: Sequence[str], payload: bytes) -> None:
        """Record a message before it is transmitted."""

    def record_delivered(
        self, source: str, history: int, number: int, payload: bytes, needs_permit: bool
    ) -> None:
        """Record a message before it is acked."""

    def record_entry(
        self, source: Identity, target: int, number: int, reporter: tuple[str, int]
    ) -> None:
        """Record an entry, or a wildcard, that a delivered message has brought."""

    def record_wildcard(
        self, is_added: bool, target: int, number: int, peer: tuple[str, int]
    ) -> None:
        """Record a wildcard on a message to a peer, or delete it, because it is cleared."""

    def discard_entry(
        self, source: Identity, target: int, number: int, reporter: tuple[str, int]
    ) -> None:
        """Delete an entry, or a wildcard, that is settled."""

    def record_peer(self, session: PeerSession, numbers: tuple[int, int, int, int]) -> None:
        """Record a session, and the last numbers sent, acked, delivered and permitted."""

    def discard_copies(self, target: str) -> None:
        """Discard the copies to a peer that were abandoned."""

    def record_permitted(self, source: str, history: int, number: int) -> None:
        """Record that the messages of a history up to a number need no permit any more.

        Call it before the record of the peer, which holds its highest permit, is deleted
        or names another history.
        """

    def forget_peer(self, name: str, number: int) -> None:
        """Delete the record of a peer.

        ``number`` is the last one that may have been transmitted to a forgotten peer.
        """
