"""Trees: well-formedness, next hops, and the placement of actors."""

from random import Random

import pytest

from antecede.core import ProcessId
from antecede.core.config import ProcessConfig
from antecede.core.overlay.tree_topology import (
    Placement,
    Topology,
    balanced_parents,
)
from antecede.core.protocols.tree import Tree
from antecede.errors import ConfigError
from tests.core import naive_tree


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ([], "at least one node"),
        ([0, 2], "node 1 has the unknown parent 2; nodes are 0 to 1"),
        ([0, -1], "node 1 has the unknown parent -1"),
        ([0, None], "node 1 has the unknown parent None"),
        ([0, 0.0], "node 1 has the unknown parent 0.0"),
        ([0, False], "node 1 has the unknown parent False"),
        ([0, 1, 0], "more than one root: 0 and 1"),
        ([0, 1, 0, 3], "more than one root: 0, 1 and 3"),
        ([1, 0], "no root"),
        ([1, 2, 0], "no root"),
        ([0, 2, 1], "cycle: 1 -> 2 -> 1|cycle: 2 -> 1 -> 2"),
        ([0, 0, 3, 4, 2, 3], "cycle: (2 -> 3 -> 4 -> 2|3 -> 4 -> 2 -> 3|4 -> 2 -> 3 -> 4)"),
        # The error names the cycle, not a node below it.
        ([0, 2, 3, 2], "cycle: (2 -> 3 -> 2|3 -> 2 -> 3)"),
    ],
)
def test_an_ill_formed_tree_is_refused_with_the_reason(
    parents: list[object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Topology(parents)


def test_every_list_of_parents_is_a_tree_or_refused() -> None:
    """Compare with Definition 3.2 over all lists of four nodes."""
    trees = 0
    for code in range(4**4):
        parents = [code // 4**node % 4 for node in range(4)]
        roots = sum(parents[node] == node for node in range(4))
        above = parents
        for _ in range(4):
            above = [parents[node] for node in above]
        well_formed = roots == 1 and all(parents[node] == node for node in above)
        trees += well_formed
        if well_formed:
            assert Topology(parents).parents == tuple(parents)
        else:
            with pytest.raises(ConfigError):
                Topology(parents)
    assert trees == 4**3  # Cayley: the number of rooted trees on four nodes.


def test_the_next_hop_is_that_of_figure_4() -> None:
    for seed in range(120):
        random = Random(seed)
        parents = naive_tree.random_parents(random, random.randint(1, 12))
        topology = Topology(parents)
        assert topology.nodes == len(parents)
        for node in range(topology.nodes):
            children = [c for c, p in enumerate(parents) if p == node and c != node]
            above = [parents[node]] if parents[node] != node else []
            assert topology.children(node) == children
            assert topology.neighbours(node) == above + children
            for target in range(topology.nodes):
                expected = naive_tree.path(parents, node, target)
                assert topology.path(node, target) == expected
                if node != target:
                    assert topology.next_hop(node, target) == expected[1]
        assert topology.next_hop(topology.root, topology.root) == topology.root


@pytest.mark.long
def test_a_tree_may_be_very_deep_or_wide() -> None:
    nodes = 50_000
    line = Topology([max(node - 1, 0) for node in range(nodes)])
    assert line.next_hop(20_000, nodes - 1) == 20_001
    assert line.next_hop(20_000, 0) == 19_999
    star = Topology([0] * nodes)
    assert star.next_hop(0, 31_415) == 31_415
    assert star.next_hop(31_415, 27_182) == 0


def test_a_caller_cannot_change_a_tree() -> None:
    topology = Topology([0, 0, 0])
    topology.children(0).clear()
    topology.neighbours(1).clear()
    assert topology.next_hop(0, 2) == 2
    assert topology.neighbours(1) == [0]


@pytest.mark.long
def test_the_default_tree_is_balanced() -> None:
    assert balanced_parents(8) == [0, 0, 0, 1, 1, 2, 2, 3]
    assert balanced_parents(5, branches=4) == [0, 0, 0, 0, 0]
    assert ProcessConfig(processes=4).topology().parents == (0, 0, 0, 1)
    depth = max(len(Topology(balanced_parents(1023)).path(0, node)) for node in range(1023))
    assert depth == 10


def test_the_processes_of_a_run_share_one_tree() -> None:
    """Otherwise, n processes would need memory proportional to n squared."""
    config = ProcessConfig(processes=3, parents=[1, 1, 1])
    topology = config.topology()
    assert topology.parents == (1, 1, 1)
    trees = [Tree(ProcessId(node), config.topology()) for node in range(3)]
    assert all(tree.topology is topology for tree in trees)
    other = ProcessConfig(processes=3).topology()
    assert other.parents == (0, 0, 0)
    assert config.topology().parents == (1, 1, 1)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (ProcessConfig(), "tree needs the number of processes"),
        (ProcessConfig(processes=4, parents=[0, 0]), "2 nodes for 4 processes"),
        (ProcessConfig(processes=2, parents=[1, 0]), "no root"),
    ],
)
def test_a_config_without_a_tree_for_its_processes_is_refused(
    config: ProcessConfig, words: str
) -> None:
    for _ in range(2):  # A failure is not cached.
        with pytest.raises(ConfigError, match=words):
            config.topology()


def test_a_tree_may_determine_the_number_of_processes() -> None:
    assert ProcessConfig(parents=[0, 0, 1]).topology().nodes == 3


def test_a_placement_maps_actors_to_nodes() -> None:
    topology = Topology([0, 0, 0])
    placement = Placement(topology, [2, 0, 2, 2])
    assert placement.nodes == (2, 0, 2, 2)
    assert [placement.actors_on(node) for node in range(3)] == [[1], [], [0, 2, 3]]
    with pytest.raises(
        ConfigError, match="actor 1 has the unknown home 3; nodes are 0 to 2"
    ):
        Placement(topology, [0, 3])
    with pytest.raises(ConfigError, match="at least one actor"):
        Placement(topology, [])
