"""Read messages from a CSV with a header, or from Parquet: who sent what to whom, and when.

The columns are ``source``, ``target``, ``sent``, ``received``, found by their names or
told, and ``message`` if there is one: rows of one source with the same name there are one
message to several targets. An empty ``received`` is a message that was not received; an
empty ``sent``, one of which it is not known when it was sent.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.errors import ConfigError
from antecede.ingest.formats.csv_columns import csv_columns, find_columns, header_of
from antecede.ingest.formats.records import MESSAGES, Options, Records, Unreadable, problems
from antecede.ingest.formats.source import Split
from antecede.ingest.timestamps import moments

__all__ = ["MESSAGE_COLUMNS", "is_parquet", "read_messages"]

MESSAGE_COLUMNS = {
    "source": ("source", "from", "sender", "src"),
    "target": ("target", "to", "receiver", "destination", "dst"),
    "sent": ("sent", "sent_at", "send_time", "sent_time"),
    "received": ("received", "received_at", "receive_time", "received_time", "delivered"),
    "message": ("message", "message_id", "id"),
}
"""Of each column, the names that it usually has."""
NEEDED = ("source", "target", "sent", "received")
PARQUET_MAGIC = b"PAR1"


def is_parquet(path: str | Path) -> bool:
    """Whether a file is Parquet, by its first bytes."""
    with Path(path).open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def read_messages(split: Split, options: Options) -> Records:
    """Yield the messages of a split as :data:`antecede.ingest.formats.records.MESSAGES`.

    Raise ConfigError if a column that is needed is not found.
    """
    if is_parquet(split.path):
        return _from_parquet(split, options)
    header = header_of(split.path)
    names = find_columns(split.path, header, MESSAGE_COLUMNS, options.columns, NEEDED)
    return _from_csv(split, names)


def _from_csv(split: Split, names: dict[str, str]) -> Records:
    try:
        for lines, columns, bad in csv_columns(split, names):
            yield _batch(lines, columns)
            if bad:
                yield problems(bad, MESSAGES)
    except Unreadable as error:
        yield problems([(error.line, error.why)], MESSAGES)


def _from_parquet(split: Split, options: Options) -> Records:
    try:
        parquet = pq.ParquetFile(split.path)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{split.path}: truncated or not a Parquet file") from error
    with parquet:
        header = parquet.schema_arrow.names
        names = find_columns(split.path, header, MESSAGE_COLUMNS, options.columns, NEEDED)
        row = 1
        try:
            for batch in parquet.iter_batches(columns=list(names.values())):
                columns = {ours: batch.column(theirs) for ours, theirs in names.items()}
                yield _batch(np.arange(row, row + batch.num_rows), columns)
                row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            yield problems([(row, f"damaged: {error}")], MESSAGES)


def _batch(lines: np.ndarray, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    nothing = pa.nulls(len(lines), pa.string())
    problem = nothing
    times = {name: moments(columns[name]) for name in ("sent", "received")}
    for name in ("source", "target"):
        problem = pc.if_else(pc.is_null(columns[name]), f"it has no {name}", problem)
    for name, time in times.items():
        wrong = pc.and_(pc.is_valid(columns[name]), pc.is_null(time))
        problem = pc.if_else(wrong, f"{name!r} is no time", problem)
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
    }
    return pa.record_batch(
        [found.get(field.name, nothing).cast(field.type) for field in MESSAGES],
        schema=MESSAGES,
    )
