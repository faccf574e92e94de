"""Keep-alives: an idle pair of nodes exchanges a datagram from time to time.

If a node has transmitted nothing to a peer for the interval of
:attr:`antecede.engine.limits.Limits.keep_alive_interval_s`, it transmits a datagram without
frames that asks for an acknowledgement. The acknowledgement delays the next keep-alive of
the peer in turn. So address translation on the path keeps its entry, both nodes can
transmit at any time without a handshake, and the node detects a silent peer. A link is kept
alive only for rooms in which all members know each other.
"""

from typing import Final

from antecede.core.process import NEVER
from antecede.core.support.keyed_random import fold_in, key, uniform
from antecede.engine.peer_session import ACTIVE, PeerSession
from antecede.engine.session_layer import SessionLayer
from antecede.engine.session_timers import DeadlineQueue
from antecede.engine.transmitter import Transmitter

__all__ = ["KeepAlive"]

JITTER: Final = 0.25
"""The largest fraction by which an interval is shortened at random, so that nodes do not
transmit in step."""


class _IdleQueue(DeadlineQueue):
    """Sessions by the time of the next keep-alive."""

    __slots__ = ()

    def deadline(self, session: PeerSession) -> float:
        return session.keep_alive_at


class KeepAlive:
    """The keep-alives of one node.

    Args:
        layer: the sessions.
        transmitter: transmits the datagrams.
    """

    __slots__ = ("_draws", "_interval_s", "_key", "_layer", "_queue", "_transmitter")

    def __init__(self, layer: SessionLayer, transmitter: Transmitter) -> None:
        self._layer = layer
        self._transmitter = transmitter
        self._interval_s = layer.limits.keep_alive_interval_s
        self._queue = _IdleQueue()
        self._key = key(layer.incarnation)
        self._draws = 0

    def start(self, session: PeerSession, now: float) -> None:
        """Keep a session alive from now on, until its peer leaves or is removed."""
        if self._interval_s < NEVER and session.keep_alive_at == NEVER:
            self._schedule(session, now)

    def _schedule(self, session: PeerSession, idle_since: float) -> None:
        self._draws += 1
        part = 1.0 - JITTER * uniform(fold_in(self._key, self._draws))
        session.keep_alive_at = idle_since + self._interval_s * part
        self._queue.add(session)

    def next_deadline(self) -> float:
        """Return the time of the next :meth:`handle_deadlines`; infinite for never."""
        return self._queue.next_deadline()

    def handle_deadlines(self, now: float) -> None:
        """Transmit to the peers to which nothing was transmitted for the interval."""
        for session in self._queue.pop_due(now):
            if session.state is not ACTIVE or session.address is None:
                session.keep_alive_at = NEVER
                continue
            idle_since = session.transmitted_at
            if session.is_link and not session.is_kept:
                idle_since = now  # No room uses the link at present.
            elif now - idle_since >= (1.0 - JITTER) * self._interval_s:
                idle_since = now
                if self._layer.can_transmit(session, now):
                    session.path.wants_answer = True
                    self._transmitter.schedule(session)
                else:
                    self._layer.timers.schedule_hello(session, now)
            self._schedule(session, idle_since)
