"""The definitions of Blessing et al., and a naive router, correct or not.

This module does not use the package's topology: next hops and paths are the recursions of
the paper's Figures 4 and 5. The two queues of a link are one here: the packets in flight
between two nodes of a cluster.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.tree import TreeMessage
from antecede.errors import LocalError
from antecede.testing import Cluster, Packet
from antecede.trace import Kind

Hop = Callable[[int, int], int]
"""Returns the next hop from a node towards another."""
MessageKey = tuple[int, int]
"""A message: its source and number."""


def next_hop(parents: Sequence[int], node: int, target: int) -> int:
    """Return the next hop by Figure 4."""
    if parents[target] == node and target != node:
        return target
    if parents[target] == target:
        return parents[node]
    return next_hop(parents, node, parents[target])


def path(parents: Sequence[int], source: int, target: int) -> list[int]:
    """Return the path by Figure 5."""
    if source == target:
        return [source]
    return [source, *path(parents, next_hop(parents, source, target), target)]


def beyond(parents: Sequence[int], node: int, neighbour: int) -> list[int]:
    """Return all nodes on the neighbour's side of the link between the two."""
    nodes = range(len(parents))
    return [n for n in nodes if n != node and next_hop(parents, node, n) == neighbour]


def random_parents(random: Random, nodes: int) -> list[int]:
    """Return a random tree with random ids."""
    names = random.sample(range(nodes), nodes)
    parents = [0] * nodes
    for index, name in enumerate(names):
        parents[name] = names[random.randrange(index)] if index else name
    return parents


class InvariantChecker:
    """Checks Definitions 3.3 to 3.8 in the state of a cluster of nodes on reliable links.

    A copy is a message in flight to one of its targets. The paper's messages have one
    target; its definitions apply to copies. Definition 3.8 is too weak to be preserved (see
    test_tree_errata.py); the proof needs that no node beyond a message in flight, and no
    message in flight towards that node, knows of the message.
    """

    def __init__(self, cluster: Cluster, parents: Sequence[int]) -> None:
        self.cluster = cluster
        self.parents = parents
        self.nodes = range(len(parents))
        self.seen = 0
        self.targets: dict[MessageKey, set[int]] = {}
        self.bits: dict[MessageKey, int] = {}
        self.past: dict[MessageKey, int] = {}
        """The causal past of each message, as a set of bits."""
        self.knows = [0] * len(parents)
        """The causal past of each node, as a set of bits."""
        self.received: set[tuple[MessageKey, int]] = set()
        self.paths = {(a, b): path(parents, a, b) for a in self.nodes for b in self.nodes}
        self.sides = {
            (a, b): beyond(parents, a, b) for a in self.nodes for b in self.nodes if a != b
        }

    def check(self) -> None:
        """Raise AssertionError with the definition that is violated."""
        self.follow_history()
        copies: dict[tuple[MessageKey, int], Packet] = {}
        for packet in self.cluster.in_flight:
            frame = packet.frame
            assert isinstance(frame, TreeMessage)
            message = (int(frame.source), frame.number)
            assert message in self.targets, f"3.6: {frame} was never sent"
            for target in self.targets_of(packet):
                assert target in self.nodes, f"3.3: {frame} for nobody"
                assert (message, target) not in copies, f"3.3: {frame} in two queues"
                copies[message, target] = packet
                self.check_path(packet, message, target)
        for message, targets in self.targets.items():
            for target in targets:
                received = (message, target) in self.received
                assert received != ((message, target) in copies), (
                    f"3.3, 3.6: {message} for {target} is in no queue, or was received"
                )
        for index, packet in enumerate(self.cluster.in_flight):
            self.check_no_node_beyond_knows(index, packet)

    def follow_history(self) -> None:
        """Check Definition 3.5: each message is sent once, then received once."""
        for event in self.cluster.history[self.seen :]:
            if event.kind not in (Kind.SEND, Kind.DELIVER):
                continue
            assert event.source is not None
            assert event.number is not None
            message = (event.source, event.number)
            if event.kind is Kind.SEND:
                assert message not in self.targets, f"3.5: {message} sent twice"
                everyone = set(self.nodes)
                self.targets[message] = everyone
                if event.targets is not None:
                    self.targets[message] = set(event.targets)
                self.bits[message] = 1 << len(self.bits)
                self.past[message] = self.knows[event.process]
            else:
                copy = (message, event.process)
                assert message in self.targets, f"3.6: {message} was never sent"
                assert event.process in self.targets[message], f"{copy} goes astray"
                assert copy not in self.received, f"3.5: {copy} received twice"
                self.received.add(copy)
            self.knows[event.process] |= self.past[message] | self.bits[message]
        self.seen = len(self.cluster.history)

    def targets_of(self, packet: Packet) -> list[int]:
        frame = packet.frame
        assert isinstance(frame, TreeMessage)
        if frame.targets:
            return [int(target) for target in frame.targets]
        return self.sides[packet.source, packet.target]

    def check_path(self, packet: Packet, message: MessageKey, target: int) -> None:
        """Check Definition 3.4, a link towards the target, and 3.6, no detour."""
        parents = self.parents
        assert parents[packet.source] == packet.target or (
            parents[packet.target] == packet.source
        ), f"3.4: no link {packet.source}-{packet.target}"
        whole = self.paths[message[0], target]
        rest = self.paths[packet.source, target]
        assert rest[1] == packet.target, f"3.4: {packet} is not on the way to {target}"
        assert whole[-len(rest) :] == rest, f"3.6: {packet} is on a detour"

    def check_no_node_beyond_knows(self, index: int, packet: Packet) -> None:
        """Check the purpose of Definition 3.8."""
        side = self.sides[packet.source, packet.target]
        bit = self.bits[key_of(packet)]
        for node in side:
            assert not self.knows[node] & bit, f"3.8: {node} knows of {packet}"
        for position, other in enumerate(self.cluster.in_flight):
            if other.source in side or (
                position < index
                and (other.source, other.target) == (packet.source, packet.target)
            ):
                key = key_of(other)
                known = self.past[key] | self.bits[key]
                assert not known & bit, f"3.8: {other} knows of {packet}, behind it"


