"""A UDP socket that is read in batches, and uses segmentation offload where it exists.

Linux can split one large buffer into datagrams when transmitting (GSO) and join datagrams
of one sender when receiving (GRO); both save one system call per datagram. Where the
kernel supports neither, the socket handles datagrams one by one.
"""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable, Sequence, Set
from typing import Final, cast

from antecede.engine.ecn import ECT, NOT_ECT
from antecede.errors import ConfigError
from antecede.net.ip_options import (
    CONTROL_BYTES,
    SOL_UDP,
    UDP_GRO,
    forbid_fragments,
    read_control,
    report_marks,
    set_mark,
)

__all__ = [
    "Address",
    "SocketAddress",
    "UdpSocket",
    "is_loopback",
    "parse_address",
    "resolve",
]

Address = tuple[str, int]
"""Host and port."""
SocketAddress = tuple[str | int, ...]
"""An address of the socket module: host and port; for IPv6 also flow info and scope."""

UDP_SEGMENT: Final = 103
"""A Linux constant that the socket module does not define."""
SEGMENTS_MAX: Final = 64
"""The most datagrams that the kernel splits one buffer into."""
BUFFER_MAX: Final = 65_507
RECEIVE_MAX: Final = 65_535
SOCKET_BUFFER: Final = 4 << 20
"""Requested in both directions; the kernel may grant less."""
SO_RCVBUFFORCE: Final = 33
CANNOT_SEGMENT: Final = (errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EOPNOTSUPP)
"""Errors of the kernel if a device or the length of a datagram rules out GSO."""
UNSENT_MAX: Final = 4096
"""The most datagrams that wait until the socket accepts more."""
SINGLES_MAX: Final = 8
"""The number of datagrams that arrived alone after which the socket looks for more
again."""


def parse_address(text: object) -> Address:
    """Return the host and port of ``"host:port"``, ``"[host]:port"`` or a pair.

    Raise ConfigError if ``text`` has another form.
    """
    if isinstance(text, tuple) and len(text) == 2:
        host, port = text
        if isinstance(host, str) and isinstance(port, int) and 0 <= port <= 65_535:
            return host, port
    elif isinstance(text, str):
        host, colon, digits = text.rpartition(":")
        if colon and digits.isdecimal() and int(digits) <= 65_535 and host:
            return host.removeprefix("[").removesuffix("]"), int(digits)
    raise ConfigError(
        f"{text!r} is not a valid address: give host:port, for instance 127.0.0.1:9000"
    )


def is_loopback(host: str) -> bool:
    """Return whether a numeric address is a loopback address."""
    return host.startswith("127.") or host == "::1"


def resolve(
    address: Address, family: socket.AddressFamily = socket.AF_UNSPEC
) -> tuple[socket.AddressFamily, SocketAddress]:
    """Return the family and the numeric address; raise ConfigError if there is none.

    Args:
        address: host, as a name or a number, and port.
        family: the family of the socket that is to reach the address.
    """
    host, port = address
    flags = socket.AI_V4MAPPED if family == socket.AF_INET6 else 0
    try:
        found = socket.getaddrinfo(
            host, port, family=family, type=socket.SOCK_DGRAM, flags=flags
        )
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        version = {socket.AF_INET: "IPv4 ", socket.AF_INET6: "IPv6 "}.get(family, "")
        raise ConfigError(
            f"cannot find an {version}address for {host}: {reason}; give a host name that"
            " resolves, or a numeric address"
        ) from None
    family, _, _, _, numeric = found[0]
    return family, cast("SocketAddress", numeric)


