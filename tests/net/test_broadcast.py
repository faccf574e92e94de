"""The protocols that broadcast to a fixed group, over sockets and in the simulation."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from antecede import Limits, Node
from antecede.core.registry import protocol, protocols
from antecede.errors import ConfigError, LocalError
from antecede.merge.merge import merge_traces
from antecede.net.faults import Faults
from antecede.verify import Property
from antecede.verify.verdict import Status
from antecede.verify.verifier import verify_trace
from tests.net.harness import open_network, run, wait_until
from tests.net.limits import quick_limits
from tests.net.simulated import Group

NAMES = ("ann", "bob", "cid", "dan")
BROADCAST = [
    info.name
    for info in protocols()
    if info.capabilities.broadcast and not info.capabilities.dynamic
]
BROADCAST_ONLY = [name for name in BROADCAST if not protocol(name).capabilities.unicast]
FAULTS = Faults(loss=0.1, duplicate=0.1, jitter_s=0.01)

every_broadcast = pytest.mark.parametrize("name", BROADCAST)


def test_nodes_run_these_broadcast_protocols() -> None:
    assert sorted(BROADCAST) == ["flood", "newtop", "tree", "vector"]


class Talk:
    """A conversation: a node answers some of the messages with a broadcast of its own.

    An answer names the message that it answers, so that each node can check that it knows
    the question.
    """

    def __init__(self, node: Node, messages: int, seed: int) -> None:
        self.node = node
        self.answers_left = messages
        self.random = Random(seed)
        self.seen: list[str] = []
        self.unknown: list[str] = []
        """Answers that came before their questions."""

    async def say(self, about: str) -> None:
        """Broadcast an answer."""
        own = f"{self.node.name}-{self.answers_left}"
        self.answers_left -= 1
        if not protocol(self.node.engine.info.name).capabilities.total_order:
            self.seen.append(own)  # The node does not deliver its own messages.
        size = 20_000 if self.random.random() < 0.1 else 1  # In fragments.
        await self.node.broadcast(f"{own} {about} ".encode() + bytes(size))

    async def run(self) -> None:
        """Answer until there are no answers left, then listen."""
        await self.say("nothing")
        async for message in self.node:
            own, about, _ = message.data.decode().split(" ", 2)
            if about != "nothing" and about not in self.seen:
                self.unknown.append(f"{own} before {about}")
            self.seen.append(own)
            if self.answers_left and self.random.random() < 0.7:
                await self.say(own)


@every_broadcast
def test_every_node_gets_every_broadcast_in_causal_order_over_sockets(
    name: str, tmp_path: Path
) -> None:
    messages = 12

    async def main() -> None:
        network = open_network(
            FAULTS, *NAMES, traces=tmp_path, limits=quick_limits(), protocol=name
        )
        async with network as (_, nodes):
            talks = [Talk(node, messages, seed) for seed, node in enumerate(nodes)]
            tasks = [asyncio.create_task(talk.run()) for talk in talks]
            sent = [f"{each}-{number + 1}" for each in NAMES for number in range(messages)]
            await wait_until(lambda: all(len(t.seen) == len(sent) for t in talks))
            await asyncio.gather(*(node.flush() for node in nodes))
            for task in tasks:
                task.cancel()
            assert [talk.unknown for talk in talks] == [[]] * len(NAMES)
            assert all(sorted(talk.seen) == sorted(sent) for talk in talks)
            if protocol(name).capabilities.total_order:
                assert all(talk.seen == talks[0].seen for talk in talks)

    run(main)
    merged = merge_traces([tmp_path / each for each in NAMES], tmp_path / "merged")
    assert merged.missing == ()
    verdict = verify_trace(merged.path)
    assert verdict.statuses == dict.fromkeys(Property, Status.HELD)


@every_broadcast
@pytest.mark.parametrize("seed", range(4))
def test_every_node_gets_every_broadcast_in_the_simulation(name: str, seed: int) -> None:
    with Group(seed, Faults(loss=0.1, duplicate=0.1, jitter_s=0.02)) as group:
        group.open_all(*NAMES, protocol=name)
        random = Random(seed)
        for number in range(20):
            group.broadcast(random.choice(NAMES), bytes([number]))
            group.run(random.choice((0.0, 0.003, 0.03)))
        group.run(20.0)
        verdict = group.simulation.verdict()
        assert verdict.held, [str(each) for each in verdict.violations[:3]]
        assert verdict.deliveries == 20 * len(NAMES)  # The trace has those of the source.
        total_order = protocol(name).capabilities.total_order
        received = [sorted(group.received[each]) for each in NAMES]
        if total_order:
            assert received == [[bytes([number]) for number in range(20)]] * len(NAMES)
            assert all(group.received[each] == group.received["ann"] for each in NAMES)
        else:
            assert sum(map(len, received)) == 20 * (len(NAMES) - 1)


@pytest.mark.parametrize("name", BROADCAST_ONLY)
def test_a_message_to_some_members_is_an_error_that_says_what_to_do(name: str) -> None:
    with Group() as group:
        group.open_all("ann", "bob", "cid", protocol=name)
        ann = group.nodes["ann"]
        with pytest.raises(LocalError, match="has broadcast only; call broadcast"):
            group.send("ann", "bob", b"x")
        with pytest.raises(LocalError, match="has broadcast only; call broadcast"):
            group.send("ann", "ann", b"x")
        with pytest.raises(LocalError, match="has broadcast only; call broadcast"):
            group.call("ann", ann.multicast(["bob", "cid"], b"x"))
        with pytest.raises(LocalError, match="has broadcast only; call broadcast"):
            group.call("ann", ann.send_many("bob", [b"x", b"y"]))
        with pytest.raises(LocalError, match="has broadcast only; call broadcast"):
            group.do("ann", lambda node: node.send_nowait("bob", b"x"))
        with pytest.raises(LocalError, match="zed is not a peer"):
            group.send("ann", "zed", b"x")
        group.broadcast("ann", b"to all")
        group.run(5.0)
        assert group.received["bob"] == [b"to all"]
        assert group.held()


@every_broadcast
def test_the_members_are_fixed(name: str, tmp_path: Path) -> None:
    with Group() as group:
        group.open_all("ann", "bob", protocol=name)
        with pytest.raises(ConfigError, match=f"cannot add cid: {name} has a fixed"):
            group.add_peer("ann", "cid")
        with pytest.raises(LocalError, match=f"{name} cannot remove a peer"):
            group.call("ann", group.nodes["ann"].remove_peer("bob"))
    with pytest.raises(ConfigError, match=f"{name} cannot keep a journal"):
        asyncio.run(Node("ann", protocol=name, journal=tmp_path / "ann.db").open())
    limits = Limits(peer_timeout_s=1.0)
    with pytest.raises(ConfigError, match=f"{name} cannot remove a peer"):
        asyncio.run(Node("ann", protocol=name, limits=limits).open())


@every_broadcast
def test_a_member_that_restarts_without_its_history_is_refused(name: str) -> None:
    with Group() as group:
        group.open_all("ann", "bob", protocol=name)
        group.broadcast("bob", b"before")
        group.run(5.0)
        group.kill("bob")
        group.open("bob", "ann", protocol=name)
        group.run(5.0)
        assert group.nodes["ann"].peers == []
        group.broadcast("bob", b"after")
        group.run(5.0)
        assert group.received["ann"] == [b"before"]
        with pytest.raises(LocalError, match="ann has no peer to broadcast to"):
            group.broadcast("ann", b"to nobody")
        assert group.held()
