"""The links of a node: the sessions that carry the datagrams of its rooms."""

from antecede.engine.carrier import Carrier
from antecede.engine.membership import Membership
from antecede.engine.peer_session import ACTIVE
from antecede.engine.session_layer import SessionLayer

__all__ = ["Links"]


class Links:
    """Adds links, and exchanges the datagrams of rooms over them.

    A link is a session with a node that need not be a peer of this node: they share rooms.

    Args:
        layer: the sessions.
        membership: adds sessions.
        carrier: carries the datagrams.
    """

    __slots__ = ("_carrier", "_layer", "_membership")

    def __init__(
        self, layer: SessionLayer, membership: Membership, carrier: Carrier
    ) -> None:
        self._layer = layer
        self._membership = membership
        self._carrier = carrier

    def add(self, name: str, address: object, now: float) -> None:
        """Add a link to a node, unless there is one that is in use.

        The address of a link in use does not change: it follows the datagrams of the peer.
        Raise ConfigError if the peer is being removed, or the membership is fixed.
        """
        session = self._membership.table.sessions.get(name)
        if session is None or session.state is not ACTIVE or session.address is None:
            self._membership.add_peer(name, address, now, is_link=True)
        elif session.is_link and session.address != address:
            is_met = session.handshake.incarnation != 0
            if not is_met or session.is_silent:
                self._membership.add_peer(name, address, now, is_link=True)

    def has(self, name: str) -> bool:
        """Return whether datagrams of rooms can be sent to a node."""
        session = self._membership.table.sessions.get(name)
        return session is not None and session.state is ACTIVE

    def address(self, name: str) -> object:
        """Return the address of a node; None if it is unknown."""
        session = self._membership.table.sessions.get(name)
        return session.address if session is not None else None

    def send(self, name: str, room: int, datagram: bytes) -> bool:
        """Carry a datagram of a room to a node; return False if there is no link."""
        session = self._membership.table.sessions.get(name)
        if session is None or session.state is not ACTIVE:
            return False
        self._carrier.add(session, room, datagram)
        return True

    def take_arrived(self) -> list[tuple[str, int, bytes]]:
        """Remove and return what arrived: names of peers, hashes of rooms, datagrams."""
        return self._carrier.take_arrived()

    def take_strangers(self) -> list[tuple[bytes, object]]:
        """Remove and return the JOINs and JOIN_ANSWERs that have arrived."""
        return self._layer.refusals.take_strangers()
