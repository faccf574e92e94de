"""Put the events of a long run into a linear extension, by jobs of Spark.

The rows of the run are in any order, and the clocks of its processes show anything. The
order of the events of each process is known, by ``seq`` or else by ``step``, and a message
is sent before it is delivered. The jobs are:

1. Spark divides the rows into buckets (:mod:`antecede.pipeline.records.event_buckets`). The
   driver gets a survey of each, and a sample of the events.
2. A few jobs find consistent cuts (:mod:`antecede.pipeline.records.cuts`).
3. A job puts the events of each slice into a linear extension
   (:mod:`antecede.pipeline.records.event_slices`).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from antecede.errors import AntecedeError, StorageError, TraceError
from antecede.pipeline.records.cut_rounds import cut_search
from antecede.pipeline.records.event_buckets import EventRun, EventSurvey, event_bucket
from antecede.pipeline.records.event_slices import EventPlan, arrange_events, split_events
from antecede.pipeline.records.slice_job import (
    slice_blobs,
    slice_job,
)
from antecede.pipeline.spark.batches import map_batches, map_groups
from antecede.pipeline.spark.kept_table import kept_on_disk
from antecede.pipeline.verify.packed_rows import (
    PACKED,
    row_packer,
    unpack_run,
)
from antecede.pipeline.verify.packed_trace import BLOB_ROWS
from antecede.trace.event import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

__all__ = ["EventOrder", "OrderedEvents", "OrderOptions"]

COLUMNS = ("process", "seq", "step", "time", "kind", "source", "number", "targets")
BUCKET_ROWS = 1 << 18
"""The events of a bucket, on average."""
SLICE_EVENTS = 1 << 19
"""The wanted number of events of a slice."""
SLICE_EVENTS_MAX = 1 << 23
"""The most events of a slice; its task needs about 2 GiB."""
SAMPLE_EVENTS = 1 << 20
"""About the most events that the driver gets to guess the cuts."""

BUCKETS: pa.Schema = pa.schema(
    [
        ("events", pa.int64()),
        ("data", pa.binary()),
        ("survey", pa.string()),
        ("samples", pa.binary()),
        ("error", pa.string()),
    ]
)
"""One row for each bucket."""
ORDERED: pa.Schema = pa.schema(
    [
        ("slice", pa.int32()),
        # The position of a blob in the run, its number of rows, and these.
        ("id", pa.int64()),
        ("rows", pa.int64()),
        ("data", pa.binary()),
        # The error of the slice, if any.
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """The sizes of buckets, slices and blobs."""

    bucket_rows: int = BUCKET_ROWS
    slice_events: int = SLICE_EVENTS
    blob_rows: int = BLOB_ROWS
    """Use columns with 64-bit offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedEvents:
    """The events of a run in a linear extension."""

    blobs: "DataFrame"
    """The blobs, with the columns ``id``, ``rows`` and ``data``."""
    listed: "list[Row]"
    """``id`` and ``rows`` of the blobs, in the order of the run."""


