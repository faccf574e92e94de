"""The messages of a process that wait for another process."""

from abc import abstractmethod

from antecede.core.process_id import ProcessId

__all__ = ["PendingMessages"]


class PendingMessages:
    """Optional capability of a process: list the messages that wait for another process.

    Each list has at most ``limit`` entries; the counts have no limit.
    """

    __slots__ = ()

    @abstractmethod
    def queued_copies(
        self, limit: int
    ) -> list[tuple[int, ProcessId, list[tuple[ProcessId, int]]]]:
        """Return number, target and missing permits of the copies that are not released.

        A missing permit is given as the process that owes it and a message number.
        """

    @abstractmethod
    def in_flight_copies(self, limit: int) -> list[tuple[int, ProcessId]]:
        """Return number and target of the copies that are released and not acked."""

    @abstractmethod
    def held_messages(self, limit: int) -> list[tuple[ProcessId, int, int]]:
        """Return source, number and predecessor of the messages that arrived too early."""

    @abstractmethod
    def missing_permits(self, limit: int) -> list[tuple[ProcessId, int, float]]:
        """Return source, number and delivery time of the messages without a permit."""

    @abstractmethod
    def unacked_copies(self, peer: ProcessId) -> list[tuple[int, bool]]:
        """Return number, and whether it is released, of all unacked copies to a peer."""

    @abstractmethod
    def oldest_unacked(
        self, number: int, other_than: ProcessId
    ) -> tuple[int, ProcessId] | None:
        """Return number and target of the first unacked copy to another process.

        Consider the messages up to ``number``; return None if there is none.
        """

    @abstractmethod
    def oldest_messages(self) -> list[tuple[ProcessId, str, ProcessId, int]]:
        """Return, for each process that messages wait for, the oldest one of each stage.

        An entry has the process, the stage (``queued``, ``in_flight``, ``held`` or
        ``delivered`` without a permit), and the source and number of the message. Only the
        oldest queued copy is considered.
        """

    @abstractmethod
    def count_queued(self) -> int:
        """Return how many copies are not released."""

    @abstractmethod
    def count_in_flight(self) -> int:
        """Return how many copies are released and not acked."""

    @abstractmethod
    def count_waiting(self) -> dict[ProcessId, int]:
        """Return, for each process, how many entries of the four lists wait for it."""
