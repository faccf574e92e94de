"""Judge one window of a run, as one task among many.

A window owns the rows from ``first`` to before ``end``. It reads a *margin* of rows more on
either side: to the right, where messages of its own are delivered; to the left, where
messages were sent that are in flight at its left edge. It goes through these rows as
:mod:`antecede.verify.verifier` goes through a whole run, backward and then forward, but keeps
them in memory between. What it tells is about its own sends, about the histories in its own
rows, and about what it cannot judge: its own deliveries whose sends lie too far away. Why
that is exact is told in :mod:`antecede.pipeline.verify.windows`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.trace.reader import NumberedBatch, Trace
from antecede.verify.delivery_errors import Fault, FaultFindings, OrderFindings
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.matching import Copies, Faults, Matching
from antecede.verify.kernels.slots import Ints, Longs, Slots
from antecede.verify.kernels.state import OWN_NONE
from antecede.verify.kernels.stream import (
    MATCHED,
    Disordered,
    Histories,
    Rows,
    message_rows,
)
from antecede.verify.kernels.walk import Known
from antecede.verify.oracle import Property
from antecede.verify.verifier import Walking, fault_findings, order_findings

__all__ = [
    "Overtaking",
    "Spread",
    "Window",
    "WindowResult",
    "WindowTask",
    "cut",
    "judge_window",
    "no_deliveries",
]

NUMBER_NONE = np.iinfo(np.int64).max
ROW, PROCESS, SOURCE, NUMBER = 0, 1, 2, 3
"""Rows of an array of deliveries, all with the ids of processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some rows of a run that are judged together, and what is read for them."""

    read_first: int
    first: int
    near_end: int
    """What is delivered at ``first`` or later, and sent before it, must be so before this
    row: the window on the left reads no further."""
    end: int
    read_end: int


def cut(rows: int, window_rows: int, margin_rows: int) -> list[Window]:
    """Cut a run into windows; only the last may be shorter, and none than its margin."""
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
class Spread:
    """A message that was sent before all that a window reads, and is still in flight."""

    source: int
    sent: int
    """The row of its send."""
    process: Longs
    """The processes that know of it, its source included."""
    row: Longs
    """From which row on each of them does."""
    target: Longs
    """The targets of its copies."""
    limit: Longs
    """The row at which each of these was delivered."""


def no_deliveries() -> Longs:
    """Return an array of no deliveries."""
    return np.empty((4, 0), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTask:
    """What a task is told."""

    trace: Trace
    window: Window
    violations_max: int
    far_max: int
    """The most deliveries from far away to list."""
    later: Longs = field(default_factory=no_deliveries)
    """Deliveries right of all that is read, of messages that are sent within."""
    spreads: tuple[Spread, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaking:
    """A copy that was delivered too early; processes by their ids."""

    process: int
    source: int
    number: int
    send: int
    limit: int


@dataclass(slots=True, kw_only=True)
class WindowResult:
    """What a task tells."""

    disordered: bool = False
    """The rows stand in no linear extension; nothing else is told."""
    runs: tuple[str, ...] = ()
    messages: int = 0
    deliveries: int = 0
    counts: dict[Property, int] = field(default_factory=dict)
    faults: dict[Property, list[Fault]] = field(default_factory=dict)
    overtakings: dict[Property, list[Overtaking]] = field(default_factory=dict)
    far: Longs = field(default_factory=no_deliveries)
    """Own deliveries whose sends are not near, as far as they may be listed."""
    far_count: int = 0
    reach_min: int | None = None
    kept_max: int = 0
    gaps: int = 0
    histories: Longs = field(default_factory=lambda: np.empty((3, 0), np.int64))
    """By process that has events: its id, its first and its last seq."""
    numbers_rise: bool = True
    numbers: Longs = field(default_factory=lambda: np.empty((3, 0), np.int64))
    """By source: its id, the lowest and the highest number that it sent."""
    number_min: int = NUMBER_NONE
    """The lowest number of any row."""
    number_max: int = -1
    """The highest number of any row."""


class _Side(Enum):
    LEFT = "left"
    OWN = "own"
    RIGHT = "right"


@dataclass(slots=True)
class _Part:
    """Rows that follow each other on one side of the edges."""

    side: _Side
    rows: Rows
    history: pa.RecordBatch | None = None
    """Process and seq of all own rows, until they are checked."""
    copies: Copies | None = None


def judge_window(task: WindowTask) -> WindowResult:
    """Judge a window; raise ConfigError if its rows are those of no run."""
    try:
        return _Judge(task).judge()
    except Disordered:
        return WindowResult(disordered=True)


class _Judge:
    """One window's judgement, step by step."""

    def __init__(self, task: WindowTask) -> None:
        self._task = task
        self._window = task.window
        self._processes = Slots()
        self._result = WindowResult()
        self._faults = fault_findings(task.violations_max)
        self._orders = order_findings(task.violations_max)

    def judge(self) -> WindowResult:
        parts = list(self._read())
        self._match(parts)
        self._count(parts)
        self._walk(parts)
        self._tell(self._faults, self._orders)
        return self._result

    def _read(self) -> Iterator[_Part]:
        """Yield the rows, cut at the edges of the window."""
        window, trace = self._window, self._task.trace
        sides = (
            (_Side.LEFT, window.read_first, window.first),
            (_Side.OWN, window.first, window.end),
            (_Side.RIGHT, window.end, window.read_end),
        )
        for numbered in trace.numbered_batches(
            MATCHED, first=window.read_first, last=window.read_end - 1
        ):
            for side, first, end in sides:
                start = max(0, first - numbered.first)
                stop = min(numbered.batch.num_rows, end - numbered.first)
                if start < stop:
                    batch = numbered.batch.slice(start, stop - start)
                    part = NumberedBatch(numbered.first + start, batch)
                    rows = message_rows(part, self._processes, trace.path)
                    yield _Part(side, rows, self._note(side, batch))

    def _note(self, side: _Side, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if side is not _Side.OWN:
            return None
        runs = pc.unique(batch.column("run")).to_pylist()
        self._result.runs = tuple(sorted({*self._result.runs, *runs}))
        return batch.select(["process", "seq"])

    def _match(self, parts: list[_Part]) -> None:
        """Go backward: find the deliveries of what was sent here and left of here."""
        result, window = self._result, self._window
        matching = Matching()
        histories = Histories(self._processes)
        matching.match(self._later(), len(self._processes))
        far: list[Longs] = []
        for part in reversed(parts):
            if part.side is _Side.RIGHT:
                part.rows = _deliveries_of(part.rows)  # Others judge what is sent there.
            if part.side is _Side.LEFT and not far:
                far.append(self._unsent(matching, window.near_end, window.end))
                result.numbers_rise = matching.numbers_rise
                result.reach_min = matching.reach_min
            part.copies, found = matching.match(part.rows, len(self._processes))
            if part.side is _Side.OWN:
                histories.take(part.history)
                part.history = None
                for fault in self._faults:
                    fault.take(found, self._processes)
        if far:
            far.append(self._unsent(matching, window.first, window.near_end))
        else:
            far.append(self._unsent(matching, window.first, window.end))
            result.numbers_rise = matching.numbers_rise
            result.reach_min = matching.reach_min
        result.far_count = sum(part.shape[1] for part in far)
        result.far = np.concatenate(far, axis=1)[:, : self._task.far_max]
        process, first, last = histories.spans()
        result.gaps = histories.gaps
        result.histories = np.stack([self._processes.first[process], first, last])

    def _later(self) -> Rows:
        """Return the deliveries that the task was told of, as rows."""
        later = self._task.later
        none = np.zeros(later.shape[1], np.int64)
        return Rows(
            row=later[ROW].copy(),
            is_send=none.astype(np.bool_),
            process=self._processes.add(later[PROCESS].copy(), none),
            source=self._processes.add(later[SOURCE].copy(), none),
            number=later[NUMBER].copy(),
            target_start=np.empty(0, np.int64),
            target=np.empty(0, np.int32),
            is_broadcast=np.empty(0, np.bool_),
        )

    def _unsent(self, matching: Matching, first: int, end: int) -> Longs:
        """Return the deliveries in some rows whose sends have not been met."""
        faults: Faults = matching.invented()
        here = (faults.row >= first) & (faults.row < end)
        ids = self._processes.first
        return np.stack(
            [
                faults.row[here],
                ids[faults.process[here]],
                ids[faults.source[here]],
                faults.number[here],
            ]
        )

    def _count(self, parts: list[_Part]) -> None:
        """Count what is there, and note the numbers of each source."""
        result = self._result
        spans = np.empty((2, len(self._processes)), np.int64)
        spans[0], spans[1] = NUMBER_NONE, -1
        for part in parts:
            if part.side is not _Side.OWN:
                continue
            rows = part.rows
            sends = int(np.count_nonzero(rows.is_send))
            result.messages += sends
            result.deliveries += len(rows.row) - sends
            _span(rows.source[rows.is_send], rows.number[rows.is_send], spans)
            if len(rows.number):
                result.number_min = min(result.number_min, int(rows.number.min()))
                result.number_max = max(result.number_max, int(rows.number.max()))
        (source,) = np.nonzero(spans[0] < NUMBER_NONE)
        ids = self._processes.first[source]
        result.numbers = np.stack([ids, spans[0, source], spans[1, source]])

    def _walk(self, parts: list[_Part]) -> None:
        """Go forward: find what was delivered too early."""
        walking = Walking()
        known = self._known()
        for part in parts:
            if part.side is _Side.RIGHT:
                break
            if not len(part.rows.row):
                continue
            assert part.copies is not None
            until = int(np.searchsorted(known.row, part.rows.row[-1], side="right"))
            now = Known(*(column[:until].copy() for column in known))
            known = Known(*(column[until:] for column in known))
            overtaken = walking.walk(part.rows, part.copies, len(self._processes), now)
            if part.side is _Side.OWN:
                for order in self._orders:
                    order.take(part.rows, overtaken)
        self._result.kept_max = walking.kept_max

    def _known(self) -> Known:
        """Return the limits that processes know from before, in the order of rows."""
        window = self._window
        columns: list[Longs] = []
        for spread in self._task.spreads:
            learned = spread.row < window.end
            process, row = spread.process[learned], spread.row[learned]
            flying = spread.limit > window.first
            target, limit = spread.target[flying], spread.limit[flying]
            pairs = len(process) * len(target)
            limits = np.tile(limit, len(process))
            holder = np.repeat(process, len(target))
            own = np.where(holder == spread.source, limits, OWN_NONE)
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
        return Known(*(column.copy() for column in every[:, order]))

    def _tell(self, faults: list[FaultFindings], orders: list[OrderFindings]) -> None:
        ids = self._processes.first
        for fault in faults:
            self._result.counts[fault.which] = fault.count
            self._result.faults[fault.which] = fault.kept
        for order in orders:
            self._result.counts[order.which] = order.count
            self._result.overtakings[order.which] = [
                Overtaking(
                    process=int(ids[suspect.process]),
                    source=int(ids[suspect.source]),
                    number=suspect.number,
                    send=suspect.send,
                    limit=suspect.limit,
                )
                for suspect in order.kept
            ]


def _deliveries_of(rows: Rows) -> Rows:
    """Return the rows without the sends."""
    got = ~rows.is_send
    return Rows(
        row=rows.row[got],
        is_send=rows.is_send[got],
        process=rows.process[got],
        source=rows.source[got],
        number=rows.number[got],
        target_start=np.empty(0, np.int64),
        target=np.empty(0, np.int32),
        is_broadcast=np.empty(0, np.bool_),
    )


@compiled
def _span(source: Ints, number: Longs, spans: Longs) -> None:
    """Note the lowest and the highest number of each source."""
    for i in range(source.size):
        spans[0, source[i]] = min(spans[0, source[i]], number[i])
        spans[1, source[i]] = max(spans[1, source[i]], number[i])
