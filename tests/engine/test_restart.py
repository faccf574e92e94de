"""Restart of a node: with a new history, or with its journal and its old history."""

from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile

import pytest

from antecede.engine import Engine, Limits
from antecede.engine.datagram import DATA, read_header
from antecede.engine.journal import MET, SavedCopy, SavedPeer, SavedState
from antecede.engine.message import DONE
from antecede.net.database import SqliteDatabase
from antecede.net.journal import Journal
from antecede.verify import Property
from tests.engine.network import Flight, Network, random_traffic


def is_data(flight: Flight) -> bool:
    return read_header(flight.datagram)[0] == DATA


# Without a journal.


def test_after_a_restart_old_messages_are_abandoned_and_new_ones_delivered() -> None:
    network = Network(seed=1)
    network.start_group("ann", "bob")
    network.run(1.0)
    network.stop("bob")
    for index in range(10):
        network.send("ann", "bob", data=b"old %d" % index)
    network.run(3.0)
    assert network.engines["ann"].backlog == 10
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(5.0)
    assert network.engines["ann"].backlog == 0
    assert network.data("bob") == []
    network.send("ann", "bob", data=b"new")
    network.send("bob", "ann", data=b"also new")
    network.run(5.0)
    assert network.data("bob") == [b"new"]
    assert network.data("ann") == [b"also new"]
    assert network.verdict(complete=False).held


def restart_bob_while_his_message_is_late(network: Network) -> Flight:
    """Delay bob's message to cid, let bob and then ann send on, and restart bob."""
    network.start_group("ann", "bob", "cid")
    network.run(1.0)
    network.send("bob", "cid", data=b"first")
    (late,) = network.intercept(lambda flight: flight.target == "cid")
    network.should_lose = lambda flight: flight.source == "bob" and flight.target == "cid"
    network.send("bob", "ann", data=b"second")
    network.run(0.1)
    assert network.data("ann") == [b"second"]
    network.send("ann", "cid", data=b"third")
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(0.1)
    return late


def test_permits_of_the_former_history_are_forgone_when_its_lease_ends() -> None:
    network = Network(limits=Limits(lease_s=2.0))
    restart_bob_while_his_message_is_late(network)
    assert (
        network.engines["ann"].sessions["bob"].history == network.engines["bob"].incarnation
    )
    network.run(1.9)
    assert network.data("cid") == []
    network.run(0.4)
    assert network.data("cid") == [b"third"]


def test_datagrams_of_the_former_history_are_not_overtaken() -> None:
    network = Network(limits=Limits(lease_s=2.0))
    late = restart_bob_while_his_message_is_late(network)
    network.run(0.5)
    network.arrive(late)
    assert network.data("cid") == [b"first"]
    network.run(2.0)
    assert network.data("cid") == [b"first", b"third"]
    assert network.verdict().held


def test_a_datagram_older_than_the_lease_is_refused() -> None:
    network = Network(limits=Limits(lease_s=2.0))
    late = restart_bob_while_his_message_is_late(network)
    network.run(2.5)
    network.arrive(late)
    assert network.data("cid") == [b"third"]
    assert network.dropped("cid") == {"expired": 1}
    assert network.verdict(complete=False).held


def test_without_a_lease_at_the_receiver_causal_order_is_violated() -> None:
    network = Network(limits=Limits(lease_s=2.0))
    network.start_group("ann", "bob")
    network.start("cid", limits=Limits(lease_s=1000.0))
    for name in ("ann", "bob"):
        network.add_peers(name, "cid")
    network.add_peers("cid", "ann", "bob")
    network.run(1.0)
    network.send("bob", "cid", data=b"first")
    (late,) = network.intercept(lambda flight: flight.target == "cid")
    network.should_lose = lambda flight: flight.source == "bob" and flight.target == "cid"
    network.send("bob", "ann", data=b"second")
    network.run(0.1)
    network.send("ann", "cid", data=b"third")
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(2.5)
    network.arrive(late)
    assert network.data("cid") == [b"third", b"first"]
    assert network.verdict(complete=False).violated() == {Property.CAUSAL}


