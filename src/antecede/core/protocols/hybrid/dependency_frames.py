"""The frames of ``bounded`` that ``hybrid`` does not have, and their encodings.

::

    DEPENDENT     number, predecessor, own, entries, payload length, payload
                  flag: the message needs no permit (then `own` has wildcards only)
    OPAQUE        like DEPENDENT, but it needs a permit        flag: must be 0
    SETTLED       notes                                        flag: must be 0
    SETTLED_ACK   delivered, arrived, notes                    flag: must be 0
    QUERY         notes                                        flag: must be 0

    own           count, then target and distance of each: the number of the message less
                  the number of the entry; the number of the message itself for a wildcard
    notes         number, settled targets, entries, wildcards
    entries       count, then source, target and number of each
    settled targets, wildcards    count, then target and number of each

Counts, sources, targets, distances, lengths and the numbers of entries are LEB128. A
message without entries and wildcards has the encoding of ``hybrid``, and so has an ack, a
permit or a request without notes.
"""

from typing import ClassVar, Final

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
from antecede.core.process import NO_PROCESS
from antecede.core.protocols.hybrid.entry import (
    Entry,
    entries_size,
    read_count,
    read_entries,
    read_targets,
    targets_size,
    write_entries,
    write_targets,
)
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, read_kind
from antecede.errors import PeerError

__all__ = [
    "DependentMessage",
    "Notes",
    "NotesFrame",
    "Query",
    "Settled",
    "SettledAck",
    "read_bounded_frame",
]

DEPENDENT: Final = 5
OPAQUE: Final = 6
SETTLED: Final = 7
SETTLED_ACK: Final = 8
QUERY: Final = 9


@mypyc_attr(acyclic=True)
class DependentMessage(MessageFrame):
    """A copy of an application message with entries or wildcards."""

    __slots__ = ("inherited", "is_opaque", "own", "wildcards")

    own: list[Entry]
    """For each other target with unacked copies of the sender, the last of these copies."""
    inherited: list[Entry]
    """The copies of other processes in the causal past that may not be delivered."""
    wildcards: list[int]
    """The targets of further copies in the causal past that may not be delivered."""
    is_opaque: bool
    """The sender has more own entries than its budget allows, and lists none of them."""

    def __init__(
        self,
        number: int,
        predecessor: int,
        permitted: bool,
        is_opaque: bool,
        own: list[Entry],
        inherited: list[Entry],
        wildcards: list[int],
        payload: bytes,
    ) -> None:
        super().__init__(number, predecessor, permitted, payload)
        self.is_opaque = is_opaque
        self.own = own
        self.inherited = inherited
        self.wildcards = wildcards

    def kind(self) -> int:
        return OPAQUE if self.is_opaque else DEPENDENT

    def metadata_size(self) -> int:
        number = self.number
        size = super().metadata_size() + entries_size(self.inherited)
        size += varint_width(len(self.own) + len(self.wildcards))
        for entry in self.own:
            size += varint_width(entry.target) + varint_width(number - entry.number)
        for target in self.wildcards:
            size += varint_width(target) + varint_width(number)
        return size

    def write(self, buffer: bytearray) -> None:
        number = self.number
        width = width_of(number)
        write_head(buffer, self.kind(), width, self.permitted)
        write_number(buffer, number, width)
        write_number(buffer, self.predecessor, width)
        write_varint(buffer, len(self.own) + len(self.wildcards))
        for entry in self.own:
            write_varint(buffer, entry.target)
            write_varint(buffer, number - entry.number)
        for target in self.wildcards:
            write_varint(buffer, target)
            write_varint(buffer, number)
        write_entries(buffer, self.inherited)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


