"""Entries that name other processes: how a driver names processes, and keeps entries."""

from abc import abstractmethod
from collections.abc import Sequence

from antecede.core.codec import Frame
from antecede.core.process_id import ProcessId

__all__ = ["EntryChange", "IdTranslation", "PeerDependencies", "SavedEntry"]

EntryChange = tuple[bool, int, int, int, ProcessId]
"""Whether an entry was added or removed, its source, target and number, and the peer that
reported it. The source of a wildcard is NO_PROCESS, and its number that of its message. A
wildcard on a message to a peer has the process itself as its source."""

SavedEntry = tuple[int, int, int, ProcessId]
"""Source, target and number of an entry, and the peer that reported it, or NO_PROCESS if
that peer is gone."""


class IdTranslation:
    """Translates the ids in the frames of a peer into those of this process."""

    __slots__ = ()

    @abstractmethod
    def source(self, id: int) -> int:
        """Return the id of a source; raise PeerError if it is unknown."""

    @abstractmethod
    def target(self, id: int) -> int:
        """Return the id of a target; raise PeerError if it is unknown."""


class PeerDependencies:
    """Optional capability of a process: its messages list undelivered copies of others.

    Entries name a process as a source and as a target. By default both are its process id.
    A driver whose processes have no common ids chooses other ids, and translates them in
    the frames that arrive. As a source, a process that has lost its state is another
    process; as a target it is the same one.
    """

    __slots__ = ()

    @abstractmethod
    def enable(self, hold_s: float) -> None:
        """Deliver no message that was held while its sender was silent for ``hold_s``.

        It is delivered if another frame of the sender arrives later. So a sender that
        transmits nothing more knows when its messages can no longer be delivered. A sender
        that abandons messages must not transmit anything before the driver has reset the
        channel.
        """

    @abstractmethod
    def identify(self, peer: ProcessId, source: int, target: int) -> None:
        """Set the ids that entries use for a peer.

        The source may be NO_PROCESS until a frame of the peer arrives. The target is
        NO_PROCESS for a former history of a peer, to which nothing is sent.
        """

    @abstractmethod
    def end_source(self, source: int, now: float) -> None:
        """Settle all entries of a source, now and later.

        Call this only when the source has ended for good and no process can still deliver
        a message of it. Drain the outputs of the process afterwards.
        """

    @abstractmethod
    def used_ids(self) -> set[int]:
        """Return the ids of all processes that the entries of this process name."""

    @abstractmethod
    def unsettled(self) -> list[tuple[int, int]]:
        """Return source and target of all entries that are not settled.

        The source of a wildcard is NO_PROCESS.
        """

    @abstractmethod
    def awaited_targets(self) -> list[ProcessId]:
        """Return the peers to which copies of others may not be delivered."""

    @abstractmethod
    def awaited(self, peer: ProcessId) -> tuple[ProcessId, int] | None:
        """Return source and number of the copy that the next message of a peer waits for.

        Return None if it does not wait for a copy of another peer.
        """

    @abstractmethod
    def count_lost_wildcards(self) -> int:
        """Return the number of wildcards without a reporter that can clear them."""

    @abstractmethod
    def named_ids(self, frame: Frame) -> list[int]:
        """Return the ids of the processes that a frame to transmit names."""

    @abstractmethod
    def translate(self, frame: Frame, ids: IdTranslation) -> None:
        """Replace the ids in a frame that has arrived.

        Raise PeerError if an id is unknown; drop the frame then.
        """

    @abstractmethod
    def record_changes(self) -> None:
        """Record the entries that are added and removed from now on, for a journal."""

    @abstractmethod
    def take_changes(self) -> list[EntryChange]:
        """Remove and return the recorded changes."""

    @abstractmethod
    def needs_permit(self, peer: ProcessId, number: int) -> bool:
        """Return whether the permit of a delivered message is missing."""

    @abstractmethod
    def restore(self, entries: Sequence[SavedEntry], now: float) -> None:
        """Load the entries of an earlier run, in the order of their deliveries.

        Call this before :meth:`antecede.core.process.PeerRecovery.restore`.
        """

    @abstractmethod
    def restore_sent(self, wildcards: Sequence[SavedEntry]) -> None:
        """Load the wildcards on messages of an earlier run that are not cleared.

        The source of each is replaced by the number of entries that were delivered before
        the send of the message. Call this after
        :meth:`antecede.core.process.PeerRecovery.restore`.
        """
