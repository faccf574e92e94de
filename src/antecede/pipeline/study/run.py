"""Run a study: simulate, verify, measure; continue where an earlier run stopped."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.pipeline.spark.progress import (
    OnProgress,
    Progress,
    RunningTasks,
    poll_progress,
)
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.measure import write_measures
from antecede.pipeline.study.simulate import simulate_cells
from antecede.pipeline.study.study import Study
from antecede.pipeline.verify.runs import parallelism, verify_runs
from antecede.sim.overlays import promises_order
from antecede.trace.schema import EVENTS_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress", "StudyOutcome", "run_study"]

VERDICTS_PER_JOB = 256
"""The most verdicts that an interruption can lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOutcome:
    """The result of running a study."""

    directory: Path
    cells: int
    simulated: int
    """The number of cells that this run simulated; the others existed before."""
    stale: int
    """The number of removed cells, which an earlier version of the study had."""
    failed: dict[str, dict[str, str]]
    """Cells that failed, each with its error, its seed and the command to replay it."""
    violated: tuple[str, ...]
    """Cells with a violated property, of protocols that guarantee causal order."""


def run_study(
    spark: "SparkSession",
    study: Study,
    directory: Path,
    *,
    on_progress: OnProgress | None = None,
) -> StudyOutcome:
    """Run the missing cells of a study, and write its tables.

    Args:
        spark: A session; see :func:`antecede.pipeline.spark.session.open_session`.
        study: The study to run.
        directory: The directory for its tables, on storage that all workers reach.
        on_progress: Is called periodically.

    Raises:
        ConfigError: The directory belongs to another study.
        StorageError: The directory is not writable.
    """
    run = _StudyRun(spark, study, StudyDirectory(directory), on_progress)
    stale = run.directory.open(study)
    before = len(run.directory.simulated())
    run.simulate()
    run.verify()
    run.measure()
    ordered = {
        cell.id
        for cell in study.cells
        if promises_order(cell.scenario.protocol, cell.scenario.overlay)
    }
    return StudyOutcome(
        directory=directory,
        cells=len(study.cells),
        simulated=len(run.directory.simulated()) - before,
        stale=stale,
        failed=run.directory.failed(),
        violated=tuple(sorted(run.directory.violated() & ordered)),
    )


@dataclass(frozen=True, slots=True)
class _StudyRun:
    """The stages of a study's run."""

    spark: "SparkSession"
    study: Study
    directory: StudyDirectory
    on_progress: OnProgress | None

    @property
    def cell_ids(self) -> set[str]:
        return {cell.id for cell in self.study.cells}

    def simulate(self) -> None:
        wanted = self.cell_ids
        before = wanted & self.directory.simulated()
        event_count = _EventCount(self.directory)

        def progress(seconds: float) -> Progress:
            simulated = wanted & self.directory.simulated()
            return Progress(
                stage="simulate",
                done=len(simulated | self.directory.failed().keys()),
                total=len(wanted),
                done_before=len(before),
                events=event_count.total(simulated - before),
                seconds=seconds,
            )

        with poll_progress(self.on_progress, progress):
            cores = parallelism(self.spark)
            simulate_cells(self.spark, self.directory, self.study.cells, cores=cores)

    def verify(self) -> None:
        simulated = self.cell_ids & self.directory.simulated()
        missing = sorted(simulated - self.directory.verified())
        if not missing:
            return
        done, job_cells = 0, 0
        event_count = _EventCount(self.directory)
        running = RunningTasks(self.spark)

        def progress(seconds: float) -> Progress:
            cells = done + int(job_cells * running.share())
            return Progress(
                stage="verify",
                done=cells,
                total=len(missing),
                events=event_count.total(missing[:cells]),
                seconds=seconds,
            )

        with poll_progress(self.on_progress, progress):
            for start in range(0, len(missing), VERDICTS_PER_JOB):
                cells = missing[start : start + VERDICTS_PER_JOB]
                job_cells = len(cells)
                paths = [self.directory.events / cell for cell in cells]
                self.directory.add_verdicts(verify_runs(self.spark, paths).toArrow())
                job_cells = 0
                done += len(cells)

    def measure(self) -> None:
        running = RunningTasks(self.spark)

        def progress(seconds: float) -> Progress:
            done, total = running.count()
            return Progress(
                stage="measure",
                done=done,
                total=total,
                unit="tasks of this step",
                is_step=True,
                seconds=seconds,
            )

        with poll_progress(self.on_progress, progress):
            write_measures(self.spark, self.directory.path)


class _EventCount:
    """Counts the events of traces; opens each trace once."""

    def __init__(self, directory: StudyDirectory) -> None:
        self._directory = directory
        self._rows: dict[str, int] = {}

    def total(self, cells: Iterable[str]) -> int:
        return sum(map(self._count, cells))

    def _count(self, cell: str) -> int:
        if cell not in self._rows:
            try:
                path = self._directory.events / cell / EVENTS_NAME
                self._rows[cell] = pq.read_metadata(path).num_rows
            except (OSError, pa.ArrowException):  # Verification reports the error.
                self._rows[cell] = 0
        return self._rows[cell]
