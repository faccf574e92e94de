"""The search: every state of a space, level by level, so that a counterexample is short.

Levels are handed out as lists of packed states (:func:`expand`), which is all that another
engine needs to distribute the work.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from antecede.check.state_space import Action, Space
from antecede.check.symmetry import NOT_SYMMETRIC
from antecede.errors import ConfigError

__all__ = ["Level", "Result", "Violation", "expand", "find_violation", "search"]

STATES_PER_REPORT = 20_000


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A property that a schedule breaks."""

    property: str
    """causal, fifo, once, genuine or live."""
    depth: int
    """How many actions the schedule has."""
    schedule: tuple[Action, ...]
    """The actions, from the beginning."""


@dataclass(kw_only=True)
class Result:
    """What a search has found so far."""

    states: int = 0
    """How many different states there are."""
    transitions: int = 0
    """How many steps between them were looked at."""
    ends: int = 0
    """How many states nothing follows."""
    depth: int = 0
    """How many actions it takes to reach the farthest state, the shortest way."""
    exhausted: bool = True
    """There is nothing left to look at, within the bounds."""
    violation: Violation | None = None


@dataclass(kw_only=True)
class Level:
    """What one level leads to."""

    found: dict[bytes, bytes] = field(default_factory=dict)
    """The states of the next one, each with one that leads to it, in the order found, which
    unlike that of a set is always the same; some may have been seen before."""
    transitions: int = 0
    ends: int = 0
    broken: tuple[str, bytes] | None = None
    """The first violation: the property, and the state that is stuck or before the step
    that breaks it."""


def expand(space: Space, states: list[bytes]) -> Level:
    """Make every possible step from every one of these states."""
    level = Level()
    found = level.found
    for state in states:
        successors = space.successors(state)
        level.transitions += len(successors)
        if not successors and space.is_over(state):
            level.ends += 1
            if not space.is_delivered(state) and level.broken is None:
                level.broken = ("live", state)
        for successor in successors:
            if successor.broken:
                if level.broken is None:
                    level.broken = (successor.broken, state)
            else:
                found[successor.state] = state
    return level


def search(space: Space, result: Result, watch: Callable[[Result], bool]) -> None:
    """Look at every state of a space, and put what is found in ``result``.

    ``watch`` is called now and then; it tells whether to go on.
    """
    seen = {space.first}
    level = [space.first]
    depth = 0
    result.states += 1
    while level:
        result.depth = max(result.depth, depth)
        following: list[bytes] = []
        for start in range(0, len(level), STATES_PER_REPORT):
            step = expand(space, level[start : start + STATES_PER_REPORT])
            result.transitions += step.transitions
            result.ends += step.ends
            if step.broken is not None:
                what, goal = step.broken
                way = _find_way(space, goal, depth)
                result.violation = find_violation(space, what, way)
                return
            fresh = [state for state in step.found if state not in seen]
            seen.update(fresh)
            following += fresh
            result.states += len(fresh)
            if not watch(result):
                result.exhausted = False
                return
        level = following
        depth += 1


def find_violation(space: Space, what: str, way: list[bytes]) -> Violation:
    """Find the actions that break a property, without renaming anything.

    Args:
        space: The states.
        what: The property; ``live`` is broken by the last state of the way, any other by
            a step from there.
        way: From the first state on, each as it was found.
    """
    schedule: list[Action] = []
    state = way[0]
    for wanted in way[1:]:
        for successor in space.successors(state, renamed=False):
            if not successor.broken and space.least(successor.state) == wanted:
                schedule.append(successor.action)
                state = successor.state
                break
        else:
            raise ConfigError(NOT_SYMMETRIC)
    if what != "live":
        for successor in space.successors(state, renamed=False):
            if successor.broken == what:
                schedule.append(successor.action)
                break
        else:
            raise ConfigError(NOT_SYMMETRIC)
    return Violation(property=what, depth=len(schedule), schedule=tuple(schedule))


def _find_way(space: Space, goal: bytes, depth: int) -> list[bytes]:
    """Search again, now with a note of how each state was reached."""
    reached: dict[bytes, bytes] = {space.first: b""}
    level = [space.first]
    for _ in range(depth):
        following: list[bytes] = []
        for state in level:
            for successor in space.successors(state):
                if not successor.broken and successor.state not in reached:
                    reached[successor.state] = state
                    following.append(successor.state)
        if goal in reached:
            break
        level = following
    way: list[bytes] = []
    state = goal
    while state:
        way.append(state)
        state = reached[state]
    way.reverse()
    return way
