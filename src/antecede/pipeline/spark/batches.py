"""Let tasks of Spark map the rows of a table as Arrow data.

**Garbage collections of a worker.** A worker of PySpark runs a full garbage collection
after each task. It visits every object that the modules of the worker have made: with
NumPy, Arrow and Numba, it takes about 70 ms, more than the work of many tasks. So after the
first task of each function, its objects are frozen: later collections do not visit them. A
frozen object is still freed when nothing refers to it.
"""

import gc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData
    from pyspark.sql.types import StructType

__all__ = ["Batches", "freeze_objects", "map_batches", "map_groups", "spark_schema"]

Batches = Iterator[pa.RecordBatch]
GroupTask = Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]

_frozen: set[str] = set()
"""The functions whose objects this worker has frozen."""


def map_batches(
    table: "DataFrame", work: Callable[[Batches], Batches], schema: pa.Schema
) -> "DataFrame":
    """Return the rows of ``schema`` that a function yields for each partition."""

    def run(batches: Batches) -> Batches:
        yield from work(batches)
        freeze_objects(work.__qualname__)

    return table.mapInArrow(run, spark_schema(schema))


def map_groups(groups: "GroupedData", work: GroupTask, schema: pa.Schema) -> "DataFrame":
    """Return the rows of ``schema`` that a function returns for each group."""

    def run(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        found = work(key, rows)
        freeze_objects(work.__qualname__)
        return found

    return groups.applyInArrow(run, spark_schema(schema))


def freeze_objects(function: str) -> None:
    """Exempt the objects of this process from garbage collections, once for a function.

    The objects that exist after the first task of a function are mostly those of modules
    and compiled kernels, and stay as long as the worker.
    """
    if function not in _frozen:
        _frozen.add(function)
        gc.collect()
        gc.freeze()


def spark_schema(schema: pa.Schema) -> "StructType":
    """Return the schema for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
