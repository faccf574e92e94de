"""Infer the events of one bucket: the spans of some traces, or some messages.

The records that a message is inferred from are in one bucket, so a task that has a bucket
finds the sends and the deliveries of its messages, as
:func:`antecede.ingest.conversion.infer_run` does for a whole run. The order of the events
of a process needs the events of all buckets, and is found later
(:mod:`antecede.pipeline.records.slices`).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.ingest.conversion import infer_run, new_log
from antecede.ingest.diagnostics import Diagnostic
from antecede.ingest.event_table import (
    MISSING,
    EventTable,
    target_lists,
)
from antecede.ingest.formats.records import (
    HASHED_MESSAGE_SCHEMA,
    HASHED_SPAN_SCHEMA,
    MESSAGE_SCHEMA,
    SPAN_SCHEMA,
)
from antecede.pipeline.records.hashed_ids import ID_COLUMNS
from antecede.pipeline.records.message_events import message_events
from antecede.pipeline.verify.record_locations import (
    join_locations,
    located,
    located_diagnostics,
)
from antecede.pipeline.verify.record_rows import to_records
from antecede.verify.kernels.slot_map import Longs

__all__ = ["EVENTS", "BucketSummary", "Lead", "Location", "infer_bucket"]

SCHEMAS = {"messages": HASHED_MESSAGE_SCHEMA, "spans": HASHED_SPAN_SCHEMA}
TEXT_SCHEMAS = {"messages": MESSAGE_SCHEMA, "spans": SPAN_SCHEMA}
NS_PER_MS = 1_000_000
QUANTILES = 64
"""The times that a summary has, to divide the run into slices of about equal length."""

EVENTS: pa.Schema = pa.schema(
    [
        # The process of the event, as an index into the names of the bucket.
        ("process", pa.int32()),
        # Nanoseconds by the clock of the process.
        ("time", pa.int64()),
        # The position among the events of the process in this bucket.
        ("position", pa.int32()),
        ("is_send", pa.bool_()),
        # The message: its source, the time of its send, and the position of its send among
        # the sends of the source at that time in this bucket.
        ("source", pa.int32()),
        ("sent", pa.int64()),
        ("tie", pa.int32()),
        # The index of the message in this bucket.
        ("message", pa.int32()),
        # The hash of the event's record; null if its messages have no names. Its number
        # among the sorted records of the bucket, from 1, if the ids are texts.
        ("record", pa.int64()),
        ("targets", pa.list_(pa.int32())),
    ]
)
"""The sends and deliveries of a bucket, by process, in the order of its history."""

Lead = tuple[str, str, int, int, int]
"""The messages from one process to another: the two names, the longest time by which a send
is after its delivery, by the two clocks (negative if none is), the number of such messages,
and the number of all messages."""

Location = tuple[str, int, str | None]
"""A file, a line, and the process of the record if it is known."""


@dataclass(slots=True, kw_only=True)
class BucketSummary:
    """What the driver needs to know of a bucket, or of all buckets of a run."""

    records: int = 0
    unknown: int = 0
    deliveries: int = 0
    """The number of deliveries among the events."""
    missing_deliveries: int = 0
    """The number of deliveries that are not known."""
    has_more_missing: bool = False
    """Whether an unknown number of deliveries is missing beside these."""
    missing: dict[str, int] = field(default_factory=dict)
    """By description, how many records lack information."""
    notes: dict[str, int] = field(default_factory=dict)
    locations: dict[str, list[Location]] = field(default_factory=dict)
    """By description, the first locations, if the records have files and lines."""
    assumptions: list[str] = field(default_factory=list)
    processes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name: the number of events, and of those at a whole millisecond."""
    leads: list[Lead] = field(default_factory=list)
    quantiles: list[int] = field(default_factory=list)
    """Times of events at equal distances, with the first and the last."""

    def to_json(self) -> str:
        """Return the summary as text."""
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)})

    @classmethod
    def from_json(cls, text: str) -> "BucketSummary":
        """Return a summary from the text of :meth:`to_json`."""
        found = json.loads(text)
        found["processes"] = {n: tuple(each) for n, each in found["processes"].items()}
        found["leads"] = [tuple(each) for each in found["leads"]]
        for name, places in found["locations"].items():
            found["locations"][name] = [tuple(each) for each in places]
        return cls(**found)


