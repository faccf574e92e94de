"""Errors of files that cannot be opened as a journal."""

from pathlib import Path

from antecede.errors import StorageError
from antecede.net.database import DatabaseError

__all__ = ["journal_error", "open_error"]


def journal_error(path: Path, error: DatabaseError) -> StorageError:
    """Return the error for a file that SQLite cannot open as a journal."""
    if error.is_locked:
        return open_error(
            path, "a running node uses it", "stop that node, or give another file"
        )
    return open_error(path, str(error))


def open_error(path: Path, reason: str, fix: str = "give another file") -> StorageError:
    """Return the error for a file that is not the node's journal."""
    return StorageError(f"cannot open the journal {path}: {reason}; {fix}")
