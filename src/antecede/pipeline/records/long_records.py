"""Verify long runs of spans or messages: no task holds a whole run, nor does the driver.

The jobs for one run:

1. Spark divides the records into *buckets*: the spans of a trace, or the records of a
   message, are in one bucket. One task infers the events of each bucket
   (:mod:`antecede.pipeline.records.bucket_events`). The driver gets a summary of each.
2. Consistent cuts divide the run into slices, whatever its clocks show. The driver guesses
   them, and a few jobs correct the guess (:mod:`antecede.pipeline.records.cuts`).
3. One task puts the events of each slice into a linear extension
   (:mod:`antecede.pipeline.records.slice_task`). Some slices are arranged again if messages
   have to be dropped.
4. The events are verified in windows, as those of a table of events
   (:mod:`antecede.pipeline.verify.packed_run`).

Spark keeps the events on the disks of the executors between the jobs.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from antecede.errors import AntecedeError, StorageError, TraceError
from antecede.ingest.inference.ordering import AMBIGUOUS_ORDER
from antecede.pipeline.records.arrangement import arrange_run
from antecede.pipeline.records.cut_rounds import cut_search
from antecede.pipeline.records.record_lookup import find_records
from antecede.pipeline.records.record_source import RecordSource, TableSource
from antecede.pipeline.records.records_verdict import RecordsVerdict
from antecede.pipeline.records.run_summary import RunSummary, merge_summaries
from antecede.pipeline.records.slices import SlicePlan
from antecede.pipeline.records.stages import make_buckets
from antecede.pipeline.spark.kept_table import kept_on_disk
from antecede.pipeline.spark.task_files import remove_group
from antecede.pipeline.verify.packed_rows import PACKED_GROUP
from antecede.pipeline.verify.packed_run import PackedVerification
from antecede.pipeline.verify.packed_trace import BLOB_ROWS, PackedTrace
from antecede.pipeline.verify.run_result import MessageRecord, error_row
from antecede.pipeline.verify.spooled_run import SpooledRun
from antecede.pipeline.verify.table_run import TableOptions
from antecede.trace.run_info import RunInfo
from antecede.verify.oracle import MessageId
from antecede.verify.verifier import verify_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

__all__ = ["verify_long_records", "verify_long_run"]

LOG = logging.getLogger("antecede")
BUCKET_ROWS = 1 << 18
"""The records of a bucket, on average."""
SLICE_EVENTS = 1 << 20
"""The events of a slice, on average."""
SLICE_EVENTS_MAX = 1 << 23
"""The most events of a slice; its task needs about 1 GiB."""
IN_CYCLE = "messages in a cycle of happened-before"
NS = 1e9


def verify_long_records(
    selected: "DataFrame",
    runs: Mapping[str, int],
    options: TableOptions,
    *,
    bucket_rows: int = BUCKET_ROWS,
    slice_events: int = SLICE_EVENTS,
    window_rows: int | None = None,
) -> list[dict[str, Any]]:
    """Return a row of :data:`RESULT` for each of these runs; starts several jobs.

    Args:
        selected: The records, under our names of the columns, with ``run``.
        runs: By the name of a run, its number of records.
        options: How to verify them.
        bucket_rows: The records of a bucket.
        slice_events: The events of a slice.
        window_rows: The length of windows; None to choose it.
    """
    found = []
    for run, rows in runs.items():
        records = selected.where(selected["run"] == run).drop("run")
        try:
            verified = verify_long_run(
                TableSource(records, options.rows),
                run,
                rows,
                options,
                bucket_rows=bucket_rows,
                slice_events=slice_events,
                window_rows=window_rows,
            )
            found.append(verified.row(run))
        except StorageError:
            raise
        except AntecedeError as error:
            found.append(error_row(run, error))
    return found


def verify_long_run(
    records: RecordSource,
    run: str,
    rows: int,
    options: TableOptions,
    *,
    bucket_rows: int = BUCKET_ROWS,
    slice_events: int = SLICE_EVENTS,
    window_rows: int | None = None,
) -> RecordsVerdict:
    """Return the verdict on one run; starts several jobs.

    Args:
        records: The records of the run.
        run: The name of the run.
        rows: The number of the records, or an estimate of it.
        options: How to verify them.
        bucket_rows: The records of a bucket.
        slice_events: The events of a slice.
        window_rows: The length of windows; None to choose it.

    Raises:
        TraceError: The run cannot be verified.
    """
    one = _LongRecordsRun(run, records, options, slice_events, window_rows)
    return one.verify(max(1, -(-rows // bucket_rows)))


class _LongRecordsRun:
    """One long run of spans or messages."""

    def __init__(
        self,
        run: str,
        records: RecordSource,
        options: TableOptions,
        slice_events: int,
        window_rows: int | None,
    ) -> None:
        self._run = run
        self._records = records
        self._options = options
        self._slice_events = slice_events
        self._window_rows = window_rows
        self._location = f"run {run!r}"

    def verify(self, bucket_count: int) -> RecordsVerdict:
        """Return the verdict on the run."""
        kind = self._records.kind
        buckets = make_buckets(self._records, bucket_count)
        with ExitStack() as stack:
            buckets = stack.enter_context(kept_on_disk(buckets))
            listed = buckets.select("events", "summary", "error").collect()
            remove_group(self._records.session, PACKED_GROUP)
            _raise_first(self._location, listed)
            summary = merge_summaries((row["summary"] for row in listed), kind)
            events = sum(int(row["events"]) for row in listed)
            LOG.info("%s: %d sends and deliveries", self._location, events)
            plan = self._find_cuts(buckets, summary, events)
            arranged = arrange_run(buckets, plan, stack)
            summary.add_unknown(AMBIGUOUS_ORDER, arranged.ambiguous)
            summary.add_unknown(IN_CYCLE, arranged.in_cycle)

            def find(messages: Iterable[MessageId]) -> dict[MessageId, MessageRecord]:
                return find_records(self._records, buckets, plan, messages)

            return self._verify_blobs(arranged.blobs, arranged.listed, summary, find)

    def _find_cuts(
        self, buckets: "DataFrame", summary: RunSummary, events: int
    ) -> SlicePlan:
        """Return a plan with consistent cuts."""
        plan = summary.plan(self._location, events, self._slice_events)
        search = cut_search(buckets, plan.names, plan.units, self._slice_events)
        found = search.find(plan.frontier)
        largest = int(found.sizes.max(initial=0))
        LOG.info(
            "%s: %d slices of at most %d events", self._location, len(found.sizes), largest
        )
        if largest > SLICE_EVENTS_MAX:
            raise TraceError(
                f"{self._location}: a cycle of happened-before has {largest:,} sends and"
                f" deliveries, and at most {SLICE_EVENTS_MAX:,} are supported: correct the"
                " times, or give a table of events with the column seq"
            )
        return replace(plan, frontier=found.frontier)

    def _verify_blobs(
        self,
        blobs: "DataFrame",
        listed: "list[Row]",
        summary: RunSummary,
        find: Callable[[Iterable[MessageId]], Mapping[MessageId, MessageRecord]],
    ) -> RecordsVerdict:
        """Return the verdict; ``find`` returns the records of messages."""
        ingested = summary.ingested
        info = RunInfo(
            run=self._run,
            complete=self._options.complete,
            names=dict(enumerate(summary.names)),
            missing=ingested.unknown_reasons,
        )
        trace = PackedTrace(
            info, [row["id"] for row in listed], [row["rows"] for row in listed]
        )
        if not listed:
            with SpooledRun(info) as nothing:
                nothing.finish()
                verdict = verify_trace(nothing, with_breakdown=self._options.with_breakdown)
            return RecordsVerdict(
                verdict=replace(verdict, unverified=summary.unverified(0)),
                summary=ingested,
                events=0,
                zero_ns=summary.zero,
            )
        verification = PackedVerification(
            blobs=blobs,
            trace=trace,
            blob_rows=BLOB_ROWS,
            violations_max=self._options.violations_max,
            on_notice=lambda line: LOG.info("%s: %s", self._location, line),
            has_seq=False,
            window_rows=self._window_rows,
            with_breakdown=self._options.with_breakdown,
            has_ranks=False,
        )
        LOG.info("%s: its events are in order", self._location)
        verdict = verification.verify()
        verdict = replace(verdict, unverified=summary.unverified(verdict.deliveries))
        LOG.info("%s: verified", self._location)
        found = verification.find_rows(verdict)
        return RecordsVerdict(
            verdict=verdict,
            summary=ingested,
            events=trace.rows,
            zero_ns=summary.zero,
            found=found,
            records=find(found.sends),
        ).with_ranks()


def _raise_first(location: str, rows: "list[Row]") -> None:
    errors = [row["error"] for row in rows if row["error"] is not None]
    if errors:
        text = min(errors)
        raise TraceError(text if text.startswith(location) else f"{location}: {text}")
