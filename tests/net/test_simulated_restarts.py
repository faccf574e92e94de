"""Restarts with a journal, in a simulation: what was saved, and what must not come back."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antecede import Limits, Node
from antecede.engine.history_number import next_history
from antecede.engine.peer_session import SessionState
from antecede.errors import AntecedeError, StorageError
from antecede.testing import Faults
from tests.net.simulated import SHORT_LEASE, Group

NO_SYNC: dict[str, Any] = {"journal": True, "journal_sync": False}


def test_a_removed_peer_does_not_come_back_with_a_restart() -> None:
    with Group() as group:
        group.open_all("ann", "bob", "cid", journal=True)
        group.send("ann", "bob", b"1")
        group.run(1)
        group.kill("cid")
        group.call("ann", group.nodes["ann"].remove_peer("cid"))
        group.kill("ann")
        group.open("ann", "bob", journal=True)
        group.run(1)
        assert group.nodes["ann"].peers == ["bob"]
        group.call("ann", group.nodes["ann"].broadcast(b"2"))
        group.call("ann", group.nodes["ann"].flush())
        assert group.received["bob"] == [b"1", b"2"]


def test_a_removal_that_a_restart_interrupts_ends_one_lease_later() -> None:
    with Group() as group:
        group.open_all("ann", "bob", "cid", journal=True)
        group.run(1)
        group.simulation.partition(["cid"], ["ann", "bob"])
        group.send("ann", "cid", b"lost")
        group.do("ann", lambda node: node.engine.remove_peer("cid", 1.5))
        group.send("ann", "bob", b"1")
        group.kill("ann")
        group.open("ann", "bob", journal=True)
        assert group.nodes["ann"].peers == ["bob"]
        group.call("ann", group.nodes["ann"].flush())
        group.run(3)
        assert group.nodes["ann"].engine.sessions["cid"].state is SessionState.REMOVED


def test_a_peer_that_left_does_not_come_back_with_a_restart() -> None:
    with Group() as group:
        group.open("ann", "bob", "cid", journal=True)
        group.open("bob", "ann", journal=True)
        group.open("cid", "ann")
        group.run(1)
        group.send("cid", "ann", b"1")
        group.call("cid", group.nodes["cid"].close())
        group.run(1)
        group.kill("ann")
        node = group.open("ann", "bob", journal=True)
        group.run(1)
        assert node.peers == ["bob"]


def test_the_addresses_of_peers_added_at_run_time_survive_a_restart() -> None:
    with Group() as group:
        group.open("ann", journal=True)
        group.open("bob", journal=True)
        group.add_peer("ann", "bob")
        group.add_peer("bob", "ann")
        group.send("ann", "bob", b"1")
        group.run(1)
        group.kill("ann")
        group.open("ann", journal=True)
        group.send("ann", "bob", b"2")
        group.run(1)
        assert group.received["bob"] == [b"1", b"2"]


def test_an_address_that_no_longer_resolves_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Group() as group:
        group.open("ann", journal=True)
        group.add_peer("ann", "bob")
        group.run(1)
        group.kill("ann")
        resolve = group.simulation.network.resolve

        def fail(host: str) -> str:
            return resolve("gone.invalid" if host == "bob" else host)

        group.simulation.network.resolve = fail  # type: ignore[method-assign]
        with caplog.at_level(logging.WARNING):
            group.open("ann", journal=True)
        assert "cannot reach its peer bob" in caplog.text
        assert group.nodes["ann"].peers == ["bob"]


def stop_bob_without_a_permit(group: Group) -> None:
    """Let ann deliver a message of bob without its permit, and stop bob for good."""
    group.open_all("ann", "bob", "cid", journal=True)
    group.run(1)
    group.simulation.block("bob", "cid")
    group.send("bob", "cid", b"held up")
    group.send("bob", "ann", b"1")
    group.run(1)
    assert group.received["ann"] == [b"1"]
    group.kill("bob")


def test_forgone_permits_stay_forgone_after_a_restart() -> None:
    with Group() as group:
        stop_bob_without_a_permit(group)
        group.call("ann", group.nodes["ann"].remove_peer("bob", stopped=True))
        group.send("ann", "cid", b"2")
        group.run(1)
        assert group.received["cid"] == [b"2"]
        group.kill("ann")
        group.open("ann", "cid", journal=True)
        group.send("ann", "cid", b"3")
        group.run(1)
        assert group.received["cid"] == [b"2", b"3"]
        assert group.held()


def count_inbox_rows(group: Group, name: str) -> int:
    """Close a node, and return the number of deliveries that its journal holds."""
    group.call(name, group.nodes[name].close())
    database = group.simulation.disk(name).open_database(Path(f"{name}.db"))
    database.execute("PRAGMA locking_mode=EXCLUSIVE")
    rows = database.execute("SELECT count(*) FROM inbox")
    database.close()
    count = rows[0][0]
    assert isinstance(count, int)
    return count


def test_a_former_history_costs_one_lease_once_and_its_rows_are_deleted() -> None:
    with Group() as group:
        stop_bob_without_a_permit(group)
        group.open("bob", "ann", "cid")  # A new history, without the journal.
        group.run(3)
        for data in (b"2", b"3"):
            group.kill("ann")
            group.open("ann", "bob", "cid", journal=True)
            group.send("ann", "cid", data)
            group.run(1)
        assert group.received["cid"] == [b"2", b"3"]
        assert count_inbox_rows(group, "ann") == 0


def test_permits_of_a_former_history_are_not_missing_after_a_restart() -> None:
    """The journal keeps them although the peer has begun another history."""
    with Group() as group:
        group.open("ann", "bob", "cid", journal=True, receive=False)
        group.open("bob", "ann", "cid")
        group.open("cid", "ann", "bob")
        group.send("bob", "ann", b"1")
        group.run(1)
        group.kill("bob")
        group.open("bob", "ann", "cid")  # A new history.
        group.run(0.5)
        group.kill("ann")
        group.open("ann", "bob", "cid", journal=True, receive=False)
        group.send("ann", "cid", b"2")
        group.run(0.5)  # Shorter than the lease of the former history.
        assert group.received["cid"] == [b"2"]


def test_a_message_of_a_forgotten_peer_is_deleted_with_its_commit() -> None:
    limits = Limits(lease_s=2.0, forget_after_s=1.0)
    with Group() as group:
        node = group.open("ann", "bob", journal=True, receive=False, limits=limits)
        group.open("bob", "ann")
        group.send("bob", "ann", b"1")
        group.run(1)
        group.call("ann", node.remove_peer("bob"))
        group.run(5)
        assert "bob" not in node.engine.sessions

        async def receive() -> None:
            message = await node.receive()
            await message.commit()

        group.call("ann", receive())
        assert count_inbox_rows(group, "ann") == 0


def lose_power_of_ann(group: Group, receive: bool) -> dict[str, bytes]:
    """Let ann lose power, and its disk everything since the first second.

    Return the files of that time.
    """
    group.open("ann", "bob", **NO_SYNC)
    group.open("bob", "ann", journal=True)
    group.send("ann", "bob", b"1")
    group.run(1)
    saved = group.simulation.disk("ann").backup()
    for data in (b"2", b"3"):
        group.send("bob" if receive else "ann", "ann" if receive else "bob", data)
    group.run(1)
    restore_ann(group, saved)
    return saved


def restore_ann(group: Group, saved: dict[str, bytes]) -> None:
    """Restart ann with these files."""
    group.kill("ann")
    group.simulation.disk("ann").restore(saved)
    group.open("ann", "bob", **NO_SYNC)


@pytest.mark.parametrize("receive", [False, True], ids=["sent", "delivered"])
def test_a_node_whose_journal_is_outdated_begins_a_new_history(
    receive: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Group() as group:
        lose_power_of_ann(group, receive)
        group.run(1)
        assert "the journal ann.db is outdated: bob has seen more" in caplog.text
        group.send("ann", "bob", b"4")
        group.send("bob", "ann", b"5")
        group.run(1)
        assert group.received["bob"][-1] == b"4"
        assert group.received["ann"][-1] == b"5"
        assert group.nodes["ann"].engine.backlog == 0
        group.kill("ann")
        group.open("ann", "bob", **NO_SYNC)
        group.send("ann", "bob", b"6")
        group.run(1)
        assert group.received["bob"][-1] == b"6"


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_is_restored_twice_begins_a_history_each_time(seed: int) -> None:
    """The second time, the peer knows a history that the journal does not contain."""
    with Group(seed) as group:
        saved = lose_power_of_ann(group, receive=False)
        group.run(1)
        group.send("ann", "bob", b"4")
        group.run(1)
        history = group.nodes["bob"].engine.history
        restore_ann(group, saved)
        group.run(1)
        assert group.nodes["bob"].engine.history == history  # Bob has lost nothing.
        group.send("ann", "bob", b"5")
        group.send("bob", "ann", b"6")
        group.run(1)
        assert group.received["bob"] == [b"1", b"2", b"3", b"4", b"5"]
        assert group.received["ann"] == [b"6"]
        assert group.nodes["ann"].engine.backlog == 0


def test_messages_before_the_handshake_do_not_hide_that_the_journal_is_outdated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They have the numbers of messages that the peer has delivered."""
    with Group() as group:
        lose_power_of_ann(group, receive=False)
        for _ in range(3):
            group.send("ann", "bob", b"lost")
        group.run(1)
        assert "the journal ann.db is outdated: bob has seen more" in caplog.text
        group.send("ann", "bob", b"4")
        group.run(1)
        assert group.received["bob"] == [b"1", b"2", b"3", b"4"]


