"""Windows of a run, and the input and the result of the task that verifies one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from antecede.trace.reader import RecordedRun
from antecede.verify.breakdown import Buckets
from antecede.verify.breakdown_counter import PartialBreakdown
from antecede.verify.delivery_errors import DeliveryError
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import MissingDeliveries
from antecede.verify.oracle import Property
from antecede.verify.witnesses import EarlyDelivery

__all__ = [
    "NUMBER_NONE",
    "LongRun",
    "Propagation",
    "RowRange",
    "RunTask",
    "Window",
    "WindowResult",
    "WindowTask",
    "no_deliveries",
    "split_into_windows",
]

NUMBER_NONE = np.iinfo(np.int64).max

RowRange = tuple[int, int]
"""The first row of a range, and the row after its last."""


class LongRun(RecordedRun, Protocol):
    """A run that can be divided into windows."""

    @property
    def rows(self) -> int:
        """The number of events of all kinds."""


class RunTask(Protocol):
    """The input of a task that reads some rows of a run."""

    @property
    def trace(self) -> LongRun:
        """The run."""

    def row_ranges(self) -> Sequence[RowRange]:
        """Return the rows that the task reads; it ignores all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The row numbers of a window and of its margins."""

    read_first: int
    """The first row of the left margin."""
    first: int
    near_end: int
    """A near message that is sent before ``first`` is delivered before this row, where the
    right margin of the previous window ends."""
    end: int
    read_end: int
    """The row after the right margin."""


def split_into_windows(rows: int, window_rows: int, margin_rows: int) -> list[Window]:
    """Split a run into windows of equal length; only the last may be shorter."""
    assert 0 < margin_rows <= window_rows
    return [
        Window(
            read_first=max(0, first - margin_rows),
            first=first,
            near_end=first + margin_rows,
            end=min(rows, first + window_rows),
            read_end=min(rows, first + window_rows + margin_rows),
        )
        for first in range(0, rows, window_rows)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagation:
    """A straggler, and the row from which each process has it in its causal past."""

    source: int
    sent: int
    """The row of the send."""
    process: Longs
    """The processes that have the message in their causal past, its source included."""
    row: Longs
    """For each of these processes, the first row."""
    target: Longs
    """The targets of the message's copies."""
    limit: Longs
    """For each target, the row of the delivery."""


def no_deliveries() -> Longs:
    """Return an empty array of deliveries: rows for row, process, source and number."""
    return np.empty((4, 0), np.int64)


def _no_ranges() -> Longs:
    return np.empty((3, 0), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTask:
    """The input of a task; arrays contain the ids of processes."""

    trace: LongRun
    window: Window
    violations_max: int
    straggler_deliveries_max: int
    """The most deliveries of stragglers to return."""
    later_deliveries: Longs = field(default_factory=no_deliveries)
    """Deliveries after the right margin of messages that the window or its left margin
    sends."""
    propagations: tuple[Propagation, ...] = ()
    """Messages that were sent before the left margin, and are in flight at ``first``."""
    buckets: Buckets | None = None
    """The buckets of the breakdown; None to make none."""

    def row_ranges(self) -> Sequence[RowRange]:
        """Return the window with its margins."""
        return [(self.window.read_first, self.window.read_end)]


@dataclass(slots=True, kw_only=True)
class WindowResult:
    """The result of a task; processes are given by their ids."""

    out_of_order: bool = False
    """The rows are not a linear extension; all other fields are defaults."""
    runs: tuple[str, ...] = ()
    messages: int = 0
    deliveries: int = 0
    counts: dict[Property, int] = field(default_factory=dict)
    delivery_errors: dict[Property, list[DeliveryError]] = field(default_factory=dict)
    early_deliveries: dict[Property, list[EarlyDelivery]] = field(default_factory=dict)
    straggler_deliveries: Longs = field(default_factory=no_deliveries)
    """The window's deliveries of stragglers, up to the task's maximum."""
    straggler_delivery_count: int = 0
    broadcast_reach_min: int | None = None
    limits_max: int = 0
    missing: MissingDeliveries = field(default_factory=MissingDeliveries)
    """The deliveries that the window's own rows mark as missing."""
    gaps: int = 0
    seq_ranges: Longs = field(default_factory=_no_ranges)
    """For each process with events: its id, its first and its last seq."""
    repeated: tuple[int, int] | None = None
    """The id of a process and the seq of an event that is there twice, if any."""
    breakdown: PartialBreakdown | None = None
    numbers_increase: bool = True
    number_ranges: Longs = field(default_factory=_no_ranges)
    """For each source: its id, the lowest and the highest number that it sent."""
    number_min: int = NUMBER_NONE
    """The lowest message number in any row."""
    number_max: int = -1
    """The highest message number in any row."""
