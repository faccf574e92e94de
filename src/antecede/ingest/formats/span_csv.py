"""Read spans from a CSV with a header, such as those of the Nezha data set.

The columns are found by their usual names, or told: ``trace``, ``span``, ``parent``,
``process``, ``start``, and ``end`` or ``duration``; ``kind`` and ``name`` if there are any.
A duration is in microseconds. A parent that is empty or ``root`` is none.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import ConfigError
from antecede.ingest.formats.csv_columns import csv_columns, find_columns, header_of
from antecede.ingest.formats.records import SPANS, Options, Records, Unreadable, problems
from antecede.ingest.formats.source import Split
from antecede.ingest.timestamps import moments

__all__ = ["SPAN_COLUMNS", "read_span_csv"]

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
    "start": ("starttimeunixnano", "starttime", "start_time", "timestamp", "start"),
    "end": ("endtimeunixnano", "endtime", "end_time", "end"),
    "duration": ("duration",),
}  # fmt: skip
"""Of each column, the names that it usually has."""
NEEDED = ("trace", "span", "parent", "process", "start")
ROOTS = pa.array(["root", "0", "-1", "null", "None"])
NS_PER_US = 1_000


def read_span_csv(split: Split, options: Options) -> Records:
    """Yield the spans of a split as :data:`antecede.ingest.formats.records.SPANS`.

    Raise ConfigError if a column that is needed is not found.
    """
    header = header_of(split.path)
    names = find_columns(split.path, header, SPAN_COLUMNS, options.columns, NEEDED)
    if "end" not in names and "duration" not in names:
        raise ConfigError(
            f"{split.path}: line 1: which column is the end? Tell it with --columns"
            f" end=NAME, or duration=NAME; there are {', '.join(header)}"
        )
    return _batches(split, names)


def _batches(split: Split, names: dict[str, str]) -> Records:
    try:
        for lines, columns, bad in csv_columns(split, names):
            yield _batch(lines, columns)
            if bad:
                yield problems(bad, SPANS)
    except Unreadable as error:
        yield problems([(error.line, error.why)], SPANS)


def _batch(lines: np.ndarray, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    start = moments(columns["start"])
    if "end" in columns:
        end = moments(columns["end"])
    else:
        lasted = columns["duration"].cast(pa.float64())
        end = pc.add(start, pc.multiply(lasted, NS_PER_US).cast(pa.int64(), safe=False))
    nothing = pa.nulls(len(lines), pa.string())
    problem = nothing
    for name, column in (
        ("trace", columns["trace"]), ("span", columns["span"]),
        ("process", columns["process"]), ("start", start), ("end", end),
    ):  # fmt: skip
        problem = pc.if_else(pc.is_null(column), f"no {name} that can be read", problem)
    parent = columns["parent"]
    is_root = pc.is_in(parent, ROOTS)
    found = {
        "line": pa.array(lines, pa.int64()),
        "problem": problem,
        "trace": columns["trace"],
        "span": columns["span"],
        "parent": pc.if_else(is_root, pa.scalar(None, pa.string()), parent),
        "process": columns["process"],
        "name": columns.get("name", nothing),
        "kind": pc.utf8_lower(columns.get("kind", nothing)),
        "start_ns": start,
        "end_ns": end,
    }
    return pa.record_batch(
        [
            found.get(field.name, pa.nulls(len(lines), field.type)).cast(field.type)
            for field in SPANS
        ],
        schema=SPANS,
    )
