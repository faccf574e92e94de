"""Detects silent peers: they owe an answer, and no datagram of them has arrived.

A probe timeout, a HELLO or a keep-alive makes a peer owe an answer. The peer is *silent* if
no datagram of it is accepted for ``Limits.silence_s`` from then on.
"""

from antecede.core.process import NEVER
from antecede.engine.event_collector import EventCollector
from antecede.engine.events import LimitsMismatch, PeerReturned, PeerSilent
from antecede.engine.fault_reports import FaultReports
from antecede.engine.peer_session import ACTIVE, PeerSession

__all__ = ["SilenceWatch", "silent_s"]


def silent_s(session: PeerSession, now: float) -> float:
    """Return the time for which a peer that owes an answer has been silent; -1 otherwise.

    For a peer that was never met, this is the time since the node contacted it first.
    """
    if session.suspected_at == NEVER or session.heard_at >= session.suspected_at:
        return -1.0
    if session.handshake.incarnation != 0 and session.heard_at > -NEVER:
        return now - session.heard_at
    return now - session.suspected_at


class SilenceWatch:
    """The peers that owe an answer.

    Args:
        limit_s: the time after which a peer is silent.
        events: takes the events.
        faults: knows the latest fault of each peer.
    """

    __slots__ = ("_events", "_faults", "_limit_s", "_suspects", "deadline")

    deadline: float
    """The time at which to call :meth:`handle_deadline`; infinite for never."""

    def __init__(
        self, limit_s: float, events: EventCollector, faults: FaultReports
    ) -> None:
        self._limit_s = limit_s
        self._events = events
        self._faults = faults
        self._suspects: dict[int, PeerSession] = {}
        self.deadline = NEVER

    def expect_answer(self, session: PeerSession, now: float) -> None:
        """Note that a peer owes an answer."""
        if session.is_silent or session.state is not ACTIVE:
            return
        if session.heard_at >= session.suspected_at or session.suspected_at == NEVER:
            session.suspected_at = now
        self._suspects[session.name_hash] = session
        self.deadline = min(self.deadline, session.suspected_at + self._limit_s)

    def answered(self, session: PeerSession, now: float) -> None:
        """Report that a silent peer answers; call this before ``heard_at`` changes."""
        self._events.add(PeerReturned(peer=session.name, silent_s=silent_s(session, now)))
        session.is_silent = False
        session.suspected_at = NEVER

    def forget(self, session: PeerSession) -> None:
        """Expect no answer of a peer any more, because it leaves."""
        session.is_silent = False
        session.suspected_at = NEVER
        self._suspects.pop(session.name_hash, None)

    def handle_deadline(self, now: float) -> None:
        """Report the peers that did not answer in time."""
        if self.deadline > now:
            return
        self.deadline = NEVER
        for key, session in list(self._suspects.items()):
            if session.heard_at >= session.suspected_at or session.state is not ACTIVE:
                del self._suspects[key]
                session.suspected_at = NEVER
            elif session.suspected_at + self._limit_s <= now:
                del self._suspects[key]
                session.is_silent = True
                fault = self._faults.latest(session.name)
                event = PeerSilent(
                    peer=session.name,
                    address=session.address,
                    silent_s=silent_s(session, now),
                    was_met=session.handshake.incarnation != 0,
                    # A peer with other limits does answer.
                    fault=None if isinstance(fault, LimitsMismatch) else fault,
                )
                self._events.add(event)
            else:
                self.deadline = min(self.deadline, session.suspected_at + self._limit_s)
