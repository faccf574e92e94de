"""Peers are added and removed, leave, fall silent and return."""

import asyncio

import pytest

from antecede.errors import LocalError
from antecede.net import Node
from antecede.net.faults import Faults
from tests.net.harness import (
    LOOPS,
    connect_all,
    open_network,
    open_nodes,
    receive_many,
    run,
    stays_pending,
    wait_until,
)
from tests.net.limits import quick_limits

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_peers_can_be_added_during_traffic(loop: str) -> None:
    async def main() -> None:
        async with open_nodes("a", "b") as (a, b):
            await a.broadcast(b"before")
            async with Node("c") as c:
                connect_all(a, b, c)
                await a.broadcast(b"after")
                assert (await c.receive()).data == b"after"
                assert [m.data for m in await receive_many(b, 2)] == [b"before", b"after"]
                await c.broadcast(b"hello")
                assert [(await n.receive()).data for n in (a, b)] == [b"hello"] * 2

    run(main, loop)


@pytest.mark.long
def test_removing_a_peer_unblocks_senders_and_grants_the_permits_of_others(
    loop: str,
) -> None:
    async def main() -> None:
        limits = quick_limits(window_copies_max=2, lease_s=0.6)
        async with open_network(Faults(), "a", "b", "c", limits=limits) as (
            proxy,
            (a, b, c),
        ):
            await a.broadcast(b"0")
            await a.flush()
            await receive_many(b, 1)
            await receive_many(c, 1)
            proxy.injector.partition(["a", "b"], ["c"])
            await a.send("c", b"1")
            await a.multicast(["b", "c"], b"2")
            assert (await b.receive()).data == b"2"
            # The answer of b to a needs no permit; a message of b to c would.
            await b.send("a", b"3")
            assert (await a.receive()).data == b"3"
            blocked = asyncio.create_task(a.send("c", b"4"))
            flushing = asyncio.create_task(a.flush())
            assert await stays_pending(blocked)
            await asyncio.gather(a.remove_peer("c"), b.remove_peer("c"))
            with pytest.raises(LocalError, match="c is not a peer of a; call add_peer"):
                await blocked
            await flushing
            assert (a.peers, b.peers) == (["b"], ["a"])
            with pytest.raises(LocalError, match="c is not a peer"):
                await a.remove_peer("c")
            await b.broadcast(b"5")
            assert (await a.receive()).data == b"5"
            proxy.injector.heal()
            await c.close(0)

    run(main, loop)


