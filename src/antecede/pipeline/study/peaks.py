"""The most intervals that overlap at any time."""

from collections.abc import Sequence

import numpy as np

__all__ = ["peaks"]

SHORT = np.iinfo(np.uint16).max
"""NumPy sorts numbers up to this one in linear time."""


def peaks(
    start: np.ndarray, end: np.ndarray, groupings: Sequence[np.ndarray | None]
) -> list[int]:
    """Return, for each grouping, the most intervals of one group that overlap.

    The changes of one instant are added up first, so intervals that begin and end at the
    same instant do not count.

    Args:
        start: The starts; an interval whose start is NaN does not exist.
        end: The ends; NaN for an interval that does not end.
        groupings: For each interval, a number of its group; None for one group of all.
    """
    exists = np.flatnonzero(~np.isnan(start) & (start != end))
    ended = exists[~np.isnan(end[exists])]
    interval = np.concatenate((exists, ended))
    change = np.ones(len(interval), np.int64)
    change[len(exists) :] = -1
    time = np.concatenate((start[exists], end[ended]))
    order = np.argsort(time)
    time, change, interval = time[order], change[order], interval[order]
    return [
        _peak(time, change, None if groups is None else groups[interval])
        for groups in groupings
    ]


def _peak(time: np.ndarray, change: np.ndarray, group: np.ndarray | None) -> int:
    """Return the highest sum of changes in one group, after any instant."""
    if not len(time):
        return 0
    is_last = np.ones(len(time), np.bool_)
    if group is None:
        is_last[:-1] = time[1:] != time[:-1]
        return int(np.cumsum(change)[is_last].max())
    if group.max() <= SHORT:
        group = group.astype(np.uint16)
    order = np.argsort(group, kind="stable")
    time, group = time[order], group[order]
    level = np.cumsum(change[order])
    ends = group[1:] != group[:-1]
    is_last[:-1] = ends | (time[1:] != time[:-1])
    starts = np.concatenate(([0], np.flatnonzero(ends) + 1))
    before = np.concatenate(([0], level[starts[1:] - 1]))
    sizes = np.diff(np.concatenate((starts, [len(level)])))
    level -= np.repeat(before, sizes)
    return int(level[is_last].max())
