"""The records that an engine writes to a journal, and is restored from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from antecede.engine.peer_session import PeerSession

__all__ = ["JournalWriter", "SavedCopy", "SavedDelivery", "SavedPeer"]


@dataclass(frozen=True)
class SavedPeer:
    """A peer: its session, and the numbers of the last messages between it and the node."""

    name: str
    history: int
    epoch_in: int
    epoch_out: int
    sent: int
    acked: int
    delivered: int
    permitted: int


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
    payload: bytes


class JournalWriter(Protocol):
    """The interface of a journal to an engine: :class:`antecede.net.journal.Journal`.

    The driver makes the records durable before it transmits what the engine flushes.
    """

    def record_sent(self, number: int, targets: Sequence[str], payload: bytes) -> None:
        """Record a message before it is transmitted."""

    def record_delivered(
        self, source: str, history: int, number: int, payload: bytes
    ) -> None:
        """Record a message before it is acked."""

    def record_peer(self, session: PeerSession, numbers: tuple[int, int, int, int]) -> None:
        """Record a session, and the last numbers sent, acked, delivered and permitted."""

    def discard_copies(self, target: str) -> None:
        """Discard the copies to a peer that was removed."""
