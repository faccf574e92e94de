"""The directory of a study: its tables, and which cells are finished.

::

    DIR/study.json               which study this is
    DIR/cells.parquet            one row per cell
    DIR/events/<cell>/           the trace of a finished cell: events.parquet, run.json
    DIR/errors/<cell>.json       why a cell failed, and the command that replays it
    DIR/verdicts/part-*.parquet  one row per verified cell
    DIR/recordings/<name>/       a recording, as a trace that cells replay
    DIR/copies/, measures/, summary/   written by :mod:`antecede.pipeline.study.measure`

Every file and directory is renamed into place when it is complete.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import ConfigError, StorageError
from antecede.pipeline.study.cells_table import CELLS_SCHEMA, cell_row
from antecede.pipeline.study.study import Cell, Study
from antecede.trace.schema import EVENTS_NAME
from antecede.verify.oracle import Property

__all__ = ["StudyDirectory", "write_atomically"]


class StudyDirectory:
    """The directory of a study; constructing it reads and writes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = path / "events"
        self.errors = path / "errors"
        self.verdicts = path / "verdicts"
        self.recordings = path / "recordings"

    def open(self, study: Study) -> int:
        """Create the directory or reuse it; return the number of stale cells removed.

        A cell is stale if the study has changed and no longer contains it.

        Raises:
            ConfigError: The directory belongs to another study.
            StorageError: The directory is not writable.
        """
        header = self.path / "study.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if header.exists():
                found = json.loads(header.read_text(encoding="utf-8"))
                if found.get("name") != study.name:
                    raise ConfigError(
                        f"{self.path} holds the study {found.get('name')!r};"
                        " choose another directory"
                    )
            elif any(path != self.recordings for path in self.path.iterdir()):
                raise ConfigError(
                    f"{self.path} is not empty and holds no study; choose another directory"
                )
            self.events.mkdir(exist_ok=True)
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

    def simulated(self) -> set[str]:
        """Return the cells whose trace is complete."""
        found = self.events.iterdir() if self.events.exists() else ()
        return {path.name for path in found if (path / EVENTS_NAME).exists()}

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
        """Remove stale cells, errors, and the partial files of an interrupted run."""
        stale = 0
        for path in self.events.iterdir():
            complete = (path / EVENTS_NAME).exists()
            if path.name not in wanted or not complete:
                stale += complete and not path.name.startswith(".")
                shutil.rmtree(path, ignore_errors=True)
        for path in self.errors.iterdir():
            path.unlink()  # Cells that failed are simulated again.
        for part in self.verdicts.iterdir():
            if part.suffix != ".parquet":
                part.unlink()
                continue
            table = pq.read_table(part)
            keep = [run in wanted for run in table.column("run").to_pylist()]
            if not all(keep):
                self.add_verdicts(table.filter(pa.array(keep)))
                part.unlink()
        return stale


def _header(study: Study) -> dict[str, object]:
    """Return the content of ``study.json``."""
    return {
        "name": study.name,
        "title": study.title,
        "profile": study.profile,
        "cells": len(study.cells),
        "skipped": study.skipped,
    }


def write_atomically(path: Path, text: str) -> None:
    """Write a file and rename it into place."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)
