"""Nodes that keep a journal, and come back."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from antecede.errors import LocalError
from antecede.net import Node
from antecede.net.proxy import Faults, Proxy, open_proxy
from tests.net.bounds import quick_limits
from tests.net.running import LOOPS, is_waiting, run, take, until

pytestmark = pytest.mark.parametrize("loop", LOOPS)


class Place:
    """A network and a directory of journals, where nodes come back to."""

    def __init__(self, directory: Path, proxy: Proxy) -> None:
        self.directory = directory
        self.proxy = proxy

    async def open(self, name: str, **options: object) -> Node:
        """Open a node, or open it again, and let all know each other."""
        path = self.directory / f"{name}.journal"
        node = Node(name, journal=path, limits=quick_limits(), **options)  # type: ignore[arg-type]
        await node.open()
        await self.proxy.add(name, node.address)
        for peer, front in self.proxy.others(name).items():
            node.add_peer(peer, front)
        return node

    async def open_all(self, *names: str) -> list[Node]:
        nodes = [await self.open(name) for name in names]
        for node in nodes:
            for peer, front in self.proxy.others(node.name).items():
                node.add_peer(peer, front)
        return nodes


def test_what_is_not_done_is_handed_over_again_and_what_is_done_never(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            place = Place(tmp_path, proxy)
            a, b = await place.open_all("a", "b")
            for number in range(4):
                await a.send("b", b"%d" % number)
            await a.send("b", b"x" * 50_000)
            first = await take(b, 5)
            first[1].done()
            first[1].done()  # Twice is as good as once.
            await a.flush()
            await b.close(0)
            await a.send("b", b"while it was down")

            b = await place.open("b")
            again = await take(b, 5)
            expected = [(m.source, m.number, m.data) for m in (*first[:1], *first[2:])]
            assert [(m.source, m.number, m.data) for m in again[:4]] == expected
            assert again[4].data == b"while it was down"
            for message in again:
                message.done()
            await b.close()

            b = await place.open("b")
            await a.send("b", b"new")
            assert (await b.receive()).data == b"new"
            await b.close()
            with pytest.raises(LocalError, match="b is closed; a:1 will be handed over"):
                first[0].done()
            await a.close()

    run(main, loop)


def test_what_was_accepted_is_delivered_although_the_sender_was_down(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            place = Place(tmp_path, proxy)
            a, b, c = await place.open_all("a", "b", "c")
            proxy.fate.part(["a"], ["b", "c"])
            sent = [
                await a.send("b", b"1"),
                await a.multicast(["b", "c"], b"2" * 40_000),
                await a.multicast(["a", "c"], b"3"),
            ]
            assert (await a.receive()).data == b"3"
            await a.close(0)
            a = await place.open("a")
            proxy.fate.heal()
            assert (await a.receive()).data == b"3"  # It was not done.
            assert [(m.number, len(m.data)) for m in await take(b, 2)] == [
                (sent[0], 1),
                (sent[1], 40_000),
            ]
            assert [m.number for m in await take(c, 2)] == sent[1:]
            assert await a.send("b", b"4") == sent[2] + 1
            assert (await b.receive()).data == b"4"
            for node in (a, b, c):
                await node.close()

    run(main, loop)


def test_causal_order_holds_across_a_restart(loop: str, tmp_path: Path) -> None:
    """What was delivered before the restart still holds back what is sent after it."""

    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            place = Place(tmp_path, proxy)
            a, b, c = await place.open_all("a", "b", "c")
            proxy.fate.part("a", "c")
            await a.send("c", b"first")
            await a.send("b", b"second")
            assert (await b.receive()).data == b"second"
            await b.send("c", b"third")
            await b.close(0)
            b = await place.open("b")
            await b.send("c", b"fourth")
            receiving = asyncio.create_task(take(c, 3))
            assert await is_waiting(receiving)
            assert c.engine.stats().delivered == 0
            proxy.fate.heal()
            assert [m.data for m in await receiving] == [b"first", b"third", b"fourth"]
            for node in (a, b, c):
                await node.close()

    run(main, loop)


def test_a_peer_that_is_not_named_after_the_restart_goes_on_when_it_is_added(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            place = Place(tmp_path, proxy)
            a, b = await place.open_all("a", "b")
            await b.send("a", b"0")
            await take(a, 1)
            await b.flush()
            proxy.fate.part("a", "b")
            await a.send("b", b"1")
            await a.close(0)
            async with Node(
                "a", journal=tmp_path / "a.journal", limits=quick_limits()
            ) as a:
                await proxy.add("a", a.address)
                proxy.fate.heal()
                assert (await a.receive()).data == b"0"
                await b.send("a", b"2")
                assert await is_waiting(asyncio.ensure_future(b.flush()))
                a.add_peer("b", proxy.fronts["b"])
                assert (await a.receive()).data == b"2"
                assert (await b.receive()).data == b"1"
            await b.close()

    run(main, loop)


def test_a_message_given_up_half_way_leaves_nothing_behind(
    loop: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            place = Place(tmp_path, proxy)
            a, b = await place.open_all("a", "b")
            proxy.fate.part("a", "b")
            sending = asyncio.create_task(a.send("b", b"1" * 900_000))
            assert await is_waiting(sending)  # The window holds a quarter of it.
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            proxy.fate.heal()
            await a.flush()
            await b.close(0)
            b = await place.open("b")
            await a.send("b", b"2" * 50_000)
            message = await b.receive()
            assert message.data == b"2" * 50_000
            await b.close(0)
            b = await place.open("b")
            message = await b.receive()
            assert message.data == b"2" * 50_000
            message.done()
            await a.flush()
            await until(lambda: not b.engine.stats().dropped["frame"])
            await b.close()
            b = await place.open("b")
            await a.send("b", b"3")
            assert (await b.receive()).data == b"3"
            for node in (a, b):
                await node.close()

    run(main, loop)


def test_senders_that_wait_for_the_disk_share_its_writes(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            a, b = await Place(tmp_path, proxy).open_all("a", "b")
            sends = [a.send("b", b"%d" % place) for place in range(200)]
            assert await asyncio.gather(*sends) == list(range(1, 201))
            assert [int(m.data) for m in await take(b, 200)] == list(range(200))
            for node in (a, b):
                await node.close()

    run(main, loop)


FILLED_DISK = """
import asyncio, json, resource, sys
from antecede.errors import ConfigError
from antecede.net import Node

