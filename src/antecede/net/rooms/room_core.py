"""The runtime of a room, and the calls of its application that are under way."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from antecede.engine.events import NodeEvent, PeerSilent
from antecede.engine.message import Message
from antecede.errors import LocalError
from antecede.net.blocked_sends import Targets
from antecede.net.events import EventHub
from antecede.net.payloads import Encode, Payload, encode_payload
from antecede.net.receipts import Receipt
from antecede.net.receiving import Receiving
from antecede.net.rooms.room_socket import RoomSocket
from antecede.net.runtime import NodeRuntime
from antecede.net.sending import Sending

__all__ = ["APPLICATION_PREFIX", "Filter", "MakeRuntime", "RoomCore"]

APPLICATION_PREFIX: Final = b"\x00"
"""The prefix of the data of the application in a payload of a room."""

Filter = Callable[[list[Message]], list[Message]]


class MakeRuntime(Protocol):
    """Makes a runtime for a room, and a function to call after it was closed."""

    def __call__(
        self, filter_messages: Filter, on_event: Callable[[NodeEvent], object]
    ) -> tuple[NodeRuntime, Callable[[], None]]: ...


class RoomCore:
    """The runtime of one room, which may be replaced, and the calls that use it.

    Args:
        node: the name of the node.
        name: the name of the room.
        protocol: its protocol.
        make_runtime: makes a runtime.
        encode: converts values to bytes; None if the application sends bytes.
    """

    def __init__(
        self,
        node: str,
        name: str,
        protocol: str,
        make_runtime: MakeRuntime,
        encode: Encode | None,
    ) -> None:
        self.node: Final = node
        self.name: Final = name
        self.protocol: Final = protocol
        self.events = EventHub(name, None, "")
        self.filter_messages: Filter = lambda messages: messages
        """Called with the delivered messages; returns those for the application."""
        self.on_event: Callable[[NodeEvent], object] = lambda event: None
        """Called with the events of the runtime."""
        self.on_quiet: Callable[[], None] = lambda: None
        """Called when the application has asked for a message, or a send has ended."""
        self.on_arrival: Callable[[str], bool] = lambda name: True
        """Called with the source of each datagram; returns whether to receive it."""
        self.on_open: Callable[[], None] = lambda: None
        """Called when a runtime was opened, before anything has arrived."""
        self.on_full: Callable[[str], None] | None = None
        """Called with the name of a silent member to which there is no room; None if
        senders wait then."""
        self.last_number = 0
        """The number of the last message that was sent."""
        self.sends_under_way = 0
        self.put_count = 0
        """The number of messages that were put into the inbox so far."""
        self.processed_count = 0
        """The number of these messages that the state of the application contains."""
        self._make_runtime = make_runtime
        self._encode = encode
        self._start()

    def _start(self) -> None:
        self.runtime, self._release = self._make_runtime(self._filter, self._publish)
        self.sending = Sending(self.name, self.runtime, self._encoded)
        self._receiving = Receiving(self.name, self.runtime)

    def _encoded(self, value: Payload) -> bytes:
        if self._encode is not None:
            value = encode_payload(self._encode, value)
        if not isinstance(value, bytes):
            raise LocalError(f"data must be bytes, not {type(value).__name__}")
        return APPLICATION_PREFIX + value

    def _filter(self, messages: list[Message]) -> list[Message]:
        kept = self.filter_messages(messages)
        self.put_count += len(kept)
        return kept

    def _publish(self, event: NodeEvent) -> None:
        """Hand on an event that the runtime has logged."""
        self.events.publish([event], self.runtime.now_s())
        self.on_event(event)
        if isinstance(event, PeerSilent):
            self._report_full()

    def _report_full(self) -> None:
        """Call :attr:`on_full` for the silent members to which there is no room."""
        if self.on_full is None:
            return
        engine = self.runtime.opened_engine()
        for name in engine.peers():
            if engine.sessions[name].is_silent and not engine.has_room((name,)):
                self.on_full(name)

    def publish(self, event: NodeEvent) -> None:
        """Log an event of the room, and hand it to the iterators over its events."""
        self.runtime.events.publish([event], self.runtime.now_s())

    # The runtime.

    def open(self) -> None:
        """Open the runtime."""
        self.runtime.open()
        socket = self.runtime.opened_socket()
        assert isinstance(socket, RoomSocket)  # Every runtime of a room has one.
        socket.on_arrival = lambda name: self.on_arrival(name)
        self.on_open()

    async def restart(self) -> None:
        """Replace the runtime by a new one, without a message to the members.

        The messages that the application has not received are dropped.
        """
        former, release = self.runtime, self._release
        former.inbox.messages.clear()
        await former.close(0.0)
        release()
        self.put_count = self.processed_count = self.last_number = 0
        self._start()
        self.open()

    async def close(self, drain_s: float, *, returns: bool) -> None:
        """Wait for acks, say goodbye unless the node returns, and close the runtime."""
        if self.runtime.is_closing:
            return
        await self.runtime.close(drain_s, returns=returns)
        self._release()
        self.events.close()

    def check_open(self) -> None:
        """Raise LocalError if the room is closed."""
        self.sending.check_open()

    # The calls of the application.

    async def send(
        self, targets: Targets, data: Payload, wait: bool, ordered: bool, receipt: bool
    ) -> int | Receipt:
        """Send a message; see :meth:`Sending.send_as`."""
        self._report_full()
        self.sends_under_way += 1
        try:
            sent = await self.sending.send_as(targets, data, wait, ordered, receipt)
            number = sent if isinstance(sent, int) else sent.number
            self.last_number = max(self.last_number, number)
            return sent
        finally:
            self.sends_under_way -= 1
            self.on_quiet()

    def send_nowait(self, target: str, data: Payload) -> int:
        """Send a message; see :meth:`Sending.send_nowait`."""
        number = self.sending.send_nowait(target, data)
        self.last_number = max(self.last_number, number)
        return number

    def send_control(self, targets: Sequence[str], data: bytes) -> None:
        """Send a message about the members of the room, even if a window is full."""
        engine = self.runtime.opened_engine()
        active = [name for name in targets if name in engine.peers()]
        if active:
            number = engine.send(active, data, self.runtime.now_s())
            self.last_number = max(self.last_number, number)
            self.runtime.schedule_output()

    def _ask(self) -> None:
        self.processed_count = self.put_count - len(self.runtime.inbox)
        self.on_quiet()

    async def next(self) -> Message:
        """Return the next message; raise StopAsyncIteration once the room is closed."""
        while True:
            receiving = self._receiving
            self._ask()
            try:
                return await receiving.next()
            except StopAsyncIteration:
                if receiving is self._receiving:
                    raise

    async def receive(self) -> Message:
        """Return the next message; raise LocalError if the room is closed."""
        try:
            return await self.next()
        except StopAsyncIteration:
            raise self._receiving.closed_error() from None

    async def receive_many(self, max_messages: int) -> list[Message]:
        """Return the next message, with others that have arrived."""
        if max_messages < 1:
            raise LocalError(f"max_messages must be at least 1, got {max_messages}")
        first = await self.receive()
        return [first, *self.runtime.inbox.take_messages(max_messages - 1)]
