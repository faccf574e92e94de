"""Messages whose copies are all delivered, in compact form.

The verifier still needs their targets, to tell a duplicated delivery from the delivery of a
message that was not sent to the process. It looks them up only for a delivery that violates
one of these properties, so they are compressed, a chunk at a time, and never changed.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.online.records import BROADCAST, Message, slots_of

__all__ = ["Chunk", "SettledMessages"]

LEVEL = 1
"""The level of compression: the fastest."""


class _Columns(NamedTuple):
    source: Ints
    number: Longs
    targets_start: Longs
    target: Ints
    is_broadcast: np.ndarray


@dataclass(slots=True)
class Chunk:
    """Settled messages that expire together."""

    stamp: float
    """The time at which the last of them was sent."""
    known: int
    """The number of processes when they were settled; these have delivered broadcasts."""
    bounds: dict[int, tuple[int, int]]
    """By slot of the source, the lowest and the highest number."""
    counts: tuple[int, int]
    """The numbers of messages and of targets."""
    data: bytes
    """The compressed columns."""
    columns: _Columns | None = field(default=None, compare=False)
    """The columns, if they were needed."""

    def find(self, source: int, number: int) -> int | None:
        """Return the targets of a message; None if it is not in the chunk."""
        low, high = self.bounds.get(source, (1, 0))
        if not low <= number <= high:
            return None
        if self.columns is None:
            self.columns = _decode(zlib.decompress(self.data), self.counts)
        found = self.columns
        (hits,) = np.nonzero((found.source == source) & (found.number == number))
        if not len(hits):
            return None
        i = int(hits[0])
        if found.is_broadcast[i]:
            return BROADCAST
        start, end = found.targets_start[i : i + 2]
        targets: list[int] = found.target[start:end].tolist()
        return sum(1 << target for target in targets)


class SettledMessages:
    """All chunks, the oldest first."""

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self.chunks = list(chunks)

    def add(self, messages: Sequence[Message], known: int) -> None:
        """Add messages, as a chunk; ``known`` is the number of processes."""
        if not messages:
            return
        source: Ints = np.array([each.source for each in messages], np.int32)
        number: Longs = np.array([each.number for each in messages], np.int64)
        lists = [
            () if each.targets == BROADCAST else tuple(slots_of(each.targets))
            for each in messages
        ]
        lengths: Ints = np.array(
            [
                -1 if each.targets == BROADCAST else len(targets)
                for each, targets in zip(messages, lists, strict=True)
            ],
            np.int32,
        )
        target: Ints = np.array([slot for each in lists for slot in each], np.int32)
        bounds = {}
        for slot in np.unique(source).tolist():
            own = number[source == slot]
            bounds[slot] = (int(own.min()), int(own.max()))
        columns = (source, np.diff(number, prepend=0), lengths, target)
        data = zlib.compress(b"".join(each.tobytes() for each in columns), LEVEL)
        stamp = max(each.stamp for each in messages)
        self.chunks.append(Chunk(stamp, known, bounds, (len(source), len(target)), data))

    def find(self, source: int, number: int) -> tuple[int, int] | None:
        """Return the targets of a message and the number of processes that it reached."""
        for chunk in reversed(self.chunks):
            targets = chunk.find(source, number)
            if targets is not None:
                return targets, chunk.known
        return None

    def expire(self, before: float) -> dict[int, int]:
        """Remove chunks; return by slot of the source the highest number removed."""
        highest: dict[int, int] = {}
        kept = []
        for chunk in self.chunks:
            if chunk.stamp >= before:
                kept.append(chunk)
                continue
            for source, (_, high) in chunk.bounds.items():
                highest[source] = max(high, highest.get(source, 0))
        self.chunks = kept
        return highest


def _decode(data: bytes, counts: tuple[int, int]) -> _Columns:
    rows, targets = counts
    source = np.frombuffer(data, np.int32, rows)
    number = np.cumsum(np.frombuffer(data, np.int64, rows, source.nbytes))
    at = source.nbytes + 8 * rows
    lengths = np.frombuffer(data, np.int32, rows, at)
    target = np.frombuffer(data, np.int32, targets, at + lengths.nbytes)
    starts = np.append(0, np.cumsum(np.maximum(lengths, 0)))
    return _Columns(source, number, starts, target, lengths < 0)
