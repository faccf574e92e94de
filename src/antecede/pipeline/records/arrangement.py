"""The job of Spark that puts the events of all buckets into a linear extension."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.pipeline.records.slices import SlicePlan, arrange_slice, split_bucket
from antecede.pipeline.verify.packed_rows import large_types, write_blob
from antecede.pipeline.verify.packed_trace import BLOB_ROWS, PARTITION_BITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["arrange"]

PARTS: pa.Schema = pa.schema([("slice", pa.int32()), ("data", pa.binary())])
"""One row for each bucket and each slice that its events overlap."""
ARRANGED: pa.Schema = pa.schema(
    [
        # The position of a blob in the run, its number of rows, and these; null in other
        # rows.
        ("id", pa.int64()),
        ("rows", pa.int64()),
        ("data", pa.binary()),
        # The greatest T' - T in the slice.
        ("shift", pa.int64()),
        # The bucket of messages to drop, these, and the number of ambiguous events.
        ("bucket", pa.int32()),
        ("dropped", pa.binary()),
        ("ambiguous", pa.int64()),
        # The number of messages in a cycle of happened-before.
        ("in_cycle", pa.int64()),
    ]
)
"""The events of all slices as blobs, and the messages to drop."""

Batches = Iterator[pa.RecordBatch]


def arrange(
    buckets: "DataFrame",
    dropped: "DataFrame | None",
    plan: SlicePlan,
    *,
    find_ambiguous: bool,
    large: bool,
) -> "DataFrame":
    """Return rows of :data:`ARRANGED`: the events of a run in a linear extension.

    Args:
        buckets: The rows of :func:`make_buckets`.
        dropped: Rows of :data:`ARRANGED` with messages to drop.
        plan: The slices.
        find_ambiguous: Find events whose order the timestamps do not determine.
        large: Use columns with 64-bit offsets.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    chosen = buckets.where("events > 0").select("bucket", "data")
    if dropped is None:
        chosen = chosen.select("data", F.array().cast("array<binary>").alias("dropped"))
    else:
        lists = dropped.groupBy("bucket").agg(F.collect_list("dropped").alias("dropped"))
        chosen = chosen.join(lists, "bucket", "left").select("data", "dropped")
    split = _split_task(plan, large=large)
    task = _slice_task(plan, find_ambiguous=find_ambiguous, large=large)
    return (
        chosen.mapInArrow(split, from_arrow_schema(PARTS))
        .repartition(plan.slices, "slice")
        .sortWithinPartitions("slice")
        .mapInArrow(task, from_arrow_schema(ARRANGED))
    )


def _split_task(plan: SlicePlan, *, large: bool) -> Callable[[Batches], Batches]:
    def split(batches: Batches) -> Batches:
        for batch in batches:
            for data, dropped in zip(*batch.columns, strict=True):
                messages = [each.as_buffer() for each in dropped.values or ()]
                for number, part in split_bucket(data.as_buffer(), messages, plan):
                    row = {"slice": number, "data": part}
                    result = pa.RecordBatch.from_pylist([row], schema=PARTS)
                    yield result.cast(large_types(PARTS)) if large else result

    return split


def _slice_task(
    plan: SlicePlan, *, find_ambiguous: bool, large: bool
) -> Callable[[Batches], Batches]:
    """Return the function of a partition: it gets the parts of some slices, by slice."""

    def arrange_one(number: int, blobs: list[pa.Buffer]) -> list[dict[str, object]]:
        found = arrange_slice(blobs, number, plan, find_ambiguous=find_ambiguous)
        rows: list[dict[str, object]] = [
            {"bucket": bucket, "dropped": messages.tobytes()}
            for bucket, messages in found.dropped.items()
        ]
        if rows:
            rows[0].update(ambiguous=found.ambiguous, in_cycle=found.in_cycle)
        if found.rows is not None:
            for index, start in enumerate(range(0, found.rows.num_rows, BLOB_ROWS)):
                part = found.rows.slice(start, BLOB_ROWS)
                blob = {"id": (number << PARTITION_BITS) + index, "shift": found.shift}
                rows.append({**blob, "rows": part.num_rows, "data": write_blob(part)})
        return rows

    def arrange_partition(batches: Batches) -> Batches:
        current: int | None = None
        blobs: list[pa.Buffer] = []
        for number, blob in _parts(batches):
            if number != current:
                if current is not None:
                    yield from _results(arrange_one(current, blobs), large=large)
                current, blobs = number, []
            blobs.append(blob)
        if current is not None:
            yield from _results(arrange_one(current, blobs), large=large)

    return arrange_partition


def _parts(batches: Batches) -> Iterator[tuple[int, pa.Buffer]]:
    for batch in batches:
        for number, data in zip(*batch.columns, strict=True):
            yield number.as_py(), pa.py_buffer(data.as_py())


def _results(rows: list[dict[str, object]], *, large: bool) -> Batches:
    for row in rows:
        result = pa.RecordBatch.from_pylist([row], schema=ARRANGED)
        yield result.cast(large_types(ARRANGED)) if large else result
