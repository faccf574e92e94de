"""The socket and the host of a node in a room: its datagrams travel over the links."""

from collections import deque
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Final, cast

from antecede.core.observer import Observer
from antecede.engine.ecn import NOT_ECT
from antecede.net.database import Database
from antecede.net.host import EventLog, Host, Worker
from antecede.net.udp import Address, SocketAddress

__all__ = ["RoomHost", "RoomSocket", "link_address", "link_name", "link_to"]

LINK_PORT: Final = 1
"""The port in the addresses of members; it has no meaning."""
LINK_PREFIX: Final = "the link to "
"""The prefix of the name of a node in its address, as events show it."""
ARRIVED_MAX: Final = 4096
"""The maximum number of datagrams that wait in the socket of a room; further ones are
lost."""


def link_address(name: str) -> Address:
    """Return the address of a node in a room, for a configuration."""
    return name, LINK_PORT


def link_to(name: str) -> SocketAddress:
    """Return the address of a node in a room, as its socket uses it."""
    return cast("SocketAddress", LINK_PREFIX + name)


def link_name(address: object) -> str:
    """Return the name of the node with an address of :func:`link_to`."""
    return cast("str", address).removeprefix(LINK_PREFIX)


class RoomSocket:
    """A socket whose addresses are the names of nodes.

    Args:
        address: the address of the node itself.
        send: transmits a datagram to a node, by name.
    """

    def __init__(self, address: Address, send: Callable[[str, bytes], None]) -> None:
        self.address = address
        self.lost = {"buffer_full": 0, "stranger": 0}
        """Datagrams that were lost at this socket, by reason."""
        self.on_refused: Callable[[object, int], None] = lambda where, size: None
        """Never called: the datagrams of a room fit into every datagram of a link."""
        self.on_arrival: Callable[[str], bool] = lambda name: True
        """Called with the source of each datagram; returns whether to receive it."""
        self._send = send
        self.marked: Set[object] = frozenset()
        """Ignored: the links use the marks of their paths."""
        self._arrived: deque[tuple[bytes, SocketAddress, int]] = deque()
        self._on_readable: Callable[[], None] | None = None

    def resolve(self, address: Address) -> SocketAddress:
        return link_to(address[0])

    def start_reading(self, on_readable: Callable[[], None]) -> None:
        self._on_readable = on_readable

    def arrive(self, source: str, datagram: bytes) -> None:
        """Let a datagram of a node wait until :meth:`read`."""
        if not self.on_arrival(source):
            self.lost["stranger"] += 1
        elif len(self._arrived) >= ARRIVED_MAX:
            self.lost["buffer_full"] += 1
        else:
            self._arrived.append((datagram, link_to(source), NOT_ECT))

    def read(self) -> None:
        """Have the node in the room process the datagrams that have arrived."""
        while self._arrived and self._on_readable is not None:
            self._on_readable()

    def receive(self, batch: int) -> list[tuple[bytes, SocketAddress, int]]:
        arrived = self._arrived
        return [arrived.popleft() for _ in range(min(batch, len(arrived)))]

    def transmit(self, datagrams: Sequence[tuple[object, bytes]]) -> int:
        for address, datagram in datagrams:
            self._send(link_name(address), datagram)
        return len(datagrams)

    def close(self) -> None:
        self._on_readable = None


class _RoomLog:
    """A record of the events of a node in a room, whose processes have other names.

    Args:
        log: the record.
        prefix: stands before each name.
    """

    def __init__(self, log: EventLog, prefix: str) -> None:
        self._log = log
        self._prefix = prefix

    @property
    def observer(self) -> Observer:
        return self._log.observer

    @property
    def rows(self) -> int:
        return self._log.rows

    def set_name(self, id: int, name: str) -> None:
        self._log.set_name(id, self._prefix + name)

    def flush(self) -> None:
        self._log.flush()

    def close(self, *, complete: bool) -> None:
        self._log.close(complete=complete)


class RoomHost:
    """The machine, as a node in a room sees it: with a socket over the links.

    Args:
        host: the machine.
        room: the name of the room.
        send: transmits a datagram of the room to a node, by name.
    """

    def __init__(self, host: Host, room: str, send: Callable[[str, bytes], None]) -> None:
        self.socket: RoomSocket | None = None
        """The socket, once it is bound."""
        self.now_s = host.now_s
        self.wall_s = host.wall_s
        self.random_bits = host.random_bits
        self._host = host
        self._room = room
        self._send = send

    def bind_socket(self, bind: Address, *, segmentation: bool) -> RoomSocket:
        self.socket = RoomSocket(bind, self._send)
        return self.socket

    def open_database(self, path: Path) -> Database:
        return self._host.open_database(path)

    def start_worker(self) -> Worker:
        return self._host.start_worker()

    def open_record(
        self,
        name: str,
        history: int,
        incarnation: int,
        continues: tuple[int, int] | None,
    ) -> EventLog | None:
        prefix = f"{self._room}/"
        log = self._host.open_record(prefix + name, history, incarnation, continues)
        return _RoomLog(log, prefix) if log is not None else None
