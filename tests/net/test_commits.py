"""Commits of a journal wait for the disk, and the event loop does not."""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from antecede.net import Node
from antecede.net.database import DatabaseError, SqliteDatabase
from antecede.net.host import SystemHost
from tests.net.harness import run, stays_pending, wait_until


class SlowDatabase(SqliteDatabase):
    """A database that can be stopped, as a disk that does not answer stops it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.may_write = threading.Event()
        self.may_write.set()
        self.is_writing = False

    def execute_all(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        self.is_writing = True
        if not self.may_write.wait(timeout=10):
            raise DatabaseError("the event loop waits for the disk")
        super().execute_all(statements)
        self.is_writing = False


class SlowHost(SystemHost):
    """A machine with a slow disk."""

    def __init__(self) -> None:
        self.databases: list[SlowDatabase] = []

    def open_database(self, path: Path) -> SlowDatabase:
        self.databases.append(SlowDatabase(path))
        return self.databases[-1]


def test_the_event_loop_runs_while_a_slow_disk_commits(tmp_path: Path) -> None:
    async def main() -> None:
        host = SlowHost()
        asyncio.get_running_loop().host = host  # type: ignore[attr-defined]
        async with Node("ann", journal=tmp_path / "ann.journal") as node:
            (database,) = host.databases
            for data in (b"1", b"2"):
                await node.send("ann", data)
            message = await node.receive()
            database.may_write.clear()
            commit = asyncio.ensure_future(message.commit())
            await wait_until(lambda: database.is_writing)
            # The commit waits for the disk, and everything else goes on.
            assert (await node.receive()).data == b"2"
            sending = asyncio.ensure_future(node.send("ann", b"3"))
            assert await stays_pending(sending)
            assert not commit.done()
            database.may_write.set()
            await commit
            await sending
            assert (await node.receive()).data == b"3"

    run(main)
