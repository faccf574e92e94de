"""Split the events of a bucket by slice.

Consistent cuts divide the run into slices (:mod:`antecede.pipeline.records.cuts`). A task
splits the events of each bucket, and a task puts the events of each slice from all buckets
into a linear extension (:mod:`antecede.pipeline.records.slice_task`).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from antecede.pipeline.records.bucket_events import NS_PER_MS
from antecede.pipeline.records.cuts import CutEvents, slice_numbers
from antecede.pipeline.records.slice_order import send_slots
from antecede.pipeline.verify.packed_rows import read_blob, write_blob
from antecede.verify.kernels.grouping import group
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = [
    "BUCKET_KEY",
    "PARTS_GROUP",
    "Dropped",
    "SlicePlan",
    "cut_events",
    "cut_events_of",
    "message_numbers",
    "part_schema",
    "process_numbers",
    "read_column",
    "read_events",
    "slices_of_messages",
    "split_bucket",
    "to_blob",
]

PARTS_GROUP = "parts"
"""The group of the values that :func:`split_bucket` writes."""
NAMES_KEY = b"names"
BUCKET_KEY = b"bucket"
CUT_COLUMNS = ("process", "time", "is_send", "source", "sent")


def part_schema(processes: int) -> pa.Schema:
    """Return the schema of the events of a bucket in one slice.

    The events are by process, in the order of its history. Processes have the numbers of
    the plan, in a type that is as small as their count allows: the time to write and read
    the events depends on their size.
    """
    number = pa.from_numpy_dtype(np.min_scalar_type(-max(1, processes)))
    return pa.schema(
        [
            ("process", number),
            ("time", pa.int64()),
            ("is_send", pa.bool_()),
            ("source", number),
            ("number", pa.int64()),
            # The slot of the message among those of the part, or NONE.
            ("slot", pa.int32()),
            # The index of the message in its bucket, and whether it is in several slices.
            ("message", pa.int32()),
            ("crosses", pa.bool_()),
            ("targets", pa.list_(number)),
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """How to divide a run into slices, and what the tasks need to know of it."""

    location: str
    """The text that error messages begin with."""
    names: tuple[str, ...]
    """The names of all processes; the index of a name is the number of the process."""
    offsets: Longs
    """By process, the offset of its clock in nanoseconds."""
    is_mixed: Bools
    """By process, whether its times in whole milliseconds are coarser than the others."""
    frontier: Longs
    """By process and cut, the time by its clock of its last event in the cut."""
    zero: int
    """The earliest time by a recorded clock."""
    tie_bits: int
    """The lower bits of the number of a message; the upper ones are its time."""

    @property
    def slices(self) -> int:
        """The number of slices."""
        return int(self.frontier.shape[1]) + 1

    @property
    def units(self) -> Longs:
        """By process, the length of the interval that a timestamp can stand for."""
        return np.where(self.is_mixed, NS_PER_MS, 1).astype(np.int64)


Dropped = dict[int, Ints]
"""By bucket, the indexes of messages to leave out."""


def to_blob(events: pa.Table, bucket: int, names: list[str]) -> bytes:
    """Return a table of events as bytes, with the names of its processes."""
    events = _narrowed(events)
    metadata = {NAMES_KEY: json.dumps(names), BUCKET_KEY: str(bucket)}
    return write_blob(events.replace_schema_metadata(metadata))


def _narrowed(events: pa.Table) -> pa.Table:
    """Return a table whose columns of 32-bit numbers have the smallest possible type."""
    for index, column in enumerate(events.schema):
        if column.type == pa.int32() and events.num_rows:
            values = events.column(index).to_numpy()
            least = np.min_scalar_type(min(int(values.min()), -int(values.max()) - 1))
            narrow = events.column(index).cast(pa.from_numpy_dtype(least))
            events = events.set_column(index, column.name, narrow)
    return events


def read_events(
    blob: pa.Buffer, columns: Sequence[str] | None = None
) -> tuple[pa.Table, int, list[str]]:
    """Return the events of :func:`to_blob`, their bucket, and the names of processes.

    Args:
        blob: The events.
        columns: The names of the columns to read; None for all.
    """
    events = read_blob(blob, columns)
    metadata = events.schema.metadata
    return events, int(metadata[BUCKET_KEY]), json.loads(metadata[NAMES_KEY])


def cut_events(blob: pa.Buffer, numbers: dict[str, int]) -> CutEvents:
    """Return the events of a bucket, with the numbers of the processes by name."""
    events, _, names = read_events(blob, CUT_COLUMNS)
    return cut_events_of(events, np.array([numbers[name] for name in names], np.int32))


def process_numbers(names: list[str], every: tuple[str, ...]) -> Ints:
    """Return the numbers of some processes, which are their indexes in ``every``."""
    numbers = {name: number for number, name in enumerate(every)}
    return np.array([numbers[name] for name in names], np.int32)


def cut_events_of(events: pa.Table, number: Ints) -> CutEvents:
    """Return the events of a bucket; ``number`` has the numbers of its processes."""
    return CutEvents(
        process=number[read_column(events, "process")],
        position=read_column(events, "time"),
        is_send=read_column(events, "is_send"),
        source=number[read_column(events, "source")],
        sent=read_column(events, "sent"),
    )


def read_column(table: pa.Table, name: str) -> np.ndarray:
    """Return a column of numbers or truth values as a writable array."""
    # A kernel would be compiled again for a read-only array, or one of smaller numbers.
    found = np.array(table[name].combine_chunks().to_numpy(zero_copy_only=False))
    return found.astype(np.int32) if found.dtype in (np.int8, np.int16) else found


def split_bucket(
    blob: pa.Buffer, dropped: Dropped, plan: SlicePlan, wanted: Bools | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield for each slice its number and the events of a bucket in it.

    Args:
        blob: The events of the bucket.
        dropped: The messages to leave out.
        plan: The slices.
        wanted: By slice, whether to yield it; None for all.
    """
    table, bucket, names = read_events(blob)
    number = process_numbers(names, plan.names)
    events = cut_events_of(table, number)
    slices = slice_numbers(events.process, events.position, plan.frontier)
    message = read_column(table, "message")
    messages = int(message.max(initial=-1)) + 1
    slot, crosses = send_slots(slices, message, events.is_send, plan.slices, messages)
    kept = np.ones(len(message), np.bool_) if wanted is None else wanted[slices]
    if bucket in dropped:
        kept &= ~np.isin(message, dropped[bucket])
    order, starts = group(np.where(kept, slices, -1), plan.slices)
    targets = table["targets"].combine_chunks().take(pa.array(order))
    schema = part_schema(len(plan.names))
    columns = {
        "process": events.process[order],
        "time": events.position[order],
        "is_send": events.is_send[order],
        "source": events.source[order],
        "number": message_numbers(table, plan)[order],
        "slot": slot[order],
        "message": message[order],
        "crosses": crosses[order],
        "targets": pa.ListArray.from_arrays(
            targets.offsets,
            pa.array(number[np.array(targets.values)]).cast(schema.field("process").type),
            mask=targets.is_null() if targets.null_count else None,
        ),
    }
    metadata = {BUCKET_KEY: str(bucket)}
    types = dict(zip(schema.names, schema.types, strict=True))
    parts = pa.table(
        [pa.array(columns[name]).cast(types[name]) for name in schema.names],
        schema.with_metadata(metadata),
    )
    for each in np.flatnonzero(np.diff(starts)).tolist():
        start, end = int(starts[each]), int(starts[each + 1])
        yield each, write_blob(parts.slice(start, end - start), PARTS_GROUP)


def slices_of_messages(blob: pa.Buffer, dropped: Dropped, plan: SlicePlan) -> Bools:
    """Return which slices have events of these messages of a bucket."""
    table, bucket, names = read_events(blob)
    found = np.zeros(plan.slices, np.bool_)
    if bucket in dropped:
        number = process_numbers(names, plan.names)
        events = cut_events_of(table, number)
        slices = slice_numbers(events.process, events.position, plan.frontier)
        found[slices[np.isin(read_column(table, "message"), dropped[bucket])]] = True
    return found


def message_numbers(events: pa.Table, plan: SlicePlan) -> Longs:
    """Return by event the number of its message, which ascends with the sends of a source.

    It consists of the time of the send, and of the position among the sends at that time.
    """
    sent: Longs = events["sent"].to_numpy() - plan.zero
    found: Longs = (sent << plan.tie_bits) + events["tie"].to_numpy() + 1
    return found
