"""Verify one run of a table in a task of Spark.

The rows of the run are events, or records from which the events are inferred: messages,
spans, or events with vector clocks.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from antecede.errors import AntecedeError, StorageError, TraceError
from antecede.ingest.conversion import infer_run, new_log
from antecede.ingest.event_table import ArrangedEvents, arrange
from antecede.ingest.formats.records import CLOCK_SCHEMA, MESSAGE_SCHEMA, SPAN_SCHEMA
from antecede.pipeline.verify.event_rows import load_events
from antecede.pipeline.verify.packed_rows import PackedRun, unpack_run
from antecede.pipeline.verify.record_locations import located
from antecede.pipeline.verify.record_rows import to_records
from antecede.pipeline.verify.run_result import (
    RESULT,
    MessageRecord,
    clocks_row,
    error_row,
    result_row,
)
from antecede.pipeline.verify.spooled_run import SPOOL_SCHEMA, SpooledRun, encode_kinds
from antecede.pipeline.verify.violation_rows import find_rows, messages_of
from antecede.trace.run_info import RunInfo
from antecede.verify.verdict import TraceVerdict
from antecede.verify.verifier import verify_trace

__all__ = ["TableOptions", "run_verifier"]

SCHEMAS = {"clocks": CLOCK_SCHEMA, "messages": MESSAGE_SCHEMA, "spans": SPAN_SCHEMA}
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """How to verify the runs of a table."""

    rows: str
    """``events``, ``messages``, ``spans`` or ``clocks``."""
    complete: bool
    """The runs continued until nothing was left to do."""
    violations_max: int
    """The most violations to list of each property of a run."""
    with_breakdown: bool = False
    """Also count all violations by pair of processes and by time."""


def run_verifier(
    options: TableOptions,
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return the function of a task: it gets the packed rows of a run, and its name."""

    def verify_run(key: tuple[pa.Scalar, ...], packed: pa.Table) -> pa.Table:
        row = _verify(key[0].as_py(), unpack_run(packed), options)
        result = pa.Table.from_pylist([row], schema=RESULT)
        return result

    return verify_run


def _verify(run: str | None, packed: PackedRun, options: TableOptions) -> dict[str, Any]:
    try:
        if run is None:
            return error_row(None, _no_run(packed))
        if options.rows == "events":
            return _verify_events(run, packed, options)
        return _verify_records(run, packed, options)
    except StorageError:
        raise  # Spark tries again, perhaps on another machine.
    except AntecedeError as error:
        return error_row(run, error)


def _no_run(packed: PackedRun) -> AntecedeError:
    return TraceError(
        f"column 'run' is null in some rows ({packed.rows:,}): remove them, for example"
        " with df.dropna(subset=['run'])"
    )


def _verify_events(run: str, packed: PackedRun, options: TableOptions) -> dict[str, Any]:
    with SpooledRun(RunInfo(run=run, complete=options.complete)) as events:
        names = load_events(packed, events)
        events.info = replace(events.info, names=names.names())
        verdict = _verdict(events, options)
        found = find_rows(events, messages_of(verdict.violations))
        return result_row(run, verdict, events=events.rows, found=found)


def _verify_records(run: str, packed: PackedRun, options: TableOptions) -> dict[str, Any]:
    schema = SCHEMAS[options.rows]
    records, locations = to_records(packed.table(), schema)
    log = new_log(options.rows, schema)
    for batch in records.to_batches():
        log.add("table", batch)
    table, summary, info = infer_run(log, run, schema)
    summary = located(summary, locations)
    info = replace(info, complete=options.complete, missing=summary.unknown_reasons)
    arranged = arrange(table)
    with SpooledRun(info) as events:
        for batch in arranged.batches(run):
            events.add(_spooled(batch))
        events.finish()
        verdict = _verdict(events, options)
        row = result_row(
            run,
            verdict,
            events=events.rows,
            found=find_rows(events, messages_of(verdict.violations)),
            record_of_send=_record_finder(arranged, records),
            time_zero=0.0 if table.time_ns is None else int(table.time_ns.min()) / NS_PER_S,
            notes=summary.lines(),
        )
    if summary.clock_errors is not None:
        errors = sum(error.count for error in summary.clock_errors)
        row["properties"].append(clocks_row(summary.records, errors))
    return row


def _verdict(events: SpooledRun, options: TableOptions) -> TraceVerdict:
    return verify_trace(
        events,
        violations_max=options.violations_max,
        with_breakdown=options.with_breakdown,
    )


def _spooled(batch: pa.RecordBatch) -> pa.Table:
    """Return rows of a trace with the types of a spool."""
    columns = {name: batch.column(name) for name in SPOOL_SCHEMA.names}
    columns["kind"] = encode_kinds(columns["kind"])
    return pa.table(
        [columns[field.name].cast(field.type) for field in SPOOL_SCHEMA],
        schema=SPOOL_SCHEMA,
    )


def _record_finder(
    arranged: ArrangedEvents, records: pa.Table
) -> Callable[[int], MessageRecord]:
    """Return a function that finds the record of a send by the row of the send."""
    columns = {
        ours: records[theirs]
        for ours, theirs in (("name", "message"), ("trace", "trace"), ("span", "span"))
        if theirs in records.schema.names
    }

    def find(row: int) -> MessageRecord:
        line = int(arranged.table.line[arranged.order[row]])  # Lines count from 1.
        return MessageRecord(
            **{ours: column[line - 1].as_py() for ours, column in columns.items()}
        )

    return find
