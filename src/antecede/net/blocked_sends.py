"""Messages that wait for room in the windows of their targets."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from antecede.engine.engine import Engine
from antecede.errors import AntecedeError, LocalError

__all__ = ["BlockedSends", "Targets"]

Sent = tuple[int, tuple[str, ...]]
"""The number of a message, and the names of its targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The targets of a message, which is perhaps sent later."""

    names: tuple[str, ...] = ()
    """The names of the targets. A broadcast goes to those that are still peers; without
    names, to all peers."""
    is_broadcast: bool = False

    def find(self, engine: Engine) -> tuple[str, ...]:
        """Return the targets of a message that is sent now."""
        if not self.is_broadcast:
            return self.names
        peers = engine.peers()
        if not self.names:
            return tuple(peers)
        remaining = set(peers)
        return tuple(name for name in self.names if name in remaining)

    def send(self, engine: Engine, payload: bytes, now: float) -> Sent:
        """Send a payload; raise LocalError, and change nothing, if that is impossible."""
        names = self.find(engine)
        if self.is_broadcast and not names:
            raise LocalError(
                f"{engine.name} has no peer to broadcast to; call add_peer first"
            )
        return engine.send_fragment(names, payload, now), names


class _BlockedSend:
    """A message, and the future of the call that waits until it is sent."""

    __slots__ = ("future", "payload")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.future: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()


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

    def targets(self, engine: Engine) -> list[str]:
        """Return the names of all targets that messages wait for, sorted."""
        return sorted({name for queue in self._queues for name in queue.find(engine)})

    async def wait(self, targets: Targets, payload: bytes) -> Sent:
        """Wait until :meth:`send` has sent a message.

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
            if not engine.has_room(targets.find(engine)):
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
        self.interrupt(error)

    def interrupt(self, error: AntecedeError) -> None:
        """Raise ``error`` in all waiting calls."""
        for queue in self._queues.values():
            for blocked in queue.values():
                if not blocked.future.done():
                    blocked.future.set_exception(error)
        self._queues.clear()


def _send(engine: Engine, targets: Targets, blocked: _BlockedSend, now: float) -> None:
    """Send a message, and end the waiting call."""
    try:
        sent = targets.send(engine, blocked.payload, now)
    except Exception as error:
        blocked.future.set_exception(error)
    else:
        blocked.future.set_result(sent)
