"""Receiving messages, and waiting for them."""

from antecede.engine.message import Message
from antecede.errors import LocalError
from antecede.net.runtime import NodeRuntime

__all__ = ["Receiving"]


class Receiving:
    """Passes the messages of one node to its application.

    Args:
        runtime: drives the engine of the node.
    """

    def __init__(self, runtime: NodeRuntime) -> None:
        self._runtime = runtime

    async def next(self) -> Message:
        """Return the next message; raise StopAsyncIteration if the node is closed."""
        runtime = self._runtime
        if runtime.has_callback:
            raise LocalError(f"{runtime.name} has on_message, which gets all messages")
        while not runtime.inbox:
            if runtime.is_closed:
                raise StopAsyncIteration
            runtime.opened_socket()
            await runtime.waiters.wait_for_message(runtime.inbox)
        return runtime.take_message()

    async def receive(self) -> Message:
        """Return the next message; raise LocalError if the node is closed."""
        try:
            return await self.next()
        except StopAsyncIteration:
            runtime = self._runtime
            if runtime.failure is not None:
                raise runtime.failure from None
            raise LocalError(
                f"cannot receive: {runtime.name} is closed and its inbox is empty"
            ) from None

    async def receive_many(self, max_messages: int) -> list[Message]:
        """Wait for the next message, and return it with others that have arrived."""
        if max_messages < 1:
            raise LocalError(f"max_messages must be at least 1, got {max_messages}")
        runtime = self._runtime
        if not runtime.inbox:
            first = await self.receive()
            return [first, *runtime.take_messages(max_messages - 1)]
        return runtime.take_messages(max_messages)
