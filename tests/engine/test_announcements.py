"""Strangers announce their names, and nothing is transmitted for an announcement alone."""

import pytest

from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import ANNOUNCE, HEADER, HELLO, read_header
from antecede.engine.limits import Limits
from antecede.engine.overlay_addresses import decode_address, encode_address
from tests.engine.network import Flight, Network

CIPHER = AesGcmDatagramCipher(bytes(32))
LIMITS = Limits(exchange_s=10.0, ping_timeout_s=1.0)


def joined(*names: str) -> Network:
    """Return a network with a founder and nodes that have joined through it."""
    network = Network(protocol="pc-broadcast", cipher=CIPHER, limits=LIMITS)
    network.start("ann")
    for name in names:
        network.start(name, members=["ann"])
        network.add_peers(name, "ann", is_configured=True)
    network.run(5.0)
    return network


def kinds(network: Network, source: str, target: str) -> list[int]:
    return [
        read_header(flight.datagram)[0]
        for flight in network.transmitted
        if (flight.source, flight.target) == (source, target)
    ]


def last_announcement(network: Network) -> Flight:
    """Return the last announcement of bob for ann."""
    return [
        flight
        for flight in network.transmitted
        if (flight.source, flight.target) == ("bob", "ann")
        and read_header(flight.datagram)[0] == ANNOUNCE
    ][-1]


def test_a_stranger_announces_itself_before_its_hello() -> None:
    network = joined("bob")
    assert kinds(network, "bob", "ann")[:2] == [ANNOUNCE, HELLO]
    assert network.engines["ann"].peers() == ["bob"]
    overlay = network.engines["bob"].process.overlay
    assert overlay is not None
    assert not overlay.is_newcomer


def test_a_member_that_knows_the_node_gets_no_announcement() -> None:
    network = joined("bob")
    before = len(network.transmitted)
    network.run(60.0)
    later = [read_header(flight.datagram)[0] for flight in network.transmitted[before:]]
    assert ANNOUNCE not in later


def test_a_replayed_announcement_adds_a_session_and_transmits_nothing() -> None:
    network = joined("bob")
    announcement = last_announcement(network)
    network.stop("bob")
    network.run(120.0)
    ann = network.engines["ann"]
    assert "bob" not in ann.sessions  # It was silent.
    before = len(network.transmitted)
    ann.receive_datagram(announcement.datagram, "elsewhere", network.now)
    network.flush("ann")
    assert "bob" in ann.sessions
    network.run(120.0)
    assert all(f.target != "elsewhere" for f in network.transmitted[before:])
    assert "bob" not in ann.sessions  # It was closed, because nothing used it.


def test_an_announcement_that_does_not_open_is_dropped_and_counted() -> None:
    network = joined("bob")
    datagram = bytearray(last_announcement(network).datagram)
    ann = network.engines["ann"]
    sessions = set(ann.sessions)
    for position in range(1, len(datagram)):
        changed = bytes(byte ^ (index == position) for index, byte in enumerate(datagram))
        ann.receive_datagram(changed, "elsewhere", network.now)
    assert set(ann.sessions) == sessions
    assert network.dropped("ann")["authentication"] == len(datagram) - 1
    ann.receive_datagram(bytes(datagram[: HEADER.size]), "elsewhere", network.now)
    assert set(ann.sessions) == sessions


def test_an_announcement_for_another_node_is_dropped() -> None:
    network = joined("bob", "cid")
    cid = network.engines["cid"]
    before = set(cid.sessions)
    dropped = cid.stats().dropped["unknown_sender"]
    announcement = last_announcement(network)
    cid.receive_datagram(announcement.datagram, "elsewhere", network.now)
    assert set(cid.sessions) == before
    assert cid.stats().dropped["unknown_sender"] == dropped + 1


def test_nodes_without_an_overlay_accept_no_announcement() -> None:
    network = joined("bob")
    announcement = last_announcement(network)
    other = network.start("ann", protocol="hybrid")
    other.receive_datagram(announcement.datagram, "bob", network.now)
    assert other.peers() == []
    assert network.dropped("ann") == {"unknown_sender": 1}


@pytest.mark.parametrize(
    "address", ["ann", ("127.0.0.1", 9000), ("fe80::1", 9000, 0, 3)], ids=str
)
def test_addresses_are_bytes_in_definitions(address: object) -> None:
    assert decode_address(encode_address(address)) == address


@pytest.mark.parametrize("data", [b"", b"\xff", b"a\0b", b"\x0080"])
def test_bytes_that_are_no_address(data: bytes) -> None:
    assert decode_address(data) is None
    assert encode_address(None) == b""
