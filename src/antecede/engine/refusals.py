"""Datagrams that are dropped because of their sender, their receiver or their key."""

from typing import Final

from antecede.core.process import NEVER
from antecede.engine.datagram import JOIN, read_header
from antecede.engine.fault_reports import FaultReports
from antecede.engine.peer_session import PeerSession
from antecede.engine.received_datagram import DROP_REASONS, ReceivedDatagram
from antecede.engine.sealer import Sealer
from antecede.engine.session_timers import SessionTimers
from antecede.errors import PeerError

__all__ = ["Refusals"]

STRANGERS_MAX: Final = 256
"""The maximum number of datagrams of strangers that are kept until the driver takes
them."""


class Refusals:
    """Counts the datagrams that are dropped, and reports the faults that they show.

    Args:
        name_hash: the hash of the name of the node.
        sealer: opens datagrams.
        timers: schedule a HELLO to the sender of a datagram.
        faults: takes the reports.
    """

    __slots__ = (
        "_faults",
        "_name_hash",
        "_sealer",
        "_strangers",
        "_timers",
        "by_peer",
        "dropped",
        "expects_until",
        "keeps_strangers",
    )

    dropped: dict[str, int]
    """The numbers of dropped datagrams and frames, by reason."""
    by_peer: dict[str, int]
    """By peer, the number of datagrams in its name that were misdirected or unreadable."""
    expects_until: float
    """The time until which datagrams of unknown nodes are not reported."""
    keeps_strangers: bool
    """Whether to keep JOIN and JOIN_ANSWER for :meth:`take_strangers`."""

    def __init__(
        self, name_hash: int, sealer: Sealer, timers: SessionTimers, faults: FaultReports
    ) -> None:
        self._name_hash = name_hash
        self._sealer = sealer
        self._timers = timers
        self._faults = faults
        self.dropped = dict.fromkeys(DROP_REASONS, 0)
        self.by_peer = {}
        self.expects_until = -NEVER
        self.keeps_strangers = False
        self._strangers: list[tuple[bytes, object]] = []

    def _count(self, session: PeerSession) -> None:
        self.by_peer[session.name] = self.by_peer.get(session.name, 0) + 1

    def take_strangers(self) -> list[tuple[bytes, object]]:
        """Remove and return the datagrams of strangers, each with its address."""
        kept = self._strangers
        self._strangers = []
        return kept

    def drop(self, reason: str) -> ReceivedDatagram | None:
        """Count a dropped datagram; return None."""
        self.dropped[reason] += 1
        return None

    def open_once(self, received: ReceivedDatagram, receiver: int, datagram: bytes) -> bool:
        """Return whether the body of a datagram to any incarnation can be decrypted."""
        sealer = self._sealer
        cipher = sealer.opening_cipher(received.session, received.incarnation, receiver)
        try:
            received.body = sealer.open(cipher, received.packet, datagram)
        except PeerError:
            return False
        return True

    def drop_unknown(
        self,
        datagram: bytes,
        address: object,
        sessions: dict[int, PeerSession],
        now: float,
    ) -> ReceivedDatagram | None:
        """Drop a datagram of a node that is not a peer; keep JOIN and JOIN_ANSWER."""
        kind, sender, _, _, _ = read_header(datagram)
        if kind >= JOIN and self.keeps_strangers:
            if len(self._strangers) < STRANGERS_MAX:
                self._strangers.append((datagram, address))
            return None
        if now < self.expects_until:
            pass  # This node has sent JOINs, and the datagram may be a late answer.
        elif sender == self._name_hash:
            self._faults.own_name(address, now)
        else:
            self._faults.unknown_peer(sender, address, sessions.values(), now)
        return self.drop("unknown_sender")

    def drop_unopened(
        self, session: PeerSession, address: object, now: float
    ) -> ReceivedDatagram | None:
        """Drop a datagram that cannot be decrypted with the key of the group."""
        self._count(session)
        self._faults.key_mismatch(session, address, now)
        return self.drop("authentication")

    def drop_former(
        self, received: ReceivedDatagram, datagram: bytes, address: object, now: float
    ) -> ReceivedDatagram | None:
        """Drop a datagram of a former incarnation; report one that arrives too late."""
        session = received.session
        self._count(session)
        if self._faults.is_former_due(session, now) and self.open_once(
            received, received.receiver, datagram
        ):
            self._faults.former_incarnation(session, address)
        return self.drop("incarnation")

    def drop_misdirected(
        self, received: ReceivedDatagram, datagram: bytes, address: object, now: float
    ) -> ReceivedDatagram | None:
        """Answer a datagram addressed to another incarnation with HELLO.

        Usually that is an earlier one. It belongs to another node with the same name if
        its sender has transmitted to this incarnation before.
        """
        session = received.session
        if not self.open_once(received, received.receiver, datagram):
            return self.drop_unopened(session, address, now)
        is_known = 0 < session.path.arrived.largest < received.packet
        if is_known and received.incarnation == session.handshake.incarnation:
            self._faults.own_name(address, now)
        self._count(session)
        self._timers.schedule_hello(session, now)
        return self.drop("incarnation")