def test_a_restart_before_the_handshake_does_not_hide_that_the_journal_is_outdated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its journal holds messages with those numbers, but none of them was transmitted."""
    with Group() as group:
        saved = lose_power_of_ann(group, receive=False)
        group.simulation.block("ann", "bob")
        restore_ann(group, saved)
        for _ in range(3):
            group.send("ann", "bob", b"lost")
        group.run(1)
        for _ in range(2):
            group.kill("ann")
            group.open("ann", "bob", **NO_SYNC)
            group.run(1)
        assert "is outdated" not in caplog.text
        group.simulation.heal()
        group.run(5)
        assert "the journal ann.db is outdated: bob has seen more" in caplog.text
        group.send("ann", "bob", b"4")
        group.run(1)
        assert group.received["bob"] == [b"1", b"2", b"3", b"4"]


def test_an_outdated_journal_is_noticed_although_the_peer_was_added_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The restored node meets other peers first, and its numbers exceed those of bob."""
    with Group() as group:
        group.open("ann", **NO_SYNC)
        group.open("bob", "ann")
        group.open("cid", "ann")
        group.run(1)
        saved = group.simulation.disk("ann").backup()
        group.add_peer("ann", "bob")
        group.send("ann", "bob", b"1")
        group.run(1)
        group.kill("ann")
        group.simulation.disk("ann").restore(saved)
        group.open("ann", **NO_SYNC)
        group.add_peer("ann", "cid")
        for data in (b"1", b"2"):
            group.send("ann", "cid", data)
        group.run(1)
        assert group.received["cid"] == [b"1", b"2"]
        group.add_peer("ann", "bob")
        group.run(1)
        assert "the journal ann.db is outdated: bob has seen more" in caplog.text
        group.send("ann", "bob", b"2")
        group.run(1)
        assert group.received["bob"] == [b"1", b"2"]


