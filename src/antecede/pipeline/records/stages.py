"""The job of Spark that infers the events of a long run of records, in buckets.

Rows are packed before a shuffle (:mod:`antecede.pipeline.verify.packed_rows`), because
Spark shuffles few large rows faster than many small ones.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import AntecedeError, StorageError
from antecede.pipeline.records.bucket_events import BucketSummary, infer_bucket
from antecede.pipeline.records.record_source import RecordSource
from antecede.pipeline.records.slices import to_blob
from antecede.pipeline.records.span_rows import unpack_spans
from antecede.pipeline.spark.batches import map_groups
from antecede.pipeline.verify.packed_rows import PackedRun, unpack_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["make_buckets", "unpack_records"]

BUCKETS: pa.Schema = pa.schema(
    [
        ("bucket", pa.int32()),
        # The number of sends and deliveries, and these.
        ("events", pa.int64()),
        ("data", pa.binary()),
        # A BucketSummary.
        ("summary", pa.string()),
        # The error of the inference, if any.
        ("error", pa.string()),
    ]
)
"""One row for each bucket."""
NOT_NEEDED = ["position"]
"""Columns of the events of a bucket that slices do not need."""


def make_buckets(records: RecordSource, count: int) -> "DataFrame":
    """Return a row of :data:`BUCKETS` for each bucket of a run.

    Args:
        records: The records of the run.
        count: The number of buckets.
    """
    task = _bucket_task(records.kind)
    packed = records.packed(count).repartition(count, "run")
    return map_groups(packed, "run", task, BUCKETS)


def _bucket_task(kind: str) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return the function of a task: it gets the packed records of a bucket."""

    def infer(key: tuple[pa.Scalar, ...], packed: pa.Table) -> pa.Table:
        bucket = int(key[0].as_py())
        row: dict[str, object] = {"bucket": bucket, "events": 0, "summary": None}
        try:
            events, names, summary = infer_bucket(unpack_records(packed), kind)
            row.update(events=events.num_rows, summary=summary.to_json())
            row["data"] = to_blob(events.drop_columns(NOT_NEEDED), bucket, names)
        except StorageError:
            raise
        except AntecedeError as error:
            row.update(error=str(error), summary=BucketSummary().to_json())
        result = pa.Table.from_pylist([row], schema=BUCKETS)
        return result

    return infer


def unpack_records(packed: pa.Table) -> pa.Table:
    """Return the records of a bucket."""
    run = unpack_run(packed)
    spans, others = unpack_spans(run.blobs)
    if not others:
        return spans
    rest = PackedRun(blobs=tuple(others), rows=0, in_order=False).table()
    if not spans.num_rows:
        return rest
    spans = spans.cast(
        pa.schema([(each.name, rest.schema.field(each.name).type) for each in spans.schema])
    )
    return pa.concat_tables([spans, rest], promote_options="default").combine_chunks()
