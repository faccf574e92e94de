"""``cykas``: eager sends, secret mode, and "you can tell" (Tong, Liittschwager, Kuper).

Rules, in the words of docs/glossary.md; the paper's names in brackets:

1. Messages leave in the order in which they were sent, whatever their targets. The first
   one that has to wait holds up all behind it (OB).
2. A target delivers a message as soon as it arrives, and acks it. Towards each target one
   message at most is in transit: released, and its ack not there yet (UNACK).
3. A message is a *normal* one if nothing of its sender was in transit at its release. Else
   it is an *eager* one: its target must keep the secret until it is told (YCT).
4. A process that has a secret to keep (MODE > 0) releases no message. Acks, and telling
   others, are no messages.
5. The sender of an eager message transmits a YCT for it once everything that it released
   before that message has been acked, and so has the latest message to the same target
   (EAGER_SENT). Each YCT ends one secret.

Why that is causal: whatever *a* released before an eager message to *b* has been delivered
when *b* releases its next message, and so for every further step of a causal chain. Rules
1 and 2 make it FIFO.

Channels lose and duplicate nothing, for a YCT is counted and has no name; they need not be
FIFO. A pair never has two messages in transit, hence no two acks, and a YCT leaves only
after the ack of its message, so it cannot overtake it; a YCT that overtakes another, or a
later message, does no harm.

What it costs: every eager message that arrives holds up everything the target has not
released yet, even what was sent before. Two processes that take turns can hold a third up
for ever, each telling only when the other's next secret is there (Almeida §4.3).

The paper keeps one bit vector for every eager message, of the processes whose acks its YCT
waits for, and clears bits in all of them at every ack. Here everything that was sent is in
one window in the order of release, which starts at the first unacked message. A bit vector
is all zero exactly when the window has come to start at its message, or later; so each
message is looked at once, and an operation takes amortised constant time.

Algorithm 4 is mended: line 8 stands inside the loop, so that without any eager message an
ack releases nothing, and a message released there can lose its bit to the rest of the
loop, which breaks causal order. It belongs behind the loop. Against the words of §2.1,
but as in Algorithm 5, a YCT is not acked: its ack would pass for that of a message.

::

    MESSAGE         number, payload length (LEB128), payload        flag: eager
    ACK             nothing else                                    flag: must be 0
    YOU_CAN_TELL    nothing else                                    flag: must be 0
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.process import (
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
    checked_payload,
    checked_targets,
)
from antecede.core.support.sliding import SlidingArray
from antecede.errors import LocalError, PeerError

__all__ = ["Cykas", "CykasAck", "CykasMessage", "YouCanTell", "read_cykas"]

MESSAGE: Final = 1
ACK: Final = 2
YOU_CAN_TELL: Final = 3


@mypyc_attr(acyclic=True)
class CykasMessage(Frame):
    """An application message (Normal Send and Eager Send in the paper)."""

    __slots__ = ("eager", "number", "payload")

    number: int
    """Its number among all messages of its sender, from 1."""
    eager: bool
    """The target must keep it secret until it is told."""
    payload: bytes
    """The application's bytes."""

    def __init__(self, number: int, eager: bool, payload: bytes) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.eager = eager
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        how = " eager" if self.eager else ""
        return f"CykasMessage({self.number}{how}, {len(self.payload)} B)"

    def kind(self) -> int:
        """Return the number of this kind."""
        return MESSAGE

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        return 1 + width_of(self.number) + varint_width(len(self.payload))

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return len(self.payload)

    def message_number(self) -> int:
        """Return the number of the message."""
        return self.number

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(self.number)
        write_head(buffer, MESSAGE, width, self.eager)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


@mypyc_attr(acyclic=True)
class CykasAck(Frame):
    """The target's word that it has delivered the one message in transit to it."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show that it has no fields."""
        return "CykasAck()"

    def kind(self) -> int:
        """Return the number of this kind."""
        return ACK

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, ACK, 1)


@mypyc_attr(acyclic=True)
class YouCanTell(Frame):
    """The sender's word that one of its eager messages is a secret no more (YCT)."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show that it has no fields."""
        return "YouCanTell()"

    def kind(self) -> int:
        """Return the number of this kind."""
        return YOU_CAN_TELL

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, YOU_CAN_TELL, 1)


def read_cykas(reader: Reader) -> Frame:
    """Read one frame of Cykas."""
    kind = reader.head()
    eager = reader.flag
    if kind == MESSAGE:
        return CykasMessage(reader.number(), eager, reader.payload())
    if eager or kind not in (ACK, YOU_CAN_TELL):
        raise reader.refuse()
    return CykasAck() if kind == ACK else YouCanTell()


class _Peer:
    """Another process, in both directions."""

    __slots__ = ("delivered", "id", "in_transit", "secrets", "tellable")

    def __init__(self, id: ProcessId) -> None:
        self.id = id
        self.in_transit: _Sent | None = None  # UNACK[id] = 1: this one is unacked.
        self.tellable = 0  # The YCTs that wait for nothing but its ack.
        self.delivered = 0  # The number of its latest message.
        self.secrets = 0  # Its eager messages without a YCT: its share of MODE.


