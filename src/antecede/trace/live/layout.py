"""The files of a node's trace while the node runs.

The directory looks like this until the node closes the trace::

    run.json.partial                        the node's name and start, and the names so far
    events.parquet.partial/
        part-000000.parquet ...             finished parts
        tail-000001.packed ...              rows flushed since, which become the next part

A tail is a sequence of chunks, one for each flush. A chunk is a header, packed rows, and
the columns ``lengths`` and ``targets`` of :class:`antecede.trace.packed_rows.PackedRows`.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct

import numpy as np

from antecede.trace.packed_rows import PACKED, PackedRows
from antecede.trace.reader import PARTIAL_SUFFIX
from antecede.trace.schema import EVENTS_NAME, INFO_NAME

__all__ = ["decode_chunks", "encode_chunk", "part_path", "tail_path"]

NODE = "node"
"""The value of ``kind`` in the ``run.json`` of a node's trace."""
FLUSH_ROWS = 4096
"""The default maximum number of events in memory that are not flushed."""
EVENTS_PARTIAL = EVENTS_NAME + PARTIAL_SUFFIX
INFO_PARTIAL = INFO_NAME + PARTIAL_SUFFIX

HEADER = Struct("<4sIII")
"""The header of a chunk: a mark, and the numbers of rows, sends and targets."""
MARK = b"rows"
COLUMNS = (PACKED, np.dtype("<i4"), np.dtype("<i4"))
"""The types of the columns of a chunk."""


def part_path(folder: Path, index: int) -> Path:
    """Return the path of a part."""
    return folder / f"part-{index:06}.parquet"


def tail_path(folder: Path, index: int) -> Path:
    """Return the path of the tail that becomes the part with this index."""
    return folder / f"tail-{index:06}.packed"


def encode_chunk(packed: PackedRows) -> bytes:
    """Return the bytes of one flush."""
    counts = [len(column) for column in packed]
    columns = [column.tobytes() for column in packed]
    return b"".join([HEADER.pack(MARK, *counts), *columns])


def decode_chunks(data: bytes) -> Iterator[PackedRows]:
    """Yield the chunks of a tail; a kill may have cut the last one, which is skipped."""
    offset = 0
    while offset + HEADER.size <= len(data):
        mark, *counts = HEADER.unpack_from(data, offset)
        offset += HEADER.size
        sizes = [n * dtype.itemsize for n, dtype in zip(counts, COLUMNS, strict=True)]
        if mark != MARK or offset + sum(sizes) > len(data):
            return
        columns = []
        for dtype, count, size in zip(COLUMNS, counts, sizes, strict=True):
            columns.append(np.frombuffer(data, dtype, count, offset))
            offset += size
        yield PackedRows(*columns)