def test_a_protocol_without_removal_refuses_a_peer_that_lost_its_history() -> None:
    network = Network(protocol="matrix")
    network.start_group("ann", "bob")
    network.run(1.0)
    network.start("bob", members=("ann", "bob"))
    network.add_peers("bob", "ann")
    network.send("bob", "ann", data=b"from nowhere")
    network.run(5.0)
    assert network.data("ann") == []
    assert network.dropped("ann")["removed"] > 0


@pytest.mark.long
def test_random_crashes_preserve_causal_order() -> None:
    """A crash may lose messages; the others are delivered once and in order."""
    for seed in range(6):
        limits = Limits(lease_s=1.0)
        network = Network(
            seed, loss=0.1, duplication=0.1, delay_s=(0.001, 0.2), limits=limits
        )
        names = ("ann", "bob", "cid", "dan")
        network.start_group(*names)
        for _ in range(12):
            random_traffic(network, messages=8, hops=2)
            victim = network.random.choice(names)
            network.start(victim)
            network.add_peers(victim, *names)
        network.run(30.0)
        verdict = network.verdict(complete=False)
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert all(engine.backlog == 0 for engine in network.engines.values())
        before = {name: len(network.received[name]) for name in names}
        network.on_message = None
        for name in names:
            others = [other for other in names if other != name]
            network.send(name, *others, data=b"\0")
        network.run(30.0)
        assert {name: len(network.received[name]) for name in names} == {
            name: count + 3 for name, count in before.items()
        }


# With a journal.


def test_a_node_continues_from_saved_records() -> None:
    network = Network()
    network.start("ann", history=7)
    network.start("bob")
    network.add_peers("ann", "bob")
    network.add_peers("bob", "ann")
    for index in (1, 2, 3):
        network.send("ann", "bob", data=b"%d" % index)
    network.send("bob", "ann", data=b"back")
    network.run(1.0)
    network.should_lose = lambda flight: flight.source == "ann"
    network.send("ann", "bob", data=b"4")
    network.send("ann", "bob", data=b"5")
    network.should_lose = lambda flight: False
    bob = network.engines["bob"]
    pair = SavedPeer(
        name="bob",
        state="active",
        stopped=False,
        history=bob.incarnation,
        epoch_in=bob.sessions["ann"].epoch_out,
        epoch_out=network.engines["ann"].sessions["bob"].epoch_out,
        acked_base=0,
        sent=5,
        acked=3,
        delivered=1,
        permitted=1,
        number_before=MET,
    )
    copies = [SavedCopy(1, 4, "bob", 3, b"\0004"), SavedCopy(2, 5, "bob", 4, b"\0005")]
    ann = network.start("ann", history=7)
    ann.restore(SavedState(5, 1, 0, [pair], copies, []), network.now)
    network.add_peers("ann", "bob")
    assert network.send("ann", "bob", data=b"6") == 6
    network.run(5.0)
    network.send("bob", "ann", data=b"again")
    network.run(5.0)
    assert network.data("bob") == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert network.data("ann") == [b"back", b"again"]
    assert network.verdict().held


