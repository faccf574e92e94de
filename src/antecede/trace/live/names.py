"""The names of processes in the traces of nodes.

A node that restarts without its history numbers its messages from 1 again: it is another
process under the same name. So a node's trace qualifies each name with its history. A
merged trace omits the history of a name that has only one.
"""

from collections.abc import Iterable
from typing import Final

__all__ = ["base_name", "display_names", "qualified_name"]

SEPARATOR: Final = "~"
"""Separates a name from its history."""


def qualified_name(name: str, history: int) -> str:
    """Return the name of a process in a node's trace; history 0 means unknown."""
    return f"{name}{SEPARATOR}{history:x}" if history else name


def base_name(name: str) -> str:
    """Return a name in a node's trace without its history."""
    base, separator, _ = name.rpartition(SEPARATOR)
    return base if separator else name


def display_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name for display for each recorded name.

    The history is omitted if it is the only one of that name. A name that was recorded
    without a history belongs to a process that was addressed but never met; it stands for
    the process of that name if there is only one.
    """
    histories: dict[str, set[str]] = {}
    for name in names:
        base = base_name(name)
        histories.setdefault(base, set())
        if base != name:
            histories[base].add(name)
    displayed: dict[str, str] = {}
    for name in names:
        base = base_name(name)
        displayed[name] = base if len(histories[base]) <= 1 else name
    return displayed
