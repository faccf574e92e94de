"""``vector``: causal broadcast with vector clocks (Birman, Schiper and Stephenson).

From "Lightweight Causal and Atomic Group Multicast", ACM TOCS 9(3), 1991: the protocol
for one group whose members never change (section 5.1).

Rules, in the words of docs/glossary.md:

1. A process keeps a vector with one entry for each member: how many of that member's
   messages it has delivered. Its own entry counts what it has sent, because it delivers
   its own messages at once.
2. A message carries the vector that its sender has just after counting the message. The
   sender's own entry is then the message's number; each other entry says how many
   messages of that member the sender had delivered before.
3. A target delivers a message of s as soon as it has delivered every earlier message of
   s, and as many messages of each other member as the message's vector says.

What a message depends on is known exactly, so nothing is held back longer than causal
order asks for. Nothing but messages is transmitted. The price is an entry for each member
in every frame. Channels must be reliable; they may reorder.

A held message waits for one message at a time: the first that its vector asks for and
that is missing. When that one is delivered, the comparison goes on where it stopped,
since what was there stays there. So a message costs one pass over its vector, however
often and however long it is held, where a search of everything held would cost such a
pass at every delivery.

::

    MESSAGE   number, members (LEB128), an entry for each other member in the order of
              their ids (LEB128 each), payload length (LEB128), payload     flag: must be 0

The number is the sender's own entry. How many members there are is on the wire because a
frame is read without knowing the group.
"""

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
)
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["Vector", "VectorMessage", "read_vector"]

MESSAGE: Final = 1


@mypyc_attr(acyclic=True)
class VectorMessage(Frame):
    """A copy of an application message with its vector."""

    __slots__ = ("_metadata_size", "number", "others", "payload")

    number: int
    """Its number among all messages of its sender, from 1: the sender's own entry."""
    others: list[int]
    """The entries of all other members, in the order of their ids. Leave it unchanged:
    all copies of a message share it."""
    payload: bytes
    """The application's bytes."""

    def __init__(self, number: int, others: list[int], payload: bytes) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.others = others
        self.payload = payload
        size = 1 + width_of(number) + varint_width(len(others) + 1)
        for entry in others:
            size += varint_width(entry)
        self._metadata_size = size + varint_width(len(payload))

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        return f"VectorMessage({self.number}, {self.others}, {len(self.payload)} B)"

    def kind(self) -> int:
        """Return the number of this kind."""
        return MESSAGE

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        return self._metadata_size  # Counted once: all copies share the frame.

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return len(self.payload)

    def message_number(self) -> int:
        """Return the number of the message."""
        return self.number

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(self.number)
        write_head(buffer, MESSAGE, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.others) + 1)
        for entry in self.others:
            write_varint(buffer, entry)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


def read_vector(reader: Reader) -> Frame:
    """Read one frame of ``vector``."""
    if reader.head() != MESSAGE or reader.flag:
        raise reader.refuse()
    number = reader.number()
    members = reader.varint(5)
    if members < 1:
        raise PeerError("a vector without an entry")
    others: list[int] = []
    for _ in range(members - 1):  # Each takes a byte, so a datagram's end ends it.
        others.append(reader.varint())  # noqa: PERF401 (no nested function when compiled)
    return VectorMessage(number, others, reader.payload())


class _Held:
    """A message that has arrived, and how far its vector has been compared."""

    __slots__ = ("needs", "number", "payload", "position", "source")

    def __init__(self, source: ProcessId, message: VectorMessage) -> None:
        self.source = source
        self.number = message.number
        self.payload = message.payload
        # How many messages of each member must have been delivered before this one. Of
        # its own source: all earlier ones.
        needs = message.others.copy()
        needs.insert(source, message.number - 1)
        self.needs = needs
        self.position = 0  # The needs before this one are met.


class Vector(ProcessBase):
    """A process of ``vector``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_delivered", "_held", "_processes", "_waiting")

    def __init__(self, id: ProcessId, processes: int) -> None:
        """Start a process of a group whose members are 0 up to ``processes`` - 1."""
        if not 0 <= id < processes:
            raise ConfigError(f"no process {id} in a group of {processes}")
        super().__init__(id)
        self._processes = processes
        self._delivered = [0] * processes  # VT(p).
        # For each source, what is held of it, by number: the delay queue.
        self._held: list[dict[int, _Held]] = [{} for _ in range(processes)]
        # For each source, by number, what is held until that message is delivered.
        self._waiting: list[dict[int, list[_Held]]] = [{} for _ in range(processes)]

    @property
    def delivered(self) -> list[int]:
        """How many messages of each member have been delivered: the vector clock."""
        return self._delivered.copy()

    @property
    def held(self) -> int:
        """How many messages have arrived and are not delivered."""
        return sum([len(messages) for messages in self._held])

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for all members and return its number, from 1."""
        check_now(now)
        data = checked_payload(payload)
        self._delivered[self._id] += 1  # Section 5.1, step 1.
        number = self._delivered[self._id]
        others = self._delivered.copy()
        others.pop(self._id)
        message = VectorMessage(number, others, data)
        for target in range(self._processes):
            if target != self._id:
                self._transmits.append(Transmit(ProcessId(target), message))
        self._deliveries.append(Delivery(self._id, number, data))
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Deliver what arrived from ``source`` and what waited for it, or hold it."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if not isinstance(frame, VectorMessage):
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")
        if not 0 <= source < self._processes:
            raise PeerError(f"{source} is not in the group of {self._processes}")
        self._check(source, frame)
        held = _Held(source, frame)
        self._held[source][held.number] = held
        # Section 5.1, step 2; a delivery may make others possible, and those still others.
        ready = [held]
        index = 0
        while index < len(ready):
            held = ready[index]
            index += 1
            if self._is_ready(held):
                woken = self._deliver(held)
                if woken is not None:
                    ready += woken

    def _check(self, source: ProcessId, message: VectorMessage) -> None:
        """Raise PeerError if ``message`` cannot be."""
        number = message.number
        others = message.others
        if number < 1 or len(others) != self._processes - 1:
            raise PeerError(f"{message} in a group of {self._processes} cannot be")
        for entry in others:
            if entry < 0:
                raise PeerError(f"{message} cannot be")
        # The source's own entry is left out, so those after it are one place to the left.
        mine = others[self._id if self._id < source else self._id - 1]
        if mine > self._delivered[self._id]:
            raise PeerError(f"{message} depends on message {mine}, which was not sent")
        if number <= self._delivered[source] or number in self._held[source]:
            raise PeerError(f"{message} of {source} arrived before")

    def _is_ready(self, held: _Held) -> bool:
        """Tell whether a message can be delivered; else let it wait for one it needs."""
        needs = held.needs
        delivered = self._delivered
        for position in range(held.position, self._processes):
            if needs[position] > delivered[position]:
                held.position = position
                waiting = self._waiting[position]
                number = needs[position]
                if number in waiting:
                    waiting[number].append(held)
                else:
                    waiting[number] = [held]
                return False
        return True

    def _deliver(self, held: _Held) -> list[_Held] | None:
        """Deliver a message, and return what has waited for it, if anything has."""
        self._delivered[held.source] = held.number  # Section 5.1, step 3.
        del self._held[held.source][held.number]
        self._deliveries.append(Delivery(held.source, held.number, held.payload))
        return self._waiting[held.source].pop(held.number, None)
