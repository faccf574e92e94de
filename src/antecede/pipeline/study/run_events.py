"""The events of a run as NumPy arrays, as measuring needs them.

A long run is read in several *ranges* of its messages, in the order of source and number,
so that the memory of a task does not grow with the length of the run. All events of a
message are in one range; the events that concern no message are in the first.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.trace.event import Kind
from antecede.trace.reader import RecordedRun

__all__ = ["COLUMNS", "KIND", "MessageRange", "RunEvents", "message_ranges", "read_events"]

ROWS_MAX = 8_000_000
"""Rows of a run that are in memory at once: about 600 MiB with the copies."""
SAMPLES_PER_RANGE = 1024
NUMBERS = ("process", "seq", "time", "source", "number", "target")
SIZES = ("payload_bytes", "metadata_bytes")
COLUMNS = (*NUMBERS, *SIZES, "kind", "targets")
KIND_NAMES = pa.array([kind.value for kind in Kind])
KIND = {kind: code for code, kind in enumerate(Kind)}
"""The code of each kind in :attr:`RunEvents.kind`."""


class MessageRange(NamedTuple):
    """Consecutive messages, as (source, number): from ``first`` to before ``end``."""

    first: tuple[int, int] | None = None
    """None for the first range, which has the events without a message, too."""
    end: tuple[int, int] | None = None
    """None for the last range."""

    def mask(self, source: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Return which rows are in the range; a row without a message has source -1."""
        inside = np.ones(len(source), np.bool_)
        if self.first is not None:
            inside &= ~_before(source, number, self.first)
        if self.end is not None:
            inside &= _before(source, number, self.end)
        return inside


class RunEvents(NamedTuple):
    """The events of a run, or of a range of its messages; -1 stands for null."""

    process: np.ndarray
    seq: np.ndarray
    time: np.ndarray
    source: np.ndarray
    number: np.ndarray
    target: np.ndarray
    payload_bytes: np.ndarray
    metadata_bytes: np.ndarray
    kind: np.ndarray
    """The code of each kind, of :data:`KIND`."""
    lengths: np.ndarray
    """For each send, the number of its targets; -1 for a broadcast."""
    targets: np.ndarray
    """The targets of all sends, one send after the other."""

    def where(self, *kinds: Kind) -> np.ndarray:
        """Return which events are of these kinds."""
        return np.isin(self.kind, [KIND[kind] for kind in kinds])


def message_ranges(run: RecordedRun, rows: int) -> list[MessageRange]:
    """Divide the messages of a run of this many rows into ranges that fit into memory."""
    count = -(-rows // ROWS_MAX)
    if count <= 1:
        return [MessageRange()]
    step = max(1, rows // (count * SAMPLES_PER_RANGE))
    found: list[np.ndarray] = []
    for first, batch in run.numbered_batches(["source", "number"]):
        source, number = (_numbers(batch.column(name)) for name in ("source", "number"))
        chosen = np.arange(-first % step, len(source), step)
        found.append(np.stack((source[chosen], number[chosen])))
    source, number = np.concatenate(found, axis=1)
    order = np.lexsort((number, source))
    places = np.arange(1, count) * len(order) // count
    cuts = sorted({(int(source[i]), int(number[i])) for i in order[places]})
    return [
        MessageRange(first, end)
        for first, end in zip([None, *cuts], [*cuts, None], strict=True)
    ]


def read_events(run: RecordedRun, messages: MessageRange) -> RunEvents:
    """Read the events of a range of messages."""
    parts = [
        _select(_columns(batch), messages)
        for _, batch in run.numbered_batches(COLUMNS)
    ]  # fmt: skip
    if len(parts) == 1:
        return parts[0]
    empty = _columns(pa.RecordBatch.from_pylist([], schema=_EMPTY))
    return RunEvents(*map(np.concatenate, zip(empty, *parts, strict=True)))


_EMPTY = pa.schema(
    [
        *[(name, pa.float64() if name == "time" else pa.int64()) for name in NUMBERS],
        *[(name, pa.int32()) for name in SIZES],
        ("kind", pa.string()),
        ("targets", pa.list_(pa.int64())),
    ]
)


def _columns(batch: pa.RecordBatch) -> RunEvents:
    kind = batch.column("kind")
    if not pa.types.is_dictionary(kind.type):
        kind = kind.dictionary_encode()
    codes = pc.index_in(kind.dictionary.cast(pa.string()), KIND_NAMES).to_numpy(
        zero_copy_only=False
    )
    code = codes.astype(np.int8)[kind.indices.to_numpy()]
    sends = pa.array(np.flatnonzero(code == KIND[Kind.SEND]))
    lists = batch.column("targets").take(sends)
    return RunEvents(
        **{name: _numbers(batch.column(name)) for name in (*NUMBERS, *SIZES)},
        kind=code,
        lengths=_numbers(pc.list_value_length(lists)),
        targets=_numbers(lists.flatten()),
    )


def _numbers(column: pa.Array) -> np.ndarray:
    """Return the values as 64-bit numbers, -1 for null."""
    if pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    filled = column.fill_null(-1) if column.null_count else column
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _select(events: RunEvents, messages: MessageRange) -> RunEvents:
    """Return the events of a range of messages."""
    if messages.first is None and messages.end is None:
        return events
    chosen = messages.mask(events.source, events.number)
    is_send = events.kind == KIND[Kind.SEND]
    sends = chosen[is_send]
    targets = np.repeat(sends, np.maximum(events.lengths, 0))
    rows = [column[chosen] for column in events[:-2]]
    return RunEvents(*rows, events.lengths[sends], events.targets[targets])  # type: ignore[call-arg]


def _before(source: np.ndarray, number: np.ndarray, end: tuple[int, int]) -> np.ndarray:
    is_before: np.ndarray = (source < end[0]) | ((source == end[0]) & (number < end[1]))
    return is_before
