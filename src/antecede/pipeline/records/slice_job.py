"""A job of Spark that splits buckets by slice, and arranges each slice in a task."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.pipeline.spark.batches import Batches, map_batches
from antecede.pipeline.verify.packed_rows import write_blob
from antecede.pipeline.verify.packed_trace import PARTITION_BITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["slice_blobs", "slice_job"]

PARTS: pa.Schema = pa.schema([("slice", pa.int32()), ("data", pa.binary())])
"""One row for each bucket and each slice in which it has events."""

Row = dict[str, object]


def slice_job(
    blobs: "DataFrame",
    slices: int,
    split: Callable[[pa.Buffer], Iterator[tuple[int, bytes]]],
    arrange: Callable[[int, list[pa.Buffer]], Iterator[Row]],
    schema: pa.Schema,
) -> "DataFrame":
    """Return the rows that tasks yield for the slices of a run.

    Args:
        blobs: The events of the buckets, in one column.
        slices: The number of slices.
        split: Yields for each slice its number and the events of a bucket in it.
        arrange: Yields the rows of a slice, from its number and all its parts.
        schema: The schema of these rows.
    """

    def split_partition(batches: Batches) -> Batches:
        for batch in batches:
            for data in batch.column(0):
                parts = split(data.as_buffer())
                rows: list[Row] = [{"slice": each, "data": part} for each, part in parts]
                # A batch for each row would take longer than the rows.
                yield pa.RecordBatch.from_pylist(rows, schema=PARTS)

    def arrange_partition(batches: Batches) -> Batches:
        current: int | None = None
        parts: list[pa.Buffer] = []
        for batch in batches:
            for each, data in zip(*batch.columns, strict=True):
                number = each.as_py()
                if current is not None and number != current:
                    yield pa.RecordBatch.from_pylist(list(arrange(current, parts)), schema)
                    parts = []
                current = number
                parts.append(data.as_buffer())
        if current is not None:
            yield pa.RecordBatch.from_pylist(list(arrange(current, parts)), schema)

    parts = map_batches(blobs, split_partition, PARTS)
    by_slice = parts.repartition(slices, "slice").sortWithinPartitions("slice")
    return map_batches(by_slice, arrange_partition, schema)


def slice_blobs(number: int, rows: pa.Table, blob_rows: int) -> Iterator[Row]:
    """Yield the rows of a slice as blobs, whose ids ascend with the order of the run."""
    for index, start in enumerate(range(0, rows.num_rows, blob_rows)):
        part = rows.slice(start, blob_rows)
        yield {
            "slice": number,
            "id": (number << PARTITION_BITS) + index,
            "rows": part.num_rows,
            "data": write_blob(part),
        }
