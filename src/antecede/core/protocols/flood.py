"""``flood``: every process passes every message on, once, over FIFO links.

This is R-broadcast (Nédelec, Molli, Mostéfaoui, Algorithm 1) over FIFO links, which
Friedman and Manor showed to be causal. Rules:

1. A process has *links* to some peers, its neighbourhood Q. A message goes out on all of
   them when its source broadcasts it, and again at every process that gets it for the
   first time; that is when it is delivered, too.
2. Further copies of it are dropped.

Why that is causal on an overlay that does not change: whoever passes a message on has
passed on, over the same FIFO links, all that it delivered before. So no path brings a
message ahead of one that happened before it, and nothing ever waits. Removing a link cuts
a tail off what it carries, which does no harm either (Lemma 1), as long as the overlay
stays connected. A *new* link does: it carries the next message, but not those before it,
which may still be on a longer way (Figure 3). :mod:`.preventive` mends that; this protocol
takes new links as they come, and shows the harm.

A message carries its source and number, whatever the number of processes. What has been
received is kept as runs of numbers per source: one run where nothing is missing, and one
more for each gap that a link added late has torn.

::

    MESSAGE       number, source (LEB128), payload length (LEB128), payload
                  flag: must be 0
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

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
)
from antecede.errors import LocalError, PeerError

__all__ = [
    "Flood",
    "NumberRuns",
    "RelayedMessage",
    "checked_peer",
    "read_flood",
    "read_relayed_message",
]

MESSAGE: Final = 1


class RelayedMessage(Frame):
    """An application message with the name of its source, whoever passes it on."""

    __slots__ = ("number", "payload", "source")

    source: ProcessId
    """Who sent it."""
    number: int
    """Its number among all messages of its source, from 1."""
    payload: bytes
    """The application's bytes."""

    def __init__(self, source: ProcessId, number: int, payload: bytes) -> None:
        """Make the frame; the fields are documented on the class."""
        self.source = source
        self.number = number
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        return f"RelayedMessage({self.source}:{self.number}, {len(self.payload)} B)"

    def kind(self) -> int:
        """Return the number of this kind."""
        return MESSAGE

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        return (
            1
            + width_of(self.number)
            + varint_width(self.source)
            + varint_width(len(self.payload))
        )

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return len(self.payload)

    def message_number(self) -> int:
        """Return the number of the message."""
        return self.number

    def message_source(self) -> int:
        """Return who sent the message."""
        return self.source

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
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
    """Read one frame of this protocol."""
    reader.head()
    return read_relayed_message(reader)


class NumberRuns:
    """A set of numbers that takes as much space as it has gaps."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        """Start with the empty set."""
        # The numbers from starts[i] to ends[i], both included, for every i, in order.
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        """Count the runs: what the set costs, not how many numbers are in it."""
        return len(self._starts)

    def __contains__(self, number: int) -> bool:
        """Tell whether ``number`` is in the set."""
        index = bisect_right(self._starts, number) - 1
        return index >= 0 and number <= self._ends[index]

    def add(self, number: int) -> bool:
        """Put ``number`` into the set; tell whether it was new there."""
        starts = self._starts
        ends = self._ends
        if ends and number == ends[-1] + 1:
            ends[-1] = number  # What comes next, as it nearly always does.
            return True
        after = bisect_right(starts, number)
        if after > 0 and number <= ends[after - 1]:
            return False
        joins_before = after > 0 and ends[after - 1] == number - 1
        joins_after = after < len(starts) and starts[after] == number + 1
        if joins_before and joins_after:
            ends[after - 1] = ends[after]
            del starts[after], ends[after]
        elif joins_before:
            ends[after - 1] = number
        elif joins_after:
            starts[after] = number
        else:
            starts.insert(after, number)
            ends.insert(after, number)
        return True


class Flood(ProcessBase):
    """A process of ``flood``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_clock", "_links", "_received")

    def __init__(self, id: ProcessId, links: Iterable[ProcessId] = ()) -> None:
        """Start a process with no history and links to ``links``."""
        super().__init__(id)
        self._clock = 0
        self._links: dict[ProcessId, None] = {}  # Q, in the order of its links' arrival.
        for peer in links:
            self._links[checked_peer(id, peer)] = None
        self._received: dict[ProcessId, NumberRuns] = {}

    @property
    def links(self) -> list[ProcessId]:
        """To whom this process has links."""
        return list(self._links)

    @property
    def runs_kept(self) -> int:
        """How many runs of numbers are kept to tell new messages from old ones."""
        return sum([len(runs) for runs in self._received.values()])

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for all members and return its number, from 1."""
        check_now(now)
        data = checked_payload(payload)
        self._clock += 1
        self._pass_on(RelayedMessage(self._id, self._clock, data))  # Lines 5 to 8.
        return self._clock

    def connect(self, peer: ProcessId, now: float) -> None:
        """Use a link to ``peer`` from now on, safe or not."""
        check_now(now)
        self._links[checked_peer(self._id, peer)] = None

    def disconnect(self, peer: ProcessId, now: float) -> None:
        """Use the link to ``peer`` no more."""
        check_now(now)
        self._links.pop(checked_peer(self._id, peer), None)

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Deliver and pass on what arrives for the first time (lines 9 to 13)."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if not isinstance(frame, RelayedMessage) or frame.number < 1 or frame.source < 0:
            raise PeerError(f"{frame} is no frame of this protocol")
        if frame.source == self._id:
            if frame.number > self._clock:
                raise PeerError(f"{frame} was never sent")
            return
        runs = self._received.get(frame.source)
        if runs is None:
            runs = NumberRuns()
            self._received[frame.source] = runs
        if runs.add(frame.number):
            self._pass_on(frame)

    def _pass_on(self, message: RelayedMessage) -> None:
        for peer in self._links:
            self._transmits.append(Transmit(peer, message))
        self._deliveries.append(Delivery(message.source, message.number, message.payload))


def checked_peer(id: ProcessId, peer: object) -> ProcessId:
    """Return ``peer``, or raise LocalError unless process ``id`` can have a link to it."""
    if not isinstance(peer, int) or isinstance(peer, bool) or peer < 0 or peer == id:
        raise LocalError(f"a link leads to another process's id, not to {peer!r}")
    return ProcessId(peer)
