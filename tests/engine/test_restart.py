"""A node that is started again: with a new life, or with its journal and its old one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile

import pytest

from antecede.engine import Engine, Limits
from antecede.engine.datagram import DATA, read_header
from antecede.engine.journal import SavedCopy, SavedPeer
from antecede.net.journal import Journal
from antecede.verify import Property
from tests.engine.lossy import Flight, Network, chatter


def is_data(flight: Flight) -> bool:
    return read_header(flight.datagram)[0] == DATA


# Without a journal.


def test_after_a_restart_old_messages_are_abandoned_and_new_ones_flow() -> None:
    network = Network(seed=1)
    network.mesh("ann", "bob")
    network.run(1.0)
    network.stop("bob")
    for index in range(10):
        network.send("ann", "bob", data=b"old %d" % index)
    network.run(3.0)
    assert network.engines["ann"].backlog == 10
    network.start("bob")
    network.introduce("bob", "ann")
    network.run(5.0)
    assert network.engines["ann"].backlog == 0
    assert network.data("bob") == []
    network.send("ann", "bob", data=b"new")
    network.send("bob", "ann", data=b"also new")
    network.run(5.0)
    assert network.data("bob") == [b"new"]
    assert network.data("ann") == [b"also new"]
    assert network.verdict(complete=False).held


def bob_restarts_while_a_message_of_his_is_late(network: Network) -> Flight:
    """Bob sends to cid, which is late, and to ann, who sends to cid in turn; bob dies."""
    network.mesh("ann", "bob", "cid")
    network.run(1.0)
    network.send("bob", "cid", data=b"first")
    (late,) = network.hold_back(lambda flight: flight.target == "cid")
    network.lost = lambda flight: flight.source == "bob" and flight.target == "cid"
    network.send("bob", "ann", data=b"second")
    network.run(0.1)
    assert network.data("ann") == [b"second"]
    network.send("ann", "cid", data=b"third")
    network.start("bob")
    network.introduce("bob", "ann")
    network.run(0.1)
    return late


def test_permits_of_the_former_life_are_waived_when_its_lease_is_over_and_not_before() -> (
    None
):
    network = Network(limits=Limits(lease_s=2.0))
    bob_restarts_while_a_message_of_his_is_late(network)
    assert (
        network.engines["ann"].sessions["bob"].history == network.engines["bob"].incarnation
    )
    network.run(1.9)
    assert network.data("cid") == []
    network.run(0.4)
    assert network.data("cid") == [b"third"]


def test_what_the_former_life_transmitted_is_not_overtaken() -> None:
    network = Network(limits=Limits(lease_s=2.0))
    late = bob_restarts_while_a_message_of_his_is_late(network)
    network.run(0.5)
    network.arrive(late)
    assert network.data("cid") == [b"first"]
    network.run(2.0)
    assert network.data("cid") == [b"first", b"third"]
    assert network.verdict().held


def test_what_comes_later_than_the_lease_is_refused() -> None:
    network = Network(limits=Limits(lease_s=2.0))
    late = bob_restarts_while_a_message_of_his_is_late(network)
    network.run(2.5)
    network.arrive(late)
    assert network.data("cid") == [b"third"]
    assert network.dropped("cid") == {"expired": 1}
    assert network.verdict(complete=False).held


def test_without_a_lease_at_the_receiver_the_oracle_sees_the_overtaking() -> None:
    network = Network(limits=Limits(lease_s=2.0))
    network.mesh("ann", "bob")
    network.start("cid", limits=Limits(lease_s=1000.0))
    for name in ("ann", "bob"):
        network.introduce(name, "cid")
    network.introduce("cid", "ann", "bob")
    network.run(1.0)
    network.send("bob", "cid", data=b"first")
    (late,) = network.hold_back(lambda flight: flight.target == "cid")
    network.lost = lambda flight: flight.source == "bob" and flight.target == "cid"
    network.send("bob", "ann", data=b"second")
    network.run(0.1)
    network.send("ann", "cid", data=b"third")
    network.start("bob")
    network.introduce("bob", "ann")
    network.run(2.5)
    network.arrive(late)
    assert network.data("cid") == [b"third", b"first"]
    assert network.verdict(complete=False).violated() == {Property.CAUSAL}


def test_a_protocol_that_cannot_let_go_refuses_a_peer_that_lost_its_history() -> None:
    network = Network(protocol="matrix")
    network.mesh("ann", "bob")
    network.run(1.0)
    network.start("bob", members=("ann", "bob"))
    network.introduce("bob", "ann")
    network.send("bob", "ann", data=b"from nowhere")
    network.run(5.0)
    assert network.data("ann") == []
    assert network.dropped("ann")["removed"] > 0


def test_nodes_that_crash_at_random_never_break_the_order() -> None:
    """Old messages may be lost with their node; what is delivered is in order, once."""
    for seed in range(6):
        limits = Limits(lease_s=1.0)
        network = Network(
            seed, loss=0.1, duplication=0.1, delay_s=(0.001, 0.2), limits=limits
        )
        names = ("ann", "bob", "cid", "dan")
        network.mesh(*names)
        for _ in range(12):
            chatter(network, messages=8, hops=2)
            victim = network.random.choice(names)
            network.start(victim)
            network.introduce(victim, *names)
        network.run(30.0)
        verdict = network.verdict(complete=False)
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert all(engine.backlog == 0 for engine in network.engines.values())
        before = {name: len(network.taken[name]) for name in names}
        network.on_message = None
        for name in names:
            others = [other for other in names if other != name]
            network.send(name, *others, data=b"\0")
        network.run(30.0)
        assert {name: len(network.taken[name]) for name in names} == {
            name: count + 3 for name, count in before.items()
        }


# With a journal.


def test_saved_records_are_all_that_a_node_needs_to_go_on() -> None:
    network = Network()
    network.start("ann", history=7)
    network.start("bob")
    network.introduce("ann", "bob")
    network.introduce("bob", "ann")
    for index in (1, 2, 3):
        network.send("ann", "bob", data=b"%d" % index)
    network.send("bob", "ann", data=b"back")
    network.run(1.0)
    network.lost = lambda flight: flight.source == "ann"
    network.send("ann", "bob", data=b"4")
    network.send("ann", "bob", data=b"5")
    network.lost = lambda flight: False
    bob = network.engines["bob"]
    pair = SavedPeer(
        "bob", bob.incarnation, 0, 0, sent=5, acked=3, delivered=1, permitted=1
    )
    copies = [SavedCopy(1, 4, "bob", 3, b"\0004"), SavedCopy(2, 5, "bob", 4, b"\0005")]
    ann = network.start("ann", history=7)
    ann.restore(5, [pair], copies, [], network.now)
    network.introduce("ann", "bob")
    assert network.send("ann", "bob", data=b"6") == 6
    network.run(5.0)
    network.send("bob", "ann", data=b"again")
    network.run(5.0)
    assert network.data("bob") == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert network.data("ann") == [b"back", b"again"]
    assert network.verdict().held


@dataclass
class Journaled:
    """Nodes that keep journals, and their files."""

    network: Network
    directory: Path
    journals: dict[str, Journal] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    starts: int = 0

    def start(self, name: str, *peers: str) -> Engine:
        """Start a node with its journal, as a node does that was killed, or is new."""
        self.starts += 1
        path = self.directory / f"{name}-{self.starts}"
        former = self.journals.get(name)
        if former is not None:
            # What a kill leaves: the files as they are, without what is not committed.
            copyfile(self.paths[name], path)
            copyfile(f"{self.paths[name]}-wal", f"{path}-wal")
            former.close()
        self.paths[name] = path
        journal = self.journals[name] = Journal(path, name, sync=False)
        engine = self.network.start(name, history=journal.history)
        deliveries = journal.deliveries()
        now = self.network.now
        engine.restore(journal.clock, journal.peers(), journal.copies(), deliveries, now)
        engine.attach_journal(journal, journal.mark_processed)
        for saved in deliveries:
            if not saved.processed:
                engine.redeliver(saved, now)
        self.network.introduce(name, *peers)
        return engine

    def mesh(self, *names: str) -> None:
        """Start nodes that are all each other's peers."""
        for name in names:
            self.start(name, *names)

    def close(self) -> None:
        """Give the files back."""
        for journal in self.journals.values():
            journal.close()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Journaled]:
    """A group whose nodes keep journals, on a network without faults."""
    journaled = Journaled(Network(limits=Limits(lease_s=2.0)), tmp_path)
    yield journaled
    journaled.close()


