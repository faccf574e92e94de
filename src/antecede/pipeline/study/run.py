"""Run a study: simulate, verify, measure; continue where an earlier run stopped."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import StorageError
from antecede.pipeline.spark.progress import (
    OnProgress,
    Progress,
    RunningTasks,
    poll_progress,
)
from antecede.pipeline.spark.shared_storage import check_shared
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.lock import lock_directory
from antecede.pipeline.study.measure import TABLES, write_measures
from antecede.pipeline.study.results import (
    Parts,
    missing_results,
    parts_to_measure,
    read_results,
    write_missing_results,
)
from antecede.pipeline.study.simulate import simulate_cells
from antecede.pipeline.study.study import Study
from antecede.pipeline.verify.runs import VERDICTS, parallelism
from antecede.sim.overlays import promises_order
from antecede.verify.oracle import Property

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress", "StudyOutcome", "run_study"]


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
    """Cells that failed, or could not be verified, each with its error, its seed and the
    command to replay it."""
    violated: tuple[str, ...]
    """Cells with a violated property, of protocols that guarantee causal order."""


def run_study(
    spark: "SparkSession | Callable[[], SparkSession]",
    study: Study,
    directory: Path,
    *,
    on_progress: OnProgress | None = None,
) -> StudyOutcome:
    """Run the missing cells of a study, and write its tables.

    The cells that failed in an earlier run, and those in which a protocol violated a
    property that it guarantees, run again. They are not measured.

    Args:
        spark: A session, see :func:`antecede.pipeline.spark.session.open_session`; or a
            function that returns one, which is called only if there is work to do.
        study: The study to run.
        directory: The directory for its tables, on storage that all workers reach.
        on_progress: Is called periodically.

    Raises:
        ConfigError: The directory belongs to another study or version of antecede, or
            another process is running the study, or a worker does not reach the directory.
        StorageError: The directory is not writable.
    """
    run = _StudyRun(spark, study, StudyDirectory(directory), on_progress)
    with lock_directory(directory):
        stale = run.directory.open(study)
        before = run.directory.simulated()
        run.simulate()
        simulated = len(run.directory.simulated() - before)
        run.verify()
        run.measure()
        return StudyOutcome(
            directory=directory,
            cells=len(study.cells),
            simulated=simulated,
            stale=stale,
            failed=run.directory.failed(),
            violated=tuple(sorted(run.directory.violated() & run.ordered)),
        )


@dataclass(slots=True)
class _StudyRun:
    """The stages of a study's run."""

    session: "SparkSession | Callable[[], SparkSession]"
    study: Study
    directory: StudyDirectory
    on_progress: OnProgress | None
    _spark: "SparkSession | None" = field(default=None, init=False)

    @property
    def spark(self) -> "SparkSession":
        """The session, whose workers reach the directory."""
        if self._spark is None:
            made = self.session() if callable(self.session) else self.session
            check_shared(made, self.directory.path, tasks=parallelism(made))
            self._spark = made
        return self._spark

    @property
    def cell_ids(self) -> set[str]:
        return {cell.id for cell in self.study.cells}

    @property
    def ordered(self) -> set[str]:
        """The cells of protocols that guarantee causal order."""
        return {
            cell.id
            for cell in self.study.cells
            if promises_order(cell.scenario.protocol, cell.scenario.overlay)
        }

    def simulate(self) -> None:
        wanted = self.cell_ids
        before = wanted & self.directory.simulated()
        if before == wanted:
            return
        spark = self.spark

        def progress(seconds: float) -> Progress:
            parts = self.directory.parts()
            simulated = wanted & parts.keys()
            return Progress(
                stage="simulate",
                done=len(simulated | self.directory.failed().keys()),
                total=len(wanted),
                done_before=len(before),
                events=sum(parts[cell].runs[cell].rows for cell in simulated - before),
                seconds=seconds,
            )

        with poll_progress(self.on_progress, progress):
            cores = parallelism(spark)
            simulate_cells(spark, self.directory, self.study.cells, cores=cores)
        self.directory.remove_duplicates()
        lost = wanted - self.directory.simulated() - self.directory.failed().keys()
        if lost:
            raise StorageError(
                f"{len(lost)} cells were simulated, but their traces are not in"
                f" {self.directory.events}: the driver and the workers must share it"
            )

    def verify(self) -> None:
        """Add the verdicts of the cells that have none.

        The tasks that simulated the cells have verified them; those of an interrupted or
        changed study are verified now.
        """
        unverified = self.cell_ids & self.directory.simulated() - self.directory.verified()
        if not unverified:
            return
        protocols = {cell.id: cell.scenario.protocol for cell in self.study.cells}
        parts = parts_to_measure(self.directory, protocols)
        missing = missing_results(self.directory, parts)
        if missing:
            self._verify(missing)
        results = read_results(self.directory, parts)
        is_new = pc.is_in(results.column("cell"), pa.array(sorted(unverified)))
        self._add_verdicts(results.filter(is_new))

    def _verify(self, missing: Parts) -> None:
        """Verify and measure the runs of some parts."""
        spark = self.spark
        running = RunningTasks(spark)
        cells = sum(len(runs) for _, runs in missing)
        rows = sum(part.runs[run].rows for part, runs in missing for run in runs)

        def progress(seconds: float) -> Progress:
            share = running.share()
            return Progress(
                stage="verify",
                done=int(share * cells),
                total=cells,
                events=int(share * rows),
                seconds=seconds,
            )

        with poll_progress(self.on_progress, progress):
            write_missing_results(spark, self.directory, missing)

    def _add_verdicts(self, results: pa.Table) -> None:
        """Add the verdicts of results, and set aside cells that must not be measured.

        First the traces move, so that an interruption leaves no cell that has a verdict
        and is measured although it failed.
        """
        cells = {cell.id: cell for cell in self.study.cells}
        ordered = self.ordered
        invalid: list[str] = []
        failed: set[str] = set()
        wanted = ("cell", "run", "error", "measure_error", *(p.column for p in Property))
        for row in results.select(wanted).to_pylist():
            cell = row["cell"]
            # The name in a damaged trace may be that of another run.
            if row["error"] is None and row["run"] != cell:
                row["error"] = f"the trace is of the run {row['run']!r}"
            for stage, error in (("verified", "error"), ("measured", "measure_error")):
                if row[error] is not None and cell not in failed:
                    failed.add(cell)
                    self.directory.add_error(cells[cell], f"not {stage}: {row[error]}")
            is_violated = "violated" in (row[which.column] for which in Property)
            if cell in failed or (cell in ordered and is_violated):
                invalid.append(cell)
        if invalid:
            self.directory.set_aside(invalid)
        is_failed = pc.is_in(results.column("cell"), pa.array(sorted(failed), pa.string()))
        verdicts = results.filter(pc.invert(is_failed)).select(VERDICTS.names)
        self.directory.add_verdicts(verdicts.cast(VERDICTS))

    def measure(self) -> None:
        inputs = self.directory.measure_inputs()
        written = all(any((self.directory.path / t).glob("*.parquet")) for t in TABLES)
        if written and self.directory.measured_inputs() == inputs:
            return

        def progress(seconds: float) -> Progress:
            return Progress(
                stage="measure",
                done=0,
                total=len(self.cell_ids),
                is_step=True,
                seconds=seconds,
            )

        self.directory.set_measured(None)
        with poll_progress(self.on_progress, progress):
            write_measures(lambda: self.spark, self.directory.path)
        self.directory.set_measured(inputs)
