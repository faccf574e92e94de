"""The timers of all paths: losses, probes, late acks and paced datagrams."""

from heapq import heappop, heappush

from antecede.core.process import NEVER
from antecede.engine.peer_session import PeerSession

__all__ = ["PathTimers"]


class PathTimers:
    """Sessions by the deadlines of their paths.

    A deadline that moves back leaves its entry, which is corrected when its time comes: a
    path whose deadline moves with each datagram costs one queue operation per timeout.
    """

    __slots__ = ("_entries", "_serial")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, PeerSession]] = []
        self._serial = 0

    def schedule(self, session: PeerSession) -> None:
        """Add a session; call this after each change of its deadline."""
        path = session.path
        deadline = path.deadline
        if deadline < path.queued_at:
            path.queued_at = deadline
            self._serial += 1
            heappush(self._entries, (deadline, self._serial, session))

    def next_deadline(self) -> float:
        """Return when :meth:`pop_due` may return sessions; infinite for never.

        It may return none then, because their deadlines have moved back.
        """
        entries = self._entries
        while entries:
            queued_at, _, session = entries[0]
            if queued_at == session.path.queued_at:
                return queued_at
            heappop(entries)  # The session has an earlier entry.
        return NEVER

    def pop_due(self, now: float) -> list[PeerSession]:
        """Return the sessions whose deadlines have come; schedule them again afterwards."""
        due: list[PeerSession] = []
        while self.next_deadline() <= now:
            session = heappop(self._entries)[2]
            path = session.path
            path.queued_at = NEVER
            if path.deadline <= now:
                due.append(session)
            else:
                self.schedule(session)
        return due
