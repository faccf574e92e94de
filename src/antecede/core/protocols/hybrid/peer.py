"""The records of hybrid buffering: peers, copies of messages, and missing permits.

A :class:`PeerState` holds what the paper keeps in maps from process ids (``ls``, ``ld``,
``rb``). It is created when the process first sends to the peer or receives from it.
"""

from typing import Final

from mypy_extensions import i64

from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.support.retransmission import RetransmissionTimer, SharedRttEstimate
from antecede.core.support.sliding import SlidingArray
from antecede.errors import PeerError

__all__ = ["ACKED", "NOT_RELEASED", "Copy", "MissingPermit", "PeerState", "last_up_to"]

ACKED: Final = -1
NOT_RELEASED: Final = -2
"""Results of :meth:`PeerState.find_unacked`."""
NOTHING_HELD: Final[dict[int, MessageFrame]] = {}
"""The held messages of every peer that never had one: a shared dictionary that stays
empty."""


class PeerState:
    """The state of both directions of the traffic with one peer."""

    __slots__ = (
        "acked",
        "backlog",
        "backlog_bytes",
        "delivered",
        "early_bytes",
        "early_copies",
        "granted",
        "held",
        "id",
        "in_flight",
        "is_receiving",
        "missing",
        "permit_requested",
        "permitted",
        "released",
        "request_timer",
        "round_trip_s",
        "sent",
        "transmit_timer",
        "waiting",
        "window",
    )

    id: ProcessId

    sent: int
    """The number of the last message sent to the peer (``ls``), 0 if none."""
    backlog: int
    """The number of messages to the peer that are queued or in flight."""
    backlog_bytes: int
    """The payload bytes of those copies."""
    early_copies: int
    """The number of messages in flight that have arrived before an earlier one."""
    early_bytes: int
    """The payload bytes of these."""
    round_trip_s: float
    """The round trip that the driver measured before the first message, or -1."""
    acked: int
    """Every message to the peer up to this number has been acked."""
    in_flight: "SlidingArray[Copy]"
    """The copies that were released to the peer and are not acked, in order."""
    released: int
    """The number of messages that were released to the peer so far."""
    waiting: int
    """The number of copies in flight, the last ones, that wait for room in the window."""
    window: int
    """A copy may be transmitted while fewer messages than this are not acked."""
    granted: int
    """The highest number that needs no further permit, as reported to the peer."""
    transmit_timer: RetransmissionTimer
    """Runs while a copy is transmitted and not acked."""

    delivered: int
    """The number of the last message delivered from the peer (``ld``), 0 if none."""
    held: dict[int, MessageFrame]
    """The messages that arrived before their predecessor, by predecessor (``rb``). Call
    :meth:`hold` to add one: peers without any share a dictionary."""
    permitted: int
    """The highest permit of the peer; it may have overtaken the messages it covers."""
    missing: "SlidingArray[MissingPermit]"
    """The delivered messages of the peer whose permit is missing, in order."""
    request_timer: RetransmissionTimer
    """Runs while a permit of the peer is missing."""
    is_receiving: bool
    """The peer has transmitted a message or a permit, so the receive side is allocated."""
    permit_requested: bool
    """The oldest missing permit was requested, so its delay is no round-trip sample."""

    def __init__(self, id: ProcessId, window: int) -> None:
        self.id = id
        self.window = window
        self.waiting = 0
        self.released = 0
        self.sent = 0
        self.backlog = 0
        self.backlog_bytes = 0
        self.early_copies = 0
        self.early_bytes = 0
        self.round_trip_s = -1.0
        self.acked = 0
        self.granted = 0
        self.delivered = 0
        self.permitted = 0
        self.permit_requested = False
        self.is_receiving = False

    def open_send(self, ack_rtt: SharedRttEstimate) -> None:
        """Allocate the send-side state; most peers use one direction only."""
        self.in_flight = SlidingArray()
        self.transmit_timer = self._timer(ack_rtt)

    def open_receive(self, permit_rtt: SharedRttEstimate) -> None:
        """Allocate the receive-side state."""
        self.is_receiving = True
        self.held = NOTHING_HELD
        self.missing = SlidingArray()
        self.request_timer = self._timer(permit_rtt)

    def _timer(self, rtt_estimate: SharedRttEstimate) -> RetransmissionTimer:
        timer = RetransmissionTimer(rtt_estimate, self.id)
        if self.round_trip_s >= 0:
            timer.sample(self.round_trip_s)
        return timer

    @property
    def transmitted(self) -> int:
        """How many copies are transmitted and not acked."""
        return len(self.in_flight) - self.waiting

    @property
    def messages_in_flight(self) -> int:
        """The number of messages that were released to the peer and are not acked."""
        in_flight = self.in_flight
        return self.released - in_flight.peek().offset if len(in_flight) > 0 else 0

    @property
    def transmitted_messages(self) -> int:
        """The number of messages of these copies."""
        in_flight = self.in_flight
        if self.waiting == 0:
            return self.messages_in_flight
        return in_flight[in_flight.next - self.waiting].offset - in_flight.peek().offset

    def is_in_window(self, copy: "Copy", window: int) -> bool:
        """Return whether a copy in flight comes after fewer messages than ``window``."""
        return copy.offset - self.in_flight.peek().offset < window

    def find_unacked(self, number: int) -> int:
        """Return the index in ``in_flight`` of message ``number``.

        Return ACKED if the peer has acked it, and NOT_RELEASED if it was not released. The
        search gallops from the oldest copy, so that it takes no longer than the removal of
        the copies that an ack covers.
        """
        if number <= self.acked:
            return ACKED
        if self.sent == 0:
            return NOT_RELEASED
        in_flight = self.in_flight
        low = in_flight.first
        stride = 1
        while low + stride < in_flight.next and in_flight[low + stride].number <= number:
            low += stride
            stride *= 2
        high = min(low + stride, in_flight.next)
        while low + 1 < high:  # The numbers at low and before are at most number.
            middle = (low + high) // 2
            if in_flight[middle].number <= number:
                low = middle
            else:
                high = middle
        if low < in_flight.next and in_flight[low].number == number:
            return low
        return NOT_RELEASED

    def mark_arrived(self, copy: "Copy") -> None:
        """Note that the peer has received a copy in flight."""
        if not copy.arrived:
            copy.arrived = True
            self.early_copies += copy.count
            self.early_bytes += len(copy.payload)

    def forget_arrived(self, copy: "Copy") -> None:
        """Note that a copy that has arrived is not in flight any more."""
        self.early_copies -= copy.count
        self.early_bytes -= len(copy.payload)

    def last_in_flight(self, number: int) -> int:
        """Return the last copy in flight numbered up to ``number``, or 0."""
        return last_up_to(self.in_flight, number)

    def hold(self, message: MessageFrame) -> None:
        """Hold a message that arrived before its predecessor."""
        if not self.held:
            self.held = {}
        self.held[message.predecessor] = message

    def check_message(self, message: MessageFrame, reorder_buffer_max: int) -> None:
        """Raise PeerError if ``message`` contradicts an earlier one, or cannot be held."""
        if message.number <= self.delivered or (
            message.predecessor == self.delivered and not self.held
        ):
            return
        if message.predecessor < self.delivered:
            raise PeerError(
                f"invalid {message}: message {self.delivered} was delivered in between"
            )
        held = self.held.get(message.predecessor)
        if held is not None and held.number != message.number:
            raise PeerError(f"invalid {message}: {held} has the same predecessor")
        if (
            held is None
            and len(self.held) >= reorder_buffer_max
            and message.predecessor != self.delivered
        ):
            raise PeerError(
                f"out-of-order {message}, and the reorder buffer is full"
                f" (reorder_buffer_max={reorder_buffer_max})"
            )


