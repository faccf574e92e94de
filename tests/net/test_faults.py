"""Nodes on a faulty network: a proxy in the same process, so the tests always run."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from antecede.errors import TraceError
from antecede.net import Node
from antecede.net.faults import Faults
from antecede.net.proxy import Proxy
from antecede.trace.event import Kind
from antecede.verify.oracle import Property, Verdict, verify_events
from tests.net.harness import (
    LOOPS,
    Plan,
    RecordedRun,
    make_plan,
    open_network,
    receive_many,
    run,
    run_application,
    stays_pending,
    wait_until,
)
from tests.net.limits import quick_limits

NAMES = ("ann", "bob", "cid", "dan")
FAULTS = Faults(loss=0.2, duplicate=0.1, delay_s=0.1, jitter_s=0.05)
LEASE_S = 1.0

Disturbance = Callable[[Proxy, list[Node]], Awaitable[None]]


async def no_partition(proxy: Proxy, nodes: list[Node]) -> None:
    """Leave the network as it is."""


async def short_partition(proxy: Proxy, nodes: list[Node]) -> None:
    """Partition the nodes during traffic, for less than a lease."""
    await partition_and_heal(proxy, nodes, LEASE_S / 3)


async def long_partition(proxy: Proxy, nodes: list[Node]) -> None:
    """Partition the nodes for longer than a lease: old datagrams have expired then."""
    await partition_and_heal(proxy, nodes, 2.5 * LEASE_S)


async def partition_and_heal(proxy: Proxy, nodes: list[Node], seconds: float) -> None:
    await wait_until(lambda: sum(node.engine.stats().delivered for node in nodes) > 40)
    proxy.injector.partition(NAMES[:2], NAMES[2:])
    await asyncio.sleep(seconds)
    assert proxy.injector.counts["partitioned"] > 0
    proxy.injector.heal()


async def flush_all(nodes: list[Node]) -> None:
    await asyncio.gather(*(node.flush() for node in nodes))


def run_plan(
    plan: Plan,
    faults: Faults,
    disturb: Disturbance = no_partition,
    loop: str = "asyncio",
    **options: object,
) -> tuple[RecordedRun, Proxy]:
    """Let all nodes send the planned messages, and return the recorded run."""
    names = list(plan)
    recorded = RecordedRun(names)
    proxies: list[Proxy] = []

    async def main() -> None:
        limits = quick_limits(lease_s=LEASE_S)
        network = open_network(faults, *names, limits=limits, **options)  # type: ignore[arg-type]
        async with network as (proxy, nodes):
            proxies.append(proxy)
            await asyncio.gather(
                disturb(proxy, nodes),
                *(
                    run_application(node, plan, recorded, Random(node.name))
                    for node in nodes
                ),
            )
            await flush_all(nodes)
            for node in nodes:  # Nothing was delivered twice.
                assert node.engine.stats().delivered == expected_deliveries(plan, node.name)

    run(main, loop)
    return recorded, proxies[0]


def expected_deliveries(plan: Plan, name: str) -> int:
    return sum(name in targets for sends in plan.values() for targets in sends)


def verify_run(recorded: RecordedRun, plan: Plan) -> Verdict:
    verdict = verify_events(recorded.events)
    assert verdict.messages == sum(len(sends) for sends in plan.values())
    assert verdict.deliveries == sum(expected_deliveries(plan, name) for name in plan)
    return verdict


@pytest.mark.parametrize(
    ("disturb", "loop"),
    [
        (no_partition, "asyncio"),
        (long_partition, "asyncio"),
        *((short_partition, loop) for loop in LOOPS),
    ],
)
def test_every_message_is_delivered_once_in_causal_order(
    disturb: Disturbance, loop: str
) -> None:
    plan = make_plan(NAMES, 20, Random(11), targets_max=3)
    assert {len(targets) for sends in plan.values() for targets in sends} == {1, 2, 3}
    recorded, proxy = run_plan(plan, FAULTS, disturb, loop)
    assert verify_run(recorded, plan).violations == ()
    assert recorded.corrupted == []
    counts = proxy.injector.counts
    assert counts["lost"] > 20
    assert counts["duplicated"] > 10
    assert counts["reordered"] > 10


def test_no_message_is_lost_on_links_with_low_bandwidth() -> None:
    plan = make_plan(NAMES[:3], 20, Random(5), targets_max=2)
    recorded, _ = run_plan(plan, Faults(bytes_per_s=100_000, loss=0.05))
    assert verify_run(recorded, plan).violations == ()


def test_encrypted_nodes_deliver_in_causal_order_despite_faults() -> None:
    pytest.importorskip("cryptography")
    plan = make_plan(NAMES[:3], 20, Random(6), targets_max=2)
    recorded, _ = run_plan(plan, FAULTS, key=bytes(32))
    assert verify_run(recorded, plan).violations == ()


# The oracle detects violations.


@pytest.mark.parametrize(("protocol", "broken"), [("hybrid", set()), ("fifo", {"causal"})])
def test_the_oracle_detects_a_protocol_without_causal_order(
    protocol: str, broken: set[str]
) -> None:
    """Ann's message to Cid is delayed; Bob's, which depends on her next one, is not."""
    names = ["ann", "bob", "cid"]
    recorded = RecordedRun(names)

    async def main() -> None:
        limits = quick_limits()
        network = open_network(Faults(), *names, limits=limits, protocol=protocol)
        async with network as (proxy, (ann, bob, cid)):
            proxy.injector.partition(["ann"], ["cid"])
            await recorded.send(ann, ["cid"], b"1")
            await recorded.send(ann, ["bob"], b"2")
            recorded.record_delivery(bob, await bob.receive())
            await recorded.send(bob, ["cid"], b"3")
            receiving = asyncio.create_task(receive_many(cid, 1))
            await stays_pending(receiving)
            proxy.injector.heal()
            for message in [*await receiving, await cid.receive()]:
                recorded.record_delivery(cid, message)

    run(main)
    assert {found.value for found in verify_events(recorded.events).violated()} == broken


def test_the_oracle_detects_shuffled_repeated_and_lost_deliveries() -> None:
    plan = make_plan(NAMES[:3], 15, Random(4), targets_max=2)
    recorded, _ = run_plan(plan, Faults(jitter_s=0.01))
    assert verify_events(recorded.events).held
    events = recorded.events
    positions = [
        position
        for position, event in enumerate(events)
        if event.kind is Kind.DELIVER and event.process == 0
    ]
    shuffled = list(positions)
    Random(1).shuffle(shuffled)
    changed = list(events)
    for position, other in zip(positions, shuffled, strict=True):
        changed[position] = events[other]
    try:
        broken = verify_events(changed).violated()
    except TraceError:  # An answer was delivered before its question was sent.
        broken = frozenset((Property.CAUSAL,))
    assert Property.CAUSAL in broken

    twice = [*events, events[positions[0]]]
    assert verify_events(twice).violated() == {Property.NO_DUPLICATION}
    lost = events[: positions[-1]] + events[positions[-1] + 1 :]
    assert verify_events(lost).violated() == {Property.LIVENESS}
