"""Collect the records of a run until all records that belong together have arrived.

Spans belong together if they have one trace, and messages if they have one source and one
name. Such a *group* is *closed* when it has been quiet for the watermark, or at the latest
:data:`LIFETIME` watermarks after its first record: then its events are inferred. A record
of a group that was closed within the last :data:`REMEMBERED` watermarks is *late*.

The time is the highest time of the records so far, and a record is stamped with it at its
arrival. So the clocks of the processes need not agree.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from antecede.pipeline.records.bucket_events import TEXT_SCHEMAS
from antecede.pipeline.verify.event_rows import ProcessNames
from antecede.pipeline.verify.record_rows import to_records
from antecede.verify.kernels.slot_map import Longs

__all__ = ["LIFETIME", "NEVER_NS", "OpenRecords", "processes_of"]

LIFETIME = 4
"""The most watermarks for which a group is open, and for which an event waits."""
REMEMBERED = 2
"""The number of watermarks for which the key of a closed group is remembered."""
NEVER_NS = np.iinfo(np.int64).max
NS = 1e9
ALONE = np.uint64(0)
STAMP = pa.field("stamp", pa.float64())
"""The time at the arrival of a record."""
NOT_STORED = ("line", "problem", "run", "name")
OPEN_SCHEMAS: dict[str, pa.Schema] = {
    kind: pa.schema([*(each for each in schema if each.name not in NOT_STORED), STAMP])
    for kind, schema in TEXT_SCHEMAS.items()
}
"""By kind of records, the columns that are stored."""
TIMES = {"messages": ("sent_ns", "received_ns"), "spans": ("start_ns", "end_ns")}
STARTS = {
    "messages": (("source", "sent_ns"), ("target", "received_ns")),
    "spans": (("process", "start_ns"),),
}
"""By kind of records, the columns of processes and of their first events."""


class OpenRecords:
    """The records whose groups are not closed."""

    table: pa.Table
    """The records, with a schema of :data:`OPEN_SCHEMAS`."""
    now: float
    """The highest time of the records so far, in seconds."""
    closed_key: "np.ndarray"
    """The hashes of the groups that were closed."""
    closed_stamp: "np.ndarray"
    """The time at which each of them was closed."""
    records: int
    """The number of records that arrived, with those that could not be read."""
    unread: int
    """The number of records that could not be read."""

    def __init__(self, kind: str, delay: float) -> None:
        """Start with no records.

        Args:
            kind: ``spans`` or ``messages``.
            delay: The watermark in seconds.
        """
        self.kind, self.delay = kind, delay
        self.table = OPEN_SCHEMAS[kind].empty_table()
        self.now = float("-inf")
        self.closed_key = np.empty(0, np.uint64)
        self.closed_stamp = np.empty(0, np.float64)
        self.records = self.unread = 0

    def add(self, rows: pa.Table) -> pa.Table:
        """Add the records that arrived together; return those that are late.

        Args:
            rows: The records, under our names of the columns.
        """
        records, _ = to_records(rows, TEXT_SCHEMAS[self.kind])
        self.records += records.num_rows
        is_read = pc.is_null(records["problem"])
        stored = [name for name in records.schema.names if name not in NOT_STORED]
        records = records.filter(is_read).select(stored)
        self.unread += rows.num_rows - records.num_rows
        if not records.num_rows:
            return records
        highest = [pc.max(records[name]).as_py() for name in TIMES[self.kind]]
        known = [time / NS for time in highest if time is not None]
        self.now = max(self.now, *known)
        group, key = _groups(records, self.kind)
        is_late = (np.isin(key, self.closed_key) & (key != ALONE))[group]
        kept = records.filter(pa.array(~is_late))
        stamps = pa.array(np.full(kept.num_rows, self.now))
        kept = kept.append_column(STAMP, stamps).cast(OPEN_SCHEMAS[self.kind])
        self.table = pa.concat_tables([self.table, kept]).combine_chunks()
        return records.filter(pa.array(is_late))

    def close(self, *, everything: bool = False) -> pa.Table:
        """Remove and return the records of the groups that are closed now.

        Args:
            everything: Close all groups.
        """
        is_remembered = self.closed_stamp >= self.now - REMEMBERED * self.delay
        self.closed_key = self.closed_key[is_remembered]
        self.closed_stamp = self.closed_stamp[is_remembered]
        if not self.table.num_rows:
            return self.table
        group, key = _groups(self.table, self.kind)
        stamp = self.table["stamp"].to_numpy()
        first, last = np.full(len(key), np.inf), np.full(len(key), -np.inf)
        np.minimum.at(first, group, stamp)
        np.maximum.at(last, group, stamp)
        is_closed = last < self.now - self.delay
        is_closed |= first < self.now - LIFETIME * self.delay
        is_closed |= everything
        closed = key[is_closed & (key != ALONE)]
        self.closed_key = np.append(self.closed_key, closed)
        self.closed_stamp = np.append(self.closed_stamp, np.full(len(closed), self.now))
        chosen = pa.array(is_closed[group])
        found = self.table.filter(chosen)
        self.table = self.table.filter(pc.invert(chosen)).combine_chunks()
        return found

    def earliest_times(self, names: ProcessNames) -> Longs:
        """Return by process a time before which it has no event of these records."""
        found = [
            (names.encode(self.table[process].combine_chunks()), self.table[time])
            for process, time in STARTS[self.kind]
        ]
        earliest: Longs = np.full(len(names.numbers), NEVER_NS, np.int64)
        for process, time in found:
            is_known = pc.is_valid(time)
            at = process.filter(is_known.combine_chunks()).to_numpy()
            np.minimum.at(earliest, at, time.filter(is_known).to_numpy())
        return earliest


def processes_of(records: pa.Table, kind: str) -> Sequence[str]:
    """Return the processes that have an event of some records."""
    found: set[str] = set()
    for process, _ in STARTS[kind]:
        found.update(pc.unique(records[process]).to_pylist())
    return sorted(found)


def _groups(records: pa.Table, kind: str) -> tuple[Longs, "np.ndarray"]:
    """Return the index of the group of each record, and by group the hash of its key.

    A message without a name is a group of its own, with the hash :data:`ALONE`.
    """
    if kind == "spans":
        text = records["trace"]
    else:
        text = pc.binary_join_element_wise(records["source"], records["message"], "\0")
    encoded = text.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    names = np.array(encoded.dictionary.to_pylist(), object)
    key = pd.util.hash_array(names, categorize=False)
    group: Longs = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    alone = np.flatnonzero(group < 0)
    group[alone] = len(key) + np.arange(len(alone))
    return group, np.append(key, np.full(len(alone), ALONE))
