"""Read the trace of a run from its directory, a batch at a time.

The layout is that of :mod:`antecede.trace.schema`. The directory is a path or a URI
(:mod:`antecede.trace.store`), or the path of a run in a table of runs
(:mod:`antecede.trace.run_table`). The reader checks the directory and its files, and raises
TraceError with one line on the first problem: a missing or unfinished file, or a column
that does not have the type of the schema.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from antecede.errors import ConfigError, TraceError
from antecede.trace.commit import MARK_NAME, PARTIAL_SUFFIX, Part, manifest_parts
from antecede.trace.event import Event, Kind
from antecede.trace.row_groups import (
    RowGroup,
    RowGroupReader,
    check_schema,
    is_part,
    open_parquet,
)
from antecede.trace.run_info import RunInfo
from antecede.trace.run_table import find_run, read_part, run_info, run_row_groups
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA
from antecede.trace.store import StorePath, open_store
from antecede.trace.table import events_from_table

__all__ = ["PARTIAL_SUFFIX", "NumberedBatch", "RecordedRun", "Trace", "read_trace"]

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
    part: StorePath | None
    """The file of a table of runs that contains the run; None if it has a directory."""

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
        self.part: StorePath | None = None
        self._on_read: Callable[[int], None] | None = None
        self._groups: list[RowGroup] = []
        for file in map(open_store, files):
            with open_parquet(file) as parquet:
                check_schema(file, parquet.schema_arrow)
                for index in range(parquet.metadata.num_row_groups):
                    rows = parquet.metadata.row_group(index).num_rows
                    self._groups.append(RowGroup(file, index, self.rows, rows))
                    self.rows += rows

    @classmethod
    def in_part(cls, part: StorePath, info: RunInfo, groups: list[RowGroup]) -> "Trace":
        """Return the trace in these row groups of a part of a table of runs."""
        trace = cls(part / info.run, info, [])
        trace.part = part
        trace.rows = sum(group.rows for group in groups)
        trace._groups = groups
        return trace

    @property
    def first_group_rows(self) -> int:
        """The number of rows of the first row group; 0 if there is none."""
        return self._groups[0].rows if self._groups else 0

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
        with RowGroupReader() as reader:
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
                    name = self.info.names.get(event.process, f"process {event.process}")
                    raise TraceError(
                        f"{self.location}: the rows of {name} are not in the order of seq;"
                        " sort them by process and seq"
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
        path: The directory, or its URI, such as ``s3://bucket/run``; or ``DIR/RUN`` for a
            run of the table of runs in ``DIR``.

    Raises:
        ConfigError: The URI is invalid.
        TraceError: There is no such directory, its ``events.parquet`` is missing or
            unfinished, a column is missing or has the wrong type, or ``run.json`` is
            invalid.
    """
    directory = open_store(path)
    if not directory.is_dir():
        if directory.exists():
            if is_part(directory.name):
                count = len(read_part(directory).runs)
                raise TraceError(f"{directory} has {count} runs: append /RUN to the path")
            raise TraceError(f"{directory} is a file; pass the directory of the run")
        part = find_run(directory)
        if part is not None:
            groups = run_row_groups(part, directory.name)
            return Trace.in_part(part.path, run_info(part, directory.name), groups)
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
