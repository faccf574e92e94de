"""Where the records of a long run come from: a table of Spark.

A source gives the records of each bucket to the inference, and finds single records again.
:mod:`antecede.pipeline.records.file_source` is the source of files.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from antecede.pipeline.records.hashed_ids import collect_records, with_hashed_ids
from antecede.pipeline.records.table_spans import (
    plain_spans,
    span_packer,
    with_nanoseconds,
)
from antecede.pipeline.spark.batches import map_batches
from antecede.pipeline.verify.packed_rows import PACK_ROWS_OF_BUCKETS, PACKED, row_packer
from antecede.pipeline.verify.run_result import MessageRecord

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["RecordSource", "TableSource"]

COLUMNS = {"name": "message", "trace": "trace", "span": "span", "file": "file"}
"""By our name of a column of texts, that of the records."""


class RecordSource(Protocol):
    """The records of one run."""

    @property
    def kind(self) -> str:
        """``spans`` or ``messages``."""

    @property
    def session(self) -> "SparkSession":
        """The session whose jobs read the records."""

    def packed(self, buckets: int) -> "DataFrame":
        """Return the packed records of each bucket; the column ``run`` is the bucket.

        The records have hashes in place of their ids. Those of a trace, or of a message,
        are in one bucket.

        Args:
            buckets: The number of buckets.
        """

    def find(self, ids: Collection[int]) -> dict[int, MessageRecord]:
        """Return the records with these ids, which events have as ``record``; one job.

        Args:
            ids: The ids.
        """


class TableSource:
    """The records of a table, under our names of the columns, without ``run``."""

    def __init__(self, records: "DataFrame", kind: str) -> None:
        self._records = records
        self.kind = kind

    @property
    def session(self) -> "SparkSession":
        """The session of the table."""
        return self._records.sparkSession

    def packed(self, buckets: int) -> "DataFrame":
        """Return the packed records of each bucket."""
        hashed = with_hashed_ids(self._records, self.kind)
        hashed = with_nanoseconds(hashed, self._records)
        bucket = _bucket_of(self._bucket_key(hashed), buckets)
        keyed = hashed.select(bucket.alias("run"), *hashed.columns)
        spans = plain_spans(keyed) if self.kind == "spans" else None
        if spans is not None:
            return map_batches(spans, span_packer(buckets), PACKED)
        pack = row_packer(rows_max=PACK_ROWS_OF_BUCKETS)
        return map_batches(keyed, pack, PACKED)

    def find(self, ids: Collection[int]) -> dict[int, MessageRecord]:
        """Return the records with these ids; Spark needs no columns of Python for it."""
        columns = (*COLUMNS.values(), "line")
        found = collect_records(self._records, self.kind, ids, columns)
        return {each: _message_record(row.asDict()) for each, row in found.items()}

    def _bucket_key(self, records: "DataFrame") -> "Column":
        """Return a number that the records of a trace, or of a message, share."""
        from pyspark.sql import functions as F

        if self.kind == "spans":
            return F.coalesce("trace", F.lit(0))
        if "message" in records.columns:
            return F.coalesce("message", "record")
        return F.col("record")


def _bucket_of(key: "Column", buckets: int) -> "Column":
    """Return the buckets of :func:`antecede.pipeline.records.span_rows.bucket_of`."""
    from pyspark.sql import functions as F

    upper = F.shiftrightunsigned(key, 32)
    return F.shiftright(upper * F.lit(buckets), 32).cast("int")


def _message_record(found: dict[str, object]) -> MessageRecord:
    texts = {ours: found.get(theirs) for ours, theirs in COLUMNS.items()}
    line = found.get("line")
    return MessageRecord(
        **{name: None if text is None else str(text) for name, text in texts.items()},
        line=line if isinstance(line, int) else None,
    )
