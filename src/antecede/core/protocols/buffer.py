"""``buffer`` and ``buffer-fifo``: causal unicast by acks alone (Mattern and Fünfrocken).

Rules, in the words of docs/glossary.md:

1. A process has an *output buffer*. A send puts its message at the end of it and returns.
2. Messages leave the output buffer in the order sent. ``buffer`` has one message in
   transit at a time: the next is released when the ack of the one before it arrives,
   whoever that was for.
3. A process has an *input buffer*. A message that arrives is acked at once, on arrival
   and not when the application takes it, and goes to the end of the input buffer (§3.1,
   §3.2 "getting a message"). The application takes messages from its front.
4. ``buffer-fifo`` relies on a transport that keeps the order of each pair (footnote 4):
   messages for the receiver that has some in transit already leave at once. Only a change
   of receiver waits, until all in transit are acked.

Why that is causal order: whatever a process sends after a message *m* is released only
when *m* is in its target's input buffer, or arrives there after *m* by the order of the
pair (Lemma 3). So does every chain of messages that begins there; nothing can overtake
*m* on the way, and the input buffer keeps the order of arrival (Lemma 4). What arrives is
therefore due for delivery: the list that ``messages_to_deliver`` hands out is the input
buffer, and no message ever waits in it for another. All waiting is at the sender, before
the release, and a message carries nothing but its number.

What does not block: the application, ever. Synchronous communication would give the same
order, but a sender would stand still until its receiver takes the message, and two that
send to each other would stand still for good (Fig. 1). Here only the buffers wait for one
another. A process sends, takes messages and sends again while its output buffer waits;
its input buffer acks meanwhile, so an ack depends on nothing but the network and every
wait ends (Fig. 3). Output buffers work concurrently: each process may have a message in
transit at the same moment, which makes crowns (Fig. 7), computations that synchronous
communication cannot have. Nested crowns (Fig. 8), though causal, it cannot have either.

What it costs: a burst from one process goes out at one message for each round trip,
with ``buffer-fifo`` one run of messages to the same receiver. A receiver that never acks
stops all later messages of the sender, to whomever they are.

A message to the process itself passes no output buffer, as for every protocol here: it
is delivered inside ``send``. The messages that it overtakes there are for others, and all
that happened before its send and is for this process has arrived (Proposition 1).

::

    MESSAGE       number, payload length (LEB128), payload       flag: must be 0
    ACK           nothing                       flag: must be 0, width: must be 1

An ack needs no number: all that is in transit is for one receiver, and each message of it
gets one ack.
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import Frame, Reader, write_head
from antecede.core.process import (
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
    checked_payload,
    checked_targets,
)
from antecede.core.protocols.baseline import MESSAGE, PlainMessage
from antecede.core.support.sliding import SlidingArray
from antecede.errors import LocalError, PeerError

__all__ = ["Buffer", "BufferAck", "BufferFifo", "read_buffer"]

ACK: Final = 2


@mypyc_attr(acyclic=True)
class BufferAck(Frame):
    """The word that a message is in the input buffer of whoever transmits this."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show the kind, which is all there is."""
        return "BufferAck()"

    def kind(self) -> int:
        """Return the number of this kind."""
        return ACK

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, ACK, 1)


def read_buffer(reader: Reader) -> Frame:
    """Read one frame of ``buffer`` or ``buffer-fifo``."""
    kind = reader.head()
    if kind == ACK and reader.width == 1 and not reader.flag:
        return BufferAck()
    if kind != MESSAGE or reader.flag:
        raise reader.refuse()
    return PlainMessage(reader.number(), reader.payload())


class Buffer(ProcessBase):
    """A process of ``buffer``; see :class:`antecede.core.process.Process`.

    It needs channels that lose and duplicate nothing; they may reorder.
    """

    __slots__ = ("_clock", "_output", "_receiver", "_unacked")

    def __init__(self, id: ProcessId) -> None:
        """Start a process with no history."""
        super().__init__(id)
        self._clock = 0  # The number of the last message sent.
        self._output: SlidingArray[Transmit] = SlidingArray()
        self._unacked = 0  # How many messages are in transit.
        self._receiver = id  # Whom these are for; it means nothing while there are none.

    @property
    def waiting(self) -> int:
        """How many messages are in the output buffer."""
        return len(self._output)

    @property
    def unacked(self) -> int:
        """How many messages are in transit: released, and no ack of them has arrived."""
        return self._unacked

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for one target and return its number, from 1."""
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
            self._deliveries.append(Delivery(target, number, data))
        else:
            self._output.add(Transmit(target, PlainMessage(number, data)))
            self._post()
        return number

    def backlog(self, peer: ProcessId) -> int:
        """Count all messages that wait or are in transit."""
        return len(self._output) + self._unacked

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if isinstance(frame, PlainMessage):
            if frame.number < 1:
                raise PeerError(f"{frame} cannot be")
            # The paper's get: the ack waits neither for the application nor for our own
            # output buffer, or crossing sends would deadlock.
            self._transmits.append(Transmit(source, BufferAck()))
            self._deliveries.append(Delivery(source, frame.number, frame.payload))
        elif isinstance(frame, BufferAck):
            if self._unacked == 0 or source != self._receiver:
                raise PeerError(f"ack by {source}, which owes none")
            self._unacked -= 1
            self._post()
        else:
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")

    def _may_post(self, target: ProcessId) -> bool:
        """Tell whether a message to ``target`` may be the next in transit."""
        return self._unacked == 0

    def _post(self) -> None:
        """Release, in the order sent, what waits for no ack ("posting messages")."""
        output = self._output
        while output.first < output.next:
            target = output.peek().target
            if not self._may_post(target):
                return
            self._receiver = target
            self._unacked += 1
            self._transmits.append(output.remove())


class BufferFifo(Buffer):
    """A process of ``buffer-fifo``: the same, on channels that keep their order."""

    __slots__ = ()

    def _may_post(self, target: ProcessId) -> bool:
        """Tell whether a message to ``target`` may be the next in transit (footnote 4)."""
        return self._unacked == 0 or target == self._receiver
