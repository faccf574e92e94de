"""The node for threads: every method waits for the asynchronous node that does the work."""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from antecede.engine.events import NodeEvent
from antecede.engine.message import Message
from antecede.errors import LocalError
from antecede.net import node as asynchronous
from antecede.net.group_keys import Keys
from antecede.net.payloads import Payload
from antecede.net.receipts import SendOptions
from antecede.net.rooms.options import RoomArguments
from antecede.net.runtime import DRAIN_S
from antecede.net.statistics import BlockedMessage, NodeStats
from antecede.net.udp import Address
from antecede.net.wait_reports import JoinReport, WaitReport
from antecede.sync.background_loop import BackgroundLoop, background_loop
from antecede.sync.calls import Receiving, Timeout, events_of, send
from antecede.sync.receipt import Receipt
from antecede.sync.room import Room

__all__ = ["Node"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _with_arguments_of(
    model: Callable[Concatenate[Any, Arguments], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, Arguments], None]]:
    """Give a method the signature of another, for type checkers and for ``help``."""

    def decorate(
        method: Callable[..., None],
    ) -> Callable[Concatenate[Any, Arguments], None]:
        return functools.wraps(model)(method)

    return decorate


class Node:
    """One process of a causal group, for a program with threads.

    Use it as ``with sync.Node("ann", bind="127.0.0.1:9001", peers={...}) as node``. The
    arguments are those of :class:`antecede.Node`.

    Any thread may call any method at any time. A method that waits takes ``timeout``, in
    seconds, and raises TimeoutError after it; None, the default, waits forever. Ctrl-C ends
    every wait. A call that has not returned has the effect of a cancelled call of the
    asynchronous node: ``receive`` never loses a message, and ``send`` may have sent the
    message or not.

    The callbacks of a node run in the thread of the event loop, which all nodes of the
    process share: they must return soon, and cannot call methods of this class.
    """

    @_with_arguments_of(asynchronous.Node.__init__)
    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        self._node = asynchronous.Node(*arguments, **options)
        self._loop: BackgroundLoop | None = None
        self._receiving = Receiving(self._node, self._wait)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Close the node; do not wait for deliveries if the block raised."""
        self.close(DRAIN_S if kind is None else 0.0)

    def open(self) -> None:
        """Open the socket and the files, and contact the peers; prefer ``with``."""
        loop = background_loop()
        loop.call(self._node.open)
        self._loop = loop

    def close(self, drain_s: float = DRAIN_S) -> None:
        """Wait until all sent messages are delivered, transmit BYE, and close the node.

        Wait at most ``drain_s`` seconds. Other threads that wait for the node get
        LocalError, and an iteration over it ends. Closing a closed node does nothing.
        """
        if self._loop is not None:
            self._loop.call(lambda: self._node.close(drain_s))

    @property
    def name(self) -> str:
        """The name of the node."""
        return self._node.name

    @property
    def address(self) -> Address:
        """The address that the node listens on."""
        return self._read(lambda: self._node.address)

    @property
    def metrics_address(self) -> Address | None:
        """The address of the metrics of the node; None if it serves none."""
        return self._read(lambda: self._node.metrics_address)

    @property
    def peers(self) -> list[str]:
        """The names of the current peers."""
        return self._read(lambda: self._node.peers)

    def add_peer(self, name: str, address: str | Address) -> None:
        """Add a peer, or add a removed peer again, or change a peer's address."""
        self._read(lambda: self._node.add_peer(name, address))

    def remove_peer(
        self, name: str, *, stopped: bool = False, timeout: float | None = None
    ) -> None:
        """Remove a peer; after TimeoutError it is removed, but its lease has not ended."""
        node = self._node
        self._wait(
            lambda: node.remove_peer(name, stopped=stopped),
            timeout,
            f"the lease of {name} has not ended",
        )

    def set_keys(self, keys: Keys) -> None:
        """Encrypt with the first of these keys from now on, and accept all of them."""
        self._read(lambda: self._node.set_keys(keys))

    @property
    def rooms(self) -> list[str]:
        """The names of the rooms that the node is in, sorted."""
        return self._read(lambda: self._node.rooms)

    def join(self, room: str, **options: Unpack[RoomArguments]) -> Room:
        """Join a room, as :meth:`antecede.Node.join` does, and return it."""
        joined = self._wait(lambda: self._node.join(room, **options), None, "")
        return Room(joined, self._wait)

    def leave(self, drain_s: float = DRAIN_S) -> None:
        """Leave all rooms and peers for good, also with a journal, and close the node."""
        self._wait(lambda: self._node.leave(drain_s), None, "")

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
        """Send ``data`` to one peer, or to the node itself, and return its number.

        Wait while the window of the target is full; with ``wait=False`` raise WindowFull
        instead. The message is accepted when the call returns, but not yet delivered: see
        :meth:`flush`. With ``receipt=True`` return a
        :class:`~antecede.sync.receipt.Receipt`; ``ordered=False`` is that of
        :meth:`antecede.Node.send`.
        """
        return self._send("send", (target, data), (wait, ordered, receipt), timeout)

    def send_many(
        self, target: str, batch: Iterable[Payload], *, timeout: float | None = None
    ) -> list[int]:
        """Send several messages to one peer, in order, and return their numbers.

        Like several calls of :meth:`send`, but faster. A call that raises may have sent
        the first messages of the batch.
        """
        node = self._node
        messages = list(batch)
        return self._wait(
            lambda: node.send_many(target, messages), timeout, _no_room((target,))
        )

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
        """Send one message to several peers; otherwise like :meth:`send`."""
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
        """Send one message to all current peers; otherwise like :meth:`send`."""
        return self._send("broadcast", (data,), (wait, ordered, receipt), timeout)

    def _send(
        self, method: str, arguments: tuple[Any, ...], options: Sequence[bool],
        timeout: Timeout,
    ) -> int | Receipt:  # fmt: skip
        return send(self._node, method, arguments, options, timeout, self._wait)

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until all messages sent so far, and meanwhile, are delivered everywhere."""
        self._wait(self._node.flush, timeout, "messages are not delivered everywhere")

    def receive(self, *, timeout: float | None = None) -> Message:
        """Return the next message; raise LocalError if the node is closed.

        With ``timeout=0``, return a message that is already delivered, or raise
        TimeoutError. On a node with a journal, pass the message to :meth:`commit` after
        use.
        """
        return self._receiving.receive(timeout)

    def receive_many(
        self, max_messages: int = 1024, *, timeout: float | None = None
    ) -> list[Message]:
        """Wait for the next message, and return it with others that have arrived, in order.

        Return at most ``max_messages``; otherwise like :meth:`receive`.
        """
        return self._receiving.receive_many(max_messages, timeout)

    def __iter__(self) -> Iterator[Message]:
        """Iterate over the messages as they are delivered, until the node is closed."""
        return self

    def __next__(self) -> Message:
        return self._receiving.next()

    def commit(self, *messages: Message, timeout: float | None = None) -> None:
        """Record that messages were processed, so that a restart does not redeliver them.

        Return when the record is in the journal. Without a journal, do nothing.
        """

        async def commit_all() -> None:
            receipts = [message.commit() for message in messages]
            for receipt in receipts:
                await receipt

        self._wait(commit_all, timeout, "the messages are not in the journal")

    def events(self) -> Iterator[NodeEvent]:
        """Return an iterator over the events of the node, until it is closed."""
        return events_of(self._node, self._wait)

    def stats(self) -> NodeStats:
        """Return counters and the current state of the node."""
        return self._read(self._node.stats)

    def metrics(self) -> str:
        """Return :meth:`stats` as OpenMetrics text, for a scraper."""
        return self._read(self._node.metrics)

    def waiting(
        self, source: str | None = None, number: int | None = None
    ) -> list[WaitReport | JoinReport]:
        """Return the reasons for which messages wait, up to the process at fault.

        Ask other nodes, and wait up to 3 s for their answers, as
        :meth:`antecede.Node.waiting` does.
        """
        return self._wait(lambda: self._node.waiting(source, number), None, "")

    def blocked_messages(
        self, source: str | None = None, number: int | None = None
    ) -> list[BlockedMessage]:
        """Return the messages that wait for another process, with the reasons."""
        return self._read(lambda: self._node.blocked_messages(source, number))

    # Calls of the asynchronous node.

    def _opened_loop(self) -> BackgroundLoop:
        if self._loop is None:
            raise LocalError(
                f"{self.name} is not open; use `with sync.Node(...) as node`, or call open"
            )
        return self._loop

    def _read(self, function: Callable[[], Result]) -> Result:
        """Call a function that does not wait, on the loop."""

        async def call() -> Result:
            return function()

        return self._opened_loop().call(call)

    def _wait(
        self,
        start: Callable[[], Coroutine[Any, Any, Result]],
        timeout: float | None,
        unfinished: str,
        on_abandoned: Callable[[Result], None] | None = None,
    ) -> Result:
        """Call a coroutine function, and wait for its result, or until the timeout.

        The loop measures the timeout: a call that has ended when it expires returns its
        result, so that no message is lost.
        """
        if timeout is None:
            return self._opened_loop().call(start, on_abandoned)

        async def call() -> Result:
            try:
                async with asyncio.timeout(timeout):
                    return await start()
            except TimeoutError:
                raise TimeoutError(
                    f"{self.name}: {unfinished} after {timeout:g} s"
                ) from None

        return self._opened_loop().call(call, on_abandoned)


def _no_room(targets: Sequence[str]) -> str:
    """Describe a message that still waits."""
    return f"there was no room for a message to {', '.join(targets)}"
