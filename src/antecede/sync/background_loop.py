"""The event loop on which the nodes of :mod:`antecede.sync` run, in a thread of its own.

A process has one such loop. It starts with the first node, in a daemon thread, so that the
interpreter can exit while nodes are open.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from antecede.errors import LocalError

__all__ = ["BackgroundLoop", "background_loop"]

Result = TypeVar("Result")

_start_lock = threading.Lock()
_running: list["BackgroundLoop"] = []
"""The loop of this process; empty before the first node."""


class BackgroundLoop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(
            target=self._loop.run_forever, name="antecede-sync", daemon=True
        )
        self._process: Final = os.getpid()
        self._thread.start()

    def call(
        self,
        start: Callable[[], Coroutine[Any, Any, Result]],
        on_abandoned: Callable[[Result], None] | None = None,
    ) -> Result:
        """Run a coroutine on the loop, wait for it, and return its result.

        If an exception such as KeyboardInterrupt ends the wait, cancel the coroutine. If it
        had already returned, pass its result to ``on_abandoned``, on the loop.
        """
        if threading.get_ident() == self._thread.ident:
            raise LocalError(
                "cannot wait for a node in the thread that runs it: a callback of a node"
                " must not call methods of antecede.sync.Node; use another thread"
            )
        # A signal that interrupts Thread.is_alive would mark the thread as dead.
        if os.getpid() != self._process:
            raise LocalError(
                "the node belongs to the parent process: open a node after the fork, not"
                " before it"
            )
        return _Call(self._loop, start, on_abandoned).run()


class _Call(Generic[Result]):
    """One coroutine on the loop, and the thread that waits for it.

    Only the thread of the loop changes the task, so that a result is either returned to the
    waiting thread or abandoned, whenever an exception interrupts the wait.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        start: Callable[[], Coroutine[Any, Any, Result]],
        on_abandoned: Callable[[Result], None] | None,
    ) -> None:
        self._loop = loop
        self._start = start
        self._on_abandoned = on_abandoned
        self._task: asyncio.Task[Result] | None = None
        self._is_abandoned = False
        # Held until the coroutine has ended. A threading.Event has a lock inside, which a
        # signal can leave held at the wrong moment: then the loop would wait forever.
        self._running = threading.Lock()
        self._running.acquire()

    def run(self) -> Result:
        """Run the coroutine, and return its result or raise its exception."""
        try:
            self._loop.call_soon_threadsafe(self._begin)
            self._running.acquire()
            assert self._task is not None
            return self._task.result()
        except BaseException:
            self._loop.call_soon_threadsafe(self._abandon)
            raise

    def _begin(self) -> None:
        if not self._is_abandoned:
            self._task = self._loop.create_task(self._start())
            self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Result]) -> None:
        """Wake the waiting thread; if it has gone, drop the exception."""
        if not task.cancelled():
            task.exception()
        self._running.release()

    def _abandon(self) -> None:
        """Cancel the coroutine, or pass its result to ``on_abandoned``."""
        self._is_abandoned = True
        task = self._task
        if task is None:
            return
        if not task.done():
            task.cancel()
        elif not task.cancelled() and task.exception() is None and self._on_abandoned:
            self._on_abandoned(task.result())


def background_loop() -> BackgroundLoop:
    """Return the loop of this process; start it if there is none."""
    with _start_lock:
        if not _running:
            _running.append(BackgroundLoop())
        return _running[0]


def _forget_loop() -> None:
    """Forget the loop of the parent process: a fork does not copy its thread."""
    global _start_lock
    _start_lock = threading.Lock()  # Another thread of the parent may hold the old lock.
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loop)
