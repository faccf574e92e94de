"""Read the tables of studies back, for the report.

:func:`read_tables` reads one or several directories that ``antecede study run`` has
written (:mod:`antecede.pipeline.study.directory` says what is in them). Nothing is run, and Spark is
not needed. Everything that the report shows comes from here.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from antecede.errors import ConfigError
from antecede.verify.oracle import Property

__all__ = [
    "CellRow",
    "Setting",
    "StudyTables",
    "SummaryRow",
    "Tables",
    "VerdictRow",
    "read_tables",
]

Setting = Mapping[str, Any]
"""What a group of cells was run with: the columns of ``cells`` that are no names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """A row of ``cells``: one run."""

    cell: str
    grid: str
    protocol: str
    workload: str
    network: str
    processes: int
    messages: int
    seed: int
    group: str
    comparable: str
    command: str
    setting: Setting
    """Everything else."""

    @property
    def too_large(self) -> str:
        """Why it was not run, if so."""
        return self.setting.get("too_large") or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """A row of ``verdicts``: what the oracle said of one run."""

    run: str
    statuses: Mapping[str, str | None]
    """Of each property held, violated or unknown; None if there is no verdict."""
    counts: Mapping[str, int | None]
    events: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """A row of ``summary``: one measure of the runs that differ in their seed only."""

    study: str
    group: str
    grid: str
    protocol: str
    workload: str
    network: str
    processes: int
    messages: int
    measure: str
    seeds: int
    mean: float | None
    deviation: float | None
    low: float | None
    high: float | None

    @property
    def place(self) -> tuple[str, str, str, str, int, int]:
        """Everything but protocol and measure: the same work on the same network."""
        where = (self.study, self.grid, self.workload, self.network)
        return (*where, self.processes, self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTables:
    """The tables of one study."""

    name: str
    directory: Path
    cells: tuple[CellRow, ...]
    verdicts: tuple[VerdictRow, ...]
    values: Mapping[str, Mapping[str, float | None]]
    """Of each cell, its measures."""
    summary: tuple[SummaryRow, ...]
    failed: Mapping[str, Mapping[str, str]]
    """Cells that failed, each with its note."""
    notes: Mapping[str, Any]
    """What else ``study.json`` says."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Of each group."""
    index: Mapping[tuple[str, str], SummaryRow] = field(default_factory=dict)
    """The rows of the summary by group and measure."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """What was not run, each with the reason."""
        found = self.notes.get("left_out", ())
        return tuple(str(each) for each in found) if isinstance(found, list) else ()

    @property
    def title(self) -> str:
        """Return its line for people, or its name."""
        return str(self.notes.get("title") or self.name)

    @property
    def command(self) -> str:
        """Return the command that makes the tables anew."""
        profile = self.notes.get("profile")
        return f"antecede study run {self.name}" + (
            f" --profile {profile}" if profile else ""
        )

    @property
    def run_cells(self) -> list[CellRow]:
        """Return the cells that were to be run: all that were not too large."""
        return [cell for cell in self.cells if not cell.too_large]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of all studies that a report is made from."""

    studies: tuple[StudyTables, ...]

    def rows(
        self,
        measure: str,
        *,
        protocol: str | None = None,
        where: Callable[[SummaryRow, Setting], bool] | None = None,
    ) -> list[SummaryRow]:
        """Return the rows of ``summary`` for a measure that have a value."""
        return [
            row
            for study in self.studies
            for row in study.summary
            if row.measure == measure
            and row.mean is not None
            and (protocol is None or row.protocol == protocol)
            and (where is None or where(row, study.settings[row.group]))
        ]

    def study(self, name: str) -> StudyTables:
        """Return the study of that name; raise KeyError if there is none."""
        for study in self.studies:
            if study.name == name:
                return study
        raise KeyError(name)

    def setting(self, row: SummaryRow) -> Setting:
        """Return what the runs behind a row were run with."""
        return self.study(row.study).settings[row.group]

    def other(self, row: SummaryRow, measure: str) -> float | None:
        """Return the mean of another measure of the same runs; None if it has none."""
        found = self.study(row.study).index.get((row.group, measure))
        return found.mean if found is not None else None

    def protocols(self) -> list[str]:
        """Return the protocols that any study has, each once, in their first order."""
        return list(
            dict.fromkeys(cell.protocol for study in self.studies for cell in study.cells)
        )


def read_tables(directories: Sequence[Path]) -> Tables:
    """Read the tables of studies, or raise ConfigError, which says what is missing.

    A directory is a study's, or has the directories of several studies in it.
    """
    found: list[Path] = []
    for directory in directories:
        inside = sorted(path.parent for path in directory.glob("*/cells.parquet"))
        here = [directory] if (directory / "cells.parquet").exists() else inside
        found += here
        if not here:
            raise ConfigError(
                f"no tables of a study in {directory}; make some: antecede study run NAME"
                f" --out {directory}"
            )
    studies = tuple(_read_study(path) for path in found)
    names = [study.name for study in studies]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"the study {name!r} is there twice; give one directory of it"
            )
    return Tables(studies=studies)


