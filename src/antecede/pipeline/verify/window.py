"""Verify one window of a run, as one task among many.

A window owns the rows from ``first`` to before ``end``. Its task also reads a *margin* of
rows on either side: on the right, messages of the window are delivered; on the left,
messages are sent that are in flight at ``first``. The task passes over these rows as
:mod:`antecede.verify.verifier` passes over a whole run, backward and then forward, but
keeps them in memory in between. Its result covers the window's own sends, the histories in
its own rows, and the deliveries that it cannot verify, because their sends are too far
away. :mod:`antecede.pipeline.verify.windows` explains why the combined results are exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.pipeline.verify.window_task import NUMBER_NONE, WindowResult, WindowTask
from antecede.trace.reader import NumberedBatch
from antecede.verify.breakdown_counter import BreakdownCounter
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.matching import Copies, DeliveryErrors, DeliveryMatcher
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.kernels.state import OWN_NONE, InitialLimits
from antecede.verify.kernels.stream import (
    MATCHING_COLUMNS,
    Doubles,
    HistoryChecker,
    NotLinearExtensionError,
    Rows,
    count_missing,
    message_rows,
)
from antecede.verify.verifier import (
    DeliveryOrderChecker,
    delivery_error_collectors,
    early_delivery_collectors,
)

__all__ = ["verify_window"]

BREAKDOWN_COLUMNS = (*MATCHING_COLUMNS, "time")
ROW, PROCESS, SOURCE, NUMBER = 0, 1, 2, 3
"""The rows of an array of deliveries."""


class _Side(Enum):
    LEFT = "left"
    OWN = "own"
    RIGHT = "right"


@dataclass(slots=True)
class _Part:
    """Consecutive rows of the window or of one of its margins."""

    side: _Side
    rows: Rows
    history: pa.RecordBatch | None = None
    """Process and seq of the window's own rows, until they are checked."""
    copies: Copies | None = None
    errors: DeliveryErrors | None = None
    """The delivery errors of the window's own messages."""


def verify_window(task: WindowTask) -> WindowResult:
    """Verify a window; raise TraceError if its rows are not those of a run."""
    try:
        return _WindowVerifier(task).verify()
    except NotLinearExtensionError:
        return WindowResult(out_of_order=True)


