"""Packs the frames in the outboxes into datagrams, as far as the paths have room."""

from typing import Final

from antecede.core.codec import Frame
from antecede.core.windows import PeerWindows
from antecede.engine.acknowledgements import RANGES_MAX, RANGES_WITH_MESSAGES_MAX
from antecede.engine.carrier import Carrier
from antecede.engine.datagram import DATA, HEADER, PIECE, PROBE
from antecede.engine.entry_names import EntryNames
from antecede.engine.name_exchange import DEFINITION_BYTES_MAX
from antecede.engine.outbox import NO_KEY, message_key
from antecede.engine.path_timers import PathTimers
from antecede.engine.peer_session import ACTIVE, PeerSession
from antecede.engine.session_layer import SessionLayer

__all__ = ["Transmitter"]

FLUSH_FRAMES: Final = 256
FLUSH_FRAMES_PER_PEER: Final = 64
"""How many frames in outboxes, in total and in addition for each peer, make a flush worth
its cost."""
NO_FRAMES: Final[list[Frame]] = []

Datagrams = list[tuple[object, bytes]]
"""Datagrams, each with its address."""


class Transmitter:
    """The outboxes that hold frames, and the datagrams made from them.

    Args:
        layer: seals the datagrams.
        tag_bytes: the bytes that encryption adds to a datagram.
        entry_names: names the processes in frames; None if these name none.
        windows: the windows of the peers; None if the process has none.
    """

    __slots__ = (
        "_entry_names",
        "_frames",
        "_layer",
        "_overhead_bytes",
        "_unflushed",
        "_windows",
        "carrier",
        "datagrams",
        "path_timers",
    )

    datagrams: int
    """How many datagrams were made so far."""
    path_timers: PathTimers
    carrier: Carrier
    """Carries the datagrams of rooms."""

    def __init__(
        self,
        layer: SessionLayer,
        tag_bytes: int,
        entry_names: EntryNames | None,
        windows: PeerWindows | None,
    ) -> None:
        self._layer = layer
        self._entry_names = entry_names
        self._windows = windows
        self._overhead_bytes = HEADER.size + tag_bytes
        self._unflushed: list[PeerSession] = []  # Whose outboxes the next flush empties.
        self._frames = 0  # Put into outboxes since the last flush.
        self.path_timers = PathTimers()
        self.carrier = Carrier(layer, tag_bytes)
        self.datagrams = 0

    def add(
        self, session: PeerSession, frame: Frame, is_retransmission: bool = False
    ) -> None:
        """Put a frame into the outbox of a peer."""
        session.outbox.add(frame, is_retransmission)
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
            or self.carrier.has_output
            or layer.timers.has_hellos
            or layer.flow.has_updates
        )

    @property
    def should_flush(self) -> bool:
        """Whether the outboxes hold enough frames that :meth:`flush` is due now."""
        peers = len(self._unflushed)
        return self._frames >= FLUSH_FRAMES + FLUSH_FRAMES_PER_PEER * peers

    def flush(self, now: float) -> Datagrams:
        """Return the datagrams to transmit, each with its address."""
        self._frames = 0
        layer = self._layer
        out = layer.responses
        layer.responses = []
        if self._unflushed:
            unflushed = self._unflushed
            self._unflushed = []
            if len(unflushed) == 1:
                self._flush_session(unflushed[0], now, out)
            else:
                self._flush_sessions(unflushed, now, out)
            if self._entry_names is not None:
                self._entry_names.sweep()
        if self.carrier.has_output:
            self.carrier.flush(now, out)
        if layer.flow.is_limiting:
            self._update_windows(now)
            out += layer.responses
            layer.responses = []
        for session in layer.timers.due_hellos(now):
            layer.announcements.announce(session, out)
            out.append((session.address, layer.make_hello(session, now)))
        self.datagrams += len(out)
        return out

    def _flush_sessions(
        self, unflushed: list[PeerSession], now: float, out: Datagrams
    ) -> None:
        """Transmit to several peers, to those first that get the fewest datagrams.

        The fragments of a large message to one peer do not delay messages to others.
        """
        parts: list[Datagrams] = []
        for session in unflushed:
            part: Datagrams = []
            self._flush_session(session, now, part)
            parts.append(part)
        parts.sort(key=len)
        for part in parts:
            out += part

    def _flush_session(self, session: PeerSession, now: float, out: Datagrams) -> None:
        outbox = session.outbox
        outbox.needs_flush = False
        if session.state is not ACTIVE:
            outbox.clear()
        elif self._layer.can_transmit(session, now):
            self._layer.paths.update_mark(session)
            self._pack(session, now, out)
            self.path_timers.schedule(session)
        else:
            self._layer.timers.schedule_hello(session, now)

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

    def _pack(self, session: PeerSession, now: float, out: Datagrams) -> None:
        """Transmit the frames in an outbox, the messages as far as the path has room."""
        outbox = session.outbox
        path = session.path
        has_messages = outbox.has_messages
        frames = outbox.pop_frames()
        if outbox.is_holding or has_messages:
            if not path.has_room(now):
                if has_messages:
                    frames = outbox.put_back(frames)
                    has_messages = False
            elif outbox.is_holding:
                held = outbox.take_held(path.room(), session.id, self._windows)
                if held:
                    frames += held
                    has_messages = True
                elif path.in_flight == 0:  # No ack will report when the window grows.
                    self._layer.timers.schedule_probe(session, now)
        if frames:
            self._pack_frames(session, frames, has_messages, now, out)
        if path.is_blocked and not outbox.is_holding:
            path.unblock()
        if path.wants_answer:
            self._transmit_bare(session, True, now, out)
        elif path.is_ack_due and path.arrived.due <= now:
            self._transmit_bare(session, False, now, out)
        if path.mtu.is_due:
            self._transmit_probe(session, now, out)

    def _pack_frames(
        self,
        session: PeerSession,
        frames: list[Frame],
        has_messages: bool,
        now: float,
        out: Datagrams,
    ) -> None:
        """Put frames into as few datagrams as possible; hold messages beyond the room."""
        ranges = RANGES_WITH_MESSAGES_MAX if has_messages else RANGES_MAX
        start = self._layer.data_prefix(session, now, True, ranges)
        body_bytes_max = session.path.usable_bytes - self._overhead_bytes
        names = session.names
        prefix = start if names is None else start + names.encode_none()
        buffer = bytearray(prefix)
        if names is not None and (ids := self._named_ids(frames)):
            buffer = bytearray(start)
            numbers = names.define(ids)
            self._define(session, numbers, buffer, body_bytes_max, now, out)
        prefix_size = len(prefix)
        size = len(buffer)
        first = 0
        for index, frame in enumerate(frames):
            end = size
            frame.write(buffer)
            size = len(buffer)
            if size > body_bytes_max and end > prefix_size:
                body = bytes(buffer[:end])
                part = frames[first:index]
                self._transmit(session, body, part, has_messages, now, out)
                if session.path.mtu.is_waiting:
                    session.path.mtu.start(now)
                first = index
                if has_messages and not session.path.has_room(now):
                    self._hold(session, frames[first:], now, out)
                    return
                buffer = bytearray(prefix) + buffer[end:]
                size = len(buffer)
            if size > body_bytes_max and self._entry_names is None:
                if has_messages and not session.path.has_room_for(size):
                    self._hold(session, frames[index:], now, out)
                    return
                self._transmit_pieces(session, frame, buffer, prefix_size, now, out)
                first = index + 1
                buffer = bytearray(prefix)
                size = prefix_size
        if size > prefix_size:
            part = frames[first:] if first else frames
            self._transmit(session, bytes(buffer), part, has_messages, now, out)

    def _hold(
        self, session: PeerSession, frames: list[Frame], now: float, out: Datagrams
    ) -> None:
        """Hold the messages among some frames, and transmit the others."""
        others = session.outbox.put_back(frames)
        if others:
            self._pack_frames(session, others, False, now, out)

    def _transmit_pieces(
        self,
        session: PeerSession,
        frame: Frame,
        body: bytearray,
        prefix_size: int,
        now: float,
        out: Datagrams,
    ) -> None:
        """Transmit a frame in pieces. If one is lost, the last one stands for the frame."""
        path = session.path
        prefix = bytes(body[:prefix_size])
        room = path.usable_bytes - self._overhead_bytes - prefix_size
        parts = path.piece_writer.split(bytes(body[prefix_size:]), room)
        is_counted = message_key(frame) != NO_KEY
        for part in parts:
            frames = [frame] if part is parts[-1] else NO_FRAMES
            self._transmit(session, prefix + part, frames, is_counted, now, out, PIECE)

    def _transmit(
        self,
        session: PeerSession,
        body: bytes,
        frames: list[Frame],
        has_messages: bool,
        now: float,
        out: Datagrams,
        kind: int = DATA,
    ) -> None:
        """Transmit a datagram that the peer must acknowledge."""
        datagram = self._layer.seal(kind, session, body)
        out.append((session.address, datagram))
        session.path.record_sent(
            session.last_packet, session.id, frames, len(datagram), has_messages, now
        )

    def _transmit_bare(
        self, session: PeerSession, asks: bool, now: float, out: Datagrams
    ) -> None:
        """Transmit a datagram without frames: an ack block, or a question for one."""
        body = self._layer.data_prefix(session, now, asks)
        if asks:
            self._transmit(session, body, NO_FRAMES, False, now, out)
        else:
            out.append((session.address, self._layer.seal(DATA, session, body)))

    def _transmit_probe(self, session: PeerSession, now: float, out: Datagrams) -> None:
        """Transmit padding, to probe whether the path carries a datagram of this size."""
        path = session.path
        body = self._layer.data_prefix(session, now, True)
        padding = path.mtu.candidate - self._overhead_bytes - len(body)
        datagram = self._layer.seal(PROBE, session, body + bytes(max(padding, 0)))
        out.append((session.address, datagram))
        number = session.last_packet
        path.record_sent(number, session.id, NO_FRAMES, len(datagram), False, now)
        if number in path.losses.sent:
            path.mtu.probe_transmitted(number)

    def _named_ids(self, frames: list[Frame]) -> set[int]:
        """Return the ids of the processes that frames name."""
        ids: set[int] = set()
        if self._entry_names is not None:
            for frame in frames:
                named = self._entry_names.dependencies.named_ids(frame)
                if named:
                    ids.update(named)
        return ids

    def _define(
        self,
        session: PeerSession,
        numbers: list[int],
        buffer: bytearray,
        body_bytes_max: int,
        now: float,
        out: Datagrams,
    ) -> None:
        """Append definitions to the start of the first datagram.

        Those that do not fit into it go into datagrams of their own.
        """
        names = session.names
        assert names is not None  # The caller checks it.
        most = (body_bytes_max - len(buffer)) // DEFINITION_BYTES_MAX
        while len(numbers) > most:
            body = bytearray(buffer)
            names.write(body, numbers[:most])
            self._transmit(session, bytes(body), NO_FRAMES, False, now, out)
            numbers = numbers[most:]
        names.write(buffer, numbers)
