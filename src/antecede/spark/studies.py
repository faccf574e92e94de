"""Run and load studies in the caller's session."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.errors import ConfigError
from antecede.pipeline.spark.jobs import described, explained, session_of
from antecede.pipeline.spark.progress import OnProgress
from antecede.pipeline.study.directory import check_format
from antecede.pipeline.study.measure import (
    address,
    read_cells,
    read_events,
    spark_schema,
)
from antecede.pipeline.study.measure_table import measure_table
from antecede.pipeline.study.run import StudyOutcome
from antecede.pipeline.study.run import run_study as run_in_session
from antecede.pipeline.study.study import Study, parse_study
from antecede.pipeline.study.study import load_study as read_study
from antecede.report.write import ReportFiles, write_report
from antecede.spark.simulation import Grid
from antecede.trace.schema import SCHEMA
from antecede.trace.uri import local_path, redact_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "StudyResult",
    "load_study",
    "measure",
    "report",
    "run_study",
]

TABLES = ("verdicts", "copies", "measures", "summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """The tables of a study; from :func:`run_study` or :func:`load_study`."""

    directory: Path
    events: "DataFrame"
    """The events of all finished runs, with the schema of a trace."""
    cells: "DataFrame"
    """One row per run, with its parameters."""
    verdicts: "DataFrame"
    """One row per verified run."""
    copies: "DataFrame"
    """One row per copy of a message, with its times."""
    measures: "DataFrame"
    """One row per run and measure."""
    summary: "DataFrame"
    """One row per group of runs and measure: the mean over the seeds, and its interval."""
    outcome: StudyOutcome | None = None
    """The failed and violated runs, if :func:`run_study` returned this result."""


def run_study(
    study: "str | PathLike[str] | Grid | Study",
    out: "str | PathLike[str]",
    *,
    profile: str | None = None,
    session: "SparkSession | None" = None,
    on_progress: OnProgress | None = None,
) -> StudyResult:
    """Run the missing cells of a study now, verify and measure them, and load its tables.

    Args:
        study: The name of a built-in study, the path of a study file, its keys, or a study.
        out: The directory for the tables, on storage that all workers reach: a path or a
            ``file:`` URI.
        profile: The name of a profile of the study.
        session: The session; None for the active one.
        on_progress: Is called periodically.

    Raises:
        ConfigError: The study is invalid, or the directory belongs to another one.
        StorageError: The directory is not writable.
    """
    spark = session_of(session)
    if isinstance(study, Mapping):
        study = parse_study(study, profile)
    elif not isinstance(study, Study):
        study = read_study(fspath(study), profile)
    directory = _local(out)
    with described(spark, f"antecede: run the study {study.name}"), explained():
        outcome = run_in_session(spark, study, directory, on_progress=on_progress)
    return _load(spark, directory, outcome)


def load_study(
    path: "str | PathLike[str]", *, session: "SparkSession | None" = None
) -> StudyResult:
    """Load the tables of a finished study, lazily.

    Args:
        path: The directory of the study, a path or a ``file:`` URI.
        session: The session; None for the active one.

    Raises:
        ConfigError: The directory has no study, or the study is not finished.
    """
    return _load(session_of(session), _local(path), None)


def _load(
    spark: "SparkSession", directory: Path, outcome: StudyOutcome | None
) -> StudyResult:
    cells = read_cells(spark, directory)
    check_format(directory)
    missing = [name for name in TABLES if not (directory / name).is_dir()]
    if missing:
        raise ConfigError(
            f"{directory} has no table {missing[0]}: run the study to its end first"
        )
    tables = {name: spark.read.parquet(address(directory / name)) for name in TABLES}
    return StudyResult(
        directory=directory,
        events=read_events(spark, directory),
        cells=cells,
        outcome=outcome,
        **tables,
    )


def measure(events: "DataFrame", cells: "DataFrame") -> "DataFrame":
    """Return the measures of simulated runs, lazily: one row per cell and measure.

    The runs of a ``comparable`` are measured by one task, one after the other. The measures
    of probes are null.

    Args:
        events: The events of the runs, with the schema of a trace.
        cells: The runs, from :func:`simulate` or a study.
    """
    missing = [name for name in spark_schema().fieldNames() if name not in events.columns]
    if missing:
        raise ConfigError(
            f"the table of events has no column {missing[0]!r}: measures need all columns"
            f" of a trace: {', '.join(SCHEMA.names)}"
        )
    return measure_table(events, cells)


def report(
    *studies: "StudyResult | str | PathLike[str]", out: "str | PathLike[str]"
) -> ReportFiles:
    """Write the report of finished studies as an HTML page; needs ``antecede[report]``.

    Args:
        *studies: Results, or directories of studies.
        out: The file of the page.

    Raises:
        ConfigError: A directory has no finished study, or a package is missing.
        StorageError: A file cannot be read or written.
    """
    if any(find_spec(name) is None for name in ("jinja2", "vl_convert")):
        raise ConfigError("a report needs more packages: pip install 'antecede[report]'")
    directories = [
        each.directory if isinstance(each, StudyResult) else _local(each)
        for each in studies
    ]
    return write_report(directories, _local(out))


def _local(path: "str | PathLike[str]") -> Path:
    """Return a local path; raise ConfigError for a URI of another file system."""
    found = local_path(path if isinstance(path, Path) else fspath(path))
    if found is None:
        raise ConfigError(
            f"{redact_uri(fspath(path))}: a study must be on a file system that all workers"
            " share: give a path, and copy the directory to the store afterwards"
        )
    return found.absolute()