class _WindowVerifier:
    """The steps of one window's verification."""

    def __init__(self, task: WindowTask) -> None:
        self._task = task
        self._window = task.window
        self._processes = SlotMap()
        self._result = WindowResult()
        self._delivery_errors = delivery_error_collectors(task.violations_max)
        self._early_deliveries = early_delivery_collectors(task.violations_max)
        self._counter = None if task.buckets is None else BreakdownCounter(task.buckets)

    def verify(self) -> WindowResult:
        parts = list(self._read())
        self._match(parts)
        self._count(parts)
        self._check_order(parts)
        if self._counter is not None:
            self._result.breakdown = self._counter.partial(self._processes)
        self._store_findings()
        return self._result

    def _read(self) -> Iterator[_Part]:
        """Yield the rows, split at the bounds of the window."""
        window, trace = self._window, self._task.trace
        sides = (
            (_Side.LEFT, window.read_first, window.first),
            (_Side.OWN, window.first, window.end),
            (_Side.RIGHT, window.end, window.read_end),
        )
        columns = MATCHING_COLUMNS if self._counter is None else BREAKDOWN_COLUMNS
        for numbered in trace.numbered_batches(
            columns, first=window.read_first, last=window.read_end - 1
        ):
            for side, first, end in sides:
                start = max(0, first - numbered.first)
                stop = min(numbered.batch.num_rows, end - numbered.first)
                if start < stop:
                    batch = numbered.batch.slice(start, stop - start)
                    part = NumberedBatch(numbered.first + start, batch)
                    rows = message_rows(part, self._processes, trace.location)
                    yield _Part(side, rows, self._history(side, batch))

    def _history(self, side: _Side, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return process and seq of own rows; record their runs and missing deliveries."""
        if side is not _Side.OWN:
            return None
        if "run" in batch.schema.names:
            runs = pc.unique(batch.column("run")).to_pylist()
            self._result.runs = tuple(sorted({*self._result.runs, *runs}))
        self._result.missing = self._result.missing.plus(count_missing(batch))
        return batch.select(["process", "seq"])

    def _match(self, parts: list[_Part]) -> None:
        """Pass backward: find the deliveries of messages sent here or in the left margin.

        A straggler's delivery is unmatched when the pass leaves the window, unless it is
        before ``near_end``: then its send may be in the left margin.
        """
        result, window = self._result, self._window
        matcher = DeliveryMatcher()
        histories = HistoryChecker(self._processes)
        matcher.match(self._later_rows(), len(self._processes))
        stragglers: list[Longs] = []
        for part in reversed(parts):
            if part.side is _Side.RIGHT:
                part.rows = _without_sends(part.rows)  # The next window verifies the sends.
            if part.side is _Side.LEFT and not stragglers:
                stragglers.append(self._unmatched(matcher, window.near_end, window.end))
                self._store_matches(matcher)
            part.copies, errors = matcher.match(part.rows, len(self._processes))
            if part.side is _Side.OWN:
                histories.check(part.history)
                part.history = None
                part.errors = errors
                for collector in self._delivery_errors:
                    collector.add(errors, self._processes)
        if stragglers:
            stragglers.append(self._unmatched(matcher, window.first, window.near_end))
        else:
            stragglers.append(self._unmatched(matcher, window.first, window.end))
            self._store_matches(matcher)
        result.straggler_delivery_count = sum(part.shape[1] for part in stragglers)
        deliveries = np.concatenate(stragglers, axis=1)
        result.straggler_deliveries = deliveries[:, : self._task.straggler_deliveries_max]
        process, first, last = histories.seq_ranges()
        result.gaps = histories.gaps
        result.seq_ranges = np.stack([self._processes.first[process], first, last])
        if histories.repeated is not None:
            index, seq = histories.repeated
            result.repeated = (int(self._processes.first[index]), seq)

    def _store_matches(self, matcher: DeliveryMatcher) -> None:
        self._result.numbers_increase = matcher.numbers_increase
        self._result.broadcast_reach_min = matcher.broadcast_reach_min

    def _later_rows(self) -> Rows:
        """Return the task's later deliveries as rows."""
        later = self._task.later_deliveries
        none = np.zeros(later.shape[1], np.int64)
        return _delivery_rows(
            row=later[ROW].copy(),
            process=self._processes.add(later[PROCESS].copy(), none),
            source=self._processes.add(later[SOURCE].copy(), none),
            number=later[NUMBER].copy(),
            time=np.empty(0),
        )

    def _unmatched(self, matcher: DeliveryMatcher, first: int, end: int) -> Longs:
        """Return the deliveries in a range of rows whose sends the pass has not met."""
        found = matcher.unmatched_deliveries()
        in_range = (found.row >= first) & (found.row < end)
        ids = self._processes.first
        return np.stack(
            [
                found.row[in_range],
                ids[found.process[in_range]],
                ids[found.source[in_range]],
                found.number[in_range],
            ]
        )

    def _count(self, parts: list[_Part]) -> None:
        """Count messages and deliveries, and find the range of numbers of each source."""
        result = self._result
        ranges = np.empty((2, len(self._processes)), np.int64)
        ranges[0], ranges[1] = NUMBER_NONE, -1
        for part in parts:
            if part.side is not _Side.OWN:
                continue
            rows = part.rows
            sends = int(np.count_nonzero(rows.is_send))
            result.messages += sends
            result.deliveries += len(rows.row) - sends
            _update_ranges(rows.source[rows.is_send], rows.number[rows.is_send], ranges)
            if len(rows.number):
                result.number_min = min(result.number_min, int(rows.number.min()))
                result.number_max = max(result.number_max, int(rows.number.max()))
        (source,) = np.nonzero(ranges[0] < NUMBER_NONE)
        ids = self._processes.first[source]
        result.number_ranges = np.stack([ids, ranges[0, source], ranges[1, source]])

    def _check_order(self, parts: list[_Part]) -> None:
        """Pass forward: find the copies that were delivered too early."""
        checker = DeliveryOrderChecker()
        limits = self._initial_limits()
        for part in parts:
            if part.side is _Side.RIGHT and self._counter is None:
                break
            if not len(part.rows.row):
                continue
            if part.side is _Side.RIGHT:
                assert self._counter is not None
                self._counter.advance(part.rows, is_own=False)
                continue
            assert part.copies is not None
            until = int(np.searchsorted(limits.row, part.rows.row[-1], side="right"))
            known = InitialLimits(*(column[:until].copy() for column in limits))
            limits = InitialLimits(*(column[until:] for column in limits))
            early = checker.check(part.rows, part.copies, len(self._processes), known)
            if part.side is _Side.OWN:
                for collector in self._early_deliveries:
                    collector.add(part.rows, early)
                if self._counter is not None:
                    assert part.errors is not None
                    self._counter.add_errors(part.errors)
                    self._counter.add_early_deliveries(part.rows, early)
                    self._counter.advance(part.rows)
        self._result.limits_max = checker.limits_max

    def _initial_limits(self) -> InitialLimits:
        """Return the limits of the task's propagations, in the order of rows."""
        window = self._window
        columns: list[Longs] = []
        for propagation in self._task.propagations:
            is_known = propagation.row < window.end
            process, row = propagation.process[is_known], propagation.row[is_known]
            in_flight = propagation.limit > window.first
            target, limit = propagation.target[in_flight], propagation.limit[in_flight]
            pairs = len(process) * len(target)
            limits = np.tile(limit, len(process))
            holder = np.repeat(process, len(target))
            own = np.where(holder == propagation.source, limits, OWN_NONE)
            none = np.zeros(pairs, np.int64)
            columns.append(
                np.stack(
                    [
                        np.repeat(np.maximum(row, window.read_first), len(target)),
                        self._processes.add(holder, none).astype(np.int64),
                        self._processes.add(np.tile(target, len(process)), none),
                        limits,
                        own,
                    ]
                )
            )
        every = np.concatenate([np.empty((5, 0), np.int64), *columns], axis=1)
        order = np.argsort(every[0], kind="stable")
        return InitialLimits(*(column.copy() for column in every[:, order]))

    def _store_findings(self) -> None:
        ids = self._processes.first
        for errors in self._delivery_errors:
            self._result.counts[errors.property] = errors.count
            self._result.delivery_errors[errors.property] = errors.examples
        for early in self._early_deliveries:
            self._result.counts[early.property] = early.count
            self._result.early_deliveries[early.property] = [
                replace(each, process=int(ids[each.process]), source=int(ids[each.source]))
                for each in early.examples
            ]


def _without_sends(rows: Rows) -> Rows:
    is_delivery = ~rows.is_send
    return _delivery_rows(
        row=rows.row[is_delivery],
        process=rows.process[is_delivery],
        source=rows.source[is_delivery],
        number=rows.number[is_delivery],
        time=rows.time[is_delivery] if len(rows.time) else rows.time,
    )


def _delivery_rows(
    *, row: Longs, process: Ints, source: Ints, number: Longs, time: Doubles
) -> Rows:
    return Rows(
        row=row,
        is_send=np.zeros(len(row), np.bool_),
        process=process,
        source=source,
        number=number,
        target_start=np.empty(0, np.int64),
        target=np.empty(0, np.int32),
        is_broadcast=np.empty(0, np.bool_),
        time=time,
    )


@compiled
def _update_ranges(source: Ints, number: Longs, ranges: Longs) -> None:
    """Update the lowest and the highest number of each source."""
    for i in range(source.size):
        ranges[0, source[i]] = min(ranges[0, source[i]], number[i])
        ranges[1, source[i]] = max(ranges[1, source[i]], number[i])
