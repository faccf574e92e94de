"""The UDP socket of a node."""

import asyncio
import contextlib
import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from antecede.engine.ecn import CE, ECT, NOT_ECT
from antecede.net.ip_options import (
    IP_MTU_DISCOVER,
    IPV6_MTU_DISCOVER,
    PMTUDISC_PROBE,
    SOL_UDP,
    UDP_GRO,
    read_control,
    report_marks,
    set_mark,
)
from antecede.net.udp import (
    UNSENT_MAX,
    UdpSocket,
    is_loopback,
    resolve,
)
from tests.net.harness import LOOPS, run

LOOPBACKS = ["127.0.0.1", "::1"]
SO_NO_CHECK = 11
UDP_NO_CHECK6_TX = 101
UDP_NO_CHECK6_RX = 102
"""Options of Linux that the socket module does not define."""


def receive_all(udp: UdpSocket, count: int) -> list[bytes]:
    received: list[bytes] = []
    while len(received) < count:
        select.select([udp.fileno()], [], [], 30)
        arrived = udp.receive(1000)
        assert arrived, "no datagram arrived for 30 s"
        received += [datagram for datagram, _, _ in arrived]
    return received


@pytest.mark.parametrize("host", LOOPBACKS)
@pytest.mark.parametrize("source", [True, False])
@pytest.mark.parametrize("target", [True, False])
def test_datagrams_arrive_as_transmitted(host: str, source: bool, target: bool) -> None:
    one = UdpSocket((host, 0), segmentation=source)
    other = UdpSocket((host, 0), segmentation=target)
    third = UdpSocket((host, 0), segmentation=target)
    try:
        if not source:
            assert not one.gso
        sizes = [100] * 70 + [50, 50, 100, 0, 1, 1400, 1400, 700, 1400, 40_000, 40_000]
        datagrams = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
        first, second = (resolve(udp.address)[1] for udp in (other, third))
        mixed = [(first if n % 5 else second, d) for n, d in enumerate(datagrams)]
        assert one.transmit([(first, d) for d in datagrams]) == len(datagrams)
        assert receive_all(other, len(datagrams)) == datagrams
        assert one.transmit(mixed) == len(mixed)
        for address, udp in ((first, other), (second, third)):
            own = [d for at, d in mixed if at is address]
            assert receive_all(udp, len(own)) == own
    finally:
        for udp in (one, other, third):
            udp.close()


@pytest.mark.parametrize("host", LOOPBACKS)
def test_segmentation_that_the_kernel_refuses_is_not_used_again(host: str) -> None:
    """Linux segments no datagrams without checksums: it refuses the call with EINVAL."""
    one, other = UdpSocket((host, 0)), UdpSocket((host, 0))
    try:
        if not one.gso:
            pytest.skip("the system has no segmentation offload")
        family = socket.IPPROTO_UDP, UDP_NO_CHECK6_TX
        option = family if host == "::1" else (socket.SOL_SOCKET, SO_NO_CHECK)
        one._socket.setsockopt(*option, 1)
        if host == "::1":
            other._socket.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)
        address = resolve(other.address)[1]
        for attempt in (b"first", b"second"):
            datagrams = [attempt + bytes([n]) * 100 for n in range(20)]
            assert one.transmit([(address, each) for each in datagrams]) == 20
            assert receive_all(other, 20) == datagrams
            assert not one.gso
        assert set(one.lost.values()) == {0}
    finally:
        one.close()
        other.close()


def test_receive_returns_the_address_of_the_sender() -> None:
    for host in LOOPBACKS:
        one, other = UdpSocket((host, 0)), UdpSocket((host, 0))
        try:
            one.transmit([(resolve(other.address)[1], b"question")])
            select.select([other.fileno()], [], [], 30)
            ((_, address, _),) = other.receive(10)
            other.transmit([(address, b"answer")])
            assert receive_all(one, 1) == [b"answer"]
        finally:
            one.close()
            other.close()


def test_receive_returns_at_most_one_batch() -> None:
    one, other = (UdpSocket(("127.0.0.1", 0), segmentation=False) for _ in range(2))
    try:
        address = other.address
        one.transmit([(address, b"%d" % n) for n in range(50)])
        select.select([other.fileno()], [], [], 30)
        assert [len(other.receive(20)) for _ in range(4)] == [20, 20, 10, 0]
    finally:
        one.close()
        other.close()


def test_a_datagram_that_is_too_long_is_lost_and_the_others_arrive() -> None:
    one, other = UdpSocket(("127.0.0.1", 0)), UdpSocket(("127.0.0.1", 0))
    try:
        address = other.address
        too_long = bytes(70_000)
        refused: list[tuple[object, int]] = []
        one.on_refused = lambda *given: refused.append(given)
        assert one.transmit([(address, b"1"), (address, too_long), (address, b"2")]) == 2
        assert receive_all(other, 2) == [b"1", b"2"]
        assert one.lost == {"queue_full": 0, "too_large": 1, "error": 0}
        assert refused == [(address, 70_000)]
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("host", LOOPBACKS)
def test_a_node_forbids_fragments_where_the_system_can(host: str) -> None:
    level, option = socket.IPPROTO_IP, IP_MTU_DISCOVER
    if host == "::1":
        level, option = socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER
    udp = UdpSocket((host, 0))
    try:
        value = udp._socket.getsockopt(level, option)
    except OSError:
        pytest.skip("optional: the option to forbid fragments")
    finally:
        udp.close()
    assert value == PMTUDISC_PROBE


