"""Compare the copies of the runs of a study with those of their reference runs.

The copies are in the table ``copies``, one file for each part of the table of runs; a task
reads the rows of one run at a time, and those of its references. Few copies are compared
by the driver, which takes less time than a job of Spark.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.pipeline.spark.batches import map_batches
from antecede.pipeline.study.comparison import (
    Latencies,
    compare_latencies,
    order_references,
)
from antecede.pipeline.verify.runs import TASKS_PER_CORE, balanced, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["COMPARISON_SCHEMA", "RunRows", "compare_runs"]

DRIVER_ROWS_MAX = 1_000_000
"""Copies that the driver compares by itself, in about a second."""
COLUMNS = ["source", "number", "target", "latency", "broadcast"]
COMPARISON_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("cell", pa.string(), nullable=False),
        *(
            pa.field(f"non_causal_latency_{key}", pa.float64())
            for key in ("mean", "p50", "p99", "max")
        ),
        pa.field("non_causal_unmatched", pa.float64()),
    ]
)


class RunRows(NamedTuple):
    """The place of the copies of a run."""

    cell: str
    protocol: str
    file: str
    """The name of the file in the table ``copies``."""
    first: int
    rows: int


def compare_runs(
    spark: "Callable[[], SparkSession]",
    copies: Path,
    comparables: Mapping[str, Sequence[RunRows]],
) -> pa.Table:
    """Return the non-causal latencies of the runs that have a reference run.

    Args:
        spark: Returns the session; it is called only if there are many copies.
        copies: The directory of the table ``copies``.
        comparables: The runs, by ``comparable``.
    """
    groups = [
        list(runs)
        for runs in comparables.values()
        if order_references({run.cell: run.protocol for run in runs})
    ]
    sizes = [sum(run.rows for run in runs) for runs in groups]
    if sum(sizes) <= DRIVER_ROWS_MAX:
        batches = list(_compare(groups, copies))
        return pa.Table.from_batches(batches, COMPARISON_SCHEMA)
    session = spark()
    tasks = [
        [groups[i] for i in group]
        for group in balanced(sizes, TASKS_PER_CORE * parallelism(session))
    ]
    indices = session.range(0, len(tasks), 1, len(tasks))
    work = _task(tasks, copies.absolute())
    found: pa.Table = map_batches(indices, work, COMPARISON_SCHEMA).toArrow()
    return found.cast(COMPARISON_SCHEMA)


def _task(
    tasks: list[list[list[RunRows]]], copies: Path
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task: it gets indices of lists of comparables."""

    def compare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                yield from _compare(tasks[index], copies)

    return compare


def _compare(groups: list[list[RunRows]], copies: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the runs of some comparables."""
    files: dict[str, _CopiesReader] = {}

    def load(run: RunRows) -> Latencies:
        if run.file not in files:
            files[run.file] = _CopiesReader(copies / run.file)
        return Latencies.of_table(files[run.file].read(run.first, run.rows))

    for runs in groups:
        by_name = {run.cell: run for run in runs}
        names = order_references({run.cell: run.protocol for run in runs})
        references = {name: load(by_name[name]) for name in names}
        rows = []
        for run in runs:
            latencies = references.get(run.cell)
            if latencies is None:
                latencies = load(run)
            found = compare_latencies(latencies, list(references.values()))
            rows.append({"cell": run.cell, **found})
        yield pa.RecordBatch.from_pylist(rows, schema=COMPARISON_SCHEMA)


class _CopiesReader:
    """Reads ranges of rows of one file of copies; keeps the last row groups."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path)
        footer = self._file.metadata
        sizes = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
        self._ends = np.cumsum(sizes)
        self._kept: tuple[tuple[int, ...], pa.Table] | None = None

    def read(self, first: int, rows: int) -> pa.Table:
        """Return consecutive rows."""
        start = int(np.searchsorted(self._ends, first, side="right"))
        end = int(np.searchsorted(self._ends, first + rows, side="left"))
        groups = tuple(range(start, end + 1)) if rows else ()
        if self._kept is None or self._kept[0] != groups:
            self._kept = (groups, self._file.read_row_groups(list(groups), columns=COLUMNS))
        before = int(self._ends[start - 1]) if start else 0
        return self._kept[1].slice(first - before, rows)
