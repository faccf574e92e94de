"""What a hybrid-buffering process remembers of each peer, and of each message to it.

The maps of the paper from process ids (``ls``, ``ld``, ``rb``) are fields of one record
per peer, made when the peer first matters; nothing is kept for processes that a process
has no business with.
"""

from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.frames import Message
from antecede.core.support.retransmission import Experience, RetransmissionTimer
from antecede.core.support.sliding import SlidingArray

__all__ = ["Copy", "MissingPermit", "Peer"]


class Peer:
    """Both directions of the traffic with one other process."""

    __slots__ = (
        "acked",
        "asked",
        "delivered",
        "granted",
        "heard",
        "held",
        "id",
        "missing",
        "outstanding",
        "pending",
        "pending_bytes",
        "permitted",
        "released",
        "request_timer",
        "round_trip_s",
        "sent",
        "transmit_timer",
    )

    id: ProcessId

    sent: int
    """The last message sent to the peer (``ls``), 0 if none."""
    pending: int
    """How many copies for the peer wait, or are not acked."""
    pending_bytes: int
    """The payload of those."""
    round_trip_s: float
    """What somebody has measured before there was any traffic, or -1."""
    released: int
    """The last message released to the peer, 0 if none."""
    acked: int
    """Every message to the peer up to this number has been acked."""
    outstanding: "SlidingArray[Copy]"
    """What was released to the peer and is not acked, in order."""
    granted: int
    """The peer has been told that messages up to this number need no (further) permit."""
    transmit_timer: RetransmissionTimer
    """Runs while anything is outstanding."""

    delivered: int
    """The last message from the peer that was delivered (``ld``), 0 if none."""
    held: dict[int, Message]
    """What arrived too early, by predecessor (``rb``)."""
    permitted: int
    """The highest permit of the peer; it may have overtaken the messages it covers."""
    missing: "SlidingArray[MissingPermit]"
    """Delivered messages of the peer whose permit is missing, in order."""
    request_timer: RetransmissionTimer
    """Runs while any permit of the peer is missing."""
    heard: bool
    """The peer has transmitted a message or a permit."""
    asked: bool
    """The oldest missing permit has been requested, so its delay says nothing."""

    def __init__(self, id: ProcessId) -> None:
        """Start with no history; most pairs speak in one direction only."""
        self.id = id
        self.sent = 0
        self.pending = 0
        self.pending_bytes = 0
        self.round_trip_s = -1.0
        self.released = 0
        self.acked = 0
        self.granted = 0
        self.delivered = 0
        self.permitted = 0
        self.asked = False
        self.heard = False

    def begin_to_send(self, acks: Experience) -> None:
        """Make what sending needs, before the first message to the peer."""
        self.outstanding = SlidingArray()
        self.transmit_timer = self._timer(acks)

    def begin_to_hear(self, permits: Experience) -> None:
        """Make what receiving needs, before the first message or permit of the peer."""
        self.heard = True
        self.held = {}
        self.missing = SlidingArray()
        self.request_timer = self._timer(permits)

    def _timer(self, experience: Experience) -> RetransmissionTimer:
        timer = RetransmissionTimer(experience, self.id)
        if self.round_trip_s >= 0:
            timer.sample(self.round_trip_s)
        return timer

    def find(self, number: int) -> int:
        """Return the index in ``outstanding`` of message ``number``, or -1.

        Gallops from the oldest, so that finding what an ack covers takes no longer than
        removing it.
        """
        outstanding = self.outstanding
        low = outstanding.first
        stride = 1
        while (
            low + stride < outstanding.next and outstanding[low + stride].number <= number
        ):
            low += stride
            stride *= 2
        high = min(low + stride, outstanding.next)
        while low + 1 < high:  # Whatever is at low or before is at most number.
            middle = (low + high) // 2
            if outstanding[middle].number <= number:
                low = middle
            else:
                high = middle
        if low < outstanding.next and outstanding[low].number == number:
            return low
        return -1


class Copy:
    """A message on its way to one of its targets (``Msg`` in the paper)."""

    __slots__ = (
        "acked",
        "depends",
        "held",
        "number",
        "payload",
        "peer",
        "predecessor",
        "released",
        "repeated",
        "transmitted_at",
    )

    peer: Peer
    """Its target (``rcv``)."""
    number: int
    """Its number among all messages of this process, the same for all its copies."""
    predecessor: int
    """The number of the message before it to the same target, 0 if none."""
    depends: int
    """It was sent after this many messages that needed a permit (``per`` of a buffered
    message; whether a released one needs a permit is decided at each transmission)."""
    payload: bytes
    """The application's bytes, dropped when acked."""
    released: bool
    """It has been put on the network (``sent``)."""
    acked: bool
    """The target has delivered it (``pl`` = bottom in the paper)."""
    held: bool
    """It has arrived at the target, which may still be waiting for its predecessor."""
    repeated: bool
    """It was transmitted more than once, so its ack is no round-trip sample."""
    transmitted_at: float
    """When it was last transmitted."""

    def __init__(
        self, peer: Peer, number: int, predecessor: int, depends: int, payload: bytes
    ) -> None:
        """Make a copy that waits at the sender."""
        self.peer = peer
        self.number = number
        self.predecessor = predecessor
        self.depends = depends
        self.payload = payload
        self.released = False
        self.acked = False
        self.held = False
        self.repeated = False
        self.transmitted_at = 0.0


class MissingPermit:
    """A delivered message whose sender has not yet permitted what follows (``Per``)."""

    __slots__ = ("number", "peer", "since")

    peer: Peer
    """Who sent the message."""
    number: int
    """The message's number there."""
    since: float
    """When it was delivered."""

    def __init__(self, peer: Peer, number: int, since: float) -> None:
        """Record that the permit is missing since ``since``."""
        self.peer = peer
        self.number = number
        self.since = since
