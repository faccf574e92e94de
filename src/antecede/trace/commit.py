"""Commit the files of a trace, so that a reader sees a whole trace or none.

On a local disk, the events have a name that ends in ``.partial`` until they are renamed.
An object store cannot rename, and other file systems rename in several steps. There, a
*manifest* commits a trace: ``run.json`` is the last file that is written, and its key
``parts`` lists the files of ``events.parquet``. The order of the writes is:

1. ``trace.partial``, the mark of an unfinished trace
2. the parts of ``events.parquet``, whose names no other writer uses
3. ``run.json``
4. removal of the mark, except in an object store: a reader of a finished trace ignores it,
   and removing the last object of a directory makes some stores fail

A reader refuses a directory with the mark and without a valid ``run.json``, and otherwise
reads only the listed parts. A process that is killed leaves a directory that no reader
accepts; the next writer removes the parts in it. Only one process at a time can write to a
directory; if another one has finished before, :meth:`ManifestCommit.finish` raises
StorageError.

This module needs the extra ``antecede[trace]``.
"""

import contextlib
import secrets
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from antecede.errors import ConfigError, StorageError, TraceError
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME
from antecede.trace.store import StorePath

__all__ = [
    "Commit",
    "LocalCommit",
    "ManifestCommit",
    "Part",
    "begin_commit",
    "manifest_parts",
]

PARTIAL_SUFFIX = ".partial"
"""The suffix of a file that is not finished."""
MARK_NAME = f"trace{PARTIAL_SUFFIX}"
"""The mark of an unfinished trace that a manifest will commit."""
PARTS_KEY = "parts"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of events that a manifest lists."""

    name: str
    rows: int


class Commit(Protocol):
    """The files of a trace that is being written."""

    def open_events(self) -> pa.NativeFile:
        """Open the file for the events."""

    def finish(self, info: RunInfo, rows: int) -> None:
        """Make the closed file of events and ``run.json`` visible to readers."""

    def abandon(self) -> None:
        """Remove the unfinished files."""


def begin_commit(directory: StorePath) -> Commit:
    """Create the directory, and return the way in which its file system commits.

    Raises:
        ConfigError: The directory already holds a trace.
        StorageError: The directory cannot be written to.
    """
    if directory.local is not None:
        return LocalCommit(directory)
    return ManifestCommit(directory)


def manifest_parts(info: RunInfo) -> list[Part] | None:
    """Return the parts that a manifest lists, or None if ``run.json`` is not a manifest.

    Raise TraceError if the list is invalid, or a name is not that of a file in a folder.
    """
    found = info.more.get(PARTS_KEY)
    if found is None:
        return None
    parts: list[Part] = []
    for each in found if isinstance(found, list) else [None]:
        name = each.get("name") if isinstance(each, dict) else None
        rows = each.get("rows") if isinstance(each, dict) else None
        if not isinstance(name, str) or type(rows) is not int:
            raise TraceError(f"the value of {PARTS_KEY!r} is not a list of names and rows")
        if not name or "/" in name or "\\" in name or name.startswith("."):
            raise TraceError(f"{name!r} in {PARTS_KEY!r} is not the name of a file")
        parts.append(Part(name, rows))
    return parts


class LocalCommit:
    """Commits by renaming the file of events, which a local disk does in one step."""

    def __init__(self, directory: StorePath) -> None:
        """Create the directory; raise ConfigError if it holds a trace."""
        assert directory.local is not None
        self._directory = directory.local
        self._partial = self._directory / f"{EVENTS_NAME}{PARTIAL_SUFFIX}"
        if (self._directory / EVENTS_NAME).exists():
            raise ConfigError(
                f"{directory} already holds a trace; choose another directory"
            )
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write to {directory}: {error.strerror}") from error

    def open_events(self) -> pa.NativeFile:
        try:
            return pa.OSFile(str(self._partial), "wb")
        except OSError as error:
            reason = error.strerror
            raise StorageError(f"cannot write to {self._directory}: {reason}") from error

    def finish(self, info: RunInfo, rows: int) -> None:
        more = {key: value for key, value in info.more.items() if key != PARTS_KEY}
        text = replace(info, more=more).to_json()
        (self._directory / INFO_NAME).write_text(text, encoding="utf-8")
        self._partial.rename(self._directory / EVENTS_NAME)

    def abandon(self) -> None:
        self._partial.unlink(missing_ok=True)


class ManifestCommit:
    """Commits by writing a manifest after all other files."""

    def __init__(self, directory: StorePath) -> None:
        """Write the mark of an unfinished trace; raise ConfigError if there is a trace."""
        self._directory = directory
        self._mark = directory / MARK_NAME
        self._info = directory / INFO_NAME
        self._events = directory / EVENTS_NAME
        self._part = f"part-{secrets.token_hex(8)}.parquet"
        is_unfinished = self._mark.exists()
        if self._is_committed() or (self._events.exists() and not is_unfinished):
            raise ConfigError(
                f"{directory} already holds a trace; choose another directory"
            )
        directory.make_dir()
        self._mark.write_bytes(b"{}\n")
        if is_unfinished:
            self._events.delete()  # The parts of a process that was killed.
        self._events.make_dir()

    def open_events(self) -> pa.NativeFile:
        return (self._events / self._part).open_output()

    def finish(self, info: RunInfo, rows: int) -> None:
        if self._is_committed():
            raise StorageError(
                f"{self._directory}: another process has written a trace there"
            )
        parts = [{"name": self._part, "rows": rows}]
        manifest = replace(info, more={**info.more, PARTS_KEY: parts})
        self._info.write_bytes(manifest.to_json().encode())
        with contextlib.suppress(StorageError):  # The trace is finished without it.
            self._remove_mark()

    def abandon(self) -> None:
        # The cause of the failure is raised, and not that the store fails again.
        with contextlib.suppress(StorageError, TraceError):
            if not self._is_committed():
                self._events.delete()
                self._remove_mark()

    def _remove_mark(self) -> None:
        if not self._directory.is_in_object_store:
            self._mark.delete()

    def _is_committed(self) -> bool:
        """Return whether there is a valid ``run.json``; a kill can leave a part of it."""
        if not self._info.exists():
            return False
        try:
            RunInfo.from_json(self._info.read_bytes().decode())
        except (TraceError, UnicodeDecodeError):
            return not self._mark.exists()
        return True
