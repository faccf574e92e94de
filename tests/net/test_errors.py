"""Errors of a node: one line that names the fix; a failed call changes nothing."""

import asyncio
import os
import socket
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from antecede.engine.limits import Limits
from antecede.errors import AntecedeError, ConfigError, LocalError, StorageError
from antecede.net import Node
from antecede.net.udp import Address, parse_address
from tests.net.harness import open_nodes, run

ALL_ADDRESSES = "0.0.0.0:0"


def error_of(call: Callable[[], object]) -> str:
    """Return type and text of the error that a call raises."""
    with pytest.raises(AntecedeError) as raised:
        call()
    text = str(raised.value)
    assert "\n" not in text
    return f"{type(raised.value).__name__}: {text}"


def open_error(*arguments: object, **options: object) -> str:
    """Return the error of creating and opening a node."""

    async def main() -> None:
        async with Node(*arguments, **options):  # type: ignore[arg-type]
            pass

    return error_of(lambda: asyncio.run(main()))


@pytest.mark.parametrize(
    "address",
    ["nowhere", "host:", ":9000", "host:http", "host:70000", 9000, ("a",), b"a:1"],
)
def test_an_address_without_host_or_port_is_an_error(address: object) -> None:
    for options in ({"bind": address}, {"peers": {"b": address}}):
        error = open_error("a", **options)
        assert error == (
            f"ConfigError: {address!r} is not a valid address: give host:port, for instance"
            " 127.0.0.1:9000"
        )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:80", ("localhost", 80)),
        ("[::1]:0", ("::1", 0)),
        (("10.0.0.1", 65_535), ("10.0.0.1", 65_535)),
    ],
)
def test_an_address_is_a_string_or_a_pair(text: object, address: Address) -> None:
    assert parse_address(text) == address


def test_binding_to_an_address_in_use_is_an_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        host, port = other.getsockname()
        assert open_error("a", bind=(host, port)) == (
            f"ConfigError: cannot bind to 127.0.0.1:{port}: Address already in use;"
            " give another address"
        )


def test_binding_to_an_address_of_another_machine_is_an_error() -> None:
    error = open_error("a", bind="192.0.2.1:0", insecure=True)
    assert error.startswith("ConfigError: cannot bind to 192.0.2.1:0: Cannot assign")
    assert error.endswith("; give another address")


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 70 + ".invalid"])
def test_a_host_that_does_not_resolve_is_an_error(host: str) -> None:
    for options in ({"bind": f"{host}:1"}, {"peers": {"b": f"{host}:1"}}):
        error = open_error("a", **options)
        assert error.startswith("ConfigError: cannot find an ")
        assert f"address for {host}: " in error
        assert error.endswith("; give a host name that resolves, or a numeric address")


def test_a_peer_that_the_socket_cannot_reach_is_an_error() -> None:
    assert "cannot find an IPv4 address for ::1" in open_error("a", peers={"b": "[::1]:9"})
    error = open_error("a", peers={"b": "127.0.0.1:0"})
    assert error == (
        "ConfigError: peer b has port 0, which cannot receive; give the port that it binds"
    )


def test_a_peer_name_resolves_to_the_address_family_of_the_socket() -> None:
    async def main() -> None:
        for bind in ("127.0.0.1:0", "[::1]:0"):
            async with Node("a", bind=bind) as a, Node("b", bind=bind) as b:
                a.add_peer("b", ("localhost" if "." in bind else "::1", b.address[1]))
                b.add_peer("a", a.address)
                await a.send("b", b"found")
                assert (await b.receive()).data == b"found"

    run(main)


def test_a_group_key_has_32_bytes() -> None:
    pytest.importorskip("cryptography")
    for key, got in ((b"", "0 bytes"), (bytes(33), "33 bytes"), ("x" * 32, "str")):
        assert open_error("a", key=key) == (
            f"ConfigError: a group key must have 32 bytes, got {got}; generate one with"
            " secrets.token_bytes(32)"
        )


def test_a_node_without_a_key_binds_to_loopback_only_unless_insecure() -> None:
    assert open_error("a", bind=ALL_ADDRESSES) == (
        "ConfigError: cannot bind to 0.0.0.0 without a group key: only loopback addresses"
        " may be unencrypted; pass key=, or insecure=True"
    )

    async def main() -> None:
        async with Node("a", bind=ALL_ADDRESSES, insecure=True):
            pass
        pytest.importorskip("cryptography")
        async with Node("a", bind=ALL_ADDRESSES, key=bytes(32)):
            pass

    run(main)


@pytest.mark.parametrize("name", ["", "x" * 256, 7, None])
def test_a_name_has_1_to_255_bytes(name: object) -> None:
    error = error_of(lambda: Node(name))  # type: ignore[arg-type]
    assert error == (
        f"ConfigError: {name!r} is not a valid node name: give a string of 1 to 255 bytes"
        " in UTF-8"
    )


def test_a_node_as_its_own_peer_is_an_error() -> None:
    assert open_error("a", peers={"a": "127.0.0.1:9"}) == (
        "ConfigError: a is this node itself; add only its peers"
    )


def test_an_unknown_protocol_is_an_error() -> None:
    assert "unknown protocol 'x'; choose one of: hybrid" in open_error("a", protocol="x")