def key_of(packet: Packet) -> MessageKey:
    """Return the message in a packet."""
    return packet.frame.message_source(), packet.frame.message_number()


class NaiveRouter:
    """A router for unicast with any next-hop function, correct or not."""

    def __init__(self, id: ProcessId, hop: Hop, *, lazy: bool = False) -> None:
        self.id = id
        self.hop = hop
        self.lazy = lazy
        """Whether to forward only in handle_timer, which is incorrect."""
        self.number = 0
        self.later: list[Transmit] = []
        self.transmits: list[Transmit] = []
        self.deliveries: list[Delivery] = []

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        (target,) = targets
        self.number += 1
        message = TreeMessage(self.id, self.number, [target], payload)
        if target == self.id:
            self.deliveries.append(Delivery(self.id, self.number, payload))
        else:
            hop = ProcessId(self.hop(self.id, target))
            self.transmits.append(Transmit(hop, message))
        return self.number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        assert isinstance(frame, TreeMessage)
        (target,) = frame.targets
        if target == self.id:
            self.deliveries.append(Delivery(frame.source, frame.number, frame.payload))
        else:
            hop = ProcessId(self.hop(self.id, target))
            (self.later if self.lazy else self.transmits).append(Transmit(hop, frame))

    def broadcast(self, payload: bytes, now: float) -> int:
        raise LocalError("unicast only")

    def connect(self, peer: ProcessId, now: float) -> None:
        raise LocalError("no overlay")

    def disconnect(self, peer: ProcessId, now: float) -> None:
        raise LocalError("no overlay")

    def handle_timer(self, now: float) -> None:
        self.transmits += self.later
        self.later = []

    def next_timer(self) -> float | None:
        return 0.0 if self.later else None

    def frames_to_transmit(self) -> list[Transmit]:
        transmits, self.transmits = self.transmits, []
        return transmits

    def messages_to_deliver(self) -> list[Delivery]:
        deliveries, self.deliveries = self.deliveries, []
        return deliveries
