"""``flood``: each process forwards each message once, over FIFO links.

This is R-broadcast (Nédelec, Molli, Mostéfaoui, Algorithm 1) over FIFO links, which
Friedman and Manor proved to be causal. Rules:

1. A process has *links* to some peers, its neighbourhood Q. The source of a message
   transmits it on all its links, and so does each process that receives it for the first
   time and delivers it.
2. Duplicates are dropped.

On an overlay that does not change, this keeps causal order: a process that forwards a
message has forwarded, over the same FIFO links, all messages that it delivered before. So
no path delivers a message before one that happened before it, and no message is held.
Removing a link only ends the sequence of messages on it, which is harmless (Lemma 1) as
long as the overlay stays connected. A *new* link breaks the order: it carries the next
message, but not the earlier ones, which may still travel on a longer path (Figure 3).
:mod:`antecede.core.protocols.pc_broadcast` solves this; ``flood`` uses new links at once,
and so shows the violation.

A message carries its source and number, for any number of processes. Received numbers are
stored per source as intervals: one if none is missing, and one more for each gap that a
new link has caused.

::

    MESSAGE       number, source (LEB128), payload length (LEB128), payload
                  flag: must be 0
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from antecede.core.codec import (
    Frame,
    PayloadFrame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.input_checks import checked_payload, checked_peer
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit, check_now
from antecede.core.support.interval_set import IntervalSet
from antecede.errors import LocalError, PeerError

__all__ = ["Flood", "RelayedMessage", "read_flood", "read_relayed_message"]

MESSAGE: Final = 1


class RelayedMessage(PayloadFrame):
    """An application message with its source, which need not be the sender."""

    __slots__ = ("source",)

    KIND: ClassVar[int] = MESSAGE

    source: ProcessId

    def __init__(self, source: ProcessId, number: int, payload: bytes) -> None:
        super().__init__(number, payload)
        self.source = source

    def metadata_size(self) -> int:
        return (
            1
            + width_of(self.number)
            + varint_width(self.source)
            + varint_width(len(self.payload))
        )

    def message_source(self) -> int:
        return self.source

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_head(buffer, MESSAGE, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, self.source)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


def read_relayed_message(reader: Reader) -> RelayedMessage:
    """Read a relayed message whose head has been read."""
    if reader.kind != MESSAGE or reader.flag:
        raise reader.refuse()
    number = reader.number()
    source = ProcessId(reader.varint())
    return RelayedMessage(source, number, reader.payload())


def read_flood(reader: Reader) -> Frame:
    """Read one frame of ``flood``."""
    reader.head()
    return read_relayed_message(reader)


class Flood(ProcessBase):
    """A process of ``flood``."""

    __slots__ = ("_clock", "_links", "_received")

    def __init__(self, id: ProcessId, links: Iterable[ProcessId] = ()) -> None:
        super().__init__(id)
        self._clock = 0
        self._links: dict[ProcessId, None] = {}  # Q, the oldest link first.
        for peer in links:
            self._links[checked_peer(id, peer)] = None
        self._received: dict[ProcessId, IntervalSet] = {}

    @property
    def links(self) -> list[ProcessId]:
        """The peers that this process has links to."""
        return list(self._links)

    @property
    def intervals(self) -> int:
        """The number of intervals of received numbers, over all sources."""
        return sum([len(numbers) for numbers in self._received.values()])

    def broadcast(self, payload: object, now: float) -> int:
        check_now(now)
        data = checked_payload(payload)
        self._clock += 1
        self._deliver(RelayedMessage(self._id, self._clock, data))  # Lines 5 to 8.
        return self._clock

    def connect(self, peer: ProcessId, now: float) -> None:
        check_now(now)
        self._links[checked_peer(self._id, peer)] = None

    def disconnect(self, peer: ProcessId, now: float) -> None:
        check_now(now)
        self._links.pop(checked_peer(self._id, peer), None)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Deliver and forward a message on its first arrival (lines 9 to 13)."""
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if not isinstance(frame, RelayedMessage):
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")
        if frame.number < 1 or frame.source < 0:
            raise PeerError(f"invalid {frame}: number must be at least 1")
        if frame.source == self._id:
            if frame.number > self._clock:
                raise PeerError(f"invalid {frame}: this process has not sent it")
            return
        numbers = self._received.get(frame.source)
        if numbers is None:
            numbers = IntervalSet()
            self._received[frame.source] = numbers
        if numbers.add(frame.number):
            self._deliver(frame)

    def _deliver(self, message: RelayedMessage) -> None:
        for peer in self._links:
            self._transmits.append(Transmit(peer, message))
        self._deliveries.append(Delivery(message.source, message.number, message.payload))
