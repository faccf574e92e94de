"""Read columns of a Parquet file, in batches.

A column by which Spark has partitioned a table is not in its files, but in the names of
their directories: ``COLUMN=VALUE``.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.errors import TraceError
from antecede.ingest.formats.csv_columns import Columns
from antecede.ingest.formats.records import UnreadableError
from antecede.ingest.formats.source import (
    ExpansionLimit,
    Split,
    open_bytes,
    whole_file,
)

__all__ = [
    "count_rows",
    "divide_parquet",
    "is_parquet",
    "parquet_columns",
    "read_names",
]

MAGIC = b"PAR1"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a directory that stands for null."""


def is_parquet(path: str | Path) -> bool:
    """Return whether the first bytes of a file are those of Parquet."""
    with open_bytes(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def read_names(path: str | Path) -> list[str]:
    """Return the names of the columns, including those in the names of directories.

    Raise TraceError if the file is damaged.
    """
    with _opened(path) as file:
        names: list[str] = file.schema_arrow.names
    return names + [name for name in _values_of_path(path) if name not in names]


def _values_of_path(path: str | Path) -> dict[str, str | None]:
    """Return, by column, the value in the names of directories of the path."""
    absolute = str(path) if "://" in str(path) else os.path.abspath(path)
    found: dict[str, str | None] = {}
    for part in Path(absolute).parts[:-1]:
        name, is_column, value = part.partition("=")
        if is_column and name:
            found[unquote(name)] = None if value == NO_VALUE else unquote(value)
    return found


def count_rows(path: str | Path) -> int:
    """Return the number of rows; raise TraceError if the file is damaged."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def divide_parquet(path: str | Path, size: int) -> list[Split]:
    """Return splits of whole row groups, with about ``size`` bytes before compression.

    Raise TraceError if the file is damaged.
    """
    with _opened(path) as file:
        metadata = file.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        starts, lines, row, filled = [0], [1], 1, 0
        for index, group in enumerate(groups):
            if filled >= size:
                starts.append(index)
                lines.append(row)
                filled = 0
            row += group.num_rows
            filled += group.total_byte_size
    if len(starts) == 1:
        return [whole_file(path)]
    return [
        Split(path=str(path), start=start, stop=stop, line=line)
        for start, stop, line in zip(starts, [*starts[1:], len(groups)], lines, strict=True)
    ]


@contextmanager
def _opened(path: str | Path) -> Iterator[pq.ParquetFile]:
    with open_bytes(path) as file:
        try:
            opened = pq.ParquetFile(file)
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{path}: truncated or not a Parquet file") from error
        yield opened


def parquet_columns(split: Split, names: Mapping[str, str]) -> Iterator[Columns]:
    """Yield the numbers of rows, from 1, and their columns by the names of antecede.

    An empty text is null, as in a CSV file.

    No row is invalid by itself, unlike a line of :func:`csv_columns`.

    Args:
        split: The file, or some of its row groups.
        names: By the name of a column in antecede, its name in the file.

    Raises:
        UnreadableError: The file is damaged.
    """
    with open_bytes(split.path) as file:
        row, limit = split.line, ExpansionLimit(split.path)
        try:
            opened = pq.ParquetFile(file)
            stop = opened.num_row_groups if split.stop is None else split.stop
            groups = list(range(split.start, stop))
            inside = set(opened.schema_arrow.names)
            values = _values_of_path(split.path)
            for batch in opened.iter_batches(
                row_groups=groups, columns=[n for n in names.values() if n in inside]
            ):
                limit.add(batch.nbytes)
                columns = {
                    ours: _without_empty(batch.column(theirs))
                    if theirs in inside
                    else pa.repeat(pa.scalar(values[theirs], pa.string()), batch.num_rows)
                    for ours, theirs in names.items()
                }
                yield np.arange(row, row + batch.num_rows), columns, []
                row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise UnreadableError(row, f"damaged: {error}") from error


def _without_empty(column: pa.Array) -> pa.Array:
    """Return a column whose empty texts are null."""
    found = column.type
    if pa.types.is_dictionary(found):
        column = column.cast(found.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    is_empty = pc.equal(pc.binary_length(column), 0)
    if not pc.any(is_empty).as_py():
        return column
    return pc.if_else(is_empty, pa.scalar(None, column.type), column)
