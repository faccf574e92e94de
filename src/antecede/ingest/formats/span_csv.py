"""Read spans from a CSV file with a header or from a Parquet file.

The columns are ``trace``, ``span``, ``parent``, ``process``, ``start``, one of ``end`` and
``duration``, and optionally ``kind`` and ``name``. They are found by their usual names, or
by the names that the user gives. A duration is in microseconds. A parent that is empty,
zero or ``root`` means that the span has no parent.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import ConfigError
from antecede.ingest.formats.csv_columns import (
    ReadColumns,
    csv_columns,
    find_columns,
    first_columns,
    read_header,
)
from antecede.ingest.formats.parquet_columns import (
    is_parquet,
    parquet_columns,
    read_names,
)
from antecede.ingest.formats.records import (
    SPAN_SCHEMA,
    ReadOptions,
    Records,
    UnreadableError,
    problem_batch,
)
from antecede.ingest.formats.source import Split
from antecede.ingest.timestamps import TimeUnits

__all__ = ["SPAN_COLUMNS", "read_span_csv", "span_batch"]

SPAN_COLUMNS = {
    "trace": ("traceid", "trace_id", "trace"),
    "span": ("spanid", "span_id", "span", "id"),
    "parent": ("parentid", "parent_id", "parentspanid", "parent_span_id", "parent"),
    "process": (
        "podname", "pod", "instance", "process", "servicename", "service_name", "service",
        "cmdb_id",
    ),
    "name": ("operationname", "operation_name", "operation", "name", "url"),
    "kind": ("spankind", "span_kind", "kind"),
    "start": (
        "starttimeunixnano", "starttime", "start_time", "timestamp", "start", "start_ns",
    ),
    "end": ("endtimeunixnano", "endtime", "end_time", "end", "end_ns"),
    "duration": ("duration",),
}  # fmt: skip
"""By column, its usual names in lower case."""
REQUIRED = ("trace", "span", "parent", "process", "start")
ROOTS = pa.array(["root", "0", "0000000000000000", "-1", "null", "None"])
TIMES = ("start", "end")
NS_PER_US = 1_000
DURATION_NS_MAX = 2**62


def read_span_csv(split: Split, options: ReadOptions) -> Records:
    """Yield the spans of a split.

    Raise ConfigError if a required column is not found.
    """
    of_parquet = is_parquet(split.path)
    header = read_names(split.path) if of_parquet else read_header(split.path)
    names = find_columns(split.path, header, SPAN_COLUMNS, options, REQUIRED)
    if "end" not in names and "duration" not in names:
        raise ConfigError(
            f"{split.path}: line 1: no column for the end: give it with"
            f" {options.option('columns', 'end=NAME')} or duration=NAME; the file has"
            f" {', '.join(header)}"
        )
    return _batches(split, names, parquet_columns if of_parquet else csv_columns)


def _batches(split: Split, names: dict[str, str], read: ReadColumns) -> Records:
    units = TimeUnits()
    times = {ours: theirs for ours, theirs in names.items() if ours in TIMES}
    try:
        units.decide(first_columns(read, split, times))
        for lines, columns, bad in read(split, names):
            texts = {
                name: column if name in (*TIMES, "duration") else column.cast(pa.string())
                for name, column in columns.items()
            }
            yield span_batch(lines, texts, units)
            if bad:
                yield problem_batch(bad, SPAN_SCHEMA)
    except UnreadableError as error:
        yield problem_batch([(error.line, error.reason)], SPAN_SCHEMA)


def span_batch(
    lines: np.ndarray,
    columns: Mapping[str, pa.Array],
    units: TimeUnits,
    schema: pa.Schema = SPAN_SCHEMA,
) -> pa.RecordBatch:
    """Return spans as records, each with the problem of its values, if any.

    Args:
        lines: By span, its line.
        columns: The columns by our names, texts or timestamps.
        units: The units of the times of the file, which this batch may decide.
        schema: The schema of the records; that of hashed spans if ids are hashes.
    """
    times = units.parse({name: columns[name] for name in TIMES if name in columns})
    start = times["start"]
    needed = {name: columns[name] for name in ("trace", "span", "process")}
    if "end" in times:
        end = needed["end"] = times["end"]
    else:
        lasted = needed["duration"] = _durations(columns["duration"])
        end = pc.add(start, lasted)
    needed["start"] = start
    nothing = pa.nulls(len(lines), pa.string())
    problem = nothing
    for name, column in needed.items():
        if column.null_count:
            problem = pc.if_else(pc.is_null(column), f"no valid {name}", problem)
    parent = columns["parent"]
    if schema is SPAN_SCHEMA:
        is_root = pc.is_in(parent, ROOTS)
        parent = pc.if_else(is_root, pa.scalar(None, pa.string()), parent)
    found = {
        "line": pa.array(lines, pa.int64()),
        "problem": problem,
        "trace": columns["trace"],
        "span": columns["span"],
        "parent": parent,
        "process": columns["process"],
        "name": columns.get("name", nothing),
        "kind": _lower(columns.get("kind", nothing)),
        "start_ns": start,
        "end_ns": end,
    }
    return pa.record_batch(
        [
            found.get(field.name, pa.nulls(len(lines), field.type)).cast(field.type)
            for field in schema
        ],
        schema=schema,
    )


def _lower(texts: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(texts.type):
        return pc.utf8_lower(texts)
    return pa.DictionaryArray.from_arrays(texts.indices, pc.utf8_lower(texts.dictionary))


def _durations(column: pa.Array) -> pa.Array:
    """Return durations in nanoseconds; one that is not a finite number becomes null."""
    try:
        numbers = column.cast(pa.float64())
    except pa.ArrowInvalid:
        numbers = pa.array([_number(text) for text in column.to_pylist()], pa.float64())
    lasted = pc.multiply(numbers, float(NS_PER_US))
    # The comparison is false for NaN.
    is_valid = pc.less(pc.abs(lasted), float(DURATION_NS_MAX))
    lasted = pc.if_else(is_valid, lasted, pa.scalar(None, pa.float64()))
    return pc.round(lasted).cast(pa.int64())


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