class _Sent:
    """A message, from its send until it and all before it are acked."""

    __slots__ = ("acked", "number", "payload", "peer")

    def __init__(self, peer: _Peer, number: int, payload: bytes) -> None:
        self.peer = peer
        self.number = number
        self.payload = payload
        self.acked = False


class Cykas(ProcessBase):
    """A process of ``cykas``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_clock", "_peers", "_secrets", "_unreleased", "_window")

    def __init__(self, id: ProcessId) -> None:
        """Start a process with no history and no peers."""
        super().__init__(id)
        self._peers: dict[ProcessId, _Peer] = {}
        self._clock = 0  # The number of the last message sent.
        self._secrets = 0  # MODE
        # From the first unacked message on; OB is what has not been released of it.
        self._window: SlidingArray[_Sent] = SlidingArray()
        self._unreleased = 0  # The index of the first message of OB.

    @property
    def secrets(self) -> int:
        """The eager messages to keep secret; in normal mode there are none (MODE)."""
        return self._secrets

    @property
    def buffered(self) -> int:
        """The messages that were sent and not released (the length of OB)."""
        return self._window.next - self._unreleased

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for one target and return its number, from 1 (Algorithm 1)."""
        check_now(now)
        members = checked_targets(targets)
        data = checked_payload(payload)
        target = members[0]
        for other in members:
            if other != target:
                raise LocalError("this protocol has unicast only; name one target")
        self._clock += 1
        number = self._clock
        if target == self._id:
            self._deliveries.append(Delivery(self._id, number, data))
        else:
            self._window.add(_Sent(self._peer(target), number, data))  # Line 1.
            self._release()  # Line 2.
        return number

    def backlog(self, peer: ProcessId) -> int:
        """Count all messages that wait or are in transit."""
        return len(self._window)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if isinstance(frame, CykasMessage):
            self._receive_message(source, frame)
        elif isinstance(frame, CykasAck):
            self._receive_ack(source)
        elif isinstance(frame, YouCanTell):
            self._receive_you_can_tell(source)
        else:
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")

    def _release(self) -> None:
        """Release what may leave, first to last (Algorithm 2: TRY_SEND_MESSAGE)."""
        if self._secrets > 0:  # Line 2.
            return
        window = self._window
        while self._unreleased < window.next:  # Line 4.
            message = window[self._unreleased]
            peer = message.peer
            if peer.in_transit is not None:  # Line 7.
                return
            # Line 9: the first of the window is unacked if it was released at all.
            eager = window.first < self._unreleased
            frame = CykasMessage(message.number, eager, message.payload)
            self._transmits.append(Transmit(peer.id, frame))  # Lines 10 and 12.
            message.payload = b""
            self._unreleased += 1  # Line 15.
            peer.in_transit = message  # Line 16.

    def _receive_message(self, source: ProcessId, message: CykasMessage) -> None:
        """Deliver at once (Algorithm 3)."""
        known = self._peers.get(source)
        if message.number < 1:
            raise PeerError(f"{message} cannot be")
        if known is not None and message.number <= known.delivered:
            raise PeerError(f"{message} after {known.delivered} of the same source")
        peer = known if known is not None else self._peer(source)
        peer.delivered = message.number
        if message.eager:  # Line 1.
            peer.secrets += 1
            self._secrets += 1
        self._deliveries.append(Delivery(source, message.number, message.payload))
        self._transmits.append(Transmit(source, CykasAck()))  # Line 4.

    def _receive_ack(self, source: ProcessId) -> None:
        """Tell what may be told, then release what may leave (Algorithm 4, mended)."""
        peer = self._peers.get(source)
        if peer is None or peer.in_transit is None:
            raise PeerError(f"an ack from {source}, to which nothing is in transit")
        peer.in_transit.acked = True
        peer.in_transit = None  # Line 2.
        self._tell(peer)
        window = self._window
        while window.first < self._unreleased and window.peek().acked:
            window.remove()
            if window.first < self._unreleased:
                # It was released behind an unacked message, so it is an eager one, and
                # its bit vector has become all zero (line 5).
                first = window.peek().peer
                first.tellable += 1
                self._tell(first)
        self._release()  # Line 8, which belongs behind the loop.

    def _tell(self, peer: _Peer) -> None:
        """Transmit the YCTs for ``peer`` that wait for nothing (TRY_SEND_YCT)."""
        if peer.in_transit is None:  # Line 14, its second half.
            while peer.tellable > 0:
                peer.tellable -= 1
                self._transmits.append(Transmit(peer.id, YouCanTell()))  # Line 17.

    def _receive_you_can_tell(self, source: ProcessId) -> None:
        """End one secret (Algorithm 5)."""
        peer = self._peers.get(source)
        if peer is None or peer.secrets == 0:
            raise PeerError(f"a YCT from {source}, which has no secret here")
        peer.secrets -= 1
        self._secrets -= 1  # Line 1.
        self._release()  # Line 2.

    def _peer(self, id: ProcessId) -> _Peer:
        peer = self._peers.get(id)
        if peer is None:
            peer = _Peer(id)
            self._peers[id] = peer
        return peer