class Copy:
    """A message for one of its targets, until it is acked (``Msg`` in the paper)."""

    __slots__ = (
        "acked",
        "arrived",
        "count",
        "needs_permit",
        "number",
        "offset",
        "payload",
        "peer",
        "permits_before",
        "predecessor",
        "released",
        "retransmitted",
        "transmitted_at",
    )

    peer: PeerState
    """The target (``rcv``)."""
    number: int
    """The number among all messages of this process, the same for all its copies."""
    count: int
    """The number of messages that it bundles, numbered up to ``number``; usually 1."""
    offset: int
    """The number of messages that were released to the target before it, once it is
    released."""
    predecessor: int
    """The number of the previous message to the same target, 0 if none."""
    permits_before: i64
    """The number of deliveries before the send that needed a permit (``per`` of a queued
    message; whether a released copy needs a permit is decided at each transmission)."""
    payload: bytes
    """The application's bytes, dropped when acked."""
    needs_permit: bool
    """The target must wait for a permit unless the copy has one. False under ``bounded``
    if the copy lists the unacked copies for which a permit would wait."""
    released: bool
    """The copy was transmitted or abandoned (``sent``)."""
    acked: bool
    """The target has delivered the copy (``pl`` = bottom in the paper)."""
    arrived: bool
    """The target has received the copy; it may hold it until the predecessor arrives."""
    retransmitted: bool
    """The copy was transmitted more than once, so its ack is no round-trip sample."""
    transmitted_at: float
    """The time of the last transmission."""

    def __init__(
        self,
        peer: PeerState,
        number: int,
        predecessor: int,
        permits_before: i64,
        payload: bytes,
    ) -> None:
        self.peer = peer
        self.number = number
        self.count = 1
        self.offset = 0
        self.predecessor = predecessor
        self.permits_before = permits_before
        self.payload = payload
        self.needs_permit = True
        self.released = False
        self.acked = False
        self.arrived = False
        self.retransmitted = False
        self.transmitted_at = 0.0

    def numbers(self) -> range:
        """Return the numbers of its messages."""
        return range(self.number - self.count + 1, self.number + 1)


class MissingPermit:
    """A delivered message whose permit has not arrived (``Per`` in the paper)."""

    __slots__ = ("index", "number", "peer", "since")

    index: i64
    """Its index among the missing permits of all peers."""
    peer: PeerState
    """The source of the message, which owes the permit."""
    number: int
    """The number of the message."""
    since: float
    """The time of the delivery."""

    def __init__(self, peer: PeerState, number: int, since: float) -> None:
        self.index = 0
        self.peer = peer
        self.number = number
        self.since = since


def last_up_to(copies: "SlidingArray[Copy]", number: int) -> int:
    """Return the highest number of some copies that is at most ``number``, or 0."""
    found = 0
    low = copies.first
    high = copies.next
    while low < high:
        middle = (low + high) // 2
        if copies[middle].number <= number:
            found = copies[middle].number
            low = middle + 1
        else:
            high = middle
    return found
