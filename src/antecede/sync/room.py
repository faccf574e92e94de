"""The room for threads: every method waits for the asynchronous room that does the work."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from antecede.engine.events import NodeEvent
from antecede.engine.message import Message
from antecede.net.payloads import Payload
from antecede.net.receipts import SendOptions
from antecede.net.rooms import room as asynchronous
from antecede.net.runtime import DRAIN_S
from antecede.net.statistics import NodeStats
from antecede.net.wait_reports import JoinReport, WaitReport
from antecede.sync.calls import Receiving, Timeout, Wait, events_of, send
from antecede.sync.receipt import Receipt

__all__ = ["Room"]

Result = TypeVar("Result")


class Room:
    """One node's place in a room, for a program with threads.

    :meth:`antecede.sync.Node.join` returns it. The methods are those of
    :class:`antecede.Room`; those that wait take ``timeout``, as the methods of a node do.
    The functions ``snapshot``, ``restore`` and ``agree`` run in the thread of the event
    loop: they must return soon, and need a lock for data that other threads change.
    """

    def __init__(self, room: asynchronous.Room, wait: Wait) -> None:
        self._room = room
        self._wait = wait
        self._receiving = Receiving(room, wait)

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

    @overload
    def send(
        self, target: str, data: Payload, *, receipt: Literal[True], wait: bool = ...,
        timeout: Timeout = ...,
    ) -> Receipt: ...  # fmt: skip

    @overload
    def send(
        self,
        target: str,
        data: Payload,
        *,
        timeout: Timeout = ...,
        **how: Unpack[SendOptions],
    ) -> int: ...

    def send(
        self, target: str, data: Payload, *, wait: bool = True, ordered: bool = True,
        receipt: bool = False, timeout: float | None = None,
    ) -> int | Receipt:  # fmt: skip
        """Send ``data`` to one member; see :meth:`antecede.sync.Node.send`."""
        return self._send("send", (target, data), (wait, ordered, receipt), timeout)

    @overload
    def multicast(
        self, targets: Iterable[str], data: Payload, *, receipt: Literal[True],
        wait: bool = ..., timeout: Timeout = ...,
    ) -> Receipt: ...  # fmt: skip

    @overload
    def multicast(
        self, targets: Iterable[str], data: Payload, *, timeout: Timeout = ...,
        **how: Unpack[SendOptions],
    ) -> int: ...  # fmt: skip

    def multicast(
        self, targets: Iterable[str], data: Payload, *, wait: bool = True,
        ordered: bool = True, receipt: bool = False, timeout: float | None = None,
    ) -> int | Receipt:  # fmt: skip
        """Send one message to several members; otherwise like :meth:`send`."""
        names = targets if isinstance(targets, str) else tuple(targets)
        return self._send("multicast", (names, data), (wait, ordered, receipt), timeout)

    @overload
    def broadcast(
        self, data: Payload, *, receipt: Literal[True], wait: bool = ...,
        timeout: Timeout = ...,
    ) -> Receipt: ...  # fmt: skip

    @overload
    def broadcast(
        self, data: Payload, *, timeout: Timeout = ..., **how: Unpack[SendOptions]
    ) -> int: ...

    def broadcast(
        self, data: Payload, *, wait: bool = True, ordered: bool = True,
        receipt: bool = False, timeout: float | None = None,
    ) -> int | Receipt:  # fmt: skip
        """Send one message to all other members; return its number, or 0 without any."""
        return self._send("broadcast", (data,), (wait, ordered, receipt), timeout)

    def _send(
        self, method: str, arguments: tuple[Any, ...], options: Sequence[bool],
        timeout: Timeout,
    ) -> int | Receipt:  # fmt: skip
        return send(self._room, method, arguments, options, timeout, self._wait)

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until all messages sent so far, and meanwhile, are delivered everywhere."""
        self._wait(self._room.flush, timeout, "messages are not delivered everywhere")

    # Receiving.

    def receive(self, *, timeout: float | None = None) -> Message:
        """Return the next message; raise LocalError if the room is closed."""
        return self._receiving.receive(timeout)

    def receive_many(
        self, max_messages: int = 1024, *, timeout: float | None = None
    ) -> list[Message]:
        """Wait for the next message, and return it with others that have arrived, in order.

        Return at most ``max_messages``; otherwise like :meth:`receive`.
        """
        return self._receiving.receive_many(max_messages, timeout)

    def __iter__(self) -> Iterator[Message]:
        """Iterate over the messages as they are delivered, until the room is closed."""
        return self

    def __next__(self) -> Message:
        return self._receiving.next()

    # Members.

    def remove(self, name: str) -> None:
        """Remove a member, as :meth:`antecede.Room.remove` does."""
        self._wait(lambda: self._room.remove(name), None, "")

    def leave(self, drain_s: float = DRAIN_S) -> None:
        """Leave the room, and close it."""
        self._wait(lambda: self._room.leave(drain_s), None, "")

    def close(self, drain_s: float = DRAIN_S) -> None:
        """Close the room, which leaves it."""
        self._wait(lambda: self._room.close(drain_s), None, "")

    # Statistics and events.

    def events(self) -> Iterator[NodeEvent]:
        """Return an iterator over the events of the room from now on, until its end."""
        return events_of(self._room, self._wait)

    def stats(self) -> NodeStats:
        """Return counters and the current state of the node in this room."""
        return self._read(self._room.stats)

    def waiting(
        self, source: str | None = None, number: int | None = None
    ) -> list[WaitReport | JoinReport]:
        """Return the reasons for which messages wait; see :meth:`antecede.Node.waiting`."""
        return self._wait(lambda: self._room.waiting(source, number), None, "")
