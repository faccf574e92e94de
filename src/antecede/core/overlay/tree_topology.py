"""The tree that ``tree`` routes on, and which actors live on which of its nodes.

Theory of operation (Blessing, Clebsch and Drossopoulou, §3.2). A tree is a list of
parents: node *i* has the parent ``parents[i]``, and the root is its own. It is well-formed
if it has exactly one root and no cycle (Definition 3.2); anything else is refused.

The paper finds the next hop by climbing from the target until a child of the node, or the
root, is met (Figure 4): as many steps as the tree is deep. Here the nodes are numbered
once, in pre-order. The nodes below a node then have the numbers of one interval, and so
have those below each of its children: a comparison tells whether the way leads up, and a
binary search among the children which of them it leads down to. All that takes memory in
proportion to the nodes, once, for all processes that share the tree.
"""

from collections.abc import Iterable
from typing import Final

from antecede.core.config import Setting
from antecede.core.process import ProcessId
from antecede.errors import ConfigError

__all__ = ["Placement", "Topology", "balanced_parents", "topology_for"]

BRANCHES: Final = 2
"""The children of a node of the tree that is made where none is given."""


class Topology:
    """A well-formed tree; nothing changes it."""

    __slots__ = ("_children", "_end", "_start", "parents", "root")

    parents: tuple[int, ...]
    """The parent of each node; the root is its own."""
    root: int
    """The node that is its own parent."""

    def __init__(self, parents: Iterable[object]) -> None:
        """Build a tree, or raise ConfigError, which says what is wrong with it."""
        self.parents = _checked_parents(parents)
        count = len(self.parents)
        roots = [node for node in range(count) if self.parents[node] == node]
        if not roots:
            raise ConfigError("the tree has no root: no node is its own parent")
        if len(roots) > 1:
            raise ConfigError(f"the tree has more than one root: {_listed(roots)}")
        self.root = roots[0]
        self._children: list[list[int]] = [[] for _ in range(count)]
        for node, parent in enumerate(self.parents):
            if node != parent:
                self._children[parent].append(node)
        # The nodes at and below one have the pre-order numbers from start up to end.
        self._start = [-1] * count
        self._end = [-1] * count
        self._number_nodes()
        for node in range(count):
            if self._start[node] < 0:  # The root is not above it.
                raise ConfigError(f"the tree has a cycle: {self._cycle_above(node)}")

    @property
    def nodes(self) -> int:
        """How many nodes there are, numbered from 0."""
        return len(self.parents)

    def children(self, node: int) -> list[int]:
        """Return the children of a node, in ascending order (Definition 3.1)."""
        return self._children[node][:]

    def neighbours(self, node: int) -> list[int]:
        """Return whom a node has links to: its parent first, then its children."""
        if node == self.root:
            return self.children(node)
        return [self.parents[node], *self._children[node]]

    def next_hop(self, node: int, target: int) -> int:
        """Return the neighbour of ``node`` on the way to ``target`` (Figure 4).

        It is ``node`` itself if that is the target, where the paper's function would lead
        up to the parent. Both must be nodes of the tree.
        """
        if node == target:
            return node
        start = self._start
        sought = start[target]
        if sought < start[node] or sought >= self._end[node]:
            return self.parents[node]
        children = self._children[node]
        low = 0
        high = len(children) - 1
        while low < high:  # Find the last child that starts no later than the target.
            middle = (low + high + 1) // 2
            if start[children[middle]] <= sought:
                low = middle
            else:
                high = middle - 1
        return children[low]

    def path(self, source: int, target: int) -> list[int]:
        """Return the nodes from ``source`` to ``target``, both included (Figure 5)."""
        path = [source]
        while path[-1] != target:
            path.append(self.next_hop(path[-1], target))
        return path

    def _number_nodes(self) -> None:
        """Number all nodes below the root in pre-order; trees may be deeper than stacks."""
        count = 0
        open_nodes = [self.root]
        while open_nodes:
            node = open_nodes.pop()
            if node < 0:  # Everything below this one has been numbered.
                self._end[-node - 1] = count
                continue
            self._start[node] = count
            count += 1
            open_nodes.append(-node - 1)
            open_nodes.extend(reversed(self._children[node]))

    def _cycle_above(self, node: int) -> str:
        """Show the cycle that the way up from ``node`` ends in."""
        for _ in range(len(self.parents)):
            node = self.parents[node]
        cycle = [node, self.parents[node]]
        while cycle[-1] != node:
            cycle.append(self.parents[cycle[-1]])
        return " -> ".join(str(member) for member in cycle)


class Placement:
    """On which node of a tree each actor lives; nothing changes it.

    Applications name actors, with ids from 0; who routes needs their nodes only. Any
    number of actors may live on one node, and none.
    """

    __slots__ = ("nodes", "topology")

    topology: Topology
    """The tree that they live on."""
    nodes: tuple[int, ...]
    """The node of each actor."""

    def __init__(self, topology: Topology, nodes: Iterable[object]) -> None:
        """Place actor *i* on ``nodes[i]``; raise ConfigError if there is no such node."""
        self.topology = topology
        self.nodes = tuple(
            [
                _checked_node("actor", actor, "home", node, topology.nodes)
                for actor, node in enumerate(nodes)
            ]
        )
        if not self.nodes:
            raise ConfigError("a placement needs at least one actor")

    def actors_on(self, node: int) -> list[ProcessId]:
        """Return the actors that live on a node, in ascending order."""
        return [ProcessId(actor) for actor, home in enumerate(self.nodes) if home == node]


_latest: tuple[Setting, Topology] | None = None  # What `topology_for` returned last.


def topology_for(setting: Setting) -> Topology:
    """Return the tree of a run: the setting's, or a balanced one over its processes.

    All processes of a run are told the same setting and are to share one tree, so the
    latest is remembered. Raise ConfigError if the setting's tree is not well-formed, or
    has not one node for each process.
    """
    global _latest
    latest = _latest
    if latest is not None and latest[0] is setting:
        return latest[1]
    if setting.parents is None:
        topology = Topology(balanced_parents(setting.group("tree")))
    else:
        topology = Topology(setting.parents)
        if setting.processes not in (0, topology.nodes):
            raise ConfigError(
                f"the tree has {topology.nodes} nodes for {setting.processes} processes"
            )
    _latest = (setting, topology)
    return topology


def balanced_parents(nodes: int, branches: int = BRANCHES) -> list[int]:
    """Return the parents of a tree of the least depth, whose root is node 0."""
    return [max(node - 1, 0) // branches for node in range(nodes)]


def _checked_parents(parents: Iterable[object]) -> tuple[int, ...]:
    """Return ``parents``, or raise ConfigError unless they are nodes."""
    given = list(parents)
    if not given:
        raise ConfigError("a tree needs at least one node")
    checked = [
        _checked_node("node", node, "parent", parent, len(given))
        for node, parent in enumerate(given)
    ]
    return tuple(checked)


def _checked_node(what: str, index: int, role: str, node: object, count: int) -> int:
    """Return ``node``, or raise ConfigError unless it is one of ``count``."""
    if not isinstance(node, int) or isinstance(node, bool) or not 0 <= node < count:
        raise ConfigError(
            f"{what} {index} has the unknown {role} {node!r}; nodes are 0 to {count - 1}"
        )
    return node


def _listed(nodes: list[int]) -> str:
    """List nodes in words."""
    return ", ".join(str(node) for node in nodes[:-1]) + f" and {nodes[-1]}"
