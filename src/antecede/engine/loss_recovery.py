"""Recovers what was lost: reports lost frames to the process, and runs the path timers."""

from antecede.core.process import NEVER
from antecede.engine.datagram import (
    CARRY,
    CHALLENGE,
    DATA,
    PIECE,
    PROBE,
    RESPONSE,
    UNORDERED,
)
from antecede.engine.ecn import CE, ECT
from antecede.engine.keep_alive import KeepAlive
from antecede.engine.loss_detection import SentPacket
from antecede.engine.peer_session import ACTIVE, PeerSession
from antecede.engine.process_driver import ProcessDriver
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.session_layer import SessionLayer
from antecede.engine.statistics import EngineStats
from antecede.engine.transmitter import Transmitter
from antecede.engine.unordered import UnorderedMessages

__all__ = ["LossRecovery"]


class LossRecovery:
    """The recovery of one node from losses on the paths to its peers.

    What was lost is not the datagram but its frames. The process says what is still true of
    them: an acked message is not transmitted again, and an old permit is replaced.

    Args:
        layer: the sessions.
        driver: drives the process.
        transmitter: transmits what the process says.
    """

    __slots__ = (
        "_driver",
        "_keep_alive",
        "_layer",
        "_transmitter",
        "lost",
        "marks",
        "probes",
        "unordered",
    )

    lost: int
    """How many datagrams with frames were taken for lost."""
    marks: int
    """The number of times that peers reported marks."""
    probes: int
    """How many probe timeouts have expired."""
    unordered: UnorderedMessages

    def __init__(
        self, layer: SessionLayer, driver: ProcessDriver, transmitter: Transmitter
    ) -> None:
        self._layer = layer
        self._driver = driver
        self._transmitter = transmitter
        self._keep_alive = KeepAlive(layer, transmitter)
        self.unordered = UnorderedMessages(layer, driver, transmitter)
        self.lost = 0
        self.marks = 0
        self.probes = 0

    def receive_acks(self, received: ReceivedDatagram, now: float) -> None:
        """Use the ack block of a datagram."""
        session = received.session
        path = session.path
        if received.introduction is not None:
            self._keep_alive.start(session, now)
            self._transmitter.path_timers.schedule(session)
            self.unordered.retry(now)
        if path.orphans:
            self._report_orphans(session, now)
        acks = received.acks
        if acks is None:
            return
        if acks.largest > session.last_packet or (
            session.skipped and acks.names_any(session.skipped)
        ):
            self._layer.dropped["false_ack"] += 1
            path.distrust()
            return
        marks = path.marks
        lost = path.receive_acks(acks, now)
        self.marks += path.marks - marks
        if lost:
            self._report(lost, now)
        if session.outbox.is_holding:
            self._transmitter.schedule(session)
        if self.unordered.has_waiting:
            self.unordered.retry(now)

    def receive(self, received: ReceivedDatagram, now: float) -> bool:
        """Process a datagram; return whether its kind is one of those that paths use."""
        kind = received.kind
        if kind == DATA:
            self.receive_frames(received, now)
        elif kind == PROBE:
            self.acknowledge(received, received.packet, now)
        elif kind == CARRY:
            self.acknowledge(received, received.packet, now)
            self._transmitter.carrier.receive(received)
        elif kind == PIECE:
            self.receive_piece(received, now)
        elif kind == UNORDERED:
            self.unordered.receive(received, now)
            self.acknowledge(received, received.packet, now)
        elif kind == RESPONSE:  # A new path may have to be probed at once.
            self._transmitter.path_timers.schedule(received.session)
        return kind in (DATA, PROBE, PIECE, UNORDERED) or kind >= CHALLENGE

    def receive_frames(self, received: ReceivedDatagram, now: float) -> None:
        """Process a DATA datagram, and acknowledge it if no frame was dropped."""
        session = received.session
        acks = received.acks
        if acks is not None and self._driver.receive_frames(
            session, received.body, acks.end, now
        ):
            self.acknowledge(received, received.packet, now)

    def receive_piece(self, received: ReceivedDatagram, now: float) -> None:
        """Process a PIECE datagram, and the frame if it is complete.

        The pieces are acknowledged with the last one, if the frame was not dropped.
        """
        acks = received.acks
        if acks is None:
            return
        session = received.session
        waiting = session.path.pieces.add(received.body, acks.end, received.packet)
        if waiting is None:
            self._layer.dropped["malformed"] += 1
            return
        frame = waiting.frame
        if frame is not None and self._driver.receive_frames(session, frame, 0, now):
            for packet in waiting.packets:
                self.acknowledge(received, packet, now)

    def acknowledge(self, received: ReceivedDatagram, packet: int, now: float) -> None:
        """Acknowledge a packet in later ack blocks, or soon if the packet asks for it."""
        session = received.session
        acks = received.acks
        if acks is not None:
            session.path.arrived.record(packet, acks.asks, now)
            if received.mark == CE or received.mark == ECT:
                session.path.arrived.record_mark(received.mark == CE)
            if session.path.arrived.due < session.path.queued_at:
                self._transmitter.path_timers.schedule(session)

    def stats(self, datagrams_in: int, pending: int) -> EngineStats:
        """Return the counters of the engine.

        Args:
            datagrams_in: the datagrams that it has received.
            pending: the messages of its pending bundle.
        """
        driver = self._driver
        return EngineStats(
            sent=driver.sent + pending,
            released=driver.released,
            retransmitted=driver.retransmitted,
            delivered=driver.deliveries.count,
            control_frames=driver.control_frames,
            datagrams_in=datagrams_in,
            datagrams_out=self._transmitter.datagrams,
            lost=self.lost,
            probes=self.probes,
            marks=self.marks,
            dropped=dict(self._layer.dropped),
        )

    def _report(self, lost: list[SentPacket], now: float) -> None:
        for packet in lost:
            frames = packet.frames
            if frames:
                self.lost += 1
                packet.frames = []
                self._driver.report_lost(packet.peer, frames, packet.sent_at, now)

    def _report_orphans(self, session: PeerSession, now: float) -> None:
        orphans = session.path.orphans
        session.path.orphans = []
        self._report(orphans, now)

    def next_deadline(self) -> float:
        """Return when :meth:`handle_deadlines` is due next; infinite for never."""
        paths = self._transmitter.path_timers.next_deadline()
        return min(paths, self._keep_alive.next_deadline())

    def handle_deadlines(self, now: float) -> None:
        """Detect losses, probe silent peers, and transmit all frames that are due."""
        if self._keep_alive.next_deadline() <= now:
            self._keep_alive.handle_deadlines(now)
        for session in self._transmitter.path_timers.pop_due(now):
            path = session.path
            if session.state is not ACTIVE or not self._layer.can_transmit(session, now):
                path.arrived.due = NEVER
                path.unblock()
                path.give_up()
                self._report_orphans(session, now)
                continue
            lost, probed = path.handle_timer(now)
            self._report(lost, now)
            if probed:
                self._report(probed, now)
            if path.wants_answer:
                self.probes += 1
                self._layer.silence.expect_answer(session, now)
            self._transmitter.schedule(session)
            self._transmitter.path_timers.schedule(session)
        if self.unordered.has_waiting:
            self.unordered.retry(now)
