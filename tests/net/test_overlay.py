"""Nodes on an overlay: ``pc-broadcast``, in the simulation and over sockets."""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Self

import pytest

from antecede import Limits, Node
from antecede.core.process import NEVER
from antecede.errors import ConfigError, LocalError
from antecede.merge.merge import merge_traces
from antecede.net.faults import Faults
from antecede.verify import Property
from antecede.verify.verdict import Status
from antecede.verify.verifier import verify_trace
from tests.net.harness import run, wait_until
from tests.net.simulated import Group

QUICK = Limits(exchange_s=5.0, linger_s=4.0, ping_timeout_s=1.0, silence_s=1.0)
FAULTS = Faults(loss=0.05, duplicate=0.02, delay_s=0.002, jitter_s=0.02)
KEY = bytes(32)


class Overlay(Group):
    """A simulated group on an overlay; ``n0`` founds it."""

    def __init__(
        self, seed: int, faults: Faults = FAULTS, key: bytes | None = None
    ) -> None:
        super().__init__(seed, faults)
        self.key = key
        self.random = Random(seed)
        self.alive: list[str] = []
        self.limits = QUICK

    def __enter__(self) -> Self:
        return self

    def join(self, name: str, *contacts: str) -> None:
        """Open a node that joins through the contacts."""
        self.open(
            name, *contacts, protocol="pc-broadcast", limits=self.limits, key=self.key
        )
        self.alive.append(name)

    def found(self, size: int) -> list[str]:
        """Open a group, and wait until all nodes have joined."""
        for index in range(size):
            self.join(f"n{index}", *self.random.sample(self.alive, min(1, index)))
            self.run(self.random.choice((0.0, 0.1, 0.3)))
        self.run(15.0)
        return list(self.alive)

    def links(self, name: str) -> set[str]:
        """Return the names of the neighbours of a node."""
        engine = self.nodes[name].engine
        assert engine.process.overlay is not None
        return {engine.name_of(peer) for peer in engine.process.overlay.peers()}

    def newcomers(self) -> list[str]:
        """Return the running nodes that have not joined."""
        overlays = {name: self.nodes[name].engine.process.overlay for name in self.alive}
        return [name for name, each in overlays.items() if each is None or each.is_newcomer]


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("seed", range(3))
def test_members_get_every_message_while_others_come_and_go(
    seed: int, key: bytes | None
) -> None:
    with Overlay(seed, key=key) as group:
        random = group.random
        stable = group.found(8)
        volatile: list[str] = []
        sent: list[tuple[str, bytes]] = []
        for step in range(60):
            action = random.random()
            if action < 0.6 or (action > 0.75 and not volatile):
                source = random.choice(stable + volatile)
                with contextlib.suppress(LocalError):  # A newcomer that lost its contacts.
                    group.broadcast(source, data := f"{source} {step}".encode())
                    sent.append((source, data))
            elif action < 0.75:
                group.join(f"v{step}", *random.sample(group.alive, 2))
                volatile.append(f"v{step}")
            else:
                name = volatile.pop(random.randrange(len(volatile)))
                group.alive.remove(name)
                if action < 0.9:
                    group.kill(name)
                else:
                    group.start_task(name, lambda node: node.close())
            group.run(random.choice((0.0, 0.01, 0.1, 0.5)))
        group.run(40.0)
        verdict = group.simulation.verdict()
        assert verdict.held, [str(each) for each in verdict.violations[:3]]
        assert group.newcomers() == []
        for name in stable:
            missed = [
                data
                for source, data in sent
                if source in stable and source != name and data not in group.received[name]
            ]
            assert missed == []
            assert group.links(name) <= set(group.alive)  # Not those that are down.


def test_no_node_knows_all_members_and_every_message_names_its_source() -> None:
    with Overlay(1, Faults(delay_s=0.002)) as group:
        names = group.found(20)
        neighbours = [len(group.links(name)) for name in names]
        assert max(neighbours) < len(names) - 1
        sources: list[str] = []
        group.messages["n3"] = lambda message: sources.append(message.source)
        for name in names:
            group.broadcast(name, name.encode())
        group.run(5.0)
        assert sorted(sources) == sorted(name for name in names if name != "n3")
        assert group.held()


def test_a_large_message_is_relayed_in_fragments() -> None:
    with Overlay(2) as group:
        names = group.found(8)
        data = group.random.randbytes(50_000)
        group.call("n5", group.nodes["n5"].broadcast(data))
        group.run(20.0)
        assert all(group.received[name] == [data] for name in names if name != "n5")


def test_a_newcomer_does_not_get_the_messages_before_it_joined() -> None:
    with Overlay(3) as group:
        group.found(5)
        group.broadcast("n0", b"before")
        group.run(5.0)
        group.join("late", "n2")
        group.run(10.0)
        group.broadcast("n1", b"after")
        group.broadcast("late", b"own")
        group.run(10.0)
        assert group.received["late"] == [b"after"]
        assert b"own" in group.received["n4"]
        assert group.held()


def test_a_newcomer_whose_first_contact_is_dead_joins_through_another_one() -> None:
    with Overlay(4) as group:
        group.found(8)
        group.kill("n1")
        group.alive.remove("n1")
        group.join("late", "n1", "n2")
        group.run(10.0)
        assert group.newcomers() == []
        group.broadcast("n3", b"hello")
        group.run(5.0)
        assert group.received["late"] == [b"hello"]


def test_the_first_message_may_come_from_any_node() -> None:
    with Overlay(5) as group:
        group.found(4)
        assert group.newcomers() == []
        group.broadcast("n3", b"first")
        group.run(5.0)
        assert all(group.received[name] == [b"first"] for name in ("n0", "n1", "n2"))


