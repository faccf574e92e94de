"""Events of nodes: what happened to peers, and which fault is to blame."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from antecede import Limits, Node
from antecede.engine.events import (
    Blocked,
    DuplicateName,
    EventsDropped,
    Gap,
    InboxFull,
    KeyMismatch,
    LimitsMismatch,
    NodeEvent,
    PeerLeft,
    PeerMet,
    PeerMoved,
    PeerRemoved,
    PeerRestarted,
    PeerReturned,
    PeerSilent,
    ProtocolMismatch,
    ReceiveLoopDeadlock,
    UnknownPeer,
    format_ranges,
)
from antecede.net.events import QUEUE_MAX, EventHub
from tests.net.harness import open_nodes, run, wait_until
from tests.net.simulated import PORT, SHORT_LEASE, Group

KEY = bytes(range(32))
OTHER_KEY = bytes(32)


class Events:
    """A callback for each node of a group, and the events that it got."""

    def __init__(self) -> None:
        self.found: dict[str, list[NodeEvent]] = {}

    def of(self, name: str) -> Callable[[NodeEvent], None]:
        """Return the callback of a node."""
        return self.found.setdefault(name, []).append

    def kinds(self, name: str) -> list[str]:
        """Return the names of the classes of the events of a node, in order."""
        return [type(event).__name__ for event in self.found[name]]

    def one(self, name: str, kind: type[NodeEvent]) -> Any:  # noqa: ANN401 (of that class)
        """Return the only event of a class."""
        (event,) = [event for event in self.found[name] if type(event) is kind]
        return event


@pytest.fixture
def events() -> Events:
    return Events()


def open_pair(group: Group, events: Events, **options: Any) -> None:  # noqa: ANN401
    for name, peer in (("ann", "bob"), ("bob", "ann")):
        group.open(name, peer, on_event=events.of(name), **options)


# The life of a peer.


def test_a_peer_is_met_is_silent_returns_and_leaves(events: Events) -> None:
    with Group() as group:
        open_pair(group, events)
        group.run(1)
        assert events.kinds("ann") == ["PeerMet"]
        group.simulation.partition(["ann"], ["bob"])
        group.send("ann", "bob", b"1")
        group.run(20)
        silent = events.one("ann", PeerSilent)
        assert silent.was_met
        assert 5 <= silent.silent_s < 8  # The limit of 5 s, and the idle second before.
        group.simulation.heal()
        group.run(10)
        returned = events.one("ann", PeerReturned)
        assert 20 <= returned.silent_s < 26  # Until the next probe after 20 s.
        group.call("bob", group.nodes["bob"].close())
        group.run(1)
        assert events.found["ann"][-1] == PeerLeft(peer="bob")
        assert events.kinds("ann") == [
            "PeerMet",
            "PeerSilent",
            "Blocked",
            "PeerReturned",
            "PeerLeft",
        ]


def test_an_idle_pair_is_not_silent(events: Events) -> None:
    with Group() as group:
        open_pair(group, events)
        group.send("ann", "bob", b"1")
        group.run(300)
        assert events.kinds("ann") == ["PeerMet"]


@pytest.mark.parametrize("journal", [False, True])
def test_a_restarted_peer_is_reported_with_its_history(
    events: Events, journal: bool
) -> None:
    with Group() as group:
        open_pair(group, events, journal=journal)
        group.run(1)
        group.kill("bob")
        group.open("bob", "ann", journal=journal)
        group.run(4)
        assert PeerRestarted(peer="bob", kept_history=journal) in events.found["ann"]
        # Without its history, messages of the former one may be missing at ann.
        gaps = [event for event in events.found["ann"] if isinstance(event, Gap)]
        assert [gap.direction for gap in gaps] == ([] if journal else ["from"])


def test_a_removal_reports_the_copies_that_are_given_up_at_both_sides(
    events: Events,
) -> None:
    """Ann gives up her messages 2 and 4 to bob; 3 goes to cid, and 1 was delivered."""
    with Group() as group:
        for name, peers in (("ann", "bob cid"), ("bob", "ann"), ("cid", "ann")):
            group.open(name, *peers.split(), on_event=events.of(name))
        group.send("ann", "bob", b"1")
        group.run(1)
        group.simulation.partition(["ann"], ["bob"])
        for target in ("bob", "cid", "bob"):
            group.send("ann", target, b"x")
        group.call("ann", group.nodes["ann"].remove_peer("bob"))
        assert PeerRemoved(peer="bob", is_timeout=False) in events.found["ann"]
        gap = events.one("ann", Gap)
        assert gap == Gap(peer="bob", direction="to", numbers=((2, 2), (4, 4)), after=1)
        group.simulation.heal()
        group.add_peer("ann", "bob")
        group.run(10)
        gap = events.one("bob", Gap)
        assert gap == Gap(peer="ann", direction="from", numbers=(), after=1)


def test_a_peer_that_times_out_is_reported_as_removed(events: Events) -> None:
    limits = Limits(lease_s=2.0, peer_timeout_s=4.0)
    with Group() as group:
        open_pair(group, events, limits=limits)
        group.run(1)
        group.kill("bob")
        group.send("ann", "bob", b"1")
        group.run(10)
        assert PeerRemoved(peer="bob", is_timeout=True) in events.found["ann"]
        assert events.one("ann", Gap).numbers == ((1, 1),)


def test_a_changed_address_is_reported(events: Events) -> None:
    with Group() as group:
        open_pair(group, events)
        group.do("ann", lambda node: node.add_peer("bob", "bob:9001"))
        moved = events.one("ann", PeerMoved)
        assert (moved.address[1], moved.former_address[1]) == (9001, PORT)


# Faults.


def wrong_key(group: Group, events: Events) -> None:
    group.open("ann", "bob", key=KEY, on_event=events.of("ann"))
    group.open("bob", "ann", key=OTHER_KEY, on_event=events.of("bob"))


def wrong_address(group: Group, events: Events) -> None:
    """Nobody listens at the address of bob."""
    group.open("ann", "bob", on_event=events.of("ann"))
    group.simulation.block("ann", "bob")


def wrong_name(group: Group, events: Events) -> None:
    """The node at the address of bob has the name dan."""
    group.open("ann", "bob", on_event=events.of("ann"))
    open_named(group, "bob", "dan", "ann")


def duplicate_name(group: Group, events: Events) -> None:
    """A second node with the name bob starts after the first one, and both send."""
    open_pair(group, events)
    group.send("bob", "ann", b"x")
    group.run(1)
    second = open_named(group, "eve", "bob", "ann")
    for _ in range(10):
        group.run(1)
        group.send("bob", "ann", b"x")
        group.call("eve", second.send("ann", b"y"))


def not_added_back(group: Group, events: Events) -> None:
    open_pair(group, events)
    group.run(1)
    group.call("ann", group.nodes["ann"].remove_peer("bob"))
    group.send("bob", "ann", b"x")


def stranger(group: Group, events: Events) -> None:
    group.open("ann", on_event=events.of("ann"))
    group.open("bob", "ann")


def silent(group: Group, events: Events) -> None:
    open_pair(group, events)
    group.run(1)
    group.kill("bob")
    group.send("ann", "bob", b"x")


def silent_with_other_limits(group: Group, events: Events) -> None:
    """Other limits are a fault, but not a reason for silence."""
    other_lease(group, events)
    group.run(1)
    group.kill("bob")
    group.send("ann", "bob", b"x")


def other_protocol(group: Group, events: Events) -> None:
    group.open("ann", "bob", protocol="hybrid", on_event=events.of("ann"))
    group.open("bob", "ann", protocol="bounded")


def other_lease(group: Group, events: Events) -> None:
    group.open("ann", "bob", on_event=events.of("ann"))
    group.open("bob", "ann", limits=Limits(lease_s=3.0))


def other_message_size(group: Group, events: Events) -> None:
    group.open("ann", "bob", on_event=events.of("ann"))
    group.open("bob", "ann", limits=Limits(lease_s=2.0, message_bytes_max=100_000))


def full_inbox(group: Group, events: Events) -> None:
    limits = Limits(lease_s=2.0, inbox_messages_max=4)
    open_pair(group, events, limits=limits, receive=False)

    async def send(node: Node) -> None:
        for _ in range(200):
            await node.send("ann", b"x")

    group.start_task("bob", send)


def deadlock(group: Group, events: Events) -> None:
    """Both nodes answer each message with two, inside the loop that receives."""
    limits = Limits(lease_s=2.0, inbox_messages_max=20, window_copies_max=20)
    open_pair(group, events, limits=limits, receive=False)

    async def answer(node: Node) -> None:
        (peer,) = node.peers
        for _ in range(5):
            await node.send(peer, b"x")
        async for _ in node:
            await node.send(peer, b"x")
            await node.send(peer, b"x")

    for name in ("ann", "bob"):
        group.start_task(name, answer)


def open_named(group: Group, host: str, name: str, peer: str) -> Node:
    """Open and return a node whose name is not that of its host."""
    node = Node(
        name, bind=f"{host}:{PORT}", peers={peer: f"{peer}:{PORT}"}, insecure=True,
        limits=SHORT_LEASE, protocol="hybrid",
    )  # fmt: skip

    async def main() -> None:
        await node.open()
        await asyncio.Event().wait()

    group.simulation.start(host, main, daemon=True)
    return node


FAULTS: list[tuple[Callable[[Group, Events], None], type[NodeEvent], str | None, str]] = [
    (wrong_key, KeyMismatch, "bob", "same key"),
    (wrong_address, PeerSilent, "bob", "check its address, its key, and the firewall"),
    (wrong_name, UnknownPeer, None, "does not have the name bob"),
    (duplicate_name, DuplicateName, "bob", "give one of them another name"),
    (not_added_back, UnknownPeer, "bob", "call add_peer"),
    (stranger, UnknownPeer, None, "call add_peer"),
    (silent, PeerSilent, "bob", "no answer from bob at"),
    (silent_with_other_limits, PeerSilent, "bob", "s: check its address, its key, and"),
    (wrong_key, PeerSilent, "bob", "s: 1 datagram in the name of bob"),
    (other_protocol, ProtocolMismatch, "bob", "protocol bounded, not hybrid"),
    (other_lease, LimitsMismatch, "bob", "Limits.lease_s is 2 here and 3 at bob"),
    (other_message_size, LimitsMismatch, "bob", "Limits.message_bytes_max"),
    (full_inbox, InboxFull, None, "receive in a task of its own"),
    (deadlock, ReceiveLoopDeadlock, None, "send from another task"),
    (deadlock, Blocked, "bob", "node.waiting('ann', "),
]
"""What is wrong, and the event at ann, its peer, and what its line in the log says."""


@pytest.mark.parametrize(
    ("fault", "kind", "peer", "text"),
    FAULTS,
    ids=[f"{fault.__name__}-{kind.__name__}" for fault, kind, _, _ in FAULTS],
)
def test_a_fault_gives_an_event_and_one_line_in_the_log(
    fault: Callable[[Group, Events], None],
    kind: type[NodeEvent],
    peer: str | None,
    text: str,
    events: Events,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The fault lasts for 30 s, in which datagrams repeat it many times."""
    with Group() as group:
        fault(group, events)
        group.run(30)
    found = [event for event in events.found["ann"] if type(event) is kind]
    assert found, events.kinds("ann")
    assert len(found) <= 4  # At most every 10 s.
    assert found[0].peer == peer
    lines = [
        record
        for record in caplog.records
        if record.name == "antecede.net.events"
        and record.getMessage() == f"ann: {found[0]}"
    ]
    assert [record.levelno for record in lines] == [logging.WARNING]
    assert text in lines[0].getMessage()


