"""Loss detection: which datagrams to a peer were lost (RFC 9002, section 6).

A datagram that is not acknowledged is *lost* if one that was transmitted at least
``packet_threshold`` packets later is acknowledged, or any later one while it is older than
9/8 of a round trip. If nothing is acknowledged for the *probe timeout*, the node transmits
a probe; the acknowledgement of the probe shows what was lost. The timeout doubles with each
probe.

An acknowledgement may show that a datagram was not lost, but late. Then both thresholds
rise, so that a path that reorders datagrams does not cause more of these errors.
"""

from typing import Final

from antecede.core.codec import Frame
from antecede.core.process import NEVER, ProcessId
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.engine.acknowledgements import ACK_DELAY_MAX_S, AckBlock
from antecede.engine.round_trip import GRANULARITY_S, RoundTrip

__all__ = ["PACKET_THRESHOLD", "LossDetector", "SentPacket"]

PACKET_THRESHOLD: Final = 3
"""How many packets a datagram may be overtaken by (RFC 9002, section 6.1.1)."""
PACKET_THRESHOLD_MAX: Final = 256
TIME_MARGIN: Final = 0.125
"""The part of a round trip by which a datagram may be late (RFC 9002, section 6.1.2)."""
TIME_MARGIN_MAX: Final = 1.0
DOUBLINGS_MAX: Final = 10
"""How often the probe timeout doubles at most; the policy bounds it, too."""
LOST_MAX: Final = 256
"""How many lost packets are remembered, to recognise those that were only late."""
PROBED_PACKETS: Final = 2
"""From how many packets a probe timeout retransmits frames."""
CONTROL_PROBES_MAX: Final = 6
"""After how many probe timeouts in a row packets without messages are given up. The peer
asks again for what it misses, when it can be reached."""


class SentPacket:
    """A datagram that was transmitted and is not acknowledged."""

    __slots__ = (
        "acked_up_to",
        "frames",
        "is_counted",
        "is_marked",
        "number",
        "peer",
        "sent_at",
        "size",
    )

    number: int
    peer: ProcessId
    """The process id of the peer at that time."""
    frames: list[Frame]
    """Its frames; empty once they were retransmitted."""
    size: int
    is_counted: bool
    """It carries messages, so its bytes count as in flight."""
    is_marked: bool
    """It had the mark ECT(0)."""
    acked_up_to: int
    """The highest packet that its ack block has acknowledged."""
    sent_at: float

    def __init__(
        self,
        number: int,
        peer: ProcessId,
        frames: list[Frame],
        size: int,
        is_counted: bool,
        is_marked: bool,
        acked_up_to: int,
        sent_at: float,
    ) -> None:
        self.number = number
        self.peer = peer
        self.frames = frames
        self.size = size
        self.is_counted = is_counted
        self.is_marked = is_marked
        self.acked_up_to = acked_up_to
        self.sent_at = sent_at


