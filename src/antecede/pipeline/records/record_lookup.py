"""Find the records that the messages of violations were inferred from."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from antecede.pipeline.records.bucket_events import SCHEMAS
from antecede.pipeline.records.slices import SlicePlan, message_numbers, read_events
from antecede.pipeline.records.stages import pack_by_bucket
from antecede.pipeline.verify.packed_rows import large_types, unpack_run
from antecede.pipeline.verify.record_rows import to_records
from antecede.pipeline.verify.run_result import MessageRecord
from antecede.verify.oracle import MessageId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["find_records"]

LINES: pa.Schema = pa.schema(
    [
        ("source", pa.int64()),
        ("number", pa.int64()),
        ("bucket", pa.int32()),
        ("line", pa.int32()),
    ]
)
"""The record of the send of each message, by bucket and line."""
FOUND: pa.Schema = pa.schema(
    [
        ("bucket", pa.int32()),
        ("line", pa.int32()),
        ("name", pa.string()),
        ("trace", pa.string()),
        ("span", pa.string()),
        ("file", pa.string()),
        # The line of the record in the file.
        ("row", pa.int64()),
    ]
)
COLUMNS = {"name": "message", "trace": "trace", "span": "span"}
"""By our name of a column, that of the records."""


def find_records(
    records: "DataFrame",
    buckets: "DataFrame",
    plan: SlicePlan,
    messages: Iterable[MessageId],
    *,
    kind: str,
    count: int,
    large: bool,
) -> dict[MessageId, MessageRecord]:
    """Return the records of the sends of some messages; two jobs.

    Args:
        records: The records of the run.
        buckets: The rows of :func:`antecede.pipeline.records.stages.make_buckets`.
        plan: The slices of the run.
        messages: The messages, with the numbers of the processes in ``plan``.
        kind: ``spans`` or ``messages``.
        count: The number of buckets.
        large: Use columns with 64-bit offsets.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = {(each.source, each.number) for each in messages}
    if not wanted:
        return {}
    locate = _line_finder(wanted, plan, large=large)
    located = buckets.where("events > 0").select("data")
    rows = located.mapInArrow(locate, from_arrow_schema(LINES)).collect()
    lines: dict[int, set[int]] = {}
    for row in rows:
        lines.setdefault(row["bucket"], set()).add(row["line"])
    chosen = pack_by_bucket(records, kind, count, large=large, buckets=sorted(lines))
    found = (
        chosen.repartition(max(1, len(lines)), "run")
        .groupBy("run")
        .applyInArrow(_record_finder(lines, kind, large=large), from_arrow_schema(FOUND))
        .collect()
    )
    by_line = {
        (row["bucket"], row["line"]): MessageRecord(
            file=row["file"], line=row["row"], **{name: row[name] for name in COLUMNS}
        )
        for row in found
    }
    return {
        MessageId(row["source"], row["number"]): by_line[row["bucket"], row["line"]]
        for row in rows
        if (row["bucket"], row["line"]) in by_line
    }


def _line_finder(
    wanted: set[tuple[int, int]], plan: SlicePlan, *, large: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    numbers = np.array(sorted(number for _, number in wanted), np.int64)
    process = {name: number for number, name in enumerate(plan.names)}

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column(0):
                events, bucket, names = read_events(data.as_buffer())
                number = message_numbers(events, plan)
                hits = np.isin(number, numbers) & events["is_send"].to_numpy()
                rows = [
                    {"source": source, "number": int(number[i]), "bucket": bucket,
                     "line": events["line"][i].as_py()}
                    for i in np.flatnonzero(hits).tolist()
                    if ((source := process[names[events["source"][i].as_py()]]),
                        int(number[i])) in wanted
                ]  # fmt: skip
                result = pa.RecordBatch.from_pylist(rows, schema=LINES)
                yield result.cast(large_types(LINES)) if large else result

    return find


def _record_finder(
    lines: dict[int, set[int]], kind: str, *, large: bool
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    def find(key: tuple[pa.Scalar, ...], packed: pa.Table) -> pa.Table:
        bucket = int(key[0].as_py())
        found = _select(packed, kind, bucket, sorted(lines.get(bucket, ())))
        return found.cast(large_types(FOUND)) if large else found

    return find


def _select(packed: pa.Table, kind: str, bucket: int, lines: list[int]) -> pa.Table:
    """Return some records of a bucket, with the schema :data:`FOUND`."""
    schema = SCHEMAS[kind]
    records, places = to_records(unpack_run(packed).table(), schema)
    indexes = pa.array([line - 1 for line in lines], pa.int64())
    chosen = records.take(indexes)
    columns = {
        ours: chosen[theirs] if theirs in schema.names else pa.nulls(len(lines))
        for ours, theirs in COLUMNS.items()
    }
    file, row = (pa.nulls(len(lines)),) * 2 if places is None else places
    if places is not None:
        file, row = file.take(indexes), row.take(indexes)
    columns |= {"file": file, "row": row}
    columns |= {"bucket": pa.repeat(bucket, len(lines)), "line": pa.array(lines)}
    return pa.table([columns[field.name].cast(field.type) for field in FOUND], FOUND)