def test_a_datagram_to_an_invalid_address_is_lost_and_the_others_arrive() -> None:
    one, other = UdpSocket(("127.0.0.1", 0)), UdpSocket(("127.0.0.1", 0))
    try:
        nowhere = ("127.0.0.1", 0)
        assert one.transmit([(nowhere, b"1"), (other.address, b"2")]) == 1
        assert receive_all(other, 1) == [b"2"]
        assert one.lost == {"queue_full": 0, "too_large": 0, "error": 1}
    finally:
        one.close()
        other.close()


# A full socket. The kernel empties a UDP socket on loopback at once, so the socket behind
# UdpSocket is a Unix one here: its buffer is full until the receiver has read.


@contextlib.contextmanager
def narrow_socket(directory: Path) -> Iterator[tuple[UdpSocket, socket.socket, str]]:
    """Return a socket whose buffer holds a few datagrams, a receiver, and its address."""
    udp = UdpSocket(("127.0.0.1", 0), segmentation=False)
    udp._socket.close()
    udp._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    udp._socket.setblocking(False)
    udp._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    address = str(directory / "receiver")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address)
        receiver.setblocking(False)
        try:
            yield udp, receiver, address
        finally:
            udp.close()


async def read_all(receiver: socket.socket, count: int) -> list[int]:
    """Read ``count`` numbered datagrams, while the event loop runs."""
    loop = asyncio.get_running_loop()
    return [int(await loop.sock_recv(receiver, 1000)) for _ in range(count)]


@pytest.mark.parametrize("loop", LOOPS)
def test_datagrams_wait_until_the_socket_is_writable(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        with narrow_socket(tmp_path) as (udp, receiver, address):
            udp.start_reading(lambda: None)
            accepted = udp.transmit([(address, b"%d" % n) for n in range(300)])
            assert 0 < accepted < 300
            assert udp.transmit([(address, b"%d" % n) for n in range(300, 310)]) == 0
            await asyncio.sleep(0)
            assert await read_all(receiver, 310) == list(range(310))
            assert udp.transmit([(address, b"310")]) == 1
            assert await read_all(receiver, 1) == [310]
            assert set(udp.lost.values()) == {0}

    run(main, loop)


def test_datagrams_above_the_limit_of_waiting_ones_are_lost(tmp_path: Path) -> None:
    async def main() -> None:
        with narrow_socket(tmp_path) as (udp, receiver, address):
            udp.start_reading(lambda: None)
            total = UNSENT_MAX + 100
            accepted = udp.transmit([(address, b"%d" % n) for n in range(total)])
            udp.transmit([(address, b"lost")] * 5)
            assert udp.lost["queue_full"] == total - accepted - UNSENT_MAX + 5
            arrived = accepted + UNSENT_MAX
            assert await read_all(receiver, arrived) == list(range(arrived))

    run(main)


def test_without_an_event_loop_datagrams_that_do_not_fit_are_lost(tmp_path: Path) -> None:
    with narrow_socket(tmp_path) as (udp, receiver, address):
        accepted = udp.transmit([(address, b"%d" % n) for n in range(300)])
        assert udp.lost == {"queue_full": 300 - accepted, "too_large": 0, "error": 0}
        assert [int(receiver.recv(1000)) for _ in range(accepted)] == list(range(accepted))
        assert udp.transmit([(address, b"next")]) == 1


def test_the_length_of_joined_datagrams_is_read_from_the_ancillary_data() -> None:
    joined = (SOL_UDP, UDP_GRO, struct.pack("i", 1232))
    other = (socket.SOL_SOCKET, 1, b"")
    assert read_control([other, joined]) == (1232, 0)
    assert read_control([(SOL_UDP, UDP_GRO, struct.pack("H", 7))]) == (7, 0)
    assert read_control([other]) == read_control([]) == (0, 0)


@pytest.mark.parametrize("segmentation", [True, False])
@pytest.mark.parametrize("host", [*LOOPBACKS, "::ffff:127.0.0.1"])
def test_datagrams_to_marked_addresses_arrive_with_the_mark(
    host: str, segmentation: bool
) -> None:
    bind = ("::" if ":" in host else host, 0)
    one, other, third = (UdpSocket(bind, segmentation=segmentation) for _ in range(3))
    try:
        if not report_marks(other._socket):
            pytest.skip("optional: the system reports the marks of datagrams")
        first, second = (one.resolve((host, udp.address[1])) for udp in (other, third))
        one.marked = {first}
        mixed = [(first if n % 3 else second, bytes(50)) for n in range(90)]
        assert one.transmit(mixed) == 90
        assert one.transmit([(first, bytes(50))] * 30) == 30
        for udp, count, mark in ((other, 90, ECT), (third, 30, NOT_ECT)):
            received: list[int] = []
            while len(received) < count:
                assert select.select([udp.fileno()], [], [], 30)[0]
                received += [each for _, _, each in udp.receive(1000)]
            assert received == [mark] * count
        set_mark(third._socket, CE)
        third.transmit([(first, b"congested")])
        select.select([other.fileno()], [], [], 30)
        ((_, _, mark),) = other.receive(1)
        assert mark == CE
    finally:
        for udp in (one, other, third):
            udp.close()


def test_loopback_is_recognised() -> None:
    assert all(map(is_loopback, (*LOOPBACKS, "127.9.9.9")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "128.0.0.1")))
