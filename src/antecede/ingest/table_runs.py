"""Write each run of a table of events as a trace.

A table of events has the columns of :mod:`antecede.trace.schema`, and the rows of one run
or of many, in any order. Columns that do not affect the verdict may be missing.
"""

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecede.errors import TraceError
from antecede.ingest.formats.span_csv import SPAN_COLUMNS
from antecede.ingest.live_tables import LiveTable
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import SCHEMA
from antecede.trace.writer import TraceWriter

__all__ = ["is_event_table", "write_copy", "write_table_runs"]

REQUIRED = ("process", "seq", "time", "kind", "source", "number", "targets")
RUNS_MAX = 500
"""Each run has an open file."""


def is_event_table(schema: pa.Schema) -> bool:
    """Return whether a table has events, and not messages, spans or something else."""
    names = set(schema.names)
    has_spans = all(names & set(SPAN_COLUMNS[each]) for each in ("span", "parent"))
    return {"process", "kind"} <= names and not has_spans


def write_copy(table: LiveTable, path: Path) -> Path:
    """Write the rows of a table to a Parquet file, and return its path."""
    path.parent.mkdir(parents=True)
    with pq.ParquetWriter(path, table.schema) as writer:
        for batch in table.batches():
            writer.write_batch(batch)
    return path


def write_table_runs(table: LiveTable, directory: Path) -> list[tuple[str, Path]]:
    """Write a trace for each run; return the names of the runs and their directories.

    Raises:
        TraceError: A column is missing or has another type, the table has no rows, or it
            has too many runs. No trace is left.
    """
    for name in REQUIRED:
        if table.schema.names.count(name) != 1:
            raise TraceError(
                f"{table.name}: no column {name!r}; a table of events needs the columns"
                f" {', '.join(REQUIRED)}"
            )
    writers: dict[str, TraceWriter] = {}
    with ExitStack() as stack:
        for batch in table.batches():
            rows = _to_schema(table, batch)
            runs = rows.column("run")
            for run in runs.unique().to_pylist():
                if run not in writers:
                    if len(writers) == RUNS_MAX:
                        raise TraceError(
                            f"{table.name} has more than {RUNS_MAX} runs: divide it"
                        )
                    out = directory / f"{len(writers):03}"
                    writers[run] = stack.enter_context(TraceWriter(out, run))
                writers[run].write_batch(rows.filter(pc.equal(runs, run)))
        if not writers:
            raise TraceError(f"{table.name} contains no events: nothing to verify")
        for run, writer in writers.items():
            writer.close(RunInfo(run=run))
    return [(run, directory / f"{i:03}") for i, run in enumerate(writers)]


def _to_schema(table: LiveTable, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = []
    for field in SCHEMA:
        if field.name in batch.schema.names:
            column = batch.column(field.name)
        elif field.name == "run":
            column = pa.repeat(pa.scalar(table.name), batch.num_rows)
        else:
            column = pa.nulls(batch.num_rows, field.type)
        if not field.nullable and column.null_count:
            raise TraceError(f"{table.name}: column {field.name!r} must not contain nulls")
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException as error:
            raise TraceError(
                f"{table.name}: column {field.name!r} has type {column.type},"
                f" expected {field.type}"
            ) from error
    return pa.record_batch(columns, schema=SCHEMA)
