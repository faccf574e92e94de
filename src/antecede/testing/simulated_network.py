"""A simulated UDP network."""

from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import Final, Protocol

from antecede.engine.ecn import CE, ECT, NOT_ECT
from antecede.errors import ConfigError
from antecede.net.faults import FaultInjector
from antecede.net.udp import Address, SocketAddress

__all__ = ["Machine", "SimulatedNetwork", "SimulatedSocket"]

FIRST_FREE_PORT: Final = 49_152
"""The first port that the network chooses for a socket that is bound to port 0."""
BUFFER_BYTES: Final = 4 << 20
"""The bytes that wait in a socket; a datagram that arrives beyond them is lost."""
ANY_ADDRESS: Final = ("0.0.0.0", "::", "")
"""Hosts that stand for every address of the machine."""
INVALID: Final = ".invalid"
"""The end of names that never resolve (RFC 6761)."""
CAPTURED_MAX: Final = 64
"""How many datagrams the network keeps for :attr:`SimulatedNetwork.captured`."""


class Machine(Protocol):
    """The part of a simulated process that the network uses."""

    name: str

    @property
    def ip(self) -> str:
        """The address of the machine."""

    def post(self, callback: Callable[[], None]) -> None:
        """Call a function on the event loop of the process."""


class SimulatedNetwork:
    """Carries datagrams between the sockets of simulated processes.

    Args:
        injector: decides which datagrams arrive, and when.
        now_s: returns the time of the simulation.
        call_later: schedules a call after some seconds of the simulation.
    """

    def __init__(
        self,
        injector: FaultInjector,
        now_s: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self.injector = injector
        self.captured: deque[tuple[Address, Address, bytes]] = deque(maxlen=CAPTURED_MAX)
        """Source, target and content of the last datagrams, for hostile replays."""
        self._now_s = now_s
        self._call_later = call_later
        self._sockets: dict[Address, SimulatedSocket] = {}
        self._ips: dict[str, str] = {"localhost": "127.0.0.1"}
        self._machines = 0
        self._next_port = FIRST_FREE_PORT

    def ip_of(self, name: str) -> str:
        """Return the address of a machine, which may be started later."""
        if name not in self._ips:
            self._ips[name] = self._new_ip()
        return self._ips[name]

    def _new_ip(self) -> str:
        self._machines += 1
        return f"10.0.{self._machines >> 8}.{self._machines & 255}"

    def resolve(self, host: str) -> str:
        """Return the numeric address of a host.

        Every name is that of a machine, except names that end in ``.invalid``, for which
        this raises ConfigError.
        """
        if host.endswith(INVALID):
            raise ConfigError(
                f"cannot find an address for {host}: names in {INVALID} do not resolve"
            )
        is_numeric = all(part.isdecimal() for part in host.split("."))
        return host if is_numeric or ":" in host else self.ip_of(host)

    def bind(self, machine: Machine, address: Address) -> "SimulatedSocket":
        """Bind a socket of a process; raise ConfigError if the address is in use."""
        host, port = address
        numeric = machine.ip if host in ANY_ADDRESS else self.resolve(host)
        if port == 0:
            port = self._next_port
            self._next_port += 1
        if (numeric, port) in self._sockets:
            raise ConfigError(
                f"cannot bind to {host}:{port}: another node uses it; give another address"
            )
        socket = SimulatedSocket(self, machine, (numeric, port))
        self._sockets[socket.address] = socket
        return socket

    def close(self, socket: "SimulatedSocket") -> None:
        """Deliver no more datagrams to a socket."""
        if self._sockets.get(socket.address) is socket:
            del self._sockets[socket.address]

    def sockets_of(self, machine: Machine) -> list["SimulatedSocket"]:
        """Return the open sockets of a process."""
        return [socket for socket in self._sockets.values() if socket.machine is machine]

    def move(self, machine: Machine) -> str:
        """Give a machine and its sockets another address, and return it.

        Datagrams to the old address are lost.
        """
        sockets = self.sockets_of(machine)
        self._ips[machine.name] = ip = self._new_ip()
        for socket in sockets:
            del self._sockets[socket.address]
            socket.address = (ip, socket.address[1])
            self._sockets[socket.address] = socket
        return ip

    def transmit(
        self, source: "SimulatedSocket", target: Address, datagram: bytes, mark: int
    ) -> None:
        """Carry a datagram to the socket with an address, unless a fault prevents it."""
        self.captured.append((source.address, target, datagram))
        receiver = self._sockets.get(target)
        if receiver is None:
            return
        link = source.machine.name, receiver.machine.name
        now = self._now_s()
        if mark == ECT and self.injector.marks(*link, now):
            mark = CE
        for delay_s in self.injector.delays(*link, len(datagram), now):
            self._carry(delay_s, source.address, target, datagram, mark)

    def _carry(
        self, delay_s: float, source: Address, target: Address, datagram: bytes, mark: int
    ) -> None:
        self._call_later(delay_s, lambda: self.inject(source, target, datagram, mark))

    def inject(
        self, source: Address, target: Address, datagram: bytes, mark: int = NOT_ECT
    ) -> None:
        """Let a datagram arrive now, as if it came from the address ``source``."""
        receiver = self._sockets.get(target)
        if receiver is not None:
            receiver.arrive(datagram, source, mark)


class SimulatedSocket:
    """A bound socket of a simulated process."""

    def __init__(
        self, network: SimulatedNetwork, machine: Machine, address: Address
    ) -> None:
        self.machine = machine
        self.address = address
        self.marked: Set[object] = frozenset()
        self.lost = {"buffer_full": 0}
        """Datagrams that were lost at this socket, by reason."""
        self.on_refused: Callable[[object, int], None] = lambda address, size: None
        """Never called: the links drop datagrams that are too large."""
        self._network = network
        self._arrived: deque[tuple[bytes, Address, int]] = deque()
        self._arrived_bytes = 0
        self._on_readable: Callable[[], None] | None = None
        self._is_posted = False

    def resolve(self, address: Address) -> SocketAddress:
        return self._network.resolve(address[0]), address[1]

    def start_reading(self, on_readable: Callable[[], None]) -> None:
        self._on_readable = on_readable
        self._post()

    def receive(self, batch: int) -> list[tuple[bytes, SocketAddress, int]]:
        received: list[tuple[bytes, SocketAddress, int]] = []
        while self._arrived and len(received) < batch:
            arrival = self._arrived.popleft()
            self._arrived_bytes -= len(arrival[0])
            received.append(arrival)
        return received

    def transmit(self, datagrams: Sequence[tuple[object, bytes]]) -> int:
        for address, datagram in datagrams:
            if isinstance(address, tuple):
                mark = ECT if address in self.marked else NOT_ECT
                self._network.transmit(self, address, bytes(datagram), mark)
        return len(datagrams)

    def arrive(self, datagram: bytes, source: Address, mark: int) -> None:
        """Put a datagram into the buffer, and wake the event loop of the process."""
        if self._arrived_bytes + len(datagram) > BUFFER_BYTES:
            self.lost["buffer_full"] += 1
            return
        self._arrived.append((datagram, source, mark))
        self._arrived_bytes += len(datagram)
        self._post()

    def _post(self) -> None:
        if self._arrived and self._on_readable is not None and not self._is_posted:
            self._is_posted = True
            self.machine.post(self._read)

    def _read(self) -> None:
        self._is_posted = False
        if self._arrived and self._on_readable is not None:
            self._on_readable()
            self._post()

    def close(self) -> None:
        self._on_readable = None
        self._network.close(self)
