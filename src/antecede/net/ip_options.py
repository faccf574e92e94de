"""Options of UDP sockets that concern IP: the don't-fragment bit, and marks of congestion.

A system that does not have an option refuses it. Then datagrams have no mark, or the node
cannot read the marks that arrive, which the engine detects (:mod:`antecede.engine.ecn`).
"""

import contextlib
import socket
import sys
from collections.abc import Sequence
from typing import Final

__all__ = [
    "CONTROL_BYTES",
    "SOL_UDP",
    "UDP_GRO",
    "forbid_fragments",
    "read_control",
    "report_marks",
    "set_mark",
]

SOL_UDP: Final = 17
UDP_GRO: Final = 104
IP_MTU_DISCOVER: Final = 10
IPV6_MTU_DISCOVER: Final = 23
PMTUDISC_PROBE: Final = 3
"""Linux constants that the socket module does not define. The last one forbids fragments of
IP, and ignores the path MTU that the kernel has found."""
IP_RECVTOS: Final = getattr(socket, "IP_RECVTOS", 13 if sys.platform == "linux" else 27)
IPV6_RECVTCLASS: Final = getattr(socket, "IPV6_RECVTCLASS", 66)
IPV6_TCLASS: Final = getattr(socket, "IPV6_TCLASS", 67)
MARK_BITS: Final = 3
"""The bits of the type of service of IP that contain the mark."""
MARK_LEVELS: Final = (int(socket.IPPROTO_IP), int(socket.IPPROTO_IPV6))
MARK_KINDS: Final = (int(socket.IP_TOS), int(IPV6_TCLASS), int(IP_RECVTOS))
"""Levels and types of the ancillary data that contain the type of service; BSD and macOS
use the last type."""
LOW_BYTE: Final = 0 if sys.byteorder == "little" else -1
CONTROL_BYTES: Final = 3 * socket.CMSG_SPACE(4) if hasattr(socket, "CMSG_SPACE") else 0
"""Room for all ancillary data of a call: GRO, and marks of IPv4 and IPv6."""


def forbid_fragments(udp: socket.socket) -> None:
    """Set the don't-fragment bit, where the system has the option."""
    if sys.platform == "linux":
        _set(udp, IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_PROBE)


def report_marks(udp: socket.socket) -> bool:
    """Have the system report the mark of each datagram; return whether it does."""
    return hasattr(udp, "recvmsg") and _set(udp, IP_RECVTOS, IPV6_RECVTCLASS, 1)


def set_mark(udp: socket.socket, mark: int) -> bool:
    """Give the next datagrams a mark; return whether the system has accepted it."""
    return _set(udp, socket.IP_TOS, IPV6_TCLASS, mark)


def _set(udp: socket.socket, option: int, option_v6: int, value: int) -> bool:
    """Set an option, for both versions if the socket uses IPv6 with mapped addresses."""
    is_set = False
    options = [(socket.IPPROTO_IP, option)]
    if udp.family == socket.AF_INET6:
        options.append((socket.IPPROTO_IPV6, option_v6))
    for level, number in options:
        with contextlib.suppress(OSError):
            udp.setsockopt(level, number, value)
            is_set = True
    return is_set


def read_control(ancillary: Sequence[tuple[int, int, bytes]]) -> tuple[int, int]:
    """Return the length of the datagrams that GRO has joined, and their mark.

    The length is 0 if there is one datagram, and the mark 0 if there is none.
    """
    size = 0
    mark = 0
    for level, kind, data in ancillary:
        if level in MARK_LEVELS:
            if data and kind in MARK_KINDS:
                mark = data[LOW_BYTE] & MARK_BITS
        elif level == SOL_UDP and kind == UDP_GRO and len(data) >= 2:
            size = int.from_bytes(data[:4], sys.byteorder)
    return size, mark
