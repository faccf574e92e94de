"""Combine the breakdowns of the windows of a run.

A violation that a window found may have rows after the window and its margin: those of
stragglers. Further tasks look these rows up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from antecede.pipeline.spark.stage import Stage
from antecede.pipeline.verify.window_task import LongRun, RowRange, Window, WindowResult
from antecede.verify.breakdown import Buckets, ViolationBreakdown
from antecede.verify.breakdown_counter import (
    NO_PROCESS,
    PartialBreakdown,
    TimeRange,
    bucket_indexes,
    buckets_of_run,
    combine_breakdowns,
    count_times,
    error_groups,
    find_time_range,
    join_groups,
    select_groups,
)
from antecede.verify.delivery_errors import DeliveryError
from antecede.verify.kernels.matching import NO_CREATION, DeliveryErrors
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import Doubles

__all__ = ["RowsTask", "TimesTask", "combine_windows", "find_rows", "window_buckets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesTask:
    """Find the range of the times of a window."""

    trace: LongRun
    window: Window

    def row_ranges(self) -> Sequence[RowRange]:
        """Return the window."""
        return [(self.window.first, self.window.end)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTask:
    """Look up the sources of messages, and the times, of some rows of a window."""

    trace: LongRun
    window: Window
    rows: Longs

    def row_ranges(self) -> Sequence[RowRange]:
        """Return the window."""
        return [(self.window.first, self.window.end)]


def window_buckets(stage: Stage, trace: LongRun, windows: Sequence[Window]) -> Buckets:
    """Return the buckets of a run; every window is a task."""
    tasks = [TimesTask(trace=trace, window=window) for window in windows]
    return buckets_of_run(stage(_find_times, tasks))


def _find_times(task: TimesTask) -> TimeRange:
    return find_time_range(task.trace, first=task.window.first, end=task.window.end)


def combine_windows(
    stage: Stage,
    trace: LongRun,
    windows: Sequence[Window],
    results: Sequence[WindowResult],
    never_sent: Sequence[DeliveryError],
    buckets: Buckets,
) -> ViolationBreakdown:
    """Return the breakdown of a run.

    Args:
        stage: Runs the tasks that look rows up.
        trace: The run.
        windows: All windows.
        results: Their results.
        never_sent: Deliveries of messages that no window sends.
        buckets: From :func:`window_buckets`.
    """
    parts = [each.breakdown for each in results if each.breakdown is not None]
    columns = np.array(never_sent, np.int64).reshape(-1, 4).T
    row, process, source, number = columns
    kind = np.full(len(row), NO_CREATION, np.int64)
    errors = error_groups(DeliveryErrors(kind, process, source, number, row))
    errors = errors._replace(earlier=np.full(len(row), NO_PROCESS, np.int64))
    pending = join_groups([*(part.pending for part in parts), errors])
    wanted = np.unique(np.concatenate([pending.row, pending.limit]))
    wanted = wanted[wanted >= 0]
    tasks = []
    for window in windows:
        first, end = np.searchsorted(wanted, [window.first, window.end])
        if first < end:
            tasks.append(RowsTask(trace=trace, window=window, rows=wanted[first:end]))
    found = stage(find_rows, tasks)
    sources = np.concatenate([np.empty(0, np.int64), *(source for source, _ in found)])
    times = np.concatenate([np.empty(0), *(time for _, time in found)])
    bucket = bucket_indexes(buckets, times if buckets.by_time else wanted)
    has_row, has_limit = pending.row >= 0, pending.limit >= 0
    at_row = np.searchsorted(wanted, pending.row[has_row])
    pending.bucket[has_row] = bucket[at_row]
    at_limit = np.searchsorted(wanted, pending.limit[has_limit])
    pending.earlier[has_limit] = sources[at_limit]
    none = select_groups(pending, np.zeros(len(pending.row), np.bool_))
    timeline = np.zeros_like(parts[0].timeline)
    reached = pending._replace(
        row=np.full_like(pending.row, -1), limit=np.full_like(pending.limit, -1)
    )
    resolved = PartialBreakdown(
        count_times(reached, timeline), none, np.zeros(buckets.count, np.int64), timeline
    )
    settled = [part._replace(pending=none) for part in parts]
    return combine_breakdowns(buckets, [*settled, resolved])


def find_rows(task: RowsTask) -> tuple[Longs, Doubles]:
    """Return the source of the message, and the time, of every row of a task."""
    source, time = np.empty(len(task.rows), np.int64), np.empty(len(task.rows))
    for start, batch in task.trace.numbered_batches(
        ("source", "time"), first=int(task.rows[0]), last=int(task.rows[-1])
    ):
        first, end = np.searchsorted(task.rows, [start, start + batch.num_rows])
        inside = task.rows[first:end] - start
        source[first:end] = batch.column("source").fill_null(0).to_numpy()[inside]
        time[first:end] = batch.column("time").to_numpy(False)[inside]
    return source, time
