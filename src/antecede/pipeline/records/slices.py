"""Put the events of all buckets into a linear extension of happened-before, by slices.

Time is divided into *slices*. Let T be the time of an event by the clock of its process,
plus the offset of that clock (:mod:`antecede.pipeline.records.clock_offsets`). The *clock*
of an event is its hybrid logical clock (:mod:`antecede.verify.kernels.hybrid_clock`): its
first part T' is the greatest T of the events that happened before it, or its own T. The
order by clocks is a linear extension, although the recorded clocks are skewed.

One task arranges each slice [a, b): it gets the events with a - r <= T < b + r, where r is
the *reach*, computes their clocks from these events alone, and keeps those with
a <= T' < b. The result is exact if (1) no message has a lead of more than r / 2, and (2) no
task finds an event whose T' - T is more than r / 2:

* No event has T' - T > r / 2. Assume that one has, and let f be the event of its past with
  the greatest T. Follow the path from f to the event. The first event g on it with
  T(f) - T(g) > r / 2 has T(f) - T(g) <= r, by (1), because the times of a process ascend.
  So all events on the path from f to g are in the task of the slice of T(g), which finds
  that T'(g) - T(g) > r / 2. That contradicts (2).
* Let a <= T'(e) < b. The event f with T(f) = T'(e) and the path from it to e have
  T >= T'(e) - r / 2, so they are all in the task. The task therefore finds T'(e), and also
  the second part of the clock, which depends on events with the same T' only.
* A task never computes a T' that is too high, and if T(e) < b <= T'(e), then the path that
  shows it is in the task, too. So no event is kept by two tasks, or by none.

A task also finds the events whose order in their process the timestamps do not determine,
with the rules of :mod:`antecede.ingest.inference.ordering`. Two events of one bucket are
ordered, since the inference of that bucket has dropped the others. The messages of the
events to drop go back to their buckets, and the slices are arranged again without them. The
same happens to messages that form a cycle of happened-before.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from antecede.ingest.event_table import DELIVER, SEND
from antecede.ingest.inference.cycles import messages_in_cycles
from antecede.ingest.inference.ordering import ambiguous_events
from antecede.pipeline.records.bucket_events import EVENTS, NS_PER_MS
from antecede.pipeline.verify.packed_rows import read_blob, write_blob
from antecede.trace.event import Kind
from antecede.verify.kernels.hybrid_clock import hybrid_clocks
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.linear_extension import find_linear_extension

__all__ = [
    "Arranged",
    "SlicePlan",
    "ambiguous_rows",
    "arrange_slice",
    "message_numbers",
    "order_events",
    "read_events",
    "split_bucket",
    "to_blob",
]

NS = 1e9
KINDS = pa.array([Kind.SEND.value, Kind.DELIVER.value])
NAMES_KEY = b"names"
BUCKET_KEY = b"bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """How to divide a run into slices, and what the tasks need to know of it."""

    location: str
    """The text that error messages begin with."""
    names: tuple[str, ...]
    """The names of all processes; the index of a name is the number of the process."""
    offsets: Longs
    """By process, the offset of its clock in nanoseconds."""
    is_mixed: np.ndarray
    """By process, whether its times in whole milliseconds are coarser than the others."""
    bounds: Longs
    """The starts of all slices, without the first; in nanoseconds, with the offsets."""
    reach: int
    """In nanoseconds."""
    zero: int
    """The earliest time by a recorded clock."""
    tie_bits: int
    """The lower bits of the number of a message; the upper ones are its time."""

    @property
    def slices(self) -> int:
        """The number of slices."""
        return len(self.bounds) + 1


def to_blob(events: pa.Table, bucket: int, names: list[str]) -> bytes:
    """Return a table of :data:`EVENTS` as bytes, with the names of its processes."""
    metadata = {NAMES_KEY: json.dumps(names), BUCKET_KEY: str(bucket)}
    return write_blob(events.replace_schema_metadata(metadata))


def read_events(blob: pa.Buffer) -> tuple[pa.Table, int, list[str]]:
    """Return the events of :func:`to_blob`, their bucket, and the names of processes."""
    events = read_blob(blob)
    metadata = events.schema.metadata
    return events, int(metadata[BUCKET_KEY]), json.loads(metadata[NAMES_KEY])


def split_bucket(
    blob: pa.Buffer, dropped: list[pa.Buffer], plan: SlicePlan
) -> Iterator[tuple[int, bytes]]:
    """Yield for each slice its number and the events of a bucket that its task needs.

    Args:
        blob: The events of the bucket.
        dropped: Arrays of messages to leave out, as 32-bit integers.
        plan: The slices.
    """
    events, bucket, names = read_events(blob)
    if dropped:
        messages = np.concatenate([np.frombuffer(each, np.int32) for each in dropped])
        kept = ~np.isin(events["message"].to_numpy(), messages)
        events = events.filter(pa.array(kept)).combine_chunks()
    numbers = {name: number for number, name in enumerate(plan.names)}
    offset = plan.offsets[np.array([numbers[name] for name in names], np.int64)]
    time = events["time"].to_numpy() + offset[events["process"].to_numpy()]
    order = np.argsort(time, kind="stable")
    events, time = events.take(pa.array(order)).combine_chunks(), time[order]
    starts = np.searchsorted(time, plan.bounds - plan.reach)
    ends = np.searchsorted(time, plan.bounds + plan.reach)
    starts = np.concatenate(([0], starts)).tolist()
    ends = np.concatenate((ends, [len(time)])).tolist()
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if start < end:
            part = events.slice(start, end - start)
            yield number, to_blob(part, bucket, names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """The result of the task of a slice."""

    rows: pa.Table | None
    """The events of the slice in a linear extension; None if messages must be dropped."""
    shift: int
    """The greatest T' - T of an event, in nanoseconds."""
    dropped: dict[int, Ints] = field(default_factory=dict)
    """By bucket, the messages to drop."""
    ambiguous: int = 0
    """The number of events whose order is not determined."""
    in_cycle: int = 0
    """The number of messages in a cycle of happened-before."""


