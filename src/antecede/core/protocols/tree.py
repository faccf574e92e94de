"""``tree``: causal order by the shape of the network (Blessing et al., AGERE'17).

The processes are the nodes of a tree whose links are FIFO. A message travels along the
links of the tree, and on no others, and so nothing is held back and nothing is carried
but whose message it is and whom it is for. Rules, after Figure 3:

1. *Send* (M-Send): number the message, and put it on the link towards its target.
2. *Route* (M-Route): a message for another node goes on to the link towards that node at
   once, in the input in which it arrived.
3. *Forward* (M-Forward): links keep their order. This is the network's part, or that of a
   FIFO link layer; the paper's two queues of a link are one here.
4. *Receive* (M-Receive): a message that has reached its node is delivered at once.

Why that is causal: the way from one node to another is unique. Take a message on a link;
whatever it caused comes from its own side of that link. To get ahead it would have to
cross the same link, where it was put later, and neither the link nor the next node lets
it overtake. So nobody beyond a message on its way knows anything of it yet.

That argument is about links, not about targets, which gives us what the paper leaves out.
A *multicast* puts one frame on each link that leads to some of its targets, naming those,
and a node parts it where the ways part; a *broadcast* goes to every neighbour but the one
it came from and names nobody. All links get it in one input, before anything it causes.

A message to oneself has no next hop (Figure 4 leads it up to the parent): it is delivered
inside ``send``. *Actors* may be placed on nodes, any number on one (§2); applications then
name actors, and messages are numbered for each actor. Between actors of one node a message
is delivered inside ``send_from``: the node is one process, whose inputs have an order.

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
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.overlay.tree_topology import Placement, Topology
from antecede.core.process import (
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
    checked_payload,
    checked_targets,
)
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["Tree", "TreeDelivery", "TreeMessage", "read_tree"]

UNICAST: Final = 1
MULTICAST: Final = 2
BROADCAST: Final = 3


@mypyc_attr(acyclic=True)
class TreeMessage(Frame):
    """A message on a link of the tree, for some or all of those beyond the link."""

    __slots__ = ("number", "payload", "source", "targets")

    source: ProcessId
    """Who sent it, which need not be who transmits it."""
    number: int
    """Its number among all messages of its source, from 1."""
    targets: list[ProcessId]
    """Those beyond the link whom it is for; none are named if it is for all."""
    payload: bytes
    """The application's bytes."""

    def __init__(
        self, source: ProcessId, number: int, targets: list[ProcessId], payload: bytes
    ) -> None:
        """Make the frame; the fields are documented on the class."""
        self.source = source
        self.number = number
        self.targets = targets
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        whom = ", ".join(str(target) for target in self.targets) or "all"
        return (
            f"TreeMessage({self.source}:{self.number}, for {whom}, {len(self.payload)} B)"
        )

    def kind(self) -> int:
        """Return the number of this kind."""
        count = len(self.targets)
        return UNICAST if count == 1 else MULTICAST if count > 1 else BROADCAST

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        count = len(self.targets)
        size = 1 + width_of(self.number) + varint_width(self.source)
        if count > 1:
            size += varint_width(count)
        for target in self.targets:
            size += varint_width(target)
        return size + varint_width(len(self.payload))

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return len(self.payload)

    def message_number(self) -> int:
        """Return the number of the message."""
        return self.number

    def message_source(self) -> int:
        """Return who sent the message."""
        return self.source

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
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
            raise PeerError(f"a multicast to {count} targets")
    targets: list[ProcessId] = []
    while len(targets) < count:
        targets.append(ProcessId(reader.varint()))
    return TreeMessage(source, number, targets, reader.payload())


@mypyc_attr(acyclic=True)
class TreeDelivery(Delivery):
    """A delivery that says to which actor of the node."""

    __slots__ = ("target",)

    target: ProcessId
    """The actor to hand it to; where none are placed, the process itself."""

    def __init__(self, message: TreeMessage, target: ProcessId) -> None:
        """Hand ``message`` to ``target``."""
        super().__init__(message.source, message.number, message.payload)
        self.target = target

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        whose = f"{self.source}:{self.number} to {self.target}"
        return f"TreeDelivery({whose}, {len(self.payload)} B)"


