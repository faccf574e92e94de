"""The records of the naive rules of ``bounded``, and the size of a list of entries."""

from dataclasses import dataclass, field
from typing import NamedTuple

from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage
from antecede.core.protocols.hybrid.frames import MessageFrame

__all__ = [
    "EMPTY",
    "Content",
    "Copy",
    "Entry",
    "Kept",
    "KeptWildcard",
    "Listing",
    "SentWildcard",
    "size_of",
]


class Entry(NamedTuple):
    """The copies from ``source`` to ``target`` up to ``number``."""

    source: int
    target: int
    number: int


class Listing(NamedTuple):
    """What a message lists."""

    own: frozenset[Entry]
    inherited: frozenset[Entry]
    wildcards: frozenset[int]


EMPTY = Listing(frozenset(), frozenset(), frozenset())


class Content(NamedTuple):
    """What a frame with a message says."""

    number: int
    predecessor: int
    permitted: bool
    is_opaque: bool
    """The target needs a permit."""
    listing: Listing
    payload: bytes

    @staticmethod
    def of(source: ProcessId, frame: MessageFrame) -> "Content":
        """Return the content of a frame that ``source`` has transmitted."""
        listing = EMPTY
        is_opaque = not frame.permitted
        if isinstance(frame, DependentMessage):
            is_opaque = frame.is_opaque
            listing = Listing(
                frozenset(Entry(source, each.target, each.number) for each in frame.own),
                frozenset(Entry(e.source, e.target, e.number) for e in frame.inherited),
                frozenset(frame.wildcards),
            )
        return Content(
            frame.number,
            frame.predecessor,
            frame.permitted,
            is_opaque,
            listing,
            frame.payload,
        )


@dataclass
class Copy:
    """A message for one of its targets."""

    target: ProcessId
    number: int
    predecessor: int
    payload: bytes
    sent_at: int
    """The number of deliveries before the send."""
    permits: list[tuple[int, int]]
    """Source and number of the opaque messages before the send whose permit was missing."""
    listing: Listing | None = None
    """What it listed when it was released; None while it is queued."""
    is_opaque: bool = False
    transmitted_at: float = 0.0
    is_retransmitted: bool = False
    has_arrived: bool = False
    is_acked: bool = False
    """The target has acked it, or it was abandoned."""
    is_abandoned: bool = False
    is_in_channel: bool = True
    """The channel was not given up since; else it is no predecessor."""

    @property
    def is_queued(self) -> bool:
        """Whether it waits at its sender."""
        return self.listing is None and not self.is_abandoned


@dataclass
class Kept:
    """An unsettled entry of a delivered message."""

    entry: Entry
    delivered_at: int
    """The number of deliveries up to the one that brought it."""
    since: float
    reporters: list[int] = field(default_factory=list)
    """The processes whose messages brought it, the first one first."""
    is_replaceable: bool = False
    """The process may have replaced it by a higher entry of the pair (rule 1)."""
    may_be_settled: bool = False
    """It is settled if the process has not replaced it."""


class KeptWildcard(NamedTuple):
    """A wildcard of a delivered message."""

    target: int
    reporter: int
    number: int
    """The number of the message."""
    delivered_at: int
    """The number of deliveries up to that one."""


class SentWildcard(NamedTuple):
    """A wildcard on a released message that is not cleared."""

    target: int
    peer: int
    """The target of the message."""
    number: int
    """The number of the message."""
    sent_at: int
    """The number of deliveries before the send of the message."""


def size_of(listing: Listing, number: int) -> int:
    """Return the bytes that message ``number`` has in addition to those of ``hybrid``.

    ::

        own           count, then target and distance of each: the number of the message
                      less the number of the entry, or of a wildcard the number itself
        entries       count, then source, target and number of each

    All of these are LEB128. Without entries and wildcards, both counts are absent.
    """
    if listing == EMPTY:
        return 0
    fields = [len(listing.own) + len(listing.wildcards), len(listing.inherited)]
    for entry in listing.own:
        fields += [entry.target, number - entry.number]
    for target in listing.wildcards:
        fields += [target, number]
    for entry in listing.inherited:
        fields += [entry.source, entry.target, entry.number]
    return sum(_leb128_size(each) for each in fields)


def _leb128_size(value: int) -> int:
    size = 1
    while value >= 128:
        value //= 128
        size += 1
    return size