def infer_bucket(
    rows: pa.Table, kind: str, *, is_hashed: bool = True
) -> tuple[pa.Table, list[str], BucketSummary]:
    """Infer the sends and deliveries of a bucket.

    Args:
        rows: The records, under our names of the columns.
        kind: ``spans`` or ``messages``.
        is_hashed: Whether their ids are hashes; otherwise they are texts.

    Returns:
        A table of :data:`EVENTS`, the names of its processes, and the summary.
    """
    schema = (SCHEMAS if is_hashed else TEXT_SCHEMAS)[kind]
    records, places = to_records(rows, schema)
    log = new_log(kind, schema)
    for batch in records.to_batches():
        log.add("table", batch)
    try:
        table, summary, _ = infer_run(log, "bucket", schema, with_skew=False)
    except TraceError:
        if log.read:
            raise
        unread = located_diagnostics(log.missing.collected(), places)
        lost = BucketSummary(
            records=log.records,
            unknown=log.records,
            has_more_missing=True,
            missing={each.description: each.count for each in unread},
            locations=_locations(unread),
        )
        return EVENTS.empty_table(), [], lost
    summary = located(summary, places)
    ids = records[ID_COLUMNS[kind] if is_hashed else "line"]
    if places is not None and "location" in rows.schema.names:
        file, line = places
        ids = pa.chunked_array([join_locations(file.to_numpy(), line.to_numpy())])
    events = _message_events(table, ids)
    return (
        events,
        table.names,
        BucketSummary(
            records=summary.records,
            unknown=summary.unknown,
            deliveries=int(np.count_nonzero(~events["is_send"].to_numpy())),
            missing_deliveries=int(np.count_nonzero(table.kind == MISSING)),
            has_more_missing=table.has_more_missing,
            missing={each.description: each.count for each in summary.missing},
            notes={each.description: each.count for each in summary.notes},
            locations=_locations((*summary.missing, *summary.notes)),
            assumptions=list(summary.assumptions),
            processes=_processes(table),
            leads=_leads(events, table.names),
            quantiles=_quantiles(events["time"].to_numpy()),
        ),
    )


def _locations(found: Iterable[Diagnostic]) -> dict[str, list[Location]]:
    return {
        each.description: [(at.file, at.line, at.process) for at in each.locations]
        for each in found
        if each.locations
    }


def _message_events(table: EventTable, ids: pa.ChunkedArray) -> pa.Table:
    """Return the events; ``ids`` are those of the sorted records of the bucket."""
    rows, columns = message_events(table)
    columns["record"] = ids.take(pa.array(table.line[rows] - 1)).combine_chunks()
    columns["targets"] = target_lists(table, rows).cast(pa.list_(pa.int32()))
    return pa.table([columns[name] for name in EVENTS.names], schema=EVENTS)


def _processes(table: EventTable) -> dict[str, tuple[int, int]]:
    assert table.time_ns is not None
    total = np.bincount(table.process, minlength=len(table.names)).tolist()
    is_coarse = table.time_ns % NS_PER_MS == 0
    coarse = np.bincount(table.process[is_coarse], minlength=len(table.names)).tolist()
    return {
        name: (count, whole)
        for name, count, whole in zip(table.names, total, coarse, strict=True)
    }


def _leads(events: pa.Table, names: list[str]) -> list[Lead]:
    got = np.flatnonzero(~events["is_send"].to_numpy())
    source, target = events["source"].to_numpy()[got], events["process"].to_numpy()[got]
    lead = events["sent"].to_numpy()[got] - events["time"].to_numpy()[got]
    width = max(1, len(names))
    pair = source.astype(np.int64) * width + target
    # NumPy sorts numbers of 16 bits by their digits, in linear time.
    order = np.argsort(pair.astype(np.min_scalar_type(width * width)), kind="stable")
    pair, lead = pair[order], lead[order]
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    if not len(first):
        return []
    worst = np.maximum.reduceat(lead, first).tolist()
    early = np.add.reduceat((lead > 0).astype(np.int64), first).tolist()
    total = np.diff(np.append(first, len(pair))).tolist()
    return [
        (names[p // width], names[p % width], worst[i], early[i], total[i])
        for i, p in enumerate(pair[first].tolist())
    ]


def _quantiles(times: Longs) -> list[int]:
    if not len(times):
        return []
    chosen = np.linspace(0, len(times) - 1, QUANTILES + 1).astype(np.int64)
    found: list[int] = np.sort(times)[chosen].tolist()
    return found
