"""Tasks that map Arrow data leave few objects to the garbage collector of a worker."""

import gc
import os
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from antecede.pipeline.spark.batches import (
    Batches,
    freeze_objects,
    map_batches,
    map_groups,
)

COUNTS: pa.Schema = pa.schema([("worker", pa.int64()), ("frozen", pa.int64())])


def count_frozen(batches: Batches) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        row = {"worker": os.getpid(), "frozen": gc.get_freeze_count()}
        yield pa.RecordBatch.from_pylist([row], schema=COUNTS)


def test_the_objects_of_a_worker_are_frozen_after_the_first_task_of_a_function(
    spark: SparkSession,
) -> None:
    table = map_batches(spark.range(0, 40, 1, 40), count_frozen, COUNTS)
    workers: dict[int, list[int]] = {}
    for row in table.collect():
        workers.setdefault(row["worker"], []).append(row["frozen"])
    used = [counts for counts in workers.values() if len(counts) > 1]
    assert used
    # The modules of a worker have many more objects.
    assert min(max(counts) for counts in used) > 10_000


def test_the_objects_of_later_tasks_are_not_frozen() -> None:
    try:
        freeze_objects("tests.function")
        before = gc.get_freeze_count()
        later: list[list[int]] = [[] for _ in range(10_000)]
        freeze_objects("tests.function")
        assert gc.get_freeze_count() <= before
        freeze_objects("tests.other_function")
        assert gc.get_freeze_count() > before + len(later) // 2
    finally:
        gc.unfreeze()


def test_groups_are_mapped(spark: SparkSession) -> None:
    def total(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        row = {"worker": key[0].as_py(), "frozen": rows.num_rows}
        return pa.Table.from_pylist([row], schema=COUNTS)

    table = spark.range(10).selectExpr("id", "id % 3 AS third")
    found = map_groups(table, "third", total, COUNTS).collect()
    assert sorted((row["worker"], row["frozen"]) for row in found) == [
        (0, 4),
        (1, 3),
        (2, 3),
    ]