def test_the_second_node_of_a_name_learns_that_too(events: Events) -> None:
    with Group() as group:
        duplicate_name(group, events)
    assert DuplicateName in {type(event) for event in events.found["bob"]}


@pytest.mark.parametrize("fault", [silent, stranger, wrong_key, wrong_address])
def test_healthy_peers_give_no_warning_about_others(
    fault: Callable[[Group, Events], None], events: Events
) -> None:
    """Cid has nothing to do with the fault between ann and bob."""
    with Group() as group:
        group.open("cid", "dan", on_event=events.of("cid"))
        group.open("dan", "cid")
        fault(group, events)
        group.send("cid", "dan", b"x")
        group.run(30)
    assert events.kinds("cid") == ["PeerMet"]


# Iterators and callbacks.


def test_each_iterator_gets_all_events_until_the_node_is_closed() -> None:
    async def main() -> None:
        async with open_nodes() as _, Node("ann") as ann:
            first, second = ann.events(), ann.events()
            reader = asyncio.ensure_future(first.__anext__())
            async with Node("bob", peers={"ann": ann.address}) as bob:
                ann.add_peer("bob", bob.address)
                assert await reader == PeerMet(peer="bob", address=bob.address)
                assert await anext(second) == PeerMet(peer="bob", address=bob.address)
            await wait_until(lambda: ann.stats().peers["bob"].state == "left")
            pending = ann.events()
        assert [event async for event in first] == [PeerLeft(peer="bob")]
        assert [event async for event in second] == [PeerLeft(peer="bob")]
        assert [event async for event in pending] == []

    run(main)


def test_an_iterator_that_is_not_read_reports_how_many_events_it_has_dropped() -> None:
    """Of 1,030 events the queue of 1,024 drops the first six."""

    async def main() -> None:
        hub = EventHub("ann", None)
        iterator = hub.iterate()
        made = [PeerLeft(peer=str(number)) for number in range(QUEUE_MAX + 6)]
        hub.publish(made, 0.0)
        hub.close()
        found = [event async for event in iterator]
        assert found == [EventsDropped(count=6), *made[6:]]
        assert hub.dropped == 6

    run(main)


def test_a_callback_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: NodeEvent) -> None:
        raise ValueError("no")

    with Group() as group:
        group.open("ann", "bob", on_event=fail)
        group.open("bob", "ann")
        group.send("bob", "ann", b"x")
        group.run(1)
        assert group.received["ann"] == [b"x"]
    assert "on_event has raised for PeerMet" in caplog.text


def test_ranges_are_shortened() -> None:
    assert format_ranges(((1, 1), (3, 5))) == "1, 3-5"
    many = tuple((number, number) for number in range(0, 20, 2))
    assert format_ranges(many).endswith("14 and 2 more ranges")
