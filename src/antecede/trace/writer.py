"""Write the trace of a run to its directory, a batch at a time.

:meth:`TraceWriter.close` commits a trace as :mod:`antecede.trace.commit` describes. Readers
never mistake an unfinished trace for a finished one. The writer of a run in a table of runs
is in :mod:`antecede.trace.run_table_writer`.

This module needs the extra ``antecede[trace]``.
"""

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.trace.commit import begin_commit
from antecede.trace.packed_rows import packed_to_batch, view_packed_rows
from antecede.trace.recorders import BufferedRecorder, EventCounter
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import SAMPLES_NAME, SCHEMA
from antecede.trace.store import StorePath, open_store

__all__ = ["RunWriter", "TraceWriter"]


class RunWriter:
    """Writes one run: report events to :attr:`observer`, then call :meth:`close`.

    As a context manager it removes the unfinished run if the block raises.
    """

    observer: EventCounter
    """The observer for the driver of the run."""
    recorder: BufferedRecorder
    """The recorder of :attr:`observer`, for rows that no driver reports."""
    rows: int
    """The number of rows written so far."""

    def __init__(self, run: str) -> None:
        """Create the recorder of a run of this name."""
        self._run = run
        self.rows = 0
        self._next_seq = np.zeros(0, np.int64)
        self.recorder = BufferedRecorder(self._write)
        self.observer = EventCounter(self.recorder)

    @abstractmethod
    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows that already have the schema."""

    @abstractmethod
    def write_samples(self, table: pa.Table) -> None:
        """Write the samples of the run; call it before :meth:`close`."""

    @abstractmethod
    def close(self, info: RunInfo) -> None:
        """Write the buffered rows and everything else about the run."""

    @abstractmethod
    def abandon(self) -> None:
        """Remove the unfinished run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abandon()

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


class TraceWriter(RunWriter):
    """Writes one trace to a directory of its own."""

    directory: StorePath
    """The directory of the trace."""

    def __init__(self, directory: str | Path | StorePath, run: str) -> None:
        """Create the directory and an unfinished file for the run's events.

        Raises:
            ConfigError: The directory already holds a trace, or its URI is invalid.
            StorageError: The directory cannot be written to.
        """
        super().__init__(run)
        self.directory = open_store(directory)
        self._commit = begin_commit(self.directory)
        self._file = self._commit.open_events()
        self._writer = pq.ParquetWriter(self._file, SCHEMA, compression="zstd")

    def close(self, info: RunInfo) -> None:
        """Write the buffered rows and ``run.json``; this finishes the trace."""
        self.recorder.flush()
        with self._store_errors():
            self._writer.close()
            self._file.close()
        self._commit.finish(info, self.rows)

    def abandon(self) -> None:
        """Remove the unfinished files."""
        # A file that cannot be closed was not written, and cannot be removed.
        with contextlib.suppress(OSError):
            self._writer.close()
            self._file.close()
        self._commit.abandon()

    def write_samples(self, table: pa.Table) -> None:
        """Write the samples beside the events; call it before :meth:`close`."""
        with (
            self._store_errors(),
            (self.directory / SAMPLES_NAME).open_output() as file,
        ):
            pq.write_table(table, file)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows that already have the schema."""
        with self._store_errors():
            self._writer.write_batch(batch)
        self.rows += batch.num_rows

    @contextlib.contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Raise StorageError for an error of a store; errors of a local disk pass."""
        try:
            yield
        except OSError as error:
            if self.directory.local is not None:
                raise
            raise self.directory.write_error(error) from error
