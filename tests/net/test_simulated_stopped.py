"""Nodes of ``bounded`` whose entries name processes that have stopped."""

from dataclasses import replace
from typing import Any, Final

import pytest

from antecede import Node
from antecede.errors import LocalError
from tests.net.simulated import SHORT_LEASE, Group

BOUNDED: Final[dict[str, Any]] = {"protocol": "bounded", "budget_bytes": 64}


def report_entry(group: Group) -> None:
    """Let cid learn of a message of ann, no peer of cid, that dan has not received."""
    group.open("ann", "bob", "dan", **BOUNDED)
    group.open("bob", "ann", "cid", **BOUNDED)
    group.open("cid", "bob", "dan", **BOUNDED)
    group.open("dan", "cid", **BOUNDED)
    group.run(1)
    group.send("ann", "dan", b"1")
    group.send("ann", "bob", b"2")
    group.run(0.1)
    group.send("bob", "cid", b"3")
    group.run(0.1)
    group.kill("ann")


async def declare_ann_stopped(node: Node) -> None:
    await node.remove_peer("ann", stopped=True)


def unsettled(group: Group, name: str) -> list[tuple[int, int]]:
    """Return the unsettled entries of a node."""
    dependencies = group.nodes[name].engine.process.dependencies
    assert dependencies is not None
    return dependencies.unsettled()


def test_a_process_that_is_no_peer_can_be_declared_stopped() -> None:
    with Group() as group:
        report_entry(group)
        group.kill("bob")
        group.send("cid", "dan", b"4")
        group.run(30)
        assert group.received["dan"] == []
        for name in ("cid", "dan"):
            node = group.nodes[name]
            group.call(name, node.remove_peer("ann", stopped=True))
        group.run(10)
        assert group.received["dan"] == [b"4"]
        assert unsettled(group, "cid") == []
        assert group.held()


def test_a_declared_stop_takes_effect_after_the_leases() -> None:
    """Until then, another process may still deliver a message of the stopped one."""
    with Group() as group:
        report_entry(group)
        group.send("cid", "dan", b"4")
        group.run(0.1)
        group.start_task("dan", declare_ann_stopped)
        group.run(2 * SHORT_LEASE.lease_s)
        assert group.received["dan"] == []
        group.run(10)
        assert group.received["dan"] == [b"4"]


def test_only_a_process_that_is_named_can_be_declared_stopped() -> None:
    with Group() as group:
        report_entry(group)
        for name in ("zoe", "cid"):
            with pytest.raises(LocalError, match=f"{name} is not a peer"):
                group.call("cid", group.nodes["cid"].remove_peer(name, stopped=True))
        with pytest.raises(LocalError, match="ann is not a peer"):
            group.call("cid", group.nodes["cid"].remove_peer("ann"))


def test_a_new_history_is_not_stopped_with_the_former_one() -> None:
    """Dan restarts with its journal, and meets the new ann before the lease has ended."""
    with Group() as group:
        group.open_all("ann", "bob", "cid", **BOUNDED)
        group.open("dan", "ann", "bob", "cid", journal=True, **BOUNDED)
        for name in ("ann", "bob", "cid"):
            group.add_peer(name, "dan")
        group.run(1)
        group.kill("ann")
        group.start_task("dan", declare_ann_stopped)
        group.run(0.1)
        group.kill("dan")
        group.open("dan", "bob", "cid", journal=True, **BOUNDED)
        group.simulation.block("ann", "cid")
        group.open("ann", "bob", "cid", "dan", **BOUNDED)
        group.send("ann", "cid", b"1")
        group.send("ann", "bob", b"2")
        group.send("ann", "dan", b"refused")
        group.run(0.1)
        group.send("bob", "dan", b"3")
        group.run(20)
        group.send("dan", "cid", b"4")
        group.run(1)
        group.simulation.heal()
        group.run(20)
        assert group.received["cid"] == [b"1", b"4"]
        assert group.held()


def test_nothing_is_kept_of_a_stopped_peer_that_was_to_be_asked() -> None:
    """Bob has reported the entry to cid; after bob, its target dan is asked about it."""
    with Group() as group:
        report_entry(group)
        node = group.nodes["cid"]
        for name in ("bob", "dan"):
            group.kill(name)
            group.call("cid", node.remove_peer(name, stopped=True))
        group.run(60)
        assert not node.engine.sessions
        assert node.engine.process.known_peers() == 0
        assert node.engine.process.next_timer() is None


def test_a_peer_that_was_forgotten_may_ask_about_a_wildcard() -> None:
    """Cid forgets bob, to which it has sent a wildcard for dan, and adds it again."""
    limits = replace(SHORT_LEASE, forget_after_s=0.1)
    names = ("ann", "bob", "cid", "dan", "eve")
    with Group() as group:
        group.open_all(*names, protocol="bounded", budget_bytes=4, limits=limits)
        group.run(1)
        for name in ("ann", "eve"):
            group.simulation.block(name, "dan")
            group.send(name, "dan", f"{name} to dan".encode())
            group.send(name, "cid", f"{name} to cid".encode())
        group.run(1)
        cid = group.nodes["cid"]
        group.send("cid", "bob", b"wildcard")
        group.run(5)
        assert group.received["bob"] == [b"wildcard"]
        group.call("cid", cid.remove_peer("bob"))
        group.run(1)
        assert "bob" not in cid.engine.sessions
        group.add_peer("cid", "bob")
        group.send("bob", "dan", b"last")
        group.run(10)
        group.simulation.heal()
        group.run(20)
        assert group.received["dan"][-1] == b"last"
        assert group.held()
