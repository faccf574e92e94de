"""Read the tables of finished studies.

:func:`read_tables` reads the directories that ``antecede study run`` writes;
:mod:`antecede.pipeline.study.directory` describes their layout. It runs nothing and does
not need Spark. All numbers of the report come from these tables.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from antecede.errors import ConfigError, StorageError
from antecede.pipeline.study.statistics import EXACT_MAX, SKETCH_ERROR
from antecede.verify.oracle import Property

__all__ = [
    "CellRow",
    "Parameters",
    "StudyTables",
    "SummaryRow",
    "Tables",
    "VerdictRow",
    "read_tables",
]

Parameters = Mapping[str, Any]
"""The parameters of a group of cells: the columns of ``cells`` without a field of their
own in :class:`CellRow`."""


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
    parameters: Parameters
    """All other columns."""

    @property
    def too_large(self) -> str:
        """The reason why the cell was not run; empty if it was run."""
        return self.parameters.get("too_large") or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """A row of ``verdicts``: the oracle's verdict on one run."""

    run: str
    statuses: Mapping[str, str | None]
    """By property: held, violated or unknown; None if there is no verdict."""
    counts: Mapping[str, int | None]
    """By property, the number of violations."""
    events: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """A row of ``summary``: one measure of the runs that differ only in their seed."""

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
    def configuration(self) -> tuple[str, str, str, str, int, int]:
        """The grid, workload, network and size: all but the protocol and the measure."""
        names = (self.study, self.grid, self.workload, self.network)
        return (*names, self.processes, self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTables:
    """The tables of one study."""

    name: str
    directory: Path
    cells: tuple[CellRow, ...]
    verdicts: tuple[VerdictRow, ...]
    values: Mapping[str, Mapping[str, float | None]]
    """By cell, the value of each measure."""
    summary: tuple[SummaryRow, ...]
    failed: Mapping[str, Mapping[str, str]]
    """The failed cells, each with its error, seed and command."""
    header: Mapping[str, Any]
    """The content of ``study.json``."""
    parameters: Mapping[str, Parameters] = field(default_factory=dict)
    """By group."""
    index: Mapping[tuple[str, str], SummaryRow] = field(default_factory=dict)
    """The rows of the summary by group and measure."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """The combinations that were not run, each with the reason."""
        skipped = self.header.get("skipped", ())
        return tuple(str(each) for each in skipped) if isinstance(skipped, list) else ()

    @property
    def title(self) -> str:
        """The title, or the name if the study has no title."""
        return str(self.header.get("title") or self.name)

    @property
    def command(self) -> str:
        """The command that runs the study again."""
        profile = self.header.get("profile")
        return f"antecede study run {self.name}" + (
            f" --profile {profile}" if profile else ""
        )

    @property
    def sketched(self) -> str:
        """A sentence about the percentiles of long runs; empty if all are exact."""
        if all((run.get("copies") or 0) <= EXACT_MAX for run in self.values.values()):
            return ""
        return (
            f"Percentiles of more than {EXACT_MAX:,} values of a run are from a sketch,"
            f" with a relative error of at most {SKETCH_ERROR:.1%}."
        )

    @property
    def run_cells(self) -> list[CellRow]:
        """The cells that were not too large to run."""
        return [cell for cell in self.cells if not cell.too_large]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of all studies of a report."""

    studies: tuple[StudyTables, ...]

    def rows(
        self,
        measure: str,
        *,
        protocol: str | None = None,
        where: Callable[[SummaryRow, Parameters], bool] | None = None,
    ) -> list[SummaryRow]:
        """Return the rows of ``summary`` that have a value for a measure."""
        return [
            row
            for study in self.studies
            for row in study.summary
            if row.measure == measure
            and row.mean is not None
            and (protocol is None or row.protocol == protocol)
            and (where is None or where(row, study.parameters[row.group]))
        ]

    def study(self, name: str) -> StudyTables:
        """Return the study of that name; raise KeyError if there is none."""
        for study in self.studies:
            if study.name == name:
                return study
        raise KeyError(name)

    def parameters(self, row: SummaryRow) -> Parameters:
        """Return the parameters of the runs that a row summarizes."""
        return self.study(row.study).parameters[row.group]

    def mean_of(self, row: SummaryRow, measure: str) -> float | None:
        """Return the mean of another measure of the same runs, or None."""
        other = self.study(row.study).index.get((row.group, measure))
        return other.mean if other is not None else None

    def protocols(self) -> list[str]:
        """Return the protocols of all studies in the order of their first cell."""
        return list(
            dict.fromkeys(cell.protocol for study in self.studies for cell in study.cells)
        )


def read_tables(directories: Sequence[Path]) -> Tables:
    """Read the tables of studies.

    Args:
        directories: Each is the directory of a study, or contains directories of studies.

    Raises:
        ConfigError: A directory has no finished study, or a study is given twice.
        StorageError: A file cannot be read.
    """
    paths: list[Path] = []
    for directory in directories:
        if (directory / "cells.parquet").exists():
            paths.append(directory)
            continue
        inside = sorted(path.parent for path in directory.glob("*/cells.parquet"))
        if not inside:
            raise ConfigError(
                f"no study tables in {directory}; create them with: antecede study run NAME"
                f" --out {directory}"
            )
        paths += inside
    studies = tuple(_read_study(path) for path in paths)
    names = [study.name for study in studies]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"the study {name!r} is given twice; give one directory of it"
            )
    return Tables(studies=studies)


