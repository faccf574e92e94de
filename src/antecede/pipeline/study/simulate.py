"""Simulate the cells of a study as Spark tasks, longest first.

Each task gets a few cells and streams their events from the worker to storage; one row per
cell returns to the driver. A cell that fails leaves a file with its error and the command
that replays it, and the other cells continue.
"""

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.study import Cell
from antecede.pipeline.verify.runs import TASKS_PER_CORE, balanced
from antecede.sim.simulate import simulate_to

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
    work = _task(groups, directory.events.absolute(), directory.errors.absolute())
    tasks = spark.range(0, len(groups), 1, len(groups))
    rows = tasks.mapInArrow(work, RESULT).collect()
    return sum(not row["ok"] for row in rows)


def group_cells(cells: Sequence[Cell], tasks: int) -> list[list[Cell]]:
    """Divide cells into groups of about equal estimated time, the longest first."""
    ordered = sorted(cells, key=lambda cell: cell.id)
    sizes = [round(1e6 * cell.weight) for cell in ordered]
    return [[ordered[i] for i in group] for group in balanced(sizes, tasks)]


def _task(
    groups: list[list[Cell]], events: Path, errors: Path
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that a worker applies to the indices of its groups."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                rows = [_run_cell(cell, events, errors) for cell in groups[index]]
                yield pa.RecordBatch.from_pylist(rows)

    return work


def _run_cell(cell: Cell, events: Path, errors: Path) -> dict[str, object]:
    """Simulate one cell; runs in a worker."""
    start = monotonic()
    final = events / cell.id
    partial = events / f".{cell.id}.{uuid.uuid4().hex}"
    try:
        simulate_to(partial, cell.scenario, name=cell.id)
        if not final.exists():  # Otherwise another attempt at this task was faster.
            partial.rename(final)
        ok = True
    except Exception as error:
        details = {
            "error": f"{type(error).__name__}: {error}",
            "seed": str(cell.scenario.seed),
            "command": cell.scenario.command(),
        }
        (errors / f"{cell.id}.json").write_text(json.dumps(details), encoding="utf-8")
        ok = False
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return {"cell": cell.id, "ok": ok, "seconds": monotonic() - start}
