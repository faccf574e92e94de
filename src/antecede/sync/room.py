"""The room for threads: every method waits for the asynchronous room that does the work."""

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from antecede.engine.events import NodeEvent
from antecede.engine.message import Message
from antecede.net.payloads import Payload
from antecede.net.rooms import room as asynchronous
from antecede.net.runtime import DRAIN_S
from antecede.net.statistics import NodeStats
from antecede.net.wait_reports import WaitReport

__all__ = ["Room", "Wait"]

Result = TypeVar("Result")


class Wait(Protocol):
    """Calls a coroutine function on the event loop, and waits for its result."""

    def __call__(
        self,
        start: Callable[[], Coroutine[Any, Any, Result]],
        timeout: float | None,
        unfinished: str,
        on_abandoned: Callable[[Result], None] | None = None,
    ) -> Result: ...


class Room:
    """One node's place in a room, for a program with threads.

    :meth:`antecede.sync.Node.join` returns it. The methods are those of
    :class:`antecede.Room`; those that wait take ``timeout``, as the methods of a node do.
    The functions ``snapshot``, ``restore`` and ``agree`` run in the thread of the event
    loop: they must return soon, and need a lock for what other threads change.
    """

    def __init__(self, room: asynchronous.Room, wait: Wait) -> None:
        self._room = room
        self._wait = wait
        self._interrupted: deque[Message] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the room; do not wait for deliveries if the block raised."""
        self.close(DRAIN_S if error is None else 0.0)

    def _read(self, function: Callable[[], Result]) -> Result:
        async def call() -> Result:
            return function()

        return self._wait(call, None, "")

    @property
    def name(self) -> str:
        """The name of the room."""
        return self._room.name

    @property
    def protocol(self) -> str:
        """The protocol of the room."""
        return self._room.protocol

    @property
    def members(self) -> list[str]:
        """The names of the members, sorted, with this node."""
        return self._read(lambda: self._room.members)

    # Sending.

    def send(self, target: str, data: Payload, *, timeout: float | None = None) -> int:
        """Send ``data`` to one member, and return its number."""
        return self._wait(
            lambda: self._room.send(target, data), timeout, f"no room for {target}"
        )

    def multicast(
        self, targets: Iterable[str], data: Payload, *, timeout: float | None = None
    ) -> int:
        """Send one message to several members; otherwise like :meth:`send`."""
        names = targets if isinstance(targets, str) else tuple(targets)
        return self._wait(
            lambda: self._room.multicast(names, data), timeout, "there was no room"
        )

    def broadcast(self, data: Payload, *, timeout: float | None = None) -> int:
        """Send one message to all other members, and return its number; 0 without any."""
        return self._wait(lambda: self._room.broadcast(data), timeout, "there was no room")

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until all messages sent so far, and meanwhile, are delivered everywhere."""
        self._wait(self._room.flush, timeout, "messages are not delivered everywhere")

    # Receiving.

    def receive(self, *, timeout: float | None = None) -> Message:
        """Return the next message; raise LocalError if the room is closed."""
        return self._wait(
            self._take, timeout, "no message was delivered", self._interrupted.append
        )

    def __iter__(self) -> Iterator[Message]:
        """Iterate over the messages as they are delivered, until the room is closed."""
        return self

    def __next__(self) -> Message:
        message = self._wait(self._take_or_none, None, "", self._keep)
        if message is None:
            raise StopIteration
        return message

    async def _take(self) -> Message:
        if self._interrupted:
            return self._interrupted.popleft()
        return await self._room.receive()

    async def _take_or_none(self) -> Message | None:
        if self._interrupted:
            return self._interrupted.popleft()
        return await anext(self._room, None)

    def _keep(self, message: Message | None) -> None:
        """Keep a message, which an interrupted call took, for the next call."""
        if message is not None:
            self._interrupted.append(message)

    # Members.

    def remove(self, name: str) -> None:
        """Remove a member, as :meth:`antecede.Room.remove` does."""
        self._wait(lambda: self._room.remove(name), None, "")

    def leave(self, drain_s: float = DRAIN_S) -> None:
        """Leave the room for good, also with a journal, and close it."""
        self._wait(lambda: self._room.leave(drain_s), None, "")

    def close(self, drain_s: float = DRAIN_S) -> None:
        """Close the room, which leaves it."""
        self._wait(lambda: self._room.close(drain_s), None, "")

    # Statistics and events.

    def events(self) -> Iterator[NodeEvent]:
        """Return an iterator over the events of the room from now on, until its end."""
        events = self._read(self._room.events)

        async def next_event() -> NodeEvent | None:
            return await anext(events, None)

        def wait_for_event() -> NodeEvent | None:
            return self._wait(next_event, None, "")

        return iter(wait_for_event, None)

    def stats(self) -> NodeStats:
        """Return counters and the current state of the node in this room."""
        return self._read(self._room.stats)

    def waiting(
        self, source: str | None = None, number: int | None = None
    ) -> list[WaitReport]:
        """Return what messages wait for; see :meth:`antecede.Node.waiting`."""
        return self._wait(lambda: self._room.waiting(source, number), None, "")
