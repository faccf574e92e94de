"""Sample the traffic of a long trace: windows that are spread evenly over it.

A window is some consecutive sends of the trace, and all deliveries from the first of them
to the next send after the last. Rows are in a linear extension of happened-before, so the
messages by which one message of a window happened before another were sent between these
two: a window has all of happened-before among its messages.

Between two windows, the time is shortened to at most :data:`GAP_S`. That is longer than
messages are in flight, so the messages of one window do not wait for those of another; and
the replay does not spend hours on timers of idle processes. Within a window, times are
those of the trace.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from antecede.errors import TraceError
from antecede.trace.event import Event, Kind
from antecede.trace.reader import Trace
from antecede.trace.table import events_from_table
from antecede.verify.kernels.slot_map import Longs

__all__ = ["WINDOWS", "Sample", "sample_events"]

WINDOWS = 10
GAP_S = 60.0
MESSAGE_KINDS = (Kind.SEND, Kind.RELEASE, Kind.DELIVER)
"""The events that are read; a release contains the size of the message."""

Window = tuple[int, int]
"""The first row of a window, and the row after its last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The events of the windows of a trace."""

    events: list[Event]
    """Sends, releases and deliveries, in a linear extension of happened-before."""
    window_starts: tuple[int, ...]
    """For each window, the index of its first event."""
    sampled_messages: int
    """The number of sends in the windows."""
    recorded_messages: int
    """The number of sends in the trace."""


def sample_events(trace: Trace, messages_max: int, windows: int = WINDOWS) -> Sample:
    """Return all events of messages, or a sample if the trace has more than the maximum.

    Args:
        trace: The trace, in a linear extension of happened-before.
        messages_max: The maximum number of messages.
        windows: The number of windows of a sample.

    Raises:
        TraceError: The rows of a process are not in the order of ``seq``.
    """
    recorded = sum(len(rows) for rows in _send_rows(trace))
    if recorded <= messages_max:
        ranges, sampled = [(0, trace.rows)], recorded
    else:
        count = min(windows, messages_max)
        size = messages_max // count
        ranges, sampled = _ranges(trace, recorded, count, size), count * size
    events: list[Event] = []
    starts: list[int] = []
    last_seq: dict[int, int] = {}
    recorded_end = shift = 0.0
    for window in ranges:
        found = list(_read(trace, window, last_seq))
        if not found:
            continue
        gap = min(event.time for event in found) - recorded_end
        if starts:
            shift += max(0.0, gap - GAP_S)
        recorded_end = max(event.time for event in found)
        starts.append(len(events))
        events += [replace(event, time=event.time - shift) for event in found]
    return Sample(
        events=events,
        window_starts=tuple(starts),
        sampled_messages=sampled,
        recorded_messages=recorded,
    )


def _send_rows(trace: Trace) -> Iterator[Longs]:
    """Yield the row numbers of the sends, a batch at a time."""
    for first, batch in trace.numbered_batches(("kind", "number")):
        is_send = pc.equal(batch.column("kind").dictionary, Kind.SEND.value)
        code = batch.column("kind").indices.to_numpy()
        has_number = batch.column("number").is_valid().to_numpy(False)
        yield np.flatnonzero(is_send.to_numpy(False)[code] & has_number) + first


def _ranges(trace: Trace, recorded: int, count: int, size: int) -> list[Window]:
    """Return the rows of ``count`` windows of ``size`` sends, spread over all sends."""
    step = (recorded - size) / max(1, count - 1)
    starts = [int(index * step) for index in range(count)]
    ends = [start + size for start in starts]
    wanted = np.array(sorted({*starts, *ends} - {0, recorded}), np.int64)
    rows = {0: 0, recorded: trace.rows}
    before = 0
    for found in _send_rows(trace):
        first, last = np.searchsorted(wanted, [before, before + len(found)])
        for ordinal in wanted[first:last].tolist():
            rows[ordinal] = int(found[ordinal - before])
        before += len(found)
    return [(rows[start], rows[end]) for start, end in zip(starts, ends, strict=True)]


def _read(trace: Trace, window: Window, last_seq: dict[int, int]) -> Iterator[Event]:
    """Yield the events of messages of a window, and check the order of each process."""
    first, end = window
    for start, batch in trace.numbered_batches(first=first, last=end - 1):
        skip = max(0, first - start)
        part = batch.slice(skip, min(batch.num_rows, end - start) - skip)
        seqs = part.column("seq").to_pylist()
        for seq, event in zip(seqs, events_from_table(part), strict=True):
            if seq < last_seq.get(event.process, 0):
                raise TraceError(
                    f"{trace.location}: the rows of process {event.process} are not in the"
                    " order of seq; sort them by process and seq"
                )
            last_seq[event.process] = seq
            if event.kind in MESSAGE_KINDS and event.number is not None:
                yield event