class Tree(ProcessBase):
    """A process of ``tree``; see :class:`antecede.core.process.Process`.

    Its id is that of its node. Without a placement it is also that of the one actor which
    lives there, and applications may forget the word.
    """

    __slots__ = ("_actors", "_clocks", "_homes", "_neighbours", "_topology")

    def __init__(
        self, id: ProcessId, topology: Topology, placement: Placement | None = None
    ) -> None:
        """Start a node with no history; nodes may share the topology and the placement.

        Raise ConfigError if the topology has no such node, or the placement is on another.
        """
        super().__init__(id)
        if not 0 <= id < topology.nodes:
            raise ConfigError(f"process {id} is no node of a tree of {topology.nodes}")
        self._topology = topology
        self._neighbours = topology.neighbours(id)
        # The node of each actor, if that is not the node of the same number.
        self._homes: tuple[int, ...] | None = None
        self._actors = [id]  # Who lives here.
        if placement is not None:
            if placement.topology is not topology:
                raise ConfigError("the actors are placed on another tree")
            self._homes = placement.nodes
            self._actors = placement.actors_on(id)
        # The number of the last message that each of them sent.
        self._clocks: dict[int, int] = dict.fromkeys(self._actors, 0)

    @property
    def topology(self) -> Topology:
        """The tree that this is a node of."""
        return self._topology

    @property
    def actors(self) -> list[ProcessId]:
        """Who lives on this node, in ascending order."""
        return self._actors[:]

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1."""
        return self.send_from(self._id, targets, payload, now)

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for everyone and return its number, from 1."""
        return self.broadcast_from(self._id, payload, now)

    def send_from(
        self, source: ProcessId, targets: Iterable[ProcessId], payload: object, now: float
    ) -> int:
        """Accept a message of an actor on this node and return its number, from 1.

        Drain the outputs afterwards; deliveries to actors on this node are among them
        already. Raise LocalError, and change nothing, if the source does not live here,
        a target nowhere, or the payload is not bytes.
        """
        check_now(now)
        members = list(dict.fromkeys(checked_targets(targets)))  # Each once.
        data = checked_payload(payload)
        count = self._actor_count()
        for target in members:
            if target >= count:
                raise LocalError(f"no target {target} among {count}")
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
        """Deliver what arrived over the link from ``source``, or pass it on, or both."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if not isinstance(frame, TreeMessage):
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")
        count = self._actor_count()
        if frame.number < 1 or not 0 <= frame.source < count:
            raise PeerError(f"{frame} cannot be")
        # A message makes no detours (Definition 3.6): it comes from where its source is,
        # which no stranger to this node can claim, and goes where it has not been.
        hop = self._hop(frame.source)
        if hop != source:
            raise PeerError(f"{frame} came from {source}, but its way is by {hop}")
        if not frame.targets:
            self._flood(frame, source)
            return
        hops: list[int] = []
        for target in frame.targets:
            if not 0 <= target < count:
                raise PeerError(f"{frame}, but there is no {target} among {count}")
            hop = self._hop(target)
            if hop == source:
                raise PeerError(f"{frame} came from {source}, where {target} is")
            hops.append(hop)
        if len(hops) > 1 and len(set(frame.targets)) < len(hops):
            raise PeerError(f"{frame} names a target twice")
        self._route(frame, hops)

    def _route(self, message: TreeMessage, hops: list[int]) -> None:
        """Deliver to the targets that live here, and pass on to all others' next hops."""
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

    def _flood(self, message: TreeMessage, came_from: int) -> None:
        """Deliver to all who live here, and pass on to all neighbours but one."""
        for actor in self._actors:
            self._deliveries.append(TreeDelivery(message, actor))
        for neighbour in self._neighbours:
            if neighbour != came_from:
                self._transmits.append(Transmit(ProcessId(neighbour), message))

    def _hop(self, actor: int) -> int:
        """Return the next hop on the way to an actor, or this node if it lives here."""
        homes = self._homes
        home = actor if homes is None else homes[actor]
        return self._topology.next_hop(self._id, home)

    def _actor_count(self) -> int:
        homes = self._homes
        return self._topology.nodes if homes is None else len(homes)

    def _next_number(self, source: int) -> int:
        """Count a message of an actor; raise LocalError if it does not live here."""
        clock = self._clocks.get(source)
        if clock is None:
            raise LocalError(f"{source} does not live on node {self._id}")
        self._clocks[source] = clock + 1
        return clock + 1