class LossDetector:
    """The datagrams to one peer that are not acknowledged."""

    __slots__ = (
        "_largest_acked",
        "_last_sent_at",
        "_loss_at",
        "_lost",
        "_moved_at",
        "_policy",
        "_time_margin",
        "late",
        "packet_threshold",
        "probe_timeout_s",
        "probes",
        "round_trip",
        "sent",
        "spurious",
    )

    late: list[int]
    """The packets taken for lost that the last ack block has acknowledged."""
    sent: dict[int, SentPacket]
    """The packets in the order of their numbers."""
    probe_timeout_s: float
    """How long to wait for an acknowledgement, without the doublings."""
    probes: int
    """How many probe timeouts have expired since the last acknowledgement."""
    spurious: int
    """How many packets were late that had been taken for lost."""

    def __init__(self, policy: RetransmissionPolicy) -> None:
        self._policy = policy
        self.round_trip = RoundTrip()
        self.sent = {}
        self._lost: dict[int, int] = {}
        self._largest_acked = 0
        self._last_sent_at = 0.0
        self._loss_at = NEVER
        self._time_margin = TIME_MARGIN
        self.packet_threshold = PACKET_THRESHOLD
        self.probe_timeout_s = policy.initial_s
        self.probes = 0
        self.spurious = 0
        self.late = []
        self._moved_at = -NEVER

    def move(self, now: float) -> None:
        """Begin on another path: the packets in flight do not measure its round trip.

        If the peer did not answer on the former path, a probe is due now.
        """
        self._moved_at = now
        self.round_trip = RoundTrip()
        if self.probes > 0:
            self.probes = 0
            self._last_sent_at = -NEVER

    def sample(self, sample_s: float, ack_delay_s: float) -> None:
        """Use the time until a datagram was acknowledged, or a handshake answered.

        A delay beyond the one that nodes keep to is a part of the round trip (RFC 9002,
        section 5.3): the peer is busy, or an earlier acknowledgement was lost.
        """
        self.round_trip.sample(sample_s, min(ack_delay_s, ACK_DELAY_MAX_S))
        timeout_s = self.round_trip.timeout_s(ACK_DELAY_MAX_S)
        self.probe_timeout_s = max(timeout_s, self._policy.minimum_s)

    def record(self, packet: SentPacket) -> None:
        """Expect the acknowledgement of a packet; its number is the highest so far."""
        self.sent[packet.number] = packet
        self._last_sent_at = packet.sent_at

    def acknowledge(self, block: AckBlock, now: float) -> list[SentPacket]:
        """Remove and return the packets that an ack block acknowledges, in order."""
        ranges = block.ranges
        largest = block.largest
        acked: list[SentPacket] = []
        if self.late:
            self.late = []
        index = len(ranges) - 1
        for number, packet in self.sent.items():
            if number > largest:
                break
            while number > ranges[index][1]:
                index -= 1
            if number >= ranges[index][0]:
                acked.append(packet)
        if self._lost:
            self._find_spurious(ranges)
        if not acked:
            return acked
        for packet in acked:
            del self.sent[packet.number]
        newest = acked[-1]
        self._largest_acked = max(self._largest_acked, newest.number)
        self.probes = 0
        if newest.number == largest and newest.sent_at > self._moved_at:
            self.sample(now - newest.sent_at, block.delay_s)
        return acked

    def _find_spurious(self, ranges: list[tuple[int, int]]) -> None:
        """Raise the thresholds if a packet that was taken for lost has arrived."""
        for low, high in ranges:
            for number in [number for number in self._lost if low <= number <= high]:
                overtaken = self._lost.pop(number) - number + 1
                threshold = min(max(self.packet_threshold, overtaken), PACKET_THRESHOLD_MAX)
                self.packet_threshold = threshold
                self._time_margin = min(2 * self._time_margin, TIME_MARGIN_MAX)
                self.late.append(number)
                self.spurious += 1

    def detect(self, now: float) -> list[SentPacket]:
        """Remove and return the packets that are lost at ``now``, in order."""
        if not self.sent:
            self._loss_at = NEVER
            return []
        round_trip = self.round_trip
        longest_s = max(round_trip.latest_s, round_trip.smoothed_s)
        if round_trip.smoothed_s < 0:
            longest_s = self._policy.initial_s
        delay_s = max((1 + self._time_margin) * longest_s, GRANULARITY_S)
        largest = self._largest_acked
        threshold = self.packet_threshold
        self._loss_at = NEVER
        lost: list[SentPacket] = []
        for number, packet in self.sent.items():
            if number > largest:
                break
            if largest - number < threshold and packet.sent_at + delay_s > now:
                self._loss_at = packet.sent_at + delay_s
                break
            lost.append(packet)
        for packet in lost:
            del self.sent[packet.number]
            self._lost[packet.number] = largest
            if len(self._lost) > LOST_MAX:
                del self._lost[next(iter(self._lost))]
        return lost

    @property
    def deadline(self) -> float:
        """When to call :meth:`detect` or :meth:`probe`; infinite for never."""
        if not self.sent:
            return NEVER
        if self._loss_at < NEVER:
            return self._loss_at
        timeout_s = self.probe_timeout_s
        if self.probes > 0:
            timeout_s *= 1 << min(self.probes, DOUBLINGS_MAX)
        return self._last_sent_at + min(timeout_s, self._policy.maximum_s)

    @property
    def is_probe_due(self) -> bool:
        """Whether the deadline is that of a probe."""
        return self._loss_at == NEVER and bool(self.sent)

    def probe(self, now: float) -> list[SentPacket]:
        """Return the packets of which a probe retransmits the frames.

        They stay in flight: their acknowledgements may be late. The caller retransmits the
        frames, or transmits a datagram without frames that asks for an answer.
        """
        self.probes += 1
        self._last_sent_at = now
        with_frames = [packet for packet in self.sent.values() if packet.frames]
        with_messages = [packet for packet in with_frames if packet.is_counted]
        return (with_messages or with_frames)[:PROBED_PACKETS]

    @property
    def is_probing_in_vain(self) -> bool:
        """Whether the peer does not answer, and no packet in flight carries messages."""
        return self.probes >= CONTROL_PROBES_MAX and not any(
            packet.is_counted for packet in self.sent.values()
        )

    def clear(self) -> list[SentPacket]:
        """Remove and return all packets: the peer will acknowledge none of them."""
        packets = list(self.sent.values())
        self.sent.clear()
        self._lost.clear()
        self._loss_at = NEVER
        self.probes = 0
        return packets
