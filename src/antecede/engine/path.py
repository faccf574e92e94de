"""The path to one peer: what is in flight on it, and what may be transmitted now.

A path joins the parts of the transport: the packets that have arrived
(:mod:`antecede.engine.acknowledgements`), the packets that were lost
(:mod:`antecede.engine.loss_detection`), the congestion window
(:mod:`antecede.engine.congestion`), the pacer (:mod:`antecede.engine.pacer`) and the size
of datagrams (:mod:`antecede.engine.path_mtu`). Only packets with messages count as in
flight: acks and handshakes are never held back.
"""

from typing import Final

from antecede.core.codec import Frame
from antecede.core.process import NEVER, UNBOUNDED, ProcessId
from antecede.engine.acknowledgements import AckBlock, AckHistory
from antecede.engine.congestion import CongestionController, FixedWindow, NewReno
from antecede.engine.cubic import Cubic
from antecede.engine.ecn import Ecn
from antecede.engine.limits import Limits
from antecede.engine.loss_detection import PROBED_PACKETS, LossDetector, SentPacket
from antecede.engine.pacer import Pacer
from antecede.engine.path_mtu import PathMtu
from antecede.engine.pieces import PieceBuffer, PieceWriter
from antecede.engine.reduction import Reduction

__all__ = ["Path"]

UNACKNOWLEDGED_MAX: Final = 4096
"""How many packets without acknowledgement are remembered, except those with messages."""
PERSISTENT_TIMEOUTS: Final = 3
"""For how many probe timeouts everything must be lost to collapse the window (RFC 9002,
section 7.6.1)."""


def _make_controller(name: str, datagram_bytes: int) -> CongestionController:
    if name == "cubic":
        return Cubic(datagram_bytes)
    return NewReno(datagram_bytes) if name == "newreno" else FixedWindow()