def arrange_slice(
    blobs: list[pa.Buffer], number: int, plan: SlicePlan, *, find_ambiguous: bool
) -> Arranged:
    """Arrange the events of a slice.

    Args:
        blobs: What :func:`split_bucket` yielded for the slice, from all buckets.
        number: The number of the slice.
        plan: The slices.
        find_ambiguous: Find events whose order the timestamps do not determine.
    """
    events, bucket = _merge(blobs, plan)
    time = events["time"].to_numpy()
    process = events["process"].to_numpy()
    message = events["message"].to_numpy()
    if find_ambiguous:
        found = ambiguous_rows(process, time, bucket, plan.is_mixed)
        if len(found):
            dropped = _by_bucket(bucket[found], message[found])
            return Arranged(rows=None, shift=0, dropped=dropped, ambiguous=len(found))
    is_send = events["is_send"].to_numpy()
    moved = time + plan.offsets[process]
    keys, slot = np.unique((bucket << 32) | message, return_inverse=True)
    by_history = np.lexsort((events["position"].to_numpy(), moved, process))
    order = order_events(by_history, process, moved, is_send, slot, len(plan.names))
    if len(order) < len(moved):
        kind = np.where(is_send, SEND, DELIVER).astype(np.int32)[by_history]
        is_doubtful = np.zeros(len(keys), np.bool_)
        cyclic = messages_in_cycles(
            process[by_history], kind, slot[by_history], is_doubtful
        )
        dropped = _by_bucket(keys[cyclic] >> 32, keys[cyclic] & 0xFFFFFFFF)
        return Arranged(rows=None, shift=0, dropped=dropped, in_cycle=len(cyclic))
    clock, count = hybrid_clocks(
        order, process, moved, is_send, slot, len(plan.names), max(1, len(keys))
    )
    shift = int((clock - moved).max(initial=0))
    first = None if number == 0 else int(plan.bounds[number - 1])
    end = None if number == len(plan.bounds) else int(plan.bounds[number])
    is_own = np.ones(len(clock), np.bool_)
    if first is not None:
        is_own &= clock >= first
    if end is not None:
        is_own &= clock < end
    own = np.flatnonzero(is_own)
    # The last key orders the events of a process; others with equal clocks are concurrent.
    position = events["position"].to_numpy()
    order = np.lexsort((position[own], time[own], process[own], count[own], clock[own]))
    rows = _rows(events.take(pa.array(own[order])).combine_chunks(), plan)
    return Arranged(rows=rows, shift=shift)


