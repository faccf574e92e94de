"""Receiving several messages at once."""

from collections.abc import Awaitable, Callable

from antecede.engine.message import Message
from antecede.errors import LocalError
from antecede.net.runtime import NodeRuntime

__all__ = ["receive_many"]


async def receive_many(
    runtime: NodeRuntime, receive: Callable[[], Awaitable[Message]], max_messages: int
) -> list[Message]:
    """Wait for the next message, and return it with others that have arrived.

    Args:
        runtime: drives the engine of the node.
        receive: waits for the next message.
        max_messages: the size of the list at most.
    """
    if max_messages < 1:
        raise LocalError(f"max_messages must be at least 1, got {max_messages}")
    inbox = runtime.inbox
    if not inbox.messages:
        first = await receive()
        return [first, *inbox.take_messages(max_messages - 1)]
    return inbox.take_messages(max_messages)
