"""Messages that wait for room in the windows of their targets."""

import asyncio
from collections import OrderedDict
from heapq import heapify, heappop, heapreplace

from antecede.engine.engine import Engine
from antecede.errors import AntecedeError

__all__ = ["BlockedSends"]

Targets = tuple[str, ...]


class _BlockedSend:
    """A message, and the future of the call that waits until it is sent."""

    __slots__ = ("future", "payload")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.future: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class BlockedSends:
    """The messages that a node has not sent yet because a window is full.

    Messages with the same targets form a queue: while the first one has no room, none of
    the others has. So the cost of a datagram depends on the number of queues and of the
    messages that it makes room for, not on the number of messages that wait.
    """

    def __init__(self) -> None:
        # Each queue by ticket: the number of the message among all that had to wait.
        self._queues: dict[Targets, OrderedDict[int, _BlockedSend]] = {}
        self._tickets = 0
        self._error: AntecedeError | None = None

    def __len__(self) -> int:
        """Return how many messages wait."""
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        """Return whether a message waits."""
        return bool(self._queues)

    async def wait(self, targets: Targets, payload: bytes) -> int:
        """Wait until :meth:`send` has sent a message, and return its number.

        A cancelled call leaves nothing behind.
        """
        if self._error is not None:
            raise self._error
        self._tickets += 1
        ticket = self._tickets
        blocked = _BlockedSend(payload)
        self._queues.setdefault(targets, OrderedDict())[ticket] = blocked
        try:
            return await blocked.future
        finally:
            queue = self._queues.get(targets)
            if queue is not None:
                queue.pop(ticket, None)
                if not queue:
                    del self._queues[targets]

    def send(self, engine: Engine, now: float) -> bool:
        """Send the messages that have room, and return whether there were any.

        Of two messages that have room, send the one first that has waited longer.
        """
        is_sent = False
        heads = [(next(iter(queue)), targets) for targets, queue in self._queues.items()]
        heapify(heads)
        while heads:
            _, targets = heads[0]
            queue = self._queues[targets]
            if not engine.has_room(targets):
                heappop(heads)
                continue
            _, blocked = queue.popitem(last=False)
            if not blocked.future.done():  # Else the call was cancelled.
                is_sent = True
                _send(engine, targets, blocked, now)
            if queue:
                heapreplace(heads, (next(iter(queue)), targets))
            else:
                heappop(heads)
                del self._queues[targets]
        return is_sent

    def close(self, error: AntecedeError) -> None:
        """Raise ``error`` in all waiting calls, now and later."""
        self._error = error
        for queue in self._queues.values():
            for blocked in queue.values():
                if not blocked.future.done():
                    blocked.future.set_exception(error)
        self._queues.clear()


def _send(engine: Engine, targets: Targets, blocked: _BlockedSend, now: float) -> None:
    """Send a message, and return its number to the waiting call, or raise in that call."""
    try:
        number = engine.send_fragment(targets, blocked.payload, now)
    except Exception as error:
        blocked.future.set_exception(error)
    else:
        blocked.future.set_result(number)
