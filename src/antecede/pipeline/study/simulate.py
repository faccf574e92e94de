"""Simulate the cells of a study as Spark tasks, longest first.

Each task gets a few cells and streams their events from the worker to storage; one row per
cell returns to the driver. A cell that fails leaves a file with its error and the command
that replays it, and the other cells continue. If the error is transient, Spark first runs
the task again, and the task the cells that it lacks.
"""

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.pipeline.spark.transient import attempt_number, attempts_max, is_transient
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.study import Cell
from antecede.pipeline.verify.runs import TASKS_PER_CORE, balanced
from antecede.sim.simulate import simulate_to
from antecede.trace.schema import EVENTS_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["group_cells", "simulate_cells"]

RESULT = "cell string, ok boolean, seconds double"


def simulate_cells(
    spark: "SparkSession", directory: StudyDirectory, cells: Sequence[Cell], *, cores: int
) -> int:
    """Simulate the cells that have no trace yet; return the number of failed cells."""
    done = directory.simulated()
    missing = [cell for cell in cells if cell.id not in done]
    if not missing:
        return 0
    groups = group_cells(missing, cores * TASKS_PER_CORE)
    work = _task(groups, StudyDirectory(directory.path.absolute()), attempts_max(spark))
    tasks = spark.range(0, len(groups), 1, len(groups))
    rows = tasks.mapInArrow(work, RESULT).collect()
    return sum(not row["ok"] for row in rows)


def group_cells(cells: Sequence[Cell], tasks: int) -> list[list[Cell]]:
    """Divide cells into groups of about equal estimated time, the longest first."""
    ordered = sorted(cells, key=lambda cell: cell.id)
    sizes = [round(1e6 * cell.weight) for cell in ordered]
    return [[ordered[i] for i in group] for group in balanced(sizes, tasks)]


def _task(
    groups: list[list[Cell]], directory: StudyDirectory, attempts: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that a worker applies to the indices of its groups."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield _run_group(groups[index], directory, attempts)

    return work


def _run_group(
    cells: list[Cell], directory: StudyDirectory, attempts: int
) -> pa.RecordBatch:
    """Simulate all cells of a group, then raise the first transient error, if any."""
    rows: list[dict[str, object]] = []
    transient: Exception | None = None
    for cell in cells:
        start = monotonic()
        ok = True
        try:
            _run_cell(cell, directory.events)
        except Exception as error:
            if is_transient(error) and attempt_number() < attempts:
                transient = transient or error
                continue
            directory.add_error(cell, error, attempts=attempt_number())
            ok = False
        rows.append({"cell": cell.id, "ok": ok, "seconds": monotonic() - start})
    if transient is not None:
        raise transient
    return pa.RecordBatch.from_pylist(rows)


def _run_cell(cell: Cell, events: Path) -> None:
    """Simulate one cell, unless another attempt at this task has; runs in a worker."""
    final = events / cell.id
    if (final / EVENTS_NAME).exists():
        return
    partial = events / f".{cell.id}.{uuid.uuid4().hex}"
    try:
        simulate_to(partial, cell.scenario, name=cell.id)
        if not (final / EVENTS_NAME).exists():
            partial.rename(final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
