"""Nodes with a journal that are closed or killed, and restarted."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from antecede.errors import LocalError
from antecede.net import Node
from antecede.net.faults import Faults
from antecede.net.proxy import Proxy, open_proxy
from tests.net.harness import LOOPS, receive_many, run, stays_pending, wait_until
from tests.net.limits import quick_limits

pytestmark = pytest.mark.parametrize("loop", LOOPS)


class JournaledGroup:
    """Nodes with journals in one directory, on one network."""

    def __init__(self, directory: Path, proxy: Proxy) -> None:
        self.directory = directory
        self.proxy = proxy

    async def open(self, name: str, **options: object) -> Node:
        """Open or reopen a node, with all nodes of the network as peers."""
        path = self.directory / f"{name}.journal"
        node = Node(name, journal=path, limits=quick_limits(), **options)  # type: ignore[arg-type]
        await node.open()
        await self.proxy.add(name, node.address)
        for peer, endpoint in self.proxy.peers_of(name).items():
            node.add_peer(peer, endpoint)
        return node

    async def open_all(self, *names: str) -> list[Node]:
        nodes = [await self.open(name) for name in names]
        for node in nodes:
            for peer, endpoint in self.proxy.peers_of(node.name).items():
                node.add_peer(peer, endpoint)
        return nodes


def test_messages_are_redelivered_until_they_are_committed(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            group = JournaledGroup(tmp_path, proxy)
            a, b = await group.open_all("a", "b")
            for number in range(4):
                await a.send("b", b"%d" % number)
            await a.send("b", b"x" * 50_000)
            first = await receive_many(b, 5)
            await first[1].commit()
            await first[1].commit()  # The second call has no effect.
            await a.flush()
            await b.close(0)
            await a.send("b", b"while it was down")

            b = await group.open("b")
            redelivered = await receive_many(b, 5)
            expected = [(m.source, m.number, m.data) for m in (*first[:1], *first[2:])]
            assert [(m.source, m.number, m.data) for m in redelivered[:4]] == expected
            assert redelivered[4].data == b"while it was down"
            for message in redelivered:
                await message.commit()
            await b.close()

            b = await group.open("b")
            await a.send("b", b"new")
            assert (await b.receive()).data == b"new"
            await b.close()
            with pytest.raises(
                LocalError, match="cannot commit a:1: b is closed; the message"
            ):
                await first[0].commit()
            await a.close()

    run(main, loop)


def test_accepted_messages_are_delivered_after_a_restart_of_the_sender(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            group = JournaledGroup(tmp_path, proxy)
            a, b, c = await group.open_all("a", "b", "c")
            proxy.injector.partition(["a"], ["b", "c"])
            sent = [
                await a.send("b", b"1"),
                await a.multicast(["b", "c"], b"2" * 40_000),
                await a.multicast(["a", "c"], b"3"),
            ]
            assert (await a.receive()).data == b"3"
            await a.close(0)
            a = await group.open("a")
            proxy.injector.heal()
            assert (await a.receive()).data == b"3"  # It was not committed.
            assert [(m.number, len(m.data)) for m in await receive_many(b, 2)] == [
                (sent[0], 1),
                (sent[1], 40_000),
            ]
            assert [m.number for m in await receive_many(c, 2)] == sent[1:]
            assert await a.send("b", b"4") == sent[2] + 1
            assert (await b.receive()).data == b"4"
            for node in (a, b, c):
                await node.close()

    run(main, loop)


def test_causal_order_holds_across_a_restart(loop: str, tmp_path: Path) -> None:
    """Messages sent after the restart wait for permits missing before it."""

    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            group = JournaledGroup(tmp_path, proxy)
            a, b, c = await group.open_all("a", "b", "c")
            proxy.injector.partition("a", "c")
            await a.send("c", b"first")
            await a.send("b", b"second")
            assert (await b.receive()).data == b"second"
            await b.send("c", b"third")
            await b.close(0)
            b = await group.open("b")
            await b.send("c", b"fourth")
            receiving = asyncio.create_task(receive_many(c, 3))
            assert await stays_pending(receiving)
            assert c.engine.stats().delivered == 0
            proxy.injector.heal()
            assert [m.data for m in await receiving] == [b"first", b"third", b"fourth"]
            for node in (a, b, c):
                await node.close()

    run(main, loop)


def test_a_restarted_node_contacts_the_peers_of_its_journal(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            group = JournaledGroup(tmp_path, proxy)
            a, b = await group.open_all("a", "b")
            await b.send("a", b"0")
            await receive_many(a, 1)
            await b.flush()
            proxy.injector.partition("a", "b")
            await a.send("b", b"1")
            await a.close(0)
            async with Node(
                "a", journal=tmp_path / "a.journal", limits=quick_limits()
            ) as a:
                await proxy.add("a", a.address)
                proxy.injector.heal()
                assert (await a.receive()).data == b"0"
                await b.send("a", b"2")
                assert (await a.receive()).data == b"2"
                assert (await b.receive()).data == b"1"
            await b.close()

    run(main, loop)


@pytest.mark.long
def test_a_partly_sent_message_is_discarded_after_a_restart(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            group = JournaledGroup(tmp_path, proxy)
            a, b = await group.open_all("a", "b")
            proxy.injector.partition("a", "b")
            sending = asyncio.create_task(a.send("b", b"1" * 900_000))
            assert await stays_pending(sending)  # The window has room for a quarter of it.
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            proxy.injector.heal()
            await a.flush()
            await b.close(0)
            b = await group.open("b")
            await a.send("b", b"2" * 50_000)
            message = await b.receive()
            assert message.data == b"2" * 50_000
            await b.close(0)
            b = await group.open("b")
            message = await b.receive()
            assert message.data == b"2" * 50_000
            await message.commit()
            await a.flush()
            await wait_until(lambda: not b.engine.stats().dropped["frame"])
            await b.close()
            b = await group.open("b")
            await a.send("b", b"3")
            assert (await b.receive()).data == b"3"
            for node in (a, b):
                await node.close()

    run(main, loop)


def test_concurrent_sends_with_a_journal_keep_their_order(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            a, b = await JournaledGroup(tmp_path, proxy).open_all("a", "b")
            sends = [a.send("b", b"%d" % index) for index in range(200)]
            assert await asyncio.gather(*sends) == list(range(1, 201))
            assert [int(m.data) for m in await receive_many(b, 200)] == list(range(200))
            for node in (a, b):
                await node.close()

    run(main, loop)


DISK_FULL = """
import asyncio, json, resource, sys
from antecede.errors import StorageError
from antecede.net import Node

