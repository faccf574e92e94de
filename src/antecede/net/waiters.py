"""The tasks that wait for a node, as futures, grouped by the event that wakes them.

Those that wait for a message are in :mod:`antecede.net.inbox`.
"""

import asyncio

from antecede.errors import AntecedeError

__all__ = ["Waiters"]

Future = asyncio.Future[None]


class Waiters:
    """Blocked calls of one node: each ``wait_...`` returns after the matching ``wake_...``.

    A cancelled wait removes its future, so a caller that gives up leaves nothing behind.
    """

    def __init__(self) -> None:
        self.flushers: list[Future] = []
        """Wait until every copy is acked."""
        self.meeters: list[Future] = []
        """Wait for a datagram, which may complete a handshake."""
        self.sleepers: dict[Future, None] = {}
        """Wait for a point in time."""
        self._error: AntecedeError | None = None

    # Waiting.

    async def wait_for_acks(self) -> None:
        """Wait until every copy is acked."""
        flusher = self._new_future()
        self.flushers.append(flusher)
        try:
            await flusher
        finally:
            if flusher in self.flushers:
                self.flushers.remove(flusher)

    async def wait_for_handshake(self) -> None:
        """Wait until a handshake with any peer may be completed."""
        meeter = self._new_future()
        self.meeters.append(meeter)
        await meeter

    async def sleep(self, seconds: float) -> None:
        """Sleep; raise the error passed to :meth:`close` if the node closes earlier."""
        sleeper = self._new_future()
        self.sleepers[sleeper] = None
        timer = sleeper.get_loop().call_later(seconds, _wake, sleeper)
        try:
            await sleeper
        finally:
            timer.cancel()
            self.sleepers.pop(sleeper, None)

    def _new_future(self) -> Future:
        if self._error is not None:
            raise self._error
        return asyncio.get_running_loop().create_future()

    # Waking.

    def wake_meeters(self) -> None:
        """Wake every task that waits for a handshake, after datagrams have arrived."""
        for meeter in self.meeters:
            _wake(meeter)
        self.meeters.clear()

    def wake_flushers(self) -> None:
        """Wake every task that waits for acks."""
        for flusher in self.flushers:
            _wake(flusher)
        self.flushers.clear()

    def close(self, error: AntecedeError) -> None:
        """Raise ``error`` in all waiting tasks, now and later."""
        self._error = error
        self.interrupt(error)

    def interrupt(self, error: AntecedeError) -> None:
        """Raise ``error`` in all waiting tasks."""
        for future in (*self.flushers, *self.meeters, *self.sleepers):
            if not future.done():
                future.set_exception(error)


def _wake(future: Future) -> None:
    if not future.done():
        future.set_result(None)
