"""Read the trace of a run from its directory, a batch at a time.

The layout is that of :mod:`antecede.trace.schema`. Everything that can be wrong with a
directory is found here and told in one line: what is not there, what is half-written, and
which column of which file is not what the schema says.

This module needs the extra ``antecede[trace]``.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import ConfigError
from antecede.trace.event import Event, Kind
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA
from antecede.trace.table import events_of

__all__ = ["NumberedBatch", "RunInfo", "Trace", "read_trace"]

BATCH_ROWS_MAX = 1 << 17
"""Rows of a batch: enough to make the cost of a batch vanish, a few MiB of memory."""
PARTIAL_SUFFIX = ".partial"
"""Ends the name of what is still being written."""

_KINDS = {kind.value for kind in Kind}
_TYPES = {
    "run": str, "complete": bool, "parameters": dict, "names": dict, "holes": list,
}  # fmt: skip
_TYPES_IF_ANY = {"protocol": str, "seed": int, "processes": int, "command": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What ``run.json`` says: everything about a run that is not an event."""

    run: str
    """Which run, as in the column ``run``."""
    protocol: str | None = None
    """The protocol that it ran, by its name in the registry."""
    seed: int | None = None
    """What it drew its random numbers from."""
    complete: bool = False
    """It went on until nothing was left to do: what is undelivered was lost."""
    processes: int | None = None
    """How many processes there were."""
    command: str | None = None
    """The command that replays it."""
    parameters: dict[str, object] = field(default_factory=dict)
    """How it was set up."""
    names: dict[int, str] = field(default_factory=dict)
    """What the processes of a foreign trace are called where it comes from."""
    holes: list[str] = field(default_factory=list)
    """What is known to be missing from the trace, in a few words each."""
    more: dict[str, object] = field(default_factory=dict)
    """Keys of the file that are none of the above, kept as they are."""

    def to_json(self) -> str:
        """Return the text of ``run.json``."""
        known = {key.name: getattr(self, key.name) for key in fields(self)}
        known["names"] = {str(process): name for process, name in self.names.items()}
        return json.dumps({**known.pop("more"), **known}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "RunInfo":
        """Read the text of ``run.json``; only ``run`` must be there.

        Raise ConfigError if it is no JSON object, or a key's value is of the wrong type.
        """
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"not JSON: {error}") from error
        if not isinstance(found, dict) or "run" not in found:
            raise ConfigError("not a JSON object with the key 'run'")
        for key, value in found.items():
            wrong = key in _TYPES and not isinstance(value, _TYPES[key])
            wanted = _TYPES_IF_ANY.get(key)
            if wanted is not None and value is not None:
                wrong = not isinstance(value, wanted) or isinstance(value, bool)
            if wrong:
                raise ConfigError(f"{key!r} cannot be {value!r}")
        names = found.pop("names", {})
        try:
            names = {int(process): str(name) for process, name in names.items()}
        except ValueError as error:
            raise ConfigError(f"'names' has a key that is no process: {error}") from error
        known = {key.name for key in fields(cls)} - {"more"}
        more = {key: found.pop(key) for key in list(found) if key not in known}
        return cls(**found, names=names, more=more)


class NumberedBatch(NamedTuple):
    """Some rows of a trace, and where in the trace they stand."""

    first: int
    """How many rows of the trace come before."""
    batch: pa.RecordBatch


class _RowGroup(NamedTuple):
    """What is read at once: a row group of a file."""

    path: Path
    place: int
    first: int
    rows: int


