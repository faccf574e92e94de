"""Stragglers: messages in flight for so long that no window reads all their rows.

First, tasks collect all rows of these messages from all windows. Then, tasks find for each
straggler its *propagation*: the row from which each process has the message in its causal
past. A process gets it there by delivering a message whose sender had it in its causal past
at the send. Where the numbers of each source increase, these are the messages with at least
the number of the first message that the sender sent afterwards; so the pass need not look
at sends of messages that it delivers. Propagation is fast: in most runs every process is
reached after a few rows per process, and the search ends there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from antecede.pipeline.verify.window_task import LongRun, Propagation, RowRange, Window
from antecede.verify.delivery_errors import DeliveryError
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Longs, SlotMap
from antecede.verify.kernels.stream import (
    MESSAGE_COLUMNS,
    Bools,
    NotLinearExtensionError,
    Rows,
    grow,
    message_rows,
)
from antecede.verify.oracle import MessageId

__all__ = [
    "CollectTask",
    "PropagationTask",
    "StragglerRows",
    "Stragglers",
    "collect_stragglers",
    "find_propagations",
    "merge_stragglers",
]

UNKNOWN = np.iinfo(np.int64).max
"""Stands for a row or number while the message is not in the process's causal past."""


@dataclass(slots=True, kw_only=True)
class StragglerRows:
    """The rows of one message."""

    sent: int | None = None
    """The row of the send; None if there is none."""
    targets: tuple[int, ...] | None = None
    """None for a broadcast."""
    deliveries: list[tuple[int, int]] = field(default_factory=list)
    """Row and process of each delivery, in the order of rows."""

    def first_deliveries(self) -> dict[int, int]:
        """Return, for each target that delivered the message, the first row."""
        found: dict[int, int] = {}
        for row, process in self.deliveries:
            if self.targets is None or process in self.targets:
                found.setdefault(process, row)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectTask:
    """Collect the rows of some messages from a window."""

    trace: LongRun
    window: Window
    source: Longs
    number: Longs

    def row_ranges(self) -> Sequence[RowRange]:
        """Return the window."""
        return [(self.window.first, self.window.end)]


def collect_stragglers(task: CollectTask) -> dict[MessageId, StragglerRows]:
    """Return the rows of the messages in a window, without its margins."""
    wanted, processes = SlotMap(), SlotMap()
    wanted.add(task.source.copy(), task.number.copy())
    window = task.window
    found: dict[MessageId, StragglerRows] = {}
    for numbered in task.trace.numbered_batches(
        (*MESSAGE_COLUMNS, "targets"), first=window.first, last=window.end - 1
    ):
        rows = message_rows(numbered, processes, task.trace.location)
        ids = processes.first
        ordinal = np.cumsum(rows.is_send) - 1
        is_wanted = wanted.find(ids[rows.source], rows.number) >= 0
        is_wanted &= (rows.row >= window.first) & (rows.row < window.end)
        for i in np.flatnonzero(is_wanted).tolist():
            message = MessageId(int(ids[rows.source[i]]), int(rows.number[i]))
            straggler = found.setdefault(message, StragglerRows())
            if rows.is_send[i]:
                straggler.sent = int(rows.row[i])
                straggler.targets = _targets(rows, int(ordinal[i]), ids)
            else:
                delivery = (int(rows.row[i]), int(ids[rows.process[i]]))
                straggler.deliveries.append(delivery)
    return found


def _targets(rows: Rows, send: int, ids: Longs) -> tuple[int, ...] | None:
    if rows.is_broadcast[send]:
        return None
    targets = rows.target[rows.target_start[send] : rows.target_start[send + 1]]
    return tuple(ids[targets].tolist())


def merge_stragglers(
    parts: Sequence[dict[MessageId, StragglerRows]],
) -> dict[MessageId, StragglerRows]:
    """Merge the rows that the windows collected, in the order of the windows.

    Raises:
        NotLinearExtensionError: A delivery is before its send.
    """
    merged: dict[MessageId, StragglerRows] = {}
    for part in parts:
        for message, rows in part.items():
            straggler = merged.setdefault(message, StragglerRows())
            if rows.sent is not None:
                straggler.sent, straggler.targets = rows.sent, rows.targets
            straggler.deliveries += rows.deliveries
    for straggler in merged.values():
        sent = straggler.sent
        if sent is not None and any(row < sent for row, _ in straggler.deliveries):
            raise NotLinearExtensionError
    return merged


