"""A complete breadth-first search over a model of a room."""

import pickle
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from antecede.check.join_node import Action, JoinViolation

__all__ = ["JoinResult", "RoomModel", "check_rooms"]


class RoomModel(Protocol):
    """A state that a search can expand. It can be pickled."""

    def actions(self) -> Iterable[Action]:
        """Return the possible actions; a schedule ends when there is none."""

    def faults(self) -> Iterable[Action]:
        """Return further possible actions, without which a schedule may end."""

    def act(self, action: Action) -> None:
        """Perform an action; raise JoinViolation if it breaks a property."""

    def check_end(self) -> None:
        """Raise JoinViolation unless the state has the properties of a final state."""

    def fingerprint(self) -> bytes:
        """Return a hash of the state."""


@dataclass(frozen=True, kw_only=True)
class JoinResult:
    """The result of a search."""

    states: int
    """The different states that were visited."""
    ends: int
    """The visited states without a possible action."""
    depth: int
    """The largest number of actions on a shortest schedule to a state."""
    exhausted: bool
    """Whether every state within the bounds was visited."""
    violation: str
    """The property that does not hold; empty if all hold."""
    schedule: tuple[Action, ...]
    """The shortest schedule that violates it."""


def check_rooms(start: RoomModel, states_max: int = 1 << 60) -> JoinResult:
    """Visit every state of a model, or stop at the first violation.

    Args:
        start: the first state.
        states_max: the maximum number of states to visit.
    """
    key = start.fingerprint()
    parents: dict[bytes, tuple[bytes, Action] | None] = {key: None}
    queue = deque([(key, pickle.dumps(start), 0)])
    ends = depth = 0
    while queue:
        key, stored, depth = queue.popleft()
        model: RoomModel | None = pickle.loads(stored)
        assert model is not None
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
