"""Messages in fragments, in a simulation: what a target misses while they are sent."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from antecede import Limits, Node
from antecede.errors import AntecedeError
from tests.net.simulated import Group

LARGE = b"." * 5_000
ONE_COPY = Limits(lease_s=2.0, window_copies_max=1)
"""Each fragment waits until the one before it is acked."""


def keep_result(
    call: Callable[[Node], Awaitable[int]], results: list[object]
) -> Callable[[Node], Awaitable[None]]:
    """Return a task that makes a call and keeps its number, or its error as text."""

    async def run(node: Node) -> None:
        try:
            results.append(await call(node))
        except AntecedeError as error:
            results.append(str(error))

    return run


def send_a_part(group: Group, call: Callable[[Node], Awaitable[int]]) -> list[object]:
    """Let ann send the first fragments of a message to bob, and then lose him.

    Return the list that will hold the result of the call.
    """
    results: list[object] = []
    group.run(1)
    group.start_task("ann", keep_result(call, results))
    fragments = group.nodes["bob"].engine.sessions["ann"].reassembly.fragments
    while not fragments:
        group.run(0.0002)
    group.simulation.partition({"ann"}, {"bob"})
    group.run(0.5)
    assert results == []
    assert 0 < len(fragments) < 5
    return results


@pytest.mark.parametrize("is_multicast", [False, True])
def test_send_raises_if_a_target_restarts_between_fragments(is_multicast: bool) -> None:
    with Group() as group:
        group.open_all("ann", "bob", "cid", limits=ONE_COPY)
        targets = ["cid", "bob"] if is_multicast else ["bob"]
        results = send_a_part(group, lambda node: node.multicast(targets, LARGE))
        group.kill("bob")
        group.simulation.heal()
        group.open("bob", "ann", "cid", limits=ONE_COPY)
        group.run(10)
        assert results == ["bob restarted while the message was being sent; send it again"]
        group.call("ann", group.nodes["ann"].multicast(targets, LARGE))
        group.run(10)
        assert group.received["bob"] == [LARGE]
        assert group.held()


def test_a_broadcast_in_fragments_skips_a_peer_that_restarts() -> None:
    with Group() as group:
        group.open_all("ann", "bob", "cid", limits=ONE_COPY)
        results = send_a_part(group, lambda node: node.broadcast(LARGE))
        group.kill("bob")
        group.simulation.heal()
        group.open("bob", "ann", "cid", limits=ONE_COPY)
        group.run(10)
        assert isinstance(results[0], int)
        assert group.received["cid"] == [LARGE]
        assert group.received["bob"] == []
        assert group.held()


def test_send_raises_if_a_target_forgets_the_node_between_fragments() -> None:
    limits = Limits(lease_s=2.0, window_copies_max=1, forget_after_s=1.0)
    with Group() as group:
        group.open_all("ann", "bob", limits=limits)
        results = send_a_part(group, lambda node: node.send("bob", LARGE))
        group.call("bob", group.nodes["bob"].remove_peer("ann"))
        group.run(10)
        assert "ann" not in group.nodes["bob"].engine.sessions
        group.simulation.heal()
        group.add_peer("bob", "ann")
        group.run(10)
        assert results == ["bob restarted while the message was being sent; send it again"]


def test_a_target_that_removes_the_node_and_adds_it_again_gets_the_rest() -> None:
    with Group() as group:
        group.open_all("ann", "bob", limits=ONE_COPY)
        results = send_a_part(group, lambda node: node.send("bob", LARGE))
        group.call("bob", group.nodes["bob"].remove_peer("ann"))
        group.run(10)
        group.simulation.heal()
        group.add_peer("bob", "ann")
        group.run(10)
        assert isinstance(results[0], int)
        assert group.received["bob"] == [LARGE]
        assert group.held()


@pytest.mark.parametrize("journal", [False, True])
def test_a_target_that_restarts_with_its_journal_gets_the_rest(journal: bool) -> None:
    with Group() as group:
        group.open("ann", "bob", limits=ONE_COPY, journal=journal)
        group.open("bob", "ann", limits=ONE_COPY, journal=True)
        results = send_a_part(group, lambda node: node.send("bob", LARGE))
        group.kill("bob")
        group.simulation.heal()
        group.open("bob", "ann", limits=ONE_COPY, journal=True)
        group.run(10)
        assert isinstance(results[0], int)
        assert group.received["bob"] == [LARGE]
        assert group.held()


def test_a_cancelled_send_leaves_the_next_message_whole() -> None:
    async def send_for_a_moment(node: Node) -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await node.send("bob", LARGE)
        return 0

    with Group() as group:
        group.open_all("ann", "bob", limits=ONE_COPY)
        results = send_a_part(group, send_for_a_moment)
        group.run(1)
        group.simulation.heal()
        assert results == [0]
        group.send("ann", "bob", LARGE)
        group.run(5)
        assert group.received["bob"] == [LARGE]


def test_a_broadcast_that_waits_skips_a_peer_that_restarts_and_accepts_less() -> None:
    less = Limits(lease_s=2.0, message_bytes_max=1 << 16)
    results: list[object] = []
    data = bytes(100_000)
    with Group() as group:
        group.open_all("ann", "bob", "cid", limits=ONE_COPY)
        group.run(1)
        group.simulation.partition({"ann"}, {"bob"})
        group.send("ann", "bob", b"first")
        group.start_task("ann", keep_result(lambda node: node.broadcast(data), results))
        group.run(0.5)
        assert results == []
        group.kill("bob")
        group.simulation.heal()
        group.open("bob", "ann", "cid", limits=less)
        group.run(10)
        assert isinstance(results[0], int)
        assert group.received == {"ann": [], "bob": [], "cid": [data]}
        assert group.nodes["bob"].engine.stats().dropped["frame"] == 0


def test_a_large_message_to_a_peer_that_is_forgotten_raises() -> None:
    results: list[object] = []
    data = bytes(100_000)
    with Group() as group:
        group.open("ann", "bob", "cid", limits=ONE_COPY)
        group.open("cid", "ann", limits=ONE_COPY)
        group.run(1)
        group.simulation.partition({"ann"}, {"cid"})
        group.send("ann", "cid", b"first")  # The window of cid is full.
        targets = ["bob", "cid"]
        call = keep_result(lambda node: node.multicast(targets, data), results)
        group.start_task("ann", call)  # Bob was never met.
        group.run(1)
        assert results == []
        ann = group.nodes["ann"]
        group.call("ann", ann.remove_peer("bob", stopped=True))
        group.do("ann", lambda node: node.add_peer("bob", "bob:9000"))
        group.simulation.heal()
        less = Limits(lease_s=2.0, message_bytes_max=1 << 16)
        group.open("bob", "ann", limits=less)
        group.run(10)
        assert len(results) == 1
        assert "bob" in str(results[0])
        assert group.nodes["bob"].engine.stats().dropped["frame"] == 0
