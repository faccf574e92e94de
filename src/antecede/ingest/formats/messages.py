"""Read messages from a CSV file with a header or from a Parquet file.

The columns are ``source``, ``target``, ``sent``, ``received`` and optionally ``message``.
They are found by their usual names, or by the names that the user gives. Rows of one source
with the same ``message`` are one message to several targets. An empty ``received`` is a
message that was not received; an empty ``sent`` is a message without a recorded send.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.formats.csv_columns import (
    ReadColumns,
    csv_columns,
    find_columns,
    first_columns,
    read_header,
)
from antecede.ingest.formats.parquet_columns import (
    is_parquet,
    parquet_columns,
    read_names,
)
from antecede.ingest.formats.records import (
    MESSAGE_SCHEMA,
    ReadOptions,
    Records,
    UnreadableError,
    problem_batch,
)
from antecede.ingest.formats.source import Split
from antecede.ingest.timestamps import TimeUnits

__all__ = ["MESSAGE_COLUMNS", "message_batch", "read_messages"]

MESSAGE_COLUMNS = {
    "source": ("source", "from", "sender", "src"),
    "target": ("target", "to", "receiver", "destination", "dst"),
    "sent": ("sent", "sent_at", "send_time", "sent_time"),
    "received": ("received", "received_at", "receive_time", "received_time", "delivered"),
    "message": ("message", "message_id", "id"),
}
"""By column, its usual names in lower case."""
REQUIRED = ("source", "target", "sent", "received")
TIMES = ("sent", "received")


def read_messages(split: Split, options: ReadOptions) -> Records:
    """Yield the messages of a split.

    Raise ConfigError if a required column is not found.
    """
    of_parquet = is_parquet(split.path)
    header = read_names(split.path) if of_parquet else read_header(split.path)
    names = find_columns(split.path, header, MESSAGE_COLUMNS, options, REQUIRED)
    return _batches(split, names, parquet_columns if of_parquet else csv_columns)


def _batches(split: Split, names: dict[str, str], read: ReadColumns) -> Records:
    units = TimeUnits()
    try:
        times = {name: names[name] for name in TIMES}
        units.decide(first_columns(read, split, times))
        for lines, columns, bad in read(split, names):
            yield message_batch(lines, columns, units)
            if bad:
                yield problem_batch(bad, MESSAGE_SCHEMA)
    except UnreadableError as error:
        yield problem_batch([(error.line, error.reason)], MESSAGE_SCHEMA)


def message_batch(
    lines: np.ndarray,
    columns: Mapping[str, pa.Array],
    units: TimeUnits,
    schema: pa.Schema = MESSAGE_SCHEMA,
) -> pa.RecordBatch:
    """Return messages as records, each with the problem of its values, if any.

    Args:
        lines: By message, its line.
        columns: The columns by our names, texts or timestamps.
        units: The units of the times of the file, which this batch may decide.
        schema: The schema of the records; that of hashed messages if names are hashes.
    """
    nothing = pa.nulls(len(lines), pa.string())
    problem = nothing
    times = units.parse({name: columns[name] for name in TIMES})
    for name in ("source", "target"):
        problem = pc.if_else(pc.is_null(columns[name]), f"no {name}", problem)
    for name, time in times.items():
        wrong = pc.and_(pc.is_valid(columns[name]), pc.is_null(time))
        problem = pc.if_else(wrong, f"{name!r} is not a valid time", problem)
    neither = pc.and_(pc.is_null(columns["sent"]), pc.is_null(columns["received"]))
    problem = pc.if_else(neither, "neither sent nor received", problem)
    found = {
        "line": pa.array(lines, pa.int64()),
        "problem": problem,
        "source": columns["source"],
        "target": columns["target"],
        "sent_ns": times["sent"],
        "received_ns": times["received"],
        "message": columns.get("message", nothing),
        "record": columns.get("record", nothing),
    }
    return pa.record_batch(
        [found.get(field.name, nothing).cast(field.type) for field in schema],
        schema=schema,
    )
