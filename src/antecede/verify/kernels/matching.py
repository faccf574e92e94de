"""The first pass: find the delivery of every copy, walking the run backward.

A message is met at its deliveries first and at its send last. What is kept meanwhile is a
list of its deliveries, given up at the send: memory is that of the messages in flight, as
for the walk forward. At the send everything about the message alone is known: which
deliveries are genuine, which are repeated, which copies were never delivered. And the walk
forward is told what it must know in advance: how often the message will be delivered, when
for the first time, and for each copy at which row.

What has deliveries left when the start of the run is reached was never sent, or was sent
only after a delivery; the walk forward meets the send in the second case.
"""

from typing import NamedTuple

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slots import Ints, Longs, Slots
from antecede.verify.kernels.stream import Disordered, Rows, grown

__all__ = ["Copies", "Faults", "Matching"]

NONE = -1
CLOSED = -2
"""In place of a list of deliveries: the send has been met."""
ONCE, GENUINE, LIVE = 0, 1, 2
"""What a fault breaks."""
NUMBER_NONE = np.iinfo(np.int64).max
COPIES, FAULTS, CLOSINGS = 0, 1, 2
"""In ``ends``: how many copies, faults and closed lists have been noted."""
NODES, FREE = 0, 1
"""In ``counts``: list nodes ever used, and the first of the list of free ones."""


class Copies(NamedTuple):
    """What the sends of a batch lead to, for the walk forward."""

    deliveries: Longs
    """For each send, how often its message is delivered, rightly or wrongly."""
    earliest: Longs
    """For each send, the row of the first of these deliveries."""
    start: Longs
    """For each send, where its delivered copies begin in ``target`` and ``limit``."""
    stop: Longs
    """For each send, where they end."""
    target: Ints
    """The target of a copy."""
    limit: Longs
    """The row at which its target delivered it."""


class Faults(NamedTuple):
    """Deliveries that should not have been, and copies that were never delivered."""

    kind: Longs
    """ONCE, GENUINE or LIVE."""
    process: Longs
    """Where it shows, as a dense number."""
    source: Longs
    """The source of the message, as a dense number."""
    number: Longs
    """The number of the message."""
    row: Longs
    """The delivery, or the send of what was not delivered."""


class _Lists(NamedTuple):
    """A list of deliveries for each message in flight, earliest first."""

    head: Longs
    """By message, the first node, or NONE or CLOSED."""
    process: Longs
    """By node, where it was delivered."""
    row: Longs
    """By node, the row of the delivery."""
    following: Longs
    """By node, the next one."""
    counts: Longs


class _Marks(NamedTuple):
    """Scratch, by process: which row last had it as a target, and in a delivery."""

    wanted: Longs
    got: Longs
    lowest: Longs
    """The lowest number that it has sent so far."""


class Matching:
    """Matches deliveries to sends; call :meth:`match` on every batch, the last first.

    Then :meth:`invented` tells what is left, and :attr:`open` names those messages.
    """

    open: Slots
    """The messages whose deliveries have been met but not yet their sends."""
    messages: int
    """How many sends there were."""
    deliveries: int
    """How many deliveries there were."""
    numbers_rise: bool
    """The numbers of each source rise from send to send, so that none is sent twice."""
    reach_min: int | None
    """The fewest processes, its source aside, that some broadcast was delivered at."""

    def __init__(self) -> None:
        """Start at the end of a run."""
        self.open = Slots()
        self.messages = 0
        self.deliveries = 0
        self.numbers_rise = True
        self.reach_min = None
        self._lists = _Lists(
            head=np.empty(0, np.int64),
            process=np.empty(0, np.int64),
            row=np.empty(0, np.int64),
            following=np.empty(0, np.int64),
            counts=np.array([0, NONE]),
        )
        self._marks = _Marks(*(np.empty(0, np.int64) for _ in range(3)))

    def match(self, rows: Rows, processes: int) -> tuple[Copies, Faults]:
        """Go through a batch, its last row first.

        Args:
            rows: The batch, with targets.
            processes: All its processes are below this number.

        Raises:
            Disordered: A delivery stands before its send.
        """
        got, sent = np.flatnonzero(~rows.is_send), np.flatnonzero(rows.is_send)
        source = rows.source.astype(np.int64)
        slot = np.empty(len(source), np.int32)
        slot[got] = self.open.add(source[got], rows.number[got])
        slot[sent] = self.open.find(source[sent], rows.number[sent])
        self._make_room(processes, len(got))
        sums = np.array([1, NUMBER_NONE])
        copies, faults, closed = _match(rows, slot, self._lists, self._marks, sums)
        if sums[0] < 0:
            raise Disordered
        self._lists.head[closed] = NONE
        self.open.remove(closed)
        self.numbers_rise &= bool(sums[0])
        if sums[1] != NUMBER_NONE:
            known = sums[1] if self.reach_min is None else min(sums[1], self.reach_min)
            self.reach_min = int(known)
        self.messages += len(sent)
        self.deliveries += len(got)
        return copies, faults

    def invented(self) -> Faults:
        """Return the deliveries of messages that were not met, once all rows were."""
        process, row, slot = _leftover(self._lists)
        order = np.argsort(row)
        return Faults(
            kind=np.full(len(row), GENUINE, np.int64),
            process=process[order],
            source=self.open.first[slot[order]],
            number=self.open.second[slot[order]],
            row=row[order],
        )

    def _make_room(self, processes: int, deliveries: int) -> None:
        head, process, row, following, counts = self._lists
        nodes = int(counts[NODES]) + deliveries
        self._lists = _Lists(
            head=grown(head, len(self.open), NONE),
            process=grown(process, nodes, NONE),
            row=grown(row, nodes, NONE),
            following=grown(following, nodes, NONE),
            counts=counts,
        )
        self._marks = _Marks(
            wanted=grown(self._marks.wanted, processes, NONE),
            got=grown(self._marks.got, processes, NONE),
            lowest=grown(self._marks.lowest, processes, NUMBER_NONE),
        )