@dataclass
class Journaled:
    """Nodes with journals, and the files of these."""

    network: Network
    directory: Path
    journals: dict[str, Journal] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    starts: int = 0

    def __post_init__(self) -> None:
        self.network.on_flush = self.commit

    def commit(self, name: str) -> None:
        """Write what the engine of a node has recorded."""
        journal = self.journals[name]
        statements = journal.take_statements()
        if statements:
            journal.write(statements)

    def start(self, name: str, *peers: str) -> Engine:
        """Start a new node, or restart one that was killed, with its journal."""
        self.starts += 1
        path = self.directory / f"{name}-{self.starts}"
        former = self.journals.get(name)
        if former is not None:
            # A kill leaves the files as they are, without uncommitted records.
            copyfile(self.paths[name], path)
            copyfile(f"{self.paths[name]}-wal", f"{path}-wal")
            former.close()
        self.paths[name] = path
        journal = self.journals[name] = Journal(
            SqliteDatabase(path), path, name, self.network.random.getrandbits, sync=False
        )
        engine = self.network.start(name, history=journal.history)
        state = journal.state()
        now = self.network.now
        engine.restore(state, now)

        def on_commit(source: str, history: int, number: int) -> Awaitable[None]:
            journal.mark_processed(source, history, number)
            return DONE

        engine.attach_journal(journal, on_commit)
        for saved in state.deliveries:
            if not saved.processed:
                engine.redeliver(saved, now)
        self.network.add_peers(name, *peers, is_configured=True)
        return engine

    def start_group(self, *names: str) -> None:
        """Start a group in which all nodes are peers."""
        for name in names:
            self.start(name, *names)

    def close(self) -> None:
        """Close the journals."""
        for journal in self.journals.values():
            journal.close()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Journaled]:
    """Return a group whose nodes have journals, on a network without faults."""
    journaled = Journaled(Network(limits=Limits(lease_s=2.0)), tmp_path)
    yield journaled
    journaled.close()


def delivered_once(network: Network, name: str) -> list[bytes]:
    """Return the data that an application received, without redeliveries."""
    seen: dict[tuple[str, int], bytes] = {}
    for message in network.received[name]:
        assert seen.setdefault((message.source, message.number), message.data) == (
            message.data
        )
    return list(seen.values())


def test_a_node_with_a_journal_loses_nothing_in_a_restart(group: Journaled) -> None:
    network = group.network
    group.start_group("ann", "bob")
    network.run(0.5)
    network.send("ann", "bob", data=b"1")
    network.run(0.5)
    network.stop("bob")
    network.send("ann", "bob", data=b"2")
    network.run(3.0)
    group.start("bob", "ann")
    network.send("ann", "bob", data=b"3")
    network.run(10.0)
    assert delivered_once(network, "bob") == [b"1", b"2", b"3"]
    assert network.engines["ann"].backlog == 0
    assert network.verdict().held


def test_messages_sent_before_a_kill_are_transmitted_after_it(
    group: Journaled,
) -> None:
    network = group.network
    group.start_group("ann", "bob")
    network.should_lose = lambda flight: is_data(flight) and flight.source == "ann"
    network.run(0.5)
    for index in range(5):
        network.send("ann", "bob", data=b"%d" % index)
    group.start("ann", "bob")
    network.should_lose = lambda flight: False
    network.run(10.0)
    assert delivered_once(network, "bob") == [b"0", b"1", b"2", b"3", b"4"]
    assert network.verdict().held


def test_a_message_is_redelivered_until_it_is_committed(group: Journaled) -> None:
    network = group.network
    group.start_group("ann", "bob")
    network.run(0.5)
    network.send("ann", "bob", data=b"kept")
    network.send("ann", "bob", data=b"done")
    network.run(1.0)
    network.received["bob"][1].commit()
    network.flush("bob")
    group.start("bob", "ann")
    network.run(1.0)
    assert network.data("bob") == [b"kept", b"done", b"kept"]
    network.received["bob"][-1].commit()
    network.flush("bob")
    group.start("bob", "ann")
    network.run(1.0)
    assert network.data("bob") == [b"kept", b"done", b"kept"]


@pytest.mark.long
def test_random_kills_lose_nothing_and_preserve_causal_order(tmp_path: Path) -> None:
    for seed in range(3):
        network = Network(seed, loss=0.1, duplication=0.1, delay_s=(0.001, 0.1))
        directory = tmp_path / str(seed)
        directory.mkdir()
        group = Journaled(network, directory)
        names = ("ann", "bob", "cid")
        group.start_group(*names)
        for _ in range(10):
            for _ in range(12):
                source = network.random.choice(names)
                others = [name for name in names if name != source]
                network.send(source, network.random.choice(others), data=b"x")
                network.run(network.random.uniform(0.0, 0.03))
            group.start(network.random.choice(names), *names)
        network.run_until_idle()
        verdict = network.verdict()
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert sum(len(delivered_once(network, name)) for name in names) == 120
        group.close()


