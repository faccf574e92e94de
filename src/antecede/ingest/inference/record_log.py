"""The records of one run, as its files are read: what the readers of tables share."""

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.diagnostics import Collector, Place
from antecede.verify.kernels.slots import Ints

__all__ = ["RecordLog"]


class RecordLog:
    """The records of one run; add those of all its files, then draft it."""

    schema: ClassVar[pa.Schema]
    """What is kept of a record."""
    records: int
    """How many records there were."""

    def __init__(self, format_name: str) -> None:
        """Start with no records."""
        self.format_name = format_name
        self.records = 0
        self.files: list[str] = []
        self.holes = Collector()
        self._unread = 0
        self._file_of: list[int] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, file: str, batch: pa.RecordBatch) -> None:
        """Take in records of a file; what could not be read becomes a hole."""
        if not self.files or self.files[-1] != file:
            self.files.append(file)
        self.records += batch.num_rows
        problem = batch.column("problem")
        if problem.null_count < len(problem):
            bad = batch.filter(pc.is_valid(problem))
            self._unread += bad.num_rows
            places = [name for name in ("line", "process") if name in batch.schema.names]
            columns = (bad.column(name).to_pylist() for name in ("problem", *places))
            for why, *place in zip(*columns, strict=True):
                self.holes.add(f"unread: {why}", Place(file, *place))
            batch = batch.filter(pc.is_null(problem))
        self._batches.append(batch.select(self.schema.names))
        self._file_of.append(len(self.files) - 1)

    @property
    def read(self) -> int:
        """How many records could be read."""
        return self.records - self._unread

    def table(self) -> tuple[pa.Table, Ints]:
        """Return all records that were read, and of each its file."""
        table = pa.Table.from_batches(self._batches, self.schema).combine_chunks()
        sizes = [batch.num_rows for batch in self._batches]
        return table, np.repeat(np.array(self._file_of, np.int32), sizes)
