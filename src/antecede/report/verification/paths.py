"""The paths of messages behind the violations of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from antecede.verify.oracle import Property, Violation

__all__ = ["PathRow", "name_of", "worst_paths"]

PATHS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRow:
    """Listed violations whose chains visit the same processes in the same order."""

    property: Property
    processes: tuple[str, ...]
    """The sources of the chain's messages, without repetitions in a row."""
    process: str
    """The process that delivered the last message of the chain before the first."""
    messages: int
    """The number of messages of the longest of the chains."""
    violations: int
    example: str
    """The first of the violations, in one line."""


def name_of(names: Mapping[int, str]) -> Callable[[int], str]:
    """Return a function from the id of a process to its name, or to the id as text."""

    def name(process: int) -> str:
        return names.get(process, str(process))

    return name


def worst_paths(
    violations: Sequence[Violation], texts: Sequence[str], name: Callable[[int], str]
) -> list[PathRow]:
    """Return the most frequent paths, and of equally frequent ones the longest first.

    Args:
        violations: The listed violations; those without a chain are ignored.
        texts: The line of each.
        name: Returns the name of a process.
    """
    found: dict[tuple[Property, tuple[int, ...], int], list[int]] = {}
    for index, each in enumerate(violations):
        if each.chain:
            sources = tuple(s for s, _ in groupby(m.source for m in each.chain))
            key = (each.property, sources, each.process)
            found.setdefault(key, []).append(index)
    rows = [
        PathRow(
            property=which,
            processes=tuple(map(name, sources)),
            process=name(process),
            messages=max(len(violations[index].chain) for index in indexes),
            violations=len(indexes),
            example=texts[indexes[0]],
        )
        for (which, sources, process), indexes in found.items()
    ]
    rows.sort(key=lambda row: (-row.violations, -row.messages))
    return rows[:PATHS_MAX]
