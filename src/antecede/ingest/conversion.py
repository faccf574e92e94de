"""Convert files in foreign formats to traces.

:func:`ingest` writes one trace per run. Its ``run.json`` lists the information that is
missing in the files, so that verifying the trace gives the verdict on the files.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import ConfigError, TraceError
from antecede.ingest.diagnostics import IngestSummary, SourceLocation
from antecede.ingest.event_table import (
    EventTable,
    WrittenTrace,
    skew_of,
    write_event_table,
)
from antecede.ingest.formats.records import (
    CLOCK_SCHEMA,
    SPAN_SCHEMAS,
    ReadOptions,
)
from antecede.ingest.formats.registry import Format, detect_format, get_format, read_file
from antecede.ingest.inference.clocks import ClockLog, infer_from_clocks
from antecede.ingest.inference.pairs import infer_from_pairs
from antecede.ingest.inference.record_log import RecordLog
from antecede.ingest.inference.spans import infer_from_spans, span_columns_used
from antecede.trace.run_info import RunInfo
from antecede.trace.store import open_store
from antecede.trace.uri import redact
from antecede.verify.oracle import MessageId

__all__ = ["IngestedRun", "Log", "infer_run", "ingest", "new_log"]

Log = ClockLog | RecordLog


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedRun:
    """One run of foreign files, and its trace."""

    run: str
    summary: IngestSummary
    written: WrittenTrace

    @property
    def directory(self) -> Path:
        """The directory of the trace."""
        return self.written.directory

    def location_of_send(self, message: MessageId) -> SourceLocation | None:
        """Return the location of the send of a message, or None if it was never sent."""
        return self.written.location_of_send(message)


def ingest(
    paths: Sequence[str | Path],
    directory: str | Path,
    *,
    format_name: str | None = None,
    options: ReadOptions | None = None,
    name: str | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[IngestedRun]:
    """Read files that belong together, and write a trace for each run in them.

    A single run is written to the directory itself, several runs to subdirectories that are
    named after them.

    Args:
        paths: The files or URIs; together they hold one run, or parts of the same runs.
        directory: The directory to write, which must not contain a trace.
        format_name: The name of the format; None to detect it from the first file.
        options: How to read the files.
        name: The name of a run that the files do not name; by default, that of the first
            file.
        on_progress: Called with the number of records of each batch that was read.

    Raises:
        TraceError: A file does not exist, cannot be read or has no records, or
            happened-before has a cycle.
    """
    options = options if options is not None else ReadOptions()
    with _redacted_errors():
        if name is None and paths:
            name = open_store(paths[0]).name
        return _ingest(paths, Path(directory), format_name, options, name, on_progress)


def _ingest(
    paths: Sequence[str | Path],
    directory: Path,
    format_name: str | None,
    options: ReadOptions,
    name: str | None,
    on_progress: Callable[[int], None] | None,
) -> list[IngestedRun]:
    for path in paths:
        if not open_store(path).is_file():
            raise TraceError(f"{path}: no such file")
    chosen = (
        detect_format(paths[0], options) if format_name is None else get_format(format_name)
    )
    logs: dict[str | None, Log] = {}
    for path in paths:
        for batch in read_file(path, chosen, options):
            if on_progress is not None:
                on_progress(batch.num_rows)
            for run, part in _split_by_run(batch):
                if run not in logs:
                    logs[run] = new_log(chosen.name, chosen.schema)
                logs[run].add(redact(str(path)), part)
    if None in logs and len(logs) > 1 and not logs[None].read:
        _merge_unread(logs)
    if not logs:
        raise TraceError(f"{paths[0]} has no records")
    ingested: list[IngestedRun] = []
    for run, log in logs.items():
        own_name = str(name) if run is None else run
        out = directory
        if len(logs) > 1:
            out /= _directory_name(own_name, len(ingested))
        ingested.append(_write(log, own_name, out, chosen))
    return ingested


@contextmanager
def _redacted_errors() -> Iterator[None]:
    """Remove the credentials of URIs from the errors of the readers."""
    try:
        yield
    except (ConfigError, TraceError) as error:
        text = redact(str(error))
        if text == str(error):
            raise
        raise type(error)(text) from None


def new_log(format_name: str, schema: pa.Schema) -> Log:
    """Return an empty log for the records of one run.

    Args:
        format_name: The name of the format.
        schema: The schema of the records, one of :mod:`antecede.ingest.formats.records`.
    """
    if schema is CLOCK_SCHEMA:
        return ClockLog(format_name)
    kept = span_columns_used(schema) if schema in SPAN_SCHEMAS else schema
    return RecordLog(format_name, kept)


def _split_by_run(batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    runs = batch.column("run")
    if runs.null_count == len(runs):
        yield None, batch
        return
    for run in runs.unique().to_pylist():
        chosen = pc.is_null(runs) if run is None else pc.equal(runs, run)
        yield run, batch.filter(chosen.fill_null(False))


def infer_run(
    log: Log, name: str, schema: pa.Schema, *, with_skew: bool = True
) -> tuple[EventTable, IngestSummary, RunInfo]:
    """Infer the events of a run, and describe the information that is missing.

    Args:
        log: The records of the run, from :func:`new_log`.
        name: The name of the run.
        schema: The schema of the records.
        with_skew: Whether to find the skew of the clocks for the summary.

    Raises:
        TraceError: No record can be read.
    """
    if not log.read:
        first = log.missing.collected()[0]
        raise TraceError(f"{log.files[0]}: no record can be read: {first}")
    if isinstance(log, ClockLog):
        table, summary = infer_from_clocks(log)
    elif schema in SPAN_SCHEMAS:
        table, summary = infer_from_spans(log)
    else:
        table, summary = infer_from_pairs(log)
    if with_skew:
        summary = replace(summary, skew=skew_of(table))
    # The events of clocks do not show which deliveries are missing.
    has_more = log.records > log.read
    if isinstance(log, ClockLog):
        has_more = bool(summary.unknown_reasons)
    table = replace(table, has_more_missing=has_more)
    info = RunInfo(
        run=name,
        processes=summary.processes,
        names=dict(enumerate(table.names)),
        missing=summary.unknown_reasons,
        parameters={
            "format": log.format_name,
            "files": list(summary.files),
            "records": summary.records,
            "unknown": summary.unknown,
            "time_zero_ns": None if table.time_ns is None else int(table.time_ns.min()),
        },
    )
    return table, summary, info


def _write(log: Log, name: str, directory: Path, chosen: Format) -> IngestedRun:
    table, summary, info = infer_run(log, name, chosen.schema)
    written = write_event_table(table, directory, info)
    return IngestedRun(run=name, summary=summary, written=written)


def _merge_unread(logs: dict[str | None, Log]) -> None:
    """Add the lines before the first run, none of which could be read, to that run."""
    before = logs.pop(None)
    first = next(iter(logs.values()))
    assert isinstance(before, ClockLog)
    assert isinstance(first, ClockLog)
    first.add_unread(before)


def _directory_name(name: str, index: int) -> str:
    """Return a valid name: an index, and the letters, digits, dots and dashes of a name."""
    kept = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip(".-")
    return f"{index:03}-{kept}" if kept else f"{index:03}"
