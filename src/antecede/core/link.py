"""The link layer: exactly-once delivery between pairs, for protocols that assume it.

A protocol that needs reliable channels is wrapped in :class:`ReliableLink`. Each frame that
it transmits becomes a *segment*, numbered from 1 for each ordered pair of processes, and is
retransmitted until it is acked; duplicates are dropped. A FIFO link passes segments to the
protocol in the order of their numbers, an unordered link as they arrive.

The link is as good as the one that hybrid buffering has built in: any number of segments
may be in flight, timeouts follow the measured round trip
(:mod:`antecede.core.support.retransmission`), and an ack is cumulative and also names the
segment that arrived, so that no segment in the peer's reorder buffer is retransmitted. A
segment that is transmitted in the same step carries the ack. If the network is declared
reliable, there is no link layer.

Segments to a peer that the overlay has disconnected are dropped if several timeouts in a
row bring no ack. Later segments name the last dropped one, so that the peer does not wait
for it. A FIFO link then also discards the segments that it holds behind a dropped one: the
protocol gets the start of what was transmitted before the drop, never a part with a gap.
"""

from collections.abc import Iterable
from typing import Final

from antecede.core.codec import Frame
from antecede.core.link_frames import LinkAck, Segment
from antecede.core.overlay_links import OverlayLinks
from antecede.core.process import (
    UNBOUNDED,
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
)
from antecede.core.support.retransmission import (
    RetransmissionPolicy,
    RetransmissionTimer,
    SharedRttEstimate,
    TimerQueue,
)
from antecede.core.support.sliding import SlidingArray
from antecede.errors import LocalError, PeerError

__all__ = ["TIMEOUTS_MAX", "ReliableLink"]

TIMEOUTS_MAX: Final = 5
"""Timeouts without an ack after which the segments to a disconnected peer are dropped."""


class _Unacked:
    """A frame in flight."""

    __slots__ = ("arrived", "frame", "retransmitted", "transmitted_at")

    def __init__(self, frame: Frame, now: float) -> None:
        self.frame = frame
        self.transmitted_at = now
        self.arrived = False  # Whether it is in the peer's reorder buffer.
        self.retransmitted = False  # If so, its ack is not a round-trip sample.


class _Channel:
    """Both directions between this process and one peer."""

    __slots__ = (
        "arrived",
        "dropped",
        "early",
        "id",
        "in_flight",
        "is_disconnected",
        "received",
        "reorder_buffer",
        "timeouts",
        "timer",
    )

    def __init__(self, id: ProcessId, rtt_estimate: SharedRttEstimate) -> None:
        self.id = id
        # Sending: the segment at index i has the number i.
        self.in_flight: SlidingArray[_Unacked] = SlidingArray(1)
        self.timer = RetransmissionTimer(rtt_estimate, id)
        self.early = 0  # How many of these have arrived before an earlier one.
        self.is_disconnected = False
        self.timeouts = 0  # Since the disconnection, without an ack.
        self.dropped = 0  # The last dropped segment, until the peer has acked it.
        # Receiving.
        self.received = 0  # All segments up to this number have arrived.
        self.reorder_buffer: dict[int, Frame] = {}
        self.arrived = 0  # The segment to ack, or 0.


