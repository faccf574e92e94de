"""Check that the workers of a cluster reach a directory of the driver."""

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_shared"]


def check_shared(spark: "SparkSession", directory: Path, *, tasks: int) -> None:
    """Raise ConfigError if a worker does not find a file that this process writes.

    A directory on a disk of the driver may exist on the disk of a worker, too. So each
    task looks for a file of a new name. The check of local Spark runs no job.
    """
    if (spark.conf.get("spark.master", "") or "").startswith("local"):
        return
    mark = directory.absolute() / f".shared-{uuid.uuid4().hex}"
    mark.touch()
    try:
        indices = spark.range(0, tasks, 1, tasks)
        rows = indices.mapInArrow(_find(str(mark)), "host string, found boolean").collect()
    finally:
        mark.unlink(missing_ok=True)
    hosts = sorted({row.host for row in rows if not row.found})
    if hosts:
        raise ConfigError(
            f"the workers on {', '.join(hosts)} do not reach {directory}: choose a"
            " directory on a file system that the driver and all workers share"
        )


def _find(mark: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task: it yields its host, and whether the file exists."""

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            row = {"host": socket.gethostname(), "found": os.path.exists(mark)}
            yield pa.RecordBatch.from_pylist([row])

    return find
