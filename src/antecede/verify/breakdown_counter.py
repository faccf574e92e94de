"""Count the violations of a run by pair of processes and by time, in bounded memory.

The passes of :mod:`antecede.verify.verifier` find a violation before they reach the rows
that its time and its pair depend on: the row of the delivery, and the row at which the
process delivered the message that should have been first. So a violation is *pending* until
the forward pass has reached both. Pending violations that differ in nothing but rows
already reached are one entry with a count. So memory is proportional to the copies in
flight, and to the different combinations of a property and its processes.

A task that verifies a part of a run returns a :class:`PartialBreakdown`, whose pending
violations have rows in other parts; :func:`combine_breakdowns` adds the parts up.
"""

from collections.abc import Iterator, Sequence
from math import inf, isfinite
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from antecede.trace.reader import RecordedRun
from antecede.verify.breakdown import (
    OVERTAKINGS_MAX,
    Buckets,
    OvertakingCount,
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
from antecede.verify.kernels.stream import Bools, Doubles, Rows
from antecede.verify.oracle import Property

__all__ = [
    "NO_PROCESS",
    "BreakdownCounter",
    "PartialBreakdown",
    "TimeRange",
    "ViolationGroups",
    "bucket_indexes",
    "buckets_of_run",
    "combine_breakdowns",
    "count_times",
    "error_groups",
    "find_time_range",
    "join_groups",
    "select_groups",
]

NONE = -1
NO_PROCESS = np.iinfo(np.int64).min
"""Instead of the id of a process; an id has 32 bits."""
PROPERTIES = tuple(Property)
ERROR_PROPERTIES = {
    NO_DUPLICATION: Property.NO_DUPLICATION,
    NO_CREATION: Property.NO_CREATION,
    LIVENESS: Property.LIVENESS,
}
GROUPS_MIN = 1 << 14
"""Fewer entries are not grouped, because sorting them saves no memory."""


class ViolationGroups(NamedTuple):
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


class TimeRange(NamedTuple):
    """The times and the rows of a run, or of a part of it."""

    lowest: float
    """Infinite if there is no row."""
    highest: float
    end: int
    """The row after the last one."""


class PartialBreakdown(NamedTuple):
    """The violations of a part of a run; processes are given by their ids."""

    counted: ViolationGroups
    pending: ViolationGroups
    deliveries: Longs
    """By bucket, the number of deliveries in the part."""
    timeline: Longs
    """By property and bucket, the number of counted violations."""


class BreakdownCounter:
    """Counts violations in a forward pass.

    Call :meth:`add_errors` and :meth:`add_early_deliveries` with the violations of a batch,
    then :meth:`advance` with its rows.
    """

    def __init__(self, buckets: Buckets) -> None:
        """Count by the buckets of :func:`find_buckets`."""
        self._buckets = buckets
        self._deliveries = np.zeros(buckets.count, np.int64)
        self._timeline = np.zeros((len(PROPERTIES), buckets.count), np.int64)
        self._pending = _no_groups()
        self._counted = _no_groups()
        self._pending_min = self._counted_min = GROUPS_MIN

    def add_errors(self, errors: DeliveryErrors) -> None:
        """Add delivery errors, in this batch or in a later one."""
        if len(errors.row):
            self._pending = join_groups([self._pending, error_groups(errors)])

    def add_early_deliveries(self, rows: Rows, early: EarlyDeliveries) -> None:
        """Add the copies of this batch's messages that were delivered too early."""
        for which, limit in ((Property.CAUSAL, early.limit), (Property.FIFO, early.own)):
            is_early = limit >= 0
            if not np.any(is_early):
                continue
            none = np.full(int(np.count_nonzero(is_early)), NONE, np.int64)
            found = ViolationGroups(
                property=np.full_like(none, PROPERTIES.index(which)),
                process=early.target[is_early],
                source=rows.source[early.send[is_early]].astype(np.int64),
                earlier=none,
                bucket=none,
                row=early.row[is_early],
                limit=limit[is_early],
                violations=np.ones_like(none),
            )
            self._pending = join_groups([self._pending, found])

    def advance(self, rows: Rows, *, is_own: bool = True) -> None:
        """Count the deliveries of a batch, and the violations whose rows it reaches.

        Args:
            rows: The batch.
            is_own: Whether its deliveries belong to the part that is counted.
        """
        if not len(rows.row):
            return
        values = rows.time if self._buckets.by_time else rows.row
        bucket = bucket_indexes(self._buckets, values)
        if is_own:
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
        known = count_times(select_groups(pending, is_known), self._timeline)
        self._counted = join_groups([self._counted, known])
        self._pending = select_groups(pending, ~is_known)
        if len(self._pending.violations) > 2 * self._pending_min:
            self._pending = _grouped(self._pending)
            self._pending_min = max(GROUPS_MIN, len(self._pending.violations))
        if len(self._counted.violations) > 2 * self._counted_min:
            self._counted = _grouped(self._counted)
            self._counted_min = max(GROUPS_MIN, len(self._counted.violations))

    def partial(self, processes: SlotMap) -> PartialBreakdown:
        """Return the counts after the last batch; ``processes`` has the ids."""
        ids = processes.first
        counted, pending = (
            groups._replace(
                process=ids[groups.process],
                source=ids[groups.source],
                # An id may be negative, so whether there is one is decided by NO_PROCESS.
                earlier=np.where(groups.earlier < 0, NO_PROCESS, ids[groups.earlier]),
            )
            for groups in (_grouped(self._counted), _grouped(self._pending))
        )
        return PartialBreakdown(counted, pending, self._deliveries, self._timeline)

    def breakdown(self, processes: SlotMap) -> ViolationBreakdown:
        """Return the breakdown of a whole run, after the last batch."""
        return combine_breakdowns(self._buckets, [self.partial(processes)])


def combine_breakdowns(
    buckets: Buckets, parts: Sequence[PartialBreakdown]
) -> ViolationBreakdown:
    """Return the breakdown of a run, from its parts without pending violations."""
    assert not any(len(part.pending.violations) for part in parts), "a row was not reached"
    found = _grouped(join_groups([part.counted for part in parts]))
    is_order = found.earlier != NO_PROCESS
    late = np.where(is_order, found.earlier, found.source)
    by_pair = _grouped(found._replace(source=late, earlier=np.zeros_like(late)))
    pairs = [
        PairCount(property=PROPERTIES[which], source=source, process=process, count=count)
        for which, process, source, _, _, _, _, count in _rows(_by_count(by_pair))
    ]
    timeline = np.sum([part.timeline for part in parts], axis=0)
    deliveries = np.sum([part.deliveries for part in parts], axis=0)
    return ViolationBreakdown(
        pairs=tuple(pairs),
        overtakings=tuple(_overtakings(select_groups(found, is_order))),
        buckets=buckets,
        deliveries=tuple(deliveries.tolist()),
        timeline={
            which: tuple(counts.tolist())
            for which, counts in zip(PROPERTIES, timeline, strict=True)
            if np.any(counts)
        },
    )


def _overtakings(found: ViolationGroups) -> Iterator[OvertakingCount]:
    for index, which in enumerate(PROPERTIES):
        own = _by_count(select_groups(found, found.property == index))
        first = ViolationGroups(*(column[:OVERTAKINGS_MAX] for column in own))
        for _, process, source, earlier, _, _, _, count in _rows(first):
            yield OvertakingCount(
                property=which,
                late_source=earlier,
                source=source,
                process=process,
                count=count,
            )


def _by_count(groups: ViolationGroups) -> ViolationGroups:
    """Return entries by property, those with the most violations first."""
    keys = (groups.earlier, groups.source, groups.process, -groups.violations)
    order = np.lexsort((*keys, groups.property))
    return ViolationGroups(*(column[order] for column in groups))


def _rows(groups: ViolationGroups) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in groups), strict=True)


