"""The numbers of all violations of a run in a table, as rows of its result."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from antecede.verify.breakdown import ViolationBreakdown
from antecede.verify.oracle import Property

__all__ = ["PAIR", "PART", "pair_rows", "timeline_rows"]

PAIR = pa.struct(
    [
        pa.field("property", pa.string()),
        pa.field("process", pa.string()),
        # The source of the message that was delivered too early, twice, unsent or never.
        pa.field("source", pa.string()),
        # The source of the message that should have been delivered first.
        pa.field("earlier_source", pa.string()),
        pa.field("violations", pa.int64()),
    ]
)
PART = pa.struct(
    [
        pa.field("property", pa.string()),
        # Seconds; null without times.
        pa.field("start", pa.float64()),
        pa.field("end", pa.float64()),
        pa.field("violations", pa.int64()),
    ]
)
ORDERS = (Property.CAUSAL, Property.FIFO)


def pair_rows(
    breakdown: ViolationBreakdown | None, name: Callable[[int], str]
) -> list[dict[str, Any]]:
    """Return values of :data:`PAIR`; none without a breakdown.

    Args:
        breakdown: The numbers of violations.
        name: Returns the name of a process.
    """
    if breakdown is None:
        return []
    rows = [
        {
            "property": each.property.value,
            "process": name(each.process),
            "source": name(each.source),
            "earlier_source": name(each.late_source),
            "violations": each.count,
        }
        for each in breakdown.overtakings
    ]
    rows += [
        {
            "property": each.property.value,
            "process": name(each.process),
            "source": name(each.source),
            "violations": each.count,
        }
        for each in breakdown.pairs
        if each.property not in ORDERS
    ]
    return rows


def timeline_rows(
    breakdown: ViolationBreakdown | None, time_zero: float
) -> list[dict[str, Any]]:
    """Return values of :data:`PART`, one for each part of the time with violations.

    Args:
        breakdown: The numbers of violations.
        time_zero: Is added to all times.
    """
    rows: list[dict[str, Any]] = []
    if breakdown is None:
        return rows
    buckets = breakdown.buckets
    for which, counts in breakdown.timeline.items():
        if not buckets.by_time:
            rows.append({"property": which.value, "violations": sum(counts)})
            continue
        rows += [
            {
                "property": which.value,
                "start": buckets.start(index) + time_zero,
                "end": buckets.start(index + 1) + time_zero,
                "violations": count,
            }
            for index, count in enumerate(counts)
            if count
        ]
    return rows
