"""A UDP socket of our own: drained in batches, and with segmentation where there is any.

Linux can cut one large buffer into datagrams on its way out (GSO) and put datagrams of one
sender together on their way in (GRO); both save a system call for each datagram. Where the
kernel offers neither, datagrams go one by one.
"""

import contextlib
import errno
import socket
import struct
from collections.abc import Sequence
from typing import Final, cast

from antecede.errors import ConfigError

__all__ = [
    "Address",
    "SocketAddress",
    "UdpSocket",
    "is_loopback",
    "parse_address",
    "resolve",
    "segment_size",
]

Address = tuple[str, int]
"""Host and port."""
SocketAddress = tuple[str | int, ...]
"""What the system calls an address: host, port, and for IPv6 two more."""

SOL_UDP: Final = 17
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
"""Constants of Linux, which the socket module does not name."""
SEGMENTS_MAX: Final = 64
"""The kernel cuts no more than this many datagrams out of one buffer."""
BUFFER_MAX: Final = 65_507
RECEIVE_MAX: Final = 65_535
SOCKET_BUFFER: Final = 4 << 20
"""Asked for in both directions; the kernel may give less."""
SO_RCVBUFFORCE: Final = 33
CANNOT_CUT: Final = (errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.EOPNOTSUPP)
"""What the kernel answers if a device, or a datagram's length, does not allow cutting."""
CONTROL_BYTES: Final = socket.CMSG_SPACE(4) if hasattr(socket, "CMSG_SPACE") else 0


def parse_address(text: object) -> Address:
    """Return host and port of ``"host:port"``, ``"[host]:port"`` or a pair.

    Raise ConfigError, which says what is expected, if it is neither.
    """
    if isinstance(text, tuple) and len(text) == 2:
        host, port = text
        if isinstance(host, str) and isinstance(port, int) and 0 <= port <= 65_535:
            return host, port
    elif isinstance(text, str):
        host, colon, digits = text.rpartition(":")
        if colon and digits.isdecimal() and int(digits) <= 65_535 and host:
            return host.removeprefix("[").removesuffix("]"), int(digits)
    raise ConfigError(f"an address is host:port, as 127.0.0.1:9000, not {text!r}")


def is_loopback(host: str) -> bool:
    """Tell whether a numeric address is this machine's own."""
    return host.startswith("127.") or host == "::1"


def resolve(
    address: Address, family: socket.AddressFamily = socket.AF_UNSPEC
) -> tuple[socket.AddressFamily, SocketAddress]:
    """Return the family and the numeric address; raise ConfigError if there is none.

    Give the family of the socket that is to reach it.
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
            f"no {version}address for {host}: {reason}; give a name that resolves"
        ) from None
    family, _, _, _, where = found[0]
    return family, cast("SocketAddress", where)


class UdpSocket:
    """A bound, non-blocking UDP socket.

    Args:
        bind: where to listen; port 0 lets the system choose.
        segmentation: use GSO and GRO where the kernel has them.
    """

    def __init__(self, bind: Address, *, segmentation: bool = True) -> None:
        """Bind; raise ConfigError if that cannot be done."""
        family, where = resolve(bind)
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            self._listen(where)
        except OSError as error:
            host, port = where[:2]
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another address"
            ) from None
        self.gso = segmentation and self._offers(UDP_SEGMENT, 0)
        self.gro = segmentation and self._offers(UDP_GRO, 1)

    def _listen(self, where: SocketAddress) -> None:
        udp = self._socket
        try:
            udp.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                udp.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
            with contextlib.suppress(OSError):  # Beyond the system's limit, if we may.
                udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BUFFER)
            udp.bind(where)
        except OSError:
            udp.close()
            raise

    def _offers(self, option: int, value: int) -> bool:
        try:
            self._socket.setsockopt(SOL_UDP, option, value)
        except OSError:
            return False
        return True

    @property
    def family(self) -> socket.AddressFamily:
        """IPv4 or IPv6."""
        return socket.AddressFamily(self._socket.family)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that was chosen."""
        where = self._socket.getsockname()
        return str(where[0]), int(where[1])

    def fileno(self) -> int:
        """Return the descriptor, for an event loop."""
        return self._socket.fileno()

    def receive(self, batch: int) -> list[tuple[bytes, SocketAddress]]:
        """Return up to about ``batch`` datagrams that have come, with their senders."""
        received: list[tuple[bytes, SocketAddress]] = []
        udp = self._socket
        for _ in range(batch):
            if len(received) >= batch:
                break
            try:
                if self.gro:
                    data, ancillary, _, address = udp.recvmsg(RECEIVE_MAX, CONTROL_BYTES)
                else:
                    data, address = udp.recvfrom(RECEIVE_MAX)
                    ancillary = []
            except BlockingIOError:
                break
            except OSError:
                continue  # An error that some earlier datagram has met with.
            size = segment_size(ancillary)
            if 0 < size < len(data):
                received.extend(
                    (data[start : start + size], address)
                    for start in range(0, len(data), size)
                )
            else:
                received.append((data, address))
        return received

    def transmit(self, datagrams: Sequence[tuple[object, bytes]]) -> int:
        """Transmit datagrams, and return how many the system has taken.

        What it has not taken is lost, as anything may be on its way.
        """
        taken = 0
        index = 0
        count = len(datagrams)
        while index < count:
            end = index + 1
            if self.gso:
                end = self._run(datagrams, index)
            try:
                if end - index > 1:
                    self._transmit_run(datagrams, index, end)
                else:
                    address, datagram = datagrams[index]
                    self._socket.sendto(datagram, address)  # type: ignore[call-overload]
                taken += end - index
            except BlockingIOError:
                break
            except OSError as error:
                if end - index > 1 and error.errno in CANNOT_CUT:
                    self.gso = False  # The way out cannot: do it here from now on.
                    continue
            index = end
        return taken

    def _run(self, datagrams: Sequence[tuple[object, bytes]], start: int) -> int:
        """Return the end of a run to one address, of one length but for the last."""
        address, datagram = datagrams[start]
        size = len(datagram)
        total = size
        end = start + 1
        last = min(len(datagrams), start + SEGMENTS_MAX)
        while end < last:
            where, following = datagrams[end]
            length = len(following)
            if where is not address or not 0 < length <= size:
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
        """Give the socket back."""
        self._socket.close()


def segment_size(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    """Return the length of the datagrams that were put together, 0 if none were."""
    for level, kind, data in ancillary:
        if level == SOL_UDP and kind == UDP_GRO and len(data) >= 2:
            return int(struct.unpack_from("H" if len(data) < 4 else "i", data)[0])
    return 0
