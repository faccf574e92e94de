"""The directory of a study: its tables, and which cells are finished.

::

    DIR/study.json               which study this is, and the version of antecede
    DIR/study.lock               the process that is running the study
    DIR/cells.parquet            one row per cell
    DIR/events/runs-*.parquet    the events of finished cells, many in a file
    DIR/samples/runs-*.parquet   the samples of the same cells
    DIR/copies/runs-*.parquet    the copies of the messages of the same cells
    DIR/results/runs-*.parquet   one row per cell of the same file: verdict and measures
    DIR/errors/<cell>.json       why a cell failed, and the command that replays it
    DIR/verdicts/part-*.parquet  one row per verified cell
    DIR/failed/<cell>/           the trace of a cell without a valid verdict
    DIR/measured.json            a digest of the cells that the tables measure
    DIR/recordings/<name>/       a recording, as a trace that cells replay
    DIR/measures/, summary/      written by :mod:`antecede.pipeline.study.measure`

``events`` and ``samples`` are a table of runs (:mod:`antecede.trace.run_table`). Every file
and directory is renamed into place when it is complete.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import antecede
from antecede.errors import ConfigError, StorageError, TraceError
from antecede.pipeline.study.cells_table import CELLS_SCHEMA, cell_row
from antecede.pipeline.study.lock import LOCK_NAME
from antecede.pipeline.study.study import Cell, Study
from antecede.trace.reader import read_trace
from antecede.trace.run_table import TablePart, list_runs, readable_parts
from antecede.trace.run_table_writer import remove_runs
from antecede.trace.schema import SCHEMA
from antecede.trace.store import open_store
from antecede.trace.writer import TraceWriter
from antecede.verify.oracle import Property

__all__ = ["FORMAT", "StudyDirectory", "check_format", "write_atomically"]

FORMAT = 2
"""The format of the directory. Format 1, without a number, had a directory per trace."""
BEFORE_STUDY = {"recordings", LOCK_NAME}
"""The names that a directory may contain before it holds a study."""


class StudyDirectory:
    """The directory of a study; constructing it reads and writes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = path / "events"
        self.samples = path / "samples"
        self.copies = path / "copies"
        self.results = path / "results"
        self.errors = path / "errors"
        self.verdicts = path / "verdicts"
        self.recordings = path / "recordings"
        self.failed_traces = path / "failed"
        self._measured = path / "measured.json"

    def open(self, study: Study) -> int:
        """Create the directory or reuse it; return the number of stale cells removed.

        A cell is stale if the study has changed and no longer contains it. The cells that
        failed are removed, too, so that they run again.

        Raises:
            ConfigError: The directory belongs to another study, or to another version of
                antecede.
            StorageError: The directory is not writable.
        """
        header = self.path / "study.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if header.exists():
                self._check_header(json.loads(header.read_text(encoding="utf-8")), study)
            elif {path.name for path in self.path.iterdir()} - BEFORE_STUDY:
                raise ConfigError(
                    f"{self.path} is not empty and holds no study; choose another directory"
                )
            self.events.mkdir(exist_ok=True)
            self.samples.mkdir(exist_ok=True)
            self.errors.mkdir(exist_ok=True)
            self.verdicts.mkdir(exist_ok=True)
            write_atomically(header, json.dumps(_header(study)))
            self._write_cells((*study.cells, *study.too_large))
            return self._remove_stale({cell.id for cell in study.cells})
        except OSError as error:
            path = error.filename or self.path
            raise StorageError(f"cannot write to {path}: {error.strerror}") from error
        except ValueError as error:
            raise StorageError(f"{header} is damaged: {error}") from error

    def _check_header(self, found: dict[str, object], study: Study) -> None:
        """Raise ConfigError if the content of ``study.json`` is of another study."""
        if found.get("name") != study.name:
            raise ConfigError(
                f"{self.path} holds the study {found.get('name')!r};"
                " choose another directory"
            )
        if found.get("version") != antecede.__version__:
            raise ConfigError(
                f"{self.path} has results of antecede {found.get('version', 'unknown')},"
                f" and this is {antecede.__version__}: choose another directory"
            )
        check_format(self.path)

    def simulated(self) -> set[str]:
        """Return the cells whose trace is complete."""
        return set(self.parts())

    def parts(self) -> dict[str, TablePart]:
        """Return the file of the events of each simulated cell."""
        return list_runs(open_store(self.events))

    def failed(self) -> dict[str, dict[str, str]]:
        """Return the cells that failed, each with the content of its error file."""
        found = self.errors.glob("*.json") if self.errors.exists() else ()
        return {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in found}

    def verified(self) -> set[str]:
        """Return the cells that have a verdict."""
        return {row["run"] for row in self._verdict_rows(["run"])}

    def violated(self) -> set[str]:
        """Return the cells in which some property was violated."""
        return {
            row["run"]
            for row in self._verdict_rows()
            if "violated" in (row[which.column] for which in Property)
        }

    def add_error(self, cell: Cell, error: object, *, attempts: int = 1) -> None:
        """Write why a cell failed; workers call it, too."""
        text = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error
        details = {
            "error": str(text),
            "seed": str(cell.scenario.seed),
            "command": cell.scenario.command(),
            "attempts": str(attempts),
        }
        write_atomically(self.errors / f"{cell.id}.json", json.dumps(details))

    def set_aside(self, cells: Iterable[str]) -> None:
        """Move the traces of cells to the failed ones, so that they are not measured.

        A trace that cannot be read is removed, and so are unreadable ones beside it.
        """
        unwanted = set(cells)
        parts = self.parts()
        for cell in sorted(unwanted & parts.keys()):
            directory = self.failed_traces / cell
            shutil.rmtree(directory, ignore_errors=True)
            try:
                _copy_trace(self.events / cell, directory)
            except TraceError:
                shutil.rmtree(directory, ignore_errors=True)
        self._remove_runs(unwanted)

    def remove_duplicates(self) -> None:
        """Leave each cell in one file; an attempt on a lost worker may have copied it."""
        parts = self.parts()
        for part in self._readable_parts():
            surplus = {cell for cell in part.runs if parts[cell].path != part.path}
            if surplus:
                self._remove_from(part, surplus)
        self._remove_samples()

    def _remove_runs(self, unwanted: set[str]) -> None:
        """Remove cells from all files."""
        for part in self._readable_parts():
            if not unwanted.isdisjoint(part.runs):
                self._remove_from(part, unwanted)
        self._remove_samples()

    def _remove_from(self, part: TablePart, unwanted: set[str]) -> None:
        """Remove cells from a file, and the samples with the last of its cells.

        The results of its other cells are written again when they are needed.
        """
        (self.results / part.path.name).unlink(missing_ok=True)
        if remove_runs(part, unwanted) == part.runs.keys():
            (self.samples / part.path.name).unlink(missing_ok=True)

    def _remove_samples(self) -> None:
        """Remove the samples of cells that were removed from the file of their events."""
        runs = {part.path.name: part.runs for part in self._readable_parts()}
        for path in self.samples.iterdir() if self.samples.exists() else ():
            if path.name not in runs:
                continue
            table = pq.read_table(path)
            keep = [cell in runs[path.name] for cell in table.column("run").to_pylist()]
            if not all(keep):
                copy = path.with_name(f".{path.name}")
                pq.write_table(table.filter(pa.array(keep)), copy)
                copy.rename(path)

    def _readable_parts(self) -> Iterator[TablePart]:
        """Return the files of the events that are complete."""
        return readable_parts(open_store(self.events))

    def measure_inputs(self) -> str:
        """Return a digest of the table of cells, and of the traces to measure."""
        digest = blake2b((self.path / "cells.parquet").read_bytes(), digest_size=16)
        for cell, part in sorted(self.parts().items()):
            digest.update(f"{cell} {part.runs[cell].rows}\n".encode())
        return digest.hexdigest()

    def measured_inputs(self) -> str | None:
        """Return the digest of the inputs that were measured; None if they were not."""
        try:
            found = json.loads(self._measured.read_text(encoding="utf-8"))
            return str(found["inputs"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def set_measured(self, inputs: str | None) -> None:
        """Record the digest of the inputs of the tables; None while they are replaced."""
        if inputs is None:
            self._measured.unlink(missing_ok=True)
        else:
            write_atomically(self._measured, json.dumps({"inputs": inputs}))

    def add_verdicts(self, table: pa.Table) -> None:
        """Add verdicts, all or none."""
        part = self.verdicts / f"part-{uuid.uuid4().hex}.parquet"
        partial = part.with_suffix(".partial")
        pq.write_table(table, partial)
        partial.rename(part)

    def _verdict_rows(self, columns: list[str] | None = None) -> Iterator[dict[str, str]]:
        for part in sorted(self.verdicts.glob("part-*.parquet")):
            yield from pq.read_table(part, columns=columns).to_pylist()

    def _write_cells(self, cells: Iterable[Cell]) -> None:
        rows = [cell_row(cell) for cell in cells]
        partial = self.path / "cells.partial"
        pq.write_table(pa.Table.from_pylist(rows, schema=CELLS_SCHEMA), partial)
        partial.rename(self.path / "cells.parquet")

    def _remove_stale(self, wanted: set[str]) -> int:
        """Remove stale and failed cells, and the partial files of an interrupted run."""
        complete = {part.path.name for part in self._readable_parts()}
        for path in self.events.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in complete:
                path.unlink()
        for path in (*self.samples.iterdir(), *self.results.glob("*")):
            if path.name not in complete:
                path.unlink()
        stale = self.simulated() - wanted
        self._remove_runs(stale)
        self.remove_duplicates()
        shutil.rmtree(self.failed_traces, ignore_errors=True)
        for path in self.errors.iterdir():
            path.unlink()
        kept = self.simulated()
        for part in self.verdicts.iterdir():
            if part.suffix != ".parquet":
                part.unlink()
                continue
            table = pq.read_table(part)
            keep = [run in kept for run in table.column("run").to_pylist()]
            if not all(keep):
                self.add_verdicts(table.filter(pa.array(keep)))
                part.unlink()
        return len(stale)


def _header(study: Study) -> dict[str, object]:
    """Return the content of ``study.json``."""
    return {
        "version": antecede.__version__,
        "format": FORMAT,
        "name": study.name,
        "title": study.title,
        "profile": study.profile,
        "cells": len(study.cells),
        "skipped": study.skipped,
    }


def check_format(path: Path) -> None:
    """Raise ConfigError if a directory has a study in another format."""
    header = path / "study.json"
    if header.exists() and json.loads(header.read_text("utf-8")).get("format") != FORMAT:
        raise ConfigError(
            f"{path} is a study in another format: run the study again in another directory"
        )


def _copy_trace(path: Path, directory: Path) -> None:
    """Copy a trace to a directory of its own."""
    trace = read_trace(path)
    with TraceWriter(directory, trace.info.run) as writer:
        for batch in trace.batches():
            columns = [batch.column(field.name).cast(field.type) for field in SCHEMA]
            writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
        writer.close(trace.info)


def write_atomically(path: Path, text: str) -> None:
    """Write a file and rename it into place."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)
