"""What processes are called in the traces of nodes.

A node that comes back without its history numbers its messages from 1 again: it is another
process under the same name. So a node's name is recorded with its life, and where a name
has had one life only, a merged trace leaves the life out.
"""

from collections.abc import Iterable
from typing import Final

__all__ = ["called_simply", "name_in_life"]

MARK: Final = "~"
"""Stands between a name and a life."""


def name_in_life(name: str, life: int) -> str:
    """Return what a process is called in a node's trace."""
    return f"{name}{MARK}{life:x}"


def called_simply(names: Iterable[str]) -> dict[str, str]:
    """Return what to call each recorded name: without its life if that is the only one.

    A name without a life is of a process that was spoken to and never met; it is the one
    of that name, if there is one only.
    """
    lives: dict[str, set[str]] = {}
    for name in names:
        simple, mark, _ = name.rpartition(MARK)
        lives.setdefault(simple if mark else name, set())
        if mark:
            lives[simple].add(name)
    called: dict[str, str] = {}
    for name in names:
        simple, mark, _ = name.rpartition(MARK)
        base = simple if mark else name
        called[name] = base if len(lives[base]) <= 1 else name
    return called
