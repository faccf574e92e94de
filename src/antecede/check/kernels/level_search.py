"""The search with compiled kernels: it continues a search of :mod:`antecede.check.search`.

Breadth first, in rounds. In a round, threads expand the parts of a block of states; the
missing local steps are computed, and the states that lacked them are expanded again; then
the new states are added in the order of the parts. So the result does not depend on which
thread is faster.

A visited state is its fingerprint of 64 bits. Among *n* states, two have the same
fingerprint with a probability of n² / 2⁶⁵, which is 1 in 3,700 for a hundred million. Then
the search misses a state, and all states that only this state leads to.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from antecede.check.kernels.blocks import Block, pack
from antecede.check.kernels.expansion import (
    ENDS,
    NONE,
    STUCK,
    TRANSITIONS,
    VIOLATED,
    Fingerprints,
    Steps,
    Words,
    expand,
)
from antecede.check.kernels.fingerprints import fingerprints
from antecede.check.kernels.tables import KernelTables
from antecede.check.kernels.trail import Trail
from antecede.check.kernels.visited import Visited
from antecede.check.search import (
    Frontier,
    SearchResult,
    Violation,
    find_path,
    find_violation,
)
from antecede.check.state_space import StateSpace
from antecede.check.symmetry import NOT_SYMMETRIC
from antecede.errors import ConfigError
from antecede.verify.kernels.slot_map import Longs

__all__ = ["LevelSearch"]

ROUND_STATES = 1 << 16


@dataclass(frozen=True)
class _Part:
    """The expansion of a part of a block."""

    words: Words
    starts: Longs
    values: Fingerprints
    origins: Longs
    unvisited: Longs
    again: Longs
    missing: Longs
    counts: Longs


class LevelSearch:
    """A search between two rounds."""

    depth: int
    """The number of actions that lead to the states of ``level``."""
    level: list[Block]
    """The states that are left to expand, the next ones last."""
    following: list[Block]
    """The states of the next level that were found so far."""
    trail: Trail
    """All states since the compiled search began."""
    first_level: list[bytes]
    """The states with which it began."""
    first_depth: int
    first_values: Fingerprints
    """The fingerprints of the states visited before, with those of ``first_level``."""

    def __init__(self, space: StateSpace, result: SearchResult) -> None:
        """Set up an empty search, which adds to ``result``; start or restore it next."""
        self.result = result
        self.tables = KernelTables(space)
        self._space = space
        self._visited = Visited()
        self._threads = len(os.sched_getaffinity(0))

    def start(self, frontier: Frontier) -> None:
        """Continue from a frontier."""
        self.first_level = frontier.level
        self.first_depth = self.depth = frontier.depth
        self.first_values = self._fingerprints(pack(list(frontier.visited)))
        self._visited.add(self.first_values)
        self.level = [pack(frontier.level)]
        self.following = []
        self.trail = Trail()
        values = self._fingerprints(self.level[0])
        self.trail.add(values, np.zeros(len(values), np.int64))

    def visit_again(self) -> None:
        """Fill the set of visited states from the trail, after everything was restored."""
        self._visited.add(self.first_values)
        self._visited.add(self.trail.values[len(self.first_level) :])

    def run(self, should_continue: Callable[[int], bool]) -> None:
        """Search until all states are visited, a violation is found, or a limit is reached.

        ``should_continue`` is called after every round with the bytes that the next one
        needs for a larger table; the search ends, not exhausted, if it returns False.
        """
        with ThreadPoolExecutor(self._threads) as pool:
            while self.level:
                self.result.depth = max(self.result.depth, self.depth)
                block, rest = self.level.pop().split(ROUND_STATES)
                if rest is not None:
                    self.level.append(rest)
                parts, violating = self._expand(pool, block)
                if violating != NONE:
                    self.result.violation = self._find_violation(block.first + violating)
                    return
                for part in parts:
                    self._add(block, part)
                if not self.level:
                    self.level = self.following[::-1]
                    self.following = []
                    self.depth += 1
                needed = self._visited.bytes_to_add(4 * ROUND_STATES)
                if self.level and not should_continue(needed):
                    self.result.exhausted = False
                    return

    def _expand(self, pool: ThreadPoolExecutor, block: Block) -> tuple[list[_Part], int]:
        """Expand a block; return the parts, and the first violating state or NONE."""
        todo = np.array_split(np.arange(len(block)), self._threads)
        parts: list[_Part] = []
        violating = NONE
        while todo:
            steps = self.tables.arrays()
            tasks = [
                pool.submit(self._expand_part, block, chosen, steps) for chosen in todo
            ]
            new = [task.result() for task in tasks]
            for part in new:
                self.result.transitions += int(part.counts[TRANSITIONS])
                self.result.ends += int(part.counts[ENDS])
                for state in part.counts[[STUCK, VIOLATED]].tolist():
                    if state != NONE and (violating == NONE or state < violating):
                        violating = state
            self.tables.compute(np.unique(np.concatenate([part.missing for part in new])))
            todo = [part.again for part in new if len(part.again)]
            parts += new
        return parts, violating

    def _expand_part(self, block: Block, chosen: Longs, steps: Steps) -> _Part:
        words, starts, origins, again, missing, counts = expand(
            block.words, block.starts, chosen, self.tables.model, steps
        )
        values = fingerprints(words, starts, self.tables.model, steps)
        unvisited = self._visited.without(values)
        return _Part(words, starts, values, origins, unvisited, again, missing, counts)

    def _add(self, block: Block, part: _Part) -> None:
        """Add the new states of an expansion to the next level."""
        new, words, starts = self._visited.add_rows(
            part.unvisited, part.values, part.words, part.starts
        )
        if not len(new):
            return
        found = Block(words, starts, len(self.trail))
        self.trail.add(part.values[new], part.origins[new] + block.first)
        self.result.states += len(new)
        if self.following and len(self.following[-1]) < ROUND_STATES:
            found = self.following.pop().joined(found)
        self.following.append(found)

    def _fingerprints(self, block: Block) -> Fingerprints:
        steps = self.tables.arrays()
        found: Fingerprints = fingerprints(
            block.words, block.starts, self.tables.model, steps
        )
        return found

    # Counterexamples.

    def _find_violation(self, index: int) -> Violation:
        """Return the violation by the state at an index of the trail, or by its steps."""
        wanted: list[int] = []
        while index >= len(self.first_level):
            wanted.append(int(self.trail.values[index]))
            index = int(self.trail.origins[index])
        path = find_path(self._space, self.first_level[index], self.first_depth)
        while wanted:
            path.append(self._find_successor(path[-1], wanted.pop()))
        return find_violation(self._space, self._violated_by(path[-1]), path)

    def _find_successor(self, state: bytes, value: int) -> bytes:
        for successor in self._space.successors(state):
            if not successor.violated:
                found = self._fingerprints(pack([successor.state]))
                if int(found[0]) == value:
                    return successor.state
        raise ConfigError(NOT_SYMMETRIC)

    def _violated_by(self, state: bytes) -> str:
        for successor in self._space.successors(state):
            if successor.violated:
                return successor.violated
        return "liveness"