def count_times(groups: ViolationGroups, timeline: Longs) -> ViolationGroups:
    """Add violations to a timeline, and return them without their buckets."""
    np.add.at(timeline, (groups.property, groups.bucket), groups.violations)
    return groups._replace(bucket=np.full_like(groups.bucket, NONE))


def bucket_indexes(buckets: Buckets, values: Doubles | Longs) -> Longs:
    """Return the bucket of each value: of times or of row numbers."""
    bucket = np.floor(values / buckets.width).astype(np.int64) - buckets.first
    index: Longs = np.clip(bucket, 0, buckets.count - 1)
    return index


def find_time_range(
    trace: RecordedRun, *, first: int = 0, end: int | None = None
) -> TimeRange:
    """Return the range of the batches that overlap rows ``first`` to before ``end``."""
    lowest, highest, stop = inf, -inf, 0
    last = None if end is None else end - 1
    for start, batch in trace.numbered_batches(("time",), first=first, last=last):
        ends = pc.min_max(batch.column("time")).as_py()
        if ends["min"] is not None:
            lowest, highest = min(lowest, ends["min"]), max(highest, ends["max"])
        stop = start + batch.num_rows
    return TimeRange(lowest, highest, stop)


def buckets_of_run(ranges: Sequence[TimeRange]) -> Buckets:
    """Return the buckets of a run, from the ranges of its parts.

    They divide its rows if there is no time, or only one.
    """
    lowest = min((each.lowest for each in ranges), default=inf)
    highest = max((each.highest for each in ranges), default=-inf)
    rows = max((each.end for each in ranges), default=0)
    if isfinite(lowest) and isfinite(highest) and lowest < highest:
        return choose_buckets(lowest, highest, by_time=True)
    return choose_buckets(0, max(0, rows - 1), by_time=False)


def error_groups(errors: DeliveryErrors) -> ViolationGroups:
    """Return delivery errors as pending violations."""
    codes = np.zeros(max(ERROR_PROPERTIES) + 1, np.int64)
    for kind, which in ERROR_PROPERTIES.items():
        codes[kind] = PROPERTIES.index(which)
    none = np.full(len(errors.row), NONE, np.int64)
    return ViolationGroups(
        property=codes[errors.kind],
        process=errors.process.astype(np.int64),
        source=errors.source.astype(np.int64),
        earlier=none.copy(),
        bucket=none.copy(),
        row=errors.row,
        limit=none,
        violations=np.ones_like(none),
    )


def _no_groups() -> ViolationGroups:
    return ViolationGroups(*(np.empty(0, np.int64) for _ in ViolationGroups._fields))


def join_groups(parts: Sequence[ViolationGroups]) -> ViolationGroups:
    """Return the entries of all parts."""
    return ViolationGroups(
        *(np.concatenate(columns) for columns in zip(*parts, strict=True))
    )


def select_groups(groups: ViolationGroups, chosen: Bools) -> ViolationGroups:
    """Return the chosen entries."""
    return ViolationGroups(*(column[chosen] for column in groups))


def _grouped(groups: ViolationGroups) -> ViolationGroups:
    """Return one entry for all entries that are equal, with the sum of their counts."""
    if not len(groups.violations):
        return groups
    *keys, count = groups
    order = np.lexsort(keys[::-1])
    ordered = np.stack([key[order] for key in keys])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    sums = np.add.reduceat(count[order], np.flatnonzero(is_first))
    return ViolationGroups(*[*ordered[:, is_first], sums])