def _read_study(directory: Path) -> StudyTables:
    try:
        note = json.loads((directory / "study.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{directory / 'study.json'} is damaged: {error}") from error
    name = str(note.get("name", directory.name))
    cells = tuple(_cell(row) for row in _rows(directory, "cells.parquet"))
    values: dict[str, dict[str, float | None]] = {}
    for row in _rows(directory, "measures"):
        values.setdefault(row["cell"], {})[row["measure"]] = _number(row["value"])
    summary = tuple(
        SummaryRow(
            study=name,
            **{key: row[key] for key in SummaryRow.__slots__ if key in KEYS},
            mean=_number(row["mean"]),
            deviation=_number(row["deviation"]),
            low=_number(row["low"]),
            high=_number(row["high"]),
        )
        for row in _rows(directory, "summary")
    )
    return StudyTables(
        name=name,
        directory=directory,
        cells=cells,
        verdicts=tuple(_verdict(row) for row in _rows(directory, "verdicts")),
        values=values,
        summary=tuple(sorted(summary, key=_order)),
        failed=_failed(directory),
        notes=note,
        settings={cell.group: cell.setting for cell in cells},
        index={(row.group, row.measure): row for row in summary},
    )


AMOUNTS = ("mean", "deviation", "low", "high")
KEYS = {*SummaryRow.__slots__} - {"study", *AMOUNTS}


CELL_KEYS = {*CellRow.__slots__} - {"setting"}


def _order(row: SummaryRow) -> tuple[str, str, str, str, int, int, str]:
    names = (row.grid, row.workload, row.network, row.protocol)
    return (*names, row.processes, row.messages, row.measure)


def _cell(row: Mapping[str, Any]) -> CellRow:
    return CellRow(
        **{key: row[key] for key in CELL_KEYS},
        setting={key: value for key, value in row.items() if key not in CELL_KEYS},
    )


def _rows(directory: Path, name: str) -> list[dict[str, Any]]:
    """Read a table, a file or a folder of Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = directory / name
    parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not path.exists() or not parts:
        raise ConfigError(
            f"no table {name.removesuffix('.parquet')} in {directory}; the study is not"
            " finished: antecede study run goes on with it"
        )
    try:
        return [row for part in parts for row in pq.read_table(part).to_pylist()]
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _verdict(row: Mapping[str, Any]) -> VerdictRow:
    return VerdictRow(
        run=row["run"],
        statuses={which.value: row[which.value] for which in Property},
        counts={which.value: row[f"{which.value}_count"] for which in Property},
        events=row["events"],
        error=row["error"],
    )


def _failed(directory: Path) -> dict[str, dict[str, str]]:
    paths: Iterable[Path] = sorted((directory / "errors").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def _number(value: float | None) -> float | None:
    """Return a number that a chart can show, or None."""
    return value if value is not None and isfinite(value) else None
