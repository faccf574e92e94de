"""Put the events of a slice into a linear extension, and drop those that have none.

The task of a slice also finds the events whose order in their process the timestamps do not
determine, with the rules of :mod:`antecede.ingest.inference.ordering`. Two events of one
bucket are ordered, since the inference of that bucket dropped the others. The task drops
the messages of these events, and those that form a cycle of happened-before. If such a
message also has events in another slice, that slice is arranged again without them.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from antecede.ingest.event_table import DELIVER, SEND
from antecede.ingest.inference.cycles import messages_in_cycles
from antecede.ingest.inference.ordering import ambiguous_events
from antecede.pipeline.records.bucket_events import NS_PER_MS
from antecede.pipeline.records.slice_order import order_events, overlapping_processes
from antecede.pipeline.records.slices import (
    BUCKET_KEY,
    Dropped,
    SlicePlan,
    part_schema,
    read_column,
)
from antecede.pipeline.verify.packed_rows import read_blob
from antecede.trace.event import Kind
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.sorting import stable_order
from antecede.verify.kernels.stream import Bools

__all__ = ["Arranged", "arrange_slice"]

NS = 1e9
KINDS = pa.array([Kind.SEND.value, Kind.DELIVER.value])
NONE = -1
TAKEN = ["process", "time", "is_send", "source", "number", "targets"]
"""The columns of events that the verifier needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """The result of the task of a slice."""

    rows: pa.Table | None
    """The events of the slice in a linear extension; None if it must be arranged again."""
    dropped: Dropped = field(default_factory=dict)
    """The messages that were dropped."""
    crosses: bool = False
    """Whether one of these messages has events in other slices."""
    ambiguous: int = 0
    """The number of events whose order is not determined."""
    in_cycle: int = 0
    """The number of messages in a cycle of happened-before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """The events of a slice, and of each its part and the bucket of the part."""

    events: pa.Table
    part: Ints
    buckets: Longs
    process: Ints
    time: Longs
    is_send: Bools
    slot: Ints
    message: Ints
    preferred: Longs
    """The events by their times with the offsets of the clocks."""
    slots: int

    def without(self, dropped: Bools) -> Longs:
        """Return the preferred order without some messages, given by event."""
        return self.preferred[~dropped[self.preferred]]

    def messages_of(self, chosen: Bools) -> tuple[Bools, Dropped]:
        """Return which events have the messages of chosen events, and the messages."""
        key = (self.part.astype(np.int64) << 32) | self.message
        keys = np.unique(key[chosen])
        part, message = keys >> 32, (keys & 0xFFFFFFFF).astype(np.int32)
        found = {int(self.buckets[each]): message[part == each] for each in np.unique(part)}
        return np.isin(key, keys), found


def arrange_slice(
    blobs: list[pa.Buffer], plan: SlicePlan, *, find_ambiguous: bool
) -> Arranged:
    """Arrange the events of a slice.

    Args:
        blobs: What :func:`split_bucket` yielded for the slice, from all buckets.
        plan: The slices.
        find_ambiguous: Find events whose order the timestamps do not determine.
    """
    found = _merge(blobs, plan)
    chosen = np.zeros(len(found.time), np.bool_)
    ambiguous = in_cycle = 0
    if find_ambiguous:
        chosen = _ambiguous(found, plan)
        ambiguous = int(np.count_nonzero(chosen))
    is_dropped: Bools = chosen
    dropped: Dropped = {}
    if ambiguous:
        is_dropped, dropped = found.messages_of(chosen)
    order = _order(found, found.without(is_dropped), plan)
    crosses = read_column(found.events, "crosses")
    if len(order) + np.count_nonzero(is_dropped) < len(found.time):
        in_cycle, is_cyclic = _cyclic(found, is_dropped, plan)
        if find_ambiguous and np.any(crosses[is_cyclic]):
            # The message of a cycle may be dropped in another slice, which resolves it.
            return Arranged(rows=None, dropped=dropped, crosses=True, ambiguous=ambiguous)
        is_dropped, dropped = found.messages_of(is_dropped | is_cyclic)
        order = _order(found, found.without(is_dropped), plan)
    is_final = not np.any(crosses[is_dropped])
    return Arranged(
        rows=_rows(found.events.select(TAKEN).take(pa.array(order)), plan)
        if is_final
        else None,
        dropped=dropped,
        crosses=not is_final,
        ambiguous=ambiguous,
        in_cycle=in_cycle,
    )


def _merge(blobs: list[pa.Buffer], plan: SlicePlan) -> _Slice:
    # Parts arrive in any order; for equal times, the order of the buckets decides.
    tables = sorted((read_blob(blob) for blob in blobs), key=_bucket_of)
    lengths = [table.num_rows for table in tables]
    part = np.repeat(np.arange(len(tables), dtype=np.int32), lengths)
    events = pa.concat_tables(
        [
            part_schema(len(plan.names)).empty_table(),
            *(table.replace_schema_metadata() for table in tables),
        ]
    ).combine_chunks()
    slots = [int(read_column(table, "slot").max(initial=NONE)) + 1 for table in tables]
    first = (np.cumsum(slots) - slots).astype(np.int32)
    slot = read_column(events, "slot")
    slot[slot != NONE] += np.repeat(first, lengths)[slot != NONE]
    process, time = read_column(events, "process"), read_column(events, "time")
    # The events of a process keep their order in the part.
    preferred = stable_order(time + plan.offsets[process])
    buckets = [_bucket_of(table) for table in tables]
    return _Slice(
        events=events,
        part=part,
        buckets=np.array(buckets, np.int64),
        process=process,
        time=time,
        is_send=read_column(events, "is_send"),
        slot=slot,
        message=read_column(events, "message"),
        preferred=preferred,
        slots=sum(slots),
    )


def _bucket_of(part: pa.Table) -> int:
    return int(part.schema.metadata[BUCKET_KEY])


def _ambiguous(found: _Slice, plan: SlicePlan) -> Bools:
    """Return the events to drop; most slices have none, which one pass shows."""
    overlaps = overlapping_processes(
        found.preferred,
        found.process,
        found.time,
        found.part,
        plan.is_mixed,
        NS_PER_MS,
        len(plan.names),
    )
    chosen = np.zeros(len(found.time), np.bool_)
    if not np.any(overlaps):
        return chosen
    where = found.preferred[overlaps[found.process[found.preferred]]]
    process, time, part = found.process[where], found.time[where], found.part[where]
    coarse = plan.is_mixed[process] & (time % NS_PER_MS == 0)

    def is_ordered(one: int, other: int) -> bool:
        return bool(part[one] == part[other])

    resolution = np.where(coarse, NS_PER_MS, 0)
    chosen[where] = ambiguous_events(process, time, resolution, is_ordered)
    return chosen


def _order(found: _Slice, preferred: Longs, plan: SlicePlan) -> Longs:
    return order_events(
        preferred, found.process, found.is_send, found.slot, len(plan.names), found.slots
    )


def _cyclic(found: _Slice, is_dropped: Bools, plan: SlicePlan) -> tuple[int, Bools]:
    """Return the number of messages in cycles, and which events are theirs."""
    preferred = found.without(is_dropped)
    by_history = preferred[np.argsort(found.process[preferred], kind="stable")]
    kind = np.where(found.is_send, SEND, DELIVER).astype(np.int32)[by_history]
    slot = found.slot[by_history].astype(np.int64)
    # An event without a slot is in no cycle; the additional slot is that of no message.
    kind[slot == NONE] = NONE
    slot[slot == NONE] = found.slots
    is_doubtful = np.zeros(found.slots + 1, np.bool_)
    cyclic = messages_in_cycles(found.process[by_history], kind, slot, is_doubtful)
    is_cyclic = np.zeros(found.slots + 1, np.bool_)
    is_cyclic[cyclic] = True
    return len(cyclic), is_cyclic[found.slot] & (found.slot != NONE)


def _rows(events: pa.Table, plan: SlicePlan) -> pa.Table:
    """Return the columns of a table of events without seq, for the verifier."""
    is_send = read_column(events, "is_send")
    kind = pa.DictionaryArray.from_arrays(pa.array((~is_send).astype(np.int8)), KINDS)
    return pa.table(
        {
            "process": events["process"],
            "time": pa.array((events["time"].to_numpy() - plan.zero) / NS),
            "kind": kind,
            "source": events["source"],
            "number": events["number"],
            "targets": events["targets"],
        }
    )
