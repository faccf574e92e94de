"""Sessions in a simulation: idle weeks, limits of peers, departed peers, epochs."""

import contextlib

import pytest

from antecede import Limits
from antecede.core.process import NEVER
from antecede.errors import LocalError, WindowFull
from antecede.net.faults import Faults
from tests.net.simulated import SHORT_LEASE, Group

DAY_S = 24 * 3600.0


@pytest.mark.parametrize("days", [10, 24.9, 30, 49.8, 200])
def test_two_nodes_speak_after_weeks_of_idleness(days: float) -> None:
    with Group() as group:
        group.open_all("ann", "bob", limits=Limits(keep_alive_s=NEVER))
        group.send("ann", "bob", b"1")
        group.run(days * DAY_S)
        before = group.nodes["ann"].stats().engine.datagrams_out
        group.send("ann", "bob", b"2")
        group.send("bob", "ann", b"3")
        group.run(10)
        assert group.received["bob"] == [b"1", b"2"]
        assert group.received["ann"] == [b"3"]
        assert group.nodes["ann"].stats().engine.datagrams_out - before < 20


def test_a_message_above_the_limit_of_the_target_is_refused_at_send() -> None:
    with Group() as group:
        group.open("ann", "bob")
        group.open("bob", "ann", limits=Limits(lease_s=2.0, message_bytes_max=100_000))
        group.run(1)
        with pytest.raises(
            LocalError, match="bob accepts messages of at most 100000 bytes, not 100001"
        ):
            group.send("ann", "bob", bytes(100_001))
        group.send("ann", "bob", bytes(100_000))
        group.call("ann", group.nodes["ann"].flush())
        assert [len(data) for data in group.received["bob"]] == [100_000]


def test_a_large_message_waits_until_the_limit_of_the_target_is_known() -> None:
    with Group() as group:
        group.open("ann", "bob")
        group.run(1)
        with pytest.raises(WindowFull, match="a target was not met yet"):
            group.call("ann", group.nodes["ann"].send("bob", bytes(100_000), wait=False))
        sending = group.nodes["ann"].send("bob", bytes(100_001))
        limits = Limits(lease_s=2.0, message_bytes_max=100_000)
        group.simulation.call_later(5, lambda: group.start("bob", "ann", limits=limits))
        with pytest.raises(LocalError, match="bob accepts messages of at most 100000"):
            group.call("ann", sending)


@pytest.mark.parametrize("how", ["leave", "remove", "stop"])
def test_departed_peers_leave_nothing_behind(how: str) -> None:
    limits = Limits(lease_s=0.5, forget_after_s=10.0)
    with Group() as group:
        group.open("hub", "mate", limits=limits)
        group.open("mate", "hub", limits=limits)
        hub = group.nodes["hub"]
        for index in range(30):
            name = f"guest{index}"
            group.open(name, "hub", limits=limits)
            group.add_peer("hub", name)
            group.run(0.1)
            group.send(name, "hub", b"hello")
            group.send("hub", name, b"welcome")
            group.run(0.5)
            if how == "leave":
                group.call(name, group.nodes[name].close())
            group.kill(name)
            if how != "leave":
                group.call("hub", hub.remove_peer(name, stopped=how == "stop"))
        group.run(20)
        engine = hub.engine
        assert list(engine.sessions) == ["mate"]
        assert engine.process.known_peers() <= 1
        group.send("hub", "mate", b"still here")
        group.run(1)
        assert group.received["mate"] == [b"still here"]


def test_a_node_that_was_idle_says_goodbye() -> None:
    with Group() as group:
        group.open_all("ann", "bob", limits=Limits())
        group.send("ann", "bob", b"1")
        group.run(3600)
        group.call("ann", group.nodes["ann"].close())
        assert group.nodes["bob"].peers == []


def test_a_configured_peer_that_left_may_return_after_any_time() -> None:
    limits = Limits(lease_s=0.5, forget_after_s=1.0)
    with Group() as group:
        group.open_all("ann", "bob", limits=limits)
        group.run(1)
        group.call("bob", group.nodes["bob"].close())
        group.kill("bob")
        group.run(DAY_S)
        group.open("bob", "ann", limits=limits)
        group.send("bob", "ann", b"back")
        group.run(2)
        assert group.received["ann"] == [b"back"]


@pytest.mark.parametrize("removals", [255, 65_535])
def test_a_peer_can_be_removed_and_added_many_times(removals: int) -> None:
    with Group() as group:
        group.open("ann", "bob")
        group.open("bob", "ann")
        group.run(1)
        engine = group.nodes["ann"].engine
        session = engine.sessions["bob"]
        session.epoch_out += removals
        group.call("ann", group.nodes["ann"].remove_peer("bob"))
        group.add_peer("ann", "bob")
        group.send("ann", "bob", b"1")
        group.run(5)
        assert group.received["bob"] == [b"1"]


def test_a_node_that_lost_a_removal_begins_a_new_history() -> None:
    with Group() as group:
        group.open("ann", "bob")
        group.open("bob", "ann", journal=True)
        group.send("bob", "ann", b"1")
        group.run(1)
        group.kill("bob")
        session = group.nodes["ann"].engine.sessions["bob"]
        history = session.history
        session.epoch_in += 1  # As if bob had removed ann, and its journal were older.
        group.open("bob", "ann", journal=True)
        # Its journal may accept the message before ann tells that it is outdated.
        with contextlib.suppress(LocalError):
            group.send("bob", "ann", b"2")
        group.run(5)
        assert session.history != history
        group.send("bob", "ann", b"3")
        group.run(5)
        assert group.received["ann"] == [b"1", b"3"]


def test_datagrams_of_a_forgotten_session_are_refused() -> None:
    """A late datagram from before a peer was forgotten must not be delivered again."""
    slow = Faults(delay_s=0.3, jitter_s=1.0, duplicate=0.5)
    limits = Limits(lease_s=2.0, forget_after_s=0.1)
    with Group(3, slow) as group:
        group.open("ann", "bob", limits=limits)
        group.open("bob", "ann", limits=SHORT_LEASE)
        for round_number in range(5):
            for index in range(10):
                group.send("bob", "ann", b"%d.%d" % (round_number, index))
            group.run(0.5)
            group.call("ann", group.nodes["ann"].remove_peer("bob"))
            group.run(0.2)
            group.add_peer("ann", "bob")
            group.run(5)
        group.send("bob", "ann", b"last")
        group.run(10)
        assert group.held()
        assert len(set(group.received["ann"])) == len(group.received["ann"])
        assert group.received["ann"][-1] == b"last"


def test_the_number_of_hellos_to_a_silent_peer_is_bounded() -> None:
    with Group() as group:
        group.open("ann", "bob", limits=Limits())
        group.run(DAY_S)
        assert group.nodes["ann"].stats().engine.datagrams_out < DAY_S
