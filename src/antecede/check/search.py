"""The search: breadth first, level by level, so that counterexamples are shortest.

:func:`expand` works on a list of packed states; that is all a distributed search needs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from antecede.check.actions import Action
from antecede.check.recovery import find_stuck
from antecede.check.state_space import StateSpace
from antecede.check.symmetry import NOT_SYMMETRIC
from antecede.errors import ConfigError

__all__ = [
    "NO_PAUSE",
    "Frontier",
    "Level",
    "SearchResult",
    "Violation",
    "expand",
    "find_path",
    "find_violation",
    "search",
]

STATES_PER_REPORT = 20_000
NO_PAUSE: Final = 1 << 60
"""A number of states that no search reaches."""


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A property that a schedule violates."""

    property: str
    """causal, fifo, no-duplication, no-creation or liveness."""
    depth: int
    """The number of actions of the schedule."""
    schedule: tuple[Action, ...]
    """The actions, from the initial state."""
    undelivered: tuple[tuple[int, int, int], ...] = ()
    """If liveness is violated: source, number and target of the undelivered copies."""


@dataclass(kw_only=True)
class SearchResult:
    """The counts and the violation that a search has found so far."""

    states: int = 0
    """The number of different states."""
    transitions: int = 0
    """The number of steps between them."""
    ends: int = 0
    """The number of states without a successor."""
    depth: int = 0
    """The number of actions on a shortest path to the farthest state."""
    exhausted: bool = True
    """Whether every state within the bounds was searched."""
    violation: Violation | None = None


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """A search between two levels."""

    visited: set[bytes]
    """All states that were found."""
    level: list[bytes]
    """The states that were not expanded."""
    depth: int
    """The number of actions that lead to the level."""


@dataclass(kw_only=True)
class Level:
    """The successors of one level of the search."""

    found: dict[bytes, bytes] = field(default_factory=dict)
    """The states of the next level, each with a predecessor, in the order found, which
    unlike that of a set is deterministic; some may have been visited before."""
    transitions: int = 0
    ends: int = 0
    violation: tuple[str, bytes] | None = None
    """The first violation: the property, and the state that is stuck or whose step violates
    the property."""


def expand(space: StateSpace, states: list[bytes]) -> Level:
    """Compute every successor of every state."""
    level = Level()
    found = level.found
    for state in states:
        successors = space.successors(state)
        level.transitions += len(successors)
        is_end = not successors and space.is_over(state)
        if is_end:
            level.ends += 1
        violated, _ = find_stuck(space, state, is_end=is_end)
        if violated and level.violation is None:
            level.violation = (violated, state)
        for successor in successors:
            if successor.violated:
                if level.violation is None:
                    level.violation = (successor.violated, state)
            else:
                found[successor.state] = state
    return level


def search(
    space: StateSpace,
    result: SearchResult,
    should_continue: Callable[[SearchResult], bool],
    *,
    pause_at: int = NO_PAUSE,
) -> Frontier | None:
    """Search all states of a space, and add to ``result``.

    ``should_continue`` is called every STATES_PER_REPORT states; the search ends, not
    exhausted, if it returns False.

    Returns:
        None if the search has ended; else the frontier before the first level at which
        there are ``pause_at`` states.
    """
    visited = {space.first}
    level = [space.first]
    depth = 0
    result.states += 1
    while level:
        if result.states >= pause_at:
            return Frontier(visited=visited, level=level, depth=depth)
        result.depth = max(result.depth, depth)
        following: list[bytes] = []
        for start in range(0, len(level), STATES_PER_REPORT):
            step = expand(space, level[start : start + STATES_PER_REPORT])
            result.transitions += step.transitions
            result.ends += step.ends
            if step.violation is not None:
                violated, state = step.violation
                path = find_path(space, state, depth)
                result.violation = find_violation(space, violated, path)
                return None
            new = [state for state in step.found if state not in visited]
            visited.update(new)
            following += new
            result.states += len(new)
            if not should_continue(result):
                result.exhausted = False
                return None
        level = following
        depth += 1
    return None


def find_violation(space: StateSpace, violated: str, path: list[bytes]) -> Violation:
    """Find the actions that violate a property, without permuting any state.

    Args:
        space: The state space.
        violated: The property. Liveness is violated by the last state of the path, any
            other property by a step from there, or by several steps without a send.
        path: The states from the initial one, in canonical form.
    """
    schedule: list[Action] = []
    state = path[0]
    for wanted in path[1:]:
        for successor in space.successors(state, canonical=False):
            if not successor.violated and space.canonical(successor.state) == wanted:
                schedule.append(successor.action)
                state = successor.state
                break
        else:
            raise ConfigError(NOT_SYMMETRIC)
    undelivered: list[tuple[int, int, int]] = []
    if violated == "liveness":
        undelivered = space.undelivered(state)
    else:
        schedule += _violating_steps(space, violated, state)
    return Violation(
        property=violated,
        depth=len(schedule),
        schedule=tuple(schedule),
        undelivered=tuple(undelivered),
    )


def _violating_steps(space: StateSpace, violated: str, state: bytes) -> list[Action]:
    for successor in space.successors(state, canonical=False):
        if successor.violated == violated:
            return [successor.action]
    found, steps = find_stuck(space, state, is_end=False, canonical=False)
    if found != violated:
        raise ConfigError(NOT_SYMMETRIC)
    return steps


def find_path(space: StateSpace, goal: bytes, depth: int) -> list[bytes]:
    """Search again, recording predecessors, and return the path to a state at a depth."""
    predecessors: dict[bytes, bytes] = {space.first: b""}
    level = [space.first]
    for _ in range(depth):
        following: list[bytes] = []
        for state in level:
            for successor in space.successors(state):
                if not successor.violated and successor.state not in predecessors:
                    predecessors[successor.state] = state
                    following.append(successor.state)
        if goal in predecessors:
            break
        level = following
    path: list[bytes] = []
    state = goal
    while state:
        path.append(state)
        state = predecessors[state]
    path.reverse()
    return path
