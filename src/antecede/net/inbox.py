"""The inbox: delivered messages, and the tasks that wait for them."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from antecede.engine.events import MessageFailed
from antecede.engine.message import DecodedMessage, Message
from antecede.errors import LocalError
from antecede.net.config import NodeConfig
from antecede.net.events import EventHub
from antecede.net.node_metrics import TimedInbox
from antecede.net.payloads import decode_payload
from antecede.net.reader import Reader

__all__ = ["Inbox"]


class Inbox:
    """The messages of one node that its application has not received.

    Args:
        config: the parameters of the node.
        events: collects an event for each message for which the callback raises.
        now_s: returns the time.
    """

    def __init__(
        self, config: NodeConfig, events: EventHub, now_s: Callable[[], float]
    ) -> None:
        observe_s = config.observe_inbox_s
        self.messages: deque[Message] = (
            deque() if observe_s is None else TimedInbox(observe_s)
        )
        self.readers: deque[Reader] = deque()
        """The tasks that wait for a message."""
        self.on_room: Callable[[], None] | None = None
        """Called when messages were taken; None if no peer waits for room."""
        self._name = config.name
        self._events = events
        self._now_s = now_s
        self._on_message = config.on_message
        self._decode = (
            partial(decode_payload, config.decode) if config.decode is not None else None
        )
        self._is_calling = False

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.messages)

    def put(self, delivered: Sequence[Message]) -> None:
        """Append messages, and pass them to the callback, if there is one."""
        decode = self._decode
        if decode is not None:
            delivered = [DecodedMessage(message, decode) for message in delivered]
        self.messages.extend(delivered)
        if self._on_message is not None and not self._is_calling:
            self._call(self._on_message)

    def _call(self, on_message: Callable[[Message], object]) -> None:
        """Pass all messages to the callback in order, also those that arrive meanwhile.

        A callback that sends may cause deliveries, which must not overtake earlier
        messages.
        """
        messages = self.messages
        self._is_calling = True
        try:
            while messages:
                message = messages.popleft()
                try:
                    on_message(message)
                except Exception as error:
                    event = MessageFailed(peer=message.source, message=message, error=error)
                    self._events.publish([event], self._now_s())
                except BaseException:  # The exception ends the event loop.
                    messages.appendleft(message)
                    raise
        finally:
            self._is_calling = False

    def take_message(self) -> Message:
        """Remove and return the first message; there must be one."""
        message = self.messages.popleft()
        if self.on_room is not None:
            self.on_room()
        return message

    def take_messages(self, count: int) -> list[Message]:
        """Remove and return up to ``count`` messages."""
        messages = self.messages
        if len(messages) > count or isinstance(messages, TimedInbox):
            taken = [messages.popleft() for _ in range(min(count, len(messages)))]
        else:
            taken = list(messages)
            messages.clear()
        if self.on_room is not None:
            self.on_room()
        return taken

    # Readers.

    def new_reader(self, loop: asyncio.AbstractEventLoop) -> Reader:
        """Return a future that waits for a message, which another reader may then take."""
        if self._on_message is not None:
            raise LocalError(f"{self._name} has on_message, which gets all messages")
        reader = Reader(loop, self._cancel_reader)
        self.readers.append(reader)
        return reader

    def _cancel_reader(self, reader: Reader) -> None:
        if reader in self.readers:
            self.readers.remove(reader)
        elif self.messages:  # It was woken: wake another reader for the message instead.
            self.wake_readers(1)

    def wake_readers(self, count: int) -> None:
        """Wake ``count`` readers, in the next turn of the event loop."""
        while count > 0 and self.readers:
            self.readers.popleft().set_result(None)
            count -= 1

    def resume_readers(self) -> None:
        """Resume readers while messages are left; for callbacks of the event loop only.

        The tasks run until they wait again before this method returns.
        """
        readers = self.readers
        while readers and self.messages:
            readers.popleft().resume()
