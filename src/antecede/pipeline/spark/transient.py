"""Which errors of a task are transient, so that Spark runs the task again.

An error of the operating system, such as a full disk or a lost connection, may not occur
on another attempt or on another machine: a task raises it, and Spark runs the task again.
Any other error occurs on every attempt: a task reports it as its result, and the job
continues. On the last attempt a task reports a transient error, too.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["attempt_number", "attempts_max", "is_transient"]

PERMANENT = (
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
"""Errors of the operating system that another attempt does not avoid."""
ATTEMPTS_SETTING = "spark.task.maxFailures"
ATTEMPTS_DEFAULT = 4
"""Spark's own default for clusters; local Spark does not repeat a task by default."""
LOCAL_MASTER = re.compile(r"local(?:\[[^,\]]*(?:,\s*(\d+)\s*)?\])?")


def is_transient(error: BaseException) -> bool:
    """Return whether an error, or an error that caused it, may not occur again."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError | MemoryError):
            return not isinstance(cause, PERMANENT)
        cause = cause.__cause__
    return False


def attempts_max(spark: "SparkSession") -> int:
    """Return how often Spark runs a task that fails before it fails the job."""
    local = LOCAL_MASTER.fullmatch(spark.conf.get("spark.master", "") or "")
    if local is not None:
        return int(local[1] or 1)
    return int(spark.conf.get(ATTEMPTS_SETTING, None) or ATTEMPTS_DEFAULT)


def attempt_number() -> int:
    """Return the number of this attempt at the running task, from 1."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else context.attemptNumber() + 1