def handed_over(network: Network, name: str) -> list[bytes]:
    """Return what an application got, each message once however often it came."""
    seen: dict[tuple[str, int], bytes] = {}
    for message in network.taken[name]:
        assert seen.setdefault((message.source, message.number), message.data) == (
            message.data
        )
    return list(seen.values())


def test_a_node_with_a_journal_was_only_slow(group: Journaled) -> None:
    network = group.network
    group.mesh("ann", "bob")
    network.run(0.5)
    network.send("ann", "bob", data=b"1")
    network.run(0.5)
    network.stop("bob")
    network.send("ann", "bob", data=b"2")
    network.run(3.0)
    group.start("bob", "ann")
    network.send("ann", "bob", data=b"3")
    network.run(10.0)
    assert handed_over(network, "bob") == [b"1", b"2", b"3"]
    assert network.engines["ann"].backlog == 0
    assert network.verdict().held


def test_what_was_accepted_before_the_kill_is_transmitted_after_it(
    group: Journaled,
) -> None:
    network = group.network
    group.mesh("ann", "bob")
    network.lost = lambda flight: is_data(flight) and flight.source == "ann"
    network.run(0.5)
    for index in range(5):
        network.send("ann", "bob", data=b"%d" % index)
    group.start("ann", "bob")
    network.lost = lambda flight: False
    network.run(10.0)
    assert handed_over(network, "bob") == [b"0", b"1", b"2", b"3", b"4"]
    assert network.verdict().held


