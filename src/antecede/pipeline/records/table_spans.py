"""Pack the spans of a table as rows of words, as those of files.

Spark gives the workers few and small columns: a hash in place of each id, nanoseconds, and
whether there is a trace. Spans whose times are texts or fractions are packed as Arrow data.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.timestamps import TimeUnits
from antecede.pipeline.records.span_rows import SpanPacker, can_pack, pack_spans
from antecede.pipeline.spark.batches import Batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["plain_spans", "span_packer", "with_nanoseconds"]

HAS_TRACE = "has_trace"
NEEDED = (HAS_TRACE, "span", "process", "start_ns", "end_ns")
INTEGERS = ("tinyint", "smallint", "int", "bigint")
NS_PER_US = 1000
TIMES = ("start", "end", "sent", "received")


def with_nanoseconds(hashed: "DataFrame", records: "DataFrame") -> "DataFrame":
    """Replace columns of integer times by nanoseconds; one job if there are some.

    The largest number of the run decides the unit, and not that of a bucket.

    Args:
        hashed: The records with hashed ids.
        records: The same records, for the job that finds the largest numbers.
    """
    from pyspark.sql import functions as F

    types = dict(records.dtypes)
    names = [name for name in TIMES if types.get(name) in INTEGERS]
    if not names:
        return hashed
    largest = [F.max(F.abs(F.col(name).cast("double"))).alias(name) for name in names]
    (found,) = records.select(*largest).collect()
    units = TimeUnits()
    units.decide({name: pa.array([found[name]], pa.float64()) for name in names})
    for name in names:
        unit = F.lit(units.unit_ns(name)).cast("bigint")
        time = F.try_multiply(F.col(name).cast("bigint"), unit)
        hashed = hashed.withColumn(f"{name}_ns", time).drop(name)
    return hashed


def plain_spans(hashed: "DataFrame") -> "DataFrame | None":
    """Return the columns that are packed, or None if these spans need another path.

    Args:
        hashed: The spans with hashed ids, and their bucket as ``run``.
    """
    from pyspark.sql import functions as F

    types = dict(hashed.dtypes)
    start, end = (_nanoseconds(name, types) for name in ("start", "end"))
    if start is None or end is None or {"file", "line"} & types.keys():
        return None
    kind = F.col("kind") if "kind" in types else F.lit(None)
    return hashed.select(
        "run",
        F.col("trace").isNotNull().alias(HAS_TRACE),
        "span",
        "parent",
        F.nullif(F.col("process").cast("string"), F.lit("")).alias("process"),
        kind.cast("string").alias("kind"),
        start.alias("start_ns"),
        end.alias("end_ns"),
        *(name for name in ("shared", "problem") if name in types),
    )


def _nanoseconds(name: str, types: dict[str, str]) -> "Column | None":
    """Return a time in nanoseconds, or None if its column has no fixed unit."""
    from pyspark.sql import functions as F

    if types.get(f"{name}_ns") in INTEGERS:
        return F.col(f"{name}_ns").cast("bigint")
    if types.get(name) == "timestamp":
        return F.try_multiply(F.unix_micros(F.col(name)), F.lit(NS_PER_US))
    return None


def span_packer(buckets: int) -> Callable[[Batches], Batches]:
    """Return the function of a task that packs the rows of :func:`plain_spans`.

    Args:
        buckets: The number of buckets.
    """

    def pack(batches: Batches) -> Batches:
        packer = SpanPacker(buckets, has_location=False)

        def add(spans: pa.RecordBatch) -> bool:
            if not _is_complete(spans):
                return False
            packer.add(
                np.array(spans.column("run").to_numpy()),
                spans,
                span=np.array(spans.column("span").to_numpy()),
                parent=spans.column("parent").fill_null(0).to_numpy().copy(),
            )
            return True

        return pack_spans(batches, packer, add, _with_trace)

    return pack


def _is_complete(spans: pa.RecordBatch) -> bool:
    """Return whether each span has all values that a row needs."""
    if any(spans.column(name).null_count for name in NEEDED) or not can_pack(spans):
        return False
    return bool(pc.all(spans.column(HAS_TRACE)).as_py())


def _with_trace(spans: pa.RecordBatch) -> pa.RecordBatch:
    """Return spans with the column ``trace``, of which only the nulls matter."""
    trace = pc.if_else(spans.column(HAS_TRACE), 0, pa.scalar(None, pa.int64()))
    columns = {name: spans.column(name) for name in spans.schema.names}
    del columns[HAS_TRACE]
    columns["trace"] = trace
    return pa.record_batch(list(columns.values()), names=list(columns))
