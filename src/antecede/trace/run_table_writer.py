"""Write the parts of a table of runs; :mod:`antecede.trace.run_table` has the layout.

A part is first a local file that no reader looks at. If the table is on a local disk, the
file is in the directory of the table, and :meth:`RunTableWriter.commit` renames it. In a
store, it is a temporary file on this machine, and ``commit`` uploads it. Either way all
runs of a part appear at once, and a process that is killed leaves no part of a run.

This module needs the extra ``antecede[trace]``.
"""

import contextlib
import json
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import ConfigError, StorageError
from antecede.trace.commit import PARTIAL_SUFFIX
from antecede.trace.row_groups import open_parquet, read_footer
from antecede.trace.run_info import RunInfo
from antecede.trace.run_table import RUNS_KEY, TablePart, run_info
from antecede.trace.schema import SAMPLES_SCHEMA, SCHEMA
from antecede.trace.store import StorePath, open_store
from antecede.trace.writer import RunWriter

__all__ = ["RunTableWriter", "TableRunWriter", "remove_runs"]

COMPRESSION = "zstd"
DICTIONARIES = ["run", "kind"]
"""The columns with few values; dictionaries of the others take more time and space."""
UPLOAD_BYTES = 1 << 22


class RunTableWriter:
    """Writes runs to the current part; :meth:`commit` finishes the part.

    As a context manager it removes the unfinished part at the end of the block.
    """

    runs: int
    """The number of runs of the current part."""
    rows: int
    """The number of rows of the current part."""

    def __init__(self, directory: str | Path | StorePath) -> None:
        """Prepare to write to a table; nothing is written yet.

        Raise ConfigError if the URI is invalid.
        """
        self._events = open_store(directory) / "events"
        self._samples = open_store(directory) / "samples"
        self._part: _PartFile | None = None
        self.runs = self.rows = 0

    def open_run(self, name: str) -> "TableRunWriter":
        """Return the writer of the next run of the current part.

        Raises:
            ConfigError: The name is not a valid name of a run in a table.
            StorageError: The directory cannot be written to.
        """
        if not name or name.startswith(".") or "/" in name:
            raise ConfigError(f"{name!r} cannot be the name of a run in a table")
        if self._part is None:
            self._part = _PartFile(self._events)
        if name in self._part.infos:
            raise ConfigError(f"the table already has a run {name!r}")
        return TableRunWriter(self, self._part, name)

    def commit(self) -> StorePath | None:
        """Make the runs of the current part visible; without any, do nothing.

        Returns:
            The part; None if it has no runs.

        Raises:
            OSError: A local disk fails.
            StorageError: A store fails.
        """
        part, self._part = self._part, None
        self.runs = self.rows = 0
        if part is None:
            return None
        try:
            part.close()
            if not part.infos:
                return None
            part.remove_abandoned()
            if part.samples:
                samples = pa.concat_tables(part.samples)
                part.publish_samples(samples, self._samples)
            part.publish(self._events / part.name)
            return self._events / part.name
        finally:
            part.remove()

    def abandon(self) -> None:
        """Remove the current part."""
        part, self._part = self._part, None
        self.runs = self.rows = 0
        if part is not None:
            part.remove()

    def __enter__(self) -> "RunTableWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abandon()


