"""The sends and deliveries of a bucket, as columns."""

import numpy as np

from antecede.ingest.event_table import DELIVER, NONE, SEND, EventTable
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs

__all__ = ["message_events"]


def message_events(table: EventTable) -> tuple[Longs, dict[str, np.ndarray]]:
    """Return the rows of the sends and of the deliveries of sent messages, as columns.

    The columns are those of :data:`antecede.pipeline.records.bucket_events.EVENTS` that
    follow from the messages.
    """
    rows, position, source, sent, tie = _message_events(
        table.process, table.kind, table.message, table.hint, len(table.is_known)
    )
    columns = {
        "process": table.process[rows],
        "time": table.hint[rows],
        "position": position,
        "is_send": table.kind[rows] == SEND,
        "source": source,
        "sent": sent,
        "tie": tie,
        "message": table.message[rows].astype(np.int32),
    }
    return rows, columns


@compiled
def _message_events(
    process: Ints, kind: Ints, message: Longs, hint: Longs, messages: int
) -> tuple[Longs, Ints, Ints, Longs, Ints]:
    """Return the rows, and by row its position, and source, time and tie of the send."""
    source = np.full(messages, NONE, np.int32)
    sent = np.empty(messages, np.int64)
    tie = np.empty(messages, np.int32)
    last_process, last_time, ties = NONE, np.int64(0), 0
    count = 0
    for i in range(process.size):
        if kind[i] == SEND:
            count += 1
            is_tie = process[i] == last_process and hint[i] == last_time
            ties = ties + 1 if is_tie else 0
            last_process, last_time = process[i], hint[i]
            source[message[i]], sent[message[i]], tie[message[i]] = (
                process[i],
                hint[i],
                ties,
            )
        elif kind[i] == DELIVER:
            count += 1
    rows = np.empty(count, np.int64)
    position = np.empty(count, np.int32)
    sources = np.empty(count, np.int32)
    times = np.empty(count, np.int64)
    tied = np.empty(count, np.int32)
    found, first = 0, 0
    for i in range(process.size):
        if i > 0 and process[i] != process[i - 1]:
            first = i
        m = message[i]
        if (kind[i] != SEND and kind[i] != DELIVER) or m == NONE or source[m] == NONE:
            continue
        rows[found] = i
        position[found] = i - first
        sources[found], times[found], tied[found] = source[m], sent[m], tie[m]
        found += 1
    return rows[:found], position[:found], sources[:found], times[:found], tied[:found]
