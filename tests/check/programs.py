"""Every schedule of one fixed program."""

from collections.abc import Sequence

from antecede.check.actions import ARRIVE, DROP
from antecede.check.removal import RemovalLimits
from antecede.check.search import SearchResult, search
from antecede.check.state_space import StateSpace
from antecede.check.transitions import TransitionTable
from tests.check.variants import Make

__all__ = ["Program", "follow", "program_space", "search_program"]

Program = Sequence[Sequence[Sequence[int]]]
"""For each process, the targets of each of its messages; all have the same number. A
process sends no message from the first on that has no targets."""


def program_space(
    make: Make,
    program: Program,
    *,
    fifo: bool = False,
    losses: int = 0,
    duplicates: int = 0,
    silences: int = 0,
    removal: RemovalLimits | None = None,
) -> tuple[TransitionTable, StateSpace]:
    """Return the state space of a program, without symmetry."""
    timers = losses > 0 or duplicates > 0 or silences > 0
    table = TransitionTable(make, len(program), timers=timers, ordered=removal is None)
    target_sets = [
        [[sum(1 << t for t in targets)] if targets else [] for targets in own]
        for own in program
    ]
    space = StateSpace(
        table,
        target_sets,
        fifo=fifo,
        losses=losses,
        duplicates=duplicates,
        symmetry=None,
        removal=removal,
        silences=silences,
    )
    return table, space


def search_program(
    make: Make,
    program: Program,
    *,
    fifo: bool = False,
    losses: int = 0,
    duplicates: int = 0,
    silences: int = 0,
    removal: RemovalLimits | None = None,
    states_max: int = 200_000,
) -> SearchResult:
    """Search every schedule of a program, without symmetry."""
    _, space = program_space(
        make,
        program,
        fifo=fifo,
        losses=losses,
        duplicates=duplicates,
        silences=silences,
        removal=removal,
    )
    result = SearchResult()
    search(space, result, lambda found: found.states <= states_max)
    return result


def follow(
    table: TransitionTable, space: StateSpace, steps: Sequence[tuple[int, int, int]]
) -> bytes:
    """Take steps from the first state, and return the last one.

    A step is a kind of action, its process, and the targets of a SEND as a bit set or the
    source of a packet.
    """
    state = space.first
    for kind, process, argument in steps:
        for successor in space.successors(state, canonical=False):
            action = successor.action
            found = action.argument
            if action.kind in (ARRIVE, DROP):
                found = table.packets[action.argument].source
            if (action.kind, action.process, found) == (kind, process, argument):
                state = successor.state
                break
        else:
            raise AssertionError(f"not possible: {(kind, process, argument)}")
    return state
