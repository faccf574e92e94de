"""Find the records that the messages of violations were inferred from."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from antecede.pipeline.records.record_source import RecordSource
from antecede.pipeline.records.slices import SlicePlan, message_numbers, read_events
from antecede.pipeline.spark.batches import Batches, map_batches
from antecede.pipeline.verify.run_result import MessageRecord
from antecede.verify.oracle import MessageId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["find_records"]

IDS: pa.Schema = pa.schema(
    [("source", pa.int64()), ("number", pa.int64()), ("id", pa.int64())]
)
"""The id of the record of the send of each message."""
EVENT_COLUMNS = ("is_send", "source", "sent", "tie", "record")


def find_records(
    records: RecordSource,
    buckets: "DataFrame",
    plan: SlicePlan,
    messages: Iterable[MessageId],
) -> dict[MessageId, MessageRecord]:
    """Return the records of the sends of some messages; two jobs.

    Args:
        records: The records of the run.
        buckets: The rows of :func:`antecede.pipeline.records.stages.make_buckets`.
        plan: The slices of the run.
        messages: The messages, with the numbers of the processes in ``plan``.
    """
    wanted = {(each.source, each.number) for each in messages}
    if not wanted:
        return {}
    locate = _id_finder(wanted, plan)
    located = buckets.where("events > 0").select("data")
    rows = map_batches(located, locate, IDS).collect()
    ids = {row["id"] for row in rows if row["id"] is not None}
    by_id = records.find(ids)
    return {
        MessageId(row["source"], row["number"]): by_id[row["id"]]
        for row in rows
        if row["id"] in by_id
    }


def _id_finder(
    wanted: set[tuple[int, int]], plan: SlicePlan
) -> Callable[[Batches], Batches]:
    numbers = np.unique(np.array([number for _, number in wanted], np.int64))
    process = {name: number for number, name in enumerate(plan.names)}

    def find(batches: Batches) -> Batches:
        for batch in batches:
            for data in batch.column(0):
                events, _, names = read_events(data.as_buffer(), EVENT_COLUMNS)
                sends = events.filter(events["is_send"])
                number = message_numbers(sends, plan)
                nearest = np.minimum(np.searchsorted(numbers, number), len(numbers) - 1)
                rows = []
                for i in np.flatnonzero(numbers[nearest] == number).tolist():
                    source = process[names[sends["source"][i].as_py()]]
                    if (source, int(number[i])) in wanted:
                        record = sends["record"][i].as_py()
                        row = {"source": source, "number": int(number[i]), "id": record}
                        rows.append(row)
                result = pa.RecordBatch.from_pylist(rows, schema=IDS)
                yield result

    return find