def _read_study(directory: Path) -> StudyTables:
    try:
        header = json.loads((directory / "study.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"cannot read {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise StorageError(f"{directory / 'study.json'} is damaged: {error}") from error
    name = str(header.get("name", directory.name))
    cells = tuple(_cell(row) for row in _rows(directory, "cells.parquet"))
    values: dict[str, dict[str, float | None]] = {}
    for row in _rows(directory, "measures"):
        values.setdefault(row["cell"], {})[row["measure"]] = _number(row["value"])
    summary = tuple(
        SummaryRow(
            study=name,
            **{key: row[key] for key in SUMMARY_KEYS},
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
        header=header,
        parameters={cell.group: cell.parameters for cell in cells},
        index={(row.group, row.measure): row for row in summary},
    )


SUMMARY_KEYS = {*SummaryRow.__slots__} - {"study", "mean", "deviation", "low", "high"}
CELL_KEYS = {*CellRow.__slots__} - {"parameters"}


def _order(row: SummaryRow) -> tuple[str, str, str, str, int, int, str]:
    names = (row.grid, row.workload, row.network, row.protocol)
    return (*names, row.processes, row.messages, row.measure)


def _cell(row: Mapping[str, Any]) -> CellRow:
    return CellRow(
        **{key: row[key] for key in CELL_KEYS},
        parameters={key: value for key, value in row.items() if key not in CELL_KEYS},
    )


def _rows(directory: Path, name: str) -> list[dict[str, Any]]:
    """Read a table: a Parquet file or a directory of Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = directory / name
    parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not path.exists() or not parts:
        raise ConfigError(
            f"no table {name.removesuffix('.parquet')} in {directory}: the study is not"
            " finished; complete it with: antecede study run"
        )
    try:
        return [row for part in parts for row in pq.read_table(part).to_pylist()]
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot read {path}: {error}") from error


def _verdict(row: Mapping[str, Any]) -> VerdictRow:
    return VerdictRow(
        run=row["run"],
        statuses={which.value: row[which.column] for which in Property},
        counts={which.value: row[f"{which.column}_count"] for which in Property},
        events=row["events"],
        error=row["error"],
    )


def _failed(directory: Path) -> dict[str, dict[str, str]]:
    paths: Iterable[Path] = sorted((directory / "errors").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def _number(value: float | None) -> float | None:
    """Return the value if it is finite, otherwise None."""
    return value if value is not None and isfinite(value) else None