class ReliableLink(ProcessBase):
    """A process of any protocol on the link layer."""

    __slots__ = (
        "_channels",
        "_fifo",
        "_inner",
        "_owing",
        "_reorder_buffer_max",
        "_rtt_estimate",
        "_timers",
    )

    def __init__(
        self,
        inner: ProcessBase,
        fifo: bool,
        policy: RetransmissionPolicy | None = None,
        reorder_buffer_max: int = UNBOUNDED,
    ) -> None:
        """Wrap ``inner``, which has seen no input yet.

        At most ``reorder_buffer_max`` segments of a peer are held because an earlier one
        is missing.
        """
        super().__init__(inner.id)
        self._inner = inner
        self._fifo = fifo
        self._reorder_buffer_max = reorder_buffer_max
        self._rtt_estimate = SharedRttEstimate(policy)
        self._timers = TimerQueue()
        self._channels: dict[ProcessId, _Channel] = {}
        self._owing: _Channel | None = None  # The channel whose ack may be due.

    @property
    def inner(self) -> ProcessBase:
        """The process of the protocol."""
        return self._inner

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        number = self._inner.send(targets, payload, now)
        self._collect(now)
        return number

    def broadcast(self, payload: object, now: float) -> int:
        number = self._inner.broadcast(payload, now)
        self._collect(now)
        return number

    def connect(self, peer: ProcessId, now: float) -> None:
        self._inner.connect(peer, now)
        channel = self._channels.get(peer)
        if channel is not None:
            channel.is_disconnected = False
        self._collect(now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Remove the overlay's link to ``peer``.

        Segments in flight are retransmitted, unless the peer is silent from now on.
        """
        self._inner.disconnect(peer, now)
        channel = self._channel(peer)
        channel.is_disconnected = True
        channel.timeouts = 0
        self._collect(now)

    def backlog(self, peer: ProcessId) -> int:
        """Return the segments in flight to ``peer`` plus the protocol's backlog."""
        channel = self._channels.get(peer)
        in_flight = len(channel.in_flight) if channel is not None else 0
        return in_flight + self._inner.backlog(peer)

    def early_copies(self, peer: ProcessId) -> int:
        channel = self._channels.get(peer)
        return channel.early if channel is not None else 0

    def known_peers(self) -> int:
        return len(self._channels)

    @property
    def overlay(self) -> OverlayLinks | None:
        return self._inner.overlay

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Process a frame that arrived from ``source``.

        Raise PeerError if the frame is invalid. If the protocol refuses the frame of a
        segment, or one that was held until now, the link drops it and acks the segment,
        and then raises: retransmissions would be refused as well.
        """
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        refusal: PeerError | None = None
        if isinstance(frame, Segment):
            refusal = self._receive_segment(source, frame, now)
        elif isinstance(frame, LinkAck):
            channel = self._channels.get(source)
            self._check_ack(channel, frame, frame.acked, frame.arrived)
            assert channel is not None
            self._receive_ack(channel, frame.acked, frame.arrived, now)
        else:
            raise PeerError(f"{type(frame).__name__} is not a frame of the link layer")
        self._collect(now)
        if refusal is not None:
            raise refusal

    def handle_timer(self, now: float) -> None:
        check_now(now)
        timer = self._timers.due(now)
        while timer is not None:
            channel = self._channels[ProcessId(timer.owner)]
            if channel.is_disconnected:
                channel.timeouts += 1
            if channel.timeouts < TIMEOUTS_MAX:
                self._retransmit(channel, now)
                timer.expire(now)
            else:
                self._drop_in_flight(channel)
                self._inner.segments_dropped(channel.id, now)
            timer = self._timers.due(now)
        self._inner.handle_timer(now)
        self._collect(now)

    def next_timer(self) -> float | None:
        mine = self._timers.next_deadline()
        inner = self._inner.next_timer()
        if mine is None:
            return inner
        return mine if inner is None else min(mine, inner)

    def messages_to_deliver(self) -> list[Delivery]:
        return self._inner.messages_to_deliver()

    # Sending.

    def _collect(self, now: float) -> None:
        """Transmit the protocol's frames as segments, and the ack if none carries it."""
        for transmit in self._inner.frames_to_transmit():
            channel = self._channel(transmit.target)
            unacked = _Unacked(transmit.frame, now)
            number = channel.in_flight.add(unacked)
            if len(channel.in_flight) == 1:
                channel.timer.restart(now)
                self._timers.schedule(channel.timer)
            if channel.arrived <= channel.received:
                channel.arrived = 0  # The segment carries the whole ack.
            segment = Segment(number, channel.received, transmit.frame, channel.dropped)
            self._transmits.append(
                Transmit(channel.id, segment, transmit.is_retransmission)
            )
        owing = self._owing
        if owing is not None and owing.arrived > 0:
            ack = LinkAck(owing.received, owing.arrived)
            self._transmits.append(Transmit(owing.id, ack))
            owing.arrived = 0
        self._owing = None

    def _retransmit(self, channel: _Channel, now: float) -> None:
        """Retransmit the segments that were not answered within the timeout.

        The first one is always retransmitted: if its ack was lost, this causes another.
        """
        in_flight = channel.in_flight
        timeout_s = channel.timer.timeout_s
        for number in range(in_flight.first, in_flight.next):
            unacked = in_flight[number]
            if number == in_flight.first or (
                not unacked.arrived and unacked.transmitted_at + timeout_s <= now
            ):
                self._transmit_again(channel, number, now)

    def _transmit_again(self, channel: _Channel, number: int, now: float) -> None:
        unacked = channel.in_flight[number]
        unacked.retransmitted = True
        unacked.transmitted_at = now
        segment = Segment(number, channel.received, unacked.frame, channel.dropped)
        self._transmits.append(Transmit(channel.id, segment, True))

    def frame_lost(self, peer: ProcessId, frame: Frame, sent_at: float, now: float) -> None:
        channel = self._channels.get(peer)
        if channel is None:
            return
        if isinstance(frame, Segment):
            in_flight = channel.in_flight
            if in_flight.first <= frame.number < in_flight.next:
                unacked = in_flight[frame.number]
                if not unacked.arrived and unacked.transmitted_at <= sent_at:
                    self._transmit_again(channel, frame.number, now)
        elif channel.received > 0:
            ack = LinkAck(channel.received, channel.received)
            self._transmits.append(Transmit(channel.id, ack))

    def _drop_in_flight(self, channel: _Channel) -> None:
        """Drop all segments in flight: the peer is disconnected and silent."""
        in_flight = channel.in_flight
        while len(in_flight) > 0:
            in_flight.remove()
        channel.early = 0
        channel.dropped = in_flight.first - 1
        channel.timeouts = 0
        channel.timer.stop()

    def _check_ack(
        self, channel: _Channel | None, frame: Frame, acked: int, arrived: int
    ) -> None:
        """Raise PeerError if an ack names a segment that was never transmitted."""
        if (
            channel is None
            or not 0 <= acked < channel.in_flight.next
            or not 1 <= arrived < channel.in_flight.next
        ):
            raise PeerError(f"invalid {frame}: no such segment was transmitted")

    def _receive_ack(self, channel: _Channel, acked: int, arrived: int, now: float) -> None:
        in_flight = channel.in_flight
        channel.timeouts = 0
        if acked >= channel.dropped:
            channel.dropped = 0
        if arrived >= in_flight.first:
            unacked = in_flight[arrived]
            if not unacked.arrived and not unacked.retransmitted:
                channel.timer.sample(now - unacked.transmitted_at)
            if not unacked.arrived:
                unacked.arrived = True
                channel.early += 1
        if acked < in_flight.first:
            return
        while in_flight.first <= acked:
            if in_flight.remove().arrived:
                channel.early -= 1
        if in_flight.first < in_flight.next:
            channel.timer.restart(now)
            self._timers.schedule(channel.timer)
        else:
            channel.timer.stop()

    # Receiving.

    def _receive_segment(
        self, source: ProcessId, segment: Segment, now: float
    ) -> PeerError | None:
        """Hold a segment or pass it on, and return the error if the protocol refuses it."""
        number = segment.number
        known = self._channels.get(source)
        if number < 1 or segment.acked < 0 or not 0 <= segment.dropped < number:
            raise PeerError(f"invalid {segment}: needs 0 <= dropped < number, 0 <= acked")
        if segment.acked > 0:
            self._check_ack(known, segment, segment.acked, segment.acked)
        channel = known if known is not None else _Channel(source, self._rtt_estimate)
        skips = segment.dropped > channel.received
        if (
            number > max(channel.received, segment.dropped) + 1
            and (0 if skips else len(channel.reorder_buffer)) >= self._reorder_buffer_max
            and number not in channel.reorder_buffer
        ):
            raise PeerError(
                f"out-of-order {segment}, and the reorder buffer is full"
                f" (reorder_buffer_max={self._reorder_buffer_max})"
            )
        if skips:
            # All segments in the buffer are older: later ones would have named the drop.
            channel.received = segment.dropped
            channel.reorder_buffer.clear()
        refusal: PeerError | None = None
        if number > channel.received and number not in channel.reorder_buffer:
            channel.reorder_buffer[number] = segment.frame
            if not self._fifo:
                refusal = self._pass_on(channel, segment.frame, now)
            refusal = self._advance(channel, now) or refusal
        self._channels[source] = channel
        if segment.acked > 0:
            self._receive_ack(channel, segment.acked, segment.acked, now)
        channel.arrived = number
        self._owing = channel
        return refusal

    def _advance(self, channel: _Channel, now: float) -> PeerError | None:
        """Count the segments that have arrived without a gap; a FIFO link passes them on.

        Return the error of the last frame that the protocol has refused.
        """
        refusal: PeerError | None = None
        while channel.received + 1 in channel.reorder_buffer:
            channel.received += 1
            frame = channel.reorder_buffer.pop(channel.received)
            if self._fifo:
                refusal = self._pass_on(channel, frame, now) or refusal
        return refusal

    def _pass_on(self, channel: _Channel, frame: Frame, now: float) -> PeerError | None:
        """Pass a frame to the protocol, and return the error if the protocol refuses it."""
        try:
            self._inner.receive(channel.id, frame, now)
        except PeerError as error:
            return error
        return None

    def _channel(self, id: ProcessId) -> _Channel:
        channel = self._channels.get(id)
        if channel is None:
            channel = _Channel(id, self._rtt_estimate)
            self._channels[id] = channel
        return channel
