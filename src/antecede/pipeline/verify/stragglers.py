"""Messages in flight for so long that no window sees them whole.

First their *stories* are gathered: all rows that are about them, from all windows. Then it
is found how knowledge of them *spreads*: from which row on a process has the message in its
causal past. A process learns of it by delivering a message whose sender knew of it at the
send. Where the numbers of each source rise, that is any message with at least the number of
the first one that the sender sent once it knew; so there is no need to look at the send.
Knowledge spreads fast: in most runs everyone knows after a few rows per process, and the
search ends there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from antecede.pipeline.verify.window import Spread, Window
from antecede.trace.reader import Trace
from antecede.verify.delivery_errors import Fault
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slots import Longs, Slots
from antecede.verify.kernels.stream import (
    WALKED,
    Bools,
    Disordered,
    Rows,
    grown,
    message_rows,
)
from antecede.verify.oracle import MessageId

__all__ = [
    "SpreadTask",
    "Story",
    "StoryTask",
    "Stragglers",
    "gather",
    "spread",
    "tell_stories",
]

UNKNOWN = np.iinfo(np.int64).max
"""In place of a row or number: the process does not know of it yet."""


@dataclass(slots=True, kw_only=True)
class Story:
    """All there is about one message."""

    sent: int | None = None
    """The row of its send; None if it is not there."""
    targets: tuple[int, ...] | None = None
    """None for a broadcast."""
    deliveries: list[tuple[int, int]] = field(default_factory=list)
    """Row and process of each, in the order of rows."""

    def copies(self) -> dict[int, int]:
        """Return the first row at which each target delivered it."""
        found: dict[int, int] = {}
        for row, process in self.deliveries:
            if self.targets is None or process in self.targets:
                found.setdefault(process, row)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryTask:
    """Look for some messages in the rows of a window."""

    trace: Trace
    window: Window
    source: Longs
    number: Longs


def tell_stories(task: StoryTask) -> dict[MessageId, Story]:
    """Return what the window's own rows tell about the messages."""
    wanted, processes = Slots(), Slots()
    wanted.add(task.source.copy(), task.number.copy())
    window = task.window
    found: dict[MessageId, Story] = {}
    for numbered in task.trace.numbered_batches(
        (*WALKED, "targets"), first=window.first, last=window.end - 1
    ):
        rows = message_rows(numbered, processes, task.trace.path)
        ids = processes.first
        ordinal = np.cumsum(rows.is_send) - 1
        is_wanted = wanted.find(ids[rows.source], rows.number) >= 0
        is_wanted &= (rows.row >= window.first) & (rows.row < window.end)
        for i in np.flatnonzero(is_wanted).tolist():
            message = MessageId(int(ids[rows.source[i]]), int(rows.number[i]))
            story = found.setdefault(message, Story())
            if rows.is_send[i]:
                story.sent = int(rows.row[i])
                story.targets = _targets(rows, int(ordinal[i]), ids)
            else:
                story.deliveries.append((int(rows.row[i]), int(ids[rows.process[i]])))
    return found


def _targets(rows: Rows, send: int, ids: Longs) -> tuple[int, ...] | None:
    if rows.is_broadcast[send]:
        return None
    targets = rows.target[rows.target_start[send] : rows.target_start[send + 1]]
    return tuple(ids[targets].tolist())


def gather(told: Sequence[dict[MessageId, Story]]) -> dict[MessageId, Story]:
    """Put together what the windows told, in their order.

    Raises:
        Disordered: A delivery stands before its send.
    """
    stories: dict[MessageId, Story] = {}
    for part in told:
        for message, chapter in part.items():
            story = stories.setdefault(message, Story())
            if chapter.sent is not None:
                story.sent, story.targets = chapter.sent, chapter.targets
            story.deliveries += chapter.deliveries
    for story in stories.values():
        if story.sent is not None and any(row < story.sent for row, _ in story.deliveries):
            raise Disordered
    return stories