@pytest.mark.long
def test_random_kills_and_removals_preserve_causal_order(tmp_path: Path) -> None:
    """A removal may lose messages; the others are delivered once and in order."""
    for seed in range(4):
        network = Network(seed, loss=0.1, delay_s=(0.001, 0.1), limits=Limits(lease_s=1.5))
        directory = tmp_path / str(seed)
        directory.mkdir()
        group = Journaled(network, directory)
        random = network.random
        names = ("ann", "bob", "cid")
        group.start_group(*names)
        network.run(1.0)
        for _ in range(8):
            one, other = random.sample(names, 2)
            ends = network.engines[one].remove_peer(other, network.now)
            killed = random.random() < 0.5
            ends += random.uniform(-0.1, 0.1)
            while network.now < ends:
                source, target = random.sample(names, 2)
                if target in network.engines[source].peers():
                    network.send(source, target, data=b"x")
                network.run(random.uniform(0.0, 0.05))
            if killed:  # Around the end of the lease.
                group.start(one, *names)
            else:
                network.run(0.2)
                network.add_peers(one, other)
            network.run(0.3)
        network.run(300.0)
        verdict = network.verdict(complete=False)
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert all(engine.backlog == 0 for engine in network.engines.values()), seed
        for name in names:
            network.send(name, *[each for each in names if each != name], data=b"z")
        network.run(100.0)
        for name in names:
            assert network.data(name).count(b"z") == 2, seed
        group.close()


def test_a_node_that_left_returns_with_its_journal(
    group: Journaled,
) -> None:
    network = group.network
    group.start_group("ann", "bob")
    network.run(0.5)
    network.send("bob", "ann", data=b"1")
    network.send("ann", "bob", data=b"a")
    network.run(1.0)
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.run(0.1)
    group.start("bob", "ann")
    network.run(1.0)
    network.send("bob", "ann", data=b"2")
    network.send("ann", "bob", data=b"b")
    network.run(5.0)
    assert delivered_once(network, "ann") == [b"1", b"2"]
    assert delivered_once(network, "bob") == [b"a", b"b"]
    assert network.engines["bob"].backlog == network.engines["ann"].backlog == 0
    assert network.verdict().held


def test_a_bye_replaces_the_lost_permits_of_a_node(group: Journaled) -> None:
    """Bob's permit to ann and his answers to her requests are lost; then he leaves."""
    network = group.network
    group.start_group("ann", "bob", "cid")
    network.run(0.5)
    network.send("bob", "cid", data=b"first")
    late = network.intercept(lambda flight: flight.target == "cid")
    network.send("bob", "ann", data=b"second")
    network.run(0.01)
    network.should_lose = lambda flight: flight.source == "bob" and flight.target == "ann"
    for flight in late:
        network.arrive(flight)
    network.send("ann", "cid", data=b"third")
    network.run(0.3)
    assert network.data("cid") == [b"first"]
    network.should_lose = lambda flight: False
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.stop("bob")
    network.run(1.0)
    assert network.data("cid") == [b"first", b"third"]
    assert network.verdict().held


def test_a_restored_node_abandons_only_after_a_lease(group: Journaled) -> None:
    """Peers may still accept datagrams of its former incarnation."""
    network = group.network
    group.start_group("ann", "bob", "cid")
    network.run(0.5)
    network.send("ann", "bob", data=b"first")
    (late,) = network.intercept(lambda flight: flight.target == "bob")
    network.should_lose = lambda flight: flight.source == "ann" and flight.target == "bob"
    network.send("ann", "cid", data=b"second")
    network.run(0.05)
    network.send("cid", "bob", data=b"third")
    network.stop("ann")
    network.run(0.05)
    ann = group.start("ann")
    for name in ("bob", "cid"):
        ann.add_peer(name, name, network.now)
    assert ann.remove_peer("bob", network.now) > network.now + 2.0
    network.run(1.0)
    network.arrive(late)
    network.run(10.0)
    assert network.data("bob") == [b"first", b"third"]
    assert network.verdict().held


