"""The sends and deliveries that were processed lately, to find the chains of violations.

A process delivered b before a, though a happened before b. The chain from a to b lies
between their sends, in the order of processing. The send of a is not expired, since a copy
of it was undelivered; so the events of the time for which a message is kept are enough.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from antecede.verify.witnesses import MessageRow, find_chain

__all__ = ["EventLog", "LogChunk"]

LEVEL = 1
"""The level of compression: the fastest."""
SEARCHED_MAX = 1_000_000
"""The most events that are searched for chains between two calls of ``compact``."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Consecutive events, compressed."""

    stamp: float
    """The time at which the last of them was processed."""
    first: int
    """The number of sends that were processed before them."""
    count: int
    data: bytes


class EventLog:
    """The events in the order in which they were processed."""

    chunks: list[LogChunk]
    rows: list[MessageRow]
    """The events since the last call of :meth:`compact`."""

    def __init__(self, chunks: Iterable[LogChunk] = (), first: int = 0) -> None:
        """Take the chunks of a saved log, and the number of sends in and before them."""
        self.chunks = list(chunks)
        self.rows = []
        self._first = first
        self._left = SEARCHED_MAX

    def compact(self, stamp: float, sends: int, before: float) -> None:
        """Compress the new events, and remove those that were processed before a time.

        Args:
            stamp: The time now.
            sends: The number of all sends that were processed.
            before: The time.
        """
        if self.rows:
            data = _encode(self.rows)
            self.chunks.append(LogChunk(stamp, self._first, len(self.rows), data))
            self.rows = []
        self._first = sends
        self._left = SEARCHED_MAX
        self.chunks = [each for each in self.chunks if each.stamp >= before]

    def find_chain(
        self, start: tuple[int, int], first: int, end: tuple[int, int], last: int
    ) -> list[tuple[int, int]]:
        """Return a shortest chain from one message to another, or nothing.

        Messages are slots of sources and numbers. The result is empty if too many events
        were searched since the last call of :meth:`compact`.

        Args:
            start: The first message.
            first: The position of its send among all sends.
            end: The last message.
            last: The position of its send.
        """
        if start[0] == end[0]:
            return [start, end]
        return find_chain(self._rows_between(first, last), start, end)

    def _rows_between(self, first: int, last: int) -> Iterator[MessageRow]:
        """Yield events that contain those between two sends; stop at the limit."""
        ends = [*(each.first for each in self.chunks), self._first][1:]
        for chunk, end in zip(self.chunks, ends, strict=True):
            if end >= first and chunk.first < last:
                if self._left < chunk.count:
                    return
                self._left -= chunk.count
                yield from _decode(chunk)
        if self._left >= len(self.rows):
            self._left -= len(self.rows)
            yield from self.rows


def _encode(rows: list[MessageRow]) -> bytes:
    is_send, process, messages = zip(*rows, strict=True)
    source, number = zip(*messages, strict=True)
    columns = (
        np.array(is_send, np.int8),
        np.array(process, np.int32),
        np.array(source, np.int32),
        np.array(number, np.int64),
    )
    return zlib.compress(b"".join(each.tobytes() for each in columns), LEVEL)


def _decode(chunk: LogChunk) -> Iterator[MessageRow]:
    data, count = zlib.decompress(chunk.data), chunk.count
    columns = []
    at = 0
    for dtype in (np.int8, np.int32, np.int32, np.int64):
        column = np.frombuffer(data, dtype, count, at)
        columns.append(column.tolist())
        at += column.nbytes
    is_send, process, source, number = columns
    return zip(map(bool, is_send), process, zip(source, number, strict=True), strict=True)
