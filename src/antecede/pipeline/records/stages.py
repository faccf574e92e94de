"""The job of Spark that infers the events of a long run of records, in buckets.

Rows are packed before a shuffle (:mod:`antecede.pipeline.verify.packed_rows`), because
Spark shuffles few large rows faster than many small ones.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import AntecedeError, StorageError
from antecede.pipeline.records.bucket_events import BucketSummary, infer_bucket
from antecede.pipeline.records.hashed_ids import with_hashed_ids
from antecede.pipeline.records.slices import to_blob
from antecede.pipeline.verify.packed_rows import (
    PACKED,
    large_types,
    row_packer,
    unpack_run,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["make_buckets", "pack_by_bucket"]

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


def make_buckets(
    records: "DataFrame", kind: str, count: int, *, large: bool
) -> "DataFrame":
    """Return a row of :data:`BUCKETS` for each bucket of a run.

    Args:
        records: The records of one run, under our names of the columns, without ``run``.
        kind: ``spans`` or ``messages``.
        count: The number of buckets.
        large: Use columns with 64-bit offsets.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    packed = pack_by_bucket(records, kind, count, large=large)
    return (
        packed.repartition(count, "run")
        .groupBy("run")
        .applyInArrow(_bucket_task(kind, large=large), from_arrow_schema(BUCKETS))
    )


def pack_by_bucket(
    records: "DataFrame", kind: str, count: int, *, large: bool
) -> "DataFrame":
    """Return the packed records of each bucket; ``run`` is the bucket.

    The records have hashes in place of their ids.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    hashed = with_hashed_ids(records, kind)
    bucket = F.pmod(_bucket_key(hashed, kind), F.lit(count)).cast("int")
    keyed = hashed.select(bucket.alias("run"), *hashed.columns)
    return keyed.mapInArrow(row_packer(large=large), from_arrow_schema(PACKED))


def _bucket_key(records: "DataFrame", kind: str) -> "Column":
    """Return a number that the records of a trace, or of a message, have in common."""
    from pyspark.sql import functions as F

    if kind == "spans":
        return F.coalesce("trace", F.lit(0))
    if "message" in records.columns:
        return F.coalesce("message", "record")
    return F.col("record")


def _bucket_task(
    kind: str, *, large: bool
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return the function of a task: it gets the packed records of a bucket."""

    def infer(key: tuple[pa.Scalar, ...], packed: pa.Table) -> pa.Table:
        bucket = int(key[0].as_py())
        row: dict[str, object] = {"bucket": bucket, "events": 0, "summary": None}
        try:
            events, names, summary = infer_bucket(unpack_run(packed).table(), kind)
            row.update(events=events.num_rows, summary=summary.to_json())
            row["data"] = to_blob(events, bucket, names)
        except StorageError:
            raise
        except AntecedeError as error:
            row.update(error=str(error), summary=BucketSummary().to_json())
        result = pa.Table.from_pylist([row], schema=BUCKETS)
        return result.cast(large_types(BUCKETS)) if large else result

    return infer
