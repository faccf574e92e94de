"""Where a study keeps its tables, and what is finished.

::

    DIR/study.json               which study this is
    DIR/cells.parquet            one row per cell
    DIR/events/<cell>/           the trace of a finished cell: events.parquet, run.json
    DIR/errors/<cell>.json       why a cell failed, and the command that replays it
    DIR/verdicts/part-*.parquet  one row per verified cell
    DIR/copies/, measures/, summary/   what :mod:`antecede.pipeline.study.measure` writes

Everything appears by a rename, so it is there as a whole or not at all.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import ConfigError
from antecede.pipeline.study.cells_table import CELLS_SCHEMA, cell_row
from antecede.pipeline.study.study import Cell, Study
from antecede.trace.schema import EVENTS_NAME
from antecede.verify.oracle import Property

__all__ = ["Place", "write_whole"]


class Place:
    """A study's directory."""

    def __init__(self, directory: Path) -> None:
        """Name the directory; nothing is read or written yet."""
        self.directory = directory
        self.events = directory / "events"
        self.errors = directory / "errors"
        self.verdicts = directory / "verdicts"

    def open(self, study: Study) -> int:
        """Make the directory, or go on in it; return how many stale cells were removed.

        A cell is stale if the study has changed and has it no more. Raise ConfigError if
        the directory belongs to another study, or cannot be written to.
        """
        note = self.directory / "study.json"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if note.exists():
                found = json.loads(note.read_text(encoding="utf-8"))
                if found.get("name") != study.name:
                    raise ConfigError(
                        f"{self.directory} holds the study {found.get('name')!r};"
                        " choose another directory"
                    )
            elif any(self.directory.iterdir()):
                raise ConfigError(f"{self.directory} is not empty, and holds no study")
            self.events.mkdir(exist_ok=True)
            self.errors.mkdir(exist_ok=True)
            self.verdicts.mkdir(exist_ok=True)
            write_whole(note, json.dumps(_note(study)))
            self._write_cells((*study.cells, *study.too_large))
            return self._remove_stale({cell.id for cell in study.cells})
        except OSError as error:
            where = error.filename or self.directory
            raise ConfigError(f"cannot write to {where}: {error.strerror}") from error
        except ValueError as error:
            raise ConfigError(f"{note} is damaged: {error}") from error

    def simulated(self) -> set[str]:
        """Return the cells whose trace is whole."""
        found = self.events.iterdir() if self.events.exists() else ()
        return {path.name for path in found if (path / EVENTS_NAME).exists()}

    def failed(self) -> dict[str, dict[str, str]]:
        """Return the cells that failed, each with its note."""
        found = self.errors.glob("*.json") if self.errors.exists() else ()
        return {p.stem: json.loads(p.read_text(encoding="utf-8")) for p in found}

    def verified(self) -> set[str]:
        """Return the cells that have a verdict."""
        found: set[str] = set()
        for part in sorted(self.verdicts.glob("part-*.parquet")):
            found.update(pq.read_table(part, columns=["run"]).column("run").to_pylist())
        return found

    def violated(self) -> set[str]:
        """Return the cells in which some property was violated."""
        found: set[str] = set()
        for part in sorted(self.verdicts.glob("part-*.parquet")):
            table = pq.read_table(part)
            for row in table.to_pylist():
                if "violated" in (row[which.value] for which in Property):
                    found.add(row["run"])
        return found

    def add_verdicts(self, table: pa.Table) -> None:
        """Add verdicts, all or none."""
        part = self.verdicts / f"part-{uuid.uuid4().hex}.parquet"
        partial = part.with_suffix(".partial")
        pq.write_table(table, partial)
        partial.rename(part)

    def _write_cells(self, cells: Iterable[Cell]) -> None:
        rows = [cell_row(cell) for cell in cells]
        partial = self.directory / "cells.partial"
        pq.write_table(pa.Table.from_pylist(rows, schema=CELLS_SCHEMA), partial)
        partial.rename(self.directory / "cells.parquet")

    def _remove_stale(self, wanted: set[str]) -> int:
        """Remove what the study has no more, and what an interrupted run left behind."""
        stale = 0
        for path in self.events.iterdir():
            whole = (path / EVENTS_NAME).exists()
            if path.name not in wanted or not whole:
                stale += whole and not path.name.startswith(".")
                shutil.rmtree(path, ignore_errors=True)
        for path in self.errors.iterdir():
            path.unlink()  # What failed is tried again.
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


def _note(study: Study) -> dict[str, object]:
    """Return what there is to say about a study as a whole."""
    return {
        "name": study.name,
        "title": study.title,
        "profile": study.profile,
        "cells": len(study.cells),
        "left_out": study.left_out,
    }


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears as a whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)