class UdpSocket:
    """A bound, non-blocking UDP socket.

    Args:
        bind: address to listen on; port 0 lets the system choose one.
        segmentation: use GSO and GRO where the kernel supports them.
    """

    def __init__(self, bind: Address, *, segmentation: bool = True) -> None:
        """Bind the socket; raise ConfigError if the address cannot be bound."""
        family, address = resolve(bind)
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            self._bind(address)
        except OSError as error:
            host, port = address[:2]
            raise ConfigError(
                f"cannot bind to {host}:{port}: {error.strerror}; give another address"
            ) from None
        self.gso = segmentation and self._supports(UDP_SEGMENT, 0)
        self.gro = segmentation and self._supports(UDP_GRO, 1)
        forbid_fragments(self._socket)
        self._reads_control = report_marks(self._socket) or self.gro
        self._mark = NOT_ECT  # The mark of the datagrams that are transmitted now.
        self.marked: Set[object] = frozenset()
        """The addresses to which datagrams have the mark ECT(0)."""
        self.on_refused: Callable[[object, int], None] = lambda address, size: None
        """Called with address and size of a datagram that is too large."""
        self.lost = {"queue_full": 0, "too_large": 0, "error": 0}
        """How many datagrams were not transmitted so far, by reason."""
        self._unsent: list[tuple[object, bytes]] = []
        self._singles = 0  # The number of consecutive calls that have read one datagram.
        self._loop: asyncio.AbstractEventLoop | None = None

    def _bind(self, address: SocketAddress) -> None:
        udp = self._socket
        try:
            udp.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                udp.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
            with contextlib.suppress(
                OSError
            ):  # Exceeds the system's limit; needs privileges.
                udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BUFFER)
            udp.bind(address)
        except OSError:
            udp.close()
            raise

    def _supports(self, option: int, value: int) -> bool:
        try:
            self._socket.setsockopt(SOL_UDP, option, value)
        except OSError:
            return False
        return True

    @property
    def family(self) -> socket.AddressFamily:
        """The address family, IPv4 or IPv6."""
        return socket.AddressFamily(self._socket.family)

    @property
    def address(self) -> Address:
        """The address that the socket is bound to."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def resolve(self, address: Address) -> SocketAddress:
        """Return the numeric address to transmit to; raise ConfigError without one."""
        return resolve(address, self.family)[1]

    def fileno(self) -> int:
        """Return the file descriptor, for an event loop."""
        return self._socket.fileno()

    def start_reading(self, on_readable: Callable[[], None]) -> None:
        """Have the event loop call ``on_readable`` whenever datagrams have arrived.

        From then on, the loop also transmits datagrams that the socket could not accept.
        """
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.fileno(), on_readable)

    def receive(self, batch: int) -> list[tuple[bytes, SocketAddress, int]]:
        """Return datagrams that have arrived, with their senders and their marks.

        Stop after ``batch`` datagrams; the last buffer may contain more. Stop after one if
        only one has arrived at each of the last calls: another call of the system would
        find nothing, and costs as much. If there are more, the socket is still readable.
        """
        received: list[tuple[bytes, SocketAddress, int]] = []
        udp = self._socket
        reads_all = self._singles % SINGLES_MAX == 0
        for _ in range(batch if reads_all else 1):
            if len(received) >= batch:
                break
            try:
                if self._reads_control:
                    data, ancillary, _, address = udp.recvmsg(RECEIVE_MAX, CONTROL_BYTES)
                else:
                    data, address = udp.recvfrom(RECEIVE_MAX)
                    ancillary = []
            except BlockingIOError:
                break
            except OSError:
                continue  # An error of a datagram transmitted earlier.
            size, mark = read_control(ancillary)
            if 0 < size < len(data):
                received.extend(
                    (data[start : start + size], address, mark)
                    for start in range(0, len(data), size)
                )
            else:
                received.append((data, address, mark))
        if reads_all:
            self._singles = 1 if len(received) == 1 else 0
        else:
            self._singles += 1
        return received

    def transmit(self, datagrams: Sequence[tuple[object, bytes]]) -> int:
        """Transmit datagrams, and return how many the system has accepted so far.

        While the buffer of the socket is full, the others wait for the event loop; without
        one they are lost, like datagrams that the network drops. :attr:`lost` counts them.
        """
        if self._unsent:
            self._keep(datagrams)
            return 0
        accepted, end = self._transmit_until_full(datagrams)
        if end < len(datagrams):
            self._keep(datagrams[end:])
        return accepted

    def _keep(self, datagrams: Sequence[tuple[object, bytes]]) -> None:
        """Transmit datagrams later, when the socket accepts more."""
        room = UNSENT_MAX - len(self._unsent) if self._loop is not None else 0
        self.lost["queue_full"] += max(0, len(datagrams) - room)
        if room > 0:
            if not self._unsent and self._loop is not None:
                self._loop.add_writer(self.fileno(), self._transmit_unsent)
            self._unsent.extend(datagrams[:room])

    def _transmit_unsent(self) -> None:
        _, end = self._transmit_until_full(self._unsent)
        del self._unsent[:end]
        if not self._unsent and self._loop is not None:
            self._loop.remove_writer(self.fileno())

    def _transmit_until_full(
        self, datagrams: Sequence[tuple[object, bytes]]
    ) -> tuple[int, int]:
        """Return how many datagrams were accepted, and the index of the next one."""
        accepted = 0
        index = 0
        count = len(datagrams)
        single_before = 0  # The end of a run that was refused because of its size.
        marked = self.marked
        while index < count:
            end = index + 1
            if self.gso and end < count and index >= single_before:
                end = self._run_end(datagrams, index)
            address, datagram = datagrams[index]
            mark = ECT if address in marked else NOT_ECT
            if mark != self._mark:
                self._mark = mark
                set_mark(self._socket, mark)
            try:
                if end - index > 1:
                    self._transmit_run(datagrams, index, end)
                else:
                    self._socket.sendto(datagram, address)  # type: ignore[call-overload]
                accepted += end - index
                if index < single_before:
                    self.gso = False  # Each datagram fits: only the run was refused.
            except BlockingIOError:
                break
            except OSError as error:
                if end - index > 1 and error.errno in CANNOT_SEGMENT:
                    single_before = end
                    if error.errno != errno.EMSGSIZE:
                        self.gso = False  # The device does not support it.
                    continue
                reason = "error"
                if error.errno == errno.EMSGSIZE:
                    reason = "too_large"
                    self.on_refused(address, len(datagram))
                self.lost[reason] += end - index
            index = end
        return accepted, index

    def _run_end(self, datagrams: Sequence[tuple[object, bytes]], start: int) -> int:
        """Return the end of the run that one GSO call can transmit.

        A run has one address and one length; only its last datagram may be shorter.
        """
        address, datagram = datagrams[start]
        size = len(datagram)
        total = size
        end = start + 1
        last = min(len(datagrams), start + SEGMENTS_MAX)
        while end < last:
            next_address, following = datagrams[end]
            length = len(following)
            if next_address is not address or not 0 < length <= size:
                break
            if total + length > BUFFER_MAX:
                break
            total += length
            end += 1
            if length < size:
                break
        return end

    def _transmit_run(
        self, datagrams: Sequence[tuple[object, bytes]], start: int, end: int
    ) -> None:
        address, first = datagrams[start]
        segment = struct.pack("H", len(first))
        self._socket.sendmsg(
            [datagram for _, datagram in datagrams[start:end]],
            [(SOL_UDP, UDP_SEGMENT, segment)],
            0,
            address,  # type: ignore[arg-type]
        )

    def close(self) -> None:
        """Stop reading, and close the socket."""
        if self._loop is not None:
            self._loop.remove_reader(self.fileno())
            self._loop.remove_writer(self.fileno())
        self._socket.close()
