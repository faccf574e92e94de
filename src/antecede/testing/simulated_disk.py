"""A simulated disk: SQLite files that survive a kill, and a loss of power only if synced.

The disk follows SQLite's own model of what a disk may do. Until a file is synced, each
write is in the cache of the machine. A loss of power keeps any subset of these writes,
whatever their order, and may keep some sectors of a write and lose others; it may also undo
the creation or the deletion of a file. It never changes bytes that were not being written.

This module needs the extra ``antecede[testing]``.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final
from weakref import WeakValueDictionary

import apsw

from antecede.net.database import DatabaseError

__all__ = [
    "ApswDatabase",
    "FileHandle",
    "SimulatedDisk",
    "SimulatedFile",
    "SimulatedVfs",
    "find_disk",
]

VFS_NAME: Final = "antecede-simulated-disk"
SECTOR_BYTES: Final = 512
UNLOCKED: Final = 0
SHARED: Final = 1
RESERVED: Final = 2
EXCLUSIVE: Final = 4

Write = tuple[int, bytes | None]
"""The offset of a write and its data, or the new size of a truncated file and None."""


class SimulatedFile:
    """A file: its contents in the cache, and what a loss of power would leave."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = bytearray()
        self.unsynced: list[Write] = []
        self.holders: dict[FileHandle, int] = {}
        """The handles that hold a lock, with its level."""

    def write(self, change: Write) -> None:
        """Change the content in the cache."""
        _apply(self.content, change)
        self.unsynced.append(change)

    def sync(self) -> None:
        """Make the content durable."""
        for change in self.unsynced:
            _apply(self.synced, change)
        self.unsynced.clear()

    def lose_power(self, random: Random) -> None:
        """Keep the synced content, and a random part of what was not synced."""
        for offset, data in self.unsynced:
            draw = random.random()
            if draw < 0.4:
                continue
            if data is None or draw < 0.8:
                _apply(self.synced, (offset, data))
                continue
            for start in range(0, len(data), SECTOR_BYTES):  # The write is torn.
                if random.random() < 0.5:
                    sector = data[start : start + SECTOR_BYTES]
                    _apply(self.synced, (offset + start, sector))
        self.content = bytearray(self.synced)
        self.unsynced.clear()


def _apply(content: bytearray, change: Write) -> None:
    offset, data = change
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class SimulatedDisk:
    """The disk of one machine.

    Args:
        random: decides what a loss of power leaves.
    """

    def __init__(self, random: Random) -> None:
        self.is_full = False
        """Whether a file can no longer grow."""
        self.files: dict[str, SimulatedFile] = {}
        self._durable: dict[str, SimulatedFile] = {}  # What a loss of power leaves.
        self._handles: list[FileHandle] = []
        self._random = random
        self._operations_left: int | None = None
        self._key = f"{id(self):x}"
        _disks[self._key] = self

    def open_database(self, path: Path) -> "ApswDatabase":
        """Open or create an SQLite file."""
        return ApswDatabase(f"/{self._key}/{str(path).lstrip('/')}")

    def open_file(self, name: str, *, create: bool) -> "FileHandle":
        """Open a file; raise CantOpenError if it does not exist."""
        file = self.files.get(name)
        if file is None:
            if not create:
                raise apsw.CantOpenError(f"no file {name}")
            file = self.files[name] = SimulatedFile()
        handle = FileHandle(self, name, file)
        self._handles.append(handle)
        return handle

    def delete(self, name: str, *, sync: bool) -> None:
        """Delete a file; without ``sync``, a loss of power may undo it."""
        self.count_operation()
        self.files.pop(name, None)
        if sync:
            self._durable.pop(name, None)

    def file_synced(self, name: str, file: SimulatedFile) -> None:
        """Make the directory durable if the file is new, as SQLite does on Unix."""
        if self._durable.get(name) is not file:
            self._durable = dict(self.files)

    # Faults.

    def stop_after(self, operations: int) -> None:
        """Let only so many more operations change the disk, and fail all later ones."""
        self._operations_left = operations

    def count_operation(self) -> None:
        """Raise IOError if :meth:`stop_after` allows no further operation."""
        if self._operations_left is not None:
            self._operations_left -= 1
            if self._operations_left < 0:
                self._abandon_handles()
                raise apsw.IOError("the process was killed")

    def release(self) -> None:
        """Close the files of a process that was killed, without writing anything."""
        self._abandon_handles()
        self._operations_left = None

    def _abandon_handles(self) -> None:
        for handle in self._handles:
            handle.abandon()
        self._handles.clear()

    def erase(self) -> None:
        """Delete all files for good."""
        self._abandon_handles()
        self.files.clear()
        self._durable.clear()

    def backup(self) -> dict[str, bytes]:
        """Return the content of all files, as a process that is killed now leaves it."""
        return {name: bytes(file.content) for name, file in self.files.items()}

    def restore(self, backup: Mapping[str, bytes]) -> None:
        """Replace all files by those of a backup; kill the process first."""
        self.erase()
        for name, content in backup.items():
            file = self.files[name] = SimulatedFile()
            file.write((0, content))
            file.sync()
        self._durable = dict(self.files)

    def lose_power(self) -> None:
        """Lose what was not synced, or a part of it."""
        random = self._random
        left = dict(self._durable)
        for name, file in self.files.items():
            if name not in left and random.random() < 0.5:
                left[name] = file
        for name in list(left):
            if name not in self.files and random.random() < 0.5:
                del left[name]
        for file in left.values():
            file.lose_power(random)
        self.files = left
        self._durable = dict(left)