class EventOrder:
    """Finds the order of one run."""

    def __init__(
        self,
        location: str,
        rows: "DataFrame",
        count: int,
        names: tuple[str, ...],
        options: OrderOptions,
        *,
        is_unique: bool = False,
    ) -> None:
        """Take the rows of a run.

        Args:
            location: The text that error messages begin with.
            rows: The rows, under our names of the columns.
            count: Their number.
            names: The names of the processes by number; none if processes are integers.
            options: The sizes of buckets, slices and blobs.
            is_unique: Reject an event that is there twice; otherwise it counts as one.
        """
        chosen = [name for name in COLUMNS if name in rows.columns]
        self._rows = rows.select(*chosen)
        self._count = count
        self._options = options
        self._run = EventRun(
            location=location,
            names=names,
            has_seq="seq" in chosen,
            is_unique=is_unique,
            sample_step=max(1, count // SAMPLE_EVENTS),
        )

    def find(
        self, stack: ExitStack, reject_sent_twice: Callable[[], None]
    ) -> OrderedEvents:
        """Return the events in a linear extension; Spark keeps them on disk.

        Args:
            stack: Lets Spark remove the events.
            reject_sent_twice: Raises TraceError; called if a message is sent twice.

        Raises:
            TraceError: A value is invalid, an event is there twice, or happened-before has
                a cycle.
        """
        options = self._options
        buckets = stack.enter_context(kept_on_disk(self._buckets()))
        listed = buckets.select("events", "survey", "samples", "error").collect()
        _raise_first(listed)
        survey = EventSurvey.merge(
            (row["survey"] for row in listed), (bytes(row["samples"]) for row in listed)
        )
        if survey.is_sent_twice:
            reject_sent_twice()
        plan = self._find_cuts(buckets, survey)
        ordered = stack.enter_context(kept_on_disk(_order_slices(buckets, plan, options)))
        listed = ordered.select("slice", "id", "rows", "error").collect()
        listed.sort(key=lambda row: (int(row["slice"]), int(row["id"] or 0)))
        _raise_first(listed)
        return OrderedEvents(blobs=ordered, listed=listed)

    def _buckets(self) -> "DataFrame":
        from pyspark.sql import functions as F

        count = max(1, -(-self._count // self._options.bucket_rows))
        bucket = F.pmod(self._key(), F.lit(count)).cast("string").alias("run")
        rows = self._rows.select(bucket, *self._rows.columns)
        packed = map_batches(rows, row_packer(), PACKED)
        by_bucket = packed.repartition(count, "run")
        return map_groups(by_bucket, "run", _bucket_task(self._run), BUCKETS)

    def _key(self) -> "Column":
        """Return a number that the send and the deliveries of a message have in common."""
        from pyspark.sql import functions as F

        kinds = [Kind.SEND.value, Kind.DELIVER.value]
        is_message = F.col("kind").isin(kinds) & F.col("source").isNotNull()
        at = "seq" if self._run.has_seq else "step"
        own = F.xxhash64("process", at)
        return F.when(is_message, F.xxhash64("source", "number")).otherwise(own)

    def _find_cuts(self, buckets: "DataFrame", survey: EventSurvey) -> EventPlan:
        options, run = self._options, self._run
        search = cut_search(
            buckets,
            survey.names,
            np.ones(len(survey.names), np.int64),
            options.slice_events,
        )
        cuts = -(-self._count // options.slice_events) - 1
        found = search.find(survey.guess(cuts))
        largest = int(found.sizes.max(initial=0))
        if largest > max(SLICE_EVENTS_MAX, options.slice_events):
            raise TraceError(
                f"{run.location}: no order of its events is a linear extension of"
                f" happened-before: a cycle has about {largest:,} events"
            )
        return EventPlan(
            run=run,
            names=survey.names,
            offsets=survey.offsets,
            frontier=found.frontier,
        )


def _bucket_task(run: EventRun) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return the function of a task: it gets the packed rows of a bucket."""

    def convert(key: tuple[pa.Scalar, ...], packed: pa.Table) -> pa.Table:
        row: dict[str, object] = {"events": 0}
        try:
            found = event_bucket(unpack_run(packed).table(), int(key[0].as_py()), run)
            row.update(events=found.events, data=found.blob)
            row.update(survey=found.survey, samples=found.samples)
        except StorageError:
            raise
        except AntecedeError as error:
            row.update(error=str(error))
        result = pa.Table.from_pylist([row], schema=BUCKETS)
        return result

    return convert


def _order_slices(
    buckets: "DataFrame", plan: EventPlan, options: OrderOptions
) -> "DataFrame":
    """Return rows of :data:`ORDERED`."""
    blob_rows = options.blob_rows

    def split(data: pa.Buffer) -> Iterator[tuple[int, bytes]]:
        return split_events(data, plan)

    def arrange(number: int, parts: list[pa.Buffer]) -> Iterator[dict[str, object]]:
        try:
            rows = arrange_events(parts, plan)
        except TraceError as error:
            return iter([{"slice": number, "error": str(error)}])
        return slice_blobs(number, rows, blob_rows)

    blobs = buckets.select("data")
    return slice_job(blobs, plan.slices, split, arrange, ORDERED)


def _raise_first(rows: "list[Row]") -> None:
    errors = [row["error"] for row in rows if row["error"] is not None]
    if errors:
        raise TraceError(errors[0])