async def main():
    node = Node("a", journal=sys.argv[1], peers={"b": "127.0.0.1:9"})
    await node.open()
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    reading = asyncio.create_task(node.receive())
    flushing = asyncio.create_task(node.flush())
    accepted, failure = 0, ""
    async with asyncio.timeout(50):
        while not failure:
            try:
                await node.send("b", b"x" * 1000)
                accepted += 1
            except StorageError as error:
                failure = str(error)
        others = await asyncio.gather(reading, flushing, return_exceptions=True)
        late = await asyncio.gather(node.send("b", b"x"), return_exceptions=True)
    await node.close()
    print(json.dumps([accepted, failure, [str(other) for other in others + late]]))

asyncio.run(main())
"""


@pytest.mark.long
def test_a_failed_write_of_the_journal_closes_the_node_with_an_error(
    loop: str, tmp_path: Path
) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop", reason="optional: uvloop")
    path = tmp_path / "a.journal"
    child = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(path)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert child.returncode == 0, child.stderr
    accepted, failure, others = json.loads(child.stdout)
    assert failure.startswith(f"cannot write the journal {path}: ")
    assert failure.endswith("; free disk space, and restart the node")
    assert others == [failure] * 3

    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            a, b = await JournaledGroup(tmp_path, proxy).open_all("a", "b")
            received = await receive_many(b, accepted)
            assert [m.number for m in received] == list(range(1, accepted + 1))
            for node in (a, b):
                await node.close()

    assert accepted > 10
    run(main, loop)


KILLED_AFTER_CALL = """
import asyncio, os, sys
from antecede.net import Node

async def main():
    node = Node("a", journal=sys.argv[1], peers={"b": "127.0.0.1:9"})
    await node.open()
    await asyncio.gather(node.send("a", b"1"), node.send("a", b"2"), node.send("b", b"3"))
    first, second = await node.receive(), await node.receive()
    if sys.argv[2] == "commit":
        await node.multicast(["a", "b"], b"4")
        await second.commit()
    else:
        await second.commit()
        await node.multicast(["a", "b"], b"4")
    os._exit(9)

asyncio.run(main())
"""


@pytest.mark.parametrize("last_call", ["commit", "send"])
def test_sends_and_commits_just_before_a_kill_are_durable(
    loop: str, tmp_path: Path, last_call: str
) -> None:
    command = [
        sys.executable,
        "-c",
        KILLED_AFTER_CALL,
        str(tmp_path / "a.journal"),
        last_call,
    ]
    assert subprocess.run(command, timeout=100).returncode == 9

    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            a, b = await JournaledGroup(tmp_path, proxy).open_all("a", "b")
            assert [m.data for m in await receive_many(a, 2)] == [b"1", b"4"]
            assert [m.data for m in await receive_many(b, 2)] == [b"3", b"4"]
            assert await a.send("b", b"5") == 5
            for node in (a, b):
                await node.close()

    run(main, loop)