def test_an_outdated_journal_is_noticed_although_it_does_not_contain_the_peer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The peer was forgotten when the backup was made, so its session starts anew."""
    limits = Limits(lease_s=2.0, forget_after_s=1.0)
    with Group() as group:
        group.open("ann", "bob", "cid", **NO_SYNC, limits=limits)
        group.open("bob", "ann")
        group.send("ann", "bob", b"1")
        group.run(1)
        group.call("ann", group.nodes["ann"].remove_peer("bob"))
        group.run(5)
        assert "bob" not in group.nodes["ann"].engine.sessions
        saved = group.simulation.disk("ann").backup()
        group.add_peer("ann", "bob")
        group.run(1)
        group.send("ann", "bob", b"2")
        group.run(1)
        restore_ann(group, saved)
        group.run(5)
        assert group.received["bob"] == [b"1", b"2"]
        assert "the journal ann.db is outdated: bob has seen more" in caplog.text


def test_an_outdated_journal_is_noticed_although_the_peer_only_holds_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A message that the peer holds would be delivered after another one of its number."""
    with Group() as group:
        group.open_all("ann", "bob", **NO_SYNC)
        group.send("ann", "bob", b"1")
        group.run(1)
        saved = group.simulation.disk("ann").backup()
        group.simulation.block("ann", "bob")
        group.send("ann", "bob", b"lost")
        group.run(0.001)
        group.simulation.heal()
        group.simulation.block("bob", "ann")  # Or ann detects the loss, and recovers.
        group.send("ann", "bob", b"held")
        group.run(0.003)
        group.simulation.heal()
        pending = group.nodes["bob"].engine.process.pending
        assert pending is not None
        assert pending.held_messages(1)
        restore_ann(group, saved)
        group.send("ann", "bob", b"lost")
        group.run(1)
        assert "the journal ann.db is outdated: bob has seen more" in caplog.text
        group.send("ann", "bob", b"2")
        group.run(1)
        assert group.received["bob"] == [b"1", b"2"]


