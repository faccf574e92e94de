"""Let tasks of Spark map the rows of a table as Arrow data.

**64-bit offsets.** If ``spark.sql.execution.arrow.useLargeVarTypes`` is set in the session,
Spark expects columns with 64-bit offsets. The functions here convert the results of a task.

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
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "Batches",
    "freeze_objects",
    "large_types",
    "map_batches",
    "map_groups",
    "spark_schema",
]

LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"

Batches = Iterator[pa.RecordBatch]
GroupTask = Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]

_frozen: set[str] = set()
"""The functions whose objects this worker has frozen."""


def map_batches(
    table: "DataFrame", work: Callable[[Batches], Batches], schema: pa.Schema
) -> "DataFrame":
    """Return the rows of ``schema`` that a function yields for each partition."""
    types = _exchanged_types(table.sparkSession, schema)

    def run(batches: Batches) -> Batches:
        for batch in work(batches):
            yield batch if types is None else batch.cast(types)
        freeze_objects(work.__qualname__)

    return table.mapInArrow(run, spark_schema(schema))


def map_groups(
    table: "DataFrame", key: str, work: GroupTask, schema: pa.Schema
) -> "DataFrame":
    """Return the rows of ``schema`` that a function returns for each value of a column."""
    types = _exchanged_types(table.sparkSession, schema)

    def run(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        found = work(key, rows)
        freeze_objects(work.__qualname__)
        return found if types is None else found.cast(types)

    return table.groupBy(key).applyInArrow(run, spark_schema(schema))


def _exchanged_types(session: "SparkSession", schema: pa.Schema) -> pa.Schema | None:
    """Return the types that Spark expects, or None if they are those of the schema."""
    is_large = session.conf.get(LARGE_TYPES, "false") == "true"
    return large_types(schema) if is_large else None


def large_types(schema: pa.Schema) -> pa.Schema:
    """Return the schema with 64-bit offsets."""

    def enlarge(found: pa.DataType) -> pa.DataType:
        if pa.types.is_list(found):
            return pa.list_(enlarge(found.value_type))
        if pa.types.is_struct(found):
            return pa.struct([pa.field(each.name, enlarge(each.type)) for each in found])
        larger = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
        return larger.get(found, found)

    return pa.schema([pa.field(each.name, enlarge(each.type)) for each in schema])


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