class TableRunWriter(RunWriter):
    """Writes one run of a part."""

    def __init__(self, table: RunTableWriter, part: "_PartFile", run: str) -> None:
        """Use :meth:`RunTableWriter.open_run`."""
        super().__init__(run)
        self._table = table
        self._part = part
        self._groups = 0
        self._samples: list[pa.Table] = []

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows that already have the schema, as a row group."""
        if batch.num_rows:
            self._part.write(batch)
            self._groups += 1
            self.rows += batch.num_rows

    def write_samples(self, table: pa.Table) -> None:
        """Keep the samples of the run for the table of samples."""
        self._samples.append(table)

    def close(self, info: RunInfo) -> None:
        """Write the buffered rows, and add the run to the part."""
        self.recorder.flush()
        self._part.infos[info.run] = (json.loads(info.to_json()), self._groups)
        self._part.kept += [True] * self._groups
        self._part.samples += self._samples
        self._table.runs += 1
        self._table.rows += self.rows

    def abandon(self) -> None:
        """Leave the run out of the part."""
        self._part.kept += [False] * (self._part.groups - len(self._part.kept))


class _PartFile:
    """The local file of a part that is being written."""

    def __init__(self, events: StorePath) -> None:
        self.name = f"runs-{uuid.uuid4().hex}.parquet"
        self.infos: dict[str, tuple[dict[str, object], int]] = {}
        """By run, the contents of ``run.json`` and the number of row groups."""
        self.kept: list[bool] = []
        """For each row group, whether its run was finished."""
        self.groups = 0
        self.samples: list[pa.Table] = []
        self._error: Exception | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        events.make_dir()
        if events.local is not None:
            folder = events.local
        else:
            self._scratch = tempfile.TemporaryDirectory(prefix="antecede-")
            folder = Path(self._scratch.name)
        self._path = folder / f".{self.name}{PARTIAL_SUFFIX}"
        try:
            self._writer = pq.ParquetWriter(
                self._path, SCHEMA, compression=COMPRESSION, use_dictionary=DICTIONARIES
            )
        except OSError as error:
            raise StorageError(f"cannot write to {folder}: {error.strerror}") from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a row group."""
        try:
            self._writer.write_batch(batch, row_group_size=batch.num_rows)
        except Exception as error:
            self._error = error
            raise
        self.groups += 1

    def close(self) -> None:
        """Write the footer; raise StorageError if a row group could not be written."""
        if self._error is not None:
            raise StorageError(f"cannot write to {self._path.parent}") from self._error
        self._writer.add_key_value_metadata({RUNS_KEY: _runs_text(self.infos)})
        self._writer.close()

    def remove_abandoned(self) -> None:
        """Write the file again without the row groups of runs that were not finished."""
        numbers = [number for number, kept in enumerate(self.kept) if kept]
        if len(numbers) == self.groups:
            return
        copy = self._path.with_name(f"{self._path.name}-copy")
        try:
            _copy_groups(self._path, copy, numbers, self.infos)
            copy.replace(self._path)
        finally:
            copy.unlink(missing_ok=True)

    def publish(self, target: StorePath) -> None:
        _publish(self._path, target)

    def publish_samples(self, samples: pa.Table, folder: StorePath) -> None:
        folder.make_dir()
        target = folder / self.name
        parent = self._path.parent if folder.local is None else folder.local
        path = parent / f".{self.name}{PARTIAL_SUFFIX}-samples"
        try:
            pq.write_table(samples.cast(SAMPLES_SCHEMA), path, compression=COMPRESSION)
            _publish(path, target)
        finally:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the local file, if it was not renamed."""
        with contextlib.suppress(OSError, pa.ArrowException):  # The file is removed.
            self._writer.close()
        self._path.unlink(missing_ok=True)
        if self._scratch is not None:
            self._scratch.cleanup()


def remove_runs(part: TablePart, unwanted: Collection[str]) -> set[str]:
    """Replace a part on this machine by one without these runs; return what was removed.

    The runs whose rows cannot be read are removed, too. The part is replaced in one step;
    without any other runs it is removed.
    """
    path = part.path.local
    assert path is not None
    kept = {run for run in part.runs if run not in unwanted}
    kept -= {run for run in kept if not _is_readable(part, run)}
    if kept:
        infos = {
            run: (json.loads(run_info(part, run).to_json()), rows.groups)
            for run, rows in part.runs.items()
            if run in kept
        }
        numbers = [
            number
            for run in infos
            for number in _group_numbers(part, run)
        ]  # fmt: skip
        copy = path.with_name(f".{path.name}{PARTIAL_SUFFIX}")
        try:
            _copy_groups(path, copy, numbers, infos)
            copy.replace(path)
        finally:
            copy.unlink(missing_ok=True)
    else:
        path.unlink(missing_ok=True)
    return part.runs.keys() - kept


def _group_numbers(part: TablePart, run: str) -> range:
    rows = part.runs[run]
    return range(rows.first_group, rows.first_group + rows.groups)


def _is_readable(part: TablePart, run: str) -> bool:
    with open_parquet(part.path, read_footer(part.version)) as parquet:
        try:
            for number in _group_numbers(part, run):
                parquet.read_row_group(number)
        except (pa.ArrowException, OSError):
            return False
    return True


def _copy_groups(
    source: Path,
    target: Path,
    numbers: Collection[int],
    infos: Mapping[str, tuple[dict[str, object], int]],
) -> None:
    """Write a part with some of the row groups of another."""
    with (
        pq.ParquetFile(source) as parquet,
        pq.ParquetWriter(
            target, SCHEMA, compression=COMPRESSION, use_dictionary=DICTIONARIES
        ) as writer,
    ):
        for number in numbers:
            group = parquet.read_row_group(number)
            writer.write_table(group.cast(SCHEMA), row_group_size=max(1, group.num_rows))
        writer.add_key_value_metadata({RUNS_KEY: _runs_text(infos)})


def _runs_text(infos: Mapping[str, tuple[dict[str, object], int]]) -> str:
    return json.dumps(
        [{"info": info, "row_groups": groups} for info, groups in infos.values()]
    )


def _publish(path: Path, target: StorePath) -> None:
    """Move a local file to its place: rename it, or upload it to a store."""
    if target.local is not None:
        path.rename(target.local)
        return
    with path.open("rb") as source, target.open_output() as file:
        try:
            shutil.copyfileobj(source, file, UPLOAD_BYTES)
        except (OSError, pa.ArrowException) as error:
            raise target.write_error(error) from error