def _by_bucket(bucket: Longs, message: Longs) -> dict[int, Ints]:
    return {
        int(each): np.unique(message[bucket == each]).astype(np.int32)
        for each in np.unique(bucket)
    }


def _merge(blobs: list[pa.Buffer], plan: SlicePlan) -> tuple[pa.Table, Longs]:
    """Return all events with the numbers of their processes, and the bucket of each."""
    numbers = {name: number for number, name in enumerate(plan.names)}
    tables, buckets = [EVENTS.empty_table()], [np.empty(0, np.int64)]
    for blob in blobs:
        events, bucket, names = read_events(blob)
        global_number = pa.array([numbers[name] for name in names], pa.int32())
        columns = {name: events[name].combine_chunks() for name in EVENTS.names}
        for name in ("process", "source"):
            columns[name] = global_number.take(columns[name])
        lists = columns["targets"]
        columns["targets"] = pa.ListArray.from_arrays(
            lists.offsets,
            global_number.take(lists.values),
            mask=lists.is_null() if lists.null_count else None,
        )
        tables.append(pa.table([columns[n] for n in EVENTS.names], schema=EVENTS))
        buckets.append(np.full(events.num_rows, bucket, np.int64))
    return pa.concat_tables(tables).combine_chunks(), np.concatenate(buckets)


def ambiguous_rows(
    process: np.ndarray, time: Longs, bucket: Longs, is_mixed: np.ndarray
) -> np.ndarray:
    """Return the events to drop; most slices have none, which a sort shows.

    Args:
        process: By event, its process.
        time: By event, its time in nanoseconds.
        bucket: By event, its bucket.
        is_mixed: By process, as :attr:`SlicePlan.is_mixed`.
    """
    coarse = is_mixed[process] & (time % NS_PER_MS == 0)
    resolution = np.where(coarse, NS_PER_MS, 0)
    order = np.lexsort((time, process))
    near = time[order[1:]] - time[order[:-1]] < np.maximum(resolution[order[:-1]], 1)
    near &= process[order[1:]] == process[order[:-1]]
    if not np.any(near):
        return np.empty(0, np.int64)

    def is_ordered(one: int, other: int) -> bool:
        return bool(bucket[one] == bucket[other])

    found = ambiguous_events(process, time, resolution, is_ordered)
    return np.flatnonzero(found)


def order_events(
    by_history: Longs,
    process: np.ndarray,
    moved: Longs,
    is_send: np.ndarray,
    slot: Longs,
    processes: int,
) -> Longs:
    """Return some events in a linear extension; without some of them if there is none.

    Args:
        by_history: The events to order, by process and in the order of its history.
        process: By event, its process.
        moved: By event, its time with the offset of its clock.
        is_send: By event, whether it is a send.
        slot: By event, the index of its message.
        processes: The number of processes.
    """
    bounds = np.searchsorted(process[by_history], np.arange(processes + 1))
    is_sent = np.zeros(int(slot.max(initial=-1)) + 1, np.bool_)
    is_sent[slot[is_send]] = True
    hint = (moved - (moved.min() if len(moved) else 0)).astype(np.float64)
    order, _ = find_linear_extension(
        bounds, by_history, is_send, slot.astype(np.int32), is_sent, hint
    )
    return order


def message_numbers(events: pa.Table, plan: SlicePlan) -> Longs:
    """Return by event the number of its message, which ascends with the sends of a source.

    It consists of the time of the send, and of the position among the sends at that time.
    """
    sent: Longs = events["sent"].to_numpy() - plan.zero
    found: Longs = (sent << plan.tie_bits) + events["tie"].to_numpy() + 1
    return found


def _rows(events: pa.Table, plan: SlicePlan) -> pa.Table:
    """Return the columns of a table of events without seq, for the verifier."""
    is_send = events["is_send"].to_numpy()
    kind = pa.DictionaryArray.from_arrays(
        pa.array(np.where(is_send, 0, 1).astype(np.int8)), KINDS
    )
    return pa.table(
        {
            "process": events["process"],
            "time": pa.array((events["time"].to_numpy() - plan.zero) / NS),
            "kind": kind,
            "source": events["source"],
            "number": pa.array(message_numbers(events, plan)),
            "targets": events["targets"],
        }
    )
