"""Renaming processes is a group action, and the reduced search loses nothing by it."""

from itertools import product

import pytest

from antecede.check.checker import options
from antecede.check.state_space import Space
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import Model
from antecede.core.config import Setting
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from tests.check.variants import Make

NAMES = ["hybrid", "hybrid-basic", "buffer", "buffer-fifo", "cykas", "matrix", "optimal"]


def spaces(
    make: Make, *, messages: int = 1, multicast: bool = False, fifo: bool = False
) -> tuple[Model, Symmetry, Space, Space]:
    """Return the space of 3 processes on one model, with and without renaming."""
    model = Model(make, 3, ordered=False)
    symmetry = Symmetry(model)
    choices = [[options(3, p, multicast=multicast)] * messages for p in range(3)]
    reduced, full = (
        Space(model, choices, fifo=fifo, losses=0, duplicates=0, symmetry=each)
        for each in (symmetry, None)
    )
    return model, symmetry, reduced, full


def maker(name: str) -> Make:
    info = protocol(name)
    setting = Setting(processes=3, reliable=True)
    return lambda place: info.make(ProcessId(place), setting)


def reach(space: Space) -> set[bytes]:
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
def test_renaming_twice_is_renaming_once(name: str) -> None:
    model, symmetry, _, full = spaces(maker(name), fifo=name == "buffer-fifo")
    reach(full)
    renamings = symmetry.renamings
    assert renamings[0] == [0, 1, 2]
    met = list(model.locals)
    packets = list(model.packets)
    for first, second in product(range(len(renamings)), repeat=2):
        both = renamings.index([renamings[second][renamings[first][p]] for p in range(3)])
        for local in met:
            twice = symmetry.local(second, symmetry.local(first, local))
            assert twice is symmetry.local(both, local)
        for packet in packets:
            renamed = symmetry.packet(second, symmetry.packet(first, packet.id))
            assert renamed == symmetry.packet(both, packet.id)


@pytest.mark.parametrize("name", NAMES)
def test_renaming_and_stepping_commute(name: str) -> None:
    model, symmetry, _, full = spaces(maker(name), fifo=name == "buffer-fifo")
    reach(full)
    for local in list(model.locals):
        for given, step in list(local.steps.items()):
            for which in range(len(symmetry.renamings)):
                renamed = model.step(
                    symmetry.local(which, local), symmetry.input(which, given)
                )
                assert renamed.local is symmetry.local(which, step.local)
                expected = sorted(symmetry.packet(which, p) for p in step.packets)
                assert sorted(renamed.packets) == expected
                names = symmetry.renamings[which]
                deliveries = [(names[source], number) for source, number in step.deliveries]
                assert renamed.deliveries == deliveries


@pytest.mark.parametrize(
    ("name", "messages", "multicast"),
    [
        *((name, 1, False) for name in NAMES),
        ("buffer", 2, False),
        ("matrix", 1, True),
        ("optimal", 1, True),
    ],
)
def test_least_states_are_those_of_the_reduced_search(
    name: str, messages: int, multicast: bool
) -> None:
    _, symmetry, reduced, full = spaces(
        maker(name), messages=messages, multicast=multicast, fifo=name == "buffer-fifo"
    )
    everything = reach(full)
    least = {reduced.least(state) for state in everything}
    assert least == reach(reduced)
    assert least <= everything
    assert len(everything) <= len(least) * len(symmetry.renamings)
    assert len(least) < len(everything)
    assert {reduced.least(state) for state in least} == least


class Favourite:
    """Is not the same for all: the process called 0 answers, the others do not."""

    def __init__(self, place: int) -> None:
        self.inner = protocol("buffer" if place == 0 else "unordered").make(
            ProcessId(place), Setting(reliable=True)
        )

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def test_protocol_that_is_not_symmetric_is_found_out() -> None:
    def make(place: int) -> Favourite:
        return Favourite(place)

    _, _, reduced, _ = spaces(make, messages=2)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not symmetric"):
        reach(reduced)
