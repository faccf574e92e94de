"""Convert the rows of a run to records: messages, spans, or events with vector clocks.

The rows come from a DataFrame in any order, with columns of any suitable type; the records
have the schemas of :mod:`antecede.ingest.formats.records`. The line of a record is its
number among the sorted rows, from 1.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.formats.messages import message_batch
from antecede.ingest.formats.records import CLOCK_SCHEMA, RECORD_IDS, SPAN_SCHEMAS
from antecede.ingest.formats.span_csv import span_batch
from antecede.ingest.timestamps import TimeUnits
from antecede.pipeline.verify.record_locations import divide_locations
from antecede.verify.kernels.slot_map import Longs

__all__ = ["to_records"]

TIMES = ("sent", "received", "start", "end")
SORT_KEYS = ("location", "file", "line", *TIMES, "process", "trace", "span", "source",
             "target", "message")  # fmt: skip
KIND_PREFIX = "^span_kind_"
"""Begins the kinds of spans in OpenTelemetry."""
TEXTS = (
    "source",
    "target",
    "message",
    "trace",
    "span",
    "parent",
    "process",
    "name",
    "kind",
)


def to_records(
    table: pa.Table, schema: pa.Schema
) -> tuple[pa.Table, tuple[pa.Array, pa.Array] | None]:
    """Return the rows of a run as records, and their files and lines if known.

    Args:
        table: The rows, under our names of the columns; ``location`` replaces ``file`` and
            ``line``.
        schema: The schema of the records.
    """
    columns = {name: _array(table[name]) for name in table.schema.names}
    for name in TIMES:
        if f"{name}_ns" in columns:
            columns[name] = columns.pop(f"{name}_ns").cast(pa.timestamp("ns"))
        elif name in columns:
            columns[name] = _without_zone(columns[name])
    for name in TEXTS:
        if name in columns and not _is_hashed(name, schema):
            columns[name] = _text(columns[name])
    columns = _sorted(columns)
    lines = np.arange(1, table.num_rows + 1)
    if schema is CLOCK_SCHEMA:
        records = _clock_batch(lines, columns)
    elif schema in SPAN_SCHEMAS:
        if "kind" in columns:
            columns["kind"] = _plain_kinds(columns["kind"])
        batch = span_batch(lines, columns, TimeUnits(), schema)
        records = _with_shared(batch, columns)
    else:
        records = message_batch(lines, columns, TimeUnits(), schema)
    if "problem" in columns:
        found = pc.coalesce(columns["problem"], records.column("problem"))
        index = records.schema.get_field_index("problem")
        records = records.set_column(index, schema.field("problem"), found)
    locations = None
    if "location" in columns:
        file, line = divide_locations(columns["location"].to_numpy())
        locations = (pa.array(file), pa.array(line))
    elif "file" in columns and "line" in columns:
        locations = (columns["file"], columns["line"])
    return pa.Table.from_batches([records]), locations


def _plain_kinds(kinds: pa.Array) -> pa.Array:
    """Return kinds in lower case, without the prefix of OpenTelemetry."""
    encoded = kinds.dictionary_encode()  # There are few different kinds.
    lower = pc.utf8_lower(encoded.dictionary)
    plain = pc.replace_substring_regex(lower, KIND_PREFIX, "")
    return pa.DictionaryArray.from_arrays(encoded.indices, plain)


def _is_hashed(name: str, schema: pa.Schema) -> bool:
    return name in RECORD_IDS and pa.types.is_integer(schema.field(name).type)


def _array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _without_zone(column: pa.Array) -> pa.Array:
    """Return timestamps in UTC; a time zone only says how to display them."""
    if not pa.types.is_timestamp(column.type):
        return column
    whole = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return whole.cast(pa.timestamp("us")).cast(pa.timestamp("ns"))


def _text(column: pa.Array) -> pa.Array:
    """Return texts; an empty one becomes null."""
    if pa.types.is_dictionary(column.type) and "" not in column.dictionary.to_pylist():
        return column
    texts = column.cast(pa.string())
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _sorted(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Sort the rows, so that the result does not depend on their order in the table."""
    keys = {name: columns[name] for name in SORT_KEYS if name in columns}
    if "clock" in columns:
        entries = columns["clock"].to_pylist()
        totals = [sum(count or 0 for _, count in entry or ()) for entry in entries]
        keys["total"] = pa.array(totals, pa.int64())
    first = next(iter(keys.values()))
    if _is_number(first) and not first.null_count:
        values = first.cast(pa.int64()).to_numpy()
        if np.all(values[1:] > values[:-1]):
            return columns
    order = pa.array(_sort(keys))
    return {name: column.take(order) for name, column in columns.items()}


def _is_number(column: pa.Array) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type))


def _sort(keys: dict[str, pa.Array]) -> Longs:
    """Return the rows in the order of the keys; nulls come last."""
    first = next(iter(keys.values()))
    if first.null_count or not _is_number(first):
        return _sort_by_all(keys)
    # Arrow compares all keys of two rows; most rows differ in the first one.
    values = first.cast(pa.int64()).to_numpy()
    order: Longs = np.argsort(values)
    is_tie = np.zeros(len(order) + 1, np.bool_)
    is_tie[1:-1] = values[order[1:]] == values[order[:-1]]
    tied = np.flatnonzero(is_tie[:-1] | is_tie[1:])
    rows = np.sort(order[tied])
    taken = pa.array(rows)
    order[tied] = rows[_sort_by_all({name: k.take(taken) for name, k in keys.items()})]
    return order


def _sort_by_all(keys: dict[str, pa.Array]) -> Longs:
    sort_keys = [(name, "ascending") for name in keys]
    # Arrow does not sort dictionaries.
    table = pa.table({name: _decoded(column) for name, column in keys.items()})
    found: Longs = pc.sort_indices(table, sort_keys=sort_keys).to_numpy()
    return found.astype(np.int64)


def _decoded(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _with_shared(records: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    if "shared" not in columns:
        return records
    index = records.schema.get_field_index("shared")
    field = records.schema.field("shared")
    return records.set_column(index, field, columns["shared"])


def _clock_batch(lines: np.ndarray, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    no_process = pc.is_null(columns["process"])
    missing = {
        "line": pa.array(lines),
        "problem": pc.if_else(no_process, "no process", pa.scalar(None, pa.string())),
    }
    found = {**columns, **missing}
    return pa.record_batch(
        [
            found.get(field.name, pa.nulls(len(lines), field.type)).cast(field.type)
            for field in CLOCK_SCHEMA
        ],
        schema=CLOCK_SCHEMA,
    )
