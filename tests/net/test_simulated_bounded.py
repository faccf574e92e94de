"""Nodes with ``bounded``, in a simulation: silence, restarts, names and limits."""

from typing import Any

import pytest

from antecede import Limits, Node
from antecede.errors import ConfigError
from tests.net.simulated import Group

BOUNDED: dict[str, Any] = {"protocol": "bounded"}
NAMES = ("ann", "bob", "cid", "dan")


def deliver_past_a_silent_peer(group: Group, **options: Any) -> None:  # noqa: ANN401
    """Let ann send to dan, which is down, and to bob, which then sends to cid."""
    group.open_all(*NAMES, **options)
    group.run(1)
    group.kill("dan")
    group.send("ann", "dan", b"1")
    group.send("ann", "bob", b"2")
    group.run(1)
    assert group.received["bob"] == [b"2"]
    group.send("bob", "cid", b"3")
    group.run(5)


def test_a_silent_peer_holds_up_messages_to_itself_only() -> None:
    with Group() as group:
        deliver_past_a_silent_peer(group, protocol="hybrid")
        assert group.received["cid"] == []
    with Group() as group:
        deliver_past_a_silent_peer(group, **BOUNDED)
        assert group.received["cid"] == [b"3"]
        dependencies = group.nodes["cid"].engine.process.dependencies
        assert dependencies is not None
        assert len(dependencies.unsettled()) == 1  # The message 1 to dan.


def test_a_peer_that_was_never_met_holds_up_messages_to_itself_only() -> None:
    with Group() as group:
        for name in NAMES[:3]:
            group.open(name, *(peer for peer in NAMES if peer != name), **BOUNDED)
        group.run(1)
        group.send("ann", "dan", b"1")
        group.send("ann", "bob", b"2")
        group.run(1)
        group.send("bob", "cid", b"3")
        group.run(1)
        assert group.received["cid"] == [b"3"]
        group.send("cid", "dan", b"4")
        group.run(1)
        group.open("dan", "ann", "bob", "cid", **BOUNDED)
        group.run(20)
        assert sorted(group.received["dan"]) == [b"1", b"4"]
        assert group.held()


def test_a_message_waits_at_a_peer_that_returns_for_what_happened_before() -> None:
    """The message of cid to dan depends on that of ann to dan, which arrives later."""
    with Group() as group:
        deliver_past_a_silent_peer(group, **BOUNDED, journal=True)
        group.send("cid", "dan", b"4")
        group.run(1)
        group.simulation.block("ann", "dan")
        group.simulation.block("dan", "ann")
        group.open("dan", *NAMES[:3], **BOUNDED, journal=True)
        group.run(10)
        assert group.received["dan"] == []
        group.simulation.heal()
        group.run(20)
        assert group.received["dan"] == [b"1", b"4"]
        assert group.held()
        for name in NAMES:
            dependencies = group.nodes[name].engine.process.dependencies
            assert dependencies is not None
            assert dependencies.unsettled() == []


@pytest.mark.parametrize("restarts", [1, 3])
def test_entries_survive_a_restart(restarts: int) -> None:
    """Without them, the message of cid would overtake that of ann."""
    with Group() as group:
        deliver_past_a_silent_peer(group, **BOUNDED, journal=True)
        for _ in range(restarts):
            group.kill("cid")
            group.open("cid", "ann", "bob", "dan", **BOUNDED, journal=True)
            group.run(1)
        group.send("cid", "dan", b"4")
        group.simulation.block("ann", "dan")
        group.open("dan", *NAMES[:3], **BOUNDED, journal=True)
        group.run(10)
        assert group.received["dan"] == []
        group.simulation.heal()
        group.run(20)
        assert group.received["dan"] == [b"1", b"4"]
        assert group.held()


def test_a_former_history_of_the_source_is_not_waited_for() -> None:
    """Ann and bob restart without their states, so nobody is left who sent the entry."""
    with Group() as group:
        group.open_all(*NAMES, **BOUNDED)
        group.run(1)
        group.simulation.block("ann", "dan")
        group.send("ann", "dan", b"lost")
        group.send("ann", "bob", b"2")
        group.run(0.1)
        group.send("bob", "cid", b"3")
        group.run(0.1)
        for name in ("ann", "bob"):
            group.kill(name)
            group.open(name, *(peer for peer in NAMES if peer != name), **BOUNDED)
        group.simulation.heal()
        group.run(30)
        group.send("cid", "dan", b"4")
        group.run(10)
        assert group.received["dan"] == [b"4"]
        dependencies = group.nodes["cid"].engine.process.dependencies
        assert dependencies is not None
        assert dependencies.unsettled() == []


