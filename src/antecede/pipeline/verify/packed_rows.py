"""Collect the rows of each run from all partitions of a DataFrame, packed.

A shuffle of single rows takes several times as long as their verification. So each
partition packs the rows of a run into few blobs, which are Arrow data; Spark shuffles these
by run, and one task unpacks all rows of a run.

The task may stream the blobs if the steps of the rows in a blob ascend, and no two blobs
overlap; otherwise it sorts all rows of the run in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.pipeline.spark.task_files import VALUES, get, put, uses_files
from antecede.verify.kernels.grouping import group

__all__ = [
    "PACKED",
    "PACKED_GROUP",
    "PACK_ROWS_OF_BUCKETS",
    "PackedRun",
    "pack_rows",
    "pack_run",
    "read_blob",
    "row_packer",
    "split_runs",
    "unpack_run",
    "write_blob",
]

PACK_ROWS = 1 << 18
"""Rows of one partition that are packed together: about 20 MiB."""
PACK_ROWS_OF_BUCKETS = 1 << 20
"""Rows of one partition that are packed together for many buckets: about 60 MiB. With fewer
rows, each bucket would get many small blobs."""
ENCODED = ("kind", "process", "source")
"""Columns of texts with few different values."""

PACKED_GROUP = "packed"
"""The group of the values that :func:`pack_rows` writes."""

PACKED: pa.Schema = pa.schema(
    [
        # The name of the run.
        pa.field("run", pa.string()),
        # The number of rows.
        pa.field("rows", pa.int64()),
        # The lowest and the highest step; null if the steps are unknown or do not ascend.
        pa.field("first", pa.int64()),
        pa.field("last", pa.int64()),
        # The rows without the column run, as an Arrow stream.
        pa.field("data", pa.binary()),
    ]
)
"""One row for each run in about :data:`PACK_ROWS` rows of a partition."""


def row_packer(
    *, rows_max: int = PACK_ROWS
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task that packs ``rows_max`` rows of its partition each."""

    def pack_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from pack_rows(batches, rows_max)

    return pack_partition


def pack_rows(
    batches: Iterator[pa.RecordBatch], rows_max: int = PACK_ROWS
) -> Iterator[pa.RecordBatch]:
    """Pack the rows of a partition, ``rows_max`` at a time; the first column is the run."""
    for runs in split_runs(batches, rows_max):
        rows = [pack_run(run, table, PACKED_GROUP) for run, table in runs]
        yield pa.RecordBatch.from_pylist(rows, schema=PACKED)


def split_runs(
    batches: Iterator[pa.RecordBatch], rows_max: int
) -> Iterator[list[tuple[str | None, pa.Table]]]:
    """Collect about ``rows_max`` rows at a time; yield those of each run, with its name."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            rows += batch.num_rows
        if rows >= rows_max:
            yield _split(pending)
            pending, rows = [], 0
    if pending:
        yield _split(pending)


def _split(batches: Sequence[pa.RecordBatch]) -> list[tuple[str | None, pa.Table]]:
    table = pa.Table.from_batches(batches).combine_chunks()
    runs = table["run"].combine_chunks()
    if not pa.types.is_integer(runs.type):
        runs = runs.cast(pa.string())
    runs = runs.dictionary_encode()
    if isinstance(runs, pa.ChunkedArray):
        runs = runs.chunk(0)
    count = len(runs.dictionary)
    codes = runs.indices.fill_null(count).to_numpy(zero_copy_only=False)
    names = [str(name) for name in runs.dictionary.to_pylist()]
    table = table.drop_columns(["run"])
    order, starts = group(codes, count + 1)
    if np.any(order[1:] < order[:-1]):  # The rows of some run are not together.
        table = table.take(pa.array(order))
    found: list[tuple[str | None, pa.Table]] = [
        (name, table.slice(start, end - start))
        for name, start, end in zip([*names, None], starts[:-1], starts[1:], strict=True)
        if end > start
    ]
    return found


def pack_run(run: str | None, rows: pa.Table, group: str = VALUES) -> dict[str, object]:
    """Return a row of :data:`PACKED`, with data of a group of values."""
    first, last = _step_range(rows)
    for name in ENCODED:
        index = rows.schema.get_field_index(name)
        if index >= 0 and _is_text(rows.schema.field(index).type):
            rows = rows.set_column(index, name, rows[name].dictionary_encode())
    data = write_blob(rows, group)
    return {"run": run, "rows": rows.num_rows, "first": first, "last": last, "data": data}


def _is_text(found: pa.DataType) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _step_range(rows: pa.Table) -> tuple[int | None, int | None]:
    """Return the first and the last step if the steps ascend, otherwise None twice."""
    if "step" not in rows.schema.names or rows["step"].null_count:
        return None, None
    steps = rows["step"].combine_chunks().cast(pa.int64()).to_numpy()
    if np.any(steps[1:] <= steps[:-1]):
        return None, None
    return int(steps[0]), int(steps[-1])


def write_blob(rows: pa.Table, group: str = VALUES) -> bytes:
    """Return rows as a blob, with the metadata of their schema.

    The rows may be in a file (:mod:`antecede.pipeline.spark.task_files`), with those of
    their group.
    """
    sink = pa.BufferOutputStream()
    # A file in the page cache is written faster than the rows are compressed.
    compression = None if uses_files() else "lz4"
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return put(sink.getvalue(), group)


def read_blob(blob: pa.Buffer, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a blob, without the column run.

    Args:
        blob: The blob, from :func:`write_blob`.
        columns: The names of the columns to read; None for all.
    """
    data = get(blob)
    fields = None
    if columns is not None:
        schema = pa.ipc.open_stream(data).schema
        fields = sorted(map(schema.get_field_index, columns))
    # Spark uses all cores already, and threads make a small blob five times as slow.
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)
    return pa.ipc.open_stream(data, options=options).read_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRun:
    """The packed rows of one run."""

    blobs: tuple[pa.Buffer, ...]
    """In the order of their first steps, if the rows are in order."""
    rows: int
    in_order: bool
    """The steps ascend within each blob and from blob to blob."""

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each blob, without the column run."""
        for blob in self.blobs:
            yield read_blob(blob)

    def table(self) -> pa.Table:
        """Return all rows."""
        tables = [_decoded(table) for table in self.tables()]
        return pa.concat_tables(tables, promote_options="default").combine_chunks()


def unpack_run(packed: pa.Table) -> PackedRun:
    """Return the blobs of one run, from all rows of :data:`PACKED` with its name."""
    data = [buffer for chunk in packed["data"].chunks for buffer in _buffers(chunk)]
    rows = int(pc.sum(packed["rows"]).as_py())
    if packed["first"].null_count:
        return PackedRun(blobs=tuple(data), rows=rows, in_order=False)
    first, last = packed["first"].to_numpy(), packed["last"].to_numpy()
    order = np.argsort(first, kind="stable")
    in_order = bool(np.all(first[order][1:] > last[order][:-1]))
    blobs = tuple(data[i] for i in order.tolist())
    return PackedRun(blobs=blobs, rows=rows, in_order=in_order)


def _buffers(chunk: pa.Array) -> list[pa.Buffer]:
    return [value.as_buffer() for value in chunk]


def _decoded(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries, which may differ from blob to blob."""
    for index, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            column = table.column(index).cast(field.type.value_type)
            table = table.set_column(index, field.name, column)
    return table
