"""The peers of a node in a room, as its membership adds and removes them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from antecede.engine.peer_session import ACTIVE, REMOVING
from antecede.errors import ConfigError, LocalError
from antecede.group.member import Member
from antecede.net.rooms.introducer import Introducer
from antecede.net.rooms.link_hub import LinkHub
from antecede.net.rooms.room_core import RoomCore
from antecede.net.rooms.room_socket import link_to

__all__ = ["RoomPeers"]

logger = logging.getLogger(__name__)

GOODBYE_S: Final = 10.0
"""The time for which a member that leaves can transmit its BYE."""


class RoomPeers:
    """Adds and removes the peers of one room.

    Args:
        core: the room.
        hub: has the links.
        introducer: links this node with others.
    """

    def __init__(self, core: RoomCore, hub: LinkHub, introducer: Introducer) -> None:
        self._core = core
        self._hub = hub
        self._introducer = introducer
        self._additions: dict[str, Member] = {}
        self._leaving: dict[str, float] = {}

    def reset(self) -> None:
        """Begin anew: the room has another runtime."""
        self._additions.clear()
        self._leaving.clear()

    @property
    def has_work(self) -> bool:
        """Whether :meth:`confirm` is to be called again soon."""
        return bool(self._additions) or bool(self._leaving)

    def note_arrival(self, name: str, check: Callable[[], object]) -> None:
        """Call ``check`` soon if :meth:`confirm` may report the node now."""
        if name in self._additions:
            asyncio.get_running_loop().call_soon(check)

    def add(self, member: Member) -> None:
        """Make a node a peer of the room; :meth:`confirm` reports when it is one."""
        self._introducer.connect(member.name, member.address)
        self._hub.engine.links.keep(member.name)
        self._leaving.pop(member.name, None)
        self._additions[member.name] = member
        self._add_peer(member.name, self._core.runtime.now_s())

    def can_add(self, name: str) -> bool:
        """Return whether no removal of the node is under way."""
        session = self._core.runtime.opened_engine().sessions.get(name)
        return session is None or session.state is not REMOVING

    def remove(self, name: str, now: float, *, has_left: bool) -> None:
        """Remove a peer; one that has left by itself says BYE."""
        self._additions.pop(name, None)
        if has_left:
            self._leaving[name] = now + GOODBYE_S
            return
        try:
            self._core.runtime.opened_engine().remove_peer(name, now, stopped=True)
        except LocalError as error:  # It was never added, or is removed already.
            logger.debug("%s: %s", self._core.node, error)

    def confirm(self, now: float) -> list[tuple[str, int]]:
        """Return name and incarnation of the nodes that became peers since the last call.

        A node becomes one when it knows the epoch of this node's session. Before, it may
        have been in contact with a session that has ended here; then it gives up the
        messages that it has sent to that session, as soon as it learns of the new epoch.

        A message in fragments reaches only those that were peers when it began, so that
        no node becomes a peer before it ends.
        """
        for name in [name for name, until in self._leaving.items() if until <= now]:
            del self._leaving[name]
            session = self._core.runtime.opened_engine().sessions.get(name)
            if session is not None and session.state is ACTIVE:
                self.remove(name, now, has_left=False)
        if not self._additions or self._core.sending.is_in_fragments:
            return []
        confirmed: list[tuple[str, int]] = []
        links = self._core.runtime.opened_engine().links
        for name, member in list(self._additions.items()):
            if not self._add_peer(name, now):
                continue
            if links.is_met(name, member.incarnation):
                del self._additions[name]
                confirmed.append((name, member.incarnation))
            else:
                links.ask(name, now)
        return confirmed

    def _add_peer(self, name: str, now: float) -> bool:
        """Make a node a peer unless it is one; return False if its removal is under way."""
        engine = self._core.runtime.opened_engine()
        session = engine.sessions.get(name)
        if session is None or session.state is not ACTIVE:
            try:
                engine.add_peer(name, link_to(name), now)
            except ConfigError:
                return False
        return True