def test_a_message_comes_again_until_it_is_done_and_never_after(group: Journaled) -> None:
    network = group.network
    group.mesh("ann", "bob")
    network.run(0.5)
    network.send("ann", "bob", data=b"kept")
    network.send("ann", "bob", data=b"done")
    network.run(1.0)
    network.taken["bob"][1].commit()
    network.settle("bob")
    group.start("bob", "ann")
    network.run(1.0)
    assert network.data("bob") == [b"kept", b"done", b"kept"]
    network.taken["bob"][-1].commit()
    network.settle("bob")
    group.start("bob", "ann")
    network.run(1.0)
    assert network.data("bob") == [b"kept", b"done", b"kept"]


def test_nodes_killed_at_random_lose_nothing_and_keep_the_order(tmp_path: Path) -> None:
    for seed in range(3):
        network = Network(seed, loss=0.1, duplication=0.1, delay_s=(0.001, 0.1))
        directory = tmp_path / str(seed)
        directory.mkdir()
        group = Journaled(network, directory)
        names = ("ann", "bob", "cid")
        group.mesh(*names)
        for _ in range(10):
            for _ in range(12):
                source = network.random.choice(names)
                others = [name for name in names if name != source]
                network.send(source, network.random.choice(others), data=b"x")
                network.run(network.random.uniform(0.0, 0.03))
            group.start(network.random.choice(names), *names)
        network.run_until_quiet()
        verdict = network.verdict()
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert sum(len(handed_over(network, name)) for name in names) == 120
        group.close()


def test_kills_and_removals_at_random_keep_the_order(tmp_path: Path) -> None:
    """What is given up is lost; all else is delivered once, in order, over restarts."""
    for seed in range(4):
        network = Network(seed, loss=0.1, delay_s=(0.001, 0.1), limits=Limits(lease_s=1.5))
        directory = tmp_path / str(seed)
        directory.mkdir()
        group = Journaled(network, directory)
        random = network.random
        names = ("ann", "bob", "cid")
        group.mesh(*names)
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
            if killed:  # Around the moment at which it abandons.
                group.start(one, *names)
            else:
                network.run(0.2)
                network.introduce(one, other)
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


def test_a_node_that_says_goodbye_and_comes_back_with_its_journal_goes_on(
    group: Journaled,
) -> None:
    network = group.network
    group.mesh("ann", "bob")
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
    assert handed_over(network, "ann") == [b"1", b"2"]
    assert handed_over(network, "bob") == [b"a", b"b"]
    assert network.engines["bob"].backlog == network.engines["ann"].backlog == 0
    assert network.verdict().held


def test_the_goodbye_of_a_node_stands_for_its_lost_permits(group: Journaled) -> None:
    """Bob's permit to ann is lost, and so are his answers when she asks; he leaves."""
    network = group.network
    group.mesh("ann", "bob", "cid")
    network.run(0.5)
    network.send("bob", "cid", data=b"first")
    late = network.hold_back(lambda flight: flight.target == "cid")
    network.send("bob", "ann", data=b"second")
    network.run(0.01)
    network.lost = lambda flight: flight.source == "bob" and flight.target == "ann"
    for flight in late:
        network.arrive(flight)
    network.send("ann", "cid", data=b"third")
    network.run(0.3)
    assert network.data("cid") == [b"first"]
    network.lost = lambda flight: False
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.stop("bob")
    network.run(1.0)
    assert network.data("cid") == [b"first", b"third"]
    assert network.verdict().held


