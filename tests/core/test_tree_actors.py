"""Actors on the nodes of a tree: causal order between actors."""

from collections.abc import Sequence
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import Frame, ProcessId, RetransmissionPolicy
from antecede.core.link import ReliableLink
from antecede.core.overlay.tree_topology import Placement, Topology
from antecede.core.process import ProcessBase
from antecede.core.protocols.tree import Tree, TreeDelivery
from antecede.errors import LocalError
from antecede.trace import EventCounter, MemoryRecorder
from antecede.verify import Property, Verdict, verify_events
from tests.core.naive_tree import random_parents

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)


class Actors:
    """Connected nodes, with a history of their actors' events."""

    def __init__(
        self, parents: Sequence[int], homes: Sequence[int], *, link: bool = False
    ) -> None:
        topology = Topology(parents)
        placement = Placement(topology, homes)
        self.homes = homes
        self.trees = [
            Tree(ProcessId(node), topology, placement) for node in range(len(parents))
        ]
        self.nodes: list[ProcessBase] = [
            ReliableLink(tree, True, POLICY) if link else tree for tree in self.trees
        ]
        self.recorder = MemoryRecorder()
        self.observer = EventCounter(self.recorder)
        self.in_flight: list[tuple[int, int, Frame]] = []
        self.now = 0.0

    def send(self, actor: int, targets: Sequence[int] | None) -> int:
        """Send a message of an actor, to all if ``targets`` is None."""
        tree = self.trees[self.homes[actor]]
        source = ProcessId(actor)
        if targets is None:
            number = tree.broadcast_from(source, b"", self.now)
        else:
            number = tree.send_from(source, [ProcessId(t) for t in targets], b"", self.now)
        self.observer.sent(actor, number, targets, self.now)
        self.nodes[self.homes[actor]].handle_timer(self.now)  # The links transmit it.
        self.drain(self.homes[actor])
        return number

    def arrive(self, index: int) -> None:
        source, target, frame = self.in_flight.pop(index)
        self.nodes[target].receive(ProcessId(source), frame, self.now)
        self.drain(target)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for index, node in enumerate(self.nodes):
            node.handle_timer(self.now)
            self.drain(index)

    def drain(self, node: int) -> None:
        for delivery in self.nodes[node].messages_to_deliver():
            assert isinstance(delivery, TreeDelivery)
            assert self.homes[delivery.target] == node
            self.observer.delivered(delivery.target, delivery, self.now)
        for transmit in self.nodes[node].frames_to_transmit():
            self.in_flight.append((node, transmit.target, transmit.frame))

    def oldest(self, random: Random) -> int:
        """Return the index of the oldest packet on a random link."""
        links: dict[tuple[int, int], int] = {}
        for index, (source, target, _) in enumerate(self.in_flight):
            links.setdefault((source, target), index)
        return random.choice(list(links.values()))

    def verdict(self) -> Verdict:
        return verify_events(self.recorder.events, processes=len(self.homes))

    def deliveries(self, actor: int) -> list[tuple[int | None, int | None]]:
        return [
            (event.source, event.number)
            for event in self.recorder.events
            if event.kind.value == "deliver" and event.process == actor
        ]


def random_actors(random: Random, *, link: bool = False) -> Actors:
    parents = random_parents(random, random.randint(1, 5))
    homes = [random.randrange(len(parents)) for _ in range(random.randint(1, 8))]
    return Actors(parents, homes, link=link)


def send_something(actors: Actors, random: Random) -> None:
    count = len(actors.homes)
    targets: list[int] | None = None
    if random.random() < 0.8:
        targets = random.sample(range(count), random.choice((1, 1, count)))
    actors.send(random.randrange(count), targets)


@pytest.mark.long
def test_every_run_is_causal_between_actors() -> None:
    for seed in range(300):
        random = Random(seed)
        actors = random_actors(random)
        for _ in range(60):
            if not actors.in_flight or random.random() < 0.35:
                send_something(actors, random)
            else:
                actors.arrive(actors.oldest(random))
        while actors.in_flight:
            actors.arrive(actors.oldest(random))
        assert not actors.verdict().violations, f"seed {seed}"


