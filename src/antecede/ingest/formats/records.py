"""What the readers of foreign formats yield: records, in one of three shapes.

A record is one row: an event with a vector clock (:data:`CLOCKED`), a span
(:data:`SPANS`), or a message (:data:`MESSAGES`). Whatever the shape, a record says on which
line of its file it stands. What could not be read is a record, too: ``problem`` says why,
and everything but ``line`` may be null. So nothing that stands in a file is dropped before
it has been counted.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = [
    "BATCH_RECORDS",
    "CLOCKED",
    "MESSAGES",
    "SPANS",
    "Options",
    "Records",
    "Unreadable",
    "batches_of",
    "problems",
]

BATCH_RECORDS = 1 << 14
"""Records of a batch: enough to make its cost vanish, a few MiB of memory."""

_COMMON = [
    # The line on which it begins, from 1; in a Parquet file, the row.
    pa.field("line", pa.int64(), nullable=False),
    # Why it could not be read; null if it was.
    pa.field("problem", pa.string()),
    # Which run of the file it belongs to; null if the file holds only one.
    pa.field("run", pa.string()),
]

CLOCKED: pa.Schema = pa.schema(
    [
        *_COMMON,
        # Where it happened, by name.
        pa.field("process", pa.string()),
        # By process: how many of its events are known here, this one included.
        pa.field("clock", pa.map_(pa.string(), pa.int64())),
        # What the log says of it.
        pa.field("text", pa.string()),
        # When, in nanoseconds, by the process's own clock; null if it is not told.
        pa.field("time_ns", pa.int64()),
        # Names the message that is sent or received; null if that is not told.
        pa.field("token", pa.string()),
        # Whether it is a receive; null if that is not told.
        pa.field("is_receive", pa.bool_()),
    ]
)

SPANS: pa.Schema = pa.schema(
    [
        *_COMMON,
        # Which request it belongs to, which span it is, and which one caused it.
        pa.field("trace", pa.string()),
        pa.field("span", pa.string()),
        pa.field("parent", pa.string()),
        # It is the receiving half of a span whose id the sending half has, too (Zipkin).
        pa.field("shared", pa.bool_()),
        # Where it happened: a service, or one instance of it.
        pa.field("process", pa.string()),
        # What was done.
        pa.field("name", pa.string()),
        # client, server, producer, consumer or internal; null if that is not told.
        pa.field("kind", pa.string()),
        # From when to when, in nanoseconds, by the process's own clock.
        pa.field("start_ns", pa.int64()),
        pa.field("end_ns", pa.int64()),
    ]
)

MESSAGES: pa.Schema = pa.schema(
    [
        *_COMMON,
        # Who sent it to whom, by name.
        pa.field("source", pa.string()),
        pa.field("target", pa.string()),
        # When, in nanoseconds, by the clocks of the source and of the target; null if it
        # is not known that it was sent, or received.
        pa.field("sent_ns", pa.int64()),
        pa.field("received_ns", pa.int64()),
        # Records of one source with the same name are one message to several targets.
        pa.field("message", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a reader may be told about its file; each uses what concerns it."""

    regex: str | None = None
    """ShiViz: the expression of an event, with groups ``host``, ``clock`` and, if you like,
    ``event`` and ``timestamp``."""
    delimiter: str | None = None
    """ShiViz: the expression of a line that begins a new run; a group ``run`` names it."""
    ignore: str | None = None
    """ShiViz: the expression of lines that are no events, though they are not empty."""
    receives: str | None = None
    """ShiViz: what is found in the text of every event that receives a message."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """CSV and Parquet: under which name the file has a column of ours."""


class Unreadable(Exception):
    """A file cannot be read on from here; what was read so far is good."""

    def __init__(self, line: int, why: str) -> None:
        """Say on which line, and why."""
        super().__init__(line, why)
        self.line = line
        self.why = why


Records = Iterator[pa.RecordBatch]
"""Batches of records of one shape."""


def batches_of(records: Iterator[dict[str, object]], schema: pa.Schema) -> Records:
    """Gather records into batches; absent columns are null.

    A reader that raises :class:`Unreadable` ends with a record that says so.
    """
    rows: list[dict[str, object]] = []
    while True:
        try:
            row = next(records, None)
        except Unreadable as error:
            rows.append({"line": error.line, "problem": error.why})
            row = None
        if row is not None:
            rows.append(row)
        if rows and (row is None or len(rows) == BATCH_RECORDS):
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows = []
        if row is None:
            return


def problems(found: list[tuple[int, str]], schema: pa.Schema) -> pa.RecordBatch:
    """Return records that could not be read: lines, and why."""
    rows = [{"line": line, "problem": why} for line, why in found]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