def test_a_peer_that_is_forgotten_after_a_restart_knows_no_more_than_the_node() -> None:
    """It has delivered messages that were sent after the restart."""
    limits = Limits(lease_s=2.0, forget_after_s=1.0)
    with Group() as group:
        group.open("ann", "bob", journal=True, limits=limits)
        group.open("bob", "ann")
        group.send("ann", "bob", b"1")
        group.run(1)
        group.kill("ann")
        group.open("ann", "bob", journal=True, limits=limits)
        history = group.nodes["ann"].engine.history
        group.send("ann", "bob", b"2")
        group.run(1)
        group.call("ann", group.nodes["ann"].remove_peer("bob"))
        group.run(5)
        assert "bob" not in group.nodes["ann"].engine.sessions
        group.add_peer("ann", "bob")
        group.send("ann", "bob", b"3")
        group.run(5)
        assert group.received["bob"] == [b"1", b"2", b"3"]
        assert group.nodes["ann"].engine.history == history


def test_calls_that_wait_are_told_that_the_history_has_ended() -> None:
    with Group() as group:
        lose_power_of_ann(group, receive=False)
        group.simulation.partition(["ann"], ["bob"])
        group.send("ann", "bob", b"lost")
        group.simulation.call_later(1, group.simulation.heal)
        with pytest.raises(StorageError, match=r"ann\.db is outdated: bob .* 1 copies"):
            group.call("ann", group.nodes["ann"].flush())


def test_two_nodes_that_know_later_histories_of_each_other_meet() -> None:
    """Both were restored from backups, so each refuses the history of the other.

    The first one that learns of its later history begins a new one.
    """
    with Group() as group:
        group.open_all("ann", "bob", **NO_SYNC)
        group.send("ann", "bob", b"1")
        group.run(10)
        engines = {name: group.nodes[name].engine for name in ("ann", "bob")}
        for name, peer in (("ann", "bob"), ("bob", "ann")):
            later = next_history(engines[peer].history, lambda bits: 1)
            engines[name].sessions[peer].history = later
            engines[name].sessions[peer].handshake.incarnation = 1
        for name, peer in (("ann", "bob"), ("bob", "ann")):
            group.add_peer(name, peer)
        group.run(10)
        assert any(group.nodes[name].engine is not engines[name] for name in engines)
        group.send("ann", "bob", b"2")
        group.send("bob", "ann", b"3")
        group.run(5)
        assert group.received == {"ann": [b"3"], "bob": [b"1", b"2"]}


def test_a_large_message_does_not_continue_in_a_new_history() -> None:
    """The second one waits until the first one is sent, while a new history begins."""
    limits = replace(SHORT_LEASE, window_copies_max=1)
    errors: list[str] = []

    async def send_large(node: Node) -> None:
        try:
            await node.send("cid", bytes(10_000))
        except AntecedeError as error:
            errors.append(str(error))

    with Group() as group:
        saved = lose_power_of_ann(group, receive=False)
        group.kill("ann")
        group.simulation.disk("ann").restore(saved)
        group.simulation.partition(["ann"], ["bob"])
        group.open("cid", "ann")
        group.open("ann", "bob", "cid", **NO_SYNC, limits=limits)
        group.run(1)
        group.simulation.block("cid", "ann")
        for _ in range(2):
            group.start_task("ann", send_large)
        group.run(0.1)
        group.simulation.heal()
        group.simulation.block("cid", "ann")
        group.run(5)
        group.simulation.heal()
        group.run(5)
        assert len(errors) == 2
        assert "ann.db is outdated" in errors[0]
        assert errors[1] == (
            "ann began a new history while the message was being sent; send it again"
        )
        assert group.received["cid"] == []
        assert group.nodes["cid"].engine.stats().dropped["frame"] == 0


