"""Order the events that were inferred from records, and emit them for verification.

The records of a message are in one group, so its events are inferred together, and may be
*emitted* when no earlier event of their process can come any more. The *limit* of a
process is the earliest time at which it can have an event of a group that is still open.
Each event of a closed group arrived at least one watermark ago, so an event before the
limit is emitted: an earlier one that comes after that is *late*, and its message is
dropped. An event that has waited for :data:`LIFETIME` watermarks is emitted in any case.

Events are emitted in a linear extension of happened-before: a delivery waits for its send
to be emitted. So no part of a cycle of happened-before is ever emitted, and the
messages in a cycle are dropped as in a table. So are the messages of events whose order in
their process the timestamps do not determine; an emitted event keeps its place.

Each delivery of a dropped message is unknown.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from antecede.ingest.event_table import DELIVER, SEND
from antecede.ingest.inference.cycles import messages_in_cycles
from antecede.ingest.inference.ordering import ambiguous_events
from antecede.ingest.inference.spans import COARSE_BY_CHANCE_MAX
from antecede.pipeline.records.bucket_events import (
    EVENTS,
    NS_PER_MS,
    TEXT_SCHEMAS,
    infer_bucket,
)
from antecede.pipeline.verify.event_rows import ProcessNames
from antecede.pipeline.verify.open_records import LIFETIME, NEVER_NS
from antecede.pipeline.verify.record_rows import to_records
from antecede.trace.event import Kind
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import Bools
from antecede.verify.linear_extension import find_linear_extension

__all__ = ["WAITING", "EmittedEvents", "WaitingEvents"]

NS = 1e9
TIE_BITS = 4
"""The lower bits of the number of a message, for sends of a process at one time."""
DAY_NS = 86_400_000_000_000
KINDS = pa.array([Kind.SEND.value, Kind.DELIVER.value])
RECORD = {"name": "message", "trace": "trace", "span": "span"}
"""By column of the event of a send, that of the record."""
WAITING: pa.Schema = pa.schema(
    [
        *EVENTS,
        # The number of the inference: the events of one are in the right order.
        ("bucket", pa.int64()),
        # The time at the inference.
        ("stamp", pa.float64()),
        # Whether the message is the reply of a call.
        ("is_reply", pa.bool_()),
        *((name, pa.string()) for name in RECORD),
    ]
)
"""The events that wait; processes have the numbers of the run."""


@dataclass(slots=True, kw_only=True)
class EmittedEvents:
    """The events that are emitted together, and what is known to be missing."""

    events: pa.RecordBatch | None = None
    """The events, in a linear extension, with the columns of a trace; None without any."""
    records: pa.Table | None = None
    """The ``source``, ``number``, ``name``, ``trace`` and ``span`` of the messages sent."""
    unknown: int = 0
    """The number of deliveries that are not known."""
    late: int = 0
    """The number of events that came too late."""
    lost: set[int] = field(default_factory=set)
    """The processes with a late event."""


class WaitingEvents:
    """The events of a run that are inferred and not emitted."""

    table: pa.Table
    """The events, with the schema :data:`WAITING`."""
    buckets: int
    """The number of inferences so far."""
    zero: int | None
    """A time before all events, in nanoseconds; None before the first event."""
    frontier: Longs
    """By process, a time before which all events are emitted or late."""
    next_seq: Longs
    """By process, the number of events that were emitted."""
    counts: Longs
    """By process, the numbers of its events, and of those at a whole millisecond."""

    def __init__(self, kind: str, delay: float) -> None:
        """Start without events; see :class:`OpenRecords` for the arguments."""
        self.kind, self.delay = kind, delay
        self.table = WAITING.empty_table()
        self.buckets, self.zero = 0, None
        self.frontier = np.empty(0, np.int64)
        self.next_seq = np.empty(0, np.int64)
        self.counts = np.empty((0, 2), np.int64)

    def infer(
        self, records: pa.Table, names: ProcessNames, now: float, emitted: EmittedEvents
    ) -> None:
        """Infer the events of closed groups, and drop those that are late."""
        if not records.num_rows:
            return
        # An event has the number of its record among the sorted records.
        records, _ = to_records(records.drop_columns(["stamp"]), TEXT_SCHEMAS[self.kind])
        events, own_names, summary = infer_bucket(records, self.kind, is_hashed=False)
        number = names.encode(pa.array(own_names, pa.string()))
        self._grow(len(names.numbers))
        for name, counts in summary.processes.items():
            self.counts[names.numbers[name]] += counts
        emitted.unknown += summary.missing_deliveries
        if not events.num_rows:
            return
        if self.zero is None:
            first = int(events["time"].to_numpy().min())
            self.zero = (first // DAY_NS - 1) * DAY_NS
        lists = events["targets"].combine_chunks()
        columns = {name: events[name].combine_chunks() for name in EVENTS.names}
        columns["process"] = number.take(columns["process"]).cast(pa.int32())
        columns["source"] = number.take(columns["source"]).cast(pa.int32())
        columns["targets"] = pa.ListArray.from_arrays(
            lists.offsets,
            number.take(lists.values).cast(pa.int32()),
            mask=lists.is_null() if lists.null_count else None,
        )
        columns["bucket"] = pa.array(np.full(events.num_rows, self.buckets))
        columns["stamp"] = pa.array(np.full(events.num_rows, now))
        columns["is_reply"] = pa.array(_find_replies(events, self.kind))
        columns |= _record_columns(records, columns, self.kind)
        found = pa.table([columns[name] for name in WAITING.names], schema=WAITING)
        self.buckets += 1
        self._add(found, emitted)

    def _add(self, found: pa.Table, emitted: EmittedEvents) -> None:
        process, time = found["process"].to_numpy(), found["time"].to_numpy()
        is_late = time < self.frontier[process]
        emitted.late += int(np.count_nonzero(is_late))
        emitted.lost.update(process[is_late].tolist())
        has_tie = found["tie"].to_numpy() >= 1 << TIE_BITS
        self.table = pa.concat_tables([self.table, found]).combine_chunks()
        none = np.zeros(self.table.num_rows - len(time), np.bool_)
        emitted.unknown += self._drop(np.append(none, is_late | has_tie))

    def emit(self, limit: Longs, now: float) -> EmittedEvents:
        """Emit the events before the limits of their processes.

        Args:
            limit: By process, the limit in nanoseconds.
            now: The time.
        """
        emitted = EmittedEvents()
        if not self.table.num_rows:
            return emitted
        self._grow(len(limit))
        bucket = self.table["bucket"].to_numpy()
        process, time = self._columns("process", "time")
        share = self.counts[:, 1] / np.maximum(self.counts[:, 0], 1)
        is_mixed = (share > COARSE_BY_CHANCE_MAX) & (share < 1) & (self.kind == "spans")

        def is_ordered(one: int, other: int) -> bool:
            return bool(bucket[one] == bucket[other])

        resolution = self._resolution(is_mixed)
        ambiguous = ambiguous_events(process, time, resolution, is_ordered)
        emitted.unknown += self._drop(ambiguous)
        emitted.unknown += self._drop_cycles()
        chosen = self._choose(limit, is_mixed, now - LIFETIME * self.delay)
        if len(chosen):
            self._take(chosen, is_mixed, emitted)
        return emitted

    def _columns(self, *names: str) -> list[np.ndarray]:
        return [self.table[name].to_numpy() for name in names]

    def _slots(self) -> Longs:
        """Return the index of the message of each event."""
        bucket, message = self._columns("bucket", "message")
        _, slot = np.unique((bucket << 32) | message, return_inverse=True)
        return np.asarray(slot, np.int64)

    def _drop(self, is_dropped: Bools) -> int:
        """Remove the messages of some events; return the number of their deliveries."""
        if not np.any(is_dropped):
            return 0
        slot = self._slots()
        is_gone = np.isin(slot, slot[is_dropped])
        (is_send,) = self._columns("is_send")
        self.table = self.table.filter(pa.array(~is_gone)).combine_chunks()
        return int(np.count_nonzero(is_gone & ~is_send))

    def _by_history(self) -> Longs:
        process, time, position = self._columns("process", "time", "position")
        return np.lexsort((position, time, process))

    def _order(self, by_history: Longs) -> Longs:
        """Return some events in a linear extension, without those that wait for others."""
        process, time, is_send = self._columns("process", "time", "is_send")
        slot = self._slots()
        bounds = np.searchsorted(process[by_history], np.arange(len(self.frontier) + 1))
        is_sent = np.zeros(int(slot.max(initial=-1)) + 1, np.bool_)
        is_sent[slot[is_send]] = True
        hint = (time - time.min(initial=NEVER_NS)).astype(np.float64)
        order, _ = find_linear_extension(
            bounds, by_history, is_send, slot.astype(np.int32), is_sent, hint
        )
        return order

    def _drop_cycles(self) -> int:
        by_history = self._by_history()
        if len(self._order(by_history)) == len(by_history):
            return 0
        process, is_send, is_reply = self._columns("process", "is_send", "is_reply")
        slot = self._slots()
        kind = np.where(is_send, SEND, DELIVER).astype(np.int32)[by_history]
        is_doubtful = np.zeros(int(slot.max()) + 1, np.bool_)
        is_doubtful[slot[is_reply]] = True
        found = messages_in_cycles(process[by_history], kind, slot[by_history], is_doubtful)
        return self._drop(np.isin(slot, found))

    def _choose(self, limit: Longs, is_mixed: np.ndarray, before: float) -> Longs:
        """Return the events to emit, in a linear extension."""
        by_history = self._by_history()
        process, time, stamp = self._columns("process", "time", "stamp")
        end = time + self._resolution(is_mixed)
        overdue = stamp < before
        forced = np.full(len(self.frontier), -NEVER_NS, np.int64)
        np.maximum.at(forced, process[overdue], end[overdue])
        waits = (end > np.maximum(limit, forced)[process])[by_history]
        # An event waits for the earlier ones of its process.
        before_it = np.concatenate(([0], np.cumsum(waits)))
        first = np.searchsorted(process[by_history], process[by_history])
        chosen = by_history[before_it[1:] == before_it[first]]
        return self._order(chosen)

    def _resolution(self, is_mixed: np.ndarray) -> Longs:
        """Return the length of the interval that the time of each event stands for."""
        process, time = self._columns("process", "time")
        is_coarse = is_mixed[process] & (time % NS_PER_MS == 0)
        return np.where(is_coarse, NS_PER_MS, 1)

    def _take(self, chosen: Longs, is_mixed: np.ndarray, emitted: EmittedEvents) -> None:
        process, time = self._columns("process", "time")
        end = (time + self._resolution(is_mixed))[chosen]
        np.maximum.at(self.frontier, process[chosen], end)
        rows = self.table.take(pa.array(chosen)).combine_chunks()
        is_left = np.ones(len(time), np.bool_)
        is_left[chosen] = False
        self.table = self.table.filter(pa.array(is_left)).combine_chunks()
        emitted.events, emitted.records = self._to_trace(rows)

    def _to_trace(self, rows: pa.Table) -> tuple[pa.RecordBatch, pa.Table]:
        """Return emitted events with the columns of a trace, and the records of sends."""
        process, is_send = rows["process"].to_numpy(), rows["is_send"].to_numpy()
        order = np.argsort(process, kind="stable")
        first = np.searchsorted(process[order], process[order])
        seq = np.empty(len(process), np.int64)
        seq[order] = np.arange(len(process)) - first
        seq += self.next_seq[process]
        self.next_seq += np.bincount(process, minlength=len(self.next_seq))
        sent = rows["sent"].to_numpy() - self.zero
        number = pa.array((sent << TIE_BITS) + rows["tie"].to_numpy() + 1)
        kinds = pa.array(np.where(is_send, 0, 1).astype(np.int8))
        columns = {
            "process": rows["process"].combine_chunks().cast(pa.int64()),
            "seq": pa.array(seq),
            "time": pa.array(rows["time"].to_numpy() / NS),
            "kind": pa.DictionaryArray.from_arrays(kinds, KINDS),
            "source": rows["source"].combine_chunks().cast(pa.int64()),
            "number": number,
            "targets": rows["targets"].combine_chunks().cast(pa.list_(pa.int64())),
        }
        records = rows.select(["source", *RECORD]).append_column("number", number)
        events = pa.record_batch(list(columns.values()), names=list(columns))
        return events, records.filter(pa.array(is_send)).combine_chunks()

    def _grow(self, processes: int) -> None:
        new = processes - len(self.frontier)
        if new > 0:
            self.frontier = np.append(self.frontier, np.full(new, -NEVER_NS))
            self.next_seq = np.append(self.next_seq, np.zeros(new, np.int64))
            none = np.zeros((new, 2), np.int64)
            self.counts = np.concatenate((self.counts, none))


def _find_replies(events: pa.Table, kind: str) -> Bools:
    """Return which events of an inference send or deliver a reply.

    A called span delivers the request and then sends the reply; a call span does the
    opposite. So a message is a reply if its record has a delivery before the send.
    """
    if kind != "spans":
        return np.zeros(events.num_rows, np.bool_)
    line, position, message = (
        events[name].to_numpy() for name in ("record", "position", "message")
    )
    is_send = events["is_send"].to_numpy()
    delivered = np.full(int(line.max()) + 1, len(line) + int(position.max()), np.int64)
    delivered[line[~is_send]] = position[~is_send]
    replies = message[is_send & (position > delivered[line])]
    return np.isin(message, replies)


def _record_columns(
    records: pa.Table, events: dict[str, pa.Array], kind: str
) -> dict[str, pa.Array]:
    """Return the name, trace and span of the record of each send; null for deliveries."""
    line = events["record"].to_numpy() - 1
    line = pa.array(line, mask=~events["is_send"].to_numpy(False))
    return {
        ours: records[theirs].combine_chunks().take(line)
        if theirs in records.schema.names
        else pa.nulls(len(line), pa.string())
        for ours, theirs in RECORD.items()
    }
