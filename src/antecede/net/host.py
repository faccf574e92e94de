"""What a node takes from the machine that it runs on.

A node reads clocks, draws random numbers, resolves names, and opens its socket and its
journal through a :class:`Host` only. :class:`SystemHost` is the machine itself. An event
loop with an attribute ``host`` supplies another one: :mod:`antecede.testing` simulates it.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol, runtime_checkable

from antecede.core.observer import Observer
from antecede.errors import ConfigError
from antecede.net.clock import now_s
from antecede.net.database import Database, SqliteDatabase
from antecede.net.udp import Address, SocketAddress, UdpSocket

__all__ = [
    "DatagramSocket",
    "EventLog",
    "HasHost",
    "Host",
    "SystemHost",
    "ThreadWorker",
    "Worker",
    "look_up",
    "resolve_peer",
    "running_host",
]


class DatagramSocket(Protocol):
    """A bound socket that never blocks."""

    @property
    def address(self) -> Address:
        """The address that the socket is bound to."""

    @property
    def lost(self) -> Mapping[str, int]:
        """How many datagrams were lost at this socket so far, by reason."""

    on_refused: Callable[[object, int], None]
    """Called with the address and the size of a datagram that is too large for the
    socket."""
    marked: Set[object]
    """The addresses to which datagrams have the mark ECT(0); the engine changes the set."""

    def start_reading(self, on_readable: Callable[[], None]) -> None:
        """Have the event loop call ``on_readable`` whenever datagrams have arrived."""

    def receive(self, batch: int) -> list[tuple[bytes, SocketAddress, int]]:
        """Return datagrams that have arrived, with their senders and their marks.

        There is at least one if any has arrived.

        The socket stays readable if there are more.
        """

    def transmit(self, datagrams: Sequence[tuple[object, bytes]]) -> int:
        """Transmit datagrams, and return how many were accepted."""

    def resolve(self, address: Address) -> SocketAddress:
        """Return the numeric address to transmit to; raise ConfigError without one."""

    def close(self) -> None:
        """Stop reading, and close the socket."""


class Worker(Protocol):
    """Runs functions that wait for the disk, one after the other."""

    def run(
        self, function: Callable[[], None], on_done: Callable[[BaseException | None], None]
    ) -> None:
        """Run a function, and then have the event loop call ``on_done``.

        ``on_done`` gets the exception that the function raised, or None.
        """

    def close(self) -> None:
        """Wait for the function that runs; its ``on_done`` may still be called."""


class EventLog(Protocol):
    """Records the events of one node."""

    @property
    def observer(self) -> Observer:
        """The observer for the engine."""

    @property
    def rows(self) -> int:
        """The number of events so far."""

    def set_name(self, id: int, name: str) -> None:
        """Set the name of a process that events refer to."""

    def flush(self) -> None:
        """Save the events so far, so that a kill does not lose them."""

    def close(self, *, complete: bool) -> None:
        """Finish the record."""


class Host(Protocol):
    """A machine, as a node sees it."""

    def now_s(self) -> float:
        """Return the time of a clock that never runs backwards and is never suspended."""

    def wall_s(self) -> float:
        """Return the time of the wall clock, in seconds since 1970."""

    def random_bits(self, bits: int) -> int:
        """Return a cryptographically secure random number of ``bits`` bits."""

    def bind_socket(self, bind: Address, *, segmentation: bool) -> DatagramSocket:
        """Bind a socket; raise ConfigError if the address cannot be bound."""

    def open_database(self, path: Path) -> Database:
        """Open or create an SQLite file; raise DatabaseError if that is impossible."""

    def start_worker(self) -> Worker:
        """Start a worker for functions that wait for the disk."""

    def open_record(
        self,
        name: str,
        history: int,
        incarnation: int,
        continues: tuple[int, int] | None,
    ) -> EventLog | None:
        """Open the host's own record of the events of a node; None if it has none.

        ``continues`` names the incarnation that has committed last to the journal of the
        node, and the number of its events at that commit.
        """


@runtime_checkable
class HasHost(Protocol):
    """An event loop that supplies the host of the nodes that run on it."""

    host: Host


class ThreadWorker:
    """A worker with a thread, which starts with the first function."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "antecede-journal")

    def run(
        self, function: Callable[[], None], on_done: Callable[[BaseException | None], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._executor, function)
        future.add_done_callback(lambda done: on_done(done.exception()))

    def close(self) -> None:
        self._executor.shutdown()


class SystemHost:
    """The machine itself."""

    now_s = staticmethod(now_s)

    def wall_s(self) -> float:
        return time.time()

    def random_bits(self, bits: int) -> int:
        return secrets.randbits(bits)

    def bind_socket(self, bind: Address, *, segmentation: bool) -> UdpSocket:
        return UdpSocket(bind, segmentation=segmentation)

    def open_database(self, path: Path) -> SqliteDatabase:
        return SqliteDatabase(path)

    def start_worker(self) -> ThreadWorker:
        return ThreadWorker()

    def open_record(
        self,
        name: str,
        history: int,
        incarnation: int,
        continues: tuple[int, int] | None,
    ) -> None:
        return None


def resolve_peer(socket: DatagramSocket, peer: str, address: Address) -> SocketAddress:
    """Return the numeric address of a peer; raise ConfigError if there is none."""
    if address[1] == 0:
        raise ConfigError(
            f"peer {peer} has port 0, which cannot receive; give the port that it binds"
        )
    return socket.resolve(address)


def look_up(
    socket: DatagramSocket,
    address: Address,
    on_done: Callable[[SocketAddress | ConfigError], object],
) -> None:
    """Call ``on_done`` with the numeric address, or with the error if there is none.

    A name is resolved in a thread: a name server that does not answer must not stop the
    event loop.
    """
    loop = asyncio.get_running_loop()

    def resolve() -> SocketAddress | ConfigError:
        try:
            return socket.resolve(address)
        except ConfigError as error:
            return error

    if isinstance(loop, HasHost) or _is_numeric(address[0]):
        on_done(resolve())
    else:
        future = loop.run_in_executor(None, resolve)
        future.add_done_callback(lambda done: done.cancelled() or on_done(done.result()))


def _is_numeric(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def running_host() -> Host:
    """Return the host of the running event loop."""
    loop = asyncio.get_running_loop()
    return loop.host if isinstance(loop, HasHost) else SystemHost()