class Stragglers:
    """All stragglers, in arrays from which each window selects."""

    spanning: tuple[tuple[MessageId, StragglerRows], ...]
    """Messages that are in flight at the start of a window that does not read their
    sends."""
    never_sent: tuple[MessageId, ...]
    """Messages without a send."""

    def __init__(
        self, stragglers: dict[MessageId, StragglerRows], windows: Sequence[Window]
    ) -> None:
        self._rows = stragglers
        self.never_sent = tuple(m for m, rows in stragglers.items() if rows.sent is None)
        sent = [(m, rows) for m, rows in stragglers.items() if rows.sent is not None]
        deliveries = [
            (row, process, message.source, message.number, rows.sent or 0)
            for message, rows in sent
            for row, process in rows.deliveries
        ]
        self._deliveries = np.array(sorted(deliveries), np.int64).reshape(-1, 5).T
        sent.sort(key=lambda pair: pair[1].sent or 0)
        sends = np.array([rows.sent for _, rows in sent], np.int64)
        limits = np.array(
            [max(rows.first_deliveries().values(), default=-1) for _, rows in sent]
        )
        is_spanning = np.zeros(len(sent), np.bool_)
        for window in windows:
            is_spanning |= _spans(window, sends, limits)
        self.spanning = tuple(sent[i] for i in np.flatnonzero(is_spanning).tolist())
        self._sends, self._limits = sends[is_spanning], limits[is_spanning]

    def later_deliveries(self, window: Window) -> Longs:
        """Return deliveries after the right margin of messages sent before ``end``.

        Only messages whose sends the window reads are included.
        """
        row, _, _, _, sent = self._deliveries
        is_later = (window.read_first <= sent) & (sent < window.end)
        is_later &= row >= window.read_end
        return self._deliveries[:4, is_later].copy()

    def spanning_indices(self, window: Window) -> list[int]:
        """Return the indices in ``spanning`` of messages in flight at ``first``."""
        found = np.flatnonzero(_spans(window, self._sends, self._limits))
        return [int(index) for index in found]

    def never_sent_deliveries(self) -> list[DeliveryError]:
        """Return the deliveries of messages that were never sent."""
        return [
            (row, process, message.source, message.number)
            for message in self.never_sent
            for row, process in self._rows[message].deliveries
        ]


def _spans(window: Window, sends: Longs, limits: Longs) -> Bools:
    """Return which messages are sent before ``read_first`` and in flight at ``first``."""
    return (sends < window.read_first) & (limits > window.first)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropagationTask:
    """Find the propagations of some messages; numbers must increase."""

    trace: LongRun
    stragglers: tuple[tuple[MessageId, StragglerRows], ...]
    processes: int
    """The number of processes of the run."""
    never_sent: tuple[MessageId, ...]
    """Messages that are delivered but never sent: they have no causal past."""

    def row_ranges(self) -> Sequence[RowRange]:
        """Return the rows from the first send to the last delivery."""
        first = min(rows.sent or 0 for _, rows in self.stragglers)
        last = max(
            max(rows.first_deliveries().values(), default=0) for _, rows in self.stragglers
        )
        return [(first, last + 1)]


def find_propagations(task: PropagationTask) -> list[Propagation]:
    """Return the propagation of each of the messages."""
    processes, never_sent = SlotMap(), SlotMap()
    never_sent.add(
        np.array([message.source for message in task.never_sent], np.int64),
        np.array([message.number for message in task.never_sent], np.int64),
    )
    searches = [_Search.of(message, rows) for message, rows in task.stragglers]
    first = min(search.sent for search in searches)
    last = max(int(search.limit.max()) for search in searches)
    for numbered in task.trace.numbered_batches(MESSAGE_COLUMNS, first=first, last=last):
        rows = message_rows(numbered, processes, task.trace.location)
        source = processes.first[rows.source]
        was_sent = rows.is_send | (never_sent.find(source, rows.number) < 0)
        for search in searches:
            search.advance(rows, was_sent, len(processes))
        if all(search.ends_after(rows, task.processes) for search in searches):
            break
    return [search.result(processes) for search in searches]


@dataclass(slots=True, kw_only=True)
class _Search:
    """The search for the propagation of one message."""

    source: int
    sent: int
    target: Longs
    limit: Longs
    known_from: Longs
    """By process, the row from which it has the message in its causal past."""
    first_number: Longs
    """By process, the number of the first message that it sent afterwards."""
    reached: int = 0
    """The number of processes that have the message in their causal past."""

    @classmethod
    def of(cls, message: MessageId, rows: StragglerRows) -> "_Search":
        assert rows.sent is not None
        deliveries = rows.first_deliveries()
        return cls(
            source=message.source,
            sent=rows.sent,
            target=np.array(list(deliveries), np.int64),
            limit=np.array(list(deliveries.values()), np.int64),
            known_from=np.empty(0, np.int64),
            first_number=np.empty(0, np.int64),
        )

    def advance(self, rows: Rows, was_sent: Bools, processes: int) -> None:
        self.known_from = grow(self.known_from, processes, UNKNOWN)
        self.first_number = grow(self.first_number, processes, UNKNOWN)
        first = int(np.searchsorted(rows.row, self.sent))
        last = int(np.searchsorted(rows.row, self.limit.max()))
        self.reached += _advance(
            rows, was_sent, first, last, self.sent, self.known_from, self.first_number
        )

    def ends_after(self, rows: Rows, processes: int) -> bool:
        if self.reached == processes:
            return True
        return len(rows.row) > 0 and int(rows.row[-1]) >= self.limit.max()

    def result(self, processes: SlotMap) -> Propagation:
        (process,) = np.nonzero(self.known_from < UNKNOWN)
        return Propagation(
            source=self.source,
            sent=self.sent,
            process=processes.first[process],
            row=self.known_from[process],
            target=self.target,
            limit=self.limit,
        )


@compiled
def _advance(
    rows: Rows,
    was_sent: Bools,
    first: int,
    last: int,
    sent: int,
    known_from: Longs,
    first_number: Longs,
) -> int:
    """Pass over rows; return the number of processes that the message newly reaches."""
    reached = 0
    for i in range(first, last):
        process = rows.process[i]
        if rows.row[i] == sent:
            known_from[process] = sent
            first_number[process] = rows.number[i]
            reached += 1
        elif rows.is_send[i]:
            if known_from[process] != UNKNOWN and first_number[process] == UNKNOWN:
                first_number[process] = rows.number[i]
        elif (
            known_from[process] == UNKNOWN
            and was_sent[i]
            and first_number[rows.source[i]] <= rows.number[i]
        ):
            known_from[process] = rows.row[i]
            reached += 1
    return reached