async def main():
    node = Node("a", journal=sys.argv[1], peers={"b": "127.0.0.1:9"})
    await node.open()
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    reading = asyncio.create_task(node.receive())
    flushing = asyncio.create_task(node.flush())
    accepted, said = 0, ""
    async with asyncio.timeout(50):
        while not said:
            try:
                await node.send("b", b"x" * 1000)
                accepted += 1
            except ConfigError as error:
                said = str(error)
        others = await asyncio.gather(reading, flushing, return_exceptions=True)
        late = await asyncio.gather(node.send("b", b"x"), return_exceptions=True)
    await node.close()
    print(json.dumps([accepted, said, [str(other) for other in others + late]]))

asyncio.run(main())
"""


def test_a_node_whose_journal_cannot_be_written_stops_and_says_so(
    loop: str, tmp_path: Path
) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop", reason="optional: uvloop")
    path = tmp_path / "a.journal"
    child = subprocess.run(
        [sys.executable, "-c", FILLED_DISK, str(path)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert child.returncode == 0, child.stderr
    accepted, said, others = json.loads(child.stdout)
    assert said.startswith(f"the journal {path} cannot be written: ")
    assert said.endswith("; make room, and start the node again")
    assert others == [said] * 3

    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            a, b = await Place(tmp_path, proxy).open_all("a", "b")
            got = await take(b, accepted)
            assert [m.number for m in got] == list(range(1, accepted + 1))
            for node in (a, b):
                await node.close()

    assert accepted > 10
    run(main, loop)


KILLED_AT_ONCE = """
import asyncio, os, sys
from antecede.net import Node

async def main():
    node = Node("a", journal=sys.argv[1], peers={"b": "127.0.0.1:9"})
    await node.open()
    await asyncio.gather(node.send("a", b"1"), node.send("a", b"2"), node.send("b", b"3"))
    first, second = await node.receive(), await node.receive()
    if sys.argv[2] == "done":
        await node.multicast(["a", "b"], b"4")
        second.done()
    else:
        second.done()
        await node.multicast(["a", "b"], b"4")
    os._exit(9)

asyncio.run(main())
"""


@pytest.mark.parametrize("last", ["done", "sent"])
def test_what_was_accepted_or_done_a_moment_before_a_kill_stays_so(
    loop: str, tmp_path: Path, last: str
) -> None:
    command = [sys.executable, "-c", KILLED_AT_ONCE, str(tmp_path / "a.journal"), last]
    assert subprocess.run(command, timeout=100).returncode == 9

    async def main() -> None:
        async with open_proxy(Faults(), 1) as proxy:
            a, b = await Place(tmp_path, proxy).open_all("a", "b")
            assert [m.data for m in await take(a, 2)] == [b"1", b"4"]
            assert [m.data for m in await take(b, 2)] == [b"3", b"4"]
            assert await a.send("b", b"5") == 5
            for node in (a, b):
                await node.close()

    run(main, loop)
