"""The inbox of a node: messages that the application has not received yet."""

from collections import deque
from collections.abc import Sequence

from antecede.engine.message import Message

__all__ = ["Inbox"]


class Inbox:
    """Delivered messages, in order, and whether there is room for more."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.messages_max = 0
        self.is_closed = False
        """Whether no message is accepted any more."""

    @property
    def is_full(self) -> bool:
        """Whether arriving messages must be dropped."""
        return self.is_closed or len(self.messages) >= self.messages_max

    def extend(self, messages: Sequence[Message]) -> None:
        """Append delivered messages."""
        self.messages.extend(messages)
