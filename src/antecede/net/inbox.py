"""The inbox: delivered messages that the application has not received."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from antecede.engine.events import MessageFailed
from antecede.engine.message import DecodedMessage, Message
from antecede.net.config import NodeConfig
from antecede.net.events import EventHub
from antecede.net.node_metrics import TimedInbox
from antecede.net.payloads import decode_payload
from antecede.net.waiters import Waiters

__all__ = ["Inbox"]


class Inbox:
    """The messages of one node that wait for its application.

    Args:
        waiters: the tasks that wait for a message.
        config: the parameters of the node.
        events: takes an event for each message that the callback fails for.
        now_s: returns the time.
    """

    def __init__(
        self,
        waiters: Waiters,
        config: NodeConfig,
        events: EventHub,
        now_s: Callable[[], float],
    ) -> None:
        observe_s = config.observe_inbox_s
        self.messages: deque[Message] = (
            deque() if observe_s is None else TimedInbox(observe_s)
        )
        self._waiters = waiters
        self._events = events
        self._now_s = now_s
        self._on_message = config.on_message
        self._decode = (
            partial(decode_payload, config.decode) if config.decode is not None else None
        )
        self._is_calling = False

    def put(self, delivered: Sequence[Message]) -> None:
        """Append messages; wake the readers, or pass the messages to the callback."""
        decode = self._decode
        if decode is not None:
            delivered = [DecodedMessage(message, decode) for message in delivered]
        self.messages.extend(delivered)
        if self._on_message is None:
            self._waiters.wake_readers(len(delivered))
        elif not self._is_calling:
            self._call(self._on_message)

    def _call(self, on_message: Callable[[Message], object]) -> None:
        """Pass all messages to the callback, those that arrive meanwhile after the others.

        A callback that sends may cause deliveries, which must not overtake the messages
        that are before them.
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
                except BaseException:  # It ends the event loop, and the callback with it.
                    messages.appendleft(message)
                    raise
        finally:
            self._is_calling = False

    def take(self, count: int) -> list[Message]:
        """Remove and return up to ``count`` messages."""
        messages = self.messages
        if len(messages) > count or isinstance(messages, TimedInbox):
            return [messages.popleft() for _ in range(min(count, len(messages)))]
        taken = list(messages)
        messages.clear()
        return taken
