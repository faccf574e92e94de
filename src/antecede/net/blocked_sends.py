"""Messages that wait for room in the windows of their targets."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace

from antecede.engine.engine import Engine
from antecede.engine.sender import Channel
from antecede.errors import AntecedeError, LocalError

__all__ = ["BlockedSends", "Sent", "Targets", "named_targets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The targets of a message, which is perhaps sent later."""

    names: tuple[str, ...] = ()
    """The names of the targets; empty for a broadcast that was not sent yet."""
    is_broadcast: bool = False
    may_be_nobody: bool = False
    """A broadcast without targets returns 0 instead of raising an error."""
    keeps_channels: bool = False
    """The result of :meth:`send` has the names and the channels of the targets."""
    channels: tuple[Channel, ...] = ()
    """The channels of the first fragment, which the others must use."""

    def find(self, engine: Engine) -> tuple[str, ...]:
        """Return the targets of a message, or of its next fragment, that is sent now.

        A broadcast goes to all peers. Its other fragments go to those that got the first
        one and can still complete the message.
        """
        if not self.is_broadcast:
            return self.names
        if not self.channels:
            return tuple(engine.peers())
        remaining = set(engine.peers()) - self._ended(engine)
        return tuple(name for name in self.names if name in remaining)

    def _ended(self, engine: Engine) -> set[str]:
        """Return the targets that cannot complete the message any more."""
        ended = set(self.channels).difference(engine.channels(self.names))
        return {name for name, _, _ in ended}

    def send(self, engine: Engine, payload: bytes, now: float) -> "Sent":
        """Send a payload; raise LocalError, and change nothing, if that is impossible."""
        names = self.find(engine)
        if self.is_broadcast and not names:
            if self.may_be_nobody:
                return 0, replace(self, names=(), channels=())
            _check_lonely(engine)
        if self.channels and not self.is_broadcast:
            ended = sorted(self._ended(engine))
            if ended:
                raise LocalError(
                    f"{', '.join(ended)} restarted while the message was being sent;"
                    " send it again"
                )
        has_broadcast = self.is_broadcast and engine.info.capabilities.broadcast
        number = engine.send_fragment(None if has_broadcast else names, payload, now)
        if not self.keeps_channels:
            return number, self
        channels = self.channels or tuple(engine.channels(names))
        return number, replace(self, names=names, channels=channels)


def _check_lonely(engine: Engine) -> None:
    """Raise LocalError, unless the node is joining and will have peers later."""
    overlay = engine.process.overlay
    if overlay is None:
        raise LocalError(f"{engine.name} has no peer to broadcast to; call add_peer first")
    if not overlay.is_newcomer:
        raise LocalError(
            f"{engine.name} has no neighbour to broadcast to: no node has joined, or all"
            " its links are lost; in the second case close it, and open a new node"
        )


def named_targets(names: Iterable[str]) -> Targets:
    """Return the targets of a multicast; raise LocalError for a single name."""
    if isinstance(names, str):
        raise LocalError(
            f"targets must be a list of names, not the string {names!r}; use send for one"
            " target"
        )
    return Targets(names=tuple(names))


Sent = tuple[int, Targets]
"""The number of a message, and the targets of its next fragment."""


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
        self.queues: dict[Targets, OrderedDict[int, _BlockedSend]] = {}
        """Each queue by ticket: the number of the message among all that had to wait."""
        self._tickets = 0
        self.observe_s: Callable[[float], object] | None = None
        """Called with the time that each message has waited."""
        self._error: AntecedeError | None = None

    def __len__(self) -> int:
        """Return how many messages wait."""
        return sum(map(len, self.queues.values()))

    def targets(self, engine: Engine) -> list[str]:
        """Return the names of all targets that messages wait for, sorted."""
        return sorted({name for queue in self.queues for name in queue.find(engine)})

    async def wait(self, targets: Targets, payload: bytes) -> Sent:
        """Wait until :meth:`send` has sent a message.

        A cancelled call leaves nothing behind.
        """
        if self._error is not None:
            raise self._error
        self._tickets += 1
        ticket = self._tickets
        blocked = _BlockedSend(payload)
        self.queues.setdefault(targets, OrderedDict())[ticket] = blocked
        loop = asyncio.get_running_loop()
        waits_since = loop.time()
        try:
            return await blocked.future
        finally:
            if self.observe_s is not None:
                self.observe_s(loop.time() - waits_since)
            queue = self.queues.get(targets)
            if queue is not None:
                queue.pop(ticket, None)
                if not queue:
                    del self.queues[targets]

    def send(self, engine: Engine, now: float) -> bool:
        """Send the messages that have room, and return whether there were any.

        Of two messages that have room, send the one first that has waited longer.
        """
        is_sent = False
        heads = [(next(iter(queue)), targets) for targets, queue in self.queues.items()]
        heapify(heads)
        while heads:
            _, targets = heads[0]
            queue = self.queues[targets]
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
                del self.queues[targets]
        return is_sent

    def close(self, error: AntecedeError) -> None:
        """Raise ``error`` in all waiting calls, now and later."""
        self._error = error
        self.interrupt(error)

    def interrupt(self, error: AntecedeError) -> None:
        """Raise ``error`` in all waiting calls."""
        for queue in self.queues.values():
            for blocked in queue.values():
                if not blocked.future.done():
                    blocked.future.set_exception(error)
        self.queues.clear()


def _send(engine: Engine, targets: Targets, blocked: _BlockedSend, now: float) -> None:
    """Send a message, and end the waiting call."""
    try:
        sent = targets.send(engine, blocked.payload, now)
    except Exception as error:
        blocked.future.set_exception(error)
    else:
        blocked.future.set_result(sent)
