"""The interface of a journal to SQLite."""

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

__all__ = ["Database", "DatabaseError", "SqliteDatabase"]

LOCK_TIMEOUT_S: Final = 1.0
"""Time to wait for another process that is closing the file."""


class DatabaseError(Exception):
    """SQLite could not execute a statement; the message is SQLite's own."""

    def __init__(self, reason: str, *, is_locked: bool = False) -> None:
        super().__init__(reason)
        self.is_locked = is_locked
        """Another process has the file open."""


class Database(Protocol):
    """A connection to one SQLite file; its methods raise DatabaseError."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement, and return its rows."""

    def execute_all(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """Execute several statements, and ignore their rows."""

    def close(self) -> None:
        """Close the file."""


class SqliteDatabase:
    """A connection of the standard library.

    Args:
        path: the file; created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file; raise DatabaseError if that is impossible."""
        try:
            # One thread at a time uses the connection, but not always the same one.
            self._connection = sqlite3.connect(
                path,
                isolation_level=None,
                timeout=LOCK_TIMEOUT_S,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise _translated(error) from None

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _translated(error) from None

    def execute_all(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        execute = self._connection.execute
        try:
            for statement, values in statements:
                execute(statement, values)
        except sqlite3.Error as error:
            raise _translated(error) from None

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # What was committed is in the file.
            self._connection.close()


def _translated(error: sqlite3.Error) -> DatabaseError:
    code = getattr(error, "sqlite_errorcode", None)
    return DatabaseError(str(error), is_locked=code == sqlite3.SQLITE_BUSY)