_disks: WeakValueDictionary[str, SimulatedDisk] = WeakValueDictionary()


def find_disk(path: str) -> tuple[SimulatedDisk, str]:
    """Return the disk and the name of a file, from a path that SQLite passes."""
    key, _, name = path.removeprefix("/").partition("/")
    return _disks[key], name


class FileHandle:
    """An open file, with the methods that SQLite calls."""

    def __init__(self, disk: SimulatedDisk | None, name: str, file: SimulatedFile) -> None:
        self._disk = disk
        self._name = name
        self._file = file
        self._is_abandoned = False

    def abandon(self) -> None:
        """Release all locks, and change nothing any more: the process was killed."""
        self._is_abandoned = True
        self._file.holders.pop(self, None)

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._file.content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        disk = self._disk
        if disk is not None:
            if self._is_abandoned:
                return
            disk.count_operation()
            if disk.is_full and offset + len(data) > len(self._file.content):
                raise apsw.FullError("the disk is full")
        self._file.write((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        if self._disk is not None:
            if self._is_abandoned:
                return
            self._disk.count_operation()
        self._file.write((size, None))

    def xSync(self, flags: int) -> None:
        if self._disk is None or self._is_abandoned:
            return
        self._disk.count_operation()
        self._file.sync()
        self._disk.file_synced(self._name, self._file)

    def xFileSize(self) -> int:
        return len(self._file.content)

    def xLock(self, level: int) -> None:
        if self._is_abandoned:
            return
        others = [held for other, held in self._file.holders.items() if other is not self]
        highest = max(others, default=UNLOCKED)
        if (
            highest >= EXCLUSIVE
            or (level >= EXCLUSIVE and highest >= SHARED)
            or (level >= RESERVED and highest >= RESERVED)
        ):
            raise apsw.BusyError("another process has locked the file")
        self._file.holders[self] = level

    def xUnlock(self, level: int) -> None:
        if level == UNLOCKED:
            self._file.holders.pop(self, None)
        elif self in self._file.holders:
            self._file.holders[self] = level

    def xCheckReservedLock(self) -> bool:
        return any(level >= RESERVED for level in self._file.holders.values())

    def xFileControl(self, operation: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None:
        self._file.holders.pop(self, None)


class SimulatedVfs(apsw.VFS):
    """Leads SQLite to the simulated disks."""

    def __init__(self) -> None:
        super().__init__(VFS_NAME, "")

    def xOpen(  # type: ignore[override]
        self, name: "apsw.URIFilename | str | None", flags: list[int]
    ) -> FileHandle:
        flags[1] = flags[0]
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:  # A temporary file.
            return FileHandle(None, "", SimulatedFile())
        disk, file_name = find_disk(path)
        return disk.open_file(file_name, create=bool(flags[0] & apsw.SQLITE_OPEN_CREATE))

    def xDelete(self, name: str, sync: bool) -> None:
        disk, file_name = find_disk(name)
        disk.delete(file_name, sync=sync)

    def xAccess(self, name: str, flags: int) -> bool:
        disk, file_name = find_disk(name)
        return file_name in disk.files

    def xFullPathname(self, name: str) -> str:
        return name

    def xRandomness(self, count: int) -> bytes:
        return bytes(count)

    def xSleep(self, microseconds: int) -> int:
        return microseconds


_vfs = SimulatedVfs()


class ApswDatabase:
    """A connection to an SQLite file on a simulated disk."""

    def __init__(self, path: str) -> None:
        try:
            self._connection = apsw.Connection(path, vfs=VFS_NAME)
        except apsw.Error as error:
            raise _translated(error) from None

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return list(self._connection.execute(statement, tuple(values)))
        except apsw.Error as error:
            raise _translated(error) from None

    def execute_all(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        for statement, values in statements:
            self.execute(statement, values)

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):  # What was committed is in the file.
            self._connection.close()


def _translated(error: apsw.Error) -> DatabaseError:
    return DatabaseError(str(error), is_locked=isinstance(error, apsw.BusyError))
