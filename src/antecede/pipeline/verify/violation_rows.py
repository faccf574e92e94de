"""Find the rows of the messages of violations, for their times and records."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.pipeline.verify.window_task import LongRun, RowRange, Window
from antecede.trace.event import Kind
from antecede.trace.reader import RecordedRun
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Longs, SlotMap
from antecede.verify.oracle import MessageId, Violation

__all__ = [
    "FindTask",
    "ViolationRows",
    "find_rows",
    "find_window_rows",
    "merge_rows",
    "messages_of",
]

COLUMNS = ("process", "time", "kind", "source", "number")


@dataclass(slots=True)
class ViolationRows:
    """The rows of the messages of the violations."""

    sends: dict[MessageId, tuple[int, float]] = field(default_factory=dict)
    """The row and the time of each send."""
    deliveries: dict[tuple[int, MessageId], list[tuple[int, float]]] = field(
        default_factory=dict
    )
    """By process and message, the row and the time of each delivery, by row."""
    sends_before: dict[MessageId, int] = field(default_factory=dict)
    """The number of messages of the same source with a lower number, if counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindTask:
    """Find the rows of some messages in a window."""

    trace: LongRun
    window: Window
    messages: tuple[MessageId, ...]
    with_ranks: bool = False
    """Count the messages of the same sources with lower numbers, too."""

    def row_ranges(self) -> Sequence[RowRange]:
        """Return the window."""
        return [(self.window.first, self.window.end)]


def messages_of(violations: Sequence[Violation]) -> set[MessageId]:
    """Return all messages that the violations name."""
    messages = {each.message for each in violations}
    messages.update(which for each in violations for which in each.chain)
    return messages


def find_window_rows(task: FindTask) -> ViolationRows:
    """Find the sends and the deliveries of the messages in a window."""
    return find_rows(
        task.trace,
        task.messages,
        first=task.window.first,
        end=task.window.end,
        with_ranks=task.with_ranks,
    )


def find_rows(
    events: RecordedRun,
    messages: Collection[MessageId],
    *,
    first: int = 0,
    end: int | None = None,
    with_ranks: bool = False,
) -> ViolationRows:
    """Find the sends and deliveries of messages, from row ``first`` to before ``end``.

    With ``with_ranks``, also count the messages of their sources with lower numbers.
    """
    found = ViolationRows()
    if not messages:
        return found
    wanted = SlotMap()
    wanted.add(
        np.array([each.source for each in messages], np.int64),
        np.array([each.number for each in messages], np.int64),
    )
    ranks = _Ranks(messages) if with_ranks else None
    last = None if end is None else end - 1
    for start, batch in events.numbered_batches(COLUMNS, first=first, last=last):
        source = batch.column("source").fill_null(0).to_numpy()
        number = batch.column("number").fill_null(0).to_numpy()
        hits = np.flatnonzero(wanted.find(np.array(source), np.array(number)) >= 0)
        hits = hits[hits + start >= first]
        if end is not None:
            hits = hits[hits + start < end]
        if ranks is not None:
            is_send = pc.equal(batch.column("kind"), Kind.SEND.value)
            is_send = np.array(is_send.to_numpy(zero_copy_only=False))
            is_send[: max(0, first - start)] = False
            if end is not None:
                is_send[max(0, end - start) :] = False
            ranks.count(source[is_send], number[is_send])
        if len(hits):
            _add_rows(found, start, hits, batch.take(pa.array(hits)).to_pydict())
    if ranks is not None:
        found.sends_before = ranks.found
    return found


class _Ranks:
    """Counts the messages of some sources with lower numbers than some messages."""

    def __init__(self, messages: Collection[MessageId]) -> None:
        self._messages = sorted(messages)
        self._number = np.array([each.number for each in self._messages], np.int64)
        source = np.array([each.source for each in self._messages], np.int64)
        self._start = np.searchsorted(source, np.arange(int(source.max()) + 2))
        # By message, how many have a number between those of it and of the one before.
        self._between = np.zeros(len(self._messages), np.int64)

    def count(self, source: np.ndarray, number: np.ndarray) -> None:
        """Count further messages."""
        _count_between(
            source.astype(np.int64),
            number.astype(np.int64),
            self._start,
            self._number,
            self._between,
        )

    @property
    def found(self) -> dict[MessageId, int]:
        """By message, the number of messages of its source with lower numbers."""
        total = np.cumsum(self._between)
        source = [each.source for each in self._messages]
        first = self._start[source]
        before = np.where(first > 0, total[first - 1], 0)
        return dict(zip(self._messages, (total - before).tolist(), strict=True))


@compiled
def _count_between(
    source: Longs, number: Longs, start: Longs, wanted: Longs, between: Longs
) -> None:
    """Count each message at the first wanted message of its source that is above it."""
    for i in range(source.size):
        if source[i] < 0 or source[i] + 1 >= start.size:
            continue
        low, end = start[source[i]], start[source[i] + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if wanted[middle] > number[i]:
                high = middle
            else:
                low = middle + 1
        if low < end:
            between[low] += 1


def _add_rows(
    found: ViolationRows, first: int, hits: np.ndarray, rows: Mapping[str, list[Any]]
) -> None:
    columns = (rows[name] for name in COLUMNS)
    for hit, process, time, kind, source, number in zip(
        hits.tolist(), *columns, strict=True
    ):
        which = MessageId(source, number)
        if kind == Kind.SEND.value:
            found.sends[which] = (first + hit, time)
        elif kind == Kind.DELIVER.value:
            found.deliveries.setdefault((process, which), []).append((first + hit, time))


def merge_rows(parts: Sequence[ViolationRows]) -> ViolationRows:
    """Merge the rows that were found in windows, in the order of the windows."""
    merged = ViolationRows()
    for part in parts:
        merged.sends.update(part.sends)
        for key, rows in part.deliveries.items():
            merged.deliveries.setdefault(key, []).extend(rows)
        for which, count in part.sends_before.items():
            merged.sends_before[which] = merged.sends_before.get(which, 0) + count
    return merged
