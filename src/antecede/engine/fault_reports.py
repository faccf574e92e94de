"""Reports of faults that datagrams show: wrong keys, names, protocols and limits.

Anyone can transmit the datagrams that cause these events, so the rate of the events is
limited.
"""

from collections.abc import Iterable
from typing import Final

from antecede.core.process import NEVER
from antecede.core.registry import protocols
from antecede.engine.datagram import Introduction, protocol_hash
from antecede.engine.event_collector import EventCollector
from antecede.engine.events import (
    DuplicateName,
    KeyMismatch,
    LimitsMismatch,
    NodeEvent,
    PeerMet,
    PeerRestarted,
    ProtocolMismatch,
    UnknownPeer,
)
from antecede.engine.join_events import JoinUnreadable
from antecede.engine.limits import Limits
from antecede.engine.path_events import DatagramsTooLarge
from antecede.engine.peer_session import PeerSession

__all__ = ["DUPLICATE_S", "STRANGER_S", "FaultReports"]

DUPLICATE_S: Final = 2.0
"""The time after a restart in which datagrams of the former incarnation are not a fault."""
STRANGER_S: Final = 1.0
"""The time for which the datagrams of a node that is not a peer are not a fault."""
STRANGERS_MAX: Final = 256
"""The number of these nodes that are remembered."""


class FaultReports:
    """Turns faults of datagrams into events, with a limited rate for each cause.

    Args:
        name: the name of the node.
        protocol_name: its protocol.
        limits: its limits.
        events: takes the events.
    """

    __slots__ = ("_events", "_latest", "_limits", "_name", "_protocol_name", "_strangers")

    def __init__(
        self, name: str, protocol_name: str, limits: Limits, events: EventCollector
    ) -> None:
        self._name = name
        self._protocol_name = protocol_name
        self._limits = limits
        self._events = events
        self._latest: dict[str, NodeEvent] = {}
        self._strangers: dict[int, float] = {}  # The time of each one's first datagram.

    def latest(self, peer: str) -> NodeEvent | None:
        """Return the last fault of a peer since it was met; None if there was none.

        Another node with the name of this one counts as a fault of every peer.
        """
        return self._latest.get(peer, self._latest.get(self._name))

    def report_met(self, session: PeerSession, history: int) -> None:
        """Report a new incarnation of a peer, and forget its faults: it has answered."""
        name = session.name
        self._latest.pop(name, None)
        if session.history in (0, history) and session.handshake.incarnation == 0:
            self._events.add(PeerMet(peer=name, address=session.address))
        else:
            kept_history = session.history == history
            self._events.add(PeerRestarted(peer=name, kept_history=kept_history))

    def _add(self, peer: str, event: NodeEvent) -> None:
        self._latest[peer] = event
        self._events.add(event)

    def key_mismatch(self, session: PeerSession, address: object, now: float) -> None:
        """Report a datagram that names a peer as its sender and cannot be decrypted."""
        count = self._events.count(f"key {session.name}", now)
        if count > 0:
            event = KeyMismatch(peer=session.name, address=address, count=count)
            self._add(session.name, event)

    def unknown_peer(
        self, hash: int, address: object, sessions: Iterable[PeerSession], now: float
    ) -> None:
        """Report a datagram of a node that is not a peer.

        The first ones are not a fault: the application may be about to add the peer.
        """
        first_at = self._strangers.pop(hash, now)
        if len(self._strangers) >= STRANGERS_MAX:
            del self._strangers[next(iter(self._strangers))]
        self._strangers[hash] = first_at
        if now - first_at < STRANGER_S:
            return
        count = self._events.count("unknown peer", now)
        if count == 0:
            return
        names = [each.name for each in sessions if each.address == address]
        expected = names[0] if names else None
        event = UnknownPeer(address=address, name_hash=hash, expected=expected, count=count)
        if expected is None:
            self._events.add(event)
        else:
            self._add(expected, event)

    def stranger(self, address: object, now: float) -> None:
        """Report a request to join that cannot be decrypted."""
        count = self._events.count("stranger", now)
        if count > 0:
            self._events.add(JoinUnreadable(address=address, count=count))

    def removed_peer(self, session: PeerSession, now: float) -> None:
        """Report frames of a peer that was removed and not added again."""
        count = self._events.count(f"removed {session.name}", now)
        if count > 0:
            event = UnknownPeer(
                peer=session.name,
                address=session.address,
                name_hash=session.name_hash,
                expected=None,
                count=count,
            )
            self._add(session.name, event)

    def own_name(self, address: object, now: float) -> None:
        """Report that another node has the name of this one."""
        if self._events.count("own name", now) > 0:
            self._add(self._name, DuplicateName(name=self._name, address=address))

    def former_incarnation(self, session: PeerSession, address: object) -> None:
        """Report that a peer runs twice: a former incarnation still transmits."""
        event = DuplicateName(peer=session.name, name=session.name, address=address)
        self._add(session.name, event)

    def is_former_due(self, session: PeerSession, now: float) -> bool:
        """Return whether to examine a datagram of a former incarnation of a peer."""
        return (
            now - session.handshake.met_at > DUPLICATE_S
            and self._events.count(f"former {session.name}", now) > 0
        )

    def datagrams_too_large(self, session: PeerSession, size: int, now: float) -> None:
        """Report that the system refuses datagrams of the base size."""
        if self._events.count(f"size {session.name}", now) > 0:
            name, address = session.name, session.address
            self._add(name, DatagramsTooLarge(peer=name, address=address, size=size))

    def protocol_mismatch(self, session: PeerSession, other: int, now: float) -> None:
        """Report that a peer has another protocol."""
        if self._events.count(f"protocol {session.name}", now) == 0:
            return
        names = [info.name for info in protocols() if protocol_hash([info.name]) == other]
        event = ProtocolMismatch(
            peer=session.name,
            own=self._protocol_name,
            other=names[0] if names else None,
        )
        self._add(session.name, event)

    def compare_limits(
        self, session: PeerSession, introduction: Introduction, now: float
    ) -> None:
        """Report the limits of a peer that differ, once for each value."""
        limits = self._limits
        other_lease_s = introduction.lease_ms / 1000
        for limit, own, other in (
            ("message_bytes_max", limits.message_bytes_max, introduction.message_bytes_max),
            ("lease_s", round(limits.lease_s, 3), other_lease_s),
        ):
            cause = f"limit {session.name} {limit} {other}"
            if own != other and self._events.count(cause, now, NEVER) > 0:
                event = LimitsMismatch(peer=session.name, limit=limit, own=own, other=other)
                self._add(session.name, event)