def test_a_restored_node_waits_a_lease_before_it_abandons(group: Journaled) -> None:
    """What its former incarnation transmitted may still be accepted."""
    network = group.network
    group.mesh("ann", "bob", "cid")
    network.run(0.5)
    network.send("ann", "bob", data=b"first")
    (late,) = network.hold_back(lambda flight: flight.target == "bob")
    network.lost = lambda flight: flight.source == "ann" and flight.target == "bob"
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


def test_a_restored_peer_without_an_address_is_not_spoken_to(group: Journaled) -> None:
    network = group.network
    group.mesh("ann", "bob")
    network.run(0.5)
    network.stop("bob")
    network.send("ann", "bob", data=b"x")
    ann = group.start("ann")
    network.run(5.0)
    assert ann.backlog == 1
    group.start("bob", "ann")
    network.run(5.0)
    network.introduce("ann", "bob")
    network.run(5.0)
    assert handed_over(network, "bob") == [b"x"]


def test_parts_of_a_message_whose_sender_was_killed_do_not_mix_with_the_next(
    group: Journaled,
) -> None:
    network = group.network
    group.mesh("ann", "bob")
    network.run(0.5)
    ann = network.engines["ann"]
    orphans = ann.fragment(b"o" * 5000)[:3]
    for payload in orphans:
        ann.send_fragment(["bob"], payload, network.now)
    network.run(0.5)
    group.start("ann", "bob")
    network.send("ann", "bob", data=b"w" * 5000)
    network.run(2.0)
    assert handed_over(network, "bob") == [b"w" * 5000]
    group.start("bob", "ann")
    network.run(2.0)
    assert handed_over(network, "bob") == [b"w" * 5000]


def test_a_kill_in_the_middle_of_a_large_message_loses_no_part(group: Journaled) -> None:
    network = group.network
    group.mesh("ann", "bob")
    network.run(0.5)
    network.loss = 0.5
    network.send("ann", "bob", data=bytes(range(256)) * 40)
    network.run(0.05)
    group.start("bob", "ann")
    network.run(0.05)
    group.start("ann", "bob")
    network.loss = 0.0
    network.run(10.0)
    assert handed_over(network, "bob") == [bytes(range(256)) * 40]


def test_a_message_to_itself_survives_too(group: Journaled) -> None:
    network = group.network
    group.mesh("ann", "bob")
    network.send("ann", "ann", data=b"note" * 1000)
    network.run(0.1)
    group.start("ann", "bob")
    network.run(0.1)
    assert network.data("ann") == [b"note" * 1000] * 2
    network.taken["ann"][-1].commit()
    network.settle("ann")
    group.start("ann", "bob")
    network.run(0.1)
    assert network.data("ann") == [b"note" * 1000] * 2


def test_who_left_with_messages_unacked_stalls_the_others_for_a_lease_only() -> None:
    """Ann's message to bob is lost and bob leaves; cid waits for ann's permit."""
    network = Network(limits=Limits(lease_s=2.0))
    network.mesh("ann", "bob", "cid")
    network.run(0.5)
    network.lost = lambda flight: flight.source == "ann" and flight.target == "bob"
    network.send("ann", "bob", data=b"lost")
    network.send("ann", "cid", data=b"second")
    network.run(0.1)
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.run(0.1)
    network.stop("bob")
    assert network.engines["ann"].peers() == ["cid"]
    network.start("dan")
    network.introduce("dan", "cid")
    network.introduce("cid", "dan")
    network.send("cid", "dan", data=b"third")
    network.run(0.5)
    assert network.data("dan") == []
    network.run(5.0)
    assert network.data("dan") == [b"third"]
    assert network.engines["ann"].backlog == 0
    assert network.verdict(complete=False).held


def test_who_left_is_a_peer_again_as_soon_as_it_is_back() -> None:
    network = Network()
    network.mesh("ann", "bob")
    network.run(0.5)
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.run(0.1)
    assert network.engines["ann"].peers() == []
    network.run(60.0)
    quiet = len(network.transmitted)
    network.run(60.0)
    assert len(network.transmitted) == quiet  # Nobody says hello to who has left.
    network.start("bob")
    network.introduce("bob", "ann")
    network.run(1.0)
    assert network.engines["ann"].peers() == ["bob"]
    network.send("ann", "bob", data=b"welcome back")
    network.run(1.0)
    assert network.data("bob") == [b"welcome back"]