@compiled
def _match(
    rows: Rows, slot: Ints, lists: _Lists, marks: _Marks, sums: Longs
) -> tuple[Copies, Faults, Ints]:
    """Go through a batch backward, and return also the slots whose sends were met.

    Set sums[0] to -1 on disorder, to 0 on numbers that do not rise, and sums[1] to the
    least reach of a broadcast.
    """
    send = rows.is_broadcast.size
    nodes_max = lists.row.size
    counted = np.zeros((4, send), np.int64)
    copies = Copies(
        counted[0], counted[1], counted[2], counted[3],
        np.empty(nodes_max, np.int32), np.empty(nodes_max, np.int64),
    )  # fmt: skip
    faults = np.empty((5, nodes_max + rows.target.size), np.int64)
    closed = np.empty(send, np.int32)
    ends = np.zeros(3, np.int64)
    for i in range(rows.row.size - 1, -1, -1):
        message = slot[i]
        if not rows.is_send[i]:
            if lists.head[message] == CLOSED:
                sums[0] = -1
                break
            _push(lists, message, rows.process[i], rows.row[i])
            continue
        send -= 1
        source = rows.source[i]
        if rows.number[i] >= marks.lowest[source]:
            sums[0] = 0
        marks.lowest[source] = rows.number[i]
        if message != NONE and lists.head[message] != CLOSED:
            closed[ends[CLOSINGS]] = message
            ends[CLOSINGS] += 1
        copies.start[send] = ends[COPIES]
        before = ends[FAULTS]
        reach = _close(rows, i, send, message, lists, marks, copies, faults, ends)
        copies.stop[send] = ends[COPIES]
        faults[2, before : ends[FAULTS]] = source
        faults[3, before : ends[FAULTS]] = rows.number[i]
        if rows.is_broadcast[send]:
            sums[1] = min(sums[1], reach)
    target = copies.target[: ends[COPIES]].copy()
    limit = copies.limit[: ends[COPIES]].copy()
    found = faults[:, : ends[FAULTS]].copy()
    return (
        Copies(counted[0], counted[1], counted[2], counted[3], target, limit),
        Faults(found[0], found[1], found[2], found[3], found[4]),
        closed[: ends[CLOSINGS]].copy(),
    )


@compiled
def _push(lists: _Lists, message: int, process: int, row: int) -> None:
    node = lists.counts[FREE]
    if node == NONE:
        node = lists.counts[NODES]
        lists.counts[NODES] += 1
    else:
        lists.counts[FREE] = lists.following[node]
    lists.process[node] = process
    lists.row[node] = row
    lists.following[node] = lists.head[message]
    lists.head[message] = node


@compiled
def _close(
    rows: Rows,
    i: int,
    send: int,
    message: int,
    lists: _Lists,
    marks: _Marks,
    copies: Copies,
    faults: Longs,
    ends: Longs,
) -> int:
    """Judge the deliveries of one message, and return how many others it reached."""
    now = rows.row[i]  # Marks what belongs to this send, since no other has this row.
    is_broadcast = rows.is_broadcast[send]
    targets = rows.target[rows.target_start[send] : rows.target_start[send + 1]]
    for target in targets:
        marks.wanted[target] = now
    reach = 0
    node = NONE
    if message != NONE and lists.head[message] != CLOSED:
        node = lists.head[message]
        lists.head[message] = CLOSED
    if node != NONE:
        copies.earliest[send] = lists.row[node]
    while node != NONE:
        copies.deliveries[send] += 1
        process = lists.process[node]
        fault = NONE
        if not is_broadcast and marks.wanted[process] != now:
            fault = GENUINE
        elif marks.got[process] == now:
            fault = ONCE
        else:
            marks.got[process] = now
            reach += process != rows.process[i]
            copies.target[ends[COPIES]] = process
            copies.limit[ends[COPIES]] = lists.row[node]
            ends[COPIES] += 1
        if fault != NONE:
            _report(faults, ends, fault, process, lists.row[node])
        following = lists.following[node]
        lists.following[node] = lists.counts[FREE]
        lists.counts[FREE] = node
        node = following
    for target in targets:
        if marks.got[target] != now:
            marks.got[target] = now  # A target that is named twice has one copy.
            _report(faults, ends, LIVE, target, now)
    return reach


@compiled
def _report(faults: Longs, ends: Longs, kind: int, process: int, row: int) -> None:
    at = ends[FAULTS]
    faults[0, at] = kind
    faults[1, at] = process
    faults[4, at] = row
    ends[FAULTS] += 1


@compiled
def _leftover(lists: _Lists) -> tuple[Longs, Longs, Longs]:
    """Return the deliveries still in lists: process, row, and slot of the message."""
    left = np.empty((3, lists.row.size), np.int64)
    count = 0
    for message in range(lists.head.size):
        node = lists.head[message]
        while node >= 0:
            left[0, count] = lists.process[node]
            left[1, count] = lists.row[node]
            left[2, count] = message
            count += 1
            node = lists.following[node]
    found = left[:, :count].copy()
    return found[0], found[1], found[2]