class Stragglers:
    """All stories, in arrays, so that every window's share of them is found at once."""

    spanning: tuple[tuple[MessageId, Story], ...]
    """Those that are in flight at the edge of a window which does not read their sends."""
    invented: tuple[MessageId, ...]
    """Those that were never sent."""

    def __init__(self, stories: dict[MessageId, Story], windows: Sequence[Window]) -> None:
        """Sort the stories, which are complete, for the windows."""
        self.invented = tuple(m for m, story in stories.items() if story.sent is None)
        sent = [(m, story) for m, story in stories.items() if story.sent is not None]
        told = [
            (row, process, message.source, message.number, story.sent or 0)
            for message, story in sent
            for row, process in story.deliveries
        ]
        self._deliveries = np.array(sorted(told), np.int64).reshape(-1, 5).T
        sent.sort(key=lambda pair: pair[1].sent or 0)
        sends = np.array([story.sent for _, story in sent], np.int64)
        limits = np.array([max(story.copies().values(), default=-1) for _, story in sent])
        is_spanning = np.zeros(len(sent), np.bool_)
        for window in windows:
            is_spanning |= _spans(window, sends, limits)
        self.spanning = tuple(sent[i] for i in np.flatnonzero(is_spanning).tolist())
        self._sends, self._limits = sends[is_spanning], limits[is_spanning]

    def later(self, window: Window) -> Longs:
        """Return deliveries that a window does not read, of what is sent where it does."""
        row, _, _, _, sent = self._deliveries
        is_later = (window.read_first <= sent) & (sent < window.end)
        is_later &= row >= window.read_end
        return self._deliveries[:4, is_later].copy()

    def spanning_at(self, window: Window) -> list[int]:
        """Return the places in ``spanning`` of those that the window must know of."""
        places = np.flatnonzero(_spans(window, self._sends, self._limits))
        return [int(place) for place in places]

    def faults(self, stories: dict[MessageId, Story]) -> list[Fault]:
        """Return the deliveries of what was never sent."""
        return [
            (row, process, message.source, message.number)
            for message in self.invented
            for row, process in stories[message].deliveries
        ]


def _spans(window: Window, sends: Longs, limits: Longs) -> Bools:
    """Whether a copy is in flight at the window's edge, and sent left of what it reads."""
    return (sends < window.read_first) & (limits > window.first)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadTask:
    """Find out how knowledge of some messages spreads; numbers must rise."""

    trace: Trace
    stories: tuple[tuple[MessageId, Story], ...]
    members: int
    """How many processes there are to know it."""
    invented: tuple[MessageId, ...]
    """Messages that are delivered but never sent: they carry nothing."""


def spread(task: SpreadTask) -> list[Spread]:
    """Return for each of the messages who knows of it, and from which row on."""
    processes, invented = Slots(), Slots()
    invented.add(
        np.array([message.source for message in task.invented], np.int64),
        np.array([message.number for message in task.invented], np.int64),
    )
    searches = [_Search.of(message, story) for message, story in task.stories]
    first = min(search.sent for search in searches)
    last = max(int(search.limit.max()) for search in searches)
    for numbered in task.trace.numbered_batches(WALKED, first=first, last=last):
        rows = message_rows(numbered, processes, task.trace.path)
        source = processes.first[rows.source]
        is_real = rows.is_send | (invented.find(source, rows.number) < 0)
        for search in searches:
            search.pass_rows(rows, is_real, len(processes))
        if all(search.ends_after(rows, task.members) for search in searches):
            break
    return [search.result(processes) for search in searches]


@dataclass(slots=True, kw_only=True)
class _Search:
    source: int
    sent: int
    target: Longs
    limit: Longs
    known: Longs
    lowest: Longs
    count: int = 0

    @classmethod
    def of(cls, message: MessageId, story: Story) -> "_Search":
        assert story.sent is not None
        copies = story.copies()
        return cls(
            source=message.source,
            sent=story.sent,
            target=np.array(list(copies), np.int64),
            limit=np.array(list(copies.values()), np.int64),
            known=np.empty(0, np.int64),
            lowest=np.empty(0, np.int64),
        )

    def pass_rows(self, rows: Rows, is_real: Bools, processes: int) -> None:
        self.known = grown(self.known, processes, UNKNOWN)
        self.lowest = grown(self.lowest, processes, UNKNOWN)
        first = int(np.searchsorted(rows.row, self.sent))
        last = int(np.searchsorted(rows.row, self.limit.max()))
        self.count += _pass(rows, is_real, first, last, self.sent, self.known, self.lowest)

    def ends_after(self, rows: Rows, members: int) -> bool:
        everyone = self.count == members
        return everyone or (len(rows.row) > 0 and int(rows.row[-1]) >= self.limit.max())

    def result(self, processes: Slots) -> Spread:
        (process,) = np.nonzero(self.known < UNKNOWN)
        return Spread(
            source=self.source,
            sent=self.sent,
            process=processes.first[process],
            row=self.known[process],
            target=self.target,
            limit=self.limit,
        )


@compiled
def _pass(
    rows: Rows,
    is_real: Bools,
    first: int,
    last: int,
    sent: int,
    known: Longs,
    lowest: Longs,
) -> int:
    """Go through rows; note who learns of the message, and count them."""
    count = 0
    for i in range(first, last):
        process = rows.process[i]
        if rows.row[i] == sent:
            known[process] = sent
            lowest[process] = rows.number[i]
            count += 1
        elif rows.is_send[i]:
            if known[process] != UNKNOWN and lowest[process] == UNKNOWN:
                lowest[process] = rows.number[i]
        elif (
            known[process] == UNKNOWN
            and is_real[i]
            and lowest[rows.source[i]] <= rows.number[i]
        ):
            known[process] = rows.row[i]
            count += 1
    return count
