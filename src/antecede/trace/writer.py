"""Write the trace of a run to its directory, a batch at a time.

Until :meth:`TraceWriter.close` the rows are in a file whose name ends in ``.partial``, and
there is no ``run.json``; so readers never mistake an unfinished trace for a finished one.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import ConfigError, StorageError
from antecede.trace.packed_rows import packed_to_batch, view_packed_rows
from antecede.trace.reader import PARTIAL_SUFFIX
from antecede.trace.recorders import BufferedRecorder, EventCounter
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA

__all__ = ["TraceWriter"]


class TraceWriter:
    """Writes one trace: report events to :attr:`observer`, then call :meth:`close`.

    As a context manager it removes the unfinished file if the block raises.
    """

    observer: EventCounter
    """The observer for the driver of the run."""
    recorder: BufferedRecorder
    """The recorder of :attr:`observer`, for rows that no driver reports."""
    rows: int
    """The number of rows written so far."""

    def __init__(self, directory: Path, run: str) -> None:
        """Create the directory and an unfinished file for the run's events.

        Raises:
            ConfigError: The directory already holds a trace.
            StorageError: The directory cannot be written to.
        """
        self._directory = directory
        self._run = run
        self._partial = directory / f"{EVENTS_NAME}{PARTIAL_SUFFIX}"
        if (directory / EVENTS_NAME).exists():
            raise ConfigError(
                f"{directory} already holds a trace; choose another directory"
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._partial, SCHEMA, compression="zstd")
        except OSError as error:
            raise StorageError(f"cannot write to {directory}: {error.strerror}") from error
        self.rows = 0
        self._next_seq = np.zeros(0, np.int64)
        self.recorder = BufferedRecorder(self._write)
        self.observer = EventCounter(self.recorder)

    def close(self, info: RunInfo) -> None:
        """Write the buffered rows and ``run.json``; this finishes the trace."""
        self.recorder.flush()
        self._writer.close()
        (self._directory / INFO_NAME).write_text(info.to_json(), encoding="utf-8")
        self._partial.rename(self._directory / EVENTS_NAME)

    def abandon(self) -> None:
        """Remove the unfinished file."""
        self._writer.close()
        self._partial.unlink(missing_ok=True)

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abandon()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows that already have the schema."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def _write(
        self, buffer: bytearray, count: int, targets: list[Sequence[int] | None]
    ) -> None:
        """Write the rows that the recorder passes on."""
        packed = view_packed_rows(buffer, count, targets)
        seq = self._assign_seq(packed.rows["process"])
        step = np.arange(self.rows, self.rows + count)
        self.write_batch(packed_to_batch(packed, self._run, seq=seq, step=step))

    def _assign_seq(self, processes: np.ndarray) -> np.ndarray:
        """Return the position of each row in the history of its process."""
        known = len(self._next_seq)
        if processes.max() >= known:
            more = max(int(processes.max()) + 1, 2 * known) - known
            self._next_seq = np.concatenate((self._next_seq, np.zeros(more, np.int64)))
        order = np.argsort(processes, kind="stable")
        grouped = processes[order]
        first = np.concatenate(([True], grouped[1:] != grouped[:-1]))
        starts = np.flatnonzero(first)
        lengths = np.diff(np.concatenate((starts, [len(grouped)])))
        offsets = np.arange(len(grouped)) - np.repeat(starts, lengths)
        seq = np.empty(len(grouped), np.int64)
        seq[order] = offsets + self._next_seq[grouped]
        self._next_seq[grouped[starts]] += lengths
        return seq
