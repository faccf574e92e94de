"""Run tasks on the packed rows of a long run, each on the blobs that it reads.

Spark joins the blobs with the list of tasks that read them, sends each task its blobs, and
streams them into a :class:`~antecede.pipeline.verify.packed_trace.BlobStore` there. So
neither the driver nor a task holds all rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from antecede.pipeline.spark.batches import Batches, map_batches
from antecede.pipeline.spark.stage import RESULTS, Stage, collect_results, run_task
from antecede.pipeline.spark.transient import attempts_max
from antecede.pipeline.verify.packed_trace import BlobStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["packed_stage"]

Result = TypeVar("Result")

FILTERED_MAX = 100
"""The most blobs that are selected by a filter, which lets Spark skip the others."""


def packed_stage(blobs: "DataFrame") -> Stage:
    """Return a stage for tasks that read a :class:`PackedTrace`.

    Args:
        blobs: The table with the blobs of the run; only ``id`` and ``data`` are used.
    """
    from pyspark.sql import functions as F

    session = blobs.sparkSession

    def stage(function: Callable[[Any], Result], tasks: Sequence[Any]) -> list[Result]:
        if not tasks:
            return []
        pairs = [
            (blob, index)
            for index, task in enumerate(tasks)
            for blob in task.trace.blobs_in(task.row_ranges())
        ]
        ids = sorted({blob for blob, _ in pairs})
        columns = {"id": [blob for blob, _ in pairs], "task": [task for _, task in pairs]}
        readers = session.createDataFrame(pa.table(columns))
        chosen = blobs.select("id", "data")
        if len(ids) <= FILTERED_MAX:
            chosen = chosen.where(F.col("id").isin(ids))
        work = _apply(function, list(tasks), attempts_max(session))
        by_task = (
            chosen.join(F.broadcast(readers), "id")
            .repartition(len(tasks), "task")
            .sortWithinPartitions("task")
            .select("task", "id", "data")
        )
        return collect_results(map_batches(by_task, work, RESULTS))

    return stage


def _apply(
    function: Callable[[Any], Result], tasks: list[Any], attempts: int
) -> Callable[[Batches], Batches]:
    """Return the function of a partition: it gets the blobs of some tasks, by task."""

    def run(index: int, store: BlobStore) -> pa.RecordBatch:
        task = tasks[index]
        task = replace(task, trace=task.trace.with_blobs(store))
        result = run_task(index, function, task, attempts)
        return result

    def apply(batches: Batches) -> Batches:
        current: int | None = None
        store = BlobStore()
        for batch in batches:
            for index, blob, data in zip(*batch.columns, strict=True):
                if index.as_py() != current:
                    if current is not None:
                        with store:
                            yield run(current, store)
                    current, store = index.as_py(), BlobStore()
                store.add(blob.as_py(), data.as_py())
        if current is not None:
            with store:
                yield run(current, store)

    return apply
