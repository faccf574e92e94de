"""The tree that ``tree`` routes on, and the placement of actors on its nodes.

Theory of operation (Blessing, Clebsch and Drossopoulou, §3.2). A tree is a list of
parents: node *i* has the parent ``parents[i]``, and the root is its own parent. The tree
is well-formed if it has exactly one root and no cycle (Definition 3.2).

The paper finds the next hop by climbing from the target to a child of the node or to the
root (Figure 4), which takes as many steps as the tree is deep. Here the nodes are numbered
once, in pre-order. The descendants of a node then have the numbers of one interval, and so
have the descendants of each of its children: a comparison decides whether the next hop is
the parent, and a binary search finds the child otherwise. The memory is proportional to
the number of nodes, once for all processes that share the tree.
"""

from collections.abc import Iterable
from typing import Final

from antecede.core.process import ProcessId
from antecede.errors import ConfigError

__all__ = ["Placement", "Topology", "balanced_parents"]

BRANCHES: Final = 2
"""The number of children of a node in the default tree."""


class Topology:
    """A well-formed tree; immutable."""

    __slots__ = ("_children", "_end", "_start", "parents", "root")

    parents: tuple[int, ...]
    """The parent of each node; the root is its own parent."""
    root: int

    def __init__(self, parents: Iterable[object]) -> None:
        """Build a tree; raise ConfigError with the reason if it is not well-formed."""
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
        # A node and its descendants have the pre-order numbers from start to end - 1.
        self._start = [-1] * count
        self._end = [-1] * count
        self._number_nodes()
        for node in range(count):
            if self._start[node] < 0:  # Not reachable from the root.
                raise ConfigError(f"the tree has a cycle: {self._cycle_above(node)}")

    @property
    def nodes(self) -> int:
        """The number of nodes, whose ids start at 0."""
        return len(self.parents)

    def children(self, node: int) -> list[int]:
        """Return the children of a node, in ascending order (Definition 3.1)."""
        return self._children[node][:]

    def neighbours(self, node: int) -> list[int]:
        """Return the neighbours of a node: its parent first, then its children."""
        if node == self.root:
            return self.children(node)
        return [self.parents[node], *self._children[node]]

    def next_hop(self, node: int, target: int) -> int:
        """Return the neighbour of ``node`` on the path to ``target`` (Figure 4).

        Return ``node`` if it is the target, where the paper's function returns the parent.
        Both must be nodes of the tree.
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
        while low < high:  # Find the last child whose interval starts at or before it.
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
        """Number the nodes in pre-order, without recursion: a tree may be deep."""
        count = 0
        open_nodes = [self.root]
        while open_nodes:
            node = open_nodes.pop()
            if node < 0:  # All descendants of this node have numbers.
                self._end[-node - 1] = count
                continue
            self._start[node] = count
            count += 1
            open_nodes.append(-node - 1)
            open_nodes.extend(reversed(self._children[node]))

    def _cycle_above(self, node: int) -> str:
        """Format the cycle that the ancestors of ``node`` end in."""
        for _ in range(len(self.parents)):
            node = self.parents[node]
        cycle = [node, self.parents[node]]
        while cycle[-1] != node:
            cycle.append(self.parents[cycle[-1]])
        return " -> ".join(str(member) for member in cycle)


class Placement:
    """The node of each actor; immutable.

    Applications address actors, whose ids start at 0; routing uses their nodes. A node may
    have any number of actors.
    """

    __slots__ = ("nodes", "topology")

    topology: Topology
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
        """Return the actors on a node, in ascending order."""
        return [ProcessId(actor) for actor, home in enumerate(self.nodes) if home == node]


def balanced_parents(nodes: int, branches: int = BRANCHES) -> list[int]:
    """Return the parents of a tree of minimal depth with root 0."""
    return [max(node - 1, 0) // branches for node in range(nodes)]


def _checked_parents(parents: Iterable[object]) -> tuple[int, ...]:
    given = list(parents)
    if not given:
        raise ConfigError("a tree needs at least one node")
    checked = [
        _checked_node("node", node, "parent", parent, len(given))
        for node, parent in enumerate(given)
    ]
    return tuple(checked)


def _checked_node(kind: str, index: int, role: str, node: object, count: int) -> int:
    if not isinstance(node, int) or isinstance(node, bool) or not 0 <= node < count:
        raise ConfigError(
            f"{kind} {index} has the unknown {role} {node!r}; nodes are 0 to {count - 1}"
        )
    return node


def _listed(nodes: list[int]) -> str:
    return ", ".join(str(node) for node in nodes[:-1]) + f" and {nodes[-1]}"
