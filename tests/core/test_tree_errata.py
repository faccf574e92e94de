"""Errata of the definitions in Blessing et al.

Each test shows the definition as printed, and the one that is used here.
"""

from antecede.core import ProcessId
from antecede.core.overlay.tree_topology import Topology
from antecede.core.protocols.tree import Tree
from antecede.testing import Cluster
from tests.core import naive_tree
from tests.core.naive_tree import InvariantChecker

PARENTS = [0, 0, 1, 1]


def make(id: ProcessId) -> Tree:
    return Tree(id, Topology(PARENTS))


def test_figure_4_routes_a_message_to_its_own_source_to_the_parent() -> None:
    """M-Send would transmit it; here it is delivered inside send."""
    assert naive_tree.next_hop(PARENTS, 2, 2) == 1
    assert Topology(PARENTS).next_hop(2, 2) == 2
    cluster = Cluster("tree", 4, make=make)
    cluster.send(2, [2])
    assert not cluster.in_flight
    assert cluster.delivered(2) == [(2, 1)]


def test_definition_3_4_as_printed_allows_no_link_up() -> None:
    """A queue leads to a child or to the parent; the printed set excludes the parent.

    No node is its own child, so of ``children(a) | children(b)`` for a queue from a to b,
    only the first part can contain b.
    """

    def printed(a: int, b: int) -> bool:
        topology = Topology(PARENTS)
        return b in topology.children(a) or b in topology.children(b)

    assert printed(1, 2)
    assert not printed(2, 1)
    assert Topology(PARENTS).neighbours(2) == [1]


def test_definition_3_6_as_printed_fails_right_after_every_send() -> None:
    """Inclusion is strict (Figure 6), but a message at its source has its whole path."""

    def strictly_included(inner: list[int], outer: list[int]) -> bool:
        return len(inner) < len(outer) and outer[-len(inner) :] == inner

    cluster = Cluster("tree", 4, make=make)
    cluster.send(2, [0])
    (packet,) = cluster.in_flight
    rest = naive_tree.path(PARENTS, packet.source, 0)
    whole = naive_tree.path(PARENTS, 2, 0)
    assert not strictly_included(rest, whole)  # Lemma 4.3 would be false.
    InvariantChecker(cluster, PARENTS).check()  # Equal paths are allowed here.
    cluster.arrive()
    (packet,) = cluster.in_flight
    assert strictly_included(naive_tree.path(PARENTS, packet.source, 0), whole)


def test_case_5_of_arrives_before_is_not_preserved_by_a_step() -> None:
    """As printed, two messages in flight to one target arrive before each other.

    While neither has been received, case 5 holds for them in both orders; after the first
    is received, in at most one. So Lemma 4.4 is false, and Definition 3.8 is too weak for
    two messages with one target. InvariantChecker checks the property the proof needs.
    """
    cluster = Cluster("tree", 4, make=make)
    cluster.send(2, [0])
    cluster.send(3, [0])

    def case_5(first: tuple[int, int], second: tuple[int, int]) -> bool:
        received = cluster.delivered(0)
        return second not in received or (
            first in received and received.index(first) < received.index(second)
        )

    a, b = (2, 1), (3, 1)
    assert case_5(a, b)
    assert case_5(b, a)
    cluster.run_until_idle()
    assert [case_5(a, b), case_5(b, a)] == [True, False]
    assert cluster.verdict().held  # They are concurrent.


def test_theorem_4_1_is_about_the_effect_that_was_received() -> None:
    """The text says the cause, but then the effect may still be in flight."""
    cluster = Cluster("tree", 4, make=make)
    cluster.send(2, [0])
    cluster.send(2, [0])
    cluster.arrive(0)
    cluster.arrive(1)
    assert cluster.delivered(0) == [(2, 1)]  # The cause, but not the effect.
    cluster.run_until_idle()
    assert cluster.delivered(0) == [(2, 1), (2, 2)]
