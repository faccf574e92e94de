"""The trees of spans: depths, and the starts that their causes allow."""

from typing import NamedTuple

import numpy as np

from antecede.ingest.event_table import NONE
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["SpanTrees", "find_cycles_of_parents", "find_trees"]

NEW, ON_PATH, DONE, IN_CYCLE = range(4)


class SpanTrees(NamedTuple):
    """What the parents of all spans show, by span."""

    depth: Longs
    """The number of its ancestors."""
    start: Longs
    """Its start, or that of the nearest ancestor in its process, if that is later."""


def find_cycles_of_parents(parent: Longs) -> Bools:
    """Return which spans are in a cycle of parents, or below one."""
    state = _walk(parent, np.zeros(len(parent), np.int64))
    found: Bools = state == IN_CYCLE
    return found


def find_trees(parent: Longs, process: Ints, start: Longs) -> SpanTrees:
    """Return the depths and the starts of spans.

    Args:
        parent: By span, its parent or NONE; without cycles.
        process: By span, its process.
        start: By span, its start by the clock of its process.
    """
    depth = np.zeros(len(parent), np.int64)
    _walk(parent, depth)
    return SpanTrees(depth=depth, start=_starts(parent, process, start, depth))


@compiled
def _walk(parent: Longs, depth: Longs) -> Ints:
    """Find the depth of each span, and return its state."""
    state = np.zeros(parent.size, np.int32)
    path = np.empty(parent.size, np.int64)
    for first in range(parent.size):
        span, length = first, 0
        while span != NONE and state[span] == NEW:
            state[span] = ON_PATH
            path[length] = span
            length += 1
            span = parent[span]
        is_cyclic = span != NONE and state[span] in (ON_PATH, IN_CYCLE)
        above = NONE if span == NONE or is_cyclic else depth[span]
        for i in range(length - 1, -1, -1):
            above += 1
            depth[path[i]] = above
            state[path[i]] = IN_CYCLE if is_cyclic else DONE
    return state


@compiled
def _starts(parent: Longs, process: Ints, start: Longs, depth: Longs) -> Longs:
    found = start.copy()
    is_final = depth == 0
    path = np.empty(parent.size, np.int64)
    for first in range(parent.size):
        span, length = first, 0
        while not is_final[span]:
            path[length] = span
            length += 1
            span = parent[span]
        for i in range(length - 1, -1, -1):
            span = path[i]
            cause = parent[span]
            while cause != NONE and process[cause] != process[span]:
                cause = parent[cause]
            if cause != NONE:
                found[span] = max(found[span], found[cause])
            is_final[span] = True
    return found
