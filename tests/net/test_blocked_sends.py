"""Calls of send that wait for room: their cost, their order, and their end."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from antecede import Node
from antecede.engine.engine import Engine
from antecede.engine.limits import Limits
from antecede.errors import LocalError
from antecede.testing import Simulation

NAMES = ("ann", "bob", "cid")
ADDRESSES = {name: f"{name}:9000" for name in NAMES}


def make_node(name: str, **limits: int) -> Node:
    peers = {peer: address for peer, address in ADDRESSES.items() if peer != name}
    return Node(
        name,
        bind=ADDRESSES[name],
        peers=peers,
        insecure=True,
        limits=Limits(**limits) if limits else None,  # type: ignore[arg-type]
    )


class CountedEngine:
    """An engine that counts the calls of its methods."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> object:
        self.calls[name] += 1
        return getattr(self._engine, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("_engine", "calls"):
            super().__setattr__(name, value)
        else:
            setattr(self._engine, name, value)


def count_calls(node: Node) -> Counter[str]:
    """Count the calls that a node makes of its engine from now on."""
    counted = CountedEngine(node.engine)
    node._runtime.engine = counted  # type: ignore[assignment]
    return counted.calls


def start_calls(count: int, call: Callable[[int], Coroutine[Any, Any, int]]) -> list[Any]:
    return [asyncio.create_task(call(index)) for index in range(count)]


def waiting(node: Node) -> int:
    return len(node._runtime.blocked_sends)


Program = Callable[[Simulation], Coroutine[Any, Any, None]]


def simulate(
    ann: Program, *others: str, cid: Program | None = None
) -> dict[str, list[bytes]]:
    """Run ann's program and perhaps cid's, and return what the others receive."""
    received: dict[str, list[bytes]] = {name: [] for name in others}

    def receiver(name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def main() -> None:
            async with make_node(name) as node:
                async for message in node:
                    received[name].append(message.data)

        return main

    with Simulation() as simulation:
        for name in others:
            simulation.start(name, receiver(name), daemon=True)
        simulation.start("ann", lambda: ann(simulation))
        if cid is not None:
            simulation.start("cid", lambda: cid(simulation))
        simulation.run()
        simulation.run_for(10)
        assert simulation.verdict().held
    return received


def test_the_cost_of_a_datagram_does_not_grow_with_the_calls_that_wait() -> None:
    total = 800

    async def ann(simulation: Simulation) -> None:
        async with make_node("ann", window_copies_max=20) as node:
            calls = count_calls(node)
            await asyncio.gather(
                *start_calls(total, lambda index: node.send("bob", b"%d" % index))
            )
            await node.flush()
            assert calls["has_room"] <= 5 * total
            assert sum(calls.values()) <= 20 * total

    received = simulate(ann, "bob")
    assert received["bob"] == [b"%d" % index for index in range(total)]


def test_cancelled_calls_leave_nothing_behind_and_the_others_send() -> None:
    total = 200

    async def ann(simulation: Simulation) -> None:
        async with make_node("ann", window_copies_max=4) as node:
            calls = start_calls(total, lambda index: node.send("bob", b"%d" % index))
            await asyncio.sleep(0)
            assert waiting(node) == total - 4
            for call in calls[1::2]:
                call.cancel()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [isinstance(number, int) for number in results[4:]] == (
                [True, False] * (total // 2 - 2)
            )
            assert waiting(node) == 0
            for call in start_calls(total, lambda index: node.send("bob", b"never")):
                call.cancel()
            await asyncio.sleep(0)
            assert waiting(node) == 0

    sent = [index for index in range(total) if index in (1, 3) or index % 2 == 0]
    assert simulate(ann, "bob")["bob"] == [b"%d" % index for index in sent]


def test_a_message_waits_for_the_windows_of_all_its_targets() -> None:
    """Bob answers only after cid's window has room again, and then the other way round."""

    async def ann(simulation: Simulation) -> None:
        async with make_node("ann", window_copies_max=1) as node:
            await node.broadcast(b"0")
            await node.flush()
            for silent, other in (("bob", "cid"), ("cid", "bob")):
                simulation.block(silent, "ann")
                await node.multicast(["bob", "cid"], silent.encode())
                multicast = asyncio.create_task(node.multicast(["bob", "cid"], b"both"))
                unicasts = [
                    asyncio.create_task(node.send(other, b"%d" % index))
                    for index in range(5)
                ]
                await asyncio.gather(*unicasts)  # The multicast does not delay them.
                assert waiting(node) == 1
                simulation.heal()
                await multicast
                await node.flush()

    received = simulate(ann, "bob", "cid")
    numbers = [b"%d" % index for index in range(5)]
    assert received["cid"] == [b"0", b"bob", *numbers, b"both", b"cid", b"both"]
    assert received["bob"] == [b"0", b"bob", b"both", b"cid", *numbers, b"both"]


def test_messages_that_wait_longest_get_the_first_room() -> None:
    """A queue with another target set does not overtake."""

    async def ann(simulation: Simulation) -> None:
        async with make_node("ann", window_copies_max=1) as node:
            await node.broadcast(b"first")
            plan = [("bob",), ("bob", "cid"), ("bob",), ("bob", "cid"), ("bob",)] * 4
            await asyncio.gather(
                *start_calls(
                    len(plan),
                    lambda index: node.multicast(plan[index], b"%d" % index),
                )
            )
            await node.flush()

    received = simulate(ann, "bob", "cid")
    assert received["bob"] == [b"first"] + [b"%d" % index for index in range(20)]


def test_a_message_waits_while_the_node_retains_too_many_copies() -> None:
    async def ann(simulation: Simulation) -> None:
        async with make_node("ann", retained_copies_max=10) as node:
            await node.broadcast(b"0")
            await node.flush()
            simulation.block("bob", "ann")
            await node.send("bob", b"not acked")
            calls = start_calls(30, lambda index: node.multicast(["cid"], b"%d" % index))
            await asyncio.sleep(1)
            assert waiting(node) == 21
            simulation.heal()
            await asyncio.gather(*calls)
            await node.flush()

    received = simulate(ann, "bob", "cid")
    assert received["cid"] == [b"0"] + [b"%d" % index for index in range(30)]


def test_closing_a_node_raises_in_calls_that_wait() -> None:
    async def ann(simulation: Simulation) -> None:
        node = make_node("ann", window_copies_max=1)
        await node.open()
        simulation.block("ann", "bob")
        calls = start_calls(5, lambda index: node.send("bob", b"%d" % index))
        await asyncio.sleep(0)
        await node.close(0)
        assert await calls[0] == 1
        for call in calls[1:]:
            with pytest.raises(LocalError, match="ann was closed"):
                await call

    simulate(ann, "bob")


# Targets.


@pytest.mark.parametrize("size", [10, 20_000], ids=["small", "fragments"])
@pytest.mark.parametrize("end", ["removed", "left"])
def test_a_broadcast_that_waits_reaches_the_peers_that_remain(end: str, size: int) -> None:
    data = bytes(size)

    async def ann(simulation: Simulation) -> None:
        async with make_node("ann", window_copies_max=2) as node:
            await node.broadcast(b"0")
            await node.flush()
            simulation.block("ann", "cid")
            for _ in range(2):
                await node.send("cid", b"lost")
            broadcast = asyncio.create_task(node.broadcast(data))
            multicast = asyncio.create_task(node.multicast(["bob", "cid"], b"never"))
            await asyncio.sleep(1)
            assert not broadcast.done()
            assert not multicast.done()
            removal = None
            if end == "removed":
                removal = asyncio.create_task(node.remove_peer("cid"))
            await broadcast
            with pytest.raises(LocalError, match="cid is not a peer of ann"):
                await multicast
            await node.send("bob", b"last")
            if removal is not None:
                await removal

    if end == "removed":
        received = simulate(ann, "bob", "cid")
    else:
        received = simulate(ann, "bob", cid=cid_leaves)
    assert received["bob"] == [b"0", data, b"last"]


async def cid_leaves(simulation: Simulation) -> None:
    async with make_node("cid") as node:
        await node.receive()
        await asyncio.sleep(2)


def test_a_broadcast_that_waits_reaches_a_peer_that_is_added_meanwhile() -> None:
    async def ann(simulation: Simulation) -> None:
        limits = Limits(window_copies_max=2)
        async with Node("ann", bind=ADDRESSES["ann"], insecure=True, limits=limits) as node:
            node.add_peer("bob", ADDRESSES["bob"])
            await node.send("bob", b"0")
            await node.flush()
            simulation.block("bob", "ann")
            while node.engine.has_room(["bob"]):
                await node.send("bob", b"x")
            broadcast = asyncio.create_task(node.broadcast(b"both"))
            await asyncio.sleep(1)
            node.add_peer("cid", ADDRESSES["cid"])
            simulation.heal()
            await broadcast

    received = simulate(ann, "bob", "cid")
    assert received["bob"][-1] == b"both"
    assert received["cid"] == [b"both"]


def test_the_fragments_of_a_broadcast_go_to_the_peers_of_the_first() -> None:
    """A peer that is added later would get a part of the message only."""

    async def ann(simulation: Simulation) -> None:
        limits = Limits(window_copies_max=2)
        async with Node("ann", bind=ADDRESSES["ann"], insecure=True, limits=limits) as node:
            node.add_peer("bob", ADDRESSES["bob"])
            broadcast = asyncio.create_task(node.broadcast(bytes(20_000)))
            await asyncio.sleep(0)
            node.add_peer("cid", ADDRESSES["cid"])
            await broadcast
            await node.broadcast(b"last")

    received = simulate(ann, "bob", "cid")
    assert received == {"bob": [bytes(20_000), b"last"], "cid": [b"last"]}


def test_a_broadcast_that_waits_raises_if_no_peer_remains() -> None:
    async def ann(simulation: Simulation) -> None:
        async with Node(
            "ann", bind=ADDRESSES["ann"], insecure=True, limits=Limits(window_copies_max=1)
        ) as node:
            node.add_peer("bob", ADDRESSES["bob"])
            await node.send("bob", b"0")
            broadcast = asyncio.create_task(node.broadcast(b"1"))
            await asyncio.sleep(0)
            removal = asyncio.create_task(node.remove_peer("bob"))
            with pytest.raises(LocalError, match="ann has no peer to broadcast to"):
                await broadcast
            await removal

    simulate(ann, "bob")
