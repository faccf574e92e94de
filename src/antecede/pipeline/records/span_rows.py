"""Pack spans with hashed ids as rows of six words, one row after the other.

A task packs the spans of many buckets at once. It moves a row to its bucket as one block of
48 bytes, in one pass over the spans, which takes less time than one pass for each
column. The rows of a bucket need no Arrow metadata, apart from the names of processes and
kinds.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from antecede.pipeline.spark.batches import Batches
from antecede.pipeline.spark.task_files import get, put
from antecede.pipeline.verify.packed_rows import (
    PACK_ROWS_OF_BUCKETS,
    PACKED,
    PACKED_GROUP,
    pack_rows,
)
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs
from antecede.verify.kernels.stream import Bools

__all__ = ["SpanPacker", "bucket_of", "can_pack", "pack_spans", "unpack_spans"]

MARK = b"antecede spans  "
"""The first bytes of a block of rows; the length of its header and the header as JSON
follow."""
WORD_BYTES = 8
LOCATION, SPAN, PARENT, START, END, CODES = range(6)
"""The words of a row."""
WORDS = 6
KIND_SHIFT, PARENT_SHIFT = 32, 48
"""The last word has the codes of process and kind, and whether the span has a parent."""
OPTIONAL = ("problem", "shared")
"""Columns of spans that a row does not have."""
NO_KIND = ""


def can_pack(spans: pa.RecordBatch) -> bool:
    """Return whether rows can represent these spans: all columns in OPTIONAL are null."""
    return all(
        spans.column(name).null_count == spans.num_rows
        for name in OPTIONAL
        if name in spans.schema.names
    )


def bucket_of(key: Longs, buckets: int) -> Ints:
    """Return the bucket of each key, from its upper 32 bits."""
    upper = key.view(np.uint64) >> np.uint64(32)
    found: Ints = ((upper * np.uint64(buckets)) >> np.uint64(32)).astype(np.int32)
    return found


class _Batch(NamedTuple):
    """Spans that are not packed yet, by span."""

    bucket: Ints
    location: Longs
    span: Longs
    parent: Longs
    start: Longs
    end: Longs
    codes: Longs


class SpanPacker:
    """Collects spans, and packs them by bucket."""

    rows: int
    """The number of spans that are not packed yet."""

    def __init__(self, buckets: int, *, has_location: bool = True) -> None:
        """Pack spans into this number of buckets.

        Args:
            buckets: The number of buckets.
            has_location: Whether spans have locations.
        """
        self._buckets = buckets
        self._has_location = has_location
        self._processes: dict[str, int] = {}
        self._kinds: dict[str, int] = {NO_KIND: 0}
        self._pending: list[_Batch] = []
        self.rows = 0

    def add(
        self,
        bucket: Ints,
        spans: pa.RecordBatch,
        *,
        location: Longs | None = None,
        span: Longs,
        parent: Longs,
    ) -> None:
        """Add spans.

        Args:
            bucket: By span, its bucket.
            spans: The columns ``process``, ``kind``, ``start_ns`` and ``end_ns``; and
                ``parent``, which is null if the span has none.
            location: By span, its file and line, if spans have locations.
            span: By span, the hash of its id.
            parent: By span, the hash of its parent's id.
        """
        has_parent = np.asarray(spans.column("parent").is_valid())
        codes = _encode(spans.column("process"), self._processes)
        codes |= _encode(spans.column("kind").fill_null(NO_KIND), self._kinds) << KIND_SHIFT
        codes |= has_parent.astype(np.int64) << PARENT_SHIFT
        # A kernel would be compiled again for the read-only arrays of Arrow.
        start, end = (np.array(spans.column(n).to_numpy()) for n in ("start_ns", "end_ns"))
        if location is None:
            location = np.zeros(len(bucket), np.int64)
        self._pending.append(_Batch(bucket, location, span, parent, start, end, codes))
        self.rows += len(bucket)

    def pack(self) -> Iterator[dict[str, object]]:
        """Yield a row of :data:`PACKED` for each bucket that has spans, and forget them."""
        counts = np.zeros(self._buckets, np.int64)
        for batch in self._pending:
            counts += np.bincount(batch.bucket, minlength=self._buckets)
        ends = np.cumsum(counts)
        position = ends - counts
        rows = np.empty((self.rows, WORDS), np.int64)
        for batch in self._pending:
            _scatter(*batch, position, rows)
        names = {
            "processes": list(self._processes),
            "kinds": list(self._kinds),
            "has_location": self._has_location,
        }
        header = json.dumps(names).encode()
        header += b" " * (-len(header) % WORD_BYTES)
        head = MARK + len(header).to_bytes(WORD_BYTES, "little") + header
        for bucket in np.flatnonzero(counts).tolist():
            end = int(ends[bucket])
            own = rows[end - int(counts[bucket]) : end]
            data = put(pa.py_buffer(b"".join((head, own.data))), PACKED_GROUP)
            yield {"run": str(bucket), "rows": len(own), "data": data}
        self._pending, self.rows = [], 0


def pack_spans(
    batches: Batches,
    packer: SpanPacker,
    add: Callable[[pa.RecordBatch], bool],
    rest: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> Batches:
    """Yield rows of :data:`PACKED` with the records of a partition or of a file.

    Args:
        batches: The records.
        packer: Collects spans.
        add: Adds a batch to the packer, or returns False if rows cannot represent it.
        rest: Returns another batch with the bucket of each record as ``run``; it is packed
            as Arrow data.
    """
    others, rows = [], 0
    for each in batches:
        if not add(each):
            others.append(rest(each))
            rows += each.num_rows
        if packer.rows >= PACK_ROWS_OF_BUCKETS:
            yield pa.RecordBatch.from_pylist(list(packer.pack()), schema=PACKED)
        if rows >= PACK_ROWS_OF_BUCKETS:
            yield from pack_rows(iter(others), PACK_ROWS_OF_BUCKETS)
            others, rows = [], 0
    yield from pack_rows(iter(others), PACK_ROWS_OF_BUCKETS)
    if packer.rows:
        yield pa.RecordBatch.from_pylist(list(packer.pack()), schema=PACKED)


def unpack_spans(blobs: Sequence[pa.Buffer]) -> tuple[pa.Table, list[pa.Buffer]]:
    """Return the spans of all blobs of a :class:`SpanPacker`, and the other blobs.

    The spans are by location if no two blobs overlap. Without locations, there is no such
    column.
    """
    blocks, others = [], []
    has_location = True
    processes: dict[str, int] = {}
    kinds: dict[str, int] = {NO_KIND: 0}
    for blob in blobs:
        data = get(blob)
        if data.size < len(MARK) or data.slice(0, len(MARK)).to_pybytes() != MARK:
            others.append(blob)
            continue
        at = len(MARK) + WORD_BYTES
        size = int.from_bytes(data.slice(len(MARK), WORD_BYTES).to_pybytes(), "little")
        names = json.loads(data.slice(at, size).to_pybytes())
        has_location &= names["has_location"]
        rows = np.frombuffer(data, np.int64, offset=at + size).reshape(-1, WORDS)
        numbers = (_numbers(names["processes"], processes), _numbers(names["kinds"], kinds))
        blocks.append((rows, *numbers))
    blocks.sort(key=lambda block: int(block[0][0, LOCATION]))
    count = sum(len(rows) for rows, _, _ in blocks)
    words = np.empty((CODES, count), np.int64)
    process, kind = np.empty(count, np.int32), np.empty(count, np.int32)
    has_parent = np.empty(count, np.bool_)
    start = 0
    for rows, process_number, kind_number in blocks:
        _gather(rows, process_number, kind_number, start, words, process, kind, has_parent)
        start += len(rows)
    span = pa.array(words[SPAN])
    columns = {"location": pa.array(words[LOCATION])} if has_location else {}
    columns |= {
        "trace": span,  # The inference only asks whether it is null.
        "span": span,
        "parent": pa.array(words[PARENT], mask=~has_parent),
        "process": _dictionary(process, processes, None),
        "kind": _dictionary(kind, kinds, kinds[NO_KIND]),
        "start_ns": pa.array(words[START]),
        "end_ns": pa.array(words[END]),
    }
    return pa.table(columns), others


def _encode(texts: pa.Array, numbers: dict[str, int]) -> Longs:
    """Return the numbers of texts; new ones are added."""
    encoded = texts.cast(pa.string()).dictionary_encode()
    table = _numbers(encoded.dictionary.to_pylist(), numbers)
    found: Longs = table[encoded.indices.to_numpy()].astype(np.int64)
    return found


def _numbers(names: list[str], numbers: dict[str, int]) -> Ints:
    return np.array([numbers.setdefault(each, len(numbers)) for each in names], np.int32)


def _dictionary(
    code: Ints, numbers: dict[str, int], absent: int | None
) -> pa.DictionaryArray:
    """Return a column of texts, with those that occur; null for the number ``absent``."""
    occurs = np.bincount(code, minlength=len(numbers)) > 0
    if absent is not None:
        occurs[absent] = False
    new = (np.cumsum(occurs) - 1).astype(np.int32)
    indices = pa.array(new[code], mask=None if absent is None else code == absent)
    names = [name for name, number in numbers.items() if occurs[number]]
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


@compiled
def _scatter(
    bucket: Ints,
    location: Longs,
    span: Longs,
    parent: Longs,
    start: Longs,
    end: Longs,
    codes: Longs,
    position: Longs,
    rows: Longs,
) -> None:
    """Write each span to the next row of its bucket."""
    for i in range(bucket.size):
        row = position[bucket[i]]
        position[bucket[i]] = row + 1
        rows[row, LOCATION] = location[i]
        rows[row, SPAN] = span[i]
        rows[row, PARENT] = parent[i]
        rows[row, START] = start[i]
        rows[row, END] = end[i]
        rows[row, CODES] = codes[i]


@compiled
def _gather(
    rows: Longs,
    process_number: Ints,
    kind_number: Ints,
    first: int,
    words: Longs,
    process: Ints,
    kind: Ints,
    has_parent: Bools,
) -> None:
    """Write rows to columns, from the index ``first``, with the numbers of their names."""
    for i in range(rows.shape[0]):
        for word in range(CODES):
            words[word, first + i] = rows[i, word]
        codes = rows[i, CODES]
        process[first + i] = process_number[codes & 0xFFFFFFFF]
        kind[first + i] = kind_number[(codes >> KIND_SHIFT) & 0xFFFF]
        has_parent[first + i] = codes >> PARENT_SHIFT != 0
