"""Who sends what to whom: the programs that a search goes through.

A *program* fixes, for every process, the targets of each of its messages in turn. When
they are sent is left to the schedule. All processes run the same code, so two programs
that differ only in the names of the processes have the same runs, renamed: of each such
family one is enough.
"""

from collections.abc import Iterator
from itertools import permutations, product

__all__ = ["Program", "distinct_programs", "options", "rename"]

Program = tuple[tuple[int, ...], ...]
"""For each process, for each of its messages, the bit set of its targets."""


def options(processes: int, place: int, *, multicast: bool) -> list[int]:
    """List the target sets that a message of the process at ``place`` may have."""
    others = [1 << other for other in range(processes) if other != place]
    if not multicast:
        return others
    everyone = sum(others)
    return [bits for bits in range(1, 1 << processes) if bits & everyone == bits]


def distinct_programs(
    processes: int, messages: int, *, multicast: bool = False
) -> Iterator[tuple[Program, int]]:
    """Yield one program of each family of equals, and how many there are in it."""
    choices = [
        list(product(options(processes, place, multicast=multicast), repeat=messages))
        for place in range(processes)
    ]
    renamings = list(permutations(range(processes)))
    for program in product(*choices):
        family = {rename(program, renaming) for renaming in renamings}
        if program == min(family):
            yield program, len(family)


def rename(program: Program, renaming: tuple[int, ...]) -> Program:
    """Return the program in which the process ``p`` is called ``renaming[p]``."""
    renamed: list[tuple[int, ...]] = [()] * len(program)
    for place, sends in enumerate(program):
        renamed[renaming[place]] = tuple(
            sum(1 << renaming[t] for t in range(len(program)) if bits >> t & 1)
            for bits in sends
        )
    return tuple(renamed)
