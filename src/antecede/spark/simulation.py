"""Simulate the runs of a grid in the caller's session."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import ConfigError
from antecede.pipeline.spark.jobs import described, explained, session_of
from antecede.pipeline.spark.shared_storage import check_shared
from antecede.pipeline.spark.transient import attempt_number, attempts_max, is_transient
from antecede.pipeline.study.cells_table import CELLS_SCHEMA, cell_row
from antecede.pipeline.study.measure import read_events
from antecede.pipeline.study.simulate import group_cells, simulate_to_table
from antecede.pipeline.study.study import Cell, Study, parse_study
from antecede.pipeline.verify.runs import TASKS_PER_CORE, balanced, parallelism
from antecede.sim.simulate import simulate_to
from antecede.trace.reader import Trace, read_trace
from antecede.trace.run_table import list_parts, list_runs
from antecede.trace.schema import SCHEMA
from antecede.trace.store import StorePath, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Grid", "SimulatedRuns", "simulate"]

Grid = Mapping[str, object]
TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
RESULT = pa.schema([("cell", pa.string()), ("error", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRuns:
    """Simulated runs; from :func:`simulate`."""

    events: "DataFrame"
    """The events of all runs, with the schema of a trace. Without ``out``, every use
    simulates again: write the table, or persist it."""
    cells: "DataFrame"
    """One row per run, with its parameters; ``cell`` is the name of the run."""


def simulate(
    grid: "Grid | Study",
    *,
    out: "str | PathLike[str] | None" = None,
    session: "SparkSession | None" = None,
) -> SimulatedRuns:
    """Simulate every run of a grid; the workers need ``antecede[trace]``.

    Without ``out``, the table of events is lazy. With ``out``, the runs are simulated now,
    and the table reads the files.

    Args:
        grid: The keys of a study file, such as ``protocols``, ``processes`` and ``seeds``,
            or a study.
        out: A directory for the events, as a table of runs
            (:mod:`antecede.trace.run_table`). It is a path that all workers reach, a
            ``file:`` URI, or the URI of a store, which the workers write and read with
            pyarrow.
        session: The session; None for the active one.

    Raises:
        ConfigError: A key is invalid, no session is active, ``out`` already has runs, a
            worker does not reach it, or a run failed.
        StorageError: ``out`` cannot be opened or written to.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    spark = session_of(session)
    study = grid if isinstance(grid, Study) else parse_study({"name": "grid", **grid})
    groups = group_cells(study.cells, TASKS_PER_CORE * parallelism(spark))
    rows = pa.Table.from_pylist([cell_row(cell) for cell in study.cells], CELLS_SCHEMA)
    if out is None:
        events = _run_tasks(spark, len(groups), _simulator(groups), SCHEMA)
    else:
        where = open_store(out if isinstance(out, Path) else fspath(out))
        with described(spark, f"antecede: simulate to {where}"), explained():
            _write(spark, groups, where)
        events = _read(spark, where)
    return SimulatedRuns(
        events=events,
        cells=spark.createDataFrame(rows.to_pylist(), from_arrow_schema(CELLS_SCHEMA)),
    )


def _run_tasks(
    spark: "SparkSession", count: int, work: TaskFunction, schema: pa.Schema
) -> "DataFrame":
    """Return the rows of tasks that get the indices 0 to ``count`` - 1, lazily."""
    from pyspark.sql.pandas.types import from_arrow_schema

    indices = spark.range(0, count, 1, max(1, count))
    return indices.mapInArrow(work, from_arrow_schema(schema))


def _simulator(groups: list[list[Cell]]) -> TaskFunction:
    """Return the function of a task: it gets indices of groups, and yields events."""

    def simulate_cells(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                for cell in groups[index]:
                    yield from _simulate(cell)

    return simulate_cells


def _simulate(cell: Cell) -> Iterator[pa.RecordBatch]:
    with tempfile.TemporaryDirectory(prefix="antecede-") as scratch:
        directory = Path(scratch) / "run"
        simulate_to(directory, cell.scenario, name=cell.id)
        yield from _batches(read_trace(directory))


def _batches(trace: Trace) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a trace with exactly the types of the schema."""
    for batch in trace.batches():
        columns = [batch.column(field.name).cast(field.type) for field in SCHEMA]
        yield pa.record_batch(columns, schema=SCHEMA)


def _write(spark: "SparkSession", groups: list[list[Cell]], out: StorePath) -> None:
    """Simulate all cells to a table of runs; if one fails, remove the table."""
    if list_parts(out / "events"):
        raise ConfigError(f"{out} already has runs: choose another directory")
    if out.local is not None:
        out = open_store(out.local.absolute())  # Workers have another working directory.
        out.make_dir()
        check_shared(spark, Path(out.path), tasks=parallelism(spark))
    work = _writer(groups, out, attempts_max(spark))
    rows = _run_tasks(spark, len(groups), work, RESULT).collect()
    failed = [row for row in rows if row["error"] is not None]
    if failed:
        (out / "events").delete()
        (out / "samples").delete()
        first = failed[0]
        raise ConfigError(
            f"{len(failed)} of {len(rows)} runs failed; {first['cell']}: {first['error']}"
        )


def _writer(groups: list[list[Cell]], out: StorePath, attempts: int) -> TaskFunction:
    """Return the function of a task: it writes groups, and yields the errors."""

    def write_cells(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                attempt = attempt_number()
                done = list_runs(out / "events") if attempt > 1 else ()
                rows = []
                for cell, _, error in simulate_to_table(groups[index], out, done):
                    if error is not None and is_transient(error) and attempt < attempts:
                        raise error
                    text = None if error is None else str(error).partition("\n")[0]
                    rows.append({"cell": cell.id, "error": text})
                yield pa.RecordBatch.from_pylist(rows, schema=RESULT)

    return write_cells


def _read(spark: "SparkSession", out: StorePath) -> "DataFrame":
    """Return the events of a table of runs: read by Spark, or from a store by pyarrow."""
    if out.local is not None:
        return read_events(spark, out.local.absolute())
    runs = list_runs(out / "events")
    names = sorted(runs)
    sizes = [runs[name].runs[name].size for name in names]
    groups = balanced(sizes, TASKS_PER_CORE * parallelism(spark))
    paths = [[runs[names[i]].path / names[i] for i in group] for group in groups]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                for path in paths[index]:
                    yield from _batches(read_trace(path))

    return _run_tasks(spark, len(paths), read, SCHEMA)
