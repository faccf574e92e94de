"""The stage that simulates: cells fan out over Spark tasks, longest first.

Each task gets a few cells, and streams their events to storage from the worker; only a row
per cell comes back. A cell that fails leaves a note with its error and the command that
replays it, and the others go on.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from antecede.pipeline.study.directory import Place
from antecede.pipeline.study.study import Cell
from antecede.pipeline.verify.runs import TASKS_PER_CORE, balanced

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["pack", "simulate_cells"]

RESULT = "cell string, ok boolean, seconds double"


def simulate_cells(
    spark: "SparkSession", place: Place, cells: Sequence[Cell], *, cores: int
) -> int:
    """Simulate the cells that have no trace yet; return how many failed."""
    done = place.simulated()
    missing = [cell for cell in cells if cell.id not in done]
    if not missing:
        return 0
    groups = pack(missing, cores * TASKS_PER_CORE)
    work = _task(groups, str(place.events.absolute()), str(place.errors.absolute()))
    tasks = spark.range(0, len(groups), 1, len(groups))
    rows = tasks.mapInArrow(work, RESULT).collect()
    return sum(not row["ok"] for row in rows)


def pack(cells: Sequence[Cell], tasks: int) -> list[list[Cell]]:
    """Share cells out so that tasks take about equally long, the heaviest task first."""
    ordered = sorted(cells, key=lambda cell: cell.id)
    sizes = [round(1e6 * cell.weight) for cell in ordered]
    return [[ordered[i] for i in group] for group in balanced(sizes, tasks)]


def _task(
    groups: list[list[Cell]], events: str, errors: str
) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    """Return the function that a worker applies to the numbers of its groups."""

    def work(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = [_run_cell(cell, events, errors) for cell in groups[number]]
                yield pa.RecordBatch.from_pylist(rows)

    return work


def _run_cell(cell: Cell, events: str, errors: str) -> dict[str, object]:
    """Simulate one cell in the worker."""
    import shutil

    from antecede.sim.simulate import simulate_to

    start = monotonic()
    final = Path(events) / cell.id
    partial = Path(events) / f".{cell.id}.{uuid.uuid4().hex}"
    try:
        simulate_to(partial, cell.scenario, name=cell.id)
        if not final.exists():  # Else another attempt at this task was faster.
            partial.rename(final)
        ok = True
    except Exception as error:
        note = {
            "error": f"{type(error).__name__}: {error}",
            "seed": str(cell.scenario.seed),
            "command": cell.scenario.command(),
        }
        (Path(errors) / f"{cell.id}.json").write_text(json.dumps(note), encoding="utf-8")
        ok = False
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return {"cell": cell.id, "ok": ok, "seconds": monotonic() - start}
