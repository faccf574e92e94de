"""Split the events of a bucket by slice, and put a slice into a linear extension.

The events of a process are in the order of their positions. Among the possible orders, the
chosen one follows the times with the offsets of the clocks, if the times of each process
ascend in the slice. Otherwise, it does not depend on times.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.pipeline.records.cuts import slice_numbers
from antecede.pipeline.records.event_buckets import UNKNOWN, EventRun
from antecede.pipeline.records.slice_order import (
    order_events,
    order_on_demand,
    send_slots,
)
from antecede.pipeline.records.slices import (
    cut_events_of,
    process_numbers,
    read_column,
    read_events,
)
from antecede.pipeline.verify.event_rows import repeated_event, repeated_step
from antecede.pipeline.verify.packed_rows import read_blob, write_blob
from antecede.verify.kernels.grouping import group
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.sorting import stable_order

__all__ = ["EventPlan", "arrange_events", "split_events"]

NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPlan:
    """How to divide a run of events into slices."""

    run: EventRun
    names: tuple[str, ...]
    """The numbers of the processes, ascending, as texts."""
    offsets: Longs
    """By process, the offset of its clock in nanoseconds."""
    frontier: Longs
    """By process and cut, the position of its last event in the cut."""

    @property
    def slices(self) -> int:
        """The number of slices."""
        return int(self.frontier.shape[1]) + 1


def split_events(blob: pa.Buffer, plan: EventPlan) -> Iterator[tuple[int, bytes]]:
    """Yield for each slice its number and the events of a bucket in it."""
    table, _, names = read_events(blob)
    number = process_numbers(names, plan.names)
    events = cut_events_of(table, number)
    slices = slice_numbers(events.process, events.position, plan.frontier)
    message = read_column(table, "message")
    messages = int(message.max(initial=NONE)) + 1
    slot, _ = send_slots(slices, message, events.is_send, plan.slices, messages)
    order, starts = group(slices, plan.slices)
    bounds = starts.tolist()
    parts = table.select([name for name in table.schema.names if name != "message"])
    parts = parts.set_column(0, "process", pa.array(events.process))
    parts = parts.append_column("slot", pa.array(slot)).take(pa.array(order))
    parts = parts.combine_chunks().replace_schema_metadata()
    for each in range(plan.slices):
        if bounds[each] < bounds[each + 1]:
            yield (
                each,
                write_blob(parts.slice(bounds[each], bounds[each + 1] - bounds[each])),
            )


def arrange_events(blobs: list[pa.Buffer], plan: EventPlan) -> pa.Table:
    """Return the events of a slice in a linear extension, with columns for the verifier.

    Args:
        blobs: What :func:`split_events` yielded for the slice, from all buckets.
        plan: The slices.

    Raises:
        TraceError: Happened-before has a cycle, or an event is there twice.
    """
    tables = [read_blob(blob) for blob in blobs]
    slots = [int(read_column(table, "slot").max(initial=NONE)) + 1 for table in tables]
    first = np.repeat(np.cumsum(slots) - slots, [table.num_rows for table in tables])
    events = pa.concat_tables(tables).combine_chunks()
    slot = read_column(events, "slot")
    slot[slot != NONE] += first.astype(np.int32)[slot != NONE]
    process, is_send = read_column(events, "process"), read_column(events, "is_send")
    position = read_column(events, "time")
    by_history = stable_order(process, position)
    if plan.run.is_unique:
        _reject_repeated(events, by_history, plan.run)
    count, processes = int(np.sum(slots)), len(plan.names)
    key = _preference(process[by_history], read_column(events, "clock")[by_history], plan)
    if key is None:
        bounds = np.searchsorted(process[by_history], np.arange(processes + 1))
        # A process that delivers much needs the events of others when these happened.
        deliveries = np.bincount(process[~is_send], minlength=processes)
        leaders = np.argsort(-deliveries, kind="stable")
        order = order_on_demand(by_history, bounds, leaders, process, is_send, slot, count)
    if key is not None or len(order) < len(process):
        preferred = by_history
        if key is not None:
            preferred = by_history[np.argsort(key, kind="stable")]
        order = order_events(preferred, process, is_send, slot, processes, count)
    if len(order) < len(process):
        raise _cycle(events, by_history, order, plan.run)
    rows = events.take(pa.array(order)).combine_chunks()
    columns = {
        "process": rows["event_process"],
        "time": rows["event_time"],
        "kind": rows["kind"],
        "source": rows["event_source"],
        "number": rows["number"],
        "targets": rows["targets"],
    }
    if plan.run.has_seq:
        columns["seq"] = rows["time"]
    return pa.table(columns)


def _reject_repeated(events: pa.Table, by_history: Longs, run: EventRun) -> None:
    """Raise TraceError if two rows are the same event of a process."""
    process = events["event_process"].to_numpy()[by_history]
    position = events["time"].to_numpy()[by_history]
    is_same = (process[1:] == process[:-1]) & (position[1:] == position[:-1])
    if np.any(is_same):
        first = int(np.flatnonzero(is_same)[0])
        at = int(position[first])
        if not run.has_seq:
            raise repeated_step(run.location, at)
        raise repeated_event(run.location, run.name(int(process[first])), at)


def _preference(process: Ints, clock: Longs, plan: EventPlan) -> Longs | None:
    """Return a time for each event, ascending in each process; None if these do not.

    Args:
        process: By event, its process; ascending.
        clock: By event, its time or UNKNOWN, in the order of the process.
        plan: The slices.
    """
    is_same = process[1:] == process[:-1]
    if np.any(clock == UNKNOWN) or np.any(is_same & (clock[1:] < clock[:-1])):
        return None
    found: Longs = clock + plan.offsets[process]
    return found


def _cycle(events: pa.Table, by_history: Longs, order: Longs, run: EventRun) -> TraceError:
    """Return an error that names the first event of the first process that is stuck."""
    is_taken = np.zeros(events.num_rows, np.bool_)
    is_taken[order] = True
    stuck = int(by_history[np.flatnonzero(~is_taken[by_history])[0]])
    process, source, number = (
        events[name][stuck].as_py() for name in ("event_process", "event_source", "number")
    )
    return TraceError(
        f"{run.location}: process {run.name(process)} delivered {run.name(source)}:{number}"
        " before it can have been sent"
    )
