"""Parquet files of events, their footers and their row groups.

A part of a table of runs (:mod:`antecede.trace.run_table`) has a large footer, which the
readers of all its runs need. The footers of parts are therefore kept in memory, a few at a
time.

This module needs the extra ``antecede[trace]``.
"""

import re
from functools import lru_cache
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from antecede.errors import TraceError
from antecede.trace.schema import SCHEMA
from antecede.trace.store import StorePath

__all__ = [
    "BATCH_ROWS_MAX",
    "FOOTERS_MAX",
    "FileVersion",
    "RowGroup",
    "RowGroupReader",
    "check_schema",
    "file_version",
    "is_part",
    "open_parquet",
    "read_footer",
]

BATCH_ROWS_MAX = 1 << 17
"""Rows of a batch: enough to make the overhead negligible, a few MiB of memory."""
THREADED_ROWS_MIN = 1 << 14
"""Rows of a row group whose columns are read by several threads."""
FOOTERS_MAX = 8
"""Footers to keep: that of a part with 256 small runs takes some MiB."""

_PART = re.compile(r"runs-[0-9a-f]{32}\.parquet")


class FileVersion(NamedTuple):
    """A file, with what changes if it is replaced."""

    path: StorePath
    size: int
    modified_ns: int

    def __hash__(self) -> int:
        return hash((self.path.path, self.size, self.modified_ns))


class RowGroup(NamedTuple):
    """A row group of a file."""

    path: StorePath
    number: int
    """The number of the row group in the file, from 0."""
    first: int
    """The row number in the trace of the first row."""
    rows: int


def is_part(name: str) -> bool:
    """Return whether a file of this name is a part of a table of runs."""
    return _PART.fullmatch(name) is not None


def file_version(path: StorePath) -> FileVersion:
    """Return the current version of a file; raise TraceError if there is none."""
    try:
        info = path.filesystem.get_file_info(path.path)
    except (OSError, pa.ArrowException) as error:
        raise TraceError(f"cannot read {path}: {path.reason(error)}") from error
    if info.type != pafs.FileType.File:
        raise TraceError(f"cannot read {path}: no such file")
    return FileVersion(path, info.size, info.mtime_ns or 0)


@lru_cache(maxsize=FOOTERS_MAX)
def read_footer(file: FileVersion) -> pq.FileMetaData:
    """Return the footer of a file; raise TraceError if it is not a Parquet file."""
    with open_parquet(file.path) as parquet:
        return parquet.metadata


def open_parquet(path: StorePath, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Open a file, whose footer may be known; raise TraceError if it cannot be read."""
    options = {"read_dictionary": ["run", "kind"], "metadata": footer}
    if path.local is None:
        source = path.open_input()
        try:
            # One request for neighboring columns, instead of one for each.
            return pq.ParquetFile(source, pre_buffer=True, **options)
        except (pa.ArrowException, OSError) as error:
            source.close()
            raise _damage(path, error) from error
    try:
        return pq.ParquetFile(path.local, **options)
    except (PermissionError, FileNotFoundError) as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    except (pa.ArrowException, OSError) as error:
        raise _damage(path, error) from error


def _damage(path: StorePath, error: Exception) -> TraceError:
    if path.local is None and isinstance(error, OSError):
        return TraceError(f"cannot read {path}: {path.reason(error)}")
    return TraceError(f"{path} is truncated, or is not a Parquet file")


class RowGroupReader:
    """Reads row groups, and keeps the last file open.

    Opening a file reads its footer, which grows with the number of row groups: opening the
    file for each row group would take quadratic time.
    """

    def __init__(self) -> None:
        self._path: StorePath | None = None
        self._parquet: pq.ParquetFile | None = None

    def __enter__(self) -> "RowGroupReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._parquet is not None:
            self._parquet.close()

    def read(self, group: RowGroup, names: list[str]) -> list[pa.RecordBatch]:
        """Return the columns of a row group, in batches."""
        if self._parquet is None or self._path != group.path:
            if self._parquet is not None:
                self._parquet.close()
            self._parquet = None
            footer = None
            if is_part(group.path.name):
                footer = read_footer(file_version(group.path))
            self._path, self._parquet = group.path, open_parquet(group.path, footer)
        try:
            # For few rows, handing the columns to threads takes longer than reading them.
            table = self._parquet.read_row_group(
                group.number, columns=names, use_threads=group.rows >= THREADED_ROWS_MIN
            )
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{group.path} is damaged: cannot read its rows") from error
        batches: list[pa.RecordBatch] = (
            table.select(names).combine_chunks().to_batches(max_chunksize=BATCH_ROWS_MAX)
        )
        return batches


def check_schema(path: StorePath, found: pa.Schema) -> None:
    """Raise TraceError if a column is missing, or has another type."""
    for wanted in SCHEMA:
        index = found.get_field_index(wanted.name)
        if index < 0:
            raise TraceError(f"{path} must have one column {wanted.name!r}")
        if not _fits(found.field(index).type, wanted.type):
            raise TraceError(
                f"{path}: column {wanted.name!r} has type {found.field(index).type},"
                f" expected {wanted.type}"
            )


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column has the wanted type, in any encoding."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_large_string(found):
        found = pa.string()
    if pa.types.is_list(wanted) and (
        pa.types.is_list(found) or pa.types.is_large_list(found)
    ):
        return bool(found.value_type == wanted.value_type)
    return bool(found == wanted)
