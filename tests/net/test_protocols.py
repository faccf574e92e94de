"""Every unicast protocol of the registry, over sockets."""

import asyncio
from random import Random

import pytest

from antecede.core.registry import ProtocolInfo, protocols
from antecede.errors import ConfigError, LocalError
from antecede.net import Node
from antecede.net.faults import Faults
from antecede.verify.oracle import Property, verify_events
from tests.net.harness import (
    RecordedRun,
    make_plan,
    open_network,
    open_nodes,
    run,
    run_application,
)
from tests.net.limits import quick_limits

UNICAST = [info for info in protocols() if info.capabilities.unicast]

FAULTS = Faults(loss=0.1, duplicate=0.1, jitter_s=0.01)


@pytest.mark.parametrize("info", UNICAST, ids=lambda info: info.name)
def test_every_unicast_protocol_has_its_properties_over_sockets(info: ProtocolInfo) -> None:
    async def main() -> None:
        names = ("a", "b", "c")
        recorded = RecordedRun(names)
        plan = make_plan(names, 12, Random(1), 2 if info.capabilities.multicast else 1)
        network = open_network(FAULTS, *names, limits=quick_limits(), protocol=info.name)
        async with network as (_, nodes):
            random = Random(2)
            large = info.name != "unordered"
            await asyncio.gather(
                *(
                    run_application(node, plan, recorded, random, large=large)
                    for node in nodes
                )
            )
            await asyncio.gather(*(node.flush() for node in nodes))
        verdict = verify_events(recorded.events)
        assert verdict.deliveries == sum(len(t) for sends in plan.values() for t in sends)
        assert not verdict.violated() & guaranteed(info)
        assert recorded.corrupted == []

    run(main)


def guaranteed(info: ProtocolInfo) -> set[Property]:
    """Return the properties that a protocol guarantees."""
    always = {Property.NO_DUPLICATION, Property.NO_CREATION, Property.LIVENESS}
    if info.capabilities.causal:
        return always | {Property.CAUSAL, Property.FIFO}
    return always | {Property.FIFO} if info.name == "fifo" else always


def test_an_operation_that_the_protocol_does_not_support_is_an_error() -> None:
    async def main() -> None:
        async with open_nodes("a", "b", "c", protocol="buffer") as (a, _, _):
            with pytest.raises(LocalError, match="one target"):
                await a.multicast(["b", "c"], b"x")
            with pytest.raises(LocalError, match="buffer cannot remove a peer; use hybrid"):
                await a.remove_peer("b")
        async with Node("a", protocol="matrix", peers={"b": "127.0.0.1:9"}) as a:
            with pytest.raises(
                ConfigError, match="cannot add c: matrix has a fixed membership"
            ):
                a.add_peer("c", "127.0.0.1:9")
            await a.close(0)
        async with open_nodes("a", "b", protocol="unordered") as (a, b):
            with pytest.raises(LocalError, match="send at most 16"):
                await a.send("b", b"x" * 90_000)
            await a.send("b", b"x" * 16_000)
            assert len((await b.receive()).data) == 16_000

    run(main)
