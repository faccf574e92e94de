"""The events of an ingested run, before they are written as a trace.

:func:`arrange` orders the events by a linear extension of happened-before, and numbers the
messages of each process; :func:`write_event_table` also writes the trace.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.ingest.diagnostics import SourceLocation
from antecede.ingest.skew import Skew, find_skew
from antecede.trace.event import Kind
from antecede.trace.recorders import KINDS
from antecede.trace.row_groups import BATCH_ROWS_MAX
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import SCHEMA
from antecede.trace.table import missing_row
from antecede.trace.writer import TraceWriter
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.grouping import group
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools
from antecede.verify.linear_extension import find_linear_extension
from antecede.verify.oracle import MessageId

__all__ = [
    "DELIVER",
    "LOCAL",
    "MISSING",
    "NONE",
    "SEND",
    "ArrangedEvents",
    "EventTable",
    "WrittenTrace",
    "arrange",
    "skew_of",
    "target_lists",
    "write_event_table",
]

NONE = -1
SEND, DELIVER, LOCAL, MISSING = (
    KINDS.index(kind) for kind in (Kind.SEND, Kind.DELIVER, Kind.LOCAL, Kind.MISSING)
)
KIND_NAMES = pa.array([kind.value for kind in KINDS])
NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTable:
    """The events of a run, grouped by process, in the order of each process's history."""

    names: list[str]
    """By process, its name."""
    files: list[str]
    process: Ints
    """By row: the process; ascending."""
    kind: Ints
    """By row: SEND, DELIVER, LOCAL, or MISSING for one delivery that is not known."""
    message: Longs
    """By row: the index of the message, or NONE."""
    time_ns: Longs | None
    """By row: the time by the clock of the process; None without timestamps."""
    hint: Longs
    """By row: the time that orders the events of a process, in nanoseconds, or the line
    without timestamps; also the preferred position among concurrent events."""
    file: Ints
    """By row: the index of the file."""
    line: Longs
    """By row: the line in the file."""
    is_known: np.ndarray
    """By message: whether its targets are known. If not, it has no deliveries."""
    undelivered: tuple[Longs, Ints] = (np.empty(0, np.int64), np.empty(0, np.int32))
    """Messages, and for each a target that did not deliver it. The processes that
    delivered a message are targets, too."""
    has_more_missing: bool = False
    """Whether an unknown number of deliveries is missing beside the rows MISSING."""

    def location(self, row: int) -> SourceLocation:
        """Return the file and the line of a row."""
        name = self.names[self.process[row]]
        return SourceLocation(self.files[self.file[row]], int(self.line[row]), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTrace:
    """A trace that was written from an event table."""

    directory: Path
    table: EventTable
    number: Longs
    """By message: its number among the messages of its source; 0 if never sent."""
    source: Ints
    """By message: the process that sent it; NONE if never sent."""

    def location_of_send(self, message: MessageId) -> SourceLocation | None:
        """Return the location of the send of a message, or None if it was never sent."""
        found = np.flatnonzero(
            (self.source == message.source) & (self.number == message.number)
        )
        if not len(found):
            return None
        is_send = (self.table.kind == SEND) & (self.table.message == found[0])
        return self.table.location(int(np.flatnonzero(is_send)[0]))


def skew_of(table: EventTable) -> Skew | None:
    """Return the clock skew of the messages, or None without timestamps."""
    if table.time_ns is None:
        return None
    send = np.full(len(table.is_known), NONE, np.int64)
    sends = np.flatnonzero(table.kind == SEND)
    send[table.message[sends]] = sends
    got = np.flatnonzero(table.kind == DELIVER)
    got = got[send[table.message[got]] != NONE]
    sent = send[table.message[got]]
    lead = table.time_ns[sent] - table.time_ns[got]
    return find_skew(table.process[sent], table.process[got], lead, table.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrangedEvents:
    """Events in a linear extension of happened-before; from :func:`arrange`."""

    table: EventTable
    order: Longs
    """By row of the trace: the row of the table."""
    number: Longs
    """By message: its number among the messages of its source; 0 if never sent."""
    source: Ints
    """By message: the process that sent it; NONE if never sent."""

    def batches(self, run: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the trace, with the schema of a trace."""
        targets = _targets(self.table)
        for first in range(0, len(self.order), BATCH_ROWS_MAX):
            rows = self.order[first : first + BATCH_ROWS_MAX]
            batch = _batch(self, rows, first, targets, run)
            yield batch
        if self.table.has_more_missing:
            yield missing_row(batch)


def arrange(table: EventTable) -> ArrangedEvents:
    """Order the events by a linear extension, and number the messages of each process.

    Raises:
        TraceError: Happened-before has a cycle.
    """
    order = _order(table)
    sends = np.flatnonzero(table.kind == SEND)
    count = len(table.is_known)
    # The additional last element stands for no message: NONE is its index.
    number, source = np.zeros(count + 1, np.int64), np.full(count + 1, NONE, np.int32)
    source[table.message[sends]] = table.process[sends]
    first = np.searchsorted(table.process[sends], table.process[sends])
    number[table.message[sends]] = np.arange(len(sends)) - first + 1
    return ArrangedEvents(table=table, order=order, number=number, source=source)


def write_event_table(table: EventTable, directory: Path, info: RunInfo) -> WrittenTrace:
    """Write an event table as a trace, ordered by a linear extension of happened-before.

    Raises:
        TraceError: Happened-before has a cycle, or the directory cannot be written.
    """
    arranged = arrange(table)
    with TraceWriter(directory, info.run) as writer:
        for batch in arranged.batches(info.run):
            writer.write_batch(batch)
        writer.close(info)
    return WrittenTrace(
        directory=directory, table=table, number=arranged.number, source=arranged.source
    )


def _order(table: EventTable) -> Longs:
    rows = len(table.process)
    bounds = np.searchsorted(table.process, np.arange(len(table.names) + 1))
    # Events without a message have the slot of a message that is never sent.
    slot = np.where(table.message == NONE, len(table.is_known), table.message)
    is_sent = np.zeros(len(table.is_known) + 1, np.bool_)
    is_send = table.kind == SEND
    is_sent[table.message[is_send]] = True
    order, position = find_linear_extension(
        bounds,
        np.arange(rows),
        is_send,
        slot.astype(np.int32),
        is_sent,
        (table.hint - (table.hint.min() if rows else 0)).astype(np.float64),
    )
    if len(order) < rows:
        stuck = np.flatnonzero(position < bounds[1:])
        first = ", ".join(str(table.location(int(position[i]))) for i in stuck[:3])
        raise TraceError(
            f"{first}: happened-before has a cycle: by each process's own order of events,"
            " messages here depend on each other"
        )
    return order


def target_lists(table: EventTable, rows: Longs) -> pa.Array:
    """Return by row the targets of its message, for a send whose targets are known."""
    is_send = table.kind[rows] == SEND
    return _lists(table, table.message[rows], is_send, *_targets(table))


def _targets(table: EventTable) -> tuple[Longs, Ints]:
    """Return the offset of each message's targets, and the targets of all messages."""
    got = np.flatnonzero(table.kind == DELIVER)
    width = len(table.names)
    message = np.concatenate((table.message[got], table.undelivered[0]))
    target = np.concatenate((table.process[got], table.undelivered[1]))
    order, start = group(message, len(table.is_known))
    if not np.any(np.diff(start) > 1):
        return start, target[order]
    pair = np.unique(message * width + target)
    start = np.searchsorted(pair // width, np.arange(len(table.is_known) + 1))
    return start, (pair % width).astype(np.int32)


def _batch(
    arranged: ArrangedEvents,
    rows: Longs,
    first: int,
    targets: tuple[Longs, Ints],
    run: str,
) -> pa.RecordBatch:
    table = arranged.table
    message, kind, process = table.message[rows], table.kind[rows], table.process[rows]
    history = np.searchsorted(table.process, process)
    has = message != NONE
    zero = 0 if table.time_ns is None else int(table.time_ns.min())
    time = np.zeros(len(rows)) if table.time_ns is None else table.time_ns[rows] - zero
    columns = {
        "run": pa.repeat(pa.scalar(run), len(rows)),
        "process": pa.array(process),
        "seq": pa.array(rows - history),
        "step": pa.array(np.arange(first, first + len(rows))),
        "time": pa.array(time / NS),
        "kind": KIND_NAMES.take(pa.array(kind)),
        "source": pa.array(arranged.source[message], mask=~has),
        "number": pa.array(
            np.where(kind == MISSING, 1, arranged.number[message]),
            mask=~has & (kind != MISSING),
        ),
        "target": pa.array(process, mask=kind != DELIVER),
        "targets": _lists(table, message, kind == SEND, *targets),
        "payload_bytes": pa.nulls(len(rows), pa.int32()),
        "metadata_bytes": pa.nulls(len(rows), pa.int32()),
    }
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _lists(
    table: EventTable, message: Longs, is_send: np.ndarray, start: Longs, targets: Ints
) -> pa.Array:
    """Return the column of targets: a list for each send whose targets are known."""
    known = is_send & np.append(table.is_known, False)[message]
    offsets, flat = _flatten(message, known, start, targets)
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.array(flat),
        type=SCHEMA.field("targets").type,
        mask=pa.array(~known),
    )


@compiled
def _flatten(
    message: Longs, is_known: Bools, start: Longs, targets: Ints
) -> tuple[Ints, Ints]:
    """Return the offsets of the lists, and the targets in these lists."""
    offsets = np.zeros(message.size + 1, np.int32)
    for i in range(message.size):
        length = start[message[i] + 1] - start[message[i]] if is_known[i] else 0
        offsets[i + 1] = offsets[i] + length
    flat = np.empty(offsets[message.size], np.int32)
    for i in range(message.size):
        for k in range(offsets[i + 1] - offsets[i]):
            flat[offsets[i] + k] = targets[start[message[i]] + k]
    return offsets, flat
