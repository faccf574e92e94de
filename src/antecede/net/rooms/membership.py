"""The members of a room: from messages about them, or from a fixed list."""

from collections.abc import Callable
from typing import Protocol

from antecede.engine.message import Message
from antecede.errors import LocalError
from antecede.net.rooms.room_core import APPLICATION_PREFIX, RoomCore

__all__ = ["FixedMembership", "Membership", "strip"]


class Membership(Protocol):
    """The members of a room, as :class:`antecede.net.rooms.room.Room` uses them."""

    @property
    def members(self) -> list[str]:
        """The names of the members, sorted, with this node."""

    def check_target(self, name: str) -> None:
        """Raise LocalError if no message can be sent to a node."""

    async def wait_until_member(self) -> None:
        """Wait while the node joins again; raise LocalError if the room is closed."""

    def remove(self, name: str) -> None:
        """Remove a member; raise LocalError if it is not a member."""

    async def leave(self, drain_s: float) -> None:
        """Leave the room, and close it."""

    def obstacle(self) -> str:
        """Return the reason for which the node is not a member yet; empty if it is one."""


def strip(message: Message) -> Message:
    """Remove the prefix from the payload of a message."""
    message.data = message.data[len(APPLICATION_PREFIX) :]
    return message


class FixedMembership:
    """The members that the application has named.

    Args:
        core: the room.
        names: the members, with or without this node.
        on_closed: called when the room is closed.
    """

    def __init__(
        self, core: RoomCore, names: set[str], on_closed: Callable[[], None]
    ) -> None:
        self._core = core
        self._on_closed = on_closed
        self._names = names | {core.node}
        core.filter_messages = lambda messages: [strip(message) for message in messages]

    @property
    def members(self) -> list[str]:
        return sorted(self._names)

    def check_target(self, name: str) -> None:
        if name not in self._names:
            raise LocalError(
                f"{name} is not a member of {self._core.name}, whose members are"
                f" {', '.join(self.members)}"
            )

    async def wait_until_member(self) -> None:
        return

    def remove(self, name: str) -> None:
        self.check_target(name)
        runtime = self._core.runtime
        now = runtime.now_s()
        runtime.opened_engine().remove_peer(name, now, stopped=True)
        self._names.discard(name)
        runtime.process_output(now)

    async def leave(self, drain_s: float) -> None:
        await self._core.close(drain_s, returns=False)
        self._on_closed()

    def obstacle(self) -> str:
        return ""
