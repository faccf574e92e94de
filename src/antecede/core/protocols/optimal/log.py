"""The log of ``optimal``: the dependencies that messages carry (see :mod:`.optimal`).

A log is a list of entries, ordered by source and number. An entry is an earlier message
with the targets for which it is still a dependency. An entry without targets is *settled*;
it is kept while it is the last of its source, because it shows that all earlier messages
of the source without an entry are settled, too.

Entries and logs are immutable, so logs and messages share them.
"""

from mypy_extensions import mypyc_attr

from antecede.core.codec import Reader, varint_width, write_varint
from antecede.core.process import NO_PROCESS

__all__ = [
    "Entry",
    "append",
    "are_valid",
    "merged",
    "read_targets",
    "targets_size",
    "with_last",
    "without",
    "write_targets",
]


@mypyc_attr(acyclic=True)
class Entry:
    """An earlier message, and the targets for which it is still a dependency."""

    __slots__ = ("number", "size", "source", "targets")

    source: int
    """The source of the message."""
    number: int
    """The number among all messages of the source, from 1."""
    targets: tuple[int, ...]
    """The targets for which it is not known to be settled, in ascending order."""
    size: int
    """The size of the encoding in bytes."""

    def __init__(self, source: int, number: int, targets: tuple[int, ...]) -> None:
        self.source = source
        self.number = number
        self.targets = targets
        self.size = varint_width(source) + varint_width(number) + targets_size(targets)

    def __repr__(self) -> str:
        return f"Entry({self.source}:{self.number}, to {self.targets})"


def append(log: list[Entry], entry: Entry) -> None:
    """Append the next entry; it replaces a settled last entry of the same source.

    This is the paper's PURGE_NULL_ENTRIES, applied while a log is built.
    """
    if log and not log[-1].targets and log[-1].source == entry.source:
        log[-1] = entry
    else:
        log.append(entry)


def with_last(log: list[Entry], entry: Entry) -> list[Entry]:
    """Return a log with an additional entry, which is the last of its source."""
    end = len(log)
    while end > 0 and log[end - 1].source > entry.source:
        end -= 1
    head = log[:end]
    append(head, entry)
    return head + log[end:]


def without(entry: Entry, removed: set[int], kept: int = NO_PROCESS) -> Entry:
    """Return the entry without the targets ``removed``, except ``kept``."""
    for target in entry.targets:
        if target in removed and target != kept:
            rest = [t for t in entry.targets if t not in removed or t == kept]
            return Entry(entry.source, entry.number, tuple(rest))
    return entry


def merged(own: list[Entry], received: list[Entry]) -> list[Entry]:
    """Merge two logs: a dependency is settled if it is settled in either of them.

    A message without an entry is settled in a log with a later message of its source.
    """
    log: list[Entry] = []
    i = 0
    j = 0
    while i < len(own) and j < len(received):
        one = own[i]
        other = received[j]
        if one.source < other.source:
            append(log, one)
            i += 1
        elif one.source > other.source:
            append(log, other)
            j += 1
        elif one.number < other.number:
            i += 1  # Settled in the received log.
        elif one.number > other.number:
            j += 1  # Settled in our own log.
        else:
            append(log, _common(one, other))
            i += 1
            j += 1
    for entry in own[i:]:
        append(log, entry)
    for entry in received[j:]:
        append(log, entry)
    return log


def _common(one: Entry, other: Entry) -> Entry:
    """Return the entry with the targets that both entries of a message have."""
    if one is other or one.targets == other.targets:
        return one
    others = set(other.targets)
    both = [target for target in one.targets if target in others]
    if len(both) == len(one.targets):
        return one
    return Entry(one.source, one.number, tuple(both))


def are_valid(targets: tuple[int, ...], source: int) -> bool:
    """Return whether targets are in ascending order and do not contain the source."""
    last = NO_PROCESS
    for target in targets:
        if target <= last or target == source:
            return False
        last = target
    return True


def targets_size(targets: tuple[int, ...]) -> int:
    """Return the size of the encoded targets in bytes."""
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