def test_a_held_message_of_a_former_history_is_not_delivered_in_the_new_one() -> None:
    """Bob's message is held at dan for that of ann. Then bob restarts without its state."""
    with Group() as group:
        group.open_all(*NAMES, **BOUNDED)
        group.run(1)
        group.simulation.block("ann", "dan")
        group.send("ann", "dan", b"1")
        group.send("ann", "bob", b"2")
        group.run(0.1)
        group.send("bob", "dan", b"former")
        group.run(0.1)
        pending = group.nodes["dan"].engine.process.pending
        assert pending is not None
        assert pending.held_messages(1)
        group.kill("bob")
        group.open("bob", "ann", "cid", "dan", **BOUNDED)
        group.run(0.5)
        group.simulation.heal()
        group.run(5)
        group.send("bob", "dan", b"new")
        group.run(5)
        assert group.received["dan"] == [b"1", b"new"]
        assert group.held()


def test_a_message_that_does_not_fit_tells_for_whom_it_waits() -> None:
    """It would list the message of ann to dan and that of cid to fay; both are down."""
    with Group() as group:
        group.open("eve", "cid", **BOUNDED)
        deliver_past_a_silent_peer(group, **BOUNDED, budget_bytes=5)
        group.add_peer("cid", "eve")
        group.add_peer("cid", "fay")
        group.send("cid", "fay", b"4")
        group.send("cid", "eve", b"5")
        group.run(1)
        blocked = group.nodes["cid"].blocked_messages()
        explanations = {each.number: each.explanation for each in blocked}
        assert explanations[2] == (
            "cid:2 to eve is queued: earlier messages to dan may not be delivered, and to"
            " list them exceeds the budget"
        )


def test_nodes_with_different_budgets_understand_each_other() -> None:
    with Group() as group:
        for index, name in enumerate(NAMES):
            others = (peer for peer in NAMES if peer != name)
            group.open(name, *others, **BOUNDED, budget_bytes=(0, 5, 32, 600)[index])
        group.run(1)
        for index in range(20):
            for source in NAMES:
                group.call(source, group.nodes[source].broadcast(b"%d" % index))
        group.run(5)
        assert all(len(group.received[name]) == 60 for name in NAMES)
        assert group.held()


@pytest.mark.parametrize("budget", [-1, 617])
def test_a_budget_must_leave_room_for_data(budget: int) -> None:
    with Group() as group:
        limits = Limits(datagram_bytes_max=1232)
        node = Node("ann", bind="ann:1", insecure=True, budget_bytes=budget, limits=limits)
        group.open("bob")
        node = Node(
            "ann",
            bind="ann:1",
            insecure=True,
            limits=limits,
            budget_bytes=budget,
            protocol="bounded",
        )
        with pytest.raises(ConfigError, match="budget_bytes must be 0 to 616, half of"):
            group.call("bob", node.open())


def test_a_silent_peer_does_not_use_up_the_limit_of_all_sends() -> None:
    """Copies that are acked are not kept, although an earlier one is not acked."""
    limits = Limits(lease_s=2.0, retained_copies_max=300)
    with Group() as group:
        group.open_all(*NAMES, **BOUNDED, limits=limits)
        group.run(1)
        group.kill("dan")
        group.send("ann", "dan", b"1")
        for _ in range(1000):
            group.send("ann", "bob", b"2")
        group.run(1)
        assert len(group.received["bob"]) == 1000
        assert group.nodes["ann"].engine.process.retained() < 300


def test_a_message_that_was_delivered_because_of_another_one_is_in_the_journal() -> None:
    """Bob's message is held at dan for that of ann. Then dan restarts."""
    with Group() as group:
        group.open_all("ann", "bob", **BOUNDED)
        group.open("dan", "ann", "bob", journal=True, **BOUNDED)
        for name in ("ann", "bob"):
            group.add_peer(name, "dan")
        group.run(1)
        group.simulation.block("ann", "dan")
        group.send("ann", "dan", b"1")
        group.send("ann", "bob", b"2")
        group.run(0.1)
        group.send("bob", "dan", b"3")
        group.run(0.1)
        group.simulation.heal()
        group.simulation.block("bob", "dan")
        while group.received["dan"] != [b"1", b"3"]:
            group.run(0.01)
        history = group.nodes["dan"].engine.history
        group.kill("dan")
        group.open("dan", "ann", "bob", journal=True, **BOUNDED)
        group.simulation.heal()
        group.run(20)
        assert group.received["dan"] == [b"1", b"3"]
        assert group.nodes["dan"].engine.history == history
        assert group.held()
