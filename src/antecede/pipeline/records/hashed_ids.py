"""Replace the ids of records by 64-bit hashes, before Spark gives the records to Python.

Spark hands a number to Python several times as fast as a text, and the inference compares
numbers faster than texts. ``trace`` becomes a hash of the id of the trace, ``span`` and
``parent`` become hashes of the id of the trace and their own, and ``message`` becomes a
hash of the source and the name of the message. Messages also get the column ``record``, a
hash of the whole record. The hashes of files (:mod:`antecede.ingest.text_hash`) are equal
to these, except those of whole records.

Two records are confused only if these hashes are equal, and they are in one bucket. Among
a billion spans in 4,000 buckets, there is such a pair with a probability of about 1 in
150,000; the result then has two more incomplete spans.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from antecede.ingest.formats.records import SPAN_IDS
from antecede.ingest.formats.span_csv import ROOTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

__all__ = ["ID_COLUMNS", "collect_records", "with_hashed_ids"]

ID_COLUMNS = {"spans": "span", "messages": "record"}
"""By kind, the column whose hash identifies a record."""
NOT_INFERRED_FROM = ("name",)
"""Columns that the inference does not need."""


def with_hashed_ids(records: "DataFrame", kind: str) -> "DataFrame":
    """Return records with hashes in place of their ids; an empty id becomes null.

    Args:
        records: The records, under our names of the columns.
        kind: ``spans`` or ``messages``.
    """
    return records.drop(*NOT_INFERRED_FROM).withColumns(_hashes(records, kind))


def collect_records(
    records: "DataFrame", kind: str, ids: Collection[int], columns: Collection[str]
) -> "dict[int, Row]":
    """Return these columns of some records, by hash; one job.

    Args:
        records: The records, under our names of the columns, with texts as ids.
        kind: ``spans`` or ``messages``.
        ids: The hashes of the records.
        columns: The names of the columns, of which absent ones are left out.
    """
    if not ids:
        return {}
    chosen = _hashes(records, kind)[ID_COLUMNS[kind]]
    kept = [records[name] for name in columns if name in records.columns]
    found = records.select(chosen.alias("id"), *kept).where(chosen.isin(list(ids)))
    return {row["id"]: row for row in found.collect()}


def _hashes(records: "DataFrame", kind: str) -> "dict[str, Column]":
    from pyspark.sql import functions as F

    if kind == "messages":
        found = {"record": F.xxhash64(*records.columns)}
        if "message" in records.columns:
            source, message = (_text(name) for name in ("source", "message"))
            hashed = F.xxhash64(source, message)
            found["message"] = F.when(_has_text(message), hashed)
        return found
    trace, span, parent = (_text(name) for name in SPAN_IDS)
    is_child = _has_text(parent) & ~parent.isin(ROOTS.to_pylist())
    return {
        "trace": F.when(_has_text(trace), F.xxhash64(trace)),
        "span": F.when(_has_text(span), F.xxhash64(trace, span)),
        "parent": F.when(is_child, F.xxhash64(trace, parent)),
    }


def _text(name: str) -> "Column":
    from pyspark.sql import functions as F

    return F.col(name).cast("string")


def _has_text(column: "Column") -> "Column":
    return column.isNotNull() & (column != "")
