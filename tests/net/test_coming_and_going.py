"""Peers that are added, are removed, say goodbye, fall silent and come back."""

import asyncio

import pytest

from antecede.errors import LocalError
from antecede.net import Node
from antecede.net.proxy import Faults
from tests.net.bounds import quick_limits
from tests.net.running import (
    LOOPS,
    is_waiting,
    meet,
    open_network,
    open_nodes,
    run,
    take,
    until,
)

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_peers_can_be_added_while_messages_flow(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b") as (a, b):
            await a.broadcast(b"before")
            async with Node("c") as c:
                meet(a, b, c)
                await a.broadcast(b"after")
                assert (await c.receive()).data == b"after"
                assert [m.data for m in await take(b, 2)] == [b"before", b"after"]
                await c.broadcast(b"hello")
                assert [(await n.receive()).data for n in (a, b)] == [b"hello"] * 2

    run(main, loop)


def test_a_removed_peer_frees_blocked_senders_and_the_permits_of_others(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(window=2, lease_s=0.6)
        async with open_network(Faults(), "a", "b", "c", limits=limits) as (
            proxy,
            (a, b, c),
        ):
            await a.broadcast(b"0")
            await a.flush()
            await take(b, 1)
            await take(c, 1)
            proxy.fate.part(["a", "b"], ["c"])
            await a.send("c", b"1")
            await a.multicast(["b", "c"], b"2")
            assert (await b.receive()).data == b"2"
            # Bob's answer to Ann rests on nobody's permit, his message to Carl does.
            await b.send("a", b"3")
            assert (await a.receive()).data == b"3"
            blocked = asyncio.create_task(a.send("c", b"4"))
            flushing = asyncio.create_task(a.flush())
            assert await is_waiting(blocked)
            await asyncio.gather(a.remove("c"), b.remove("c"))
            with pytest.raises(LocalError, match="c is not a peer of a; call add_peer"):
                await blocked
            await flushing
            assert (a.peers, b.peers) == (["b"], ["a"])
            with pytest.raises(LocalError, match="c is not a peer"):
                await a.remove("c")
            await b.broadcast(b"5")
            assert (await a.receive()).data == b"5"
            proxy.fate.heal()
            await c.close(0)

    run(main, loop)


def test_a_blocked_sender_learns_at_once_that_the_peer_is_being_removed(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(window=1, lease_s=1000.0)
        async with open_network(Faults(), "a", "b", limits=limits) as (proxy, (a, b)):
            await a.send("b", b"0")
            await a.flush()
            proxy.fate.part("a", "b")
            await a.send("b", b"1")
            blocked = asyncio.create_task(a.send("b", b"2"))
            assert await is_waiting(blocked)
            removing = asyncio.create_task(a.remove("b"))
            with pytest.raises(LocalError, match="b is not a peer of a"):
                await blocked
            assert await is_waiting(removing)  # The lease is long.
            proxy.fate.heal()
            await b.close(0)
            await a.close(0)
            with pytest.raises(LocalError, match="a was closed"):
                await removing

    run(main, loop)


def test_a_removed_peer_can_be_added_again(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(lease_s=0.4)
        async with open_network(Faults(), "a", "b", limits=limits) as (proxy, (a, b)):
            await a.send("b", b"0")
            await a.flush()
            proxy.fate.part("a", "b")
            await a.send("b", b"abandoned")
            await a.remove("b")
            proxy.fate.heal()
            a.add_peer("b", proxy.fronts["b"])
            await a.send("b", b"2")
            assert [m.data for m in await take(b, 2)] == [b"0", b"2"]

    run(main, loop)


def test_a_closing_node_sees_everything_delivered_first(loop: str) -> None:
    async def main() -> None:
        async with open_network(
            Faults(loss=0.3, delay_s=0.02), "a", "b", limits=quick_limits()
        ) as (_, (a, b)):
            for place in range(50):
                await a.send("b", b"%d" % place)
            await a.close()
            assert [int(m.data) for m in await take(b, 50)] == list(range(50))

    run(main, loop)


def test_nobody_waits_for_a_node_that_has_said_goodbye(loop: str) -> None:
    """Permits of the one that left, its acks, and the windows towards it."""

    async def main() -> None:
        limits = quick_limits(window=2, lease_s=1000.0)
        async with open_network(Faults(), "a", "b", "c", limits=limits) as (
            _,
            (a, b, c),
        ):
            await a.broadcast(b"0")
            await take(b, 1)
            await take(c, 1)
            await a.flush()
            for place in range(2):  # Never acked: Ann leaves without taking them in.
                await b.send("a", b"%d" % place)
            blocked = asyncio.create_task(b.send("a", b"2"))
            flushing = asyncio.create_task(b.flush())
            await a.close()
            await asyncio.gather(blocked, return_exceptions=True)
            await until(lambda: "a" not in b.peers)
            with pytest.raises(LocalError, match="a is not a peer of b"):
                await b.send("a", b"3")
            await flushing
            await b.send("c", b"4")
            assert (await c.receive()).data == b"4"
            await c.send("b", b"5")
            assert (await b.receive()).data == b"5"
            assert b.peers == ["c"]

    run(main, loop)


@pytest.mark.parametrize("speaks_first", ["the old", "the new"])
def test_a_node_that_left_may_come_back(loop: str, speaks_first: str) -> None:
    async def main() -> None:
        async with open_network(Faults(), "a", "b", limits=quick_limits()) as (
            proxy,
            (a, b),
        ):
            await a.send("b", b"1")
            await b.receive()
            await a.close()
            again = Node("a", peers=proxy.others("a"), limits=quick_limits())
            async with again:
                await proxy.add("a", again.address)
                if speaks_first == "the new":
                    assert await again.send("b", b"new life") == 1
                    assert (await b.receive()).data == b"new life"
                await until(lambda: "a" in b.peers)
                await b.send("a", b"welcome back")
                assert (await again.receive()).data == b"welcome back"

    run(main, loop)


def test_a_node_that_was_cut_off_comes_back_without_its_history(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(lease_s=0.5)
        async with open_network(Faults(), "a", "b", "c", limits=limits) as (
            proxy,
            (a, b, c),
        ):
            await a.broadcast(b"1")
            await take(b, 1)
            await take(c, 1)
            await a.close(0)  # As if it had been killed.
            await b.send("a", b"lost with its former life")
            async with Node("a", peers=proxy.others("a"), limits=limits) as again:
                await proxy.add("a", again.address)
                await again.broadcast(b"2")
                assert [(await n.receive()).data for n in (b, c)] == [b"2", b"2"]
                await b.broadcast(b"3")
                assert [(await n.receive()).data for n in (again, c)] == [b"3"] * 2

    run(main, loop)


def test_giving_up_again_and_again_on_a_silent_peer_costs_no_memory(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(window=1)
        async with open_network(Faults(), "a", "b", limits=limits) as (proxy, (a, b)):
            proxy.fate.part("a", "b")
            await a.send("b", b"1")

            async def give_up(times: int) -> int:
                for _ in range(times):
                    for what in (a.send("b", b"2"), a.flush(), a.receive()):
                        task = asyncio.ensure_future(what)
                        await asyncio.sleep(0)
                        task.cancel()
                        await asyncio.gather(task, return_exceptions=True)
                return sum(
                    len(waiting) for waiting in (a._blocked, a._flushers, a._readers)
                )

            assert await give_up(3) == await give_up(50)
            proxy.fate.heal()
            assert (await b.receive()).data == b"1"

    run(main, loop)
