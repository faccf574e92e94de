"""The lock of a study's directory, which lets one process at a time run the study.

The lock is an advisory lock of the operating system on the file ``study.lock``. The system
releases it when the process ends, however it ends, so a process that was killed leaves no
lock. The file names its holder for the error message of other processes.

Systems and file systems without such locks do not lock.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from antecede.errors import ConfigError, StorageError
from antecede.pipeline.spark.file_lock import lock_file

__all__ = ["LOCK_NAME", "lock_directory"]

LOCK_NAME = "study.lock"


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which is created if it does not exist.

    Raises:
        ConfigError: Another process, or another call in this process, holds the lock.
        StorageError: The directory is not writable.
    """
    path = directory / LOCK_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = _open_locked(path)
        os.ftruncate(file, 0)
        os.pwrite(file, _holder().encode(), 0)
    except OSError as error:
        raise StorageError(
            f"cannot write to {error.filename or path}: {error.strerror}"
        ) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # Before the lock is released.
        os.close(file)


def _open_locked(path: Path) -> int:
    """Open the file and lock it; raise ConfigError if another process has locked it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock_file(file)
            if _is_present(file, path):
                return file
        except BlockingIOError:
            holder = _describe_holder(os.pread(file, 1000, 0))
            os.close(file)
            raise ConfigError(
                f"{path.parent} is in use by {holder}; wait until it ends, or choose"
                " another directory"
            ) from None
        os.close(file)


def _is_present(file: int, path: Path) -> bool:
    """Return whether the path still names the open file; its last holder removes it."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _holder() -> str:
    now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    return json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": now})


def _describe_holder(content: bytes) -> str:
    try:
        found = json.loads(content)
        return f"process {found['process']} on {found['host']} since {found['since']}"
    except (ValueError, KeyError, TypeError):  # The holder is about to write it.
        return "another process"
