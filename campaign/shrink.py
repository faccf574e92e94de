"""Shortens a failing scenario: the fewest actions that still fail."""

from collections.abc import Callable

from campaign.scenario import Action, Scenario

__all__ = ["shrink"]


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Remove actions while the scenario still fails, in ever smaller pieces."""
    actions = list(scenario.actions)
    size = max(1, len(actions) // 2)
    while True:
        actions, is_shorter = _remove_pieces(scenario, actions, size, fails)
        if size == 1 and not is_shorter:
            return scenario.with_actions(actions)
        size = max(1, size // 2)


def _remove_pieces(
    scenario: Scenario,
    actions: list[Action],
    size: int,
    fails: Callable[[Scenario], bool],
) -> tuple[list[Action], bool]:
    is_shorter = False
    first = 0
    while first < len(actions):
        shorter = actions[:first] + actions[first + size :]
        if fails(scenario.with_actions(shorter)):
            actions = shorter
            is_shorter = True
        else:
            first += size
    return actions, is_shorter
