"""Commits of a journal, which precede the datagrams that depend on them."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial

from antecede.errors import AntecedeError, StorageError
from antecede.net.host import Worker
from antecede.net.journal import Journal

__all__ = ["Commits"]

Future = asyncio.Future[None]


class Commits:
    """Writes what a journal has recorded, one commit after the other.

    If the journal waits for the disk, a worker writes it, so that the event loop never
    waits. All records of one turn of the event loop, and all records since the start of the
    commit that is under way, share one commit.
    """

    def __init__(self, journal: Journal, worker: Worker) -> None:
        self._journal = journal
        self._worker = worker
        self.is_busy = False
        """Whether a commit is under way."""
        self._current: list[Future] = []  # Wait for the commit under way.
        self._next: list[Future] = []  # Wait for the commit after that.
        self._closed: AntecedeError | None = None

    async def wait(self) -> None:
        """Wait until everything recorded so far is in the file."""
        if self._closed is not None:
            raise self._closed
        if self._journal.is_dirty:
            waiting = self._next
        elif self.is_busy:
            waiting = self._current
        else:
            return
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        await future

    def receipt(self) -> Awaitable[None]:
        """Return an awaitable that waits until what is recorded now is in the file."""
        return _Receipt(self.wait)

    def start(self, on_done: Callable[[StorageError | None], None]) -> None:
        """Write what is recorded, and then call ``on_done``; no commit may be under way.

        ``on_done`` is called before this method returns if there is nothing to wait for.
        """
        statements = self._journal.take_statements()
        self._current, self._next = self._next, self._current
        if statements and self._journal.sync:
            self.is_busy = True
            write = partial(self._journal.write, statements)
            self._worker.run(write, partial(self._end, on_done))
            return
        error: StorageError | None = None
        try:
            if statements:
                self._journal.write(statements)
        except StorageError as failure:
            error = failure
        self._end(on_done, error)

    def _end(
        self, on_done: Callable[[StorageError | None], None], error: BaseException | None
    ) -> None:
        self.is_busy = False
        if error is not None and not isinstance(error, StorageError):
            error = StorageError(f"cannot write the journal: {error!r}")
        _complete(self._current, error)
        on_done(error)

    def close(self, error: AntecedeError, *, write: bool) -> None:
        """Wait for the commit under way; then write the rest if ``write`` is true.

        Raise StorageError if that fails. Raise ``error`` in calls that wait later.
        """
        self._worker.close()
        failure = error
        try:
            if write:
                self._journal.write(self._journal.take_statements())
        except StorageError as not_written:
            failure = not_written
            raise
        finally:
            is_written = write and failure is error
            for waiting in (self._current, self._next):
                _complete(waiting, None if is_written else failure)
            self._closed = failure


class _Receipt:
    """An awaitable that costs nothing unless it is awaited."""

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[object, None, None]:
        return self._wait().__await__()


def _complete(futures: list[Future], error: AntecedeError | None) -> None:
    """Wake the tasks that wait for these futures, or raise ``error`` in them."""
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    futures.clear()
