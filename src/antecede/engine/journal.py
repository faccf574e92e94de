"""What an engine tells a journal, and what it is told when it is restored."""

from collections.abc import Sequence
from typing import Protocol

from antecede.engine.peer_session import Remote

__all__ = ["JournalKeeper", "SavedCopy", "SavedDelivery", "SavedPair"]


class SavedPair:
    """How far a pair had come, from a journal."""

    __slots__ = (
        "acked",
        "delivered",
        "epoch_in",
        "epoch_out",
        "life",
        "name",
        "permitted",
        "sent",
    )

    def __init__(
        self,
        name: str,
        life: int,
        epoch_in: int,
        epoch_out: int,
        sent: int,
        acked: int,
        delivered: int,
        permitted: int,
    ) -> None:
        """Make the record; the names are those of :class:`Remote` and of the core."""
        self.name = name
        self.life = life
        self.epoch_in = epoch_in
        self.epoch_out = epoch_out
        self.sent = sent
        self.acked = acked
        self.delivered = delivered
        self.permitted = permitted


class SavedCopy:
    """A copy that was not acked, from a journal."""

    __slots__ = ("number", "payload", "predecessor", "seq", "target")

    def __init__(
        self, seq: int, number: int, target: str, predecessor: int, payload: bytes
    ) -> None:
        """Make the record; ``seq`` is its place among all records."""
        self.seq = seq
        self.number = number
        self.target = target
        self.predecessor = predecessor
        self.payload = payload


class SavedDelivery:
    """A delivered message that is not done, or has no permit, from a journal."""

    __slots__ = ("done", "life", "number", "payload", "seq", "source")

    def __init__(
        self, seq: int, source: str, life: int, number: int, done: bool, payload: bytes
    ) -> None:
        """Make the record; ``seq`` is its place among all records."""
        self.seq = seq
        self.source = source
        self.life = life
        self.number = number
        self.done = done
        self.payload = payload


class JournalKeeper(Protocol):
    """What an engine tells a journal: :class:`antecede.net.journal.Journal`."""

    def sent(self, number: int, targets: Sequence[str], payload: bytes) -> None:
        """Note a message before it is transmitted."""

    def delivered(self, source: str, life: int, number: int, payload: bytes) -> None:
        """Note a message before it is acked."""

    def pair(self, remote: Remote, numbers: tuple[int, int, int, int]) -> None:
        """Note how far a pair has come: sent, acked, delivered, permitted."""

    def abandoned(self, target: str) -> None:
        """Forget the copies to a peer that was let go of."""

    def commit(self) -> None:
        """Make all of it durable."""
