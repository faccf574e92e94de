"""The records of one run of spans or messages."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.ingest.diagnostics import Diagnostics, SourceLocation
from antecede.verify.kernels.slot_map import Ints

__all__ = ["RecordLog"]


class RecordLog:
    """Collects the records of one run from all its files."""

    def __init__(self, format_name: str, schema: pa.Schema) -> None:
        """Create an empty log.

        Args:
            format_name: The name of the format.
            schema: The columns to keep.
        """
        self.format_name = format_name
        self.records = 0
        """The number of records, with those that could not be read."""
        self.files: list[str] = []
        self.missing = Diagnostics()
        self._schema = schema
        self._unread = 0
        self._file_of_batch: list[int] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, file: str, batch: pa.RecordBatch) -> None:
        """Add records of a file; each unreadable one adds a diagnostic to ``missing``."""
        if not self.files or self.files[-1] != file:
            self.files.append(file)
        self.records += batch.num_rows
        problem = batch.column("problem")
        if problem.null_count < len(problem):
            bad = batch.filter(pc.is_valid(problem))
            self._unread += bad.num_rows
            keys = [name for name in ("line", "process") if name in batch.schema.names]
            columns = (bad.column(name).to_pylist() for name in ("problem", *keys))
            for reason, *location in zip(*columns, strict=True):
                self.missing.add(f"unread: {reason}", SourceLocation(file, *location))
            batch = batch.filter(pc.is_null(problem))
        self._batches.append(batch.select(self._schema.names))
        self._file_of_batch.append(len(self.files) - 1)

    @property
    def read(self) -> int:
        """The number of records that could be read."""
        return self.records - self._unread

    def table(self) -> tuple[pa.Table, Ints]:
        """Return all records that could be read, and the file of each."""
        table = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
        sizes = [batch.num_rows for batch in self._batches]
        return table, np.repeat(np.array(self._file_of_batch, np.int32), sizes)
