"""The job of Spark that puts the events of all buckets into a linear extension.

If messages that are dropped have events in several slices, these slices are arranged again,
and the others are kept.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from antecede.pipeline.records.slice_job import (
    slice_blobs,
    slice_job,
)
from antecede.pipeline.records.slice_task import Arranged, arrange_slice
from antecede.pipeline.records.slices import (
    PARTS_GROUP,
    Dropped,
    SlicePlan,
    slices_of_messages,
    split_bucket,
)
from antecede.pipeline.spark.batches import Batches, map_batches
from antecede.pipeline.spark.kept_table import kept_on_disk
from antecede.pipeline.spark.task_files import remove_group
from antecede.pipeline.verify.packed_trace import BLOB_ROWS
from antecede.verify.kernels.stream import Bools

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

__all__ = ["ArrangedRun", "arrange_run"]

LOG = logging.getLogger("antecede")

ARRANGED: pa.Schema = pa.schema(
    [
        ("slice", pa.int32()),
        # The position of a blob in the run, its number of rows, and these; null in other
        # rows.
        ("id", pa.int64()),
        ("rows", pa.int64()),
        ("data", pa.binary()),
        # A bucket, its messages that the slice dropped, and whether the slice must be
        # arranged again because one of its messages has events in other slices.
        ("bucket", pa.int32()),
        ("dropped", pa.binary()),
        ("crosses", pa.bool_()),
        # The number of ambiguous events, and of messages in a cycle of happened-before.
        ("ambiguous", pa.int64()),
        ("in_cycle", pa.int64()),
    ]
)
"""The events of all slices as blobs, and the messages that were dropped."""
SLICES: pa.Schema = pa.schema([("slice", pa.int32())])


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrangedRun:
    """The events of a run in a linear extension."""

    blobs: "DataFrame"
    """The blobs, with the columns ``id``, ``rows`` and ``data``."""
    listed: "list[Row]"
    """``id`` and ``rows`` of the blobs, in the order of the run."""
    ambiguous: int
    """The number of events that were dropped because their order is not determined."""
    in_cycle: int
    """The number of messages that were dropped because they form a cycle."""


def arrange_run(buckets: "DataFrame", plan: SlicePlan, stack: ExitStack) -> ArrangedRun:
    """Put the events of a run into a linear extension; Spark keeps them on disk.

    Args:
        buckets: A table with the events of the buckets in its column ``data``.
        plan: The slices.
        stack: Lets Spark remove the events.
    """
    dropped: Dropped = {}
    wanted: Bools | None = None
    blobs: DataFrame | None = None
    listed: list[Row] = []
    ambiguous = in_cycle = 0
    while True:
        chosen = buckets.where("events > 0").select("data")
        job = _Job(plan, dropped, wanted)
        table = stack.enter_context(kept_on_disk(job.arrange(chosen)))
        columns = [name for name in ARRANGED.names if name != "data"]
        found = table.select(*columns).collect()
        remove_group(buckets.sparkSession, PARTS_GROUP)
        ambiguous += sum(int(row["ambiguous"] or 0) for row in found)
        in_cycle += sum(int(row["in_cycle"] or 0) for row in found)
        LOG.info(
            "%s: %d events of ambiguous order, %d messages in a cycle",
            plan.location, ambiguous, in_cycle,
        )  # fmt: skip
        _add_dropped(dropped, found)
        again = {row["slice"] for row in found if row["crosses"]}
        if again:
            rows = map_batches(chosen, job.find_slices(dropped), SLICES).collect()
            again |= {row["slice"] for row in rows}
        done = [row for row in found if row["id"] is not None]
        if wanted is not None:
            listed = [row for row in listed if not wanted[row["slice"]]]
        listed += done
        part = table.where("id IS NOT NULL").select("slice", "id", "rows", "data")
        if blobs is None:
            blobs = part
        else:
            assert wanted is not None
            blobs = blobs.where(~blobs["slice"].isin(_numbers(wanted))).unionAll(part)
        if not again:
            break
        wanted = np.zeros(plan.slices, np.bool_)
        wanted[list(again)] = True
    listed.sort(key=lambda row: int(row["id"]))
    return ArrangedRun(blobs=blobs, listed=listed, ambiguous=ambiguous, in_cycle=in_cycle)


def _numbers(wanted: Bools) -> list[int]:
    found: list[int] = np.flatnonzero(wanted).tolist()
    return found


def _add_dropped(dropped: Dropped, rows: "list[Row]") -> None:
    for row in rows:
        if row["dropped"] is not None:
            messages = np.frombuffer(row["dropped"], np.int32)
            before = dropped.get(row["bucket"], np.empty(0, np.int32))
            dropped[row["bucket"]] = np.union1d(before, messages)


class _Job:
    """The tasks that arrange some slices."""

    def __init__(self, plan: SlicePlan, dropped: Dropped, wanted: Bools | None) -> None:
        self._plan = plan
        self._dropped = dict(dropped)
        self._wanted = wanted

    def arrange(self, blobs: "DataFrame") -> "DataFrame":
        """Return rows of :data:`ARRANGED`."""
        plan, dropped, wanted = self._plan, self._dropped, self._wanted
        slices = plan.slices if wanted is None else int(np.count_nonzero(wanted))

        def split(data: pa.Buffer) -> Iterator[tuple[int, bytes]]:
            return split_bucket(data, dropped, plan, wanted)

        def arrange(number: int, parts: list[pa.Buffer]) -> Iterator[dict[str, object]]:
            found = arrange_slice(parts, plan, find_ambiguous=wanted is None)
            return _rows(number, found)

        return slice_job(blobs, slices, split, arrange, ARRANGED)

    def find_slices(self, dropped: Dropped) -> Callable[[Batches], Batches]:
        """Return the function of a task that finds the slices of dropped messages."""
        plan = self._plan

        def find(batches: Batches) -> Batches:
            found = np.zeros(plan.slices, np.bool_)
            for batch in batches:
                for data in batch.column(0):
                    found |= slices_of_messages(data.as_buffer(), dropped, plan)
            rows: list[dict[str, object]] = [{"slice": each} for each in _numbers(found)]
            yield pa.RecordBatch.from_pylist(rows, schema=SLICES)

        return find


def _rows(number: int, found: Arranged) -> Iterator[dict[str, object]]:
    """Yield the rows of :data:`ARRANGED` of a slice."""
    yield {
        "slice": number,
        "crosses": found.crosses,
        "ambiguous": found.ambiguous,
        "in_cycle": found.in_cycle,
    }
    for bucket, messages in found.dropped.items():
        yield {"slice": number, "bucket": bucket, "dropped": messages.tobytes()}
    if found.rows is not None:
        yield from slice_blobs(number, found.rows, BLOB_ROWS)
