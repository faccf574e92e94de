"""Nodes on a bad network, which a proxy in the same process is; never skipped."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from antecede.errors import ConfigError
from antecede.net import Node
from antecede.net.proxy import Faults, Proxy
from antecede.trace.event import Kind
from antecede.verify.oracle import Property, Verdict, judge
from tests.net.bounds import quick_limits
from tests.net.running import (
    LOOPS,
    History,
    Plan,
    is_waiting,
    make_plan,
    open_network,
    play,
    run,
    take,
    until,
)

NAMES = ("ann", "bob", "cid", "dan")
BAD = Faults(loss=0.2, duplicate=0.1, delay_s=0.1, jitter_s=0.05)
LEASE_S = 1.0

Trouble = Callable[[Proxy, list[Node]], Awaitable[None]]


async def no_trouble(proxy: Proxy, nodes: list[Node]) -> None:
    """Only what the network does all the time."""


async def short_partition(proxy: Proxy, nodes: list[Node]) -> None:
    """Part two from the others in the middle of it, for less than a lease."""
    await part_and_heal(proxy, nodes, LEASE_S / 3)


async def long_partition(proxy: Proxy, nodes: list[Node]) -> None:
    """The same for longer than a lease, after which nothing old is accepted."""
    await part_and_heal(proxy, nodes, 2.5 * LEASE_S)


async def part_and_heal(proxy: Proxy, nodes: list[Node], seconds: float) -> None:
    await until(lambda: sum(node.engine.stats().delivered for node in nodes) > 40)
    proxy.fate.part(NAMES[:2], NAMES[2:])
    await asyncio.sleep(seconds)
    assert proxy.fate.counts["parted"] > 0
    proxy.fate.heal()


async def flush_all(nodes: list[Node]) -> None:
    await asyncio.gather(*(node.flush() for node in nodes))


def exchange(
    plan: Plan,
    faults: Faults,
    trouble: Trouble = no_trouble,
    loop: str = "asyncio",
    **options: object,
) -> tuple[History, Proxy]:
    """Let all nodes send what is planned, and return what happened."""
    names = list(plan)
    history = History(names)
    proxies: list[Proxy] = []

    async def main() -> None:
        limits = quick_limits(lease_s=LEASE_S)
        network = open_network(faults, *names, limits=limits, **options)  # type: ignore[arg-type]
        async with network as (proxy, nodes):
            proxies.append(proxy)
            await asyncio.gather(
                trouble(proxy, nodes),
                *(play(node, plan, history, Random(node.name)) for node in nodes),
            )
            await flush_all(nodes)
            for node in nodes:  # Nothing is left over.
                assert node.engine.stats().delivered == due(plan, node.name)

    run(main, loop)
    return history, proxies[0]


def due(plan: Plan, name: str) -> int:
    return sum(name in targets for sends in plan.values() for targets in sends)


def verdict_of(history: History, plan: Plan) -> Verdict:
    verdict = judge(history.events)
    assert verdict.messages == sum(len(sends) for sends in plan.values())
    assert verdict.deliveries == sum(due(plan, name) for name in plan)
    return verdict


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("trouble", [no_trouble, short_partition, long_partition])
def test_everything_is_delivered_once_and_in_causal_order(
    loop: str, trouble: Trouble
) -> None:
    plan = make_plan(NAMES, 20, Random(11), most=3)
    assert {len(targets) for sends in plan.values() for targets in sends} == {1, 2, 3}
    history, proxy = exchange(plan, BAD, trouble, loop)
    assert verdict_of(history, plan).violations == ()
    assert history.wrong == []
    counts = proxy.fate.counts
    assert counts["lost"] > 20
    assert counts["duplicated"] > 10
    assert counts["reordered"] > 10


def test_a_narrow_link_delays_and_loses_nothing() -> None:
    plan = make_plan(NAMES[:3], 20, Random(5), most=2)
    history, _ = exchange(plan, Faults(bytes_per_s=100_000, loss=0.05))
    assert verdict_of(history, plan).violations == ()


def test_sealed_datagrams_stand_the_same_faults() -> None:
    pytest.importorskip("cryptography")
    plan = make_plan(NAMES[:3], 20, Random(6), most=2)
    history, _ = exchange(plan, BAD, key=bytes(32))
    assert verdict_of(history, plan).violations == ()


# The judgement can fail.


@pytest.mark.parametrize(("protocol", "broken"), [("hybrid", set()), ("fifo", {"causal"})])
def test_a_protocol_without_causal_order_is_found_out(
    protocol: str, broken: set[str]
) -> None:
    """Ann's message to Cid is held up; Bob's answer to what she sent next is not."""
    names = ["ann", "bob", "cid"]
    history = History(names)

    async def main() -> None:
        limits = quick_limits()
        network = open_network(Faults(), *names, limits=limits, protocol=protocol)
        async with network as (proxy, (ann, bob, cid)):
            proxy.fate.part(["ann"], ["cid"])
            await history.send(ann, ["cid"], b"1")
            await history.send(ann, ["bob"], b"2")
            history.got(bob, await bob.receive())
            await history.send(bob, ["cid"], b"3")
            receiving = asyncio.create_task(take(cid, 1))
            await is_waiting(receiving)
            proxy.fate.heal()
            for message in [*await receiving, await cid.receive()]:
                history.got(cid, message)

    run(main)
    assert {found.value for found in judge(history.events).broken()} == broken


def test_a_shuffled_history_is_found_out() -> None:
    plan = make_plan(NAMES[:3], 15, Random(4), most=2)
    history, _ = exchange(plan, Faults(jitter_s=0.01))
    assert judge(history.events).held
    events = history.events
    places = [
        place
        for place, event in enumerate(events)
        if event.kind is Kind.DELIVER and event.process == 0
    ]
    shuffled = list(places)
    Random(1).shuffle(shuffled)
    changed = list(events)
    for place, other in zip(places, shuffled, strict=True):
        changed[place] = events[other]
    try:
        broken = judge(changed).broken()
    except ConfigError:  # It got an answer before it had asked.
        broken = frozenset((Property.CAUSAL,))
    assert Property.CAUSAL in broken

    twice = [*events, events[places[0]]]
    assert judge(twice).broken() == {Property.ONCE}
    lost = events[: places[-1]] + events[places[-1] + 1 :]
    assert judge(lost).broken() == {Property.LIVE}
