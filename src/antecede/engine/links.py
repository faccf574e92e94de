"""The links of a node: the sessions that carry the datagrams of its rooms."""

from antecede.engine.membership import Membership
from antecede.engine.overlay_sessions import OverlaySessions
from antecede.engine.peer_session import ACTIVE
from antecede.engine.session_layer import SessionLayer
from antecede.engine.transmitter import Transmitter

__all__ = ["Links"]


class Links:
    """Adds links, and exchanges the datagrams of rooms over them.

    A link is a session of two nodes that share rooms; they need not be peers.

    Args:
        layer: the sessions.
        membership: adds sessions.
        transmitter: transmits the datagrams.
    """

    __slots__ = (
        "_carrier",
        "_layer",
        "_membership",
        "_sessions",
        "_transmitter",
        "overlay",
    )

    overlay: OverlaySessions | None
    """The sessions of a process on an overlay; None without one."""

    def __init__(
        self, layer: SessionLayer, membership: Membership, transmitter: Transmitter
    ) -> None:
        self._layer = layer
        self._membership = membership
        self.overlay = membership.overlay
        self._sessions = membership.table.sessions
        self._transmitter = transmitter
        self._carrier = transmitter.carrier

    def open(self) -> None:
        """Keep the datagrams of strangers from now on."""
        self._layer.refusals.keeps_strangers = True

    def expect_strangers(self, until: float) -> None:
        """Do not report datagrams of unknown nodes until then: they may be answers."""
        self._layer.refusals.expects_until = until

    def add(self, name: str, address: object, now: float) -> None:
        """Add a link to a node, unless there is one that is in use.

        The address of a link in use does not change: it follows the datagrams of the peer.
        Raise ConfigError if the peer is being removed, or the membership is fixed.
        """
        session = self._sessions.get(name)
        if session is None or session.state is not ACTIVE or session.address is None:
            self._membership.add_peer(name, address, now, is_link=True)
        elif session.is_link and session.address != address:
            is_met = session.handshake.incarnation != 0
            if not is_met or session.is_silent:
                self._membership.add_peer(name, address, now, is_link=True)

    def keep(self, name: str) -> None:
        """Keep the link to a node alive from now on, also while it is idle."""
        session = self._sessions.get(name)
        if session is not None:
            session.is_kept = True

    def names(self) -> list[str]:
        """Return the names of the nodes to which datagrams of rooms can be sent."""
        return [each.name for each in self._sessions.values() if each.state is ACTIVE]

    def address(self, name: str) -> object:
        """Return the address of a node; None if it is unknown."""
        session = self._sessions.get(name)
        return session.address if session is not None else None

    def incarnation(self, name: str) -> int:
        """Return the incarnation of a node in use; 0 if it was not met, or has left."""
        session = self._sessions.get(name)
        if session is None or session.state is not ACTIVE:
            return 0
        return session.handshake.incarnation

    def ask(self, name: str, now: float) -> None:
        """Ask a node for an answer, to find out whether it is running."""
        session = self._sessions[name]
        if self._layer.can_transmit(session, now):
            session.path.wants_answer = True
            self._transmitter.schedule(session)
        else:
            self._layer.timers.schedule_hello(session, now)

    def is_met(self, name: str, incarnation: int) -> bool:
        """Return whether an incarnation of an active peer knows the epoch of this node.

        Until then, the peer may give up what it sends, because it learns of another epoch.
        """
        session = self._sessions.get(name)
        return (
            session is not None
            and session.state is ACTIVE
            and session.handshake.incarnation == incarnation
            and session.epoch_known == session.epoch_out
        )

    def has_answered(self, name: str, since: float) -> bool:
        """Return whether a datagram of a node was accepted after ``since``."""
        session = self._sessions.get(name)
        return session is not None and session.heard_at > since

    def send(self, name: str, room: int, datagram: bytes) -> bool:
        """Carry a datagram of a room to a node; return False if there is no link."""
        session = self._sessions.get(name)
        if session is None or session.state is not ACTIVE:
            return False
        self._carrier.add(session, room, datagram)
        return True

    def take_arrived(self) -> list[tuple[str, int, bytes]]:
        """Remove and return the arrived parts: peer, hash of the room, datagram."""
        return self._carrier.take_arrived()

    def take_strangers(self) -> list[tuple[bytes, object]]:
        """Remove and return the JOINs and JOIN_ANSWERs that have arrived."""
        return self._layer.refusals.take_strangers()

    def count_unopened(self, address: object, now: float) -> None:
        """Count and report a datagram of a stranger that cannot be decrypted."""
        self._layer.dropped["authentication"] += 1
        self._layer.faults.stranger(address, now)
