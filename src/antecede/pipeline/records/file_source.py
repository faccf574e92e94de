"""The records of files as a source: the workers read the files, without Spark.

A worker reads a split of a file several times as fast as it gets the same records from
Spark. It also knows the file and the line of each record; the *location* of a record
consists of both, and events have it as ``record``.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.formats.records import SPAN_SCHEMA, ReadOptions
from antecede.ingest.formats.registry import Format
from antecede.ingest.formats.source import Split
from antecede.ingest.text_hash import hash_texts
from antecede.pipeline.records.span_rows import (
    SpanPacker,
    bucket_of,
    can_pack,
    pack_spans,
)
from antecede.pipeline.spark.batches import Batches, map_batches
from antecede.pipeline.verify.packed_rows import PACKED
from antecede.pipeline.verify.record_locations import divide_locations, join_locations
from antecede.pipeline.verify.run_result import MessageRecord
from antecede.verify.kernels.slot_map import Longs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FileSource", "pack_records"]

FOUND: pa.Schema = pa.schema(
    [
        ("location", pa.int64()),
        ("name", pa.string()),
        ("trace", pa.string()),
        ("span", pa.string()),
    ]
)
COLUMNS = {"name": "message", "trace": "trace", "span": "span"}
"""By our name of a column of :data:`FOUND`, that of the records."""
NOT_NEEDED = ("line", "run", "name")
"""Columns of records that the inference does not need."""


class FileSource:
    """The records of files of one run."""

    def __init__(
        self,
        session: "SparkSession",
        files: Sequence[str],
        chosen: Format,
        options: ReadOptions,
    ) -> None:
        """Take the paths of the files, which are valid on all workers."""
        self.session = session
        self.kind = "spans" if chosen.schema is SPAN_SCHEMA else "messages"
        self._format = chosen
        self._options = options
        self._splits = [
            (number, split)
            for number, file in enumerate(files)
            for split in chosen.splits(file)
        ]

    def packed(self, buckets: int) -> "DataFrame":
        """Return the packed records of each bucket."""

        def pack(file: int, records: Batches) -> Batches:
            return pack_records(records, file, buckets)

        return self._read(self._splits, pack, PACKED)

    def find(self, ids: Collection[int]) -> dict[int, MessageRecord]:
        """Return the records with these locations."""
        wanted = np.array(sorted(ids), np.int64)
        splits = [
            each
            for each, (first, end) in zip(
                self._splits, pairwise(self._bounds()), strict=True
            )
            if np.searchsorted(wanted, first) < np.searchsorted(wanted, end)
        ]

        def find(file: int, records: Batches) -> Batches:
            for each in records:
                location = _locations(each, file)
                chosen = pa.array(np.flatnonzero(np.isin(location, wanted)))
                found = {"location": pa.array(location)}
                for ours, theirs in COLUMNS.items():
                    if theirs in each.schema.names:
                        found[ours] = each.column(theirs)
                columns = [
                    found[name].take(chosen)
                    if name in found
                    else pa.nulls(len(chosen), pa.string())
                    for name in FOUND.names
                ]
                rows = pa.record_batch(columns, schema=FOUND)
                yield rows

        if not splits:
            return {}
        found = self._read(splits, find, FOUND).collect()
        return {row["location"]: _message_record(row.asDict()) for row in found}

    def _bounds(self) -> list[int]:
        """Return the location of the first record of each split, and one after the last."""
        first = [join_locations(number, split.line) for number, split in self._splits]
        return [*first, np.iinfo(np.int64).max]

    def _read(
        self,
        splits: Sequence[tuple[int, Split]],
        work: Callable[[int, Batches], Batches],
        schema: pa.Schema,
    ) -> "DataFrame":
        """Return what ``work`` yields for the records of each split."""
        chosen, options = self._format, self._options

        def read(batches: Batches) -> Batches:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    file, split = splits[index]
                    yield from work(file, chosen.read(split, options))

        indices = self.session.range(0, len(splits), 1, max(1, len(splits)))
        return map_batches(indices, read, schema)


def _message_record(found: dict[str, Any]) -> MessageRecord:
    """Return a record; its file is the number of the file."""
    file, line = divide_locations(np.array([found["location"]]))
    texts = {name: found[name] for name in COLUMNS}
    return MessageRecord(file=str(file[0]), line=int(line[0]), **texts)


def _locations(records: pa.RecordBatch, file: int) -> Longs:
    lines: Longs = records.column("line").to_numpy()
    return join_locations(file, lines)


def pack_records(records: Batches, file: int, buckets: int) -> Batches:
    """Yield rows of :data:`PACKED` with the records of a file."""
    packer = SpanPacker(buckets)

    def add(batch: pa.RecordBatch) -> bool:
        if "span" not in batch.schema.names or not can_pack(batch):
            return False
        _add_spans(packer, batch, file, buckets)
        return True

    def rest(batch: pa.RecordBatch) -> pa.RecordBatch:
        return _hashed(batch, file, buckets)

    yield from pack_spans(records, packer, add, rest)


def _add_spans(
    packer: SpanPacker, records: pa.RecordBatch, file: int, buckets: int
) -> None:
    trace = hash_texts(records.column("trace"))
    span, parent = (hash_texts(records.column(n), trace) for n in ("span", "parent"))
    packer.add(
        bucket_of(trace, buckets),
        records,
        location=_locations(records, file),
        span=span,
        parent=parent,
    )


def _hashed(records: pa.RecordBatch, file: int, buckets: int) -> pa.RecordBatch:
    """Return records with their buckets, their locations, and hashes as ids."""
    columns = {
        name: records.column(name)
        for name in records.schema.names
        if name not in NOT_NEEDED
    }
    location = _locations(records, file)
    if "trace" in columns:
        trace = hash_texts(columns["trace"])
        columns["trace"] = _column(trace, records.column("trace"))
        for name in ("span", "parent"):
            texts = records.column(name)
            columns[name] = _column(hash_texts(texts, trace), texts)
        key = np.where(np.asarray(records.column("trace").is_null()), 0, trace)
    else:
        names = records.column("message")
        hashed = hash_texts(names, hash_texts(records.column("source")))
        columns["message"] = _column(hashed, names)
        key = np.where(np.asarray(names.is_null()), location, hashed)
    columns = {
        "run": pa.array(bucket_of(key, buckets)),
        "location": pa.array(location),
        **columns,
    }
    return pa.record_batch(list(columns.values()), names=list(columns))


def _column(hashed: Longs, texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_null(texts), pa.scalar(None, pa.int64()), pa.array(hashed))
