"""Read the trace of a run from its directory, a batch at a time.

The layout is that of :mod:`antecede.trace.schema`. The directory is a path or a URI
(:mod:`antecede.trace.store`). The reader checks the directory and its files, and raises
TraceError with one line on the first problem: a missing or unfinished file, or a column
that does not have the type of the schema.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import ConfigError, TraceError
from antecede.trace.commit import MARK_NAME, PARTIAL_SUFFIX, Part, manifest_parts
from antecede.trace.event import Event, Kind
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA
from antecede.trace.store import StorePath, open_store
from antecede.trace.table import events_from_table

__all__ = ["PARTIAL_SUFFIX", "NumberedBatch", "RecordedRun", "Trace", "read_trace"]

BATCH_ROWS_MAX = 1 << 17
"""Rows of a batch: enough to make the overhead negligible, a few MiB of memory."""
DELTA_LOG = "_delta_log"
"""The folder that makes a directory a Delta table."""

_KINDS = {kind.value for kind in Kind}


class NumberedBatch(NamedTuple):
    """Some consecutive rows of a trace."""

    first: int
    """The row number of the first row."""
    batch: pa.RecordBatch


class RecordedRun(Protocol):
    """The rows of one run, on disk (:class:`Trace`) or elsewhere."""

    @property
    def location(self) -> StorePath | str:
        """The directory of the run, or another name of it; error messages begin with it."""

    @property
    def info(self) -> RunInfo:
        """Everything about the run that is not an event."""

    def numbered_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        backward: bool = False,
    ) -> Iterator[NumberedBatch]:
        """Yield the rows as :meth:`Trace.numbered_batches` does."""


class _RowGroup(NamedTuple):
    """A row group of a file."""

    path: StorePath
    number: int
    """The number of the row group in the file, from 0."""
    first: int
    """The row number in the trace of the first row."""
    rows: int


class Trace:
    """The trace of one run on disk; :func:`read_trace` returns one.

    Only the layout of the files is in memory. Pass it to
    :func:`antecede.verify.verifier.verify_trace`, or iterate over :meth:`batches`.
    """

    location: StorePath
    """The directory of the run, on this machine or in a store."""
    info: RunInfo
    """The contents of ``run.json``; without that file, only the name of the directory."""
    rows: int
    """The number of events of all kinds."""

    def __init__(
        self,
        path: Path | StorePath,
        info: RunInfo,
        files: Sequence[Path] | Sequence[StorePath],
    ) -> None:
        """Read the layout of the files, in their order, and check their schemas."""
        self.location = open_store(path)
        self.info = info
        self.rows = 0
        self._on_read: Callable[[int], None] | None = None
        self._groups: list[_RowGroup] = []
        for file in map(open_store, files):
            with _open(file) as parquet:
                _check_schema(file, parquet.schema_arrow)
                for index in range(parquet.metadata.num_row_groups):
                    rows = parquet.metadata.row_group(index).num_rows
                    self._groups.append(_RowGroup(file, index, self.rows, rows))
                    self.rows += rows

    @property
    def path(self) -> Path:
        """The directory of the run on this machine.

        Raise ConfigError if the trace is in a store: use :attr:`location`.
        """
        if self.location.local is None:
            raise ConfigError(f"{self.location} is in a store: copy it to a directory")
        return self.location.local

    def with_read_callback(self, on_read: Callable[[int], None]) -> "Trace":
        """Return a copy that calls ``on_read`` with the number of rows of each batch.

        It serves to display progress in this process; it cannot be pickled.
        """
        trace = copy(self)
        trace._on_read = on_read
        return trace

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of the files, a bounded number at a time.

        The columns ``run`` and ``kind`` are dictionary-encoded. Pass only the columns that
        you need; they are returned in the order of the schema.

        Raises:
            TraceError: A file is damaged, a kind is unknown, or there are several runs.
        """
        for numbered in self.numbered_batches(columns):
            yield numbered.batch

    def numbered_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        backward: bool = False,
    ) -> Iterator[NumberedBatch]:
        """Yield batches with their row numbers, in either direction.

        Args:
            columns: The names of the columns, None for all.
            first: Skip batches that end before this row.
            last: Skip batches that start after this row.
            backward: Yield the last batch first; the batches are the same.
        """
        wanted = set(SCHEMA.names if columns is None else columns)
        names = [name for name in SCHEMA.names if name in wanted]
        runs: set[str] = set()
        with _RowGroupReader() as reader:
            for group in reversed(self._groups) if backward else self._groups:
                if group.first + group.rows <= first or (
                    last is not None and group.first > last
                ):
                    continue
                batches = []
                start = group.first
                for batch in reader.read(group, names):
                    batches.append(NumberedBatch(start, batch))
                    start += batch.num_rows
                for numbered in reversed(batches) if backward else batches:
                    end = numbered.first + numbered.batch.num_rows
                    if end > first and (last is None or numbered.first <= last):
                        self._check(group.path, numbered.batch, runs)
                        if self._on_read is not None:
                            self._on_read(numbered.batch.num_rows)
                        yield numbered

    def events(self) -> Iterator[Event]:
        """Yield the rows as events, in their order.

        Raise TraceError if the rows of a process are not in the order of ``seq``: the
        oracle :func:`antecede.verify.verify_events` would verify another run.
        """
        last: dict[int, int] = {}
        for batch in self.batches():
            seqs = batch.column("seq").to_pylist()
            for seq, event in zip(seqs, events_from_table(batch), strict=True):
                if seq < last.get(event.process, 0):
                    raise TraceError(
                        f"{self.location}: the rows of process {event.process} are not in"
                        " the order of seq; sort them by process and seq"
                    )
                last[event.process] = seq
                yield event

    def _check(self, path: StorePath, batch: pa.RecordBatch, runs: set[str]) -> None:
        """Raise TraceError on an unexpected null, an unknown kind, or a second run."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count and not SCHEMA.field(name).nullable:
                raise TraceError(f"{path}: column {name!r} must not contain nulls")
        if "kind" in batch.schema.names:
            for kind in batch.column("kind").unique().to_pylist():
                if kind not in _KINDS:
                    raise TraceError(f"{path}: unknown kind of event: {kind!r}")
        if "run" in batch.schema.names:
            runs.update(batch.column("run").unique().to_pylist())
            if len(runs) > 1:
                one, other, *_ = sorted(runs)
                raise TraceError(
                    f"{self.location}: rows of several runs, such as {one!r} and {other!r};"
                    " give each run a directory of its own"
                )


def read_trace(path: str | Path | StorePath) -> Trace:
    """Open the trace in a run's directory.

    Args:
        path: The directory, or its URI, such as ``s3://bucket/run``.

    Raises:
        ConfigError: The URI is invalid.
        TraceError: There is no such directory, its ``events.parquet`` is missing or
            unfinished, a column is missing or has the wrong type, or ``run.json`` is
            invalid.
    """
    directory = open_store(path)
    if not directory.is_dir():
        if directory.exists():
            raise TraceError(f"{directory} is a file; pass the directory of the run")
        if directory.local is None:
            raise TraceError(f"cannot read {directory}: {directory.missing_reason()}")
        raise TraceError(f"no such directory: {directory}")
    children = {child.name: child for child in directory.children()}
    info = _read_info(directory, children)
    parts = None if info is None else _listed_parts(directory, info)
    if parts is not None and info is not None:
        events = directory / EVENTS_NAME
        trace = Trace(directory, info, [events / part.name for part in parts])
        if trace.rows != sum(part.rows for part in parts):
            raise TraceError(f"{directory}: {INFO_NAME} lists another number of rows")
        return trace
    files = _find_parts(directory, children)
    return Trace(directory, info or RunInfo(run=_directory_name(directory)), files)


def _read_info(directory: StorePath, children: dict[str, StorePath]) -> RunInfo | None:
    """Return the contents of ``run.json``; None without it or before it is finished."""
    path = children.get(INFO_NAME)
    if path is None:
        return None
    try:
        return RunInfo.from_json(path.read_bytes().decode("utf-8"))
    except (TraceError, UnicodeDecodeError) as error:
        if MARK_NAME in children:
            return None
        raise TraceError(f"{path}: {error}") from error


def _listed_parts(directory: StorePath, info: RunInfo) -> list[Part] | None:
    try:
        return manifest_parts(info)
    except TraceError as error:
        raise TraceError(f"{directory / INFO_NAME}: {error}") from error


def _find_parts(directory: StorePath, children: dict[str, StorePath]) -> list[StorePath]:
    """Return the files of ``events.parquet``, which no manifest lists."""
    events = directory / EVENTS_NAME
    is_folder = EVENTS_NAME in children and events.is_dir()
    parts = events.children() if is_folder else []
    for entry in (*children.values(), *parts):
        if entry.name.endswith(PARTIAL_SUFFIX):
            fix = "record the run again"
            if entry.is_dir():  # Of a node that was killed, or is still running.
                fix = "`antecede merge` reads the flushed events of a node"
            raise TraceError(f"{directory} has an unfinished {entry.name}; {fix}")
    for folder, names in ((directory, set(children)), (events, {p.name for p in parts})):
        if DELTA_LOG in names:
            raise TraceError(
                f"{folder} is a Delta table, whose directory has deleted files, too:"
                f" verify it with `antecede verify {folder}`"
            )
    if EVENTS_NAME not in children:
        raise TraceError(f"{directory} has no {EVENTS_NAME}: it is not the trace of a run")
    if not is_folder:
        return [events]
    # Spark and others write files with such names beside the parts.
    files = [part for part in parts if not part.name.startswith(("_", "."))]
    if not files:
        raise TraceError(f"{events} has no parts: it is an empty folder")
    return files


def _directory_name(directory: StorePath) -> str:
    return directory.name if directory.local is None else directory.local.resolve().name


def _open(path: StorePath) -> pq.ParquetFile:
    dictionaries = ["run", "kind"]
    if path.local is None:
        source = path.open_input()
        try:
            # One request for neighboring columns, instead of one for each.
            return pq.ParquetFile(source, read_dictionary=dictionaries, pre_buffer=True)
        except (pa.ArrowException, OSError) as error:
            source.close()
            raise _damage(path, error) from error
    try:
        return pq.ParquetFile(path.local, read_dictionary=dictionaries)
    except (PermissionError, FileNotFoundError) as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    except (pa.ArrowException, OSError) as error:
        raise _damage(path, error) from error


def _damage(path: StorePath, error: Exception) -> TraceError:
    if path.local is None and isinstance(error, OSError):
        return TraceError(f"cannot read {path}: {path.reason(error)}")
    return TraceError(f"{path} is truncated, or is not a Parquet file")


class _RowGroupReader:
    """Reads row groups, and keeps the last file open.

    Opening a file reads its footer, which grows with the number of row groups: opening the
    file for each row group would take quadratic time.
    """

    def __init__(self) -> None:
        self._path: StorePath | None = None
        self._parquet: pq.ParquetFile | None = None

    def __enter__(self) -> "_RowGroupReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._parquet is not None:
            self._parquet.close()

    def read(self, group: _RowGroup, names: list[str]) -> list[pa.RecordBatch]:
        """Return the columns of a row group, in batches."""
        if self._parquet is None or self._path != group.path:
            if self._parquet is not None:
                self._parquet.close()
            self._parquet = None
            self._path, self._parquet = group.path, _open(group.path)
        try:
            table = self._parquet.read_row_group(group.number, columns=names)
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{group.path} is damaged: cannot read its rows") from error
        batches: list[pa.RecordBatch] = (
            table.select(names).combine_chunks().to_batches(max_chunksize=BATCH_ROWS_MAX)
        )
        return batches


def _check_schema(path: StorePath, found: pa.Schema) -> None:
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