class Path:
    """The path to one peer.

    Args:
        limits: the limits of the node.
    """

    __slots__ = (
        "_last_sent_at",
        "_moved_at",
        "_pacer",
        "_probe_datagrams",
        "_reduction",
        "arrived",
        "controller",
        "datagram_bytes",
        "ecn",
        "in_flight",
        "is_blocked",
        "is_distrusted",
        "limits",
        "losses",
        "lost_packets",
        "marks",
        "mtu",
        "orphans",
        "paced_at",
        "piece_writer",
        "pieces",
        "queued_at",
        "wants_answer",
    )

    arrived: AckHistory
    losses: LossDetector
    limits: Limits
    controller: CongestionController
    mtu: PathMtu
    ecn: Ecn
    pieces: PieceBuffer
    piece_writer: PieceWriter
    datagram_bytes: int
    """The largest datagram that the path is known to carry."""
    in_flight: int
    """The bytes of the packets with messages that are not acknowledged."""
    is_blocked: bool
    """Messages wait in the outbox for the window or the pacer."""
    is_distrusted: bool
    """The peer has acknowledged packets that were not transmitted: the window stays."""
    paced_at: float
    """When the pacer lets the next of these leave; infinite for none."""
    queued_at: float
    """The earliest entry of the path in the timers; infinite for none."""
    wants_answer: bool
    """A probe is due, even if there is no frame to transmit."""
    orphans: list[SentPacket]
    """The packets to a former incarnation of the peer, until their loss is reported."""
    lost_packets: int
    """How many packets were lost so far."""
    marks: int
    """The number of times that the peer reported marks of queues."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.mtu = PathMtu(limits.base_bytes, limits.datagram_bytes_max)
        self.datagram_bytes = self.mtu.size
        self.arrived = AckHistory()
        self.losses = LossDetector(limits.policy)
        self.controller = _make_controller(limits.congestion_control, self.datagram_bytes)
        self._pacer = Pacer(self.datagram_bytes)
        self.pieces = PieceBuffer()
        self.piece_writer = PieceWriter()
        self._probe_datagrams = 0  # How many datagrams may exceed the window.
        self._last_sent_at = self._moved_at = -NEVER
        self._reduction = Reduction()
        self.in_flight = 0
        self.is_blocked = False
        self.is_distrusted = False
        self.paced_at = NEVER
        self.queued_at = NEVER
        self.wants_answer = False
        self.orphans = []
        self.lost_packets = 0
        self.marks = 0
        self.ecn = Ecn(self._reacts_to_marks)

    @property
    def _reacts_to_marks(self) -> bool:
        return self.limits.ecn and self.limits.congestion_control != "fixed"

    def restart(self) -> None:
        """Begin anew: the peer has restarted, and acknowledges nothing from before."""
        self.arrived.reset()
        self.pieces.clear()
        self.give_up()
        self.is_distrusted = False
        self.ecn = Ecn(self._reacts_to_marks)
        self._start()

    def move(self, now: float) -> None:
        """Begin anew on another path to the same incarnation (RFC 9000, section 9.4)."""
        self._moved_at = now
        self.losses.move(now)
        self.ecn.move()
        self._start()

    def _start(self) -> None:
        limits = self.limits
        self.mtu = PathMtu(limits.base_bytes, limits.datagram_bytes_max)
        self.controller = _make_controller(limits.congestion_control, self.mtu.size)
        self._resize()

    def distrust(self) -> None:
        """Reduce the window to its minimum for good, after a false acknowledgement."""
        self.is_distrusted = True
        self.controller.on_persistent_congestion()

    def give_up(self) -> None:
        """Treat all packets as lost: the peer will not acknowledge them."""
        self.orphans += self.losses.clear()
        self.mtu.forget_probe()
        self.in_flight = 0
        self._probe_datagrams = 0
        self.wants_answer = False

    def learn_round_trip(self, round_trip_s: float) -> None:
        """Use the round trip of a handshake, if there is no sample yet."""
        if self.losses.round_trip.smoothed_s < 0:
            self.losses.sample(round_trip_s, 0.0)

    # Transmitting.

    def has_room(self, now: float) -> bool:
        """Return whether a datagram with messages may leave now.

        If not, note that messages wait, and when the pacer lets them go.
        """
        if self._probe_datagrams > 0:
            return True
        if self.in_flight == 0:
            return True
        controller = self.controller
        datagram_bytes = self.datagram_bytes
        if self.in_flight + datagram_bytes > controller.window:
            self.is_blocked = True
            return False
        round_trip_s = self.losses.round_trip.smoothed_s
        if controller.is_paced and round_trip_s > 0:
            pacer = self._pacer
            if pacer.tokens(controller.window, round_trip_s, now) < datagram_bytes:
                self.is_blocked = True
                self.paced_at = pacer.ready_at(now)
                return False
        return True

    def has_room_for(self, size: int) -> bool:
        """Return whether a frame in pieces may be transmitted, even beyond the window.

        The window may be smaller than the frame, so a frame may be transmitted alone.
        """
        if self.in_flight == 0 or self.in_flight + size <= self.controller.window:
            return True
        self.is_blocked = True
        return False

    def room(self) -> int:
        """Return how many bytes of messages the window still allows."""
        if self._probe_datagrams > 0:
            return self._probe_datagrams * self.datagram_bytes
        return max(self.controller.window - self.in_flight, 0)

    def unblock(self) -> None:
        """Note that no message waits in the outbox any more."""
        self.is_blocked = False
        self.paced_at = NEVER

    def record_sent(
        self,
        number: int,
        peer: ProcessId,
        frames: list[Frame],
        size: int,
        is_counted: bool,
        now: float,
    ) -> None:
        """Expect the acknowledgement of a datagram."""
        losses = self.losses
        if is_counted:
            idle_s = now - self._last_sent_at
            if self.in_flight == 0 and idle_s > losses.probe_timeout_s:
                self.controller.on_idle()
            self._last_sent_at = now
            self.in_flight += size
            self._pacer.spend(size)
            if self._probe_datagrams > 0:
                self._probe_datagrams -= 1
        self.wants_answer = False
        if not is_counted and len(losses.sent) >= UNACKNOWLEDGED_MAX:
            return  # The peer acknowledges nothing, and asks for answers all the same.
        losses.record(
            SentPacket(
                number,
                peer,
                frames,
                size,
                is_counted,
                self.ecn.is_marking,
                self.arrived.largest,
                now,
            )
        )

    # Receiving.

    def receive_acks(self, block: AckBlock, now: float) -> list[SentPacket]:
        """Use an ack block, and return the packets that it shows to be lost."""
        losses = self.losses
        if block.largest == 0:
            return []
        acked = losses.acknowledge(block, now)
        late = losses.late
        if late and not self.is_distrusted and self._reduction.is_mistaken(late):
            self.controller.on_spurious_loss()
        if not acked:
            return []
        mtu = self.mtu
        if mtu.probe_number > 0 and mtu.probe_number not in losses.sent:
            mtu.probe_acknowledged(now)
            self._resize()
        elif mtu.raise_at <= now:
            mtu.try_again()
        if mtu.size > mtu.base:
            for packet in acked:
                if packet.size > mtu.base:
                    mtu.datagram_acknowledged(packet.size, packet.sent_at)
        self._probe_datagrams = 0
        window = self.controller.window
        in_flight = self.in_flight
        size = marked = 0
        sent_at = 0.0
        for packet in acked:
            if packet.is_marked:
                marked += 1
            if packet.acked_up_to > 0:
                self.arrived.forget(packet.acked_up_to)
            if packet.is_counted:
                size += packet.size
                sent_at = packet.sent_at
        self.in_flight = in_flight - size
        lost = losses.detect(now)
        if lost:
            self._lose(lost, acked, now)
        newest = acked[-1]
        is_newest = newest.number == block.largest
        if self.ecn.acknowledge(block, marked, is_newest, now):
            self.marks += 1
            if newest.sent_at > self._moved_at:
                self.controller.on_marked(newest.sent_at, now)
        # After losses and marks, so that these do not enlarge the window first.
        if size > 0 and sent_at > self._moved_at and not self.is_distrusted:
            # What waits for the pacer alone would not have filled a much larger window.
            needed = window // 2 if self.is_blocked else window - self.datagram_bytes + 1
            smoothed_s = losses.round_trip.smoothed_s
            self.controller.on_acked(size, sent_at, smoothed_s, in_flight >= needed, now)
        return lost

    def _lose(self, lost: list[SentPacket], acked: list[SentPacket], now: float) -> None:
        """Reduce the window for lost packets, while others were acknowledged."""
        first_at = NEVER
        last_at = -NEVER
        for packet in lost:
            if packet.is_counted:
                self.in_flight -= packet.size
                if packet.sent_at > self._moved_at:
                    first_at = min(first_at, packet.sent_at)
                    last_at = packet.sent_at
        self._check_size(lost, now)
        if last_at > -NEVER:
            self.lost_packets += len(lost)
            self._reduction.add(lost, last_at, now)
            self.controller.on_lost(last_at, now)
            period_s = PERSISTENT_TIMEOUTS * self.losses.probe_timeout_s
            if last_at - first_at >= period_s and not any(
                first_at < packet.sent_at < last_at for packet in acked
            ):
                self.controller.on_persistent_congestion()
                self.losses.round_trip.forget_shortest()

    # The size of datagrams.

    @property
    def usable_bytes(self) -> int:
        """The largest datagram to transmit now: the base size while no answer arrives."""
        return self.datagram_bytes if self.losses.probes == 0 else self.mtu.base

    def _check_size(self, lost: list[SentPacket], now: float) -> None:
        """Continue the search after a lost probe; use smaller datagrams if needed."""
        mtu = self.mtu
        if mtu.probe_number > 0 and mtu.probe_number not in self.losses.sent:
            mtu.probe_lost(now)
        if mtu.size > mtu.base:
            for packet in lost:
                if packet.is_counted and packet.size > mtu.base:
                    mtu.datagram_lost(packet.size, packet.sent_at, now)
            self._resize()

    def refuse_size(self, size: int, now: float) -> None:
        """Use smaller datagrams than the one that the socket has refused."""
        if self.mtu.refused(size, now):
            self._resize()

    def _resize(self) -> None:
        """Use the size that the path carries."""
        size = self.mtu.size
        self.datagram_bytes = size
        self.controller.datagram_bytes = size
        self._pacer.datagram_bytes = size

    # Time.

    @property
    def deadline(self) -> float:
        """When to call :meth:`handle_timer`; infinite for never."""
        deadline = min(self.losses.deadline, self.arrived.due)  # min() of three is slow.
        return min(deadline, self.paced_at)

    def handle_timer(self, now: float) -> tuple[list[SentPacket], list[SentPacket]]:
        """Return the packets that are lost, and those that a probe repeats.

        Then transmit what is due: the frames of both, an ack block, what waits for the
        pacer, or a datagram without frames that asks for an answer.
        """
        if self.paced_at <= now:
            self.paced_at = NEVER
        losses = self.losses
        if losses.deadline > now:
            return [], []
        if not losses.is_probe_due:
            lost = losses.detect(now)
            self._lose(lost, [], now)
            return lost, []
        if losses.is_probing_in_vain:
            losses.clear()
            self.mtu.forget_probe()
            return [], []
        probed = losses.probe(now)
        self.ecn.probe_expired(losses.probes, now)
        self._probe_datagrams = PROBED_PACKETS
        self.wants_answer = True
        return [], probed

    @property
    def is_ack_due(self) -> bool:
        """Whether the peer waits for an ack block."""
        return self.arrived.due < NEVER

    @property
    def window(self) -> int:
        """The congestion window in bytes; UNBOUNDED without congestion control."""
        return min(self.controller.window, UNBOUNDED)
