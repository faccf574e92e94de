"""The control room of a node: messages about rooms, outside of them.

There is a *channel* to each linked node that such a message was exchanged with: a room of
these two nodes, whose consumer takes every message at once. So no application, third node
or protocol of another room can delay such messages.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from antecede.engine.limits import Limits
from antecede.engine.message import Message
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.group.codec import decode_room, encode_room
from antecede.group.directory import Directory
from antecede.group.effects import SendControl
from antecede.net.config import NodeConfig
from antecede.net.rooms.link_hub import LinkHub
from antecede.net.rooms.room_node import make_room_runtime, room_limits
from antecede.net.rooms.room_socket import RoomSocket, link_to
from antecede.net.rooms.when_silent import WhenSilent
from antecede.net.runtime import NodeRuntime

__all__ = ["ControlRoom"]

logger = logging.getLogger(__name__)

Receive = Callable[[str, bytes], None]

HELD_MAX: Final = 256
"""The maximum number of messages about a room that are kept; a node without an answer asks
again."""


class ControlRoom:
    """Exchanges control messages with the linked nodes.

    Args:
        hub: has the links.
        config: the parameters of the node.
        limits: the limits of the node.
    """

    def __init__(self, hub: LinkHub, config: NodeConfig, limits: Limits) -> None:
        self._hub = hub
        self._config = config
        self._limits = room_limits(limits, WhenSilent.block())
        self._directory = Directory()
        self._receivers: dict[str, Receive] = {}
        self._held: dict[str, deque[Message]] = {}
        self._channels: dict[str, NodeRuntime] = {}
        self._is_closed = False
        hub.on_control = self._socket

    def _channel(self, name: str) -> NodeRuntime | None:
        """Return the channel to a node, a new one if there is none; None after the end."""
        channel = self._channels.get(name)
        if channel is None and not self._is_closed:
            channel, _ = make_room_runtime(
                self._hub,
                self._config,
                f"(control {' '.join(sorted((name, self._config.name)))})",
                protocol="hybrid",
                limits=self._limits,
                is_control=True,
                members=(name,),
                on_message=self._receive,
            )
            self._channels[name] = channel
            channel.open()
        return channel

    def _socket(self, name: str) -> RoomSocket | None:
        channel = self._channel(name)
        if channel is None or channel.is_closed:
            return None
        socket = channel.opened_socket()
        assert isinstance(socket, RoomSocket)  # Every channel has one.
        return socket

    async def close(self, drain_s: float) -> None:
        """Wait for acks, and end the exchange."""
        channels = self._channels.values()
        await asyncio.gather(*(channel.close(drain_s) for channel in channels))
        self._is_closed = True

    def hold(self, room: str) -> None:
        """Keep the messages about a room until :meth:`release`.

        A node that has not reached its own seeds must not answer that it has no such room:
        the node that asks would found another one.
        """
        self._held[room] = deque(maxlen=HELD_MAX)

    def register(self, room: str, receive: Receive) -> None:
        """Call ``receive`` with sender and content of each message about a room."""
        self._receivers[room] = receive

    def unregister(self, room: str) -> None:
        """From now on, answer that this node is not a member of a room."""
        self._receivers.pop(room, None)

    def release(self, room: str) -> None:
        """Process the messages about a room that were kept."""
        for message in self._held.pop(room, ()):
            self._receive(message)

    def seekers(self, room: str, now: float) -> list[tuple[str, str]]:
        """Return names and addresses of the nodes that have asked for a room lately."""
        return self._directory.seekers(room, now)

    def send(self, target: str, room: str, data: bytes) -> None:
        """Send a message about a room; without effect if the target is not linked.

        Its receiver asks again if it misses the message.
        """
        channel = self._channel(target)
        if channel is None or channel.is_closing:
            return
        engine = channel.opened_engine()
        try:
            if target not in engine.peers():  # It has left, and returns.
                engine.add_peer(target, link_to(target), channel.now_s())
            engine.send((target,), encode_room(room, data), channel.now_s())
        except (LocalError, ConfigError) as error:
            logger.debug("no control message to %s about %s: %s", target, room, error)
            return
        channel.schedule_output()

    def _receive(self, message: Message) -> None:
        source = message.source
        try:
            room, data = decode_room(message.data)
            receive = self._receivers.get(room)
            if room in self._held:
                self._held[room].append(message)
                return
            if receive is not None:
                receive(source, data)
                return
            now = self._channels[source].now_s()
            for effect in self._directory.receive_control(source, room, data, now):
                if isinstance(effect, SendControl):
                    self.send(effect.target, room, effect.data)
        except PeerError as error:
            logger.warning(
                "%s drops a control message of %s: %s", self._config.name, source, error
            )
