"""The copies of the messages of a run: one row for each message and process.

A process other than the source has a copy if it is a target of the send, or if the message
is a broadcast and the process delivered it. :mod:`antecede.pipeline.study.measure_schema`
has the meaning of the columns.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from antecede.pipeline.study.measure_schema import COPIES_SCHEMA
from antecede.pipeline.study.run_events import KIND, RunEvents
from antecede.trace.event import Kind

__all__ = ["DURATIONS", "RunCopies", "copies_table", "count_relays", "find_copies"]

DURATIONS = {
    "sender_wait": ("sent", "released"),
    "wire": ("released", "arrived"),
    "receiver_wait": ("arrived", "delivered"),
    "latency": ("sent", "delivered"),
}
"""The times that each duration is between."""
DENSE_MAX = 8
"""The maximum ratio of the size of a lookup table to the number of rows."""
MESSAGE_KINDS = (Kind.SEND, Kind.RELEASE, Kind.TRANSMIT, Kind.ARRIVE, Kind.DELIVER)


class RunCopies(NamedTuple):
    """Copies, by source, number and target; a time that is not known is NaN."""

    source: np.ndarray
    number: np.ndarray
    target: np.ndarray
    sent: np.ndarray
    released: np.ndarray
    arrived: np.ndarray
    delivered: np.ndarray
    payload_bytes: np.ndarray
    """Of the first frame; -1 if it is not known."""
    metadata_bytes: np.ndarray
    """Of the first frame; -1 if it is not known."""
    broadcast: np.ndarray
    """Whether the message is a broadcast."""

    def duration(self, name: str) -> np.ndarray:
        """Return one of :data:`DURATIONS`."""
        begin, end = DURATIONS[name]
        found: np.ndarray = getattr(self, end) - getattr(self, begin)
        return found


class _Frames(NamedTuple):
    """The first frame of each copy, or of each message."""

    time: np.ndarray
    payload_bytes: np.ndarray
    metadata_bytes: np.ndarray


def find_copies(events: RunEvents, *, relays: bool) -> RunCopies:
    """Return the copies of the messages that these events are about.

    Args:
        events: All events of the messages.
        relays: The protocol relays messages: a copy is released when its source transmits
            the first frame of the message, and has the size of that frame.
    """
    rows = np.flatnonzero(events.where(*MESSAGE_KINDS))
    source, number, message = _messages(events.source[rows], events.number[rows])
    kind, process, time = events.kind[rows], events.process[rows], events.time[rows]
    is_send = kind == KIND[Kind.SEND]
    is_arrival = kind == KIND[Kind.ARRIVE]
    is_delivery = kind == KIND[Kind.DELIVER]
    is_own_frame = ~(is_send | is_arrival | is_delivery) & (process == source[message])
    sends = message[is_send]
    broadcast = np.zeros(len(source), np.bool_)
    broadcast[sends[events.lengths < 0]] = True
    width = 1 + max(
        int(each.max(initial=0)) for each in (process, events.target, events.targets)
    )
    # The targets of sends, and the processes that delivered a broadcast.
    named = np.repeat(sends, np.maximum(events.lengths, 0))
    received = is_delivery & broadcast[message]
    at_process = message * width + process
    keys = np.unique(np.concatenate((named * width + events.targets, at_process[received])))
    of_copy, target = keys // width, keys % width
    to_others = target != source[of_copy]
    keys, of_copy, target = keys[to_others], of_copy[to_others], target[to_others]
    own = rows[is_own_frame]
    if relays:
        frames = _first_frames(message[is_own_frame], len(source), events, own)
        frames = _Frames(*(column[of_copy] for column in frames))
    else:
        place, own = _places(keys, message[is_own_frame] * width + events.target[own], own)
        frames = _first_frames(place, len(keys), events, own)
    return RunCopies(
        source=source[of_copy],
        number=number[of_copy],
        target=target,
        sent=_earliest(sends, time[is_send], len(source))[of_copy],
        released=frames.time,
        arrived=_earliest(
            *_places(keys, at_process[is_arrival], time[is_arrival]), len(keys)
        ),
        delivered=_earliest(
            *_places(keys, at_process[is_delivery], time[is_delivery]), len(keys)
        ),
        payload_bytes=frames.payload_bytes,
        metadata_bytes=frames.metadata_bytes,
        broadcast=broadcast[of_copy],
    )


def count_relays(events: RunEvents) -> tuple[int, int]:
    """Return the frames that were retransmitted, and those that were forwarded first.

    A process forwards a message when it transmits a frame of it to a target for the first
    time; all later frames are retransmissions.
    """
    rows = np.flatnonzero(events.where(Kind.RELEASE, Kind.TRANSMIT))
    forwarded = events.process[rows] != events.source[rows]
    transmits = int(np.count_nonzero(events.kind[rows[~forwarded]] == KIND[Kind.TRANSMIT]))
    rows = rows[forwarded]
    if not len(rows):
        return transmits, 0
    columns = (events.source, events.number, events.target, events.process)
    order = np.lexsort([column[rows] for column in columns])
    is_first = np.zeros(len(rows), np.bool_)
    is_first[0] = True
    for column in columns:
        ordered = column[rows][order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    relays = int(np.count_nonzero(is_first))
    return transmits + len(rows) - relays, relays


def copies_table(run: str, copies: RunCopies) -> pa.Table:
    """Return copies with the schema of the table ``copies``."""
    columns = {
        **copies._asdict(),
        **{name: copies.duration(name) for name in DURATIONS},
    }
    arrays = {"run": pa.repeat(pa.scalar(run), len(copies.source))}
    for name, values in columns.items():
        wanted = COPIES_SCHEMA.field(name).type
        missing = None
        if name in ("payload_bytes", "metadata_bytes"):
            missing = values < 0
        array = pa.array(values, mask=missing, from_pandas=True)
        arrays[name] = array if array.type == wanted else array.cast(wanted)
    return pa.table([arrays[name] for name in COPIES_SCHEMA.names], schema=COPIES_SCHEMA)


def _messages(
    source: np.ndarray, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sources and numbers of all messages, and the message of each row."""
    low = int(number.min(initial=0))
    factor = int(number.max(initial=0)) - low + 1
    size = (int(source.max(initial=0)) + 1) * factor
    if size <= DENSE_MAX * len(source):
        keys = source * factor + (number - low)
        known = np.zeros(size, np.bool_)
        known[keys] = True
        messages = np.flatnonzero(known)
        return messages // factor, messages % factor + low, np.cumsum(known)[keys] - 1
    order = np.lexsort((number, source))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = source[order[1:]] != source[order[:-1]]
    is_first[1:] |= number[order[1:]] != number[order[:-1]]
    message = np.empty(len(order), np.int64)
    message[order] = np.cumsum(is_first) - 1
    firsts = order[is_first]
    return source[firsts], number[firsts], message


def _places(
    keys: np.ndarray, wanted: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the wanted keys that exist, and the values beside these."""
    if not len(keys):
        return np.empty(0, np.int64), values[:0]
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    exists = keys[place] == wanted
    return place[exists], values[exists]


def _earliest(place: np.ndarray, time: np.ndarray, size: int) -> np.ndarray:
    """Return the earliest time for each place; NaN where there is none."""
    found = np.full(size, np.inf)
    np.minimum.at(found, place, time)
    found[np.isinf(found)] = np.nan
    return found


def _first_frames(
    place: np.ndarray, size: int, events: RunEvents, rows: np.ndarray
) -> _Frames:
    """Return the first of some frames for each place: by history, and by time."""
    # The last assignment to a place counts.
    order = np.argsort(-events.seq[rows], kind="stable")
    sizes = []
    for column in (events.payload_bytes, events.metadata_bytes):
        found = np.full(size, -1, np.int64)
        found[place[order]] = column[rows[order]]
        sizes.append(found)
    return _Frames(_earliest(place, events.time[rows], size), *sizes)
