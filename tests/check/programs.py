"""Every schedule of one fixed program."""

from collections.abc import Sequence

from antecede.check.search import SearchResult, search
from antecede.check.state_space import StateSpace
from antecede.check.transitions import TransitionTable
from tests.check.variants import Make

__all__ = ["Program", "search_program"]

Program = Sequence[Sequence[Sequence[int]]]
"""For each process, the targets of each of its messages; all have the same number."""


def search_program(
    make: Make,
    program: Program,
    *,
    fifo: bool = False,
    losses: int = 0,
    duplicates: int = 0,
    states_max: int = 200_000,
) -> SearchResult:
    """Search every schedule of a program, without symmetry."""
    table = TransitionTable(make, len(program), timers=losses > 0 or duplicates > 0)
    target_sets = [[[sum(1 << t for t in targets)] for targets in own] for own in program]
    space = StateSpace(
        table, target_sets, fifo=fifo, losses=losses, duplicates=duplicates, symmetry=None
    )
    result = SearchResult()
    search(space, result, lambda found: found.states <= states_max)
    return result
