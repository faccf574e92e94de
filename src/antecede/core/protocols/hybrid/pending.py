"""The messages that wait, listed and counted, for processes of hybrid buffering."""

from antecede.core.pending import PendingMessages
from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.peer import MissingPermit
from antecede.core.protocols.hybrid.rule import PermitRule
from antecede.core.protocols.hybrid.state import HybridState

__all__ = ["HybridPending"]


class HybridPending(PendingMessages):
    """The messages of one process that wait for another process."""

    __slots__ = ("_id", "_rule", "_state")

    def __init__(self, id: ProcessId, state: HybridState, rule: PermitRule) -> None:
        self._id = id
        self._state = state
        self._rule = rule

    def queued_copies(
        self, limit: int
    ) -> list[tuple[int, ProcessId, list[tuple[ProcessId, int]]]]:
        state = self._state
        rule = self._rule
        missing_by_index = self._missing_by_index()
        queued: list[tuple[int, ProcessId, list[tuple[ProcessId, int]]]] = []
        for copy in state.buffer.to_list():
            if not copy.released and len(queued) < limit:
                permits = [
                    (missing.peer.id, missing.number)
                    for index, missing in missing_by_index
                    if index < copy.permits_before and rule.waits_for(copy, missing)
                ]
                target = copy.peer.id
                queued += [(number, target, permits) for number in copy.numbers()]
        return queued[:limit]

    def _missing_by_index(self) -> list[tuple[int, MissingPermit]]:
        """Return the missing permits in the order of delivery, with their indexes."""
        permits = self._state.permits
        found: list[tuple[int, MissingPermit]] = []
        for index in range(permits.first, permits.next):
            missing = permits[index]
            if missing is not None:
                found.append((missing.index, missing))
        return found

    def in_flight_copies(self, limit: int) -> list[tuple[int, ProcessId]]:
        return [
            (number, peer.id)
            for peer in self._state.peers.values()
            if peer.sent > 0
            for copy in peer.in_flight.to_list()
            for number in copy.numbers()
        ][:limit]

    def held_messages(self, limit: int) -> list[tuple[ProcessId, int, int]]:
        return [
            (peer.id, message.number, message.predecessor)
            for peer in self._state.peers.values()
            if peer.is_receiving
            for message in peer.held.values()
        ][:limit]

    def missing_permits(self, limit: int) -> list[tuple[ProcessId, int, float]]:
        return [
            (peer.id, missing.number, missing.since)
            for peer in self._state.peers.values()
            if peer.is_receiving
            for missing in peer.missing.to_list()
        ][:limit]

    def unacked_copies(self, peer: ProcessId) -> list[tuple[int, bool]]:
        return [
            (number, copy.released)
            for copy in self._state.buffer.to_list()
            if copy.peer.id == peer and not copy.acked
            for number in copy.numbers()
        ]

    def oldest_unacked(
        self, number: int, other_than: ProcessId
    ) -> tuple[int, ProcessId] | None:
        for copy in self._state.buffer.to_list():
            if copy.number > number:
                break
            if not copy.acked and copy.peer.id != other_than:
                return copy.number, copy.peer.id
        return None

    def oldest_messages(self) -> list[tuple[ProcessId, str, ProcessId, int]]:
        found: list[tuple[ProcessId, str, ProcessId, int]] = []
        for peer in self._state.peers.values():
            if peer.sent > 0 and len(peer.in_flight) > 0:
                found.append((peer.id, "in_flight", self._id, peer.in_flight.peek().number))
            if not peer.is_receiving:
                continue
            if peer.held:
                number = peer.held[min(peer.held)].number
                found.append((peer.id, "held", peer.id, number))
            if len(peer.missing) > 0:
                found.append((peer.id, "delivered", peer.id, peer.missing.peek().number))
        for number, target, permits in self.queued_copies(1):
            owed_by = permits[0][0] if permits else target
            found.append((owed_by, "queued", self._id, number))
        return found

    def count_queued(self) -> int:
        peers = self._state.peers.values()
        return sum(peer.backlog for peer in peers) - self.count_in_flight()

    def count_in_flight(self) -> int:
        peers = self._state.peers.values()
        return sum(peer.messages_in_flight for peer in peers if peer.sent > 0)

    def count_waiting(self) -> dict[ProcessId, int]:
        counts: dict[ProcessId, int] = {}
        for peer in self._state.peers.values():
            count = peer.messages_in_flight if peer.sent > 0 else 0
            if peer.is_receiving:
                count += len(peer.held) + len(peer.missing)
            if count > 0:
                counts[peer.id] = count
        if self.count_queued() > 0:
            self._add_queued(counts)
        return counts

    def _add_queued(self, counts: dict[ProcessId, int]) -> None:
        """Add the queued copies to the counts of the processes that owe their permits.

        A copy waits for the processes that owe a permit of a delivery before its send. In
        the order of sending, these processes only become more.
        """
        state = self._state
        buffer = state.buffer
        owed = self._oldest_missing()
        started = 0  # The copies from here on wait for the first ones of ``owed``.
        queued = 0
        for index in range(max(state.first_queued, buffer.first), buffer.next):
            copy = buffer[index]
            if copy.released:
                continue
            while started < len(owed) and owed[started][0] < copy.permits_before:
                counts[owed[started][1]] -= queued
                started += 1
            queued += copy.count
            target = copy.peer
            if target.is_receiving and len(target.missing) > 0:
                missing = target.missing.peek()
                is_before = missing.index < copy.permits_before
                if is_before and not self._rule.waits_for(copy, missing):
                    counts[target.id] -= copy.count
        for _, id in owed[:started]:  # noqa: A001 (the word for it)
            counts[id] += queued

    def _oldest_missing(self) -> list[tuple[int, ProcessId]]:
        """Return the index of the oldest missing permit of each process, in order."""
        return sorted(
            [
                (peer.missing.peek().index, peer.id)
                for peer in self._state.peers.values()
                if peer.is_receiving and len(peer.missing) > 0
            ]
        )
