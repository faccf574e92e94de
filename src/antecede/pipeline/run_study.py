"""Run a study: simulate, verify, measure; go on where an earlier run stopped."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from antecede.core.registry import protocol
from antecede.pipeline.measure import write_measures
from antecede.pipeline.place import Place
from antecede.pipeline.simulate_cells import simulate_cells
from antecede.pipeline.study import Study
from antecede.pipeline.verify_runs import verify_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress", "StudyOutcome", "run_study"]

VERDICTS_PER_JOB = 256
"""How many verdicts an interruption may lose."""
POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a stage has come."""

    stage: str
    done: int
    total: int
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None before anything is done."""
        if not self.done:
            return None
        return self.seconds * (self.total - self.done) / self.done


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
    report: Callable[[Progress], None] | None = None,
) -> StudyOutcome:
    """Run what is missing of a study, and write its tables.

    Args:
        spark: A session; see :func:`antecede.pipeline.session.open_session`.
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
    with _watched("simulate", len(wanted), lambda: len(place.simulated()), report):
        simulate_cells(spark, place, study.cells, cores=_cores(spark))
    _verify(spark, place, wanted, report)
    with _watched("measure", 1, lambda: 0, report):
        write_measures(spark, directory)
    promising = {
        cell.id
        for cell in study.cells
        if protocol(cell.scenario.protocol).capabilities.causal
    }
    return StudyOutcome(
        directory=directory,
        cells=len(study.cells),
        simulated=len(place.simulated()) - before,
        stale=stale,
        failed=place.failed(),
        broken=tuple(sorted(place.violated() & promising)),
    )


def _verify(
    spark: "SparkSession",
    place: Place,
    wanted: set[str],
    report: Callable[[Progress], None] | None,
) -> None:
    missing = sorted((wanted & place.simulated()) - place.verified())
    done = 0
    with _watched("verify", len(missing), lambda: done, report):
        for start in range(0, len(missing), VERDICTS_PER_JOB):
            some = missing[start : start + VERDICTS_PER_JOB]
            verdicts = verify_runs(spark, [place.events / cell for cell in some])
            place.add_verdicts(verdicts.toArrow())
            done += len(some)


def _cores(spark: "SparkSession") -> int:
    """Return how many tasks run at once; a Connect server does not tell."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:
        return 2 * (os.cpu_count() or 1)


@contextmanager
def _watched(
    stage: str,
    total: int,
    count: Callable[[], int],
    report: Callable[[Progress], None] | None,
) -> Iterator[None]:
    """Report the progress of a stage from a thread, until it is over."""
    if report is None or total == 0:
        yield
        return
    over = threading.Event()
    start = monotonic()

    def watch() -> None:
        while not over.wait(POLL_S):
            seconds = monotonic() - start
            report(Progress(stage=stage, done=count(), total=total, seconds=seconds))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
