"""Shortens a failing scenario: the fewest actions that still fail."""

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

__all__ = ["Shrinkable", "shrink"]

Action = TypeVar("Action")
AnyScenario = TypeVar("AnyScenario", bound="Shrinkable[Any]")


class Shrinkable(Protocol[Action]):
    """A scenario whose actions can be left out."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions, in order."""

    def with_actions(self, actions: list[Action]) -> Self:
        """Return the scenario with other actions."""


def shrink(scenario: AnyScenario, fails: Callable[[AnyScenario], bool]) -> AnyScenario:
    """Remove actions while the scenario still fails, in ever smaller pieces."""
    actions = list(scenario.actions)
    size = max(1, len(actions) // 2)
    while True:
        actions, is_shorter = _remove_pieces(scenario, actions, size, fails)
        if size == 1 and not is_shorter:
            return scenario.with_actions(actions)
        size = max(1, size // 2)


def _remove_pieces(
    scenario: AnyScenario,
    actions: list[Any],
    size: int,
    fails: Callable[[AnyScenario], bool],
) -> tuple[list[Any], bool]:
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
