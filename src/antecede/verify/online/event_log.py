"""The sends and deliveries that were processed lately, to find the chains of violations.

A process delivered b before a, though a happened before b. The chain from a to b lies
between their sends, in the order of processing. The send of a is not expired, since a copy
of it was undelivered; so the events of the time for which a message is kept are enough.
"""

import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from antecede.verify.kernels.slot_map import Longs
from antecede.verify.witnesses import MessageRow, find_chain

__all__ = ["PROCESS_SHIFT", "EventLog", "LogChunk"]

PROCESS_SHIFT: Final = 32
LOW_BITS = (1 << PROCESS_SHIFT) - 1

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
    processes: "array[int]"
    """The events since the last call of :meth:`compact`: the slot of the process, shifted
    by :data:`PROCESS_SHIFT`, plus that of the source, shifted by 1, plus 1 for a send."""
    numbers: "array[int]"
    """The numbers of their messages."""

    def __init__(self, chunks: Iterable[LogChunk] = (), first: int = 0) -> None:
        """Take the chunks of a saved log, and the number of sends in and before them."""
        self.chunks = list(chunks)
        self.processes, self.numbers = array("q"), array("q")
        self._first = first
        self._left = SEARCHED_MAX

    def compact(self, stamp: float, sends: int, before: float) -> None:
        """Compress the new events, and remove those that were processed before a time.

        Args:
            stamp: The time now.
            sends: The number of all sends that were processed.
            before: The time.
        """
        if self.numbers:
            count, data = len(self.numbers), self._encode()
            self.chunks.append(LogChunk(stamp, self._first, count, data))
            self.processes, self.numbers = array("q"), array("q")
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
        return find_chain(self._rows_between(start, first, end, last), start, end)

    def _rows_between(
        self, start: tuple[int, int], first: int, end: tuple[int, int], last: int
    ) -> Iterator[list[MessageRow]]:
        """Yield the events from one send to another, in parts; stop at the limit."""
        is_reached = False
        for processes, numbers in self._parts(first, last):
            sends = np.flatnonzero(processes & 1)
            low, number = (processes & LOW_BITS)[sends] >> 1, numbers[sends]
            if not is_reached:
                found = sends[(low == start[0]) & (number == start[1])]
                if not len(found):
                    continue
                is_reached, begin = True, int(found[0])
            else:
                begin = 0
            found = sends[(low == end[0]) & (number == end[1])]
            stop = int(found[0]) + 1 if len(found) else len(numbers)
            if self._left < stop - begin:
                return
            self._left -= stop - begin
            yield list(_rows(processes[begin:stop], numbers[begin:stop]))
            if len(found):
                return

    def _parts(self, first: int, last: int) -> Iterator[tuple[Longs, Longs]]:
        """Yield the parts of the log that may have events between two sends."""
        ends = [*(each.first for each in self.chunks), self._first][1:]
        for chunk, end in zip(self.chunks, ends, strict=True):
            if end >= first and chunk.first < last:
                yield _decode(chunk)
        yield np.array(self.processes), np.array(self.numbers)

    def _encode(self) -> bytes:
        processes = np.array(self.processes)
        numbers = np.array(self.numbers)[_by_source(processes)]
        low, high = processes & LOW_BITS, processes >> PROCESS_SHIFT
        # The numbers of a source nearly ascend: their differences are compressed well.
        columns = low.astype(np.int32), high.astype(np.int32), np.diff(numbers, prepend=0)
        return zlib.compress(b"".join(each.tobytes() for each in columns), LEVEL)


def _decode(chunk: LogChunk) -> tuple[Longs, Longs]:
    data, count = zlib.decompress(chunk.data), chunk.count
    low, high = (np.frombuffer(data, np.int32, count, 4 * count * i) for i in (0, 1))
    processes = low.astype(np.int64) | high.astype(np.int64) << PROCESS_SHIFT
    numbers = np.empty(count, np.int64)
    numbers[_by_source(processes)] = np.cumsum(np.frombuffer(data, np.int64, -1, 8 * count))
    return processes, numbers


def _by_source(processes: Longs) -> Longs:
    return np.argsort((processes & LOW_BITS) >> 1, kind="stable")


def _rows(processes: Longs, numbers: Longs) -> Iterator[MessageRow]:
    source = (processes & LOW_BITS) >> 1
    return zip(
        (processes & 1 == 1).tolist(),
        (processes >> PROCESS_SHIFT).tolist(),
        zip(source.tolist(), numbers.tolist(), strict=True),
        strict=True,
    )
