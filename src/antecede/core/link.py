"""The link layer: exactly-once delivery between pairs, for protocols that assume it.

A protocol that asks for reliable channels is wrapped in :class:`Linked`. Every frame it
transmits becomes a *segment*, numbered from 1 for each ordered pair of processes, and is
transmitted again until it is acked; what arrives twice is dropped. A FIFO link hands
segments to the protocol in the order of their numbers, an unordered one as they arrive.

It is as good a link as hybrid buffering makes for itself: any number of segments are
outstanding, time-outs follow the measured round trip (:mod:`.retransmission`), an ack is
cumulative and also names what arrived, so that nothing is repeated which is only waiting
for its turn, and it rides on a segment wherever one goes back at the same moment. Where
the network is declared reliable, the wrapper is left out.

::

    SEGMENT     number, acked, frame           flag: must be 0
    LINK_ACK    acked [, arrived]              flag: `arrived` follows, it differs
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    FrameReader,
    Reader,
    width_of,
    write_head,
    write_number,
)
from antecede.core.process import (
    UNBOUNDED,
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
)
from antecede.core.support.retransmission import (
    Experience,
    RetransmissionPolicy,
    RetransmissionTimer,
    TimerQueue,
)
from antecede.core.support.sliding import SlidingArray
from antecede.errors import LocalError, PeerError

__all__ = ["LinkAck", "Linked", "Segment", "read_linked"]

LINK_ACK: Final = 14
SEGMENT: Final = 15
"""The kinds that a protocol under a link leaves to it."""


@mypyc_attr(acyclic=True)
class Segment(Frame):
    """A frame of the protocol above, with its place among all to the same peer."""

    __slots__ = ("acked", "frame", "number")

    number: int
    """Its place, from 1."""
    acked: int
    """Every segment of the other direction up to this number has arrived."""
    frame: Frame
    """What the protocol transmits."""

    def __init__(self, number: int, acked: int, frame: Frame) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.acked = acked
        self.frame = frame

    def __repr__(self) -> str:
        """Show the fields."""
        return f"Segment({self.number}, acked {self.acked}, {self.frame})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return SEGMENT

    def metadata_size(self) -> int:
        """Count the bytes of the segment and of the frame's own metadata."""
        width = width_of(max(self.number, self.acked))
        return 1 + 2 * width + self.frame.metadata_size()

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return self.frame.payload_size()

    def message_number(self) -> int:
        """Return the number of the message, if the frame carries one."""
        return self.frame.message_number()

    def message_source(self) -> int:
        """Return who sent that message."""
        return self.frame.message_source()

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(max(self.number, self.acked))
        write_head(buffer, SEGMENT, width)
        write_number(buffer, self.number, width)
        write_number(buffer, self.acked, width)
        self.frame.write(buffer)


@mypyc_attr(acyclic=True)
class LinkAck(Frame):
    """What has arrived, where no segment goes back to say so."""

    __slots__ = ("acked", "arrived")

    acked: int
    """Every segment up to this number has arrived."""
    arrived: int
    """The segment whose arrival caused this ack."""

    def __init__(self, acked: int, arrived: int) -> None:
        """Make the frame; the fields are documented on the class."""
        self.acked = acked
        self.arrived = arrived

    def __repr__(self) -> str:
        """Show the fields."""
        return f"LinkAck({self.acked}, arrived {self.arrived})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return LINK_ACK

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        if self.arrived == self.acked:
            return 1 + width_of(self.acked)
        return 1 + 2 * width_of(max(self.acked, self.arrived))

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        differs = self.arrived != self.acked
        width = width_of(max(self.acked, self.arrived))
        write_head(buffer, LINK_ACK, width, differs)
        write_number(buffer, self.acked, width)
        if differs:
            write_number(buffer, self.arrived, width)


def read_linked(reader: Reader, read: FrameReader) -> Frame:
    """Read a frame of the link; ``read`` reads those of the protocol above."""
    kind = reader.head()
    flag = reader.flag
    if kind == LINK_ACK:
        acked = reader.number()
        return LinkAck(acked, reader.number() if flag else acked)
    if kind != SEGMENT or flag:
        raise reader.refuse()
    number = reader.number()
    acked = reader.number()
    return Segment(number, acked, read(reader))


