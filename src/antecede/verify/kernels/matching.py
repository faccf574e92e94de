"""Backward pass: find the deliveries of every copy.

Going backward, the pass meets the deliveries of a message first and its send last. It keeps
a list of the deliveries, and drops the list at the send: memory is proportional to the
messages in flight, as in the forward pass. At the send, everything about the message alone
is known: its surplus deliveries, its deliveries at processes that are not targets, and the
copies that were never delivered. The forward pass gets the facts that it needs in advance:
the number of deliveries of the message, the row of the first, and the row of each copy's
delivery.

A message that has deliveries left at the start of the run was never sent, or is sent after
a delivery; in the second case the forward pass meets the send.
"""

from typing import NamedTuple

import numpy as np

from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.kernels.stream import NotLinearExtensionError, Rows, grow

__all__ = ["Copies", "DeliveryErrors", "DeliveryMatcher"]

NONE = -1
CLOSED = -2
"""The head of the list of a message whose send has been met."""
NO_DUPLICATION, NO_CREATION, LIVENESS = 0, 1, 2
"""Kinds of delivery errors: the property that is violated."""
NUMBER_NONE = np.iinfo(np.int64).max
COPIES, ERRORS, CLOSINGS = 0, 1, 2
"""Indexes of ``ends``: the numbers of copies, errors and closed lists so far."""
NODES, FREE = 0, 1
"""Indexes of ``counts``: the number of list nodes ever used, and the first free node."""


class Copies(NamedTuple):
    """The delivered copies of the messages sent in a batch, for the forward pass."""

    deliveries: Longs
    """For each send, the number of deliveries of its message, errors included."""
    earliest: Longs
    """For each send, the row of the first of these deliveries."""
    start: Longs
    """For each send, the index of its first delivered copy in ``target`` and ``limit``."""
    stop: Longs
    """For each send, the index after its last delivered copy."""
    target: Ints
    """The target of a copy."""
    limit: Longs
    """The row at which its target delivered it."""


class DeliveryErrors(NamedTuple):
    """Surplus or unfounded deliveries, and copies that were never delivered."""

    kind: Longs
    """The kind: NO_DUPLICATION, NO_CREATION or LIVENESS."""
    process: Longs
    """The index of the process that delivered, or should have delivered."""
    source: Longs
    """The index of the source of the message."""
    number: Longs
    """The number of the message."""
    row: Longs
    """The row of the delivery, or of the send of a copy that was not delivered."""


class _Lists(NamedTuple):
    """A list of deliveries for each message in flight, earliest first."""

    head: Longs
    """By message, the first node, or NONE or CLOSED."""
    process: Longs
    """By node, the process that delivered the message."""
    row: Longs
    """By node, the row of the delivery."""
    following: Longs
    """By node, the next one."""
    counts: Longs


class _Marks(NamedTuple):
    """Scratch space, by process."""

    target: Longs
    """The row of the last send that had the process as a target."""
    delivered: Longs
    """The row of the last send whose message the process delivered."""
    lowest: Longs
    """The lowest number that the process has sent so far."""


class DeliveryMatcher:
    """Matches deliveries to sends; call :meth:`match` with every batch, the last first.

    Afterwards :attr:`unmatched` holds the messages that were delivered but not sent, and
    :meth:`unmatched_deliveries` returns their deliveries.
    """

    unmatched: SlotMap
    """The messages whose deliveries have been met, but not their sends."""
    messages: int
    """The number of sends so far."""
    deliveries: int
    """The number of deliveries so far."""
    numbers_increase: bool
    """The numbers of each source increase from send to send, so none is sent twice."""
    broadcast_reach_min: int | None
    """The smallest number of processes, the source aside, that delivered a broadcast."""

    def __init__(self) -> None:
        self.unmatched = SlotMap()
        self.messages = 0
        self.deliveries = 0
        self.numbers_increase = True
        self.broadcast_reach_min = None
        self._lists = _Lists(
            head=np.empty(0, np.int64),
            process=np.empty(0, np.int64),
            row=np.empty(0, np.int64),
            following=np.empty(0, np.int64),
            counts=np.array([0, NONE]),
        )
        self._marks = _Marks(*(np.empty(0, np.int64) for _ in range(3)))

    def match(self, rows: Rows, processes: int) -> tuple[Copies, DeliveryErrors]:
        """Match the deliveries of a batch.

        Args:
            rows: The batch, with targets.
            processes: The number of processes; all indexes are below it.

        Raises:
            NotLinearExtensionError: A delivery precedes its send.
        """
        delivered, sent = np.flatnonzero(~rows.is_send), np.flatnonzero(rows.is_send)
        source = rows.source.astype(np.int64)
        slot = np.empty(len(source), np.int32)
        slot[delivered] = self.unmatched.add(source[delivered], rows.number[delivered])
        slot[sent] = self.unmatched.find(source[sent], rows.number[sent])
        self._reserve(processes, len(delivered))
        sums = np.array([1, NUMBER_NONE])
        copies, errors, closed = _match(rows, slot, self._lists, self._marks, sums)
        if sums[0] < 0:
            raise NotLinearExtensionError
        self._lists.head[closed] = NONE
        self.unmatched.remove(closed)
        self.numbers_increase &= bool(sums[0])
        if sums[1] != NUMBER_NONE:
            reach = int(sums[1])
            if self.broadcast_reach_min is None or reach < self.broadcast_reach_min:
                self.broadcast_reach_min = reach
        self.messages += len(sent)
        self.deliveries += len(delivered)
        return copies, errors

    def unmatched_deliveries(self) -> DeliveryErrors:
        """Return the deliveries without a send, after all batches."""
        process, row, slot = _unmatched(self._lists)
        order = np.argsort(row)
        return DeliveryErrors(
            kind=np.full(len(row), NO_CREATION, np.int64),
            process=process[order],
            source=self.unmatched.first[slot[order]],
            number=self.unmatched.second[slot[order]],
            row=row[order],
        )

    def _reserve(self, processes: int, deliveries: int) -> None:
        head, process, row, following, counts = self._lists
        nodes = int(counts[NODES]) + deliveries
        self._lists = _Lists(
            head=grow(head, len(self.unmatched), NONE),
            process=grow(process, nodes, NONE),
            row=grow(row, nodes, NONE),
            following=grow(following, nodes, NONE),
            counts=counts,
        )
        self._marks = _Marks(
            target=grow(self._marks.target, processes, NONE),
            delivered=grow(self._marks.delivered, processes, NONE),
            lowest=grow(self._marks.lowest, processes, NUMBER_NONE),
        )


