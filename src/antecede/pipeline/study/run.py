"""Run a study: simulate, verify, measure; go on where an earlier run stopped."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from antecede.pipeline.spark.progress import Progress, RunningTasks, watched
from antecede.pipeline.study.directory import Place
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
"""How many verdicts an interruption may lose."""

Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOutcome:
    """How a study went."""

    directory: Path
    cells: int
    simulated: int
    """How many cells this run simulated; the others were there."""
    stale: int
    """How many cells of an earlier version of the study were removed."""
    failed: dict[str, dict[str, str]]
    """Cells that failed, each with its error, its seed and the command to replay it."""
    broken: tuple[str, ...]
    """Cells of protocols that promise causal order, in which a property was violated."""


def run_study(
    spark: "SparkSession",
    study: Study,
    directory: Path,
    *,
    report: Report | None = None,
) -> StudyOutcome:
    """Run what is missing of a study, and write its tables.

    Args:
        spark: A session; see :func:`antecede.pipeline.spark.session.open_session`.
        study: What to run.
        directory: Where its tables are kept; on storage that all workers reach.
        report: Is called now and then, for a display of progress.

    Raises:
        ConfigError: The directory belongs to another study, or cannot be written to.
    """
    place = Place(directory)
    stale = place.open(study)
    before = len(place.simulated())
    wanted = {cell.id for cell in study.cells}
    _simulate(spark, place, study, report)
    _verify(spark, place, wanted, report)
    _measure(spark, directory, report)
    promising = {
        cell.id
        for cell in study.cells
        if promises_order(cell.scenario.protocol, cell.scenario.overlay)
    }
    return StudyOutcome(
        directory=directory,
        cells=len(study.cells),
        simulated=len(place.simulated()) - before,
        stale=stale,
        failed=place.failed(),
        broken=tuple(sorted(place.violated() & promising)),
    )


def _simulate(
    spark: "SparkSession", place: Place, study: Study, report: Report | None
) -> None:
    wanted = {cell.id for cell in study.cells}
    before = wanted & place.simulated()
    counted = _EventCount(place)

    def look(seconds: float) -> Progress:
        there = wanted & place.simulated()
        return Progress(
            stage="simulate",
            done=len(there | place.failed().keys()),
            total=len(wanted),
            before=len(before),
            events=counted.total(there - before),
            seconds=seconds,
        )

    with watched(report, look):
        simulate_cells(spark, place, study.cells, cores=parallelism(spark))


def _verify(
    spark: "SparkSession", place: Place, wanted: set[str], report: Report | None
) -> None:
    missing = sorted((wanted & place.simulated()) - place.verified())
    if not missing:
        return
    done, now = 0, 0
    counted = _EventCount(place)
    running = RunningTasks(spark)

    def look(seconds: float) -> Progress:
        cells = done + int(now * running.share())
        return Progress(
            stage="verify",
            done=cells,
            total=len(missing),
            events=counted.total(missing[:cells]),
            seconds=seconds,
        )

    with watched(report, look):
        for start in range(0, len(missing), VERDICTS_PER_JOB):
            some = missing[start : start + VERDICTS_PER_JOB]
            now = len(some)
            verdicts = verify_runs(spark, [place.events / cell for cell in some])
            place.add_verdicts(verdicts.toArrow())
            now = 0
            done += len(some)


def _measure(spark: "SparkSession", directory: Path, report: Report | None) -> None:
    running = RunningTasks(spark)

    def look(seconds: float) -> Progress:
        done, total = running.count()
        return Progress(
            stage="measure",
            done=done,
            total=total,
            unit="tasks of this step",
            is_step=True,
            seconds=seconds,
        )

    with watched(report, look):
        write_measures(spark, directory)


class _EventCount:
    """How many events traces hold; each is opened once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._rows: dict[str, int] = {}

    def total(self, cells: Iterable[str]) -> int:
        """Return how many events these cells have."""
        return sum(map(self._count, cells))

    def _count(self, cell: str) -> int:
        if cell not in self._rows:
            try:
                path = self._place.events / cell / EVENTS_NAME
                self._rows[cell] = pq.read_metadata(path).num_rows
            except (OSError, pa.ArrowException):  # Whoever verifies it will tell.
                self._rows[cell] = 0
        return self._rows[cell]
