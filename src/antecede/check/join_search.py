"""A complete breadth-first search over the model of a room."""

import pickle
from collections import deque
from dataclasses import dataclass

from antecede.check.join_model import Action, JoinConfig, JoinModel, JoinViolation

__all__ = ["JoinResult", "check_joins"]


@dataclass(frozen=True, kw_only=True)
class JoinResult:
    """The result of a search."""

    states: int
    """The different states that were visited."""
    ends: int
    """Those of them after which nothing can happen."""
    depth: int
    """The actions of the longest of the shortest schedules to a state."""
    exhausted: bool
    """Whether every state within the bounds was visited."""
    violation: str
    """The property that does not hold, or nothing."""
    schedule: tuple[Action, ...]
    """The shortest schedule that violates it."""


def check_joins(config: JoinConfig, states_max: int = 1 << 60) -> JoinResult:
    """Visit every state of the model, or stop at the first violation.

    Args:
        config: the bounds.
        states_max: how many states to visit at most.
    """
    start = JoinModel(config)
    key = start.fingerprint()
    parents: dict[bytes, tuple[bytes, Action] | None] = {key: None}
    queue = deque([(key, pickle.dumps(start), 0)])
    ends = depth = 0
    while queue:
        key, stored, depth = queue.popleft()
        model = pickle.loads(stored)
        natural = list(model.actions())
        if not natural:
            ends += 1
            try:
                model.check_end()
            except JoinViolation as violation:
                return _failed(parents, key, None, ends, str(violation))
        for action in [*natural, *model.faults()]:
            if model is None:
                model = pickle.loads(stored)
            try:
                model.act(action)
            except JoinViolation as violation:
                return _failed(parents, key, action, ends, str(violation))
            found = model.fingerprint()
            if found not in parents:
                parents[found] = (key, action)
                queue.append((found, pickle.dumps(model), depth + 1))
            model = None
        if len(parents) >= states_max:
            break
    return JoinResult(
        states=len(parents),
        ends=ends,
        depth=depth,
        exhausted=not queue,
        violation="",
        schedule=(),
    )


def _failed(
    parents: dict[bytes, tuple[bytes, Action] | None],
    key: bytes,
    last: Action | None,
    ends: int,
    violation: str,
) -> JoinResult:
    actions = [] if last is None else [last]
    step = parents[key]
    while step is not None:
        actions.append(step[1])
        step = parents[step[0]]
    return JoinResult(
        states=len(parents),
        ends=ends,
        depth=len(actions),
        exhausted=False,
        violation=violation,
        schedule=tuple(reversed(actions)),
    )