@mypyc_attr(acyclic=True)
class Notes:
    """What a process knows of copies: in a query what it asks, else what is settled."""

    __slots__ = ("entries", "number", "targets", "wildcards")

    number: int
    """A permit, or in a query the last copy to retransmit; 0 for none."""
    targets: list[Entry]
    """Copies of the process that is not the target of the query, without their source."""
    entries: list[Entry]
    """Copies of other processes."""
    wildcards: list[Entry]
    """Target of each wildcard, and the last message to the asking process that has it."""

    def __init__(
        self,
        number: int,
        targets: list[Entry],
        entries: list[Entry],
        wildcards: list[Entry],
    ) -> None:
        self.number = number
        self.targets = targets
        self.entries = entries
        self.wildcards = wildcards

    def size(self) -> int:
        """Return the size of the encoding in bytes, without the number."""
        size = targets_size(self.targets) + entries_size(self.entries)
        return size + targets_size(self.wildcards)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding without the number."""
        write_targets(buffer, self.targets)
        write_entries(buffer, self.entries)
        write_targets(buffer, self.wildcards)


@mypyc_attr(acyclic=True)
class NotesFrame(Frame):
    """A frame that consists of notes."""

    __slots__ = ("notes",)

    notes: Notes

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def metadata_size(self) -> int:
        return 1 + width_of(self.notes.number) + self.notes.size()

    def write(self, buffer: bytearray) -> None:
        number = self.notes.number
        width = width_of(number)
        write_head(buffer, self.kind(), width)
        write_number(buffer, number, width)
        self.notes.write(buffer)


@mypyc_attr(acyclic=True)
class Settled(NotesFrame):
    """A permit, and entries and wildcards that are settled."""

    __slots__ = ()

    KIND: ClassVar[int] = SETTLED


@mypyc_attr(acyclic=True)
class Query(NotesFrame):
    """Asks which entries and wildcards are settled, and for copies up to a number again."""

    __slots__ = ()

    KIND: ClassVar[int] = QUERY


@mypyc_attr(acyclic=True)
class SettledAck(Ack):
    """An ack with the content of a :class:`Settled` frame."""

    __slots__ = ("notes",)

    notes: Notes

    def __init__(self, delivered: int, arrived: int, notes: Notes) -> None:
        super().__init__(delivered, arrived)
        self.notes = notes

    def kind(self) -> int:
        return SETTLED_ACK

    def metadata_size(self) -> int:
        return 1 + 3 * self._width() + self.notes.size()

    def write(self, buffer: bytearray) -> None:
        width = self._width()
        write_head(buffer, SETTLED_ACK, width)
        write_number(buffer, self.delivered, width)
        write_number(buffer, self.arrived, width)
        write_number(buffer, self.notes.number, width)
        self.notes.write(buffer)

    def _width(self) -> int:
        return width_of(max(self.delivered, self.arrived, self.notes.number))


def read_bounded_frame(reader: Reader) -> Frame:
    """Read one frame of ``bounded``."""
    kind = reader.head()
    if kind < DEPENDENT:
        return read_kind(reader, kind)
    permitted = reader.flag
    if kind > QUERY or (permitted and kind != DEPENDENT):
        raise reader.refuse()
    number = reader.number()
    if kind == SETTLED:
        return Settled(_read_notes(reader, number))
    if kind == QUERY:
        return Query(_read_notes(reader, number))
    second = reader.number()
    if kind == SETTLED_ACK:
        permit = reader.number()
        return SettledAck(number, second, _read_notes(reader, permit))
    own: list[Entry] = []
    wildcards: list[int] = []
    for _ in range(read_count(reader)):
        target = reader.varint()
        distance = reader.varint()
        if distance > number:
            raise PeerError(f"invalid entry: {distance} before message {number}")
        if distance == number:
            wildcards.append(target)
        else:
            own.append(Entry(NO_PROCESS, target, number - distance))
    if own and (permitted or kind == OPAQUE):
        raise PeerError("a message that is permitted or opaque has no own entries")
    inherited = read_entries(reader)
    is_opaque = kind == OPAQUE
    return DependentMessage(
        number, second, permitted, is_opaque, own, inherited, wildcards, reader.payload()
    )


def _read_notes(reader: Reader, number: int) -> Notes:
    targets = read_targets(reader)
    entries = read_entries(reader)
    return Notes(number, targets, entries, read_targets(reader))
