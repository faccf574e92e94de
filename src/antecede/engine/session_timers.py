"""When HELLOs are due and leases end."""

from typing import Final

from antecede.core.process import NEVER
from antecede.engine.peer_session import ACTIVE, LEFT, PeerSession

__all__ = ["SessionTimers"]

HELLO_BACKOFF_MAX: Final = 16
"""How many times as long as the first the timeout of a HELLO becomes at most."""


class SessionTimers:
    """The sessions that wait for a HELLO, its answer, or the end of a lease."""

    __slots__ = ("_hello_timeout_s", "_leases", "hellos")

    hellos: dict[int, PeerSession]
    """The sessions that a HELLO is due to, now or later."""

    def __init__(self, hello_timeout_s: float) -> None:
        self._hello_timeout_s = hello_timeout_s
        self._leases: dict[int, PeerSession] = {}
        self.hellos = {}

    def schedule_hello(self, session: PeerSession, now: float) -> None:
        """Let a HELLO be due now, unless one is unanswered or the peer must not get one.

        A peer restored from a journal has no address until the application adds it.
        """
        if session.address is None:
            return
        handshake = session.handshake
        is_unanswered = handshake.hello_at < NEVER and handshake.hello_wait_s > 0
        if not is_unanswered and session.state in (ACTIVE, LEFT):
            handshake.hello_at = min(handshake.hello_at, now)
            self.hellos[session.name_hash] = session

    def schedule_probe(self, session: PeerSession, now: float) -> None:
        """Let a HELLO be due soon: its WELCOME tells the window of the peer.

        The peer tells it without being asked, but that datagram may be lost.
        """
        handshake = session.handshake
        if handshake.hello_at == NEVER and session.address is not None:
            longest_s = HELLO_BACKOFF_MAX * self._hello_timeout_s
            wait_s = min(2 * handshake.probe_wait_s, longest_s) or self._hello_timeout_s
            handshake.probe_wait_s = wait_s
            handshake.hello_at = now + wait_s
            self.hellos[session.name_hash] = session

    def window_opened(self, session: PeerSession, now: float) -> None:
        """Cancel the HELLO that would have asked for a window."""
        handshake = session.handshake
        handshake.probe_wait_s = 0.0
        if now < handshake.hello_at < NEVER and handshake.hello_wait_s == 0:
            self.cancel_hello(session)

    def hello_transmitted(self, session: PeerSession, now: float) -> None:
        """Schedule the retransmission of a HELLO."""
        handshake = session.handshake
        wait_s = self._hello_timeout_s
        if handshake.hello_wait_s > 0:
            wait_s = min(2 * handshake.hello_wait_s, HELLO_BACKOFF_MAX * wait_s)
        handshake.hello_wait_s = wait_s
        handshake.hello_at = now + wait_s
        self.hellos[session.name_hash] = session

    def hello_answered(self, session: PeerSession) -> None:
        """Cancel the retransmission of a HELLO, and reset its timeout."""
        session.handshake.hello_wait_s = 0.0
        self.cancel_hello(session)

    def cancel_hello(self, session: PeerSession) -> None:
        """Let no HELLO to the peer be due."""
        session.handshake.hello_at = NEVER
        self.hellos.pop(session.name_hash, None)

    def due_hellos(self, now: float) -> list[PeerSession]:
        """Return the sessions that a HELLO is due to."""
        for session in list(self.hellos.values()):
            if session.state not in (ACTIVE, LEFT):
                self.cancel_hello(session)
        return [
            session for session in self.hellos.values() if session.handshake.hello_at <= now
        ]

    def start_lease(self, session: PeerSession, ends: float) -> None:
        """Report the session in :meth:`ended_leases` once its lease has ended."""
        session.lease_ends = ends
        self._leases[session.name_hash] = session

    def cancel_lease(self, session: PeerSession) -> None:
        """Do not report the end of the session's lease: the peer stays."""
        session.lease_ends = NEVER
        self._leases.pop(session.name_hash, None)

    def ended_leases(self, now: float) -> list[PeerSession]:
        """Return the sessions whose leases have ended, each once."""
        if not self._leases:
            return []
        ended = [session for session in self._leases.values() if session.lease_ends <= now]
        for session in ended:
            del self._leases[session.name_hash]
        return ended

    def next_deadline(self) -> float:
        """Return when the next HELLO is due or the next lease ends; infinity for never."""
        earliest = NEVER
        for session in self.hellos.values():
            earliest = min(earliest, session.handshake.hello_at)
        for session in self._leases.values():
            earliest = min(earliest, session.lease_ends)
        return earliest