@pytest.mark.long
def test_every_run_is_causal_between_actors_despite_faults() -> None:
    for seed in range(100):
        random = Random(seed)
        actors = random_actors(random, link=True)
        for _ in range(80):
            draw = random.random()
            if not actors.in_flight or draw < 0.3:
                send_something(actors, random)
            elif draw < 0.4:
                actors.pass_time(random.choice((0.25, 1.0, 4.0)))
            elif draw < 0.55:
                actors.in_flight.pop(random.randrange(len(actors.in_flight)))
            elif draw < 0.65:
                actors.in_flight.append(random.choice(actors.in_flight))
            else:
                actors.arrive(random.randrange(len(actors.in_flight)))
        while actors.in_flight or any(node.next_timer() for node in actors.nodes):
            if actors.in_flight:
                actors.arrive(random.randrange(len(actors.in_flight)))
            else:
                actors.pass_time(8.0)
        assert not actors.verdict().violations, f"seed {seed}"


@pytest.mark.long
def test_the_oracle_detects_violations_between_actors() -> None:
    """The same runs on unordered links violate causal order."""
    convicted = 0
    for seed in range(100):
        random = Random(seed)
        actors = random_actors(random)
        for _ in range(60):
            if not actors.in_flight or random.random() < 0.35:
                send_something(actors, random)
            else:
                actors.arrive(random.randrange(len(actors.in_flight)))
        while actors.in_flight:
            actors.arrive(random.randrange(len(actors.in_flight)))
        convicted += Property.CAUSAL in actors.verdict().violated()
    assert convicted > 10


def test_actors_of_one_node_deliver_each_others_messages_at_once() -> None:
    actors = Actors([0, 0], [0, 0, 0, 1])
    assert actors.send(0, [1]) == 1
    assert actors.send(0, [2, 1]) == 2
    assert actors.send(1, [2]) == 1  # Each actor has its own numbers.
    assert actors.send(1, [1, 1]) == 2
    assert actors.deliveries(1) == [(0, 1), (0, 2), (1, 2)]
    assert actors.deliveries(2) == [(0, 2), (1, 1)]
    assert not actors.in_flight


def test_a_multicast_to_actors_of_one_node_is_one_frame() -> None:
    actors = Actors([0, 0, 1], [0, 2, 2, 1, 0])
    actors.send(0, [1, 4, 2])
    assert actors.deliveries(4) == [(0, 1)]
    assert len(actors.in_flight) == 1
    actors.arrive(0)
    actors.arrive(0)
    assert actors.deliveries(1) == actors.deliveries(2) == [(0, 1)]
    assert actors.deliveries(3) == []


def test_a_broadcast_reaches_every_actor_and_its_own_node_at_once() -> None:
    actors = Actors([0, 0, 0], [1, 2, 2, 1])
    actors.send(3, None)
    assert actors.deliveries(0) == actors.deliveries(3) == [(3, 1)]
    while actors.in_flight:
        actors.arrive(0)
    assert actors.deliveries(1) == actors.deliveries(2) == [(3, 1)]
    assert actors.verdict().held


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (1, 0, "actor 1 is not on node 0"),
        (9, 0, "actor 9 is not"),
        (0, 3, "no target 3: actors are 0 to 2"),
    ],
)
def test_a_send_of_another_nodes_actor_or_to_no_actor_is_refused(
    source: int, target: int, words: str
) -> None:
    topology = Topology([0, 0])
    tree = Tree(ProcessId(0), topology, Placement(topology, [0, 1, 0]))
    assert tree.actors == [0, 2]
    before = snapshot(tree)
    with pytest.raises(LocalError, match=words):
        tree.send_from(ProcessId(source), [ProcessId(target)], b"", 0.0)
    if source:
        with pytest.raises(LocalError, match=words):
            tree.broadcast_from(ProcessId(source), b"", 0.0)
    assert snapshot(tree) == before


def test_send_uses_the_actor_with_the_id_of_the_node() -> None:
    topology = Topology([0, 0])
    placement = Placement(topology, [1, 1])
    assert Tree(ProcessId(1), topology, placement).send([ProcessId(0)], b"", 0.0) == 1
    with pytest.raises(LocalError, match="actor 0 is not on node 0"):
        Tree(ProcessId(0), topology, placement).send([ProcessId(1)], b"", 0.0)
