"""A long run of a table as packed rows, of which a task holds some.

The rows of the run are packed into *blobs* of about :data:`BLOB_ROWS` rows, which stay in
Spark. The driver knows the number of rows of every blob, so that it can divide the run into
windows. A :class:`PackedTrace` goes to every task without rows; the task gets the blobs
that overlap the rows it reads.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from types import TracebackType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import StorageError
from antecede.pipeline.verify.event_rows import EventLoader, ProcessNames
from antecede.pipeline.verify.packed_rows import (
    PACKED,
    pack_run,
    read_blob,
    split_runs,
)
from antecede.pipeline.verify.spooled_run import (
    SpooledRun,
    spool_columns,
    temporary_directory,
)
from antecede.pipeline.verify.window_task import RowRange
from antecede.pipeline.verify.windowed_run import WholeTask
from antecede.trace.reader import NumberedBatch
from antecede.trace.run_info import RunInfo
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.verdict import TraceVerdict
from antecede.verify.verifier import verify_trace

__all__ = [
    "BLOBS",
    "BLOB_ROWS",
    "BlobStore",
    "PackedTrace",
    "blob_packer",
    "verify_spooled",
]

BLOB_ROWS = 1 << 17
"""Rows of one blob; a task reads whole blobs, so they are shorter than a margin."""
MEMORY_BYTES = 128 << 20
"""Further blobs of a task are written to a file; a window has about 50 MiB."""
PARTITION_BITS = 32

BLOBS: pa.Schema = pa.schema(
    [
        # The partition of the table in the upper bits, and the position in the partition.
        pa.field("id", pa.int64()),
        *PACKED,
        # The names of the processes, if they have names.
        pa.field("names", pa.list_(pa.string())),
    ]
)
"""One row for each blob."""


def blob_packer(
    *, rows_max: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task that packs its partition into rows of :data:`BLOBS`.

    Args:
        rows_max: The rows of a blob.
    """

    def pack_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        blob = 0 if context is None else context.partitionId() << PARTITION_BITS
        for runs in split_runs(_slices(batches, rows_max), rows_max):
            for run, rows in runs:
                row = {**pack_run(run, rows), "id": blob, "names": _names(rows)}
                packed = pa.RecordBatch.from_pylist([row], schema=BLOBS)
                yield packed
                blob += 1

    return pack_partition


def _slices(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows_max):
            yield batch.slice(start, rows_max)


def _names(rows: pa.Table) -> list[str]:
    """Return the names of the processes in the rows; none if processes are integers."""
    found: set[str] = set()
    for name in ("process", "source", "targets"):
        if name not in rows.schema.names:
            continue
        column = rows[name]
        if name == "targets":
            column = pc.list_flatten(column)
        if not pa.types.is_integer(column.type):
            found.update(pc.unique(column).drop_null().to_pylist())
    return sorted(found)


class BlobStore:
    """The blobs of one task: in memory, or in a temporary file if large.

    Use it in a ``with`` statement, which removes the file.
    """

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES) -> None:
        """Create an empty store."""
        self._memory_left = memory_bytes
        self._blobs: dict[int, pa.Buffer | tuple[int, int]] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> "BlobStore":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._blobs.clear()
        if self._file is not None:
            self._file.close()

    def __contains__(self, blob: int) -> bool:
        return blob in self._blobs

    def add(self, blob: int, data: bytes) -> None:
        """Store a blob; raise StorageError if the disk is full or fails."""
        if len(data) <= self._memory_left:
            self._memory_left -= len(data)
            self._blobs[blob] = pa.py_buffer(data)
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=temporary_directory())  # noqa: SIM115
            self._blobs[blob] = (self._file.seek(0, 2), len(data))
            self._file.write(data)
        except OSError as error:
            raise StorageError(f"cannot write rows to disk: {error}") from None

    def read(self, blob: int) -> pa.Buffer:
        """Return a blob that is in the store."""
        found = self._blobs[blob]
        if isinstance(found, pa.Buffer):
            return found
        assert self._file is not None
        start, size = found
        self._file.seek(start)
        return pa.py_buffer(self._file.read(size))


class PackedTrace:
    """A run in blobs; a :class:`antecede.pipeline.verify.window_task.LongRun`."""

    location: str
    """The text that error messages begin with."""
    info: RunInfo
    rows: int

    def __init__(
        self, info: RunInfo, blobs: Sequence[int], blob_rows: Sequence[int]
    ) -> None:
        """Take the ids of the blobs in the order of the run, and their numbers of rows."""
        self.location = f"run {info.run!r}"
        self.info = info
        self._blobs: Longs = np.array(blobs, np.int64)
        self._starts: Longs = np.concatenate([[0], np.cumsum(blob_rows, dtype=np.int64)])
        self.rows = int(self._starts[-1])
        self._store: BlobStore | None = None

    def with_blobs(self, store: BlobStore) -> "PackedTrace":
        """Return a copy for a task, with the blobs that the task got."""
        trace = copy(self)
        trace._store = store
        return trace

    def blobs_in(self, ranges: Sequence[RowRange]) -> list[int]:
        """Return the ids of the blobs that overlap any of the ranges."""
        chosen = np.zeros(len(self._blobs), np.bool_)
        for first, end in ranges:
            chosen[self._overlapping(first, end)] = True
        found: list[int] = self._blobs[chosen].tolist()
        return found

    def _overlapping(self, first: int, end: int) -> slice:
        start = int(np.searchsorted(self._starts, first, side="right")) - 1
        return slice(max(0, start), int(np.searchsorted(self._starts[:-1], end)))

    def numbered_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        backward: bool = False,
    ) -> Iterator[NumberedBatch]:
        """Yield the rows of the task's blobs, with the columns of a spooled run.

        In a table without ``seq``, the rows of each process are counted as they are read,
        so these must be read forward.
        """
        assert self._store is not None
        names = spool_columns(columns)
        processes = ProcessNames([self.info.names[i] for i in range(len(self.info.names))])
        loader = EventLoader(processes, self.location)
        chosen = self._overlapping(first, self.rows if last is None else last + 1)
        indexes = range(*chosen.indices(len(self._blobs)))
        for index in reversed(indexes) if backward else indexes:
            blob = int(self._blobs[index])
            if blob not in self._store:
                continue
            packed = read_blob(self._store.read(blob))
            table = loader.convert(packed.combine_chunks()).select(names)
            (batch,) = table.combine_chunks().to_batches()
            yield NumberedBatch(int(self._starts[index]), batch)


def verify_spooled(task: WholeTask) -> TraceVerdict:
    """Verify a whole run in one task, from a file, so that few rows are in memory."""
    with SpooledRun(task.trace.info) as events:
        for _, batch in task.trace.numbered_batches():
            events.add(pa.Table.from_batches([batch]))
        events.finish()
        return verify_trace(
            events,
            violations_max=task.violations_max,
            with_breakdown=task.with_breakdown,
        )