@pytest.mark.long
def test_removing_a_peer_raises_in_blocked_senders_at_once(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(window_copies_max=1, lease_s=1000.0)
        async with open_network(Faults(), "a", "b", limits=limits) as (proxy, (a, b)):
            await a.send("b", b"0")
            await a.flush()
            proxy.injector.partition("a", "b")
            await a.send("b", b"1")
            blocked = asyncio.create_task(a.send("b", b"2"))
            assert await stays_pending(blocked)
            removing = asyncio.create_task(a.remove_peer("b"))
            with pytest.raises(LocalError, match="b is not a peer of a"):
                await blocked
            assert await stays_pending(removing)  # The lease has not expired.
            proxy.injector.heal()
            await b.close(0)
            await a.close(0)
            with pytest.raises(LocalError, match="a was closed"):
                await removing

    run(main, loop)


@pytest.mark.long
def test_a_removed_peer_can_be_added_again(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(lease_s=0.4)
        async with open_network(Faults(), "a", "b", limits=limits) as (proxy, (a, b)):
            await a.send("b", b"0")
            await a.flush()
            proxy.injector.partition("a", "b")
            await a.send("b", b"abandoned")
            await a.remove_peer("b")
            proxy.injector.heal()
            a.add_peer("b", proxy.endpoints["b"])
            await a.send("b", b"2")
            assert [m.data for m in await receive_many(b, 2)] == [b"0", b"2"]

    run(main, loop)


@pytest.mark.long
def test_close_waits_until_all_messages_are_delivered(loop: str) -> None:
    async def main() -> None:
        async with open_network(
            Faults(loss=0.3, delay_s=0.02), "a", "b", limits=quick_limits()
        ) as (_, (a, b)):
            for index in range(50):
                await a.send("b", b"%d" % index)
            await a.close()
            assert [int(m.data) for m in await receive_many(b, 50)] == list(range(50))

    run(main, loop)


def test_no_message_waits_for_a_node_that_has_left(loop: str) -> None:
    """Permits, acks and windows of the node that has left."""

    async def main() -> None:
        limits = quick_limits(window_copies_max=2, lease_s=1000.0)
        async with open_network(Faults(), "a", "b", "c", limits=limits) as (
            _,
            (a, b, c),
        ):
            await a.broadcast(b"0")
            await receive_many(b, 1)
            await receive_many(c, 1)
            await a.flush()
            for index in range(2):  # Never acked: a closes before it accepts them.
                await b.send("a", b"%d" % index)
            blocked = asyncio.create_task(b.send("a", b"2"))
            flushing = asyncio.create_task(b.flush())
            await a.close()
            await asyncio.gather(blocked, return_exceptions=True)
            await wait_until(lambda: "a" not in b.peers)
            with pytest.raises(LocalError, match="a is not a peer of b"):
                await b.send("a", b"3")
            await flushing
            await b.send("c", b"4")
            assert (await c.receive()).data == b"4"
            await c.send("b", b"5")
            assert (await b.receive()).data == b"5"
            assert b.peers == ["c"]

    run(main, loop)


@pytest.mark.parametrize("first_sender", ["running node", "restarted node"])
def test_a_node_that_has_left_can_return(loop: str, first_sender: str) -> None:
    async def main() -> None:
        async with open_network(Faults(), "a", "b", limits=quick_limits()) as (
            proxy,
            (a, b),
        ):
            await a.send("b", b"1")
            await b.receive()
            await a.close()
            restarted = Node("a", peers=proxy.peers_of("a"), limits=quick_limits())
            async with restarted:
                await proxy.add("a", restarted.address)
                if first_sender == "restarted node":
                    assert await restarted.send("b", b"new history") == 1
                    assert (await b.receive()).data == b"new history"
                await wait_until(lambda: "a" in b.peers)
                await b.send("a", b"welcome back")
                assert (await restarted.receive()).data == b"welcome back"

    run(main, loop)


@pytest.mark.long
def test_a_killed_node_returns_without_its_history(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(lease_s=0.5)
        async with open_network(Faults(), "a", "b", "c", limits=limits) as (
            proxy,
            (a, b, c),
        ):
            await a.broadcast(b"1")
            await receive_many(b, 1)
            await receive_many(c, 1)
            await a.close(0)  # Without BYE, as if it had been killed.
            await b.send("a", b"lost with the first history")
            async with Node("a", peers=proxy.peers_of("a"), limits=limits) as restarted:
                await proxy.add("a", restarted.address)
                await restarted.broadcast(b"2")
                assert [(await n.receive()).data for n in (b, c)] == [b"2", b"2"]
                await b.broadcast(b"3")
                assert [(await n.receive()).data for n in (restarted, c)] == [b"3"] * 2

    run(main, loop)


def test_cancelled_calls_leave_no_waiters_behind(loop: str) -> None:
    async def main() -> None:
        limits = quick_limits(window_copies_max=1)
        async with open_network(Faults(), "a", "b", limits=limits) as (proxy, (a, b)):
            proxy.injector.partition("a", "b")
            await a.send("b", b"1")

            async def cancel_calls(times: int) -> int:
                for _ in range(times):
                    for call in (a.send("b", b"2"), a.flush(), a.receive()):
                        task = asyncio.ensure_future(call)
                        await asyncio.sleep(0)
                        task.cancel()
                        await asyncio.gather(task, return_exceptions=True)
                runtime = a._runtime
                calls = len(runtime.waiters.flushers) + len(runtime.inbox.readers)
                return calls + len(runtime.blocked_sends)

            assert await cancel_calls(3) == await cancel_calls(50)
            proxy.injector.heal()
            assert (await b.receive()).data == b"1"

    run(main, loop)
