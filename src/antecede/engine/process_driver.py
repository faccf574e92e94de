"""Drives the protocol's process: frames in, frames to outboxes, deliveries to the inbox."""

from collections.abc import Sequence
from typing import Final

from antecede.core.codec import NO_PROCESS, Frame, Reader
from antecede.core.observer import Observer
from antecede.core.process import ProcessBase, ProcessId, Transmit
from antecede.core.registry import ProtocolInfo
from antecede.engine.bundle import count_messages, observed_frames
from antecede.engine.deliveries import Deliveries
from antecede.engine.entry_names import EntryNames
from antecede.engine.gaps import Gaps
from antecede.engine.journal_recorder import JournalRecorder
from antecede.engine.outbox import NO_KEY, message_key
from antecede.engine.peer_session import ACTIVE, REMOVED, REMOVING, PeerSession
from antecede.engine.session_layer import SessionLayer
from antecede.engine.session_opener import SessionOpener
from antecede.engine.transmitter import Transmitter
from antecede.errors import PeerError

__all__ = ["UNREADY_FRAMES_MAX", "ProcessDriver"]

UNREADY_FRAMES_MAX: Final = 4096
"""How many frames an outbox holds for a peer that nothing can be transmitted to yet."""


class ProcessDriver:
    """The process of a node, with the sessions that its frames come from and go to."""

    __slots__ = (
        "_directory",
        "_flow",
        "_info",
        "_journal",
        "_layer",
        "_observer",
        "_transmitter",
        "_wall_offset_s",
        "_windows",
        "by_id",
        "control_frames",
        "deliveries",
        "entry_names",
        "gaps",
        "is_observed",
        "process",
        "released",
        "retransmitted",
        "sent",
        "session_opener",
    )

    by_id: dict[ProcessId, PeerSession]
    """The sessions by process id, those of former histories included."""

    def __init__(
        self,
        process: ProcessBase,
        info: ProtocolInfo,
        layer: SessionLayer,
        transmitter: Transmitter,
        journal: JournalRecorder,
        message_bytes_max: int,
        observer: Observer | None,
        wall_offset_s: float,
        entry_names: EntryNames | None,
    ) -> None:
        self.process = process
        self.entry_names = entry_names
        self.session_opener: SessionOpener | None = None
        overlay = process.overlay
        self._directory = overlay.directory if overlay is not None else None
        self._windows = process.windows
        self._flow = layer.flow
        self._info = info
        self._layer = layer
        self._transmitter = transmitter
        self._journal = journal
        self._observer = observer
        self.is_observed = observer is not None
        self._wall_offset_s = wall_offset_s
        self.by_id = {}
        self.gaps = Gaps(process, layer.events)
        self.deliveries = Deliveries(
            process.id,
            self.by_id,
            layer,
            journal,
            message_bytes_max,
            observer,
            wall_offset_s,
            entry_names,
            self._directory,
        )
        self.sent = 0
        self.released = 0
        self.retransmitted = 0
        self.control_frames = 0

    def name_of(self, id: ProcessId) -> str:
        """Return the name of the node with a process id."""
        if self._directory is not None and self._directory.knows(id):
            return self._directory.identity(id)[0]
        session = self.by_id.get(id)
        return session.name if session is not None else self._layer.name

    def send(
        self,
        ids: list[ProcessId],
        payload: bytes,
        now: float,
        targets: Sequence[str] = (),
    ) -> int:
        """Send a payload and return its number; the names are for the journal."""
        number = self.process.send(ids, payload, now)
        self.sent += 1
        writer = self._journal.writer
        if writer is not None:
            writer.record_sent(number, targets, payload)
        self.record_sent(number, ids, now)
        self.drain(now)
        return number

    def broadcast(self, payload: bytes, now: float) -> int:
        """Broadcast a payload and return its number; the protocol must have broadcast.

        The node delivers its own message to its application only if the protocol orders it
        among the messages of the other nodes.
        """
        number = self.process.broadcast(payload, now)
        self.sent += 1
        self.record_sent(number, None, now)
        if not self._info.capabilities.total_order:
            self.deliveries.record_own(self.process.messages_to_deliver(), now)
        self.drain(now)
        return number

    def send_bundle(self, id: ProcessId, payload: bytes, count: int, now: float) -> None:
        """Send messages whose sends are recorded; without a journal only."""
        self.process.send_bundle([id], payload, count, now)
        self.sent += count
        self.drain(now)

    def record_sent(self, number: int, ids: list[ProcessId] | None, now: float) -> None:
        """Report to the observer that the application sent a message.

        The ids are those of the targets; None for a broadcast.
        """
        if self._observer is not None:
            self._observer.sent(self.process.id, number, ids, now + self._wall_offset_s)

    def receive_frames(
        self, session: PeerSession, body: bytes, start: int, now: float
    ) -> bool:
        """Pass the frames of a DATA datagram, from position ``start``, to the process.

        Return False if one was dropped that the peer has to transmit again.
        """
        dropped = self._layer.dropped
        if session.state is REMOVED or (session.is_link and start < len(body)):
            dropped["removed"] += 1
            self._layer.faults.removed_peer(session, now)
            return False
        is_complete = True
        refuse_messages = session.state is REMOVING or self._flow.refuses(session)
        process = self.process
        read_frame = self._info.read_frame
        observer = self._observer
        if self._directory is not None:
            observer = None  # A frame names its source by an id of the peer.
        reader = Reader(body, start)
        end = len(body)
        entry_names = self.entry_names
        names = session.names
        if names is not None and reader.position < end:
            try:
                names.read(reader)
            except PeerError:
                dropped["malformed"] += 1
                return False
        while reader.position < end:
            try:
                frame = read_frame(reader)
            except PeerError:
                dropped["frame"] += 1
                break  # The start of the next frame is unknown.
            if entry_names is not None and names is not None:
                try:
                    entry_names.dependencies.translate(frame, names)
                except PeerError:
                    dropped["names"] += 1
                    is_complete = False
                    continue
            if refuse_messages and self._refuses(session, frame.message_number()):
                dropped["removed" if session.state is REMOVING else "inbox"] += 1
                is_complete = False
                continue
            try:
                process.receive(session.id, frame, now)
            except PeerError:
                dropped["frame"] += 1
                if message_key(frame) != NO_KEY:
                    is_complete = False
                continue
            if observer is not None:
                for seen in observed_frames(frame):
                    observer.arrived(
                        process.id, session.id, seen, now + self._wall_offset_s
                    )
        self.drain(now)
        return is_complete

    def report_lost(
        self, id: ProcessId, frames: list[Frame], sent_at: float, now: float
    ) -> None:
        """Tell the process that frames were lost which were transmitted at ``sent_at``."""
        process = self.process
        for frame in frames:
            process.frame_lost(id, frame, sent_at, now)
        self.drain(now)

    def _refuses(self, session: PeerSession, number: int) -> bool:
        """Return whether to drop a message; duplicates are acked while the inbox is full.

        A frame with the number 0 is not a message.
        """
        recovery = self.process.recovery
        if session.state is REMOVING or self._flow.drops_duplicates or recovery is None:
            return number > 0
        _, _, delivered, _ = recovery.channel_numbers(session.id)
        return number > delivered

    def apply_window(self, session: PeerSession, window: int, now: float) -> None:
        """Transmit within a window of a peer from now on; -1 stands for the one before."""
        if window < 0:
            window = session.window  # If it is still closed, ask again.
        if self._windows is None or window < 0 or window == session.window > 0:
            return
        session.window = window
        if window > 0:
            self._layer.timers.window_opened(session, now)
        self._windows.set_window(session.id, window, now)
        self.drain(now)

    def drain(self, now: float) -> None:
        """Move the outputs of the process to the inbox, and then to the outboxes."""
        deliveries = self.process.messages_to_deliver()
        if deliveries:
            self.deliveries.add(deliveries, now)
        if self.entry_names is not None:
            self._journal.record_entries(self.entry_names)
        transmits = self.process.frames_to_transmit()
        if transmits:
            if self.session_opener is not None:
                self.session_opener.open_for(transmits, now)
            self._transmit(transmits, now)
        windows = self._windows
        if windows is not None and windows.has_blocked_peers:
            for id in windows.blocked_peers():  # noqa: A001 (the word for it)
                session = self._active_session(id)
                if session is not None:
                    self._layer.timers.schedule_probe(session, now)

    def _active_session(self, id: ProcessId) -> PeerSession | None:
        """Return the session with an active peer in its current history."""
        session = self.by_id.get(id)
        if session is None or session.state is not ACTIVE or session.id != id:
            return None
        return session

    def _transmit(self, transmits: list[Transmit], now: float) -> None:
        """Move frames to the outboxes."""
        observer = self._observer
        target = NO_PROCESS
        session: PeerSession | None = None
        can_transmit = False
        for transmit in transmits:
            if transmit.target != target:  # Most frames go where the one before went.
                target = transmit.target
                session = self._active_session(transmit.target)
                can_transmit = session is not None and self._layer.can_transmit(
                    session, now
                )
            if session is None or (
                not can_transmit and not self._can_wait(session, transmit, now)
            ):
                continue
            frame = transmit.frame
            is_again = transmit.is_retransmission
            if is_again:
                self.retransmitted += count_messages(frame)
            elif frame.message_number() > 0:
                self.released += count_messages(frame)
            else:
                self.control_frames += 1
            if observer is not None:
                for seen in observed_frames(frame):
                    observer.transmitted(
                        self.process.id,
                        Transmit(transmit.target, seen, is_again),
                        now + self._wall_offset_s,
                    )
            self._transmitter.add(session, frame, is_again)

    def _can_wait(self, session: PeerSession, transmit: Transmit, now: float) -> bool:
        """Return whether a frame waits in the outbox of a peer that must answer first.

        Each message waits there once. Other frames that are retransmitted wait only if
        nothing else does, because they would be repeated with each timeout.
        """
        outbox = session.outbox
        if transmit.is_retransmission:
            self._layer.timers.schedule_hello(session, now)
        if outbox.size >= UNREADY_FRAMES_MAX:
            return False
        number = transmit.frame.message_number()
        if number <= 0:
            return not transmit.is_retransmission or not outbox.frames
        message = (transmit.frame.message_source(), number)
        if message in outbox.waiting:
            return False
        outbox.waiting[message] = None
        return True
