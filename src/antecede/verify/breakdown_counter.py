"""Count the violations of a run by pair of processes and by time, in bounded memory.

The passes of :mod:`antecede.verify.verifier` find a violation before they reach the rows
that its time and its pair depend on: the row of the delivery, and the row at which the
process delivered the message that should have been first. So a violation is *pending* until
the forward pass has reached both. Pending violations that differ in nothing but rows
already reached are one entry with a count: memory is proportional to the copies in flight
and to the pairs, and not to the violations.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from antecede.trace.reader import RecordedRun
from antecede.verify.breakdown import (
    Buckets,
    PairCount,
    ViolationBreakdown,
    choose_buckets,
)
from antecede.verify.kernels.matching import (
    LIVENESS,
    NO_CREATION,
    NO_DUPLICATION,
    DeliveryErrors,
)
from antecede.verify.kernels.slot_map import Longs, SlotMap
from antecede.verify.kernels.state import EarlyDeliveries
from antecede.verify.kernels.stream import Rows
from antecede.verify.oracle import Property

__all__ = ["BreakdownCounter", "find_buckets"]

NONE = -1
PROPERTIES = tuple(Property)
ERROR_PROPERTIES = {
    NO_DUPLICATION: Property.NO_DUPLICATION,
    NO_CREATION: Property.NO_CREATION,
    LIVENESS: Property.LIVENESS,
}
GROUPS_MIN = 1 << 14
"""Fewer entries are not grouped, because sorting them saves no memory."""


class _Groups(NamedTuple):
    """Violations, grouped by all columns but ``violations``."""

    property: Longs
    """The index of the property."""
    process: Longs
    source: Longs
    earlier: Longs
    """The source of the message that should have been delivered first, or NONE."""
    bucket: Longs
    """The bucket of the delivery, or NONE before the pass reaches ``row``."""
    row: Longs
    """The row of the delivery, or NONE once the pass has reached it."""
    limit: Longs
    """The row of the delivery of the earlier message, or NONE likewise."""
    violations: Longs
    """The number of violations."""


class BreakdownCounter:
    """Counts violations in a forward pass.

    Call :meth:`add_errors` and :meth:`add_early_deliveries` with the violations of a batch,
    then :meth:`advance` with its rows.
    """

    def __init__(self, buckets: Buckets) -> None:
        """Count by the buckets of :func:`find_buckets`."""
        self._buckets = buckets
        self._deliveries = np.zeros(buckets.count, np.int64)
        self._pending = _no_groups()
        self._counted = _no_groups()
        self._pending_min = self._counted_min = GROUPS_MIN

    def add_errors(self, errors: DeliveryErrors) -> None:
        """Add delivery errors, in this batch or in a later one."""
        if not len(errors.row):
            return
        codes = np.zeros(max(ERROR_PROPERTIES) + 1, np.int64)
        for kind, which in ERROR_PROPERTIES.items():
            codes[kind] = PROPERTIES.index(which)
        none = np.full(len(errors.row), NONE, np.int64)
        found = _Groups(
            property=codes[errors.kind],
            process=errors.process.astype(np.int64),
            source=errors.source.astype(np.int64),
            earlier=none,
            bucket=none,
            row=errors.row,
            limit=none,
            violations=np.ones_like(none),
        )
        self._pending = _joined([self._pending, found])

    def add_early_deliveries(self, rows: Rows, early: EarlyDeliveries) -> None:
        """Add the copies of this batch's messages that were delivered too early."""
        for which, limit in ((Property.CAUSAL, early.limit), (Property.FIFO, early.own)):
            is_early = limit >= 0
            if not np.any(is_early):
                continue
            none = np.full(int(np.count_nonzero(is_early)), NONE, np.int64)
            found = _Groups(
                property=np.full_like(none, PROPERTIES.index(which)),
                process=early.target[is_early],
                source=rows.source[early.send[is_early]].astype(np.int64),
                earlier=none,
                bucket=none,
                row=early.row[is_early],
                limit=limit[is_early],
                violations=np.ones_like(none),
            )
            self._pending = _joined([self._pending, found])

    def advance(self, rows: Rows) -> None:
        """Count the deliveries of a batch, and the violations whose rows it reaches."""
        if not len(rows.row):
            return
        bucket = self._bucket_of(rows)
        self._deliveries += np.bincount(
            bucket[~rows.is_send], minlength=self._buckets.count
        )
        pending, last = self._pending, rows.row[-1]
        if not len(pending.violations):
            return
        reached = (pending.row >= 0) & (pending.row <= last)
        pending.bucket[reached] = bucket[np.searchsorted(rows.row, pending.row[reached])]
        pending.row[reached] = NONE
        reached = (pending.limit >= 0) & (pending.limit <= last)
        index = np.searchsorted(rows.row, pending.limit[reached])
        pending.earlier[reached] = rows.source[index]
        pending.limit[reached] = NONE
        is_known = (pending.row < 0) & (pending.limit < 0)
        self._counted = _joined([self._counted, _selected(pending, is_known)])
        self._pending = _selected(pending, ~is_known)
        if len(self._pending.violations) > 2 * self._pending_min:
            self._pending = _grouped(self._pending)
            self._pending_min = max(GROUPS_MIN, len(self._pending.violations))
        if len(self._counted.violations) > 2 * self._counted_min:
            self._counted = _grouped(self._counted)
            self._counted_min = max(GROUPS_MIN, len(self._counted.violations))

    def breakdown(self, processes: SlotMap) -> ViolationBreakdown:
        """Return the counts, after the last batch; ``processes`` has the ids."""
        assert not len(self._pending.violations), "a violation has a row after the last one"
        found = self._counted
        by_pair = _grouped(
            found._replace(bucket=np.full_like(found.bucket, NONE)),
        )
        ids = processes.first
        pairs = [
            PairCount(
                property=PROPERTIES[which],
                process=int(ids[process]),
                source=int(ids[source]),
                earlier_source=None if earlier == NONE else int(ids[earlier]),
                count=count,
            )
            for which, process, source, earlier, _, _, _, count in zip(
                *(column.tolist() for column in by_pair), strict=True
            )
        ]
        timeline = {
            which: tuple(_sums(found, index, self._buckets.count))
            for index, which in enumerate(PROPERTIES)
            if np.any(found.property == index)
        }
        return ViolationBreakdown(
            is_complete=True,
            pairs=tuple(sorted(pairs, key=_rank)),
            buckets=self._buckets,
            deliveries=tuple(self._deliveries.tolist()),
            timeline=timeline,
        )

    def _bucket_of(self, rows: Rows) -> Longs:
        values = rows.time if self._buckets.by_time else rows.row
        bucket = np.floor(values / self._buckets.width).astype(np.int64)
        index: Longs = np.clip(bucket - self._buckets.first, 0, self._buckets.count - 1)
        return index


