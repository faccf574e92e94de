"""Permutations are a group action, and the search with symmetry finds all states."""

from itertools import product

import pytest

from antecede.check.checker import target_sets
from antecede.check.state_space import StateSpace
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import TransitionTable
from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from tests.check.variants import Make

NAMES = ["hybrid", "hybrid-basic", "buffer", "buffer-fifo", "cykas", "matrix", "optimal"]


def spaces(
    make: Make, *, messages: int = 1, multicast: bool = False, fifo: bool = False
) -> tuple[TransitionTable, Symmetry, StateSpace, StateSpace]:
    """Return the space of 3 processes on one model, with and without renaming."""
    table = TransitionTable(make, 3, ordered=False)
    symmetry = Symmetry(table)
    choices = [[target_sets(3, p, multicast=multicast)] * messages for p in range(3)]
    reduced, full = (
        StateSpace(table, choices, fifo=fifo, losses=0, duplicates=0, symmetry=each)
        for each in (symmetry, None)
    )
    return table, symmetry, reduced, full


def maker(name: str) -> Make:
    info = protocol(name)
    config = ProcessConfig(processes=3, reliable=True)
    return lambda index: info.make(ProcessId(index), config)


def reach(space: StateSpace) -> set[bytes]:
    """Return all states of a space."""
    seen = {space.first}
    todo = [space.first]
    while todo:
        for successor in space.successors(todo.pop()):
            if successor.state not in seen:
                seen.add(successor.state)
                todo.append(successor.state)
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_two_permutations_are_one_permutation(name: str) -> None:
    table, symmetry, _, full = spaces(maker(name), fifo=name == "buffer-fifo")
    reach(full)
    permutations = symmetry.permutations
    assert permutations[0] == [0, 1, 2]
    met = list(table.locals)
    packets = list(table.packets)
    for first, second in product(range(len(permutations)), repeat=2):
        both = permutations.index(
            [permutations[second][permutations[first][p]] for p in range(3)]
        )
        for local in met:
            twice = symmetry.local(second, symmetry.local(first, local))
            assert twice is symmetry.local(both, local)
        for packet in packets:
            renamed = symmetry.packet(second, symmetry.packet(first, packet.id))
            assert renamed == symmetry.packet(both, packet.id)


@pytest.mark.parametrize("name", NAMES)
def test_permutations_and_steps_commute(name: str) -> None:
    table, symmetry, _, full = spaces(maker(name), fifo=name == "buffer-fifo")
    reach(full)
    for local in list(table.locals):
        for input_, step in list(local.steps.items()):
            for which in range(len(symmetry.permutations)):
                renamed = table.step(
                    symmetry.local(which, local), symmetry.input(which, input_)
                )
                assert renamed.local is symmetry.local(which, step.local)
                expected = sorted(symmetry.packet(which, p) for p in step.packets)
                assert sorted(renamed.packets) == expected
                names = symmetry.permutations[which]
                deliveries = [(names[source], number) for source, number in step.deliveries]
                assert renamed.deliveries == deliveries


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "messages", "multicast"),
    [
        *((name, 1, False) for name in NAMES),
        ("buffer", 2, False),
        ("matrix", 1, True),
        ("optimal", 1, True),
    ],
)
def test_canonical_states_are_those_of_the_search_with_symmetry(
    name: str, messages: int, multicast: bool
) -> None:
    _, symmetry, reduced, full = spaces(
        maker(name), messages=messages, multicast=multicast, fifo=name == "buffer-fifo"
    )
    everything = reach(full)
    canonical = {reduced.canonical(state) for state in everything}
    assert canonical == reach(reduced)
    assert canonical <= everything
    assert len(everything) <= len(canonical) * len(symmetry.permutations)
    assert len(canonical) < len(everything)
    assert {reduced.canonical(state) for state in canonical} == canonical


class Asymmetric:
    """Not symmetric: process 0 sends acks, the others do not."""

    def __init__(self, index: int) -> None:
        self.inner = protocol("buffer" if index == 0 else "unordered").make(
            ProcessId(index), ProcessConfig(reliable=True)
        )

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_asymmetric_protocol_is_detected() -> None:
    def make(index: int) -> Asymmetric:
        return Asymmetric(index)

    _, _, reduced, _ = spaces(make, messages=2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not symmetric"):
        reach(reduced)
