"""Let tasks on one machine hand data to later tasks in files instead of rows.

A worker of Python exchanges rows with Spark about a hundred times as slowly as it writes
and reads a file. So where driver and workers share a disk, which they do in local mode, a
task writes a large value to a file (:func:`put`), and its row has a reference to it, which
Spark shuffles and keeps in place of the value. A task that gets the row reads the value
(:func:`get`).

The driver makes a directory for the files with :func:`task_files`, and removes it at the
end of the block. It names the directory to the tasks in a local property, which Spark gives
to all tasks of the jobs that the block starts. Tasks of other jobs have no such property:
their rows have the values themselves. So do those of a cluster and of a Connect session.

A driver that is killed leaves its directory. The next block that uses the same local
directory of Spark removes it: the driver holds a lock of the operating system on a file in
its directory, which is released when the process ends, also if it is killed.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import StorageError
from antecede.pipeline.spark.file_lock import lock_file
from antecede.pipeline.spark.master import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["VALUES", "get", "put", "remove_group", "task_files", "uses_files"]

PROPERTY = "antecede.task.files"
"""The local property with the directory."""
MARK = b"antecede file "
"""Begins a reference. Other values are Arrow streams, which begin otherwise."""
PREFIX = "antecede-tasks-"
NEW_PREFIX = "antecede-new-"
"""The prefix of the name of a directory that is not locked yet."""
LOCK_NAME = "lock"
VALUES = "values"
"""The group of values that tasks may read until the end of the block."""


@contextmanager
def task_files(spark: "SparkSession") -> Iterator[None]:
    """Let the tasks of the block's jobs use files, if they share a disk with the driver."""
    try:
        context = spark.sparkContext
    except Exception:  # Connect sessions have no context; the exception type varies.
        yield
        return
    if not is_local(context.master or "") or context.getLocalProperty(PROPERTY):
        yield
        return
    parent = context.getConf().get("spark.local.dir", tempfile.gettempdir())
    # An administrator's choice has priority over the setting, as for Spark's own files.
    parents = os.environ.get("SPARK_LOCAL_DIRS", parent or tempfile.gettempdir())
    parent = parents.split(",")[0]
    _remove_abandoned(parent)
    directory, lock = _make_directory(parent)
    context.setLocalProperty(PROPERTY, directory)
    try:
        yield
    finally:
        context.setLocalProperty(PROPERTY, None)  # type: ignore[arg-type]
        shutil.rmtree(directory, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_abandoned(parent: str) -> None:
    """Remove the directories of drivers that have ended without removing them."""
    for name in os.listdir(parent) if os.path.isdir(parent) else ():
        if not name.startswith(PREFIX):
            continue
        directory = os.path.join(parent, name)
        try:
            lock = os.open(os.path.join(directory, LOCK_NAME), os.O_RDWR)
        except OSError:
            continue  # Another user owns it, or another driver removes it.
        try:
            if lock_file(lock):
                shutil.rmtree(directory, ignore_errors=True)
        except OSError:
            pass  # Its driver is running.
        finally:
            os.close(lock)


def remove_group(spark: "SparkSession", group: str) -> None:
    """Remove the values of a group, which all tasks have read.

    The disk, and the memory that caches it, are free for the values of later tasks.
    """
    try:
        directory = spark.sparkContext.getLocalProperty(PROPERTY)
    except Exception:  # Connect sessions have no context; the exception type varies.
        return
    if directory is None:
        return
    for name in os.listdir(directory):
        if name.startswith(f"{group}-"):
            os.unlink(os.path.join(directory, name))


def _make_directory(parent: str) -> tuple[str, int | None]:
    """Return a new directory, and its open lock file if the system has locks."""
    try:
        os.makedirs(parent, exist_ok=True)  # Spark makes it at its first shuffle.
        new = tempfile.mkdtemp(prefix=NEW_PREFIX, dir=parent)
        lock: int | None = os.open(
            os.path.join(new, LOCK_NAME), os.O_RDWR | os.O_CREAT, 0o600
        )
        if lock is not None and not lock_file(lock):
            os.close(lock)
            lock = None
        directory = os.path.join(parent, PREFIX + os.path.basename(new)[len(NEW_PREFIX) :])
        os.rename(new, directory)
        return directory, lock
    except OSError as error:
        raise StorageError(
            f"cannot make a directory for temporary files in {parent}: {error.strerror}:"
            " set spark.local.dir to a directory that can be written"
        ) from None


def put(value: pa.Buffer, group: str = VALUES) -> bytes:
    """Return the value, or a reference to a file that has it; for a task.

    Args:
        value: The value.
        group: The group of the value, all of which can be removed before the others.

    Raises:
        StorageError: The file cannot be written.
    """
    directory = _directory()
    if directory is None:
        data: bytes = value.to_pybytes()
        return data
    try:
        path, start = _append(directory, group, value)
    except OSError as error:
        raise StorageError(f"cannot write rows to disk: {error}") from None
    return MARK + json.dumps([path, start, value.size]).encode()


def get(found: pa.Buffer) -> pa.Buffer:
    """Return the value that :func:`put` returned, or refers to.

    Raises:
        StorageError: The file cannot be read.
    """
    if found.size < len(MARK) or found.slice(0, len(MARK)).to_pybytes() != MARK:
        return found
    path, start, size = json.loads(found.slice(len(MARK)).to_pybytes())
    try:
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read(size)
    except OSError as error:
        raise StorageError(f"cannot read rows from disk: {error}") from None
    if len(data) < size:
        raise StorageError(f"cannot read rows from disk: {path} is too short")
    return pa.py_buffer(data)


def uses_files() -> bool:
    """Return whether :func:`put` writes a file in this task."""
    return _directory() is not None


def _directory() -> str | None:
    """Return the directory of the job that this task belongs to, if it has one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(PROPERTY)


def _append(directory: str, group: str, value: pa.Buffer) -> tuple[str, int]:
    """Append a value to the file of this worker; return its path, and where it starts.

    A worker runs one task at a time. It does not keep the file open, which would keep the
    file on the disk after the driver has removed it.
    """
    path = os.path.join(directory, f"{group}-{os.getpid()}")
    with open(path, "ab") as file:
        start = file.tell()
        file.write(value)
    return path, start
