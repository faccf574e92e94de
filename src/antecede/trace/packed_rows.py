"""Packed rows as NumPy arrays, and as record batches of the schema.

Packed rows are the rows that a :class:`antecede.trace.recorders.BufferedRecorder` passes
on, in memory or in the files of a node that is still running.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from antecede.trace.event import Kind
from antecede.trace.recorders import KINDS, ROW, ROW_FIELDS
from antecede.trace.schema import SCHEMA

__all__ = [
    "PACKED",
    "PackedRows",
    "join_packed_rows",
    "packed_to_batch",
    "view_packed_rows",
]

PACKED = np.dtype([(name, "<" + code) for name, code in ROW_FIELDS])
"""One packed row."""
assert PACKED.itemsize == ROW.size

KIND_NAMES = pa.array([kind.value for kind in KINDS])
SEND = KINDS.index(Kind.SEND)


class PackedRows(NamedTuple):
    """Some rows, and the targets of the sends among them."""

    rows: np.ndarray
    """An array of :data:`PACKED`."""
    lengths: np.ndarray
    """For each send, the number of its targets, or -1 for a broadcast."""
    targets: np.ndarray
    """The targets of all sends, one send after the other."""


def view_packed_rows(
    buffer: bytearray | bytes, count: int, targets: list[Sequence[int] | None]
) -> PackedRows:
    """Return the first ``count`` rows of a buffer; ``rows`` shares its memory."""
    lengths = [-1 if each is None else len(each) for each in targets]
    flat = chain.from_iterable(each for each in targets if each is not None)
    return PackedRows(
        rows=np.frombuffer(buffer, PACKED, count),
        lengths=np.array(lengths, np.int32),
        targets=np.fromiter(flat, np.int32),
    )


def join_packed_rows(parts: Sequence[PackedRows]) -> PackedRows:
    """Return the rows of all parts, in order."""
    empty = np.empty(0, np.int32)
    return PackedRows(
        rows=np.concatenate([np.empty(0, PACKED), *(part.rows for part in parts)]),
        lengths=np.concatenate([empty, *(part.lengths for part in parts)]),
        targets=np.concatenate([empty, *(part.targets for part in parts)]),
    )


def packed_to_batch(
    packed: PackedRows, run: str, *, seq: np.ndarray, step: np.ndarray | None
) -> pa.RecordBatch:
    """Return packed rows as a record batch; ``step`` is null if it is None."""
    count = len(packed.rows)
    columns: dict[str, pa.Array] = {
        "run": pa.repeat(pa.scalar(run), count),
        "seq": pa.array(seq),
        "step": pa.nulls(count, pa.int64()) if step is None else pa.array(step),
        "targets": _targets(packed),
    }
    for name in PACKED.names or ():
        values = packed.rows[name].copy()
        columns[name] = pa.array(
            values, mask=values < 0 if SCHEMA.field(name).nullable else None
        )
    columns["kind"] = KIND_NAMES.take(columns["kind"])
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _targets(packed: PackedRows) -> pa.Array:
    """Return the column ``targets``: a list for each send with targets, null elsewhere."""
    is_send = packed.rows["kind"] == SEND
    lengths = np.full(len(is_send), -1, np.int32)
    lengths[is_send] = packed.lengths
    offsets = np.concatenate(([0], np.cumsum(np.maximum(lengths, 0)))).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.array(packed.targets),
        type=SCHEMA.field("targets").type,
        mask=pa.array(lengths < 0),
    )
