"""Packs the frames in the outboxes into datagrams."""

from typing import Final

from antecede.core.codec import Frame
from antecede.engine.datagram import DATA
from antecede.engine.entry_names import EntryNames
from antecede.engine.name_exchange import DEFINITION_BYTES_MAX
from antecede.engine.peer_session import ACTIVE, PeerSession
from antecede.engine.session_layer import SessionLayer

__all__ = ["Transmitter"]

FLUSH_FRAMES: Final = 256
FLUSH_FRAMES_PER_PEER: Final = 64
"""How many frames in outboxes, in total and in addition for each peer, make a flush worth
its cost."""


class Transmitter:
    """The outboxes that hold frames, and the datagrams made from them.

    Args:
        layer: seals the datagrams.
        body_bytes_max: the largest body of a datagram.
        entry_names: names the processes in frames; None if these name none.
    """

    __slots__ = (
        "_body_bytes_max",
        "_entry_names",
        "_frames",
        "_layer",
        "_unflushed",
        "datagrams",
    )

    datagrams: int
    """How many datagrams were made so far."""

    def __init__(
        self, layer: SessionLayer, body_bytes_max: int, entry_names: EntryNames | None
    ) -> None:
        self._layer = layer
        self._entry_names = entry_names
        self._body_bytes_max = body_bytes_max
        self._unflushed: list[PeerSession] = []  # Whose outboxes the next flush empties.
        self._frames = 0  # Put into outboxes since the last flush.
        self.datagrams = 0

    def add(self, session: PeerSession, frame: Frame) -> None:
        """Put a frame into the outbox of a peer."""
        session.outbox.add(frame)
        self._frames += 1
        self.schedule(session)

    def schedule(self, session: PeerSession) -> None:
        """Let the next flush look at the outbox of a peer."""
        outbox = session.outbox
        if not outbox.needs_flush:
            outbox.needs_flush = True
            self._unflushed.append(session)

    @property
    def has_output(self) -> bool:
        """Whether :meth:`flush` may return datagrams."""
        layer = self._layer
        return (
            bool(self._unflushed)
            or bool(layer.responses)
            or layer.timers.has_hellos
            or layer.flow.has_updates
        )

    @property
    def should_flush(self) -> bool:
        """Whether the outboxes hold so many frames that :meth:`flush` is due now."""
        peers = len(self._unflushed)
        return self._frames >= FLUSH_FRAMES + FLUSH_FRAMES_PER_PEER * peers

    def flush(self, now: float) -> list[tuple[object, bytes]]:
        """Return the datagrams to transmit, each with its address."""
        self._frames = 0
        layer = self._layer
        out = layer.responses
        layer.responses = []
        if self._unflushed:
            unflushed = self._unflushed
            self._unflushed = []
            for session in unflushed:
                session.outbox.needs_flush = False
                if session.state is not ACTIVE:
                    session.outbox.pop_frames()
                elif layer.can_transmit(session, now):
                    self._pack(session, now, out)
                else:
                    layer.timers.schedule_hello(session, now)
            if self._entry_names is not None:
                self._entry_names.sweep()
        if layer.flow.is_limiting:
            self._update_windows(now)
            out += layer.responses
            layer.responses = []
        for session in layer.timers.due_hellos(now):
            out.append((session.address, layer.make_hello(session, now)))
        self.datagrams += len(out)
        return out

    def _update_windows(self, now: float) -> None:
        """Tell peers that there is room again, and take room back from others."""
        layer = self._layer
        for session in layer.flow.updates():
            if layer.can_transmit(session, now):
                layer.respond(session, now)
            else:
                layer.timers.schedule_hello(session, now)
        for session in layer.flow.overdrafts():
            layer.timers.schedule_hello(session, now)  # Its WELCOME is the echo.

    def _pack(
        self, session: PeerSession, now: float, out: list[tuple[object, bytes]]
    ) -> None:
        """Put the frames of an outbox into as few datagrams as possible."""
        layer = self._layer
        prefix = layer.data_prefix(session, now)
        body_bytes_max = self._body_bytes_max
        buffer = bytearray(prefix)
        frames = session.outbox.pop_frames()
        if self._entry_names is not None:
            prefix = self._add_names(session, frames, buffer, prefix, out)
        prefix_size = len(prefix)
        size = len(buffer)
        for frame in frames:
            end = size
            frame.write(buffer)
            size = len(buffer)
            if size > body_bytes_max and end > prefix_size:
                body = bytes(buffer[:end])
                out.append((session.address, layer.seal(DATA, session, body)))
                buffer = bytearray(prefix) + buffer[end:]
                size = len(buffer)
        if size > prefix_size:
            out.append((session.address, layer.seal(DATA, session, bytes(buffer))))

    def _add_names(
        self,
        session: PeerSession,
        frames: list[Frame],
        buffer: bytearray,
        prefix: bytes,
        out: list[tuple[object, bytes]],
    ) -> bytes:
        """Append the names in frames to the first datagram, and return other prefixes.

        Definitions that do not fit into it go into datagrams of their own.
        """
        exchange = session.names
        assert self._entry_names is not None  # The caller checks both.
        assert exchange is not None
        ids: set[int] = set()
        for frame in frames:
            ids.update(self._entry_names.dependencies.named_ids(frame))
        numbers = exchange.define(ids) if ids else []
        most = (self._body_bytes_max - len(prefix)) // DEFINITION_BYTES_MAX
        while len(numbers) > most:
            body = bytearray(prefix)
            exchange.write(body, numbers[:most])
            out.append((session.address, self._layer.seal(DATA, session, bytes(body))))
            numbers = numbers[most:]
        exchange.write(buffer, numbers)
        plain = bytearray(prefix)
        exchange.write(plain, [])
        return bytes(plain)