class _Flight:
    """A frame that was transmitted and is not acked."""

    __slots__ = ("arrived", "frame", "repeated", "transmitted_at")

    def __init__(self, frame: Frame, now: float) -> None:
        self.frame = frame
        self.transmitted_at = now
        self.arrived = False  # It is at the peer, waiting for its turn.
        self.repeated = False  # Its ack is no round-trip sample.


class _Lane:
    """Both directions of the traffic with one peer."""

    __slots__ = ("arrived", "early", "id", "outstanding", "received", "timer")

    def __init__(self, id: ProcessId, experience: Experience) -> None:
        self.id = id
        # Out: the segment at index i has the number i.
        self.outstanding: SlidingArray[_Flight] = SlidingArray(1)
        self.timer = RetransmissionTimer(experience, id)
        # In.
        self.received = 0  # Every segment up to this one has arrived.
        self.early: dict[int, Frame] = {}
        self.arrived = 0  # The segment that an ack is owed for, 0 if none is.


class Linked(ProcessBase):
    """A process of any protocol on top of the link layer."""

    __slots__ = (
        "_early_max",
        "_experience",
        "_fifo",
        "_inner",
        "_lanes",
        "_owing",
        "_timers",
    )

    def __init__(
        self,
        inner: ProcessBase,
        fifo: bool,
        policy: RetransmissionPolicy | None = None,
        early_max: int = UNBOUNDED,
    ) -> None:
        """Put links under ``inner``, which has seen no input yet.

        At most ``early_max`` segments of a peer wait for one before them.
        """
        super().__init__(inner.id)
        self._inner = inner
        self._fifo = fifo
        self._early_max = early_max
        self._experience = Experience(policy)
        self._timers = TimerQueue()
        self._lanes: dict[ProcessId, _Lane] = {}
        self._owing: _Lane | None = None  # The one lane that may owe an ack.

    @property
    def inner(self) -> ProcessBase:
        """The protocol's own process."""
        return self._inner

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1."""
        number = self._inner.send(targets, payload, now)
        self._collect(now)
        return number

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for all members and return its number, from 1."""
        number = self._inner.broadcast(payload, now)
        self._collect(now)
        return number

    def connect(self, peer: ProcessId, now: float) -> None:
        """Learn that the overlay has a link to ``peer`` from now on."""
        self._inner.connect(peer, now)
        self._collect(now)

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Learn that the overlay has no link to ``peer`` any more.

        What was transmitted on it before is still seen through.
        """
        self._inner.disconnect(peer, now)
        self._collect(now)

    def backlog(self, peer: ProcessId) -> int:
        """Count the frames for ``peer`` that are not acked, and what waits above."""
        lane = self._lanes.get(peer)
        outstanding = len(lane.outstanding) if lane is not None else 0
        return outstanding + self._inner.backlog(peer)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if isinstance(frame, Segment):
            self._receive_segment(source, frame, now)
        elif isinstance(frame, LinkAck):
            lane = self._lanes.get(source)
            self._check_ack(lane, frame, frame.acked, frame.arrived)
            assert lane is not None
            self._receive_ack(lane, frame.acked, frame.arrived, now)
        else:
            raise PeerError(f"a {type(frame).__name__} is no frame of the link layer")
        self._collect(now)

    def handle_timer(self, now: float) -> None:
        """Transmit again what is overdue, and let the protocol do what is due."""
        check_now(now)
        timer = self._timers.due(now)
        while timer is not None:
            self._retransmit(self._lanes[ProcessId(timer.owner)], now)
            timer.expire(now)
            timer = self._timers.due(now)
        self._inner.handle_timer(now)
        self._collect(now)

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        mine = self._timers.next_deadline()
        inner = self._inner.next_timer()
        if mine is None:
            return inner
        return mine if inner is None else min(mine, inner)

    def messages_to_deliver(self) -> list[Delivery]:
        """Take the messages to deliver, in order; they are the driver's now."""
        return self._inner.messages_to_deliver()

    # Out.

    def _collect(self, now: float) -> None:
        """Make segments of what the protocol transmits; ack what none of them acks."""
        for transmit in self._inner.frames_to_transmit():
            lane = self._lane(transmit.target)
            flight = _Flight(transmit.frame, now)
            number = lane.outstanding.add(flight)
            if len(lane.outstanding) == 1:
                lane.timer.restart(now)
                self._timers.file(lane.timer)
            if lane.arrived <= lane.received:
                lane.arrived = 0  # The segment says all that an ack would.
            segment = Segment(number, lane.received, transmit.frame)
            self._transmits.append(Transmit(lane.id, segment, transmit.repeat))
        owing = self._owing
        if owing is not None and owing.arrived > 0:
            ack = LinkAck(owing.received, owing.arrived)
            self._transmits.append(Transmit(owing.id, ack))
            owing.arrived = 0
        self._owing = None

    def _retransmit(self, lane: _Lane, now: float) -> None:
        """Transmit again what has been left unanswered for a time-out.

        The first one in any case: should its ack have been lost, its repetition brings it.
        """
        outstanding = lane.outstanding
        timeout_s = lane.timer.timeout_s
        for number in range(outstanding.first, outstanding.next):
            flight = outstanding[number]
            if number == outstanding.first or (
                not flight.arrived and flight.transmitted_at + timeout_s <= now
            ):
                flight.repeated = True
                flight.transmitted_at = now
                segment = Segment(number, lane.received, flight.frame)
                self._transmits.append(Transmit(lane.id, segment, True))

    def _check_ack(
        self, lane: _Lane | None, frame: Frame, acked: int, arrived: int
    ) -> None:
        """Raise PeerError if an ack is of something that was never transmitted."""
        if (
            lane is None
            or not 0 <= acked < lane.outstanding.next
            or not 1 <= arrived < lane.outstanding.next
        ):
            raise PeerError(f"{frame} of a segment that was not transmitted")

    def _receive_ack(self, lane: _Lane, acked: int, arrived: int, now: float) -> None:
        outstanding = lane.outstanding
        if arrived >= outstanding.first:
            flight = outstanding[arrived]
            if not flight.arrived and not flight.repeated:
                lane.timer.sample(now - flight.transmitted_at)
            flight.arrived = True
        if acked < outstanding.first:
            return
        while outstanding.first <= acked:
            outstanding.remove()
        if outstanding.first < outstanding.next:
            lane.timer.restart(now)
            self._timers.file(lane.timer)
        else:
            lane.timer.stop()

    # In.

    def _receive_segment(self, source: ProcessId, segment: Segment, now: float) -> None:
        number = segment.number
        known = self._lanes.get(source)
        if number < 1 or segment.acked < 0:
            raise PeerError(f"{segment} cannot be")
        if segment.acked > 0:
            self._check_ack(known, segment, segment.acked, segment.acked)
        lane = known if known is not None else _Lane(source, self._experience)
        if (
            number > lane.received + 1
            and len(lane.early) >= self._early_max
            and number not in lane.early
        ):
            raise PeerError(f"{segment}, and too many others wait already")
        if number > lane.received and number not in lane.early:
            if self._fifo and number > lane.received + 1:
                lane.early[number] = segment.frame
            else:
                self._inner.receive(source, segment.frame, now)
                lane.early[number] = segment.frame
                self._advance(lane, now, number)
        self._lanes[source] = lane
        if segment.acked > 0:
            self._receive_ack(lane, segment.acked, segment.acked, now)
        lane.arrived = number
        self._owing = lane

    def _advance(self, lane: _Lane, now: float, handed: int) -> None:
        """Count what has arrived without a gap; hand it over if it had to wait.

        Should the protocol refuse a frame that waited, it is dropped like any other.
        """
        while lane.received + 1 in lane.early:
            lane.received += 1
            frame = lane.early.pop(lane.received)
            if self._fifo and lane.received != handed:
                try:  # noqa: SIM105 (contextlib is not for the core)
                    self._inner.receive(lane.id, frame, now)
                except PeerError:
                    pass  # Dropped, and counted as received.

    def _lane(self, id: ProcessId) -> _Lane:
        lane = self._lanes.get(id)
        if lane is None:
            lane = _Lane(id, self._experience)
            self._lanes[id] = lane
        return lane
