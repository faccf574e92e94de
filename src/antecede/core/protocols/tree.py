"""``tree``: causal order by the shape of the network (Blessing et al., AGERE'17).

The processes are the nodes of a tree whose links are FIFO. A message travels along the
links of the tree only, so no message is held, and a message carries only its source, its
number and its targets. Rules, after Figure 3:

1. *Send* (M-Send): number the message, and transmit it on the link towards its target.
2. *Route* (M-Route): transmit a message for another node on the link towards that node, in
   the same step in which it arrived.
3. *Forward* (M-Forward): links keep their order. This is the task of the network, or of a
   FIFO link layer; the paper's two queues of a link are one here.
4. *Receive* (M-Receive): deliver a message that has reached its node at once.

Why that is causal: the path between two nodes is unique. Consider a message on a link.
Until it has crossed the link, all messages that its sending causes come from the near
side. To overtake it, such a message would have to cross the same link, which it enters
later, and neither the link nor the next node reorders. So no process beyond a message in
flight knows of it.

This argument is about links, not about targets, so it extends to what the paper leaves out.
A *multicast* puts one frame on each link that leads to some of its targets, with those
targets, and a node splits it where the paths split. A *broadcast* goes to all neighbours
but the one it came from, without targets. All links get it in one step, before any message
that it causes.

A message to its own source has no next hop (Figure 4 leads it to the parent): it is
delivered inside ``send``. *Actors* may be placed on nodes, any number on one (§2);
applications then address actors, and messages are numbered for each actor. Between actors
of one node, a message is delivered inside ``send_from``: the node is one process, whose
inputs are ordered.

::

    UNICAST     number, source, target, payload length, payload
    MULTICAST   number, source, count of targets, targets, payload length, payload
    BROADCAST   number, source, payload length, payload

The number is a plain one, the others are LEB128; the flag must be 0.
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    PayloadFrame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.input_checks import checked_payload, checked_targets
from antecede.core.overlay.tree_topology import Placement, Topology
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit, check_now
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["Tree", "TreeDelivery", "TreeMessage", "read_tree"]

UNICAST: Final = 1
MULTICAST: Final = 2
BROADCAST: Final = 3


@mypyc_attr(acyclic=True)
class TreeMessage(PayloadFrame):
    """A message on a link of the tree."""

    __slots__ = ("source", "targets")

    source: ProcessId
    """The source, which need not be the sender of the frame."""
    targets: list[ProcessId]
    """The targets beyond the link; empty for a broadcast."""

    def __init__(
        self, source: ProcessId, number: int, targets: list[ProcessId], payload: bytes
    ) -> None:
        super().__init__(number, payload)
        self.source = source
        self.targets = targets

    def kind(self) -> int:
        count = len(self.targets)
        return UNICAST if count == 1 else MULTICAST if count > 1 else BROADCAST

    def metadata_size(self) -> int:
        count = len(self.targets)
        size = 1 + width_of(self.number) + varint_width(self.source)
        if count > 1:
            size += varint_width(count)
        for target in self.targets:
            size += varint_width(target)
        return size + varint_width(len(self.payload))

    def message_source(self) -> int:
        return self.source

    def write(self, buffer: bytearray) -> None:
        kind = self.kind()
        width = width_of(self.number)
        write_head(buffer, kind, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, self.source)
        if kind == MULTICAST:
            write_varint(buffer, len(self.targets))
        for target in self.targets:
            write_varint(buffer, target)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


def read_tree(reader: Reader) -> Frame:
    """Read one frame of ``tree``."""
    kind = reader.head()
    if not UNICAST <= kind <= BROADCAST or reader.flag:
        raise reader.refuse()
    number = reader.number()
    source = ProcessId(reader.varint())
    count = 1 if kind == UNICAST else 0
    if kind == MULTICAST:
        count = reader.varint()
        if count < 2:
            raise PeerError(f"invalid multicast to {count} targets: at least 2 expected")
    targets: list[ProcessId] = []
    while len(targets) < count:
        targets.append(ProcessId(reader.varint()))
    return TreeMessage(source, number, targets, reader.payload())


@mypyc_attr(acyclic=True)
class TreeDelivery(Delivery):
    """A delivery to one actor of the node."""

    __slots__ = ("target",)

    target: ProcessId
    """The actor; without a placement, the process itself."""

    def __init__(self, message: TreeMessage, target: ProcessId) -> None:
        super().__init__(message.source, message.number, message.payload)
        self.target = target

    def __repr__(self) -> str:
        message = f"{self.source}:{self.number} to {self.target}"
        return f"TreeDelivery({message}, {len(self.payload)} B)"


class Tree(ProcessBase):
    """A process of ``tree``.

    Its id is that of its node, and, without a placement, of the one actor on that node.
    """

    __slots__ = ("_actors", "_clocks", "_homes", "_neighbours", "_topology")

    def __init__(
        self, id: ProcessId, topology: Topology, placement: Placement | None = None
    ) -> None:
        """Start a node; all nodes share the topology and the placement.

        Raise ConfigError if the topology has no such node, or the placement is for another
        topology.
        """
        super().__init__(id)
        if not 0 <= id < topology.nodes:
            raise ConfigError(f"no node {id} in a tree of {topology.nodes} nodes")
        self._topology = topology
        self._neighbours = topology.neighbours(id)
        # The node of each actor; None if actor and node have the same id.
        self._homes: tuple[int, ...] | None = None
        self._actors = [id]  # The actors on this node.
        if placement is not None:
            if placement.topology is not topology:
                raise ConfigError("the placement is for another tree")
            self._homes = placement.nodes
            self._actors = placement.actors_on(id)
        # The number of the last message of each actor on this node.
        self._clocks: dict[int, int] = dict.fromkeys(self._actors, 0)

    @property
    def topology(self) -> Topology:
        """The tree."""
        return self._topology

    @property
    def actors(self) -> list[ProcessId]:
        """The actors on this node, in ascending order."""
        return self._actors[:]

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        return self.send_from(self._id, targets, payload, now)

    def broadcast(self, payload: object, now: float) -> int:
        return self.broadcast_from(self._id, payload, now)

    def send_from(
        self, source: ProcessId, targets: Iterable[ProcessId], payload: object, now: float
    ) -> int:
        """Accept a message of an actor on this node and return its number, from 1.

        Drain the outputs afterwards; deliveries to actors on this node are among them.
        Raise LocalError, and change nothing, if the source is not on this node, a target
        does not exist, or the payload is not bytes.
        """
        check_now(now)
        members = list(dict.fromkeys(checked_targets(targets)))  # Each once.
        data = checked_payload(payload)
        count = self._actor_count()
        for target in members:
            if target >= count:
                raise LocalError(f"no target {target}: actors are 0 to {count - 1}")
        message = TreeMessage(source, self._next_number(source), members, data)
        self._route(message, [self._hop(target) for target in members])
        return message.number

    def broadcast_from(self, source: ProcessId, payload: object, now: float) -> int:
        """Accept a message of an actor on this node for all actors, itself included.

        Return its number, and raise LocalError, as :meth:`send_from` does.
        """
        check_now(now)
        data = checked_payload(payload)
        message = TreeMessage(source, self._next_number(source), [], data)
        self._flood(message, self._id)
        return message.number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if not isinstance(frame, TreeMessage):
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")
        count = self._actor_count()
        if frame.number < 1 or not 0 <= frame.source < count:
            raise PeerError(
                f"invalid {frame}: needs number >= 1 and a source below {count}"
            )
        # A message takes no detour (Definition 3.6): it comes from the neighbour on the
        # path to its source, and never goes back there.
        hop = self._hop(frame.source)
        if hop != source:
            raise PeerError(f"invalid {frame} from {source}: its path leads through {hop}")
        if not frame.targets:
            self._flood(frame, source)
            return
        hops: list[int] = []
        for target in frame.targets:
            if not 0 <= target < count:
                raise PeerError(f"invalid {frame}: no target {target} among {count}")
            hop = self._hop(target)
            if hop == source:
                raise PeerError(
                    f"invalid {frame} from {source}: {target} is behind {source}"
                )
            hops.append(hop)
        if len(hops) > 1 and len(set(frame.targets)) < len(hops):
            raise PeerError(f"invalid {frame}: a target occurs twice")
        self._route(frame, hops)

    def _route(self, message: TreeMessage, hops: list[int]) -> None:
        """Deliver to the targets on this node; transmit to the next hops of the others."""
        if len(hops) == 1:
            if hops[0] == self._id:  # M-Receive.
                self._deliveries.append(TreeDelivery(message, message.targets[0]))
            else:  # M-Route.
                self._transmits.append(Transmit(ProcessId(hops[0]), message))
            return
        parts: dict[int, list[ProcessId]] = {}
        for index, hop in enumerate(hops):
            parts.setdefault(hop, []).append(message.targets[index])
        for hop, members in parts.items():
            if hop == self._id:
                for target in members:
                    self._deliveries.append(TreeDelivery(message, target))
            else:
                part = message
                if len(parts) > 1:
                    part = TreeMessage(
                        message.source, message.number, members, message.payload
                    )
                self._transmits.append(Transmit(ProcessId(hop), part))

    def _flood(self, message: TreeMessage, excluded: int) -> None:
        """Deliver to all actors on this node, and transmit to all neighbours but one."""
        for actor in self._actors:
            self._deliveries.append(TreeDelivery(message, actor))
        for neighbour in self._neighbours:
            if neighbour != excluded:
                self._transmits.append(Transmit(ProcessId(neighbour), message))

    def _hop(self, actor: int) -> int:
        """Return the next hop to an actor, or this node if the actor is on it."""
        homes = self._homes
        home = actor if homes is None else homes[actor]
        return self._topology.next_hop(self._id, home)

    def _actor_count(self) -> int:
        homes = self._homes
        return self._topology.nodes if homes is None else len(homes)

    def _next_number(self, source: int) -> int:
        """Number a message of an actor; raise LocalError if it is not on this node."""
        clock = self._clocks.get(source)
        if clock is None:
            raise LocalError(f"actor {source} is not on node {self._id}")
        self._clocks[source] = clock + 1
        return clock + 1