@compiled
def _match(
    rows: Rows, slot: Ints, lists: _Lists, marks: _Marks, sums: Longs
) -> tuple[Copies, DeliveryErrors, Ints]:
    """Process a batch backward; return also the slots of messages whose sends were met.

    Set sums[0] to -1 if a delivery precedes its send, to 0 if numbers do not increase, and
    sums[1] to the smallest reach of a broadcast.
    """
    send = rows.is_broadcast.size
    nodes_max = lists.row.size
    counted = np.zeros((4, send), np.int64)
    copies = Copies(
        counted[0], counted[1], counted[2], counted[3],
        np.empty(nodes_max, np.int32), np.empty(nodes_max, np.int64),
    )  # fmt: skip
    errors = np.empty((5, nodes_max + rows.target.size), np.int64)
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
        before = ends[ERRORS]
        reach = _close(rows, i, send, message, lists, marks, copies, errors, ends)
        copies.stop[send] = ends[COPIES]
        errors[2, before : ends[ERRORS]] = source
        errors[3, before : ends[ERRORS]] = rows.number[i]
        if rows.is_broadcast[send]:
            sums[1] = min(sums[1], reach)
    target = copies.target[: ends[COPIES]].copy()
    limit = copies.limit[: ends[COPIES]].copy()
    found = errors[:, : ends[ERRORS]].copy()
    return (
        Copies(counted[0], counted[1], counted[2], counted[3], target, limit),
        DeliveryErrors(found[0], found[1], found[2], found[3], found[4]),
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
    errors: Longs,
    ends: Longs,
) -> int:
    """Check the deliveries of one message; return the number of other processes reached."""
    now = rows.row[i]  # Marks the entries of this send; no other send has this row.
    is_broadcast = rows.is_broadcast[send]
    targets = rows.target[rows.target_start[send] : rows.target_start[send + 1]]
    for target in targets:
        marks.target[target] = now
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
        error = NONE
        if not is_broadcast and marks.target[process] != now:
            error = NO_CREATION
        elif marks.delivered[process] == now:
            error = NO_DUPLICATION
        else:
            marks.delivered[process] = now
            reach += process != rows.process[i]
            copies.target[ends[COPIES]] = process
            copies.limit[ends[COPIES]] = lists.row[node]
            ends[COPIES] += 1
        if error != NONE:
            _report(errors, ends, error, process, lists.row[node])
        following = lists.following[node]
        lists.following[node] = lists.counts[FREE]
        lists.counts[FREE] = node
        node = following
    for target in targets:
        if marks.delivered[target] != now:
            marks.delivered[target] = now  # A target that is listed twice has one copy.
            _report(errors, ends, LIVENESS, target, now)
    return reach


@compiled
def _report(errors: Longs, ends: Longs, kind: int, process: int, row: int) -> None:
    at = ends[ERRORS]
    errors[0, at] = kind
    errors[1, at] = process
    errors[4, at] = row
    ends[ERRORS] += 1


@compiled
def _unmatched(lists: _Lists) -> tuple[Longs, Longs, Longs]:
    """Return the deliveries left in lists: process, row, and slot of the message."""
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
