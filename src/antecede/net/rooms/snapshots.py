"""The snapshots of an application, and the messages that its state contains."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from antecede.engine.message import Message
from antecede.group.member import CutEntry
from antecede.net.rooms.room_core import RoomCore

__all__ = ["Restore", "Snapshots", "Take"]

Take = Callable[[], bytes]
Restore = Callable[[bytes], object]


WAIT_S: Final = 10.0
"""The time for which a sponsor waits until its application has received all messages."""


class _Request(NamedTuple):
    """A newcomer that needs a snapshot."""

    newcomer: str
    admission: int
    position: int
    """The number of messages that the state must contain."""
    until: float


class Snapshots:
    """Takes and restores the snapshots of one application in one room.

    The state of the application contains a message once the application asks for the next
    one. A snapshot is taken at such a time, while no send is under way.

    Args:
        core: the room.
        take: returns the state of the application; None for an empty snapshot.
        restore: replaces the state of the application; None to ignore snapshots.
    """

    def __init__(self, core: RoomCore, take: Take | None, restore: Restore | None) -> None:
        self._core = core
        self._take = take
        self._restore = restore
        self._requests: list[_Request] = []
        self._latest: dict[tuple[str, int], int] = {}

    def reset(self) -> None:
        """Begin anew: the room has another runtime."""
        self._requests.clear()
        self._latest.clear()

    def record(self, message: Message) -> None:
        """Note a message that the application will get next."""
        self._latest[message.source, message.history] = message.number

    @property
    def has_requests(self) -> bool:
        """Whether a snapshot is to be taken."""
        return bool(self._requests)

    def request(self, newcomer: str, admission: int, position: int, now: float) -> None:
        """Take a snapshot when the state contains as many messages as ``position``."""
        self._requests.append(_Request(newcomer, admission, position, now + WAIT_S))

    def due(self, now: float) -> list[tuple[str, int, str]]:
        """Remove and return the newcomers whose snapshots can be taken now.

        With each newcomer, return the reason if there is no snapshot: the application has
        not received the messages before it in time. The reason is empty otherwise.
        """
        core = self._core
        taken_count = core.put_count - len(core.runtime.inbox)
        is_quiet = not core.sends_under_way and core.processed_count == taken_count
        found: list[tuple[str, int, str]] = []
        for request in list(self._requests):
            if is_quiet and request.position <= taken_count:
                reason = ""
            elif request.until <= now:
                reason = (
                    f"the application of {core.node} has not asked for its next message, or"
                    f" waits in a send, for {WAIT_S:g} s: receive in a task of its own"
                )
            else:
                continue
            self._requests.remove(request)
            found.append((request.newcomer, request.admission, reason))
        return found

    def take(self) -> bytes:
        """Return the state of the application; pass on its exceptions."""
        if self._take is None:
            return b""
        state: object = self._take()
        if not isinstance(state, bytes):
            raise TypeError(f"snapshot returned {type(state).__name__}, not bytes")
        return state

    def cut(self) -> list[CutEntry]:
        """Return the last message of each history that the state contains."""
        core = self._core
        latest = dict(self._latest)
        for message in reversed(core.runtime.inbox.messages):
            if message.ordered:
                key = (message.source, message.history)
                latest[key] = message.number - 1  # The first one in the inbox counts last.
        engine = core.runtime.opened_engine()
        latest[core.node, engine.history] = core.last_number
        return [CutEntry(*key, number) for key, number in latest.items() if number > 0]

    def restore(self, snapshot: bytes, cut: Iterable[CutEntry]) -> None:
        """Replace the state of the application; pass on its exceptions."""
        if self._restore is not None:
            self._restore(snapshot)
        for entry in cut:
            self._latest[entry.source, entry.history] = entry.number
