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
from antecede.verify.kernels.slot_map import SlotMap
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
        self.found = dict.fromkeys(messages, 0)
        self._numbers: dict[int, list[int]] = {}
        for each in sorted(messages):
            self._numbers.setdefault(each.source, []).append(each.number)

    def count(self, source: np.ndarray, number: np.ndarray) -> None:
        """Count further messages."""
        for process, wanted in self._numbers.items():
            own = np.sort(number[source == process])
            for each, lower in zip(wanted, np.searchsorted(own, wanted), strict=True):
                self.found[MessageId(process, each)] += int(lower)


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
