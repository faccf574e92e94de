"""Divide the events of a long run into buckets, so that its order can be found.

The send and all deliveries of a message are in one bucket; other events are in any. The
position of an event in its process is its ``seq``, or its ``step`` in a table without
``seq``. Times only help to guess the cuts (:mod:`antecede.pipeline.records.cuts`); a run
without times is divided by shares.
"""

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.pipeline.records.clock_offsets import find_offsets
from antecede.pipeline.records.cuts import NOTHING
from antecede.pipeline.records.slices import to_blob
from antecede.pipeline.verify.event_rows import EventLoader, ProcessNames
from antecede.pipeline.verify.spooled_run import KIND_TYPE
from antecede.trace.event import Kind
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.kernels.sorting import stable_order
from antecede.verify.kernels.stream import Bools

__all__ = ["BUCKET_EVENTS", "EventBucket", "EventRun", "EventSurvey", "event_bucket"]

NS = 1e9
TIME_MAX_S = 9e9
"""Later times do not fit into a 64-bit number of nanoseconds; they count as unknown."""
UNKNOWN = NOTHING
"""The time of an event without a time."""

BUCKET_EVENTS: pa.Schema = pa.schema(
    [
        # The process as an index into the names of the bucket, and the position in it.
        ("process", pa.int32()),
        ("time", pa.int64()),
        # Whether it is a send; of a delivery, the process and the position of the send.
        ("is_send", pa.bool_()),
        ("source", pa.int32()),
        ("sent", pa.int64()),
        # The index of the message in this bucket.
        ("message", pa.int32()),
        # The time in nanoseconds, or UNKNOWN.
        ("clock", pa.int64()),
        # The columns for the verifier.
        ("event_process", pa.int64()),
        ("event_time", pa.float64()),
        ("kind", KIND_TYPE),
        ("event_source", pa.int64()),
        ("number", pa.int64()),
        ("targets", pa.list_(pa.int64())),
    ]
)
"""All events of a bucket, by process and position. The columns have the meaning of those of
:data:`antecede.pipeline.records.bucket_events.EVENTS`, so that cuts are found alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRun:
    """A run of events whose order is to be found."""

    location: str
    """The text that error messages begin with."""
    names: tuple[str, ...]
    """The names of the processes by number; none if processes are integers."""
    has_seq: bool
    """Whether ``seq`` orders the events of a process; otherwise ``step`` does."""
    is_unique: bool
    """Reject an event that is there twice; otherwise it counts as one event."""
    sample_step: int
    """Every so many events, one is used to guess the cuts."""

    def name(self, process: int) -> str:
        """Return the name of a process."""
        return self.names[process] if self.names else str(process)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBucket:
    """The events of a bucket, and what the driver needs to know of them."""

    blob: bytes
    events: int
    survey: str
    """JSON."""
    samples: bytes
    """The process, the position and the time of some events."""


def event_bucket(rows: pa.Table, bucket: int, run: EventRun) -> EventBucket:
    """Return the events of a bucket.

    Args:
        rows: The rows of the bucket, under our names of the columns.
        bucket: The number of the bucket.
        run: The run.

    Raises:
        TraceError: A needed value is null, or a kind is unknown.
    """
    table = EventLoader(ProcessNames(run.names), run.location).convert(rows)
    at = "seq" if run.has_seq else "step"
    position = np.array(rows[at].combine_chunks().cast(pa.int64()).to_numpy())
    ids, process = np.unique(table["process"].to_numpy(), return_inverse=True)
    order = stable_order(process, position)
    table, position = table.take(pa.array(order)).combine_chunks(), position[order]
    process = process[order].astype(np.int32)
    seconds = np.array(table["time"].to_numpy())
    is_timed = np.abs(seconds) < TIME_MAX_S  # Not of NaN.
    clock: Longs = np.full(len(seconds), UNKNOWN, np.int64)
    clock[is_timed] = np.round(seconds[is_timed] * NS).astype(np.int64)
    kind = table["kind"].combine_chunks().cast(pa.string())
    is_known = np.array(pc.is_valid(table["source"])) & np.array(
        pc.is_valid(table["number"])
    )
    is_send = np.array(pc.equal(kind, Kind.SEND.value)) & is_known
    is_delivery = np.array(pc.equal(kind, Kind.DELIVER.value)) & is_known
    message, is_sent_twice = _messages(table, is_send, is_delivery)
    sender = np.full(int(message.max(initial=0)) + 2, -1, np.int64)
    sends = np.flatnonzero(is_send)
    sender[message[sends]] = sends
    send = sender[message]
    has_send = is_delivery & (send >= 0)
    source, sent = process.copy(), np.full(len(process), NOTHING, np.int64)
    source[has_send] = process[send[has_send]]
    sent[has_send] = position[send[has_send]]
    columns = {
        "process": process,
        "time": position,
        "is_send": is_send,
        "source": source,
        "sent": sent,
        "message": message,
        "clock": clock,
        "event_process": table["process"],
        "event_time": table["time"],
        "event_source": table["source"],
        **{name: table[name] for name in ("kind", "number", "targets")},
    }
    events = pa.table([columns[name] for name in BUCKET_EVENTS.names], BUCKET_EVENTS)
    names = [str(each) for each in ids.tolist()]
    lead = np.where(has_send & is_timed & is_timed[send], clock[send] - clock, NOTHING)
    survey = {
        "processes": names,
        "is_sent_twice": is_sent_twice,
        "leads": _leads(source[has_send], process[has_send], lead[has_send], names),
    }
    chosen = slice(bucket % run.sample_step, None, run.sample_step)
    samples = np.stack((ids[process[chosen]], position[chosen], clock[chosen]))
    return EventBucket(
        blob=to_blob(events, bucket, names),
        events=events.num_rows,
        survey=json.dumps(survey),
        samples=_to_bytes(samples),
    )


def _messages(table: pa.Table, is_send: Bools, is_delivery: Bools) -> tuple[Ints, bool]:
    """Return the index of the message of each event, and whether one is sent twice.

    Events that are neither a send nor a delivery have an index that no message has.
    """
    chosen = np.flatnonzero(is_send | is_delivery)
    source = table["source"].fill_null(0).to_numpy()[chosen].astype(np.int64)
    number = table["number"].fill_null(0).to_numpy()[chosen].astype(np.int64)
    messages = SlotMap()
    found = np.empty(len(is_send), np.int32)
    found[chosen] = messages.add(source, number)
    found[~(is_send | is_delivery)] = len(messages)
    sends = np.bincount(found[is_send], minlength=1)
    return found, bool(sends.max(initial=0) > 1)


def _leads(
    source: Ints, target: Ints, lead: Longs, names: list[str]
) -> list[tuple[str, str, int]]:
    """Return by pair of processes the longest time from a delivery to its send."""
    width = max(1, len(names))
    pair, inverse = np.unique(source.astype(np.int64) * width + target, return_inverse=True)
    worst = np.full(len(pair), NOTHING)
    np.maximum.at(worst, inverse, lead)
    return [
        (names[p // width], names[p % width], most)
        for p, most in zip(pair.tolist(), worst.tolist(), strict=True)
        if most != NOTHING
    ]


def _to_bytes(samples: Longs) -> bytes:
    sink = io.BytesIO()
    np.save(sink, samples)
    return sink.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSurvey:
    """What the driver knows of all buckets of a run."""

    names: tuple[str, ...]
    """The numbers of the processes, ascending, as texts."""
    is_sent_twice: bool
    """Whether a message is sent twice."""
    offsets: Longs
    """By process, the offset of its clock in nanoseconds."""
    samples: tuple[Longs, Longs, Longs]
    """The index of the process, the position and the time of some events."""

    @classmethod
    def merge(cls, surveys: Iterable[str], samples: Iterable[bytes]) -> "EventSurvey":
        """Merge the surveys of all buckets."""
        parts = [json.loads(text) for text in surveys]
        every = {int(name) for part in parts for name in part["processes"]}
        numbers = {str(each): index for index, each in enumerate(sorted(every))}
        leads: dict[tuple[int, int], int] = {}
        for part in parts:
            for source, target, lead in part["leads"]:
                pair = (numbers[source], numbers[target])
                leads[pair] = max(lead, leads.get(pair, lead))
        source, target = np.array(list(leads), np.int64).reshape(-1, 2).T
        lead = np.array(list(leads.values()), np.int64)
        offsets = find_offsets(len(numbers), source, target, lead)
        arrays = [np.load(io.BytesIO(each)) for each in samples]
        found = np.concatenate([np.empty((3, 0), np.int64), *arrays], axis=1)
        process = np.searchsorted(np.array(sorted(every), np.int64), found[0])
        return cls(
            names=tuple(numbers),
            is_sent_twice=any(part["is_sent_twice"] for part in parts),
            offsets=offsets,
            samples=(process, found[1], found[2]),
        )

    def guess(self, cuts: int) -> Longs:
        """Return frontiers by process and cut; without cuts if times are unknown."""
        process, position, clock = self.samples
        if not len(clock) or np.any(clock == UNKNOWN) or cuts < 1:
            return np.empty((len(self.names), 0), np.int64)
        clock = clock + self.offsets[process]
        ends = np.quantile(clock, np.arange(1, cuts + 1) / (cuts + 1), method="nearest")
        cut = np.searchsorted(ends, clock)
        found = np.full((len(self.names), cuts + 1), NOTHING)
        np.maximum.at(found, (process, cut), position)
        return np.ascontiguousarray(np.maximum.accumulate(found, axis=1)[:, :-1])
