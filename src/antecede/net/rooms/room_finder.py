"""Runs the search for a room on an event loop."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from antecede.core.process import NEVER
from antecede.errors import JoinError, PeerError
from antecede.group import effects as fx
from antecede.group.finder import Finder, FoundRoom
from antecede.group.settings import MembershipSettings
from antecede.net.engine_timer import EngineTimer
from antecede.net.host import running_host
from antecede.net.rooms.control_room import ControlRoom
from antecede.net.rooms.introducer import Introducer

__all__ = ["Candidates", "Obstacle", "find_room"]

logger = logging.getLogger(__name__)

Candidates = Iterable[tuple[str, str]]
"""Names and addresses of nodes."""
Obstacle = Callable[[], str]
"""Returns the reason for which a join is not complete."""


async def find_room(
    room: str,
    candidates: Candidates,
    more: Coroutine[Any, Any, Candidates],
    own: tuple[str, str],
    control: ControlRoom,
    introducer: Introducer,
    settings: MembershipSettings,
    obstacles: dict[str, Obstacle],
) -> FoundRoom:
    """Return the answers of the nodes of the group about a room.

    Messages about the room that arrive later are kept until the caller has registered
    another receiver. Raise JoinError if no member answers in time.

    Args:
        room: the name of the room.
        candidates: names and addresses of the nodes to ask.
        more: returns further ones.
        own: name and address of this node.
        control: carries messages about the room, which it keeps at present.
        introducer: links this node with others.
        settings: may_found and the time-outs.
        obstacles: gets an entry for the room.
    """
    search = _Search(room, Finder(*own, settings), control, introducer)
    control.register(room, search.receive)
    obstacles[room] = search.finder.failure
    search.start(candidates)
    control.release(room)
    others = asyncio.get_running_loop().create_task(search.add(more))
    try:
        async with asyncio.timeout(settings.join_timeout_s):
            return await search.found
    except TimeoutError:
        raise JoinError(
            f"cannot join the room {room}: not joined within"
            f" {settings.join_timeout_s:g} s: {search.finder.failure()}"
        ) from None
    finally:
        others.cancel()
        search.timer.cancel()
        control.hold(room)
        control.unregister(room)


class _Search:
    """One search that is under way."""

    def __init__(
        self, room: str, finder: Finder, control: ControlRoom, introducer: Introducer
    ) -> None:
        loop = asyncio.get_running_loop()
        self.finder = finder
        self.found: asyncio.Future[FoundRoom] = loop.create_future()
        self.timer = EngineTimer(loop, self._handle_timer)
        self._room = room
        self._control = control
        self._introducer = introducer
        self._now_s = running_host().now_s

    def start(self, candidates: Candidates) -> None:
        self.finder.start(candidates, self._now_s())
        self._run()

    async def add(self, more: Coroutine[Any, Any, Candidates]) -> None:
        self.start(await more)

    def receive(self, source: str, data: bytes) -> None:
        """Process a message about the room."""
        try:
            self.finder.receive_control(source, data, self._now_s())
        except PeerError as error:
            logger.warning("invalid message of %s about %s: %s", source, self._room, error)
        self._run()

    def _handle_timer(self) -> None:
        self.timer.cancel()
        self.finder.handle_timer(self._now_s())
        self._run()

    def _run(self) -> None:
        for effect in self.finder.effects():
            match effect:
                case fx.Connect(name, address):
                    self._introducer.connect(name, address)
                case fx.SendControl(target, data):
                    self._control.send(target, self._room, data)
        if self.finder.result is not None and not self.found.done():
            self.found.set_result(self.finder.result)
        due = self.finder.next_timer()
        self.timer.cancel()
        self.timer.set(None if due == NEVER else due, self._now_s())
