"""Sort the rows of a trace into a linear extension of happened-before.

This is for traces whose rows are in another order: recorded live by many processes,
foreign, or shuffled. It uses only the two sources of happened-before: the order of each
process's own history (``seq``), and that a message is sent before it is delivered. Among
the possible extensions it chooses one that follows ``time`` as far as possible, because few
messages are then in flight at once; a wrong clock makes the verification slower, never
wrong.

The sends and deliveries of the run are held in memory, about 70 bytes each.
"""

import heapq
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.trace.reader import RecordedRun
from antecede.trace.row_groups import BATCH_ROWS_MAX
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.kernels.stream import (
    MATCHING_COLUMNS,
    Bools,
    Doubles,
    MissingDeliveries,
    Rows,
    count_missing,
    message_rows,
    process_indexes,
    writable_copy,
)
from antecede.verify.oracle import MessageId

__all__ = ["OrderedStream", "find_linear_extension", "ordered_stream"]

NONE = -1


class OrderedStream:
    """A run in memory, in a linear extension; a row number is an index into it."""

    processes: SlotMap
    gaps: int
    late_starts: int
    members: int
    missing: MissingDeliveries

    def __init__(
        self,
        rows: Rows,
        processes: SlotMap,
        *,
        gaps: int,
        late_starts: int,
        members: int,
        missing: MissingDeliveries,
    ) -> None:
        """Take the rows of a run, which must be in a linear extension."""
        self._rows = rows
        self._send_count = np.concatenate([[0], np.cumsum(rows.is_send)])
        self.processes = processes
        self.gaps = gaps
        self.late_starts = late_starts
        self.members = members
        self.missing = missing

    def forward(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        for start in self._starts():
            if start + BATCH_ROWS_MAX > first and (last is None or start <= last):
                yield self._slice(start)

    def backward(self) -> Iterator[Rows]:
        for start in reversed(self._starts()):
            yield self._slice(start)

    def _starts(self) -> range:
        return range(0, len(self._rows.row), BATCH_ROWS_MAX)

    def _slice(self, start: int) -> Rows:
        rows = self._rows
        end = min(start + BATCH_ROWS_MAX, len(rows.row))
        sends = slice(self._send_count[start], self._send_count[end])
        bounds = rows.target_start[sends.start : sends.stop + 1]
        return Rows(
            row=rows.row[start:end],
            is_send=rows.is_send[start:end],
            process=rows.process[start:end],
            source=rows.source[start:end],
            number=rows.number[start:end],
            target_start=bounds - bounds[0],
            target=rows.target[bounds[0] : bounds[-1]],
            is_broadcast=rows.is_broadcast[sends],
            time=rows.time[start:end],
        )


def ordered_stream(trace: RecordedRun) -> OrderedStream:
    """Read a whole trace and sort it into a linear extension.

    Raise TraceError if there is none: by the histories, a message is delivered before it
    can have been sent.
    """
    processes = SlotMap()
    history, rows, seq, missing = _load(trace, processes)
    by_history = np.lexsort((seq, rows.process))
    messages = SlotMap()
    slot = messages.add(rows.source.astype(np.int64), rows.number)
    is_sent = np.zeros(len(messages), np.bool_)
    is_sent[slot[rows.is_send]] = True
    bounds = np.searchsorted(rows.process[by_history], np.arange(len(processes) + 1))
    order, reached = find_linear_extension(
        bounds, by_history, rows.is_send, slot, is_sent, rows.time
    )
    if len(order) < len(rows.row):
        stuck = int(np.flatnonzero(reached < bounds[1:])[0])
        row = by_history[reached[stuck]]
        message = MessageId(int(processes.first[rows.source[row]]), int(rows.number[row]))
        raise TraceError(
            f"{trace.location}: process {processes.first[stuck]} delivered {message} before"
            " it can have been sent"
        )
    gaps, late_starts, members = _count_gaps(*history)
    return OrderedStream(
        _reorder(rows, order),
        processes,
        gaps=gaps,
        late_starts=late_starts,
        members=members,
        missing=missing,
    )


def _load(
    trace: RecordedRun, processes: SlotMap
) -> tuple[tuple[Ints, Longs], Rows, Longs, MissingDeliveries]:
    """Return process and seq of all rows; the sends and deliveries; their seq.

    The last element counts the deliveries that are marked as missing.
    """
    missing = MissingDeliveries()
    parts: list[Rows] = []
    histories, seqs = [], []
    for numbered in trace.numbered_batches((*MATCHING_COLUMNS, "time")):
        parts.append(message_rows(numbered, processes, trace.location))
        missing = missing.plus(count_missing(numbered.batch))
        histories.append(process_indexes(numbered.batch.column("process"), processes))
        seqs.append(numbered.batch.column("seq").to_numpy())
    seq = np.concatenate(seqs)
    counts = np.concatenate([[0], *(np.diff(part.target_start) for part in parts)])
    rows = Rows(
        row=np.concatenate([part.row for part in parts]),
        is_send=np.concatenate([part.is_send for part in parts]),
        process=np.concatenate([part.process for part in parts]),
        source=np.concatenate([part.source for part in parts]),
        number=np.concatenate([part.number for part in parts]),
        target_start=np.cumsum(counts),
        target=np.concatenate([part.target for part in parts]),
        is_broadcast=np.concatenate([part.is_broadcast for part in parts]),
        time=np.concatenate([part.time for part in parts]),
    )
    return (np.concatenate(histories), seq), rows, seq[rows.row], missing


def _count_gaps(process: Ints, seq: Longs) -> tuple[int, int, int]:
    """Return the numbers of gaps in all histories, of late starts, and of histories."""
    order = np.lexsort((seq, process))
    process, seq = process[order], seq[order]
    is_first = np.ones(len(seq), np.bool_)
    is_first[1:] = process[1:] != process[:-1]
    before = np.where(is_first, -1, np.concatenate([[-1], seq[:-1]]))
    return (
        int(np.count_nonzero(seq > before + 1)),
        int(np.count_nonzero(seq[is_first] > 0)),
        int(np.count_nonzero(is_first)),
    )


def _reorder(rows: Rows, order: Longs) -> Rows:
    ordinal = np.cumsum(rows.is_send) - 1
    sends = pa.array(ordinal[order[rows.is_send[order]]])
    lists = pa.LargeListArray.from_arrays(rows.target_start, rows.target).take(sends)
    return Rows(
        row=np.arange(len(order)),
        is_send=rows.is_send[order],
        process=rows.process[order],
        source=rows.source[order],
        number=rows.number[order],
        target_start=writable_copy(lists.offsets),
        target=np.array(lists.values.to_numpy()),
        is_broadcast=rows.is_broadcast[sends.to_numpy()],
        time=rows.time[order],
    )


@compiled
def find_linear_extension(
    bounds: Longs,
    by_history: Longs,
    is_send: Bools,
    slot: Ints,
    is_sent: Bools,
    time: Doubles,
) -> tuple[Longs, Longs]:
    """Return a linear extension, and the position that each history has reached.

    Repeatedly take the event with the earliest time among the next events of all processes
    that are not waiting. A history reaches its end unless its next event waits for a send
    that can never be taken.

    Args:
        bounds: For each process and one more, the start of its history in ``by_history``.
        by_history: The events, by process and in the order of its history.
        is_send: By event, whether it is a send; otherwise it waits for the send.
        slot: By event, the slot of its message.
        is_sent: By message, whether it has a send; otherwise no event waits for it.
        time: By event, its time.
    """
    position = bounds[:-1].copy()
    order = np.empty(by_history.size, np.int64)
    taken = 0
    # A process waits for one message; processes that wait for the same one form a list.
    waiting_first = np.full(is_sent.size, NONE, np.int64)
    waiting_next = np.full(position.size, NONE, np.int64)
    is_taken = ~is_sent  # No event waits for a message that is never sent.
    ready = [(0.0, 0) for _ in range(0)]
    for p in range(position.size):
        if position[p] < bounds[p + 1]:
            heapq.heappush(ready, (time[by_history[position[p]]], p))
    while len(ready) > 0:
        _, p = heapq.heappop(ready)
        event = by_history[position[p]]
        message = slot[event]
        if not is_send[event] and not is_taken[message]:
            waiting_next[p] = waiting_first[message]
            waiting_first[message] = p
            continue
        order[taken] = event
        taken += 1
        position[p] += 1
        if position[p] < bounds[p + 1]:
            heapq.heappush(ready, (time[by_history[position[p]]], p))
        if is_send[event]:
            is_taken[message] = True
            waiting = waiting_first[message]
            waiting_first[message] = NONE
            while waiting != NONE:
                heapq.heappush(ready, (time[by_history[position[waiting]]], waiting))
                waiting = waiting_next[waiting]
    return order[:taken], position
