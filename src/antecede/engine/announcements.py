"""Announcements: a node sends its name to a peer that may not know it.

The key of a HELLO depends on both names, so a node cannot open the HELLO of a stranger. On
an overlay any member may become a neighbour of any other member, which a third member has
named. Therefore a node transmits an ANNOUNCE before its HELLO to a peer that it has not
met, or that did not answer. Each node of the group can open it. Its body is

::

    receiver  8 bytes, the hash of the name of the node that it is for
    name      the name of the sender, in UTF-8

A node that accepts it adds a session, and transmits nothing: the HELLO that follows proves
the identity of the sender, and is answered. So a replayed ANNOUNCE causes no datagram.
"""

from collections.abc import Callable
from typing import Final

from antecede.engine.datagram import ANNOUNCE, name_hash, read_header
from antecede.engine.peer_session import PeerSession
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.refusals import Refusals
from antecede.engine.sealer import Sealer
from antecede.errors import PeerError

__all__ = ["Announcements"]

RECEIVER_BYTES: Final = 8
NAME_BYTES_MAX: Final = 255


class Announcements:
    """Makes and reads the announcements of one node.

    Args:
        name: the name of the node.
        sealer: seals and opens datagrams.
        refusals: counts the announcements that are dropped.
    """

    __slots__ = (
        "_name",
        "_name_hash",
        "_own_hash",
        "_packet",
        "_refusals",
        "_sealer",
        "on_stranger",
    )

    on_stranger: Callable[[str, object, float], None] | None
    """Called with the name and the address of a node that is no peer; None if the node
    accepts none, and announces itself to none."""

    def __init__(self, name: str, sealer: Sealer, refusals: Refusals) -> None:
        self._name = name.encode()
        self._own_hash = name_hash(name)
        self._name_hash = self._own_hash.to_bytes(RECEIVER_BYTES, "big")
        self._refusals = refusals
        self._sealer = sealer
        self._packet = 0
        self.on_stranger = None

    def announce(self, session: PeerSession, out: list[tuple[object, bytes]]) -> None:
        """Append an announcement for a peer that gets a HELLO, if it needs one."""
        handshake = session.handshake
        if self.on_stranger is None or (
            handshake.incarnation != 0 and handshake.hello_wait_s == 0
        ):
            return
        self._packet += 1
        body = session.name_hash.to_bytes(RECEIVER_BYTES, "big") + self._name
        datagram = self._sealer.seal_for_all(ANNOUNCE, self._packet, body)
        out.append((session.address, datagram))

    def receive(
        self, datagram: bytes, address: object, now: float
    ) -> ReceivedDatagram | None:
        """Read an announcement, and return None; count and drop an invalid one."""
        reason = self._read(datagram, address, now)
        return self._refusals.drop(reason) if reason else None

    def _read(self, datagram: bytes, address: object, now: float) -> str:
        """Read an announcement; return why it is dropped, or an empty string."""
        _, sender, incarnation, _, packet = read_header(datagram)
        if self.on_stranger is None:
            return "unknown_sender"
        try:
            body = self._sealer.open_for_all(incarnation, packet, datagram)
            name = body[RECEIVER_BYTES:].decode()
        except PeerError:
            return "authentication"
        except UnicodeDecodeError:
            return "malformed"
        if len(body) > RECEIVER_BYTES + NAME_BYTES_MAX or name_hash(name) != sender:
            return "malformed"
        if body[:RECEIVER_BYTES] != self._name_hash or sender == self._own_hash:
            return "unknown_sender"  # It is for another node.
        self.on_stranger(name, address, now)
        return ""
