"""The links of a node, as its rooms use them: one hub between its engine and its rooms."""

from collections.abc import Callable

from antecede.engine.datagram import name_hash
from antecede.engine.engine import Engine
from antecede.errors import ConfigError, PeerError
from antecede.net.host import resolve_peer, running_host
from antecede.net.rooms.room_socket import RoomHost, RoomSocket
from antecede.net.runtime import NodeRuntime
from antecede.net.udp import Address

__all__ = ["CONTROL_HASH", "LinkHub"]

CONTROL_HASH = 0
"""The value that stands for the control room in the datagrams of links."""


class LinkHub:
    """Hands the datagrams of links to rooms, and those of rooms to links.

    Args:
        runtime: drives the engine with the links.
    """

    def __init__(self, runtime: NodeRuntime) -> None:
        self.on_stranger: Callable[[bytes, object], None] = lambda datagram, address: None
        """Called with each datagram of a node that is not a peer, and its address."""
        self.on_control: Callable[[str], RoomSocket | None] = lambda name: None
        """Called with the source of a datagram of the control room; returns its socket."""
        self.dropped = 0
        """The number of datagrams that did not belong to a room of this node."""
        self._runtime = runtime
        self._hosts: dict[int, RoomHost] = {}
        self._is_open = False

    @property
    def engine(self) -> Engine:
        """The engine with the links."""
        return self._runtime.opened_engine()

    def open(self) -> None:
        """Take the datagrams of rooms from now on."""
        if self._is_open:
            return
        socket = self._runtime.opened_socket()
        if not self.engine.info.capabilities.dynamic:
            raise ConfigError(
                f"a node with rooms needs a protocol whose peers can change outside of"
                f" them, and {self.engine.info.name} has fixed members: choose hybrid"
            )
        self._is_open = True
        self.engine.links.open()
        socket.start_reading(self._read)

    def host(self, room: str, *, is_control: bool = False) -> RoomHost:
        """Return the host of a node in a room; :meth:`close` takes it back."""
        room_hash = CONTROL_HASH if is_control else name_hash(room)
        if room_hash in self._hosts:
            raise ConfigError(f"the name {room!r} has the hash of another room; rename it")
        host = RoomHost(
            running_host(), room, lambda name, data: self._send(room_hash, name, data)
        )
        if not is_control:
            self._hosts[room_hash] = host
        return host

    def close(self, host: RoomHost) -> None:
        """Take no datagrams of a room any more."""
        self._hosts = {key: each for key, each in self._hosts.items() if each is not host}

    def _send(self, room_hash: int, name: str, datagram: bytes) -> None:
        runtime = self._runtime
        if not runtime.is_closed and self.engine.links.send(name, room_hash, datagram):
            runtime.schedule_output()

    def _read(self) -> None:
        """Process the datagrams that have arrived at the socket of the node."""
        self._runtime.receive_datagrams()
        links = self.engine.links
        readable: RoomSocket | None = None
        for name, room_hash, datagram in links.take_arrived():
            to = self._socket(room_hash, name)
            if readable is not None and to is not readable:
                readable.read()  # It may add the sender of the next datagram to a room.
            readable = to
            if to is None:
                self.dropped += 1
            else:
                to.arrive(name, datagram)
        if readable is not None:
            readable.read()
        for datagram, address in links.take_strangers():
            try:
                self.on_stranger(datagram, address)
            except PeerError:
                self.engine.links.count_unopened(address, self._runtime.now_s())
                self._runtime.schedule_output()

    def _socket(self, room_hash: int, source: str) -> RoomSocket | None:
        if room_hash == CONTROL_HASH:
            return self.on_control(source)
        host = self._hosts.get(room_hash)
        return host.socket if host is not None else None

    def add_link(self, name: str, address: Address) -> None:
        """Add a link to a node, unless there is one in use."""
        self.add_numeric_link(
            name, resolve_peer(self._runtime.opened_socket(), name, address)
        )

    def add_numeric_link(
        self, name: str, address: object, *, is_vacant: bool = False
    ) -> None:
        """Add a link to a node at an address of the socket, unless there is one in use.

        With ``is_vacant``, the former address of the node does not answer.
        """
        engine, now = self.engine, self._runtime.now_s()
        engine.links.add(name, address, now)
        session = engine.sessions[name]
        if is_vacant and session.is_link and session.address != address:
            engine.set_address(name, address, now)
        if isinstance(address, tuple):
            self._runtime.record_address(name, (address[0], address[1]))
        self._runtime.schedule_output()
