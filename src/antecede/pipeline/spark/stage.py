"""Run a function over a list of tasks on Spark, and get the results in their order.

The tasks travel with the function, the results come back pickled; both are small. A refusal
(ConfigError) comes back too, and is raised here in one line, without Spark's account of it.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from antecede.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Stage", "here", "spark_stage"]

Task = TypeVar("Task")
Result = TypeVar("Result")

RESULTS = pa.schema(
    [pa.field("place", pa.int64()), pa.field("result", pa.binary()), ("error", pa.string())]
)


class Stage(Protocol):
    """Applies a function to every task; raises ConfigError if one of them does."""

    def __call__(
        self, function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> list[Result]:
        """Return the results in the order of the tasks, which start in this order."""


def here(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Do it in this process, one task after the other."""
    return [function(task) for task in tasks]


def spark_stage(spark: "SparkSession") -> Stage:
    """Return a stage that makes every task a task of Spark."""

    def stage(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if not tasks:
            return []
        places = spark.range(0, len(tasks), 1, len(tasks))
        schema = "place long, result binary, error string"
        table = places.mapInArrow(_apply(function, list(tasks)), schema)
        rows = sorted(table.collect(), key=lambda row: int(row.place))
        for row in rows:
            if row.error is not None:
                raise ConfigError(row.error)
        return [pickle.loads(row.result) for row in rows]

    return stage


def _apply(
    function: Callable[[Task], Result], tasks: list[Task]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column("id").to_pylist():
                row: dict[str, object] = {"place": place, "result": None, "error": None}
                try:
                    row["result"] = pickle.dumps(function(tasks[place]))
                except ConfigError as error:
                    row["error"] = str(error)
                yield pa.RecordBatch.from_pylist([row], schema=RESULTS)

    return apply
