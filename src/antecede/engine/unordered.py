"""Unordered messages: one datagram each, which is transmitted once.

They are for data that is soon out of date, such as presence and cursors. They have no
causal order, no number and no permit, they are not in the journal or the trace, and no
message waits for them. A datagram with an unordered message is authenticated, acknowledged
and counted in the congestion window like any other, but a lost message is not transmitted
again.

If a datagram cannot be transmitted, because the peer has not answered yet or the window of
the path is full, the message waits, and a newer message to the same peer replaces it. The
receiver drops a message that arrives after a newer one of the same source, and all
unordered messages while a quarter of its inbox is full, so that room for the other messages
is left.
"""

from typing import Final

from antecede.engine.acknowledgements import ACK_BLOCK_BYTES_MAX
from antecede.engine.datagram import AEAD_TAG_BYTES, DATA_PREFIX, HEADER, UNORDERED
from antecede.engine.peer_session import ACTIVE, REMOVED, PeerSession
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.session_layer import SessionLayer
from antecede.engine.transmitter import NO_FRAMES, Transmitter

__all__ = ["LATE_S", "UnorderedMessages"]

LATE_S: Final = 2.0
"""The time after which a message that could not be transmitted is dropped as late."""


class _Waiting:
    """The newest message to a peer, which cannot be transmitted yet."""

    __slots__ = ("payload", "sent_at", "session")

    def __init__(self, session: PeerSession, payload: bytes, sent_at: float) -> None:
        self.session = session
        self.payload = payload
        self.sent_at = sent_at


class UnorderedMessages:
    """The unordered messages of one node, both ways.

    Args:
        layer: seals datagrams.
        driver: delivers messages.
        transmitter: runs the timers of the paths.
    """

    __slots__ = ("_driver", "_layer", "_transmitter", "_waiting", "bytes_max")

    bytes_max: int
    """The size of the largest message."""

    def __init__(
        self, layer: SessionLayer, driver: ProcessDriver, transmitter: Transmitter
    ) -> None:
        self._layer = layer
        self._driver = driver
        self._transmitter = transmitter
        self._waiting: dict[int, _Waiting] = {}
        around = HEADER.size + AEAD_TAG_BYTES + DATA_PREFIX.size + ACK_BLOCK_BYTES_MAX
        self.bytes_max = layer.limits.base_bytes - around

    # Sending.

    def send(self, session: PeerSession, payload: bytes, now: float) -> None:
        """Transmit a message to an active peer with the next flush, or drop it."""
        if not self._transmit(session, payload, now):
            if session.name_hash in self._waiting:
                self._layer.dropped["late"] += 1
            self._waiting[session.name_hash] = _Waiting(session, payload, now)

    @property
    def has_waiting(self) -> bool:
        """Whether messages wait until they can be transmitted."""
        return bool(self._waiting)

    def retry(self, now: float) -> None:
        """Transmit the waiting messages that can be transmitted now and are not late."""
        for key, waiting in list(self._waiting.items()):
            if now - waiting.sent_at > LATE_S or waiting.session.state is not ACTIVE:
                self._layer.dropped["late"] += 1
                del self._waiting[key]
            elif self._transmit(waiting.session, waiting.payload, now):
                del self._waiting[key]

    def _transmit(self, session: PeerSession, payload: bytes, now: float) -> bool:
        """Transmit a message with the next flush; return whether that is possible."""
        layer = self._layer
        path = session.path
        if not layer.can_transmit(session, now):
            layer.timers.schedule_hello(session, now)
            return False
        has_room = path.has_room(now)
        if has_room:
            body = layer.data_prefix(session, now, True) + payload
            datagram = layer.seal(UNORDERED, session, body)
            layer.responses.append((session.address, datagram))
            path.record_sent(
                session.last_packet, session.id, NO_FRAMES, len(datagram), True, now
            )
        self._transmitter.path_timers.schedule(session)
        return has_room

    # Receiving.

    def receive(self, received: ReceivedDatagram, now: float) -> None:
        """Deliver a message, unless it is late or the inbox has too little room."""
        session = received.session
        acks = received.acks
        assert acks is not None  # The session layer has read them.
        dropped = self._layer.dropped
        if session.state is not ACTIVE:
            dropped["removed"] += 1
            if session.state is REMOVED:
                self._layer.faults.removed_peer(session, now)
        elif received.packet < session.unordered_packet:
            dropped["late"] += 1
        elif not self._layer.flow.accepts_unordered:
            dropped["inbox"] += 1
        else:
            session.unordered_packet = received.packet
            payload = received.body[acks.end :]
            self._driver.deliveries.add_unordered(session, payload, now)
