"""What is refused, in one line that says what to do, and leaves everything as it was."""

import asyncio
import os
import socket
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from antecede.engine.limits import Limits
from antecede.errors import AntecedeError, ConfigError, LocalError
from antecede.net import Node
from antecede.net.udp import Address, parse_address
from tests.net.running import open_nodes, run

ALL_ADDRESSES = "0.0.0.0:0"


def refusal(act: Callable[[], object]) -> str:
    """Return what is said of an act that is refused."""
    with pytest.raises(AntecedeError) as refused:
        act()
    said = str(refused.value)
    assert "\n" not in said
    return f"{type(refused.value).__name__}: {said}"


def refused_opening(*arguments: object, **options: object) -> str:
    """Return why a node cannot be opened."""

    async def main() -> None:
        async with Node(*arguments, **options):  # type: ignore[arg-type]
            pass

    return refusal(lambda: asyncio.run(main()))


@pytest.mark.parametrize(
    "address",
    ["nowhere", "host:", ":9000", "host:http", "host:70000", 9000, ("a",), b"a:1"],
)
def test_an_address_is_host_and_port(address: object) -> None:
    for options in ({"bind": address}, {"peers": {"b": address}}):
        said = refused_opening("a", **options)
        assert said == (
            f"ConfigError: an address is host:port, as 127.0.0.1:9000, not {address!r}"
        )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:80", ("localhost", 80)),
        ("[::1]:0", ("::1", 0)),
        (("10.0.0.1", 65_535), ("10.0.0.1", 65_535)),
    ],
)
def test_an_address_may_be_text_or_a_pair(text: object, address: Address) -> None:
    assert parse_address(text) == address


def test_an_address_in_use_is_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        host, port = other.getsockname()
        assert refused_opening("a", bind=(host, port)) == (
            f"ConfigError: cannot listen on 127.0.0.1:{port}: Address already in use;"
            " choose another address"
        )


def test_an_address_of_somebody_else_is_refused() -> None:
    said = refused_opening("a", bind="192.0.2.1:0", insecure=True)
    assert said.startswith("ConfigError: cannot listen on 192.0.2.1:0: Cannot assign")
    assert said.endswith("; choose another address")


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 70 + ".invalid"])
def test_a_host_without_address_is_refused(host: str) -> None:
    for options in ({"bind": f"{host}:1"}, {"peers": {"b": f"{host}:1"}}):
        said = refused_opening("a", **options)
        assert said.startswith("ConfigError: no ")
        assert f"address for {host}: " in said
        assert said.endswith("; give a name that resolves")


def test_a_peer_that_the_socket_cannot_reach_is_refused() -> None:
    assert "no IPv4 address for ::1" in refused_opening("a", peers={"b": "[::1]:9"})
    said = refused_opening("a", peers={"b": "127.0.0.1:0"})
    assert said == "ConfigError: b has port 0, where nobody listens; give its own port"


def test_a_name_that_resolves_in_both_versions_is_reached_in_that_of_the_socket() -> None:
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
    for key in (b"", b"short", bytes(33), "x" * 32):
        assert refused_opening("a", key=key) == (
            "ConfigError: a group key is 32 bytes, as secrets.token_bytes makes them"
        )


def test_without_a_key_a_node_listens_on_loopback_only_unless_told() -> None:
    assert refused_opening("a", bind=ALL_ADDRESSES) == (
        "ConfigError: 0.0.0.0 is not loopback: give a group key, or say insecure=True"
    )

    async def main() -> None:
        async with Node("a", bind=ALL_ADDRESSES, insecure=True):
            pass
        pytest.importorskip("cryptography")
        async with Node("a", bind=ALL_ADDRESSES, key=bytes(32)):
            pass

    run(main)


@pytest.mark.parametrize("name", ["", "x" * 256, 7, None])
def test_a_name_is_a_short_text(name: object) -> None:
    said = refusal(lambda: Node(name))  # type: ignore[arg-type]
    assert said == f"ConfigError: a name is a text of 1 to 255 bytes, not {name!r}"


def test_a_node_is_no_peer_of_itself() -> None:
    assert refused_opening("a", peers={"a": "127.0.0.1:9"}) == (
        "ConfigError: a is this node itself; name its peers only"
    )


def test_an_unknown_protocol_is_refused() -> None:
    assert "unknown protocol 'x'; choose one of: hybrid" in refused_opening(
        "a", protocol="x"
    )


