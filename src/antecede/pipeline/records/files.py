"""Verify files of spans or messages on Spark, with the result of one process.

The readers of :mod:`antecede.ingest.formats` run in the workers, so that they find columns,
decide units and report problems as they do in one process. A Parquet file is divided by row
groups, and a plain file of lines by size. The run is verified as a long run of a DataFrame
(:mod:`antecede.pipeline.records.long_records`): neither the driver nor a task holds all
records.

This module needs the extras ``antecede[spark,trace]``.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.errors import AntecedeError, TraceError
from antecede.ingest.diagnostics import Diagnostic, IngestSummary, SourceLocation
from antecede.ingest.formats.records import ReadOptions
from antecede.ingest.formats.registry import Format
from antecede.ingest.formats.source import whole_file
from antecede.pipeline.records.file_source import FileSource
from antecede.pipeline.records.long_records import verify_long_run
from antecede.pipeline.records.records_verdict import RecordsVerdict
from antecede.pipeline.spark.jobs import described, explained
from antecede.pipeline.spark.progress import (
    OnProgress,
    Progress,
    RunningTasks,
    poll_progress,
)
from antecede.pipeline.spark.task_files import task_files
from antecede.pipeline.verify.table_run import TableOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ForeignRun", "verify_files"]

ERROR_OF_WORKER = re.compile(r"antecede\.errors\.\w+: (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRun:
    """Files of spans or messages that are one run."""

    name: str
    files: tuple[Path, ...]
    format: Format
    options: ReadOptions
    records: int
    """The number of records, or an estimate of it."""


def verify_files(
    spark: "SparkSession",
    run: ForeignRun,
    *,
    violations_max: int,
    with_breakdown: bool = False,
    on_progress: OnProgress | None = None,
) -> RecordsVerdict:
    """Return the verdict on files of one run; starts several jobs.

    Raises:
        ConfigError: A column is missing.
        TraceError: A file cannot be read, or has no records.
    """
    for file in run.files:
        run.format.read(whole_file(file), run.options)  # Checks the columns of tables.
    tasks = RunningTasks(spark)

    def progress(seconds: float) -> Progress:
        done, total = tasks.count()
        return Progress(
            stage=run.name, done=done, total=total, unit="tasks", is_step=True,
            seconds=seconds,
        )  # fmt: skip

    paths = [os.path.abspath(file) for file in run.files]  # The workers need these.
    records = FileSource(spark, paths, run.format, run.options)
    options = TableOptions(
        rows=records.kind,
        complete=False,
        violations_max=violations_max,
        with_breakdown=with_breakdown,
    )
    title = f"antecede: verify {run.name}"
    with (
        poll_progress(on_progress, progress),
        described(spark, title),
        explained(),
        task_files(spark),
        _errors_of_workers(),
    ):
        verified = verify_long_run(records, run.name, run.records, options)
    summary = _summary(verified.summary, run)
    return replace(
        verified,
        summary=summary,
        verdict=replace(verified.verdict, reasons=_reasons(verified, summary)),
        records={
            message: replace(record, file=_given_names(run).get(record.file or ""))
            for message, record in verified.records.items()
        },
    )


def _given_names(run: ForeignRun) -> dict[str, str]:
    """Return by the text of its number the path of each file, as the user gave it."""
    return {str(number): str(file) for number, file in enumerate(run.files)}


@contextmanager
def _errors_of_workers() -> Iterator[None]:
    """Raise the error of a reader in a worker as one line, without Spark's stack trace."""
    try:
        yield
    except AntecedeError:
        raise
    except Exception as error:  # Spark has an exception type for each kind of job.
        found = ERROR_OF_WORKER.search(str(error))
        if found is None:
            raise
        raise TraceError(found[1]) from error


def _summary(found: IngestSummary, run: ForeignRun) -> IngestSummary:
    """Return the summary as one process has it; raise TraceError if nothing was read."""
    names = _given_names(run)
    first = str(run.files[0])
    if not found.records:
        raise TraceError(f"{first} has no records")
    missing = _renamed(found.missing, names)
    if not found.processes:
        raise TraceError(f"{first}: no record can be read: {missing[0]}")
    return replace(
        found,
        format_name=run.format.name,
        files=tuple(map(str, run.files)),
        missing=missing,
        notes=_renamed(found.notes, names),
    )


def _renamed(
    found: Sequence[Diagnostic], names: Mapping[str, str]
) -> tuple[Diagnostic, ...]:
    return tuple(
        replace(
            each,
            locations=tuple(
                SourceLocation(names.get(at.file, at.file), at.line, at.process)
                for at in each.locations
            ),
        )
        for each in found
    )


def _reasons(verified: RecordsVerdict, summary: IngestSummary) -> tuple[str, ...]:
    """Return the reasons of the verdict, with the files as the user gave them."""
    texts = zip(verified.summary.unknown_reasons, summary.unknown_reasons, strict=True)
    replaced = dict(texts)
    return tuple(replaced.get(each, each) for each in verified.verdict.reasons)
