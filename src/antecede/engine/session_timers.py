"""When HELLOs are due and leases end."""

from abc import abstractmethod
from heapq import heapify, heappop, heappush
from typing import Final

from antecede.core.process import NEVER
from antecede.engine.peer_session import ACTIVE, LEFT, PeerSession

__all__ = ["DeadlineQueue", "SessionTimers"]

HELLO_BACKOFF_MAX: Final = 16
"""How many times as long as the first the timeout of a HELLO becomes at most."""
ENTRIES_MIN: Final = 64
"""A queue with fewer entries keeps its outdated ones."""


class DeadlineQueue:
    """Sessions by one of their deadlines.

    A deadline that changes leaves an outdated entry behind, which is dropped when its time
    comes, or when the queue has doubled.
    """

    __slots__ = ("_compact_at", "_entries", "_serial")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, PeerSession]] = []
        self._serial = 0
        self._compact_at = ENTRIES_MIN

    @abstractmethod
    def deadline(self, session: PeerSession) -> float:
        """Return the current deadline of a session; infinity for none."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, session: PeerSession) -> None:
        """Add a session; call this after each change of its deadline."""
        if len(self._entries) >= self._compact_at:
            self._entries = [
                entry for entry in self._entries if entry[0] == self.deadline(entry[2])
            ]
            heapify(self._entries)
            self._compact_at = max(ENTRIES_MIN, 2 * len(self._entries))
        self._serial += 1
        heappush(self._entries, (self.deadline(session), self._serial, session))

    def next_deadline(self) -> float:
        """Return the earliest deadline; infinity for never."""
        entries = self._entries
        while entries:
            entry = entries[0]
            if entry[0] == self.deadline(entry[2]):
                return entry[0]
            heappop(entries)
        return NEVER

    def pop_due(self, now: float) -> list[PeerSession]:
        """Remove and return the sessions whose deadlines have come, each once.

        The caller sets their next deadlines.
        """
        due: dict[int, PeerSession] = {}
        while self.next_deadline() <= now:
            session = heappop(self._entries)[2]
            due[session.name_hash] = session
        return list(due.values())


class _HelloQueue(DeadlineQueue):
    """Sessions by the time of the next HELLO."""

    __slots__ = ()

    def deadline(self, session: PeerSession) -> float:
        return session.handshake.hello_at


class _LeaseQueue(DeadlineQueue):
    """Sessions by the end of the lease."""

    __slots__ = ()

    def deadline(self, session: PeerSession) -> float:
        return session.lease_ends


class SessionTimers:
    """The sessions that wait for a HELLO, its answer, or the end of a lease."""

    __slots__ = ("_hello_timeout_s", "_hellos", "_leases")

    def __init__(self, hello_timeout_s: float) -> None:
        self._hello_timeout_s = hello_timeout_s
        self._hellos = _HelloQueue()
        self._leases = _LeaseQueue()

    @property
    def has_hellos(self) -> bool:
        """Whether :meth:`due_hellos` may return sessions, now or later."""
        return len(self._hellos) > 0

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
            self._hellos.add(session)

    def schedule_probe(self, session: PeerSession, now: float) -> None:
        """Let a HELLO be due soon: its WELCOME contains the window of the peer.

        The peer also reports its window without a HELLO, but that datagram may be lost.
        """
        handshake = session.handshake
        if handshake.hello_at == NEVER and session.address is not None:
            longest_s = HELLO_BACKOFF_MAX * self._hello_timeout_s
            wait_s = min(2 * handshake.probe_wait_s, longest_s) or self._hello_timeout_s
            handshake.probe_wait_s = wait_s
            handshake.hello_at = now + wait_s
            self._hellos.add(session)

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
        self._hellos.add(session)

    def hello_answered(self, session: PeerSession) -> None:
        """Cancel the retransmission of a HELLO, and reset its timeout.

        Call this also if the peer will not answer it, because it has another address.
        """
        session.handshake.hello_wait_s = 0.0
        self.cancel_hello(session)

    def cancel_hello(self, session: PeerSession) -> None:
        """Let no HELLO to the peer be due."""
        session.handshake.hello_at = NEVER

    def due_hellos(self, now: float) -> list[PeerSession]:
        """Return the sessions that a HELLO is due to; transmit it to each of them."""
        return self._hellos.pop_due(now)

    def start_lease(self, session: PeerSession, ends: float) -> None:
        """Report the session in :meth:`ended_leases` once its lease has ended.

        The peer leaves, so no HELLO to it is due.
        """
        self.cancel_hello(session)
        session.lease_ends = ends
        self._leases.add(session)

    def cancel_lease(self, session: PeerSession) -> None:
        """Do not report the end of the session's lease: the peer stays."""
        session.lease_ends = NEVER

    def ended_leases(self, now: float) -> list[PeerSession]:
        """Return the sessions whose leases have ended, each once."""
        return self._leases.pop_due(now)

    def next_deadline(self) -> float:
        """Return when the next HELLO is due or the next lease ends; infinity for never."""
        return min(self._hellos.next_deadline(), self._leases.next_deadline())
