"""``vector``: causal broadcast with vector clocks (Birman, Schiper and Stephenson).

From "Lightweight Causal and Atomic Group Multicast", ACM TOCS 9(3), 1991: the protocol
for one group whose members never change (section 5.1).

Rules, in the terms of docs/reference/glossary.md:

1. A process keeps a vector with one entry for each member: how many of that member's
   messages it has delivered. Its own entry counts the messages it has sent, because it
   delivers its own messages at once.
2. A message carries the vector of its sender, in which the message is counted. The
   sender's own entry is then the message's number; each other entry says how many
   messages of that member the sender had delivered before.
3. A target delivers a message of s as soon as it has delivered every earlier message of
   s, and as many messages of each other member as the message's vector says.

The vector gives the dependencies exactly, so no message is held longer than causal order
demands. Processes transmit only messages. The cost is an entry for each member in every
frame. Channels must be reliable; they may reorder.

A held message waits for one message at a time: the first missing one that its vector
demands. When that one is delivered, the comparison continues where it stopped, because
entries of the vector never decrease. A message therefore costs one pass over its vector,
however long it is held; a search through all held messages would cost such a pass at
every delivery.

::

    MESSAGE   number, members (LEB128), an entry for each other member in the order of
              their ids (LEB128 each), payload length (LEB128), payload     flag: must be 0

The number is the sender's own entry. The number of members is encoded because a frame is
read without knowing the group.
"""

from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

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
from antecede.core.input_checks import checked_payload
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit, check_now
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["Vector", "VectorMessage", "read_vector"]

MESSAGE: Final = 1


@mypyc_attr(acyclic=True)
class VectorMessage(PayloadFrame):
    """A copy of an application message with its vector."""

    __slots__ = ("_metadata_size", "others")

    KIND: ClassVar[int] = MESSAGE

    others: list[int]
    """The entries of all other members in the order of their ids; do not change the list,
    which all copies of a message share."""

    def __init__(self, number: int, others: list[int], payload: bytes) -> None:
        super().__init__(number, payload)
        self.others = others
        size = 1 + width_of(number) + varint_width(len(others) + 1)
        for entry in others:
            size += varint_width(entry)
        self._metadata_size = size + varint_width(len(payload))

    def metadata_size(self) -> int:
        return self._metadata_size  # Computed once: all copies share the frame.

    def write(self, buffer: bytearray) -> None:
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
        raise PeerError("invalid VectorMessage: it has no entry")
    others: list[int] = []
    for _ in range(
        members - 1
    ):  # An entry takes a byte or more, so the datagram's end bounds the loop.
        others.append(reader.varint())  # noqa: PERF401 (no nested function when compiled)
    return VectorMessage(number, others, reader.payload())


class _Held:
    """A message that has arrived, and the part of its vector that was compared."""

    __slots__ = ("needs", "number", "payload", "position", "source")

    def __init__(self, source: ProcessId, message: VectorMessage) -> None:
        self.source = source
        self.number = message.number
        self.payload = message.payload
        # The number of messages of each member to deliver before this one; of the source
        # itself all earlier ones.
        needs = message.others.copy()
        needs.insert(source, message.number - 1)
        self.needs = needs
        self.position = 0  # The entries before this one are satisfied.


class Vector(ProcessBase):
    """A process of ``vector``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_blocked", "_delivered", "_held", "_processes")

    def __init__(self, id: ProcessId, processes: int) -> None:
        """Create a member of a group with the ids 0 to ``processes`` - 1."""
        if not 0 <= id < processes:
            raise ConfigError(f"process {id} is not in a group of {processes}")
        super().__init__(id)
        self._processes = processes
        self._delivered = [0] * processes  # VT(p).
        # For each source, its held messages by number: the delay queue.
        self._held: list[dict[int, _Held]] = [{} for _ in range(processes)]
        # For each source and number, the messages held until that message is delivered.
        self._blocked: list[dict[int, list[_Held]]] = [{} for _ in range(processes)]

    @property
    def delivered(self) -> list[int]:
        """The number of messages delivered of each member: the vector clock."""
        return self._delivered.copy()

    @property
    def held(self) -> int:
        """The number of messages that have arrived and are not delivered."""
        return sum([len(messages) for messages in self._held])

    def broadcast(self, payload: object, now: float) -> int:
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
        """Deliver the message and those that wait for it, or hold it."""
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if not isinstance(frame, VectorMessage):
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")
        if not 0 <= source < self._processes:
            raise PeerError(f"source {source} is not in a group of {self._processes}")
        self._check(source, frame)
        held = _Held(source, frame)
        self._held[source][held.number] = held
        # Section 5.1, step 2. A delivery may make others possible.
        ready = [held]
        index = 0
        while index < len(ready):
            held = ready[index]
            index += 1
            if self._is_ready(held):
                unblocked = self._deliver(held)
                if unblocked is not None:
                    ready += unblocked

    def _check(self, source: ProcessId, message: VectorMessage) -> None:
        """Raise PeerError if ``message`` is invalid."""
        number = message.number
        others = message.others
        if number < 1 or len(others) != self._processes - 1:
            raise PeerError(
                f"invalid {message}: needs a number of at least 1 and"
                f" {self._processes - 1} entries"
            )
        for entry in others:
            if entry < 0:
                raise PeerError(f"invalid {message}: an entry is negative")
        # The list has no entry for the source, so later entries are shifted by one.
        own = others[self._id if self._id < source else self._id - 1]
        if own > self._delivered[self._id]:
            raise PeerError(f"invalid {message}: depends on unsent message {own}")
        if number <= self._delivered[source] or number in self._held[source]:
            raise PeerError(f"duplicate {message} from {source}")

    def _is_ready(self, held: _Held) -> bool:
        """Return whether a message can be delivered; if not, record what it waits for."""
        needs = held.needs
        delivered = self._delivered
        for position in range(held.position, self._processes):
            if needs[position] > delivered[position]:
                held.position = position
                blocked = self._blocked[position]
                number = needs[position]
                if number in blocked:
                    blocked[number].append(held)
                else:
                    blocked[number] = [held]
                return False
        return True

    def _deliver(self, held: _Held) -> list[_Held] | None:
        """Deliver a message, and return the messages that waited for it, if any."""
        self._delivered[held.source] = held.number  # Section 5.1, step 3.
        del self._held[held.source][held.number]
        self._deliveries.append(Delivery(held.source, held.number, held.payload))
        return self._blocked[held.source].pop(held.number, None)
