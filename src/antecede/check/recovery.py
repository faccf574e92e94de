"""Recovery: whether arrivals and timers alone deliver the copies that must be delivered.

Without silences, liveness is a property of the states in which the run is over. If
processes may become silent (:mod:`antecede.check.silence`), it is checked in every state
without packets in flight, because no process has to send. From such a state, packets arrive
and timers fire in every order, without further sends and faults, until all copies that must
be delivered are delivered.
"""

from antecede.check.actions import Action
from antecede.check.state_space import StateSpace

__all__ = ["find_stuck"]


def find_stuck(
    space: StateSpace, state: bytes, *, is_end: bool, canonical: bool = True
) -> tuple[str, list[Action]]:
    """Return the property that is violated if nobody sends any more, and the actions.

    Args:
        space: The state space.
        state: The state.
        is_end: Whether the run is over in this state.
        canonical: Whether the states on the way are in canonical form.

    Returns:
        An empty string; or liveness, if a copy that must be delivered is not; or another
        property, with the actions that violate it.
    """
    if not space.has_silences:
        if is_end and not space.is_delivered(state):
            return "liveness", []
    elif space.is_at_rest(state):
        return _recover(space, state, canonical)
    return "", []


def _recover(space: StateSpace, state: bytes, canonical: bool) -> tuple[str, list[Action]]:
    paths: dict[bytes, list[Action]] = {state: []}
    todo = [state]
    while todo:
        before = todo.pop()
        if space.is_delivered(before):
            continue
        found = space.continuations(before, canonical=canonical)
        if not found:
            return "liveness", []
        for successor in found:
            path = [*paths[before], successor.action]
            if successor.violated:
                return successor.violated, path
            after = successor.state
            if after not in space.recovering and after not in paths:
                paths[after] = path
                todo.append(after)
    if len(paths) > 1:
        space.recovering.update(paths)
    return "", []
