"""A message as the application receives it."""

from collections.abc import Awaitable, Callable, Generator
from typing import Final

__all__ = ["DONE", "Done", "Message"]


class Done:
    """An awaitable that never waits."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


DONE: Final = Done()


class Message:
    """A delivered message; on a node with a journal, call :meth:`commit` after use."""

    __slots__ = ("_on_commit", "data", "delivered_at", "history", "number", "source")

    source: str
    """The name of the sender."""
    number: int
    """The number of the message: increases with every message of the source, and is the
    same at every target."""
    history: int
    """The history of the source that the number belongs to. A source that restarts without
    a journal begins a new history, and numbers its messages from 1 again."""
    data: bytes
    """The bytes that the source sent."""
    delivered_at: float
    """The time of delivery, in seconds of the wall clock (``time.time``)."""

    def __init__(
        self,
        source: str,
        number: int,
        data: bytes,
        delivered_at: float,
        history: int = 0,
        on_commit: Callable[[str, int, int], Awaitable[None]] | None = None,
    ) -> None:
        self.source = source
        self.number = number
        self.data = data
        self.delivered_at = delivered_at
        self.history = history
        self._on_commit = on_commit

    def __repr__(self) -> str:
        return f"Message({self.source}:{self.number}, {len(self.data)} B)"

    def commit(self) -> Awaitable[None]:
        """Record that the message was processed, so that a restart does not redeliver it.

        The record is written together with others, without blocking the event loop. Await
        the result to continue only when it is in the journal. Without a journal this does
        nothing.
        """
        if self._on_commit is None:
            return DONE
        return self._on_commit(self.source, self.history, self.number)
