"""Simulate the cells of a study as Spark tasks, longest first.

Each task gets a few cells and streams their events from the worker to storage, many cells
to a file; one row per cell returns to the driver. A task finishes a file at the end, and
when the file is large or took long, so that a killed task loses little. Then it verifies
and measures the runs of the file (:mod:`antecede.pipeline.study.results`). A cell that
fails leaves a file with its error and the command that replays it, and the other cells
continue. If the error is transient, Spark first runs the task again, and the task the
cells that it lacks.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from antecede.pipeline.spark.batches import freeze_objects
from antecede.pipeline.spark.transient import attempt_number, attempts_max, is_transient
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.results import is_relaying, write_results
from antecede.pipeline.study.study import Cell
from antecede.pipeline.verify.runs import TASKS_PER_CORE, balanced
from antecede.sim.simulate import record_scenario
from antecede.trace.run_table import read_part
from antecede.trace.run_table_writer import RunTableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecede.trace.store import StorePath

__all__ = ["FinishedCell", "group_cells", "simulate_cells", "simulate_to_table"]

PART_ROWS_MAX = 8_000_000
"""Rows after which a file is finished: some 100 MB."""
PART_RUNS_MAX = 256
"""Runs after which a file is finished; its footer grows with them."""
PART_SECONDS_MAX = 30.0
"""Seconds after which a file is finished, so that a killed task loses little work."""

OnPart = Callable[["StorePath", Sequence[Cell]], None]

RESULT = "cell string, ok boolean, seconds double"
RESULT_SCHEMA = pa.schema(
    [("cell", pa.string()), ("ok", pa.bool_()), ("seconds", pa.float64())]
)


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
        freeze_objects("simulate_cells")

    return work


def _run_group(
    cells: list[Cell], directory: StudyDirectory, attempts: int
) -> pa.RecordBatch:
    """Simulate all cells of a group, then raise the first transient error, if any."""
    rows: list[dict[str, object]] = []
    transient: Exception | None = None
    done = directory.simulated() if attempt_number() > 1 else ()

    def on_part(part: "StorePath", runs: Sequence[Cell]) -> None:
        relays = {cell.id: is_relaying(cell.scenario.protocol) for cell in runs}
        try:
            write_results(directory, read_part(part), relays, attempts)
        except Exception as error:
            # The driver has the results written later, and reports a permanent error.
            if is_transient(error) and attempt_number() < attempts:
                raise

    for finished in simulate_to_table(cells, directory.path, done, on_part=on_part):
        error = finished.error
        if error is not None:
            if is_transient(error) and attempt_number() < attempts:
                transient = transient or error
                continue
            directory.add_error(finished.cell, error, attempts=attempt_number())
        ok = error is None
        rows.append({"cell": finished.cell.id, "ok": ok, "seconds": finished.seconds})
    if transient is not None:
        raise transient
    return pa.RecordBatch.from_pylist(rows, schema=RESULT_SCHEMA)


class FinishedCell(NamedTuple):
    """A cell whose events are in the table, or that failed."""

    cell: Cell
    seconds: float
    error: Exception | None = None


def simulate_to_table(
    cells: Sequence[Cell],
    directory: "Path | StorePath",
    done: Collection[str] = (),
    *,
    on_part: "OnPart | None" = None,
) -> Iterator[FinishedCell]:
    """Simulate cells, and write them to a table of runs.

    Args:
        cells: The cells.
        directory: The directory of the table.
        done: Cells to skip, which another attempt at the task has written.
        on_part: Is called with each finished file, and its cells.
    """
    with RunTableWriter(directory) as table:
        pending: list[FinishedCell] = []
        since = monotonic()
        for cell in cells:
            start = monotonic()
            if cell.id in done:
                yield FinishedCell(cell, 0.0)
                continue
            try:
                record_scenario(
                    partial(table.open_run, cell.id), cell.scenario, name=cell.id
                )
            except Exception as error:
                yield FinishedCell(cell, monotonic() - start, error)
            else:
                pending.append(FinishedCell(cell, monotonic() - start))
            is_full = table.rows >= PART_ROWS_MAX or table.runs >= PART_RUNS_MAX
            if is_full or monotonic() - since >= PART_SECONDS_MAX:
                yield from _commit(table, pending, on_part)
                pending, since = [], monotonic()
        yield from _commit(table, pending, on_part)


def _commit(
    table: RunTableWriter, pending: list[FinishedCell], on_part: "OnPart | None"
) -> list[FinishedCell]:
    """Finish the file of some cells; return them, with the error if that fails."""
    try:
        part = table.commit()
    except Exception as error:
        return [each._replace(error=error) for each in pending]
    if part is not None and on_part is not None:
        on_part(part, [each.cell for each in pending])
    return pending