class Trace:
    """The trace of one run on disk; get one from :func:`read_trace`.

    Nothing is kept in memory but the layout of its files. Hand it to
    :func:`antecede.verify.verifier.verify`, or go through :meth:`batches`.
    """

    path: Path
    """Its directory."""
    info: RunInfo
    """What is known of the run; of a directory without ``run.json``, its name alone."""
    rows: int
    """How many events there are, of every kind."""

    def __init__(self, path: Path, info: RunInfo, files: Sequence[Path]) -> None:
        """Check the schema of the files, which follow each other in this order."""
        self.path = path
        self.info = info
        self.rows = 0
        self._read: Callable[[int], None] | None = None
        self._groups: list[_RowGroup] = []
        for file in files:
            with _open(file) as parquet:
                _check_schema(file, parquet.schema_arrow)
                for index in range(parquet.metadata.num_row_groups):
                    rows = parquet.metadata.row_group(index).num_rows
                    self._groups.append(_RowGroup(file, index, self.rows, rows))
                    self.rows += rows

    def watched(self, read: Callable[[int], None]) -> "Trace":
        """Return the same trace; ``read`` is called with the rows of each batch it yields.

        For a display of progress in this process; such a trace cannot be pickled.
        """
        trace = copy(self)
        trace._read = read
        return trace

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the order of the files, a bounded number at a time.

        The columns ``run`` and ``kind`` are dictionary-encoded. Name only the columns that
        you need; they come in the order of the schema.

        Raises:
            ConfigError: A file is damaged, a kind is unknown, or there are several runs.
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
        """Yield batches with the number of their first row, in either direction.

        Args:
            columns: Which columns, None for all.
            first: Leave out what lies wholly before this row.
            last: Leave out what lies wholly after this row, None for nothing.
            backward: Yield the last batch first; the batches are the same.
        """
        wanted = set(SCHEMA.names if columns is None else columns)
        names = [name for name in SCHEMA.names if name in wanted]
        runs: set[str] = set()
        with _OneFile() as file:
            for group in reversed(self._groups) if backward else self._groups:
                if group.first + group.rows <= first or (
                    last is not None and group.first > last
                ):
                    continue
                batches = []
                start = group.first
                for batch in file.read(group, names):
                    batches.append(NumberedBatch(start, batch))
                    start += batch.num_rows
                for numbered in reversed(batches) if backward else batches:
                    end = numbered.first + numbered.batch.num_rows
                    if end > first and (last is None or numbered.first <= last):
                        self._check(group.path, numbered.batch, runs)
                        if self._read is not None:
                            self._read(numbered.batch.num_rows)
                        yield numbered

    def events(self) -> Iterator[Event]:
        """Yield the rows as events, in their order, for :func:`antecede.trace.judge`.

        Raise ConfigError if the rows of a process do not stand in the order of ``seq``:
        the oracle would take them for another run.
        """
        last: dict[int, int] = {}
        for batch in self.batches():
            seqs = batch.column("seq").to_pylist()
            for seq, event in zip(seqs, events_of(batch), strict=True):
                if seq < last.get(event.process, 0):
                    raise ConfigError(
                        f"{self.path}: the rows of process {event.process} do not stand in"
                        " the order of seq; sort them by process and seq"
                    )
                last[event.process] = seq
                yield event

    def _check(self, path: Path, batch: pa.RecordBatch, runs: set[str]) -> None:
        """Refuse nulls where the schema has none, unknown kinds, and a second run."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count and not SCHEMA.field(name).nullable:
                raise ConfigError(f"{path}: column {name!r} has nulls")
        if "kind" in batch.schema.names:
            for kind in batch.column("kind").unique().to_pylist():
                if kind not in _KINDS:
                    raise ConfigError(f"{path}: unknown kind of event: {kind!r}")
        if "run" in batch.schema.names:
            runs.update(batch.column("run").unique().to_pylist())
            if len(runs) > 1:
                one, other, *_ = sorted(runs)
                raise ConfigError(
                    f"{self.path}: rows of several runs, such as {one!r} and {other!r};"
                    " give each run a directory of its own"
                )


def read_trace(path: str | Path) -> Trace:
    """Open the trace in a run's directory, and check that it is one.

    Raises:
        ConfigError: There is no such directory, it holds no ``events.parquet`` or a
            half-written one, a column is missing or of the wrong type, or ``run.json``
            makes no sense.
    """
    directory = Path(path)
    if not directory.is_dir():
        if directory.exists():
            raise ConfigError(f"{directory} is a file; give the directory of the run")
        raise ConfigError(f"no such directory: {directory}")
    events = directory / EVENTS_NAME
    for folder in (directory, events):
        if folder.is_dir():
            for left in sorted(folder.glob("*" + PARTIAL_SUFFIX)):
                # Only a node leaves a folder: it was killed, or is still running.
                advice = "`antecede merge` takes what there is of a node"
                advice = advice if left.is_dir() else "record the run again"
                raise ConfigError(
                    f"{directory} is half-written: {left.name} was never finished; {advice}"
                )
    if not events.exists():
        raise ConfigError(f"no {EVENTS_NAME} in {directory}: not the trace of a run")
    files = [events]
    if events.is_dir():
        # Names that begin so are no data: what Spark and others leave beside the parts.
        files = [
            part
            for part in sorted(events.iterdir())
            if not part.name.startswith(("_", "."))
        ]
        if not files:
            raise ConfigError(f"{events} is empty: it holds no part of a trace")
    return Trace(directory, _read_info(directory), files)


def _read_info(directory: Path) -> RunInfo:
    path = directory / INFO_NAME
    try:
        return RunInfo.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return RunInfo(run=directory.resolve().name)
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, read_dictionary=["run", "kind"])
    except (PermissionError, FileNotFoundError) as error:
        raise ConfigError(f"{path}: cannot be read") from error
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: truncated or not a Parquet file") from error


class _OneFile:
    """Reads row groups, and keeps the file of the last one open for the next.

    To open a file is to read its footer, which grows with the number of its row groups; to
    do so for each of them would make reading quadratic.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._parquet: pq.ParquetFile | None = None

    def __enter__(self) -> "_OneFile":
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
        """Read these columns of a row group, in batches."""
        if self._parquet is None or self._path != group.path:
            if self._parquet is not None:
                self._parquet.close()
            self._parquet = None
            self._path, self._parquet = group.path, _open(group.path)
        try:
            table = self._parquet.read_row_group(group.place, columns=names)
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(f"{group.path}: damaged, its rows cannot be read") from error
        batches: list[pa.RecordBatch] = (
            table.select(names).combine_chunks().to_batches(max_chunksize=BATCH_ROWS_MAX)
        )
        return batches


def _check_schema(path: Path, found: pa.Schema) -> None:
    for wanted in SCHEMA:
        index = found.get_field_index(wanted.name)
        if index < 0:
            raise ConfigError(f"{path}: no column {wanted.name!r}, or more than one")
        if not _fits(found.field(index).type, wanted.type):
            raise ConfigError(
                f"{path}: column {wanted.name!r} is {found.field(index).type},"
                f" not {wanted.type}"
            )


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column can be read as the type, however it is encoded or nested."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_large_string(found):
        found = pa.string()
    if pa.types.is_list(wanted) and (
        pa.types.is_list(found) or pa.types.is_large_list(found)
    ):
        return bool(found.value_type == wanted.value_type)
    return bool(found == wanted)
