"""Lists of the messages that wait, for processes of hybrid buffering."""

from antecede.core.process import PendingMessages, ProcessId
from antecede.core.protocols.hybrid.peer import MissingPermit
from antecede.core.protocols.hybrid.rule import PermitRule
from antecede.core.protocols.hybrid.state import HybridState

__all__ = ["HybridPending"]


class HybridPending(PendingMessages):
    """The messages of one process that wait for another process."""

    __slots__ = ("_rule", "_state")

    def __init__(self, state: HybridState, rule: PermitRule) -> None:
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
                queued.append((copy.number, copy.peer.id, permits))
        return queued

    def _missing_by_index(self) -> list[tuple[int, MissingPermit]]:
        """Return the missing permits in the order of delivery, with their indexes."""
        permits = self._state.permits
        found: list[tuple[int, MissingPermit]] = []
        for index in range(permits.first, permits.next):
            missing = permits[index]
            if missing is not None:
                found.append((index, missing))
        return found

    def in_flight_copies(self, limit: int) -> list[tuple[int, ProcessId]]:
        return [
            (copy.number, peer.id)
            for peer in self._state.peers.values()
            if peer.sent > 0
            for copy in peer.in_flight.to_list()
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
