"""Read ranges of the rows of a node's trace, also while the node writes it.

A flushed row keeps its number: the node moves rows from a tail to a part, and renames the
folder at the end, but never changes them. So a range of flushed rows is the same whenever
it is read.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Iterator, MutableMapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import TraceError
from antecede.trace.live.layout import (
    EVENTS_PARTIAL,
    decode_chunks,
    part_path,
    tail_path,
)
from antecede.trace.packed_rows import packed_to_batch
from antecede.trace.row_groups import check_schema
from antecede.trace.schema import EVENTS_NAME, SCHEMA
from antecede.trace.store import open_store

__all__ = ["count_rows", "read_rows"]

ATTEMPTS = 4
"""A tail becomes a part, and then its folder is renamed: each can happen once between two
looks at the files."""


def count_rows(directory: Path, known: MutableMapping[int, int]) -> int:
    """Return the number of rows of a trace that are flushed.

    Args:
        directory: The trace.
        known: The numbers of rows of parts, by their index; new ones are added.
    """
    rows = index = 0
    while True:
        count = known.get(index)
        if count is None:
            count = _count_piece(directory, index, known)
        if count is None:
            return rows
        rows += count
        index += 1


def read_rows(directory: Path, run: str, first: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from number ``first`` to before ``end``, with the schema of a trace.

    Args:
        directory: The trace.
        run: The name of its run.
        first: The number of the first row.
        end: The number of the row after the last one, which must be flushed.

    Raises:
        TraceError: A row is not there, or a part is damaged.
    """
    index, before = 0, 0
    parts: dict[int, int] = {}
    while before < end:
        count = _count_piece(directory, index, parts)
        if count is None:
            raise TraceError(
                f"{directory}: row {before} is missing, although it was flushed: do not"
                " remove or replace a trace that is read"
            )
        if index not in parts or before + count > first:
            table = _read_piece(directory, index, run, before)
            count = table.num_rows
            table = table.slice(max(0, first - before), end - max(first, before))
            yield from table.combine_chunks().to_batches()
        before += count
        index += 1


def _places(directory: Path, index: int) -> Iterator[Path]:
    """Yield the paths at which the rows of a piece can be, several times if they move."""
    for _ in range(ATTEMPTS):
        partial = directory / EVENTS_PARTIAL
        yield part_path(partial, index)
        yield tail_path(partial, index)
        yield part_path(directory / EVENTS_NAME, index)


def _count_piece(
    directory: Path, index: int, known: MutableMapping[int, int]
) -> int | None:
    """Return the number of rows of a part or tail; None if there is neither."""
    for path in _places(directory, index):
        try:
            if path.suffix == ".parquet":
                known[index] = int(pq.read_metadata(path).num_rows)
                return known[index]
            return sum(len(packed.rows) for packed in decode_chunks(path.read_bytes()))
        except FileNotFoundError:
            continue
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"{path}: {error}") from error
    return None


def _read_piece(directory: Path, index: int, run: str, before: int) -> pa.Table:
    """Return the rows of a part or tail that is there."""
    for path in _places(directory, index):
        try:
            if path.suffix == ".parquet":
                table = pq.read_table(path)
                check_schema(open_store(path), table.schema)
                return table.select(SCHEMA.names)
            return _read_tail(path, run, before)
        except FileNotFoundError:
            continue
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"{path}: {error}") from error
    raise TraceError(f"{directory}: part {index} was removed while it was read")


def _read_tail(path: Path, run: str, before: int) -> pa.Table:
    batches = []
    for packed in decode_chunks(path.read_bytes()):
        seq = np.arange(before, before + len(packed.rows))
        batches.append(packed_to_batch(packed, run, seq=seq, step=None))
        before += len(packed.rows)
    return pa.Table.from_batches(batches, SCHEMA) if batches else SCHEMA.empty_table()