def find_buckets(trace: RecordedRun) -> Buckets:
    """Return the buckets of a run; reads its times.

    The buckets divide its events if the times are unknown or all equal.
    """
    lowest, highest, rows = np.inf, -np.inf, 0
    for first, batch in trace.numbered_batches(("time",)):
        ends = pc.min_max(batch.column("time")).as_py()
        if ends["min"] is not None:
            lowest, highest = min(lowest, ends["min"]), max(highest, ends["max"])
        rows = first + batch.num_rows
    by_time = bool(np.isfinite(lowest) and np.isfinite(highest) and lowest < highest)
    if by_time:
        return choose_buckets(lowest, highest, by_time=True)
    return choose_buckets(0, max(0, rows - 1), by_time=False)


def _rank(pair: PairCount) -> tuple[int, int, int, int, int]:
    earlier = NONE if pair.earlier_source is None else pair.earlier_source
    position = PROPERTIES.index(pair.property)
    return position, -pair.count, pair.process, pair.source, earlier


def _no_groups() -> _Groups:
    return _Groups(*(np.empty(0, np.int64) for _ in _Groups._fields))


def _joined(parts: Sequence[_Groups]) -> _Groups:
    return _Groups(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _selected(groups: _Groups, chosen: np.ndarray) -> _Groups:
    return _Groups(*(column[chosen] for column in groups))


def _grouped(groups: _Groups) -> _Groups:
    """Return one entry for all entries that are equal, with the sum of their counts."""
    if not len(groups.violations):
        return groups
    *keys, count = groups
    order = np.lexsort(keys[::-1])
    ordered = np.stack([key[order] for key in keys])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    sums = np.add.reduceat(count[order], np.flatnonzero(is_first))
    return _Groups(*ordered[:, is_first], violations=sums)


def _sums(groups: _Groups, index: int, buckets: int) -> list[int]:
    """Return the number of violations of one property in each bucket."""
    is_own = groups.property == index
    sums = np.zeros(buckets, np.int64)
    np.add.at(sums, groups.bucket[is_own], groups.violations[is_own])
    found: list[int] = sums.tolist()
    return found
