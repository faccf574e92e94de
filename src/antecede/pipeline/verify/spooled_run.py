"""The events of one run as Arrow batches: in memory, or in a temporary file if many.

A task of Spark gets the rows of a run as they come. The verifier reads them in both
directions, several times. A :class:`SpooledRun` stores them in between.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import StorageError
from antecede.trace.event import Kind
from antecede.trace.reader import NumberedBatch
from antecede.trace.row_groups import BATCH_ROWS_MAX
from antecede.trace.run_info import RunInfo

__all__ = [
    "KIND_TYPE",
    "SPOOL_SCHEMA",
    "SpooledRun",
    "encode_kinds",
    "spool_columns",
    "temporary_directory",
]

MEMORY_BATCHES = 16
"""Further batches are written to a file: two million rows are about 120 MiB."""

KIND_TYPE = pa.dictionary(pa.int8(), pa.string())
KIND_VALUES = pa.array([kind.value for kind in Kind])
SPOOL_SCHEMA: pa.Schema = pa.schema(
    [
        ("process", pa.int64()),
        ("seq", pa.int64()),
        ("time", pa.float64()),
        ("kind", KIND_TYPE),
        ("source", pa.int64()),
        ("number", pa.int64()),
        ("targets", pa.list_(pa.int64())),
    ]
)
"""The columns of a trace that the verifier needs; every process has a number."""


def encode_kinds(kinds: pa.Array) -> pa.DictionaryArray:
    """Encode a column of kinds; a kind that does not exist becomes null."""
    indices = pc.index_in(kinds, KIND_VALUES).cast(pa.int8())
    return pa.DictionaryArray.from_arrays(indices, KIND_VALUES)


def spool_columns(columns: Sequence[str] | None) -> list[str]:
    """Return the wanted columns of :data:`SPOOL_SCHEMA`, in its order; None means all."""
    wanted = set(SPOOL_SCHEMA.names if columns is None else columns)
    return [name for name in SPOOL_SCHEMA.names if name in wanted]


def temporary_directory() -> str | None:
    """Return the directory that Spark's administrator chose for temporary files, if any."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None


class SpooledRun:
    """Stores the events of a run; a :class:`antecede.trace.reader.RecordedRun`.

    Use it in a ``with`` statement, which removes the temporary file.
    """

    location: str
    """The text that error messages begin with."""
    info: RunInfo
    rows: int
    """The number of events of all kinds."""

    def __init__(self, info: RunInfo, *, memory_batches: int = MEMORY_BATCHES) -> None:
        """Create an empty run."""
        self.location = f"run {info.run!r}"
        self.info = info
        self.rows = 0
        self._memory_batches = memory_batches
        self._batches: list[pa.RecordBatch] = []
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._file: Path | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self._reader: pa.RecordBatchFileReader | None = None

    def __enter__(self) -> "SpooledRun":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = None
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    @property
    def file(self) -> Path | None:
        """The temporary file; None while all rows are in memory."""
        return self._file

    def add(self, rows: pa.Table) -> None:
        """Add rows of :data:`SPOOL_SCHEMA`, in the order of the run."""
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._pending_rows >= BATCH_ROWS_MAX:
            self._flush(BATCH_ROWS_MAX)

    def finish(self) -> None:
        """End the run; no rows can be added afterwards."""
        self._flush(1)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._reader = pa.ipc.open_file(pa.memory_map(str(self._file)))

    def _flush(self, rows_min: int) -> None:
        """Store batches of equal length, while at least ``rows_min`` rows are pending."""
        if not self._pending_rows:
            return
        table = pa.concat_tables(self._pending).combine_chunks()
        start = 0
        while table.num_rows - start >= rows_min:
            (batch,) = table.slice(start, BATCH_ROWS_MAX).combine_chunks().to_batches()
            self._store(batch)
            start += batch.num_rows
        self._pending = [table.slice(start)] if start < table.num_rows else []
        self._pending_rows = table.num_rows - start

    def _store(self, batch: pa.RecordBatch) -> None:
        if len(self._batches) < self._memory_batches:
            self._batches.append(batch)
            return
        try:
            if self._writer is None:
                handle, name = tempfile.mkstemp(
                    prefix="antecede-run-", dir=temporary_directory()
                )
                os.close(handle)
                self._file = Path(name)
                self._writer = pa.ipc.new_file(name, SPOOL_SCHEMA)
            self._writer.write_batch(batch)
        except OSError as error:
            raise StorageError(
                f"{self.location}: cannot write rows to disk: {error}"
            ) from None

    def numbered_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        backward: bool = False,
    ) -> Iterator[NumberedBatch]:
        """Yield the rows as :meth:`antecede.trace.reader.Trace.numbered_batches` does."""
        names = spool_columns(columns)
        indexes = range(-(-self.rows // BATCH_ROWS_MAX))
        for index in reversed(indexes) if backward else indexes:
            start = index * BATCH_ROWS_MAX
            if start + BATCH_ROWS_MAX <= first or (last is not None and start > last):
                continue
            yield NumberedBatch(start, self._batch(index).select(names))

    def _batch(self, index: int) -> pa.RecordBatch:
        if index < len(self._batches):
            return self._batches[index]
        assert self._reader is not None
        return self._reader.get_batch(index - len(self._batches))

    def columns(self, *names: str) -> tuple[np.ndarray, ...]:
        """Return whole columns without nulls; for checks that need all rows at once."""
        batches = [each.batch for each in self.numbered_batches(names)]
        return tuple(
            np.concatenate([batch.column(name).to_numpy() for batch in batches])
            for name in names
        )
