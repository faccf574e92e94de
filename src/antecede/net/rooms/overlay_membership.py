"""The membership of a node in a room on an overlay, in which no member knows all others."""

import asyncio
import logging
from collections.abc import Callable

from antecede.engine.events import format_address
from antecede.engine.message import Message
from antecede.errors import JoinError, LocalError, PeerError
from antecede.group.codec import decode_control, encode_control
from antecede.group.frames import Answer, AnswerKind, Inquiry, Refused, Request
from antecede.net.rooms.control_room import ControlRoom
from antecede.net.rooms.events import RoomJoined
from antecede.net.rooms.introducer import Introducer
from antecede.net.rooms.link_hub import LinkHub
from antecede.net.rooms.membership import strip
from antecede.net.rooms.room_core import RoomCore
from antecede.net.rooms.room_socket import link_name, link_to

__all__ = ["OverlayMembership"]

logger = logging.getLogger(__name__)


class OverlayMembership:
    """Joins through any member; the overlay selects the neighbours then.

    Args:
        core: the room; its first peers are the members to join through, if there are any.
        hub: has the links.
        introducer: links this node with others.
        control: carries messages about the room.
        on_closed: called when the room is closed.
        has_founded: the room begins with this node.
    """

    def __init__(
        self,
        core: RoomCore,
        hub: LinkHub,
        introducer: Introducer,
        control: ControlRoom,
        on_closed: Callable[[], None],
        *,
        has_founded: bool,
    ) -> None:
        self._core = core
        self._hub = hub
        self._introducer = introducer
        self._control = control
        self._on_closed = on_closed
        self._has_founded = has_founded
        self._joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        core.filter_messages = self._filter
        core.on_open = self._use_links
        control.register(core.name, self._receive_control)
        control.release(core.name)

    def _use_links(self) -> None:
        """Let definitions carry the names and the addresses of links."""
        overlay = self._core.runtime.opened_engine().links.overlay
        assert overlay is not None  # The protocol has one.
        overlay.encode_address = self._encode_address
        overlay.decode_address = self._decode_address

    def _encode_address(self, address: object) -> bytes:
        name = link_name(address)
        where = self._hub.engine.links.address(name)
        return f"{name}\0{format_address(where)}".encode() if where is not None else b""

    def _decode_address(self, data: bytes) -> object:
        """Link the node that a neighbour has named, and return its address in the room."""
        try:
            name, where = data.decode().split("\0")
        except ValueError:
            return None
        if not name or not where:
            return None
        self._introducer.connect(name, where)
        return link_to(name)

    # The start.

    async def join(self, timeout_s: float) -> None:
        """Wait until this node is a member; raise JoinError if that takes too long."""
        if self._has_founded:
            self._become_member()
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._joined
        except TimeoutError:
            raise JoinError(
                f"cannot join the room {self._core.name}: not joined within {timeout_s:g}"
                f" s: {self.obstacle()}"
            ) from None

    @property
    def _is_newcomer(self) -> bool:
        overlay = self._core.runtime.opened_engine().process.overlay
        return overlay is not None and overlay.is_newcomer

    def _become_member(self) -> None:
        self._joined.set_result(None)
        core, has_founded = self._core, self._has_founded
        core.publish(
            RoomJoined(room=core.name, has_founded=has_founded, protocol=core.protocol)
        )

    # Inputs.

    def _filter(self, messages: list[Message]) -> list[Message]:
        """Return the delivered messages, and note whether this node has joined."""
        if not (self._has_founded or self._joined.done() or self._is_newcomer):
            self._become_member()
        return [strip(message) for message in messages]

    def _receive_control(self, source: str, data: bytes) -> None:
        """Answer a node that looks for the room."""
        try:
            frame = decode_control(data)
        except PeerError as error:
            logger.warning("invalid message of %s about %s: %s", source, self._core, error)
            return
        answer: Answer | Refused | None = None
        if isinstance(frame, Inquiry):
            is_member = self._joined.done()
            kind = AnswerKind.PRESENT if is_member else AnswerKind.BUSY
            answer = Answer(kind, (), self._core.protocol)
        elif isinstance(frame, Request):
            reason = f"the room {self._core.name!r} uses the protocol {self._core.protocol}"
            answer = Refused(frame.member.admission, reason)
        if answer is not None:
            self._control.send(source, self._core.name, encode_control(answer))

    # For the room.

    @property
    def members(self) -> list[str]:
        return sorted({self._core.node, *self._neighbours()})

    def _neighbours(self) -> list[str]:
        engine = self._core.runtime.opened_engine()
        overlay = engine.process.overlay
        peers = overlay.peers() if overlay is not None else []
        return [engine.name_of(peer) for peer in peers]

    def check_target(self, name: str) -> None:
        raise LocalError(
            f"a room with protocol {self._core.protocol} has broadcast only: no member"
            " knows the way to all others; choose bounded to send to some members"
        )

    async def wait_until_member(self) -> None:
        return

    def remove(self, name: str) -> None:
        raise LocalError(
            f"{self._core.protocol} cannot remove {name}: the overlay replaces silent"
            " neighbours by itself"
        )

    async def leave(self, drain_s: float) -> None:
        self._control.unregister(self._core.name)
        await self._core.close(drain_s, returns=False)
        if not self._joined.done():
            self._joined.cancel()
        self._on_closed()

    def obstacle(self) -> str:
        if self._joined.done() and not self._joined.cancelled():
            return ""
        contacts = self._core.runtime.opened_engine().sessions
        return f"no answer from {', '.join(contacts)}"
