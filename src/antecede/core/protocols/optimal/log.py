"""The log of ``optimal``: which dependencies are to be told (see :mod:`.optimal`).

A log is a list of entries, ordered by source and number. An entry is a message of the past
with the targets to which it is still a dependency. With none left it is *settled*, and
stays only as long as it is the last of its source: it bears witness that all before it
which are not in the log are settled too.

Entries and logs are never changed once they are made, so logs and messages share them.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import Reader, varint_width, write_varint

__all__ = [
    "NOBODY",
    "Entry",
    "append",
    "ascend",
    "merged",
    "read_targets",
    "targets_size",
    "with_last",
    "without",
    "write_targets",
]

NOBODY: Final = -1
"""Is no process."""


@mypyc_attr(acyclic=True)
class Entry:
    """A message of the past, and where it is still a dependency."""

    __slots__ = ("number", "size", "source", "targets")

    source: int
    """Who sent it."""
    number: int
    """Its number among all messages of its source, from 1."""
    targets: tuple[int, ...]
    """To whom it is not known to be settled, in ascending order."""
    size: int
    """The bytes of this entry on the wire."""

    def __init__(self, source: int, number: int, targets: tuple[int, ...]) -> None:
        """Make the entry; the fields are documented on the class."""
        self.source = source
        self.number = number
        self.targets = targets
        self.size = varint_width(source) + varint_width(number) + targets_size(targets)

    def __repr__(self) -> str:
        """Show the fields."""
        return f"Entry({self.source}:{self.number}, to {self.targets})"


def append(log: list[Entry], entry: Entry) -> None:
    """Append the next entry; a settled one of its source before it is not needed then.

    This is the paper's PURGE_NULL_ENTRIES, done while a log is being made.
    """
    if log and not log[-1].targets and log[-1].source == entry.source:
        log[-1] = entry
    else:
        log.append(entry)


def with_last(log: list[Entry], entry: Entry) -> list[Entry]:
    """Return a log with one entry more, which is the last of its source."""
    end = len(log)
    while end > 0 and log[end - 1].source > entry.source:
        end -= 1
    head = log[:end]
    append(head, entry)
    return head + log[end:]


def without(entry: Entry, gone: set[int], kept: int = NOBODY) -> Entry:
    """Return the entry without the targets ``gone``, save ``kept`` if it is one."""
    for target in entry.targets:
        if target in gone and target != kept:
            rest = [t for t in entry.targets if t not in gone or t == kept]
            return Entry(entry.source, entry.number, tuple(rest))
    return entry


def merged(mine: list[Entry], theirs: list[Entry]) -> list[Entry]:
    """Return what two logs say together: settled is what either of them knows to be.

    A log that has a later message of a source and not this one knows that it is settled.
    """
    log: list[Entry] = []
    i = 0
    j = 0
    while i < len(mine) and j < len(theirs):
        one = mine[i]
        other = theirs[j]
        if one.source < other.source:
            append(log, one)
            i += 1
        elif one.source > other.source:
            append(log, other)
            j += 1
        elif one.number < other.number:
            i += 1  # They know a later one and are silent of this.
        elif one.number > other.number:
            j += 1  # Likewise we.
        else:
            append(log, _common(one, other))
            i += 1
            j += 1
    for entry in mine[i:]:
        append(log, entry)
    for entry in theirs[j:]:
        append(log, entry)
    return log


def _common(one: Entry, other: Entry) -> Entry:
    """Return an entry of the same message with the targets that both have."""
    if one is other or one.targets == other.targets:
        return one
    named = set(other.targets)
    both = [target for target in one.targets if target in named]
    if len(both) == len(one.targets):
        return one
    return Entry(one.source, one.number, tuple(both))


def ascend(targets: tuple[int, ...], source: int) -> bool:
    """Tell whether targets are in ascending order, and the source is none of them."""
    last = NOBODY
    for target in targets:
        if target <= last or target == source:
            return False
        last = target
    return True


def targets_size(targets: tuple[int, ...]) -> int:
    """Count the bytes of targets on the wire."""
    size = varint_width(len(targets))
    for target in targets:
        size += varint_width(target)
    return size


def write_targets(buffer: bytearray, targets: tuple[int, ...]) -> None:
    """Append the encoding of targets to ``buffer``."""
    write_varint(buffer, len(targets))
    for target in targets:
        write_varint(buffer, target)


def read_targets(reader: Reader) -> tuple[int, ...]:
    """Read targets."""
    targets: list[int] = []
    for _ in range(reader.varint()):
        targets.append(reader.varint())  # noqa: PERF401 (a loop compiles better)
    return tuple(targets)
