"""The control room of a node: messages about rooms, outside of them.

It is a hidden room of all nodes that are linked. Its messages are unicasts under
``bounded``, and its consumer takes every message at once. So neither the protocol nor the
application of a room can delay them.
"""

import logging
from collections.abc import Callable

from antecede.core.process import NEVER
from antecede.engine.limits import Limits
from antecede.engine.message import Message
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.group.codec import decode_room, encode_room
from antecede.group.directory import Directory
from antecede.group.effects import SendControl
from antecede.net.config import NodeConfig
from antecede.net.rooms.link_hub import CONTROL_HASH, LinkHub
from antecede.net.rooms.room_node import make_room_runtime, room_limits
from antecede.net.rooms.room_socket import link_address

__all__ = ["ControlRoom"]

logger = logging.getLogger(__name__)

Receive = Callable[[str, bytes], None]


class ControlRoom:
    """Exchanges control messages with the linked nodes.

    Args:
        hub: has the links.
        config: the parameters of the node.
        limits: the limits of the node.
    """

    def __init__(self, hub: LinkHub, config: NodeConfig, limits: Limits) -> None:
        self._name = config.name
        self._directory = Directory()
        self._receivers: dict[str, Receive] = {}
        self._runtime, self._release = make_room_runtime(
            hub,
            config,
            "(control)",
            protocol="bounded",
            limits=room_limits(limits, NEVER),
            hash=CONTROL_HASH,
            on_message=self._receive,
        )

    def open(self) -> None:
        """Exchange messages from now on."""
        self._runtime.open()

    async def close(self, drain_s: float) -> None:
        """Wait for acks, and end the exchange."""
        await self._runtime.close(drain_s)
        self._release()

    def add(self, name: str) -> None:
        """Exchange messages with a linked node, too."""
        if name in self._runtime.opened_engine().peers():
            return
        try:
            self._runtime.add_peer(name, link_address(name))
        except ConfigError as error:
            logger.warning("%s: %s", self._name, error)

    def register(self, room: str, receive: Receive) -> None:
        """Call ``receive`` with sender and content of each message about a room."""
        self._receivers[room] = receive

    def unregister(self, room: str) -> None:
        """Answer that this node is not in a room, from now on."""
        self._receivers.pop(room, None)

    def seekers(self, room: str) -> list[tuple[str, str]]:
        """Return names and addresses of the nodes that have asked for a room lately."""
        return self._directory.seekers(room, self._runtime.now_s())

    def send(self, target: str, room: str, data: bytes) -> None:
        """Send a message about a room; without effect if the target is not linked.

        Its receiver asks again if it misses the message.
        """
        runtime = self._runtime
        if runtime.is_closing:
            return
        engine = runtime.opened_engine()
        try:
            engine.send((target,), encode_room(room, data), runtime.now_s())
        except LocalError as error:
            logger.debug("%s: no control message about %s: %s", self._name, room, error)
            return
        runtime.schedule_output()

    def _receive(self, message: Message) -> None:
        try:
            room, data = decode_room(message.data)
            receive = self._receivers.get(room)
            if receive is not None:
                receive(message.source, data)
            else:
                now = self._runtime.now_s()
                answers = self._directory.receive_control(message.source, room, data, now)
                for effect in answers:
                    if isinstance(effect, SendControl):
                        self.send(effect.target, room, effect.data)
        except PeerError as error:
            logger.warning(
                "%s drops a control message of %s: %s", self._name, message.source, error
            )
