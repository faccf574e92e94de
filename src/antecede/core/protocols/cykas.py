"""``cykas``: eager sends, secret mode, and "you can tell" (Tong, Liittschwager, Kuper).

Rules, in the terms of docs/reference/glossary.md; the paper's names in brackets:

1. Messages leave in the order of sending, whatever their targets are. The first message
   that must wait blocks all messages after it (OB).
2. A target delivers a message when it arrives, and acks it. At most one message to each
   target is in flight: released and not acked (UNACK).
3. A message is *normal* if no message of its sender was in flight at its release.
   Otherwise it is *eager*: its target must keep it secret until it receives a
   you-can-tell frame (YCT).
4. A process with a secret to keep (MODE > 0) releases no message. It still transmits acks
   and YCTs.
5. The sender of an eager message transmits a YCT for it once every message that it
   released earlier has been acked, and the last message to the same target, too
   (EAGER_SENT). Each YCT ends one secret.

Why this is causal order: the messages that *a* released before an eager message to *b* have
been delivered when *b* releases its next message; the same holds for every further step of
a causal chain. Rules 1 and 2 give FIFO order.

Channels must be reliable, because a process counts YCTs, which carry no number. They need
not be FIFO: a channel never has two messages in flight, hence no two acks; a YCT leaves
only after the ack of its message, so it cannot overtake it; and a YCT may overtake another
YCT or a later message without harm.

The cost: every eager message that arrives blocks all messages that the target has not
released, even those sent earlier. Two processes that take turns can block a third one
forever, if each transmits its YCT only after the next eager message of the other has
arrived (Almeida §4.3).

The paper keeps a bit vector for every eager message, with the processes whose acks its YCT
waits for, and clears bits in all vectors at every ack. Here all messages are in one window
in the order of release, which starts at the first unacked message. A bit vector is all zero
exactly when the window starts at its message or later. Each message is therefore examined
once, and an operation takes amortised constant time.

Two corrections to the paper: in Algorithm 4, line 8 is inside the loop. Without any eager
message an ack then releases nothing, and a message released there can lose its bit to the
rest of the loop, which breaks causal order; it belongs after the loop. Against the text of
§2.1, but as in Algorithm 5, a YCT is not acked: its ack would count as that of a message.

::

    MESSAGE         number, payload length (LEB128), payload        flag: eager
    ACK             nothing                                         flag: must be 0
    YOU_CAN_TELL    nothing                                         flag: must be 0
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    HeadFrame,
    PayloadFrame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.input_checks import checked_payload, checked_targets
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit, check_now
from antecede.core.support.sliding import SlidingArray
from antecede.errors import LocalError, PeerError

__all__ = ["Cykas", "CykasAck", "CykasMessage", "YouCanTell", "read_cykas"]

MESSAGE: Final = 1
ACK: Final = 2
YOU_CAN_TELL: Final = 3


@mypyc_attr(acyclic=True)
class CykasMessage(PayloadFrame):
    """An application message (Normal Send and Eager Send in the paper)."""

    __slots__ = ("eager",)

    KIND: ClassVar[int] = MESSAGE

    eager: bool
    """The target must keep the message secret until it receives a YCT."""

    def __init__(self, number: int, eager: bool, payload: bytes) -> None:
        super().__init__(number, payload)
        self.eager = eager

    def metadata_size(self) -> int:
        return 1 + width_of(self.number) + varint_width(len(self.payload))

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_head(buffer, MESSAGE, width, self.eager)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


@mypyc_attr(acyclic=True)
class CykasAck(HeadFrame):
    """Tells the sender that the target has delivered the message in flight."""

    __slots__ = ()

    KIND: ClassVar[int] = ACK


@mypyc_attr(acyclic=True)
class YouCanTell(HeadFrame):
    """Tells the target that one eager message of the sender is no longer secret (YCT)."""

    __slots__ = ()

    KIND: ClassVar[int] = YOU_CAN_TELL


def read_cykas(reader: Reader) -> Frame:
    """Read one frame of ``cykas``."""
    kind = reader.head()
    eager = reader.flag
    if kind == MESSAGE:
        return CykasMessage(reader.number(), eager, reader.payload())
    if eager or kind not in (ACK, YOU_CAN_TELL):
        raise reader.refuse()
    return CykasAck() if kind == ACK else YouCanTell()


class _Peer:
    """The state of both directions of the traffic with one peer."""

    __slots__ = ("delivered", "due_tells", "id", "in_flight", "secrets")

    def __init__(self, id: ProcessId) -> None:
        self.id = id
        self.in_flight: _Sent | None = None  # UNACK[id] = 1: this message is unacked.
        self.due_tells = 0  # The YCTs that wait only for the ack of that message.
        self.delivered = 0  # The number of the peer's last message.
        self.secrets = 0  # The peer's eager messages without a YCT: its share of MODE.


class _Sent:
    """A message, from its send until it and all earlier messages are acked."""

    __slots__ = ("acked", "number", "payload", "peer")

    def __init__(self, peer: _Peer, number: int, payload: bytes) -> None:
        self.peer = peer
        self.number = number
        self.payload = payload
        self.acked = False


class Cykas(ProcessBase):
    """A process of ``cykas``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_clock", "_first_queued", "_peers", "_secrets", "_window")

    def __init__(self, id: ProcessId) -> None:
        super().__init__(id)
        self._peers: dict[ProcessId, _Peer] = {}
        self._clock = 0  # The number of the last message sent.
        self._secrets = 0  # MODE
        # All messages from the first unacked one on; OB is the part not yet released.
        self._window: SlidingArray[_Sent] = SlidingArray()
        self._first_queued = 0  # The index of the first message of OB.

    @property
    def secrets(self) -> int:
        """The number of eager messages to keep secret; 0 in normal mode (MODE)."""
        return self._secrets

    @property
    def queued(self) -> int:
        """The number of messages that are not released (the length of OB)."""
        return self._window.next - self._first_queued

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
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
            self._window.add(_Sent(self._peer(target), number, data))  # 1:1
            self._release()  # 1:2
        return number

    def backlog(self, peer: ProcessId) -> int:
        return len(self._window)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if isinstance(frame, CykasMessage):
            self._receive_message(source, frame)
        elif isinstance(frame, CykasAck):
            self._receive_ack(source)
        elif isinstance(frame, YouCanTell):
            self._receive_you_can_tell(source)
        else:
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")

    # Comments such as 2:7 name line 7 of the paper's Algorithm 2.

    def _release(self) -> None:
        """Release messages in order until one must wait (Algorithm 2)."""
        if self._secrets > 0:  # 2:2
            return
        window = self._window
        while self._first_queued < window.next:  # 2:4
            message = window[self._first_queued]
            peer = message.peer
            if peer.in_flight is not None:  # 2:7
                return
            # 2:9. If the window starts at a released message, that message is unacked.
            eager = window.first < self._first_queued
            frame = CykasMessage(message.number, eager, message.payload)
            self._transmits.append(Transmit(peer.id, frame))  # 2:10, 2:12
            message.payload = b""
            self._first_queued += 1  # 2:15
            peer.in_flight = message  # 2:16

    def _receive_message(self, source: ProcessId, message: CykasMessage) -> None:
        """Deliver a message and ack it (Algorithm 3)."""
        known = self._peers.get(source)
        if message.number < 1:
            raise PeerError(f"invalid {message}: number must be at least 1")
        if known is not None and message.number <= known.delivered:
            raise PeerError(f"invalid {message}: arrived after message {known.delivered}")
        peer = known if known is not None else self._peer(source)
        peer.delivered = message.number
        if message.eager:  # 3:1
            peer.secrets += 1
            self._secrets += 1
        self._deliveries.append(Delivery(source, message.number, message.payload))
        self._transmits.append(Transmit(source, CykasAck()))  # 3:4

    def _receive_ack(self, source: ProcessId) -> None:
        """Transmit the due YCTs, then release messages (Algorithm 4, corrected)."""
        peer = self._peers.get(source)
        if peer is None or peer.in_flight is None:
            raise PeerError(f"ack from {source}, but no message to it is in flight")
        peer.in_flight.acked = True
        peer.in_flight = None  # 4:2
        self._transmit_due_tells(peer)
        window = self._window
        while window.first < self._first_queued and window.peek().acked:
            window.remove()
            if window.first < self._first_queued:
                # This message was released after an unacked one, so it is eager, and its
                # bit vector is all zero now (4:5).
                first = window.peek().peer
                first.due_tells += 1
                self._transmit_due_tells(first)
        self._release()  # 4:8, which belongs after the loop.

    def _transmit_due_tells(self, peer: _Peer) -> None:
        """Transmit the due YCTs to ``peer``, unless a message to it is in flight."""
        if peer.in_flight is None:  # 4:14, second half.
            while peer.due_tells > 0:
                peer.due_tells -= 1
                self._transmits.append(Transmit(peer.id, YouCanTell()))  # 4:17

    def _receive_you_can_tell(self, source: ProcessId) -> None:
        """End one secret (Algorithm 5)."""
        peer = self._peers.get(source)
        if peer is None or peer.secrets == 0:
            raise PeerError(f"YCT from {source}, but no message of it is secret")
        peer.secrets -= 1
        self._secrets -= 1  # 5:1
        self._release()  # 5:2

    def _peer(self, id: ProcessId) -> _Peer:
        peer = self._peers.get(id)
        if peer is None:
            peer = _Peer(id)
            self._peers[id] = peer
        return peer
