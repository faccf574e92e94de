"""Calls of an asynchronous node or room that a node and a room for threads share."""

from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from antecede.engine.events import NodeEvent
from antecede.engine.message import Message
from antecede.net import receipts
from antecede.net.node import Node
from antecede.net.rooms.room import Room
from antecede.sync.receipt import Receipt

__all__ = ["Receiving", "Wait", "events_of", "send"]

Result = TypeVar("Result")
Source = Node | Room
Timeout = float | None


class Wait(Protocol):
    """Calls a coroutine function on the event loop, and waits for its result."""

    def __call__(
        self,
        start: Callable[[], Coroutine[Any, Any, Result]],
        timeout: float | None,
        unfinished: str,
        on_abandoned: Callable[[Result], None] | None = None,
    ) -> Result: ...


def send(
    source: Source, method: str, arguments: tuple[Any, ...], options: Sequence[bool],
    timeout: Timeout, wait: Wait,
) -> int | Receipt:  # fmt: skip
    """Call a method that sends, with the options ``wait``, ``ordered`` and ``receipt``."""
    targets: Any = "a peer" if method == "broadcast" else arguments[0]
    names = targets if isinstance(targets, str) else ", ".join(targets)
    waits, ordered, receipt = options
    function = getattr(source, method)
    sent: int | receipts.Receipt = wait(
        lambda: function(*arguments, wait=waits, ordered=ordered, receipt=receipt),
        timeout,
        f"there was no room for a message to {names}",
    )
    return sent if isinstance(sent, int) else Receipt(sent, wait)


def events_of(source: Source, wait: Wait) -> Iterator[NodeEvent]:
    """Return an iterator over the events from now on, until the node or room is closed."""

    async def open_iterator() -> Any:  # noqa: ANN401 (an EventIterator)
        return source.events()

    events = wait(open_iterator, None, "")

    async def next_event() -> NodeEvent | None:
        return await anext(events, None)

    def wait_for_event() -> NodeEvent | None:
        return wait(next_event, None, "")

    return iter(wait_for_event, None)


class Receiving:
    """Receives the messages of a node or a room; an interrupted call loses none.

    Args:
        source: the asynchronous node or room.
        wait: calls a coroutine function on its event loop.
    """

    def __init__(self, source: Source, wait: Wait) -> None:
        self._source = source
        self._wait = wait
        self._interrupted: deque[Message] = deque()

    def receive(self, timeout: Timeout) -> Message:
        """Return the next message; raise LocalError if the source is closed."""
        return self._wait(self._take, timeout, "no message was delivered", self._keep)

    def receive_many(self, max_messages: int, timeout: Timeout) -> list[Message]:
        """Wait for the next message, and return it with others that have arrived."""
        return self._wait(
            lambda: self._take_many(max_messages),
            timeout,
            "no message was delivered",
            self._interrupted.extend,
        )

    def next(self) -> Message:
        """Return the next message; raise StopIteration if the source is closed."""
        message = self._wait(self._take_or_none, None, "", self._keep)
        if message is None:
            raise StopIteration
        return message

    async def _take(self) -> Message:
        """Return the next message; begin with those of interrupted calls."""
        if self._interrupted:
            return self._interrupted.popleft()
        return await self._source.receive()

    async def _take_many(self, max_messages: int) -> list[Message]:
        """Return the next messages; begin with those of interrupted calls."""
        interrupted = self._interrupted
        if interrupted and max_messages > 0:
            count = min(max_messages, len(interrupted))
            return [interrupted.popleft() for _ in range(count)]
        return await self._source.receive_many(max_messages)

    async def _take_or_none(self) -> Message | None:
        """Return the next message, or None if the source is closed."""
        if self._interrupted:
            return self._interrupted.popleft()
        return await anext(self._source, None)

    def _keep(self, message: Message | None) -> None:
        """Keep a message, which an interrupted call took, for the next call."""
        if message is not None:
            self._interrupted.append(message)
