"""Let Spark keep a table while a block uses it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["kept_on_disk"]


@contextmanager
def kept_on_disk(table: "DataFrame") -> "Iterator[DataFrame]":
    """Let the executors keep a table on their disks in the block.

    Their memory is left to the tables that the caller keeps there.
    """
    from pyspark import StorageLevel

    kept = table.persist(StorageLevel.DISK_ONLY)
    try:
        yield kept
    finally:
        kept.unpersist()
