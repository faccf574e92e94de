"""The records that the readers of foreign formats yield.

A record is a row with one of three schemas: an event with a vector clock
(:data:`CLOCK_SCHEMA`), a span (:data:`SPAN_SCHEMA`), or a message (:data:`MESSAGE_SCHEMA`).
Every record has the number of its line. An unreadable line becomes a record whose
``problem`` gives the reason and whose other columns may be null, so that all lines are
counted.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = [
    "BATCH_RECORDS",
    "CLOCK_SCHEMA",
    "HASHED_MESSAGE_SCHEMA",
    "HASHED_SPAN_SCHEMA",
    "MESSAGE_SCHEMA",
    "RECORD_IDS",
    "SPAN_IDS",
    "SPAN_SCHEMA",
    "SPAN_SCHEMAS",
    "ReadOptions",
    "Records",
    "UnreadableError",
    "fits_int64",
    "to_batches",
    "problem_batch",
]

BATCH_RECORDS = 1 << 14
"""Records per batch: a few MiB."""

_COMMON = [
    # The number of its first line, from 1; in a Parquet file, of its row.
    pa.field("line", pa.int64(), nullable=False),
    # Why it could not be read, or null.
    pa.field("problem", pa.string()),
    # The run that it belongs to; null if the file has only one.
    pa.field("run", pa.string()),
]

CLOCK_SCHEMA: pa.Schema = pa.schema(
    [
        *_COMMON,
        # The name of its process.
        pa.field("process", pa.string()),
        # By process, the number of its events that happened before, or are this event.
        pa.field("clock", pa.map_(pa.string(), pa.int64())),
        # The text of the log.
        pa.field("text", pa.string()),
        # The time in nanoseconds by the clock of its process, or null.
        pa.field("time_ns", pa.int64()),
        # The name of the message that it sends or receives, or null.
        pa.field("token", pa.string()),
        # Whether it is a receive, or null.
        pa.field("is_receive", pa.bool_()),
    ]
)

SPAN_SCHEMA: pa.Schema = pa.schema(
    [
        *_COMMON,
        # The ids of the trace, of the span, and of its parent.
        pa.field("trace", pa.string()),
        pa.field("span", pa.string()),
        pa.field("parent", pa.string()),
        # Whether it is the receiving half of a shared span (Zipkin).
        pa.field("shared", pa.bool_()),
        # The name of its process: a service, or an instance of a service.
        pa.field("process", pa.string()),
        # The name of the operation.
        pa.field("name", pa.string()),
        # client, server, producer, consumer or internal, or null.
        pa.field("kind", pa.string()),
        # The start and the end in nanoseconds by the clock of its process.
        pa.field("start_ns", pa.int64()),
        pa.field("end_ns", pa.int64()),
    ]
)

MESSAGE_SCHEMA: pa.Schema = pa.schema(
    [
        *_COMMON,
        # The names of the sender and the receiver.
        pa.field("source", pa.string()),
        pa.field("target", pa.string()),
        # The times in nanoseconds by the clocks of the source and of the target; null if
        # the send, or the receive, is not recorded.
        pa.field("sent_ns", pa.int64()),
        pa.field("received_ns", pa.int64()),
        # A name: records of one source with the same name are one message.
        pa.field("message", pa.string()),
    ]
)

SPAN_IDS = ("trace", "span", "parent")
RECORD_IDS = (*SPAN_IDS, "message")


CODES = pa.dictionary(pa.int32(), pa.string())
HASHED_TYPES = {
    **dict.fromkeys(RECORD_IDS, pa.int64()),
    **dict.fromkeys(("process", "kind"), CODES),
}
"""The types of columns that differ if ids are 64-bit hashes. The inference of such records
is only faster with dictionaries."""


def _with_hashes(schema: pa.Schema) -> pa.Schema:
    """Return a schema with 64-bit hashes in place of ids."""
    return pa.schema(
        [pa.field(each.name, HASHED_TYPES.get(each.name, each.type)) for each in schema]
    )


HASHED_SPAN_SCHEMA: pa.Schema = _with_hashes(SPAN_SCHEMA)
HASHED_MESSAGE_SCHEMA: pa.Schema = _with_hashes(MESSAGE_SCHEMA).append(
    # A hash of the record itself.
    pa.field("record", pa.int64())
)
SPAN_SCHEMAS = (SPAN_SCHEMA, HASHED_SPAN_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of the readers; each reader uses those of its format."""

    regex: str | None = None
    """ShiViz: the regular expression of an event, with the groups ``host`` and ``clock``
    and optionally ``event`` and ``timestamp``."""
    delimiter: str | None = None
    """ShiViz: the regular expression of a line that starts a run, optionally with the group
    ``run`` for its name."""
    ignore: str | None = None
    """ShiViz: the regular expression of lines to ignore."""
    receives: str | None = None
    """ShiViz: a regular expression that is found in the text of all events that receive a
    message, and of no others."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """CSV and Parquet: by our name of a column, its name in the file."""
    on_command_line: bool = True
    """Whether error messages name flags of the command line, or options of Spark."""

    def option(self, name: str, value: str) -> str:
        """Return the text of an option with its value, for error messages."""
        if self.on_command_line:
            return f"--{name} {value}"
        quoted = value if value[0] in "'\"" else f'"{value}"'
        return f'option("{name}", {quoted})'


class UnreadableError(Exception):
    """The rest of a file cannot be read; the records before it are valid."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


Records = Iterator[pa.RecordBatch]
"""Batches of records with one schema."""


def to_batches(records: Iterator[dict[str, object]], schema: pa.Schema) -> Records:
    """Yield records in batches; absent columns are null.

    An :class:`UnreadableError` becomes the last record.
    """
    rows: list[dict[str, object]] = []
    while True:
        try:
            row = next(records, None)
        except UnreadableError as error:
            rows.append({"line": error.line, "problem": error.reason})
            row = None
        if row is not None:
            rows.append(row)
        if rows and (row is None or len(rows) == BATCH_RECORDS):
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows = []
        if row is None:
            return


def fits_int64(*numbers: int) -> bool:
    """Return whether all numbers have at most 64 bits, as the columns of times have."""
    return all(-(2**63) <= number < 2**63 for number in numbers)


def problem_batch(lines: list[tuple[int, str]], schema: pa.Schema) -> pa.RecordBatch:
    """Return records for lines that could not be read, each with the reason."""
    rows = [{"line": line, "problem": reason} for line, reason in lines]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
