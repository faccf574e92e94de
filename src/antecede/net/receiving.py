"""Receiving messages that may not have arrived yet."""

from antecede.engine.message import Message
from antecede.errors import LocalError
from antecede.net.runtime import NodeRuntime

__all__ = ["Receiving"]


class Receiving:
    """Takes the messages of one node or room from its inbox.

    Args:
        name: the name of the node, or of the room.
        runtime: has the inbox.
    """

    def __init__(self, name: str, runtime: NodeRuntime) -> None:
        self._name = name
        self._runtime = runtime

    async def next(self) -> Message:
        """Return the next message; raise StopAsyncIteration once the node is closed."""
        runtime = self._runtime
        messages = runtime.inbox.messages
        while not messages:
            reader = runtime.new_reader()
            if reader is None:
                raise StopAsyncIteration
            await reader
        return runtime.inbox.take_message()

    async def one(self) -> Message:
        """Return the next message; raise LocalError once the node is closed."""
        try:
            return await self.next()
        except StopAsyncIteration:
            raise self.closed_error() from None

    def closed_error(self) -> Exception:
        """Return the error of a call that receives when the node or room is closed."""
        return self._runtime.failure or LocalError(
            f"cannot receive: {self._name} is closed and its inbox is empty"
        )

    async def receive_many(self, max_messages: int) -> list[Message]:
        """Wait for a message, and return it with others that have arrived, in order."""
        if max_messages < 1:
            raise LocalError(f"max_messages must be at least 1, got {max_messages}")
        inbox = self._runtime.inbox
        if inbox.messages:
            return inbox.take_messages(max_messages)
        first = await self.one()
        return [first, *inbox.take_messages(max_messages - 1)]
