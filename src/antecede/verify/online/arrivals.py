"""Sort the events of a batch into segments of the histories of the processes."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.trace.reader import NumberedBatch
from antecede.verify.kernels.slot_map import Longs, SlotMap
from antecede.verify.kernels.stream import Rows, message_rows, process_indexes
from antecede.verify.online.records import BROADCAST, ArrivedEvent, Segment

__all__ = ["find_segments"]


def find_segments(
    batch: pa.RecordBatch, processes: SlotMap, stamp: float, location: str
) -> Iterator[tuple[int, Segment]]:
    """Yield the slot of the process and the segment of all consecutive events of a batch.

    The segments of a process are in the order of ``seq``. Of two rows with the same process
    and seq, the second is in a segment of its own.

    Args:
        batch: Rows with the columns of a trace, in any order; ``kind`` is
            dictionary-encoded, and ``time`` may be NaN.
        processes: The slots of the processes; new processes are added.
        stamp: The time of the arrival.
        location: The text that error messages begin with.

    Raises:
        TraceError: A row has a negative seq, or is a send or delivery without a message.
    """
    rows = message_rows(NumberedBatch(0, batch), processes, location)
    process = process_indexes(batch.column("process"), processes)
    seq = batch.column("seq").to_numpy()
    if len(seq) and seq.min() < 0:
        raise TraceError(f"{location}: seq must be at least 0, got {seq.min()}")
    order = np.lexsort((seq, process))
    process, seq = process[order], seq[order]
    event_of_row: Longs = np.full(len(seq), -1, np.int64)
    event_of_row[rows.row] = np.arange(len(rows.row))
    event_of_row = event_of_row[order]
    is_event = event_of_row >= 0
    time = batch.column("time").to_numpy(zero_copy_only=False)[rows.row]
    events = _events(rows, time, event_of_row[is_event])
    seqs = seq[is_event].tolist()
    is_first = np.ones(len(seq), np.bool_)
    is_first[1:] = (process[1:] != process[:-1]) | (seq[1:] != seq[:-1] + 1)
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(seq))
    events_before = np.append(0, np.cumsum(is_event))
    columns = (
        process[starts], seq[starts], seq[ends - 1] + 1,
        events_before[starts], events_before[ends],
    )  # fmt: skip
    for slot, first, end, start, stop in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield slot, Segment(first, end, stamp, seqs[start:stop], events[start:stop])


def _events(rows: Rows, time: np.ndarray, order: Longs) -> list[ArrivedEvent]:
    """Return the sends and deliveries in this order."""
    sends = np.flatnonzero(rows.is_send)
    targets = np.zeros(len(rows.row), object)
    targets[sends] = _target_sets(rows)
    columns = (rows.is_send, targets, rows.source, rows.number, time)
    return list(zip(*(column[order].tolist() for column in columns), strict=True))


def _target_sets(rows: Rows) -> list[int]:
    """Return the set of targets of each send."""
    bits = [1 << target for target in rows.target.tolist()]
    bounds = rows.target_start.tolist()
    found = []
    for start, end, is_broadcast in zip(
        bounds, bounds[1:], rows.is_broadcast.tolist(), strict=False
    ):
        if is_broadcast:
            found.append(BROADCAST)
        elif end == start + 1:
            found.append(bits[start])
        else:
            union = 0
            for bit in bits[start:end]:
                union |= bit
            found.append(union)
    return found