def test_a_newcomer_sends_once_it_is_a_member() -> None:
    with Overlay(5) as group:
        group.found(3)
        group.broadcast("n0", b"before")
        group.run(5.0)
        group.join("late", "n2")
        group.broadcast("late", b"at once")
        group.run(10.0)
        assert group.received["n0"] == [b"at once"]
        assert group.held()


def test_a_node_that_starts_again_is_another_process_with_the_same_name() -> None:
    with Overlay(6) as group:
        group.found(6)
        group.broadcast("n5", b"first")
        group.run(5.0)
        group.kill("n5")
        group.alive.remove("n5")
        group.run(1.0)
        group.join("n5", "n1")
        group.run(15.0)
        assert group.newcomers() == []
        group.broadcast("n5", b"second")  # It has the number 1 again.
        group.run(5.0)
        group.broadcast("n2", b"third")
        group.run(10.0)
        assert group.received["n3"] == [b"first", b"second", b"third"]
        assert group.received["n5"][-1] == b"third"
        assert group.held()


def test_a_node_with_another_key_does_not_join() -> None:
    with Overlay(7, key=KEY) as group:
        group.found(3)
        group.key = bytes(31) + b"x"
        group.join("spy", "n0")
        group.run(10.0)
        assert group.newcomers() == ["spy"]
        assert "spy" not in group.nodes["n0"].engine.sessions
        assert group.nodes["n0"].stats().engine.dropped["authentication"] > 0
        group.broadcast("n1", b"secret")
        group.run(5.0)
        assert group.received["spy"] == []


def test_a_neighbour_that_was_idle_is_not_down() -> None:
    limits = replace(QUICK, keep_alive_s=NEVER, exchange_s=60.0, linger_s=8.0)
    with Overlay(8, Faults(delay_s=0.1)) as group:
        group.limits = limits
        group.found(6)
        group.run(30.0)  # Ten time-outs, and half of a period.
        for _ in range(3):
            group.broadcast("n3", b"x")
            group.run(5.0)
        received = [len(group.received[name]) for name in group.alive if name != "n3"]
        assert received == [3] * 5


def test_an_idle_session_without_a_link_is_closed() -> None:
    with Overlay(8) as group:
        group.found(20)
        group.run(60.0)
        for name in group.alive:
            engine = group.nodes[name].engine
            former = set(engine.sessions) - group.links(name)
            # Each exchange, every 5 s, makes some, and each lives for twice linger_s.
            assert len(former) < 12


def test_calls_that_an_overlay_does_not_support() -> None:
    with Overlay(9) as group:
        group.found(3)
        with pytest.raises(LocalError, match="has broadcast only; call broadcast"):
            group.send("n0", "n1", b"x")
        with pytest.raises(ConfigError, match="cannot add n9: n0 is a member"):
            group.add_peer("n0", "n9")
        with pytest.raises(LocalError, match="pc-broadcast cannot remove a peer"):
            group.call("n0", group.nodes["n0"].remove_peer(group.nodes["n0"].peers[0]))
        group.join("lonely")
        with pytest.raises(LocalError, match="lonely has no neighbour to broadcast to"):
            group.broadcast("lonely", b"x")


def test_an_overlay_over_sockets_with_churn_is_judged_from_its_traces(
    tmp_path: Path,
) -> None:
    limits = Limits(exchange_s=1.5, linger_s=2.0, ping_timeout_s=0.5, silence_s=0.7)
    traces: list[Path] = []
    received: dict[str, list[bytes]] = {}
    tasks: list[asyncio.Task[None]] = []

    async def open_node(name: str, *contacts: Node) -> Node:
        traces.append(tmp_path / name)
        peers = {contact.name: contact.address for contact in contacts}
        node = Node(
            name,
            peers=peers,
            protocol="pc-broadcast",
            limits=limits,
            key=KEY,
            trace=tmp_path / name,
        )
        await node.open()
        received[name] = []

        async def listen() -> None:
            async for message in node:
                received[name].append(message.data)

        tasks.append(asyncio.create_task(listen()))
        return node

    async def main() -> None:
        random = Random(1)
        nodes = [await open_node("n0")]
        for index in range(1, 12):
            nodes.append(await open_node(f"n{index}", random.choice(nodes)))
        await wait_until(lambda: all(is_member(node) for node in nodes))
        sent: list[tuple[str, bytes]] = []
        late: list[Node] = []
        for step in range(40):
            node = random.choice(nodes)
            data = f"{node.name} {step}".encode()
            await node.broadcast(data)
            sent.append((node.name, data))
            if step % 10 == 0:
                late.append(await open_node(f"late{step}", random.choice(nodes)))
            elif step == 15:
                await late[0].close(0)  # Without a goodbye.
            elif step == 25:
                await late[1].close()
            await asyncio.sleep(random.choice((0, 0.05)))

        def missing(name: str) -> list[bytes]:
            return [d for s, d in sent if s != name and d not in received[name]]

        await wait_until(lambda: not any(missing(node.name) for node in nodes))
        await asyncio.gather(*(node.flush() for node in nodes))
        await asyncio.gather(*(node.close() for node in [*nodes, *late]))

    run(main)
    merged = merge_traces(traces, tmp_path / "merged")
    assert merged.nodes == 16
    assert merged.notes == ()
    statuses = dict(verify_trace(merged.path).statuses)
    # Those that came late, or left, did not get every message.
    assert statuses.pop(Property.LIVENESS) is Status.UNKNOWN
    assert set(statuses.values()) == {Status.HELD}


def is_member(node: Node) -> bool:
    """Return whether a node has joined."""
    overlay = node.engine.process.overlay
    return overlay is not None and bool(overlay.peers()) and not overlay.is_newcomer
