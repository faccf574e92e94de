"""A message as the application receives it."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

from mypy_extensions import mypyc_attr

__all__ = [
    "DONE",
    "DecodedMessage",
    "Done",
    "JournaledMessage",
    "Message",
    "UnorderedMessage",
]


class Done:
    """An awaitable that never waits."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


DONE: Final = Done()


@mypyc_attr(acyclic=True)
class Message:
    """A delivered message; on a node with a journal, call :meth:`commit` after use."""

    __slots__ = ("data", "delivered_at", "history", "number", "source")

    # It refers to strings, bytes and numbers only, so the garbage collector need not know
    # it: many messages in an inbox would start a collection again and again.

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
    ) -> None:
        self.source = source
        self.number = number
        self.data = data
        self.delivered_at = delivered_at
        self.history = history

    def __repr__(self) -> str:
        return f"Message({self.source}:{self.number}, {len(self.data)} B)"

    @property
    def ordered(self) -> bool:
        """Whether the message has a position in the causal order, and a number.

        It is False for a message that was sent with ``ordered=False``.
        """
        return True

    @property
    def value(self) -> Any:  # noqa: ANN401
        """The payload as the function ``decode`` of the node returns it.

        Without ``decode``, the same as :attr:`data`. Raise DecodeError if ``decode`` fails.
        """
        return self.data

    def commit(self) -> Awaitable[None]:
        """Record that the message was processed, so that a restart does not redeliver it.

        The record is written together with others, without blocking the event loop. Await
        the result to continue only when it is in the journal. Without a journal this does
        nothing.
        """
        return DONE


class UnorderedMessage(Message):
    """A message that was sent with ``ordered=False``; its number is 0."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Message({self.source}, unordered, {len(self.data)} B)"

    @property
    def ordered(self) -> bool:
        return False


class JournaledMessage(Message):
    """A message of a node with a journal; it refers to the node."""

    __slots__ = ("_on_commit",)

    def __init__(
        self,
        source: str,
        number: int,
        data: bytes,
        delivered_at: float,
        history: int,
        on_commit: Callable[[str, int, int], Awaitable[None]],
    ) -> None:
        super().__init__(source, number, data, delivered_at, history)
        self._on_commit = on_commit

    def commit(self) -> Awaitable[None]:
        return self._on_commit(self.source, self.history, self.number)


class DecodedMessage(Message):
    """A message of a node with ``decode``, which runs when the value is first used.

    So the error of a payload that cannot be decoded is raised where the application uses
    it, and does not affect the node or other messages.
    """

    __slots__ = ("_decode", "_is_decoded", "_message", "_value")

    def __init__(self, message: Message, decode: Callable[[Message], object]) -> None:
        super().__init__(
            message.source,
            message.number,
            message.data,
            message.delivered_at,
            message.history,
        )
        self._message = message
        self._decode = decode
        self._is_decoded = False
        self._value: object = None

    def __repr__(self) -> str:
        return repr(self._message)

    @property
    def ordered(self) -> bool:
        return self._message.ordered

    @property
    def value(self) -> Any:  # noqa: ANN401
        if not self._is_decoded:
            self._value = self._decode(self._message)
            self._is_decoded = True
        return self._value

    def commit(self) -> Awaitable[None]:
        return self._message.commit()
