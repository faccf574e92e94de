"""Carries the datagrams of rooms over the sessions of a node.

A CARRY datagram holds *parts* after its ack block::

    room      8 bytes: the hash of the name of the room; 0 for messages about rooms
    length    2 bytes
    datagram  a datagram of the node of the sender in this room

Parts of several rooms share datagrams, and the session authenticates, encrypts and numbers
them together. It does not retransmit them: a room recovers its own losses.
"""

from struct import Struct
from typing import Final

from antecede.engine.acknowledgements import ACK_BLOCK_BYTES_MAX, RANGES_WITH_MESSAGES_MAX
from antecede.engine.datagram import AEAD_TAG_BYTES, CARRY, DATA_PREFIX, HEADER
from antecede.engine.peer_session import ACTIVE, PeerSession
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.session_layer import SessionLayer

__all__ = ["CARRY_OVERHEAD_BYTES", "Carrier"]

PART: Final = Struct(">QH")
"""The start of a part."""
CARRY_OVERHEAD_BYTES: Final = (
    HEADER.size + AEAD_TAG_BYTES + DATA_PREFIX.size + ACK_BLOCK_BYTES_MAX + PART.size
)
"""The maximum number of bytes by which a datagram with one part exceeds the part's
datagram."""
HELD_MAX: Final = 256
"""The maximum number of parts for one peer that wait until its session is ready."""
ARRIVED_MAX: Final = 4096
"""The maximum number of parts that wait for :meth:`Carrier.take_arrived`."""
SENDER_START: Final = 1
SENDER_END: Final = 9
"""The position of the hash of the sender's name in a datagram."""


class Carrier:
    """The datagrams of rooms that wait for transmission, and those that have arrived.

    Args:
        layer: seals the datagrams.
        tag_bytes: the bytes that encryption adds to a datagram.
    """

    __slots__ = ("_arrived", "_layer", "_overhead_bytes", "_waiting", "parts_dropped")

    parts_dropped: int
    """The number of parts that were dropped because of a full queue or a wrong sender."""

    def __init__(self, layer: SessionLayer, tag_bytes: int) -> None:
        self._layer = layer
        self._overhead_bytes = HEADER.size + tag_bytes
        self._waiting: dict[str, tuple[PeerSession, list[bytes]]] = {}
        self._arrived: list[tuple[str, int, bytes]] = []
        self.parts_dropped = 0

    @property
    def has_output(self) -> bool:
        """Whether parts wait for transmission."""
        return bool(self._waiting)

    def add(self, session: PeerSession, room: int, datagram: bytes) -> None:
        """Transmit a datagram of a room with the next flush, once the session is ready."""
        waiting = self._waiting.get(session.name)
        if waiting is None:
            waiting = self._waiting[session.name] = (session, [])
        parts = waiting[1]
        if len(parts) >= HELD_MAX and session.handshake.incarnation == 0:
            del parts[0]
            self.parts_dropped += 1
        parts.append(PART.pack(room, len(datagram)) + datagram)

    def flush(self, now: float, out: list[tuple[object, bytes]]) -> None:
        """Append datagrams with the parts for all peers whose sessions are ready."""
        waiting = self._waiting
        self._waiting = {}
        for session, parts in waiting.values():
            if session.state is not ACTIVE:
                self.parts_dropped += len(parts)
            elif self._layer.can_transmit(session, now):
                self._pack(session, parts, now, out)
            else:
                self._layer.timers.schedule_hello(session, now)
                self._waiting[session.name] = (session, parts)

    def _pack(
        self,
        session: PeerSession,
        parts: list[bytes],
        now: float,
        out: list[tuple[object, bytes]],
    ) -> None:
        """Put parts into as few datagrams as possible."""
        body_bytes_max = session.path.usable_bytes - self._overhead_bytes
        prefix = self._layer.data_prefix(session, now, False, RANGES_WITH_MESSAGES_MAX)
        body = bytearray(prefix)
        for part in parts:
            if len(body) + len(part) > body_bytes_max and len(body) > len(prefix):
                out.append((session.address, self._seal(session, body)))
                body = bytearray(prefix)
            body += part
        out.append((session.address, self._seal(session, body)))

    def _seal(self, session: PeerSession, body: bytearray) -> bytes:
        return self._layer.seal(CARRY, session, bytes(body))

    def receive(self, received: ReceivedDatagram) -> None:
        """Take the parts of a datagram; drop the rest of a malformed one."""
        acks = received.acks
        assert acks is not None  # The session layer has read them.
        body = received.body
        position = acks.end
        name = received.session.name
        sender = received.session.name_hash.to_bytes(8, "big")
        while position + PART.size <= len(body):
            room, length = PART.unpack_from(body, position)
            position += PART.size
            datagram = body[position : position + length]
            position += length
            if (
                len(datagram) < length
                # A datagram of a room must come from the node that transmits it.
                or datagram[SENDER_START:SENDER_END] != sender
                or len(self._arrived) >= ARRIVED_MAX
            ):
                self.parts_dropped += 1
            else:
                self._arrived.append((name, room, datagram))

    def take_arrived(self) -> list[tuple[str, int, bytes]]:
        """Remove and return the arrived parts: peer, hash of the room, datagram."""
        arrived = self._arrived
        self._arrived = []
        return arrived