def test_what_cannot_be_sent_is_refused_and_changes_nothing() -> None:
    async def main() -> None:
        async with open_nodes("a", "b", limits=Limits(message=1000)) as (a, b):
            for targets, data, said in (
                ("c", b"x", "c is not a peer of a; call add_peer first"),
                ("b", "text", "data must be bytes, not str"),
                ("b", bytearray(b"x"), "data must be bytes, not bytearray"),
                ("b", bytes(1001), "1001 bytes is above the limit of 1000; raise Limits"),
                ([], b"x", "a message needs at least one target"),
                (["b", "c"], b"x", "c is not a peer of a; call add_peer first"),
            ):
                send: Callable[..., Awaitable[int]] = a.multicast
                if isinstance(targets, str):
                    send = a.send
                with pytest.raises(LocalError, match=said):
                    await send(targets, data)
            with pytest.raises(LocalError, match="a list of names, not 'bob'; use send"):
                await a.multicast("bob", b"x")
            assert await a.send("b", bytes(1000)) == 1
            assert (await b.receive()).number == 1
        async with Node("a") as lonely:
            with pytest.raises(LocalError, match="no peer to broadcast to; call add_peer"):
                await lonely.broadcast(b"x")

    run(main)


def test_what_comes_before_opening_or_after_closing_is_refused() -> None:
    async def main() -> None:
        node = Node("a")
        before = "the node is not open; use `async with Node"
        for act in (node.receive, node.flush, lambda: node.send("b", b"")):
            with pytest.raises(LocalError, match=before):
                await act()
        with pytest.raises(LocalError, match=before):
            node.add_peer("b", "127.0.0.1:9")
        await node.close()  # Nothing to close.
        async with node:
            await node.close()
            await node.close()
        for closed in (node.flush, lambda: node.send("b", b""), lambda: node.remove("b")):
            with pytest.raises(LocalError, match="a is closed"):
                await closed()
        with pytest.raises(LocalError, match="a is closed"):
            node.add_peer("b", "127.0.0.1:9")
        with pytest.raises(LocalError, match="a is closed"):
            assert node.address
        with pytest.raises(LocalError, match="the node was opened before; make a new one"):
            await node.open()

    run(main)


def test_a_refused_opening_leaves_nothing_open(tmp_path: Path) -> None:
    async def main() -> None:
        journal = tmp_path / "a.journal"
        before = set(os.listdir("/proc/self/fd"))
        with pytest.raises(ConfigError):
            await Node("a", journal=journal, peers={"b": "nowhere.invalid:1"}).open()
        with pytest.raises(ConfigError):
            await Node("a", journal=journal, protocol="matrix").open()
        async with Node("a", journal=journal):
            with pytest.raises(ConfigError):
                await Node("a", journal=journal).open()
        with pytest.raises(ConfigError):
            await Node("b", journal=journal).open()
        assert set(os.listdir("/proc/self/fd")) == before

    if not Path("/proc/self/fd").exists():
        pytest.skip("optional: network namespaces, which only Linux has, as /proc")
    run(main)


# The journal.


def test_a_journal_of_another_node_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ann.journal"

    async def main() -> None:
        async with Node("ann", journal=path):
            pass

    run(main)
    assert refused_opening("bob", journal=path) == (
        f"ConfigError: {path} is the journal of ann, not of bob; give another file"
    )


def test_a_journal_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ann.journal"

    async def main() -> None:
        async with Node("ann", journal=path):
            with pytest.raises(ConfigError) as refused:
                await Node("ann", journal=path).open()
            assert str(refused.value) == (
                f"{path} is in use by a running node; stop that, or give another file"
            )

    run(main)


def test_a_newer_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ann.journal"

    async def main() -> None:
        async with Node("ann", journal=path):
            pass

    run(main)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version=7")
    database.close()
    assert refused_opening("ann", journal=path) == (
        f"ConfigError: {path} is a journal of version 7, newer than 1; update antecede"
    )


def test_a_file_that_is_no_journal_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no database at all, and long enough to be seen as none " * 20)
    before = text.read_bytes()
    said = refused_opening("a", journal=text)
    assert said.startswith(f"ConfigError: {text} cannot be the journal: ")
    assert said.endswith("; give another file")
    assert text.read_bytes() == before

    other = tmp_path / "other.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE meta (key, value)")
        database.execute("PRAGMA user_version=1")
    database.close()
    before = other.read_bytes()
    assert refused_opening("a", journal=other) == (
        f"ConfigError: {other} is a database, but no journal of a node; give another file"
    )
    assert other.read_bytes() == before

    said = refused_opening("a", journal=tmp_path / "missing" / "a.journal")
    assert "cannot be the journal: unable to open database file; give another" in said


def test_only_hybrid_protocols_keep_a_journal(tmp_path: Path) -> None:
    said = refused_opening("a", journal=tmp_path / "a.journal", protocol="matrix")
    assert said == "ConfigError: matrix cannot keep a journal; use hybrid"