def test_a_restored_peer_without_an_address_gets_no_datagrams(group: Journaled) -> None:
    network = group.network
    group.start_group("ann", "bob")
    network.run(0.5)
    network.stop("bob")
    network.send("ann", "bob", data=b"x")
    ann = group.start("ann")
    network.run(5.0)
    assert ann.backlog == 1
    group.start("bob", "ann")
    network.run(5.0)
    network.add_peers("ann", "bob")
    network.run(5.0)
    assert delivered_once(network, "bob") == [b"x"]


def test_fragments_of_a_killed_sender_do_not_mix_with_the_next_message(
    group: Journaled,
) -> None:
    network = group.network
    group.start_group("ann", "bob")
    network.run(0.5)
    ann = network.engines["ann"]
    orphans = ann.fragment(b"o" * 5000)[:3]
    for payload in orphans:
        ann.send_fragment(["bob"], payload, network.now)
    network.run(0.5)
    group.start("ann", "bob")
    network.send("ann", "bob", data=b"w" * 5000)
    network.run(2.0)
    assert delivered_once(network, "bob") == [b"w" * 5000]
    group.start("bob", "ann")
    network.run(2.0)
    assert delivered_once(network, "bob") == [b"w" * 5000]


def test_a_kill_within_a_large_message_loses_no_fragment(group: Journaled) -> None:
    network = group.network
    group.start_group("ann", "bob")
    network.run(0.5)
    network.loss = 0.5
    network.send("ann", "bob", data=bytes(range(256)) * 40)
    network.run(0.05)
    group.start("bob", "ann")
    network.run(0.05)
    group.start("ann", "bob")
    network.loss = 0.0
    network.run(10.0)
    assert delivered_once(network, "bob") == [bytes(range(256)) * 40]


def test_a_message_to_the_node_itself_survives_a_restart(group: Journaled) -> None:
    network = group.network
    group.start_group("ann", "bob")
    network.send("ann", "ann", data=b"note" * 1000)
    network.run(0.1)
    group.start("ann", "bob")
    network.run(0.1)
    assert network.data("ann") == [b"note" * 1000] * 2
    network.received["ann"][-1].commit()
    network.flush("ann")
    group.start("ann", "bob")
    network.run(0.1)
    assert network.data("ann") == [b"note" * 1000] * 2


def test_unacked_copies_to_a_peer_that_left_delay_others_for_one_lease() -> None:
    """Ann's message to bob is lost and bob leaves; cid needs ann's permit."""
    network = Network(limits=Limits(lease_s=2.0))
    network.start_group("ann", "bob", "cid")
    network.run(0.5)
    network.should_lose = lambda flight: flight.source == "ann" and flight.target == "bob"
    network.send("ann", "bob", data=b"lost")
    network.send("ann", "cid", data=b"second")
    network.run(0.1)
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.run(0.1)
    network.stop("bob")
    assert network.engines["ann"].peers() == ["cid"]
    network.start("dan")
    network.add_peers("dan", "cid")
    network.add_peers("cid", "dan")
    network.send("cid", "dan", data=b"third")
    network.run(0.5)
    assert network.data("dan") == []
    network.run(5.0)
    assert network.data("dan") == [b"third"]
    assert network.engines["ann"].backlog == 0
    assert network.verdict(complete=False).held


def test_a_peer_that_left_is_active_again_when_it_returns() -> None:
    network = Network()
    network.start_group("ann", "bob")
    network.run(0.5)
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.run(0.1)
    assert network.engines["ann"].peers() == []
    network.run(60.0)
    quiet = len(network.transmitted)
    network.run(60.0)
    assert len(network.transmitted) == quiet  # No HELLO to a peer that left.
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(1.0)
    assert network.engines["ann"].peers() == ["bob"]
    network.send("ann", "bob", data=b"welcome back")
    network.run(1.0)
    assert network.data("bob") == [b"welcome back"]
