"""Run a function over a list of tasks on Spark, and return the results in task order.

The tasks are sent with the function, and the results return pickled; both are small. An
AntecedeError that a task raises is raised again in the driver, as one line without
Spark's stack trace. If the error is transient, Spark first runs the task again.
"""

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from antecede.errors import AntecedeError
from antecede.pipeline.spark.batches import Batches, map_batches
from antecede.pipeline.spark.transient import attempt_number, attempts_max, is_transient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RESULTS", "Stage", "collect_results", "run_locally", "run_task", "spark_stage"]

Task = TypeVar("Task")
Result = TypeVar("Result")

RESULTS = pa.schema([("task", pa.int64()), ("result", pa.binary()), ("error", pa.binary())])
"""One row for each task; the result and the error are pickled."""


class Stage(Protocol):
    """Applies a function to every task; raises the AntecedeError of a task."""

    def __call__(
        self, function: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> list[Result]:
        """Return the results in the order of the tasks, which start in this order."""


def run_locally(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Run the tasks in this process, one after the other."""
    return [function(task) for task in tasks]


def spark_stage(spark: "SparkSession") -> Stage:
    """Return a stage that runs every task as a Spark task."""

    def stage(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if not tasks:
            return []
        indices = spark.range(0, len(tasks), 1, len(tasks))
        work = _apply(function, list(tasks), attempts_max(spark))
        return collect_results(map_batches(indices, work, RESULTS))

    return stage


def collect_results(table: "DataFrame") -> list[Any]:
    """Return the results of a table of :data:`RESULTS`, in the order of the tasks.

    Raise the first error of a task.
    """
    rows = sorted(table.collect(), key=lambda row: int(row.task))
    for row in rows:
        if row.error is not None:
            raise pickle.loads(row.error)
    return [pickle.loads(row.result) for row in rows]


def _apply(
    function: Callable[[Task], Result], tasks: list[Task], attempts: int
) -> Callable[[Batches], Batches]:
    def apply(batches: Batches) -> Batches:
        for batch in batches:
            for i in batch.column("id").to_pylist():
                yield run_task(i, function, tasks[i], attempts)

    return apply


def run_task(
    index: int, function: Callable[[Task], Result], task: Task, attempts: int
) -> pa.RecordBatch:
    """Run a task in a worker; return a row of :data:`RESULTS`.

    Raise a transient error unless Spark has run the task ``attempts`` times.
    """
    row: dict[str, object] = {"task": index, "result": None, "error": None}
    try:
        row["result"] = pickle.dumps(function(task))
    except AntecedeError as error:
        if is_transient(error) and attempt_number() < attempts:
            raise
        row["error"] = pickle.dumps(error)
    return pa.RecordBatch.from_pylist([row], schema=RESULTS)
