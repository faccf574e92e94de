"""``buffer`` and ``buffer-fifo``: causal unicast with acks only (Mattern and Fünfrocken).

Rules, in the terms of docs/reference/glossary.md:

1. A process has an *output buffer*. A send appends its message to it and returns.
2. Messages leave the output buffer in the order of sending. ``buffer`` has one message in
   flight at a time: the process releases the next message when the ack of the previous one
   arrives, whatever their targets are.
3. A process has an *input buffer*. It acks a message on arrival, before the application
   takes it, and appends it to the input buffer (§3.1, §3.2 "getting a message"). The
   application takes messages from the front.
4. ``buffer-fifo`` needs FIFO channels (footnote 4): while messages to one target are in
   flight, further messages to this target leave at once. A message to another target
   waits until all messages in flight are acked.

Why this is causal order: a message that a process sends after a message *m* is released
only when *m* is in the input buffer of its target, or reaches the same target after *m* by
the FIFO order of the channel (Lemma 3). The same holds for every causal chain that begins
there, so no message overtakes *m* in flight, and the input buffer keeps the order of
arrival (Lemma 4). Therefore a message can be delivered when it arrives: the list that
``messages_to_deliver`` returns is the input buffer, and no message is held. Messages wait
only at the sender, before their release, and carry only their number.

The application never blocks. Synchronous communication gives the same order, but a sender
blocks until its receiver takes the message, and two processes that send to each other
block forever (Fig. 1). Here a process sends and takes messages while its output buffer
waits. Its input buffer acks in the meantime, so an ack depends only on the network, and
every wait ends (Fig. 3). Each process may have a message in flight at the same time, which
allows crowns (Fig. 7), computations that are impossible with synchronous communication.
Nested crowns (Fig. 8), although causal, remain impossible.

The cost: a burst of one process leaves at one message per round trip (``buffer-fifo``: one
run of messages to the same target per round trip). A target that never acks blocks all
later messages of the sender.

A message to the process itself does not use the output buffer: it is delivered inside
``send``, as in all protocols here. It overtakes only messages to other targets, and every
message to this process that happened before its send has arrived (Proposition 1).

::

    MESSAGE       number, payload length (LEB128), payload       flag: must be 0
    ACK           nothing                       flag: must be 0, width: must be 1

An ack needs no number: all messages in flight have the same target, and each gets one ack.
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import Frame, HeadFrame, Reader
from antecede.core.input_checks import checked_payload, checked_targets
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit, check_now
from antecede.core.protocols.baseline import MESSAGE, BaselineMessage
from antecede.core.support.sliding import SlidingArray
from antecede.errors import LocalError, PeerError

__all__ = ["Buffer", "BufferAck", "BufferFifo", "read_buffer"]

ACK: Final = 2


@mypyc_attr(acyclic=True)
class BufferAck(HeadFrame):
    """Tells the sender that its message is in the input buffer of the target."""

    __slots__ = ()

    KIND: ClassVar[int] = ACK


def read_buffer(reader: Reader) -> Frame:
    """Read one frame of ``buffer`` or ``buffer-fifo``."""
    kind = reader.head()
    if kind == ACK and reader.width == 1 and not reader.flag:
        return BufferAck()
    if kind != MESSAGE or reader.flag:
        raise reader.refuse()
    return BaselineMessage(reader.number(), reader.payload())


class Buffer(ProcessBase):
    """A process of ``buffer``; its channels must be reliable, and may reorder."""

    __slots__ = ("_clock", "_in_flight", "_output", "_receiver")

    def __init__(self, id: ProcessId) -> None:
        super().__init__(id)
        self._clock = 0  # The number of the last message sent.
        self._output: SlidingArray[Transmit] = SlidingArray()
        self._in_flight = 0
        self._receiver = id  # The target of the messages in flight, if there are any.

    @property
    def queued(self) -> int:
        """The number of messages in the output buffer."""
        return len(self._output)

    @property
    def in_flight(self) -> int:
        """The number of released messages without an ack."""
        return self._in_flight

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
            self._deliveries.append(Delivery(target, number, data))
        else:
            self._output.add(Transmit(target, BaselineMessage(number, data)))
            self._release()
        return number

    def backlog(self, peer: ProcessId) -> int:
        return len(self._output) + self._in_flight

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if isinstance(frame, BaselineMessage):
            if frame.number < 1:
                raise PeerError(f"invalid {frame}: number must be at least 1")
            # The ack waits neither for the application nor for our output buffer (the
            # paper's get); otherwise two processes that send to each other deadlock.
            self._transmits.append(Transmit(source, BufferAck()))
            self._deliveries.append(Delivery(source, frame.number, frame.payload))
        elif isinstance(frame, BufferAck):
            if self._in_flight == 0 or source != self._receiver:
                raise PeerError(f"ack from {source}, but no message to it is in flight")
            self._in_flight -= 1
            self._release()
        else:
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")

    def _may_release(self, target: ProcessId) -> bool:
        """Return whether a message to ``target`` may leave the output buffer now."""
        return self._in_flight == 0

    def _release(self) -> None:
        """Release messages in the order of sending until one must wait for an ack."""
        output = self._output
        while output.first < output.next:
            target = output.peek().target
            if not self._may_release(target):
                return
            self._receiver = target
            self._in_flight += 1
            self._transmits.append(output.remove())


class BufferFifo(Buffer):
    """A process of ``buffer-fifo``; its channels must be reliable and FIFO."""

    __slots__ = ()

    def _may_release(self, target: ProcessId) -> bool:
        return self._in_flight == 0 or target == self._receiver  # Footnote 4.