def test_an_invalid_send_is_an_error_and_changes_nothing() -> None:
    async def main() -> None:
        async with open_nodes("a", "b", limits=Limits(message_bytes_max=100_000)) as (a, b):
            for targets, data, message in (
                ("c", b"x", "c is not a peer of a; call add_peer first"),
                ("b", "text", "data must be bytes, not str"),
                ("b", bytearray(b"x"), "data must be bytes, not bytearray"),
                ("b", bytes(100_001), "100001 bytes is above the limit of 100000; raise"),
                ([], b"x", "a message needs at least one target"),
                (["b", "c"], b"x", "c is not a peer of a; call add_peer first"),
            ):
                send: Callable[..., Awaitable[int]] = a.multicast
                if isinstance(targets, str):
                    send = a.send
                with pytest.raises(LocalError, match=message):
                    await send(targets, data)
            with pytest.raises(
                LocalError, match="a list of names, not the string 'bob'; use send"
            ):
                await a.multicast("bob", b"x")
            assert await a.send("b", bytes(1000)) == 1
            assert (await b.receive()).number == 1
        async with Node("a") as lonely:
            with pytest.raises(
                LocalError, match="a has no peer to broadcast to; call add_"
            ):
                await lonely.broadcast(b"x")

    run(main)


def test_a_call_before_opening_or_after_closing_is_an_error() -> None:
    async def main() -> None:
        node = Node("a")
        before = "a is not open; use `async with Node"
        for call in (node.receive, node.flush, lambda: node.send("b", b"")):
            with pytest.raises(LocalError, match=before):
                await call()
        with pytest.raises(LocalError, match=before):
            node.add_peer("b", "127.0.0.1:9")
        await node.close()  # The node is not open.
        async with node:
            await node.close()
            await node.close()
        for closed in (
            node.flush,
            lambda: node.send("b", b""),
            lambda: node.remove_peer("b"),
        ):
            with pytest.raises(LocalError, match="a is closed"):
                await closed()
        with pytest.raises(LocalError, match="a is closed"):
            node.add_peer("b", "127.0.0.1:9")
        with pytest.raises(LocalError, match="a is closed"):
            assert node.address
        with pytest.raises(
            LocalError, match="a was opened before, and a node opens once; m"
        ):
            await node.open()

    run(main)


@pytest.mark.long
def test_a_failed_opening_leaves_no_file_open(tmp_path: Path) -> None:
    async def main() -> None:
        journal = tmp_path / "a.journal"
        before = set(os.listdir("/proc/self/fd"))
        with pytest.raises(ConfigError):
            await Node("a", journal=journal, peers={"b": "nowhere.invalid:1"}).open()
        with pytest.raises(ConfigError):
            await Node("a", journal=journal, protocol="matrix").open()
        async with Node("a", journal=journal):
            with pytest.raises(StorageError):
                await Node("a", journal=journal).open()
        with pytest.raises(StorageError):
            await Node("b", journal=journal).open()
        assert set(os.listdir("/proc/self/fd")) == before

    if not Path("/proc/self/fd").exists():
        pytest.skip("optional: network namespaces, which only Linux has, as /proc")
    run(main)


# The journal.


def test_a_journal_of_another_node_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "ann.journal"

    async def main() -> None:
        async with Node("ann", journal=path):
            pass

    run(main)
    assert open_error("bob", journal=path) == (
        f"StorageError: cannot open the journal {path}: it belongs to the node ann, not"
        " to bob; give another file"
    )


@pytest.mark.long
def test_a_journal_in_use_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "ann.journal"

    async def main() -> None:
        async with Node("ann", journal=path):
            with pytest.raises(StorageError) as raised:
                await Node("ann", journal=path).open()
            assert str(raised.value) == (
                f"cannot open the journal {path}: a running node uses it; stop that node,"
                " or give another file"
            )

    run(main)


@pytest.mark.parametrize("version", [0, 3, 5])
def test_a_journal_of_another_version_is_an_error(tmp_path: Path, version: int) -> None:
    path = tmp_path / "ann.journal"

    async def main() -> None:
        async with Node("ann", journal=path):
            pass

    run(main)
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version={version}")
    database.close()
    assert open_error("ann", journal=path) == (
        f"StorageError: cannot open the journal {path}: it has format version {version},"
        " and this version of antecede reads only version 4; use the version of antecede"
        " that wrote it, or give another file"
    )


def test_a_file_that_is_not_a_journal_is_an_error_and_stays_unchanged(
    tmp_path: Path,
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be read as one " * 20)
    before = text.read_bytes()
    error = open_error("a", journal=text)
    assert error.startswith(f"StorageError: cannot open the journal {text}: ")
    assert error.endswith("; give another file")
    assert text.read_bytes() == before

    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE meta (key, value)")
        database.execute("PRAGMA user_version=1")
    database.close()
    before = other.read_bytes()
    assert open_error("a", journal=other) == (
        f"StorageError: cannot open the journal {other}: it is an SQLite database, but not"
        " a journal; give another file"
    )
    assert other.read_bytes() == before

    error = open_error("a", journal=tmp_path / "missing" / "a.journal")
    assert "a.journal: unable to open database file; give another file" in error


def test_a_journal_with_a_protocol_other_than_hybrid_is_an_error(tmp_path: Path) -> None:
    error = open_error("a", journal=tmp_path / "a.journal", protocol="matrix")
    assert error == "ConfigError: matrix cannot keep a journal; use hybrid"