def test_a_stopped_peer_that_returns_with_its_journal_delivers_nothing_twice() -> None:
    with Group() as group:
        group.open("ann", "bob")
        group.open("bob", "ann", journal=True)
        group.run(1)
        group.simulation.block("ann", "bob")  # The acks are lost.
        group.send("bob", "ann", b"1")
        group.run(0.1)
        assert group.received["ann"] == [b"1"]
        group.kill("bob")
        group.call("ann", group.nodes["ann"].remove_peer("bob", stopped=True))
        group.add_peer("ann", "bob")
        group.simulation.heal()
        group.open("bob", "ann", journal=True)
        group.run(5)
        group.send("bob", "ann", b"2")
        group.send("ann", "bob", b"3")
        group.run(5)
        assert group.received["ann"] == [b"1", b"2"]
        assert group.received["bob"] == [b"3"]
        assert group.held()


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_removed_peer_that_is_added_again_continues(is_remembered: bool) -> None:
    """While the peer is remembered, messages that it had sent meanwhile arrive."""
    limits = Limits(lease_s=2.0, forget_after_s=100.0 if is_remembered else 1.0)
    with Group() as group:
        group.open("ann", "bob", limits=limits)
        group.open("bob", "ann", limits=SHORT_LEASE)
        group.send("bob", "ann", b"1")
        group.run(1)
        group.call("ann", group.nodes["ann"].remove_peer("bob"))
        group.send("bob", "ann", b"2")
        group.run(5)
        assert ("bob" in group.nodes["ann"].engine.sessions) == is_remembered
        group.add_peer("ann", "bob")
        group.run(10)
        group.send("bob", "ann", b"3")
        group.send("ann", "bob", b"4")
        group.run(5)
        kept = [b"2"] if is_remembered else []
        assert group.received["ann"] == [b"1", *kept, b"3"]
        assert group.received["bob"] == [b"4"]
        assert group.held()


def test_a_message_to_a_peer_that_had_forgotten_the_node_is_not_abandoned() -> None:
    """The node learns that it was added again when that happens, not when it sends."""
    limits = Limits(lease_s=2.0, forget_after_s=1.0)
    with Group() as group:
        group.open("ann", "bob", journal=True, limits=limits)
        history = group.nodes["ann"].engine.history
        group.open("bob", "ann")
        group.send("bob", "ann", b"1")
        group.run(1)
        group.call("ann", group.nodes["ann"].remove_peer("bob"))
        group.run(10)
        assert "bob" not in group.nodes["ann"].engine.sessions
        group.add_peer("ann", "bob")
        group.run(60)
        group.send("bob", "ann", b"2")
        group.run(1)
        assert group.received["ann"] == [b"1", b"2"]
        assert group.nodes["ann"].engine.history == history  # It has forgotten on purpose.


async def send_large(node: Node) -> None:
    await node.send("cid", node.name[:1].encode() * 3000)


def test_fragments_of_forgotten_peers_are_not_mixed() -> None:
    """Fragments of ann and bob alternate in the journal of cid, which forgets both."""
    with Group(seed=4, faults=Faults(loss=0.3, delay_s=0.001)) as group:
        for name in ("ann", "bob"):
            group.open(name, "cid")
        node = group.open("cid", "ann", "bob", journal=True, receive=False)
        group.run(1)
        for name in ("ann", "bob"):
            group.start_task(name, send_large)
        group.run(30)
        for name in ("ann", "bob"):
            group.kill(name)
            group.call("cid", node.remove_peer(name, stopped=True))
        assert not node.engine.sessions
        group.kill("cid")
        group.open("cid", journal=True)
        group.run(1)
        assert sorted(group.received["cid"]) == [b"a" * 3000, b"b" * 3000]
