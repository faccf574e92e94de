"""Verify long runs of spans or messages: no task holds a whole run, nor does the driver.

The jobs for one run:

1. Spark divides the records into *buckets*: the spans of a trace, or the records of a
   message, are in one bucket. One task infers the events of each bucket
   (:mod:`antecede.pipeline.records.bucket_events`). The driver gets a summary of each.
2. The driver chooses offsets for the clocks, and slices of time. One task puts the events
   of each slice into a linear extension (:mod:`antecede.pipeline.records.slices`). This is
   repeated if messages have to be dropped, or if clocks differ by more than was assumed.
3. The events are verified in windows, as those of a table of events
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
from antecede.pipeline.records.record_lookup import find_records
from antecede.pipeline.records.records_verdict import RecordsVerdict
from antecede.pipeline.records.run_summary import RunSummary, merge_summaries
from antecede.pipeline.records.slices import SlicePlan
from antecede.pipeline.records.stages import arrange, make_buckets
from antecede.pipeline.spark.kept_table import kept_on_disk
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
SLICE_EVENTS = 1 << 19
"""The events of a slice, on average."""
SLICE_EVENTS_MAX = 1 << 23
"""The most events that the task of a slice may need, estimated; about 1 GiB."""
REACH_GROWTH = 4
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
                records,
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
    records: "DataFrame",
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
        records: The records of the run, without ``run``.
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
        records: "DataFrame",
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
        kind, large = self._options.rows, self._options.large
        buckets = make_buckets(self._records, kind, bucket_count, large=large)
        with ExitStack() as stack:
            buckets = stack.enter_context(kept_on_disk(buckets))
            listed = buckets.select("events", "summary", "error").collect()
            _raise_first(self._location, listed)
            summary = merge_summaries((row["summary"] for row in listed), kind)
            events = sum(int(row["events"]) for row in listed)
            LOG.info("%s: %d sends and deliveries", self._location, events)
            arranged, listed, plan = self._arrange(buckets, summary, events, stack)
            rows = sorted(
                (row for row in listed if row["id"] is not None), key=lambda row: row["id"]
            )

            def find(messages: Iterable[MessageId]) -> dict[MessageId, MessageRecord]:
                return find_records(
                    self._records,
                    buckets,
                    plan,
                    messages,
                    kind=kind,
                    count=bucket_count,
                    large=large,
                )

            blobs = arranged.where("id IS NOT NULL")
            return self._verify_blobs(blobs, rows, summary, find)

    def _arrange(
        self, buckets: "DataFrame", summary: RunSummary, events: int, stack: ExitStack
    ) -> "tuple[DataFrame, list[Row], SlicePlan]":
        """Return rows of :data:`ARRANGED` with the order of the run, and their sizes."""
        plan = summary.plan(self._location, events, self._slice_events)
        dropped: DataFrame | None = None
        find_ambiguous = True
        while True:
            if summary.slice_events(plan, events) > SLICE_EVENTS_MAX:
                raise TraceError(
                    f"{self._location}: the clocks of its processes differ by"
                    f" {plan.reach / 2 / NS:.3g} s or more, and not by a constant: correct"
                    " the times, or give a table of events with the column step"
                )
            table = stack.enter_context(
                kept_on_disk(
                    arrange(
                        buckets,
                        dropped,
                        plan,
                        find_ambiguous=find_ambiguous,
                        large=self._options.large,
                    )
                )
            )
            columns = ("id", "rows", "shift", "ambiguous", "in_cycle")
            listed = table.select(*columns).collect()
            ambiguous, in_cycle = (
                sum(int(row[name] or 0) for row in listed) for name in columns[3:]
            )
            shift = max((int(row["shift"] or 0) for row in listed), default=0)
            if ambiguous or in_cycle:
                LOG.info(
                    "%s: %d events of ambiguous order, %d messages in a cycle",
                    self._location,
                    ambiguous,
                    in_cycle,
                )
                summary.add_unknown(AMBIGUOUS_ORDER, ambiguous)
                summary.add_unknown(IN_CYCLE, in_cycle)
                found = table.where("bucket IS NOT NULL").select("bucket", "dropped")
                dropped = found if dropped is None else dropped.unionAll(found)
                # A task with ambiguous events has not searched for cycles.
                find_ambiguous = False
            elif 2 * shift > plan.reach:
                LOG.info("%s: a reach of %d ns is too short", self._location, plan.reach)
                plan = summary.plan(
                    self._location,
                    events,
                    self._slice_events,
                    reach=max(REACH_GROWTH * plan.reach, 2 * shift),
                )
            else:
                return table, listed, plan

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
            large=self._options.large,
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
