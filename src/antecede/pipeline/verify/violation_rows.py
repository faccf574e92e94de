"""Find the rows of the messages of violations, for their times and records."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

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
    deliveries: dict[tuple[int, MessageId], list[float]] = field(default_factory=dict)
    """By process and message, the times of the deliveries in the order of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindTask:
    """Find the rows of some messages in a window."""

    trace: LongRun
    window: Window
    messages: tuple[MessageId, ...]

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
        task.trace, task.messages, first=task.window.first, end=task.window.end
    )


def find_rows(
    events: RecordedRun,
    messages: Collection[MessageId],
    *,
    first: int = 0,
    end: int | None = None,
) -> ViolationRows:
    """Find the sends and deliveries of messages, from row ``first`` to before ``end``."""
    found = ViolationRows()
    if not messages:
        return found
    wanted = SlotMap()
    wanted.add(
        np.array([each.source for each in messages], np.int64),
        np.array([each.number for each in messages], np.int64),
    )
    last = None if end is None else end - 1
    for start, batch in events.numbered_batches(COLUMNS, first=first, last=last):
        source = batch.column("source").fill_null(0).to_numpy()
        number = batch.column("number").fill_null(0).to_numpy()
        hits = np.flatnonzero(wanted.find(np.array(source), np.array(number)) >= 0)
        hits = hits[hits + start >= first]
        if end is not None:
            hits = hits[hits + start < end]
        if len(hits):
            _add_rows(found, start, hits, batch.take(pa.array(hits)).to_pydict())
    return found


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
            found.deliveries.setdefault((process, which), []).append(time)


def merge_rows(parts: Sequence[ViolationRows]) -> ViolationRows:
    """Merge the rows that were found in windows, in the order of the windows."""
    merged = ViolationRows()
    for part in parts:
        merged.sends.update(part.sends)
        for key, times in part.deliveries.items():
            merged.deliveries.setdefault(key, []).extend(times)
    return merged
