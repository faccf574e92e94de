"""Entries of ``bounded``: copies in the causal past that may not be delivered yet."""

from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import Reader, varint_width, write_varint
from antecede.core.process import NO_PROCESS
from antecede.errors import PeerError

__all__ = [
    "ENTRIES_MAX",
    "Entry",
    "entries_size",
    "read_count",
    "read_entries",
    "read_targets",
    "targets_size",
    "write_entries",
    "write_targets",
]

ENTRIES_MAX: Final = 4096
"""The most entries in one list of a frame; a datagram of 64 kB has room for few more."""


@mypyc_attr(acyclic=True)
class Entry:
    """A copy of a message from ``source`` to ``target``, and all earlier ones of the pair.

    On a message, an entry says that these copies may not be delivered yet. In a
    :class:`~antecede.core.protocols.hybrid.dependency_frames.Settled` frame, it says that
    they are delivered.
    """

    __slots__ = ("number", "size", "source", "target")

    source: int
    """The sender of the copies; NO_PROCESS if the frame implies it."""
    target: int
    number: int
    """The number of the last of these copies among all messages of the source."""
    size: int
    """The size of the encoding in bytes, with the source."""

    def __init__(self, source: int, target: int, number: int) -> None:
        self.source = source
        self.target = target
        self.number = number
        self.size = varint_width(source) + varint_width(target) + varint_width(number)

    def __repr__(self) -> str:
        return f"Entry({self.source}:{self.number} to {self.target})"


def entries_size(entries: list[Entry]) -> int:
    """Return the size in bytes of encoded entries with their sources."""
    size = varint_width(len(entries))
    for entry in entries:
        size += entry.size
    return size


def write_entries(buffer: bytearray, entries: list[Entry]) -> None:
    """Append entries: their count, then source, target and number of each."""
    write_varint(buffer, len(entries))
    for entry in entries:
        write_varint(buffer, entry.source)
        write_varint(buffer, entry.target)
        write_varint(buffer, entry.number)


def read_entries(reader: Reader) -> list[Entry]:
    """Read entries with their sources."""
    return _read_list(reader, has_sources=True)


def targets_size(entries: list[Entry]) -> int:
    """Return the size in bytes of encoded entries without their sources."""
    size = varint_width(len(entries))
    for entry in entries:
        size += varint_width(entry.target) + varint_width(entry.number)
    return size


def write_targets(buffer: bytearray, entries: list[Entry]) -> None:
    """Append entries without their sources: their count, then target and number of each."""
    write_varint(buffer, len(entries))
    for entry in entries:
        write_varint(buffer, entry.target)
        write_varint(buffer, entry.number)


def read_targets(reader: Reader) -> list[Entry]:
    """Read entries without sources."""
    return _read_list(reader, has_sources=False)


def _read_list(reader: Reader, has_sources: bool) -> list[Entry]:
    entries: list[Entry] = []
    for _ in range(read_count(reader)):
        source = reader.varint() if has_sources else NO_PROCESS
        target = reader.varint()
        number = reader.varint()
        if number < 1:
            raise PeerError(f"invalid entry: number 0 to {target}")
        if source == target:
            raise PeerError(f"invalid entry: {source}:{number} to {target}")
        entries.append(Entry(source, target, number))
    return entries


def read_count(reader: Reader) -> int:
    """Read the length of a list of entries."""
    count = reader.varint()
    if count > ENTRIES_MAX:
        raise PeerError(f"{count} entries in a list of a frame; at most {ENTRIES_MAX}")
    return count
