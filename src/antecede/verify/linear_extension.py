"""Put the rows of a trace in a linear extension of happened-before.

For traces whose rows do not stand in one: recorded live by many processes, foreign, or
shuffled. What is used is what happened-before is made of, and nothing else: the order of
each process's own history (``seq``), and that a message is sent before it is delivered. Of
the many extensions, one is chosen that follows ``time`` as far as it can, for no other
reason than that few messages are then in flight at once; a wrong clock makes the walk
slower, never wrong.

The sends and deliveries of the run are held in memory, some 60 bytes each.
"""

import heapq
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.errors import ConfigError
from antecede.trace.reader import BATCH_ROWS_MAX, Trace
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slots import Ints, Longs, Slots
from antecede.verify.kernels.stream import (
    MATCHED,
    Bools,
    Rows,
    dense,
    message_rows,
    writable,
)
from antecede.verify.oracle import MessageId

__all__ = ["OrderedStream", "extend", "ordered_stream"]

NONE = -1


class OrderedStream:
    """A run in memory, in a linear extension; a row's number is its place there."""

    processes: Slots
    gaps: int
    members: int

    def __init__(self, rows: Rows, processes: Slots, *, gaps: int, members: int) -> None:
        """Hold the rows, which must stand in a linear extension."""
        self._rows = rows
        self._send_count = np.concatenate([[0], np.cumsum(rows.is_send)])
        self.processes = processes
        self.gaps = gaps
        self.members = members

    def forward(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        """Yield the rows from the start; skip what lies outside."""
        for start in self._starts():
            if start + BATCH_ROWS_MAX > first and (last is None or start <= last):
                yield self._cut(start)

    def backward(self) -> Iterator[Rows]:
        """Yield the same batches from the end."""
        for start in reversed(self._starts()):
            yield self._cut(start)

    def _starts(self) -> range:
        return range(0, len(self._rows.row), BATCH_ROWS_MAX)

    def _cut(self, start: int) -> Rows:
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
        )


def ordered_stream(trace: Trace) -> OrderedStream:
    """Read a whole trace and put it in a linear extension.

    Raise ConfigError if there is none: a message is delivered, by the histories, before it
    can have been sent.
    """
    processes = Slots()
    history, rows, sort_keys = _load(trace, processes)
    by_history = np.lexsort((sort_keys[0], rows.process))
    messages = Slots()
    slot = messages.add(rows.source.astype(np.int64), rows.number)
    is_sent = np.zeros(len(messages), np.bool_)
    is_sent[slot[rows.is_send]] = True
    bounds = np.searchsorted(rows.process[by_history], np.arange(len(processes) + 1))
    order, place = extend(bounds, by_history, rows.is_send, slot, is_sent, sort_keys[1])
    if len(order) < len(rows.row):
        stuck = int(np.flatnonzero(place < bounds[1:])[0])
        row = by_history[place[stuck]]
        message = MessageId(int(processes.first[rows.source[row]]), int(rows.number[row]))
        raise ConfigError(
            f"{trace.path}: process {processes.first[stuck]} delivered {message} before it"
            " can have been sent"
        )
    gaps, members = _histories(*history)
    return OrderedStream(_reorder(rows, order), processes, gaps=gaps, members=members)


def _load(
    trace: Trace, processes: Slots
) -> tuple[tuple[Ints, Longs], Rows, tuple[Longs, NDArray[np.float64]]]:
    """Return process and seq of all rows, then the messages' rows, their seq and time."""
    parts: list[Rows] = []
    at, seqs, times = [], [], []
    for numbered in trace.numbered_batches((*MATCHED, "time")):
        parts.append(message_rows(numbered, processes, trace.path))
        at.append(dense(numbered.batch.column("process"), processes))
        seqs.append(numbered.batch.column("seq").to_numpy())
        times.append(
            numbered.batch.column("time").to_numpy()[parts[-1].row - numbered.first]
        )
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
    )
    return (np.concatenate(at), seq), rows, (seq[rows.row], np.concatenate(times))


def _histories(process: Ints, seq: Longs) -> tuple[int, int]:
    """Count the gaps in all histories, and the processes that have one."""
    order = np.lexsort((seq, process))
    process, seq = process[order], seq[order]
    is_first = np.ones(len(seq), np.bool_)
    is_first[1:] = process[1:] != process[:-1]
    before = np.where(is_first, -1, np.concatenate([[-1], seq[:-1]]))
    return int(np.count_nonzero(seq > before + 1)), int(np.count_nonzero(is_first))


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
        target_start=writable(lists.offsets),
        target=np.array(lists.values.to_numpy()),
        is_broadcast=rows.is_broadcast[sends.to_numpy()],
    )


@compiled
def extend(
    bounds: Longs,
    by_history: Longs,
    is_send: Bools,
    slot: Ints,
    is_sent: Bools,
    time: NDArray[np.float64],
) -> tuple[Longs, Longs]:
    """Take, again and again, the earliest next event of a process that is not waiting.

    Return the order, and how far each history came: to its end, unless the process waits
    for ever for the send of what it has delivered.

    Args:
        bounds: For each process and one more, where its history begins in ``by_history``.
        by_history: The events, by process and in the order of its history.
        is_send: By event, whether it is a send, or else waits for one.
        slot: By event, the number of its message.
        is_sent: By message, whether it has a send; else it is not waited for.
        time: By event, when it happened.
    """
    place = bounds[:-1].copy()
    order = np.empty(by_history.size, np.int64)
    taken = 0
    # A process waits for one message; those that wait for the same one form a list.
    waits_first = np.full(is_sent.size, NONE, np.int64)
    waits_next = np.full(place.size, NONE, np.int64)
    is_walked = ~is_sent  # What is never sent is not waited for.
    ready = [(0.0, 0) for _ in range(0)]
    for p in range(place.size):
        if place[p] < bounds[p + 1]:
            heapq.heappush(ready, (time[by_history[place[p]]], p))
    while len(ready) > 0:
        _, p = heapq.heappop(ready)
        event = by_history[place[p]]
        message = slot[event]
        if not is_send[event] and not is_walked[message]:
            waits_next[p] = waits_first[message]
            waits_first[message] = p
            continue
        order[taken] = event
        taken += 1
        place[p] += 1
        if place[p] < bounds[p + 1]:
            heapq.heappush(ready, (time[by_history[place[p]]], p))
        if is_send[event]:
            is_walked[message] = True
            waiting = waits_first[message]
            waits_first[message] = NONE
            while waiting != NONE:
                heapq.heappush(ready, (time[by_history[place[waiting]]], waiting))
                waiting = waits_next[waiting]
    return order[:taken], place
