"""Write the trace of a run to its directory, a batch at a time.

Until :meth:`TraceWriter.close` the rows are in a file whose name ends in ``.partial``, and
there is no ``run.json``; so half a trace is never taken for a whole one.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import ConfigError
from antecede.trace.event import Kind
from antecede.trace.reader import PARTIAL_SUFFIX, RunInfo
from antecede.trace.recorders import KINDS, ROW, PackedRecorder
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA

__all__ = ["PackedRows", "TraceWriter", "batch_of", "packed_rows"]

PACKED = np.dtype(
    [
        ("process", "<i4"),
        ("time", "<f8"),
        ("kind", "u1"),
        ("source", "<i4"),
        ("number", "<i8"),
        ("target", "<i4"),
        ("payload_bytes", "<i4"),
        ("metadata_bytes", "<i4"),
    ]
)
"""A row of :data:`antecede.trace.recorders.ROW`, as NumPy sees it."""
assert PACKED.itemsize == ROW.size

KIND_NAMES = pa.array([kind.value for kind in KINDS])
SEND = KINDS.index(Kind.SEND)


class PackedRows(NamedTuple):
    """Rows as a :class:`PackedRecorder` packs them, and the targets of the sends."""

    rows: np.ndarray
    """Of the type :data:`PACKED`."""
    lengths: np.ndarray
    """For each send how many targets it names, or -1 for a broadcast."""
    targets: np.ndarray
    """The targets of all sends, one after the other."""


class TraceWriter:
    """A trace that is being written; record into :attr:`recorder`, then close it.

    As a context manager it removes what it wrote if the block raises.
    """

    recorder: PackedRecorder
    """Where the driver records what happens."""
    rows: int
    """How many rows have been written."""

    def __init__(self, directory: Path, run: str) -> None:
        """Make the directory, which must not hold a trace yet.

        Raise ConfigError if it holds one, or cannot be written to.
        """
        self._directory = directory
        self._run = run
        self._partial = directory / f"{EVENTS_NAME}{PARTIAL_SUFFIX}"
        if (directory / EVENTS_NAME).exists():
            raise ConfigError(
                f"{directory} holds a trace already; choose another directory"
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._partial, SCHEMA, compression="zstd")
        except OSError as error:
            raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
        self.rows = 0
        self._next_seq = np.zeros(0, np.int64)
        self.recorder = PackedRecorder(self._write)

    def close(self, info: RunInfo) -> None:
        """Write what is left and ``run.json``; the trace is whole from now on."""
        self.recorder.flush()
        self._writer.close()
        (self._directory / INFO_NAME).write_text(info.to_json(), encoding="utf-8")
        self._partial.rename(self._directory / EVENTS_NAME)

    def abandon(self) -> None:
        """Remove what was written so far."""
        self._writer.close()
        self._partial.unlink(missing_ok=True)

    def __enter__(self) -> "TraceWriter":
        """Return the writer; close it before the block ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove what was written if the block raised."""
        if kind is not None:
            self.abandon()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows that have the schema already, in place of recorded ones."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def _write(
        self, buffer: bytearray, count: int, targets: list[Sequence[int] | None]
    ) -> None:
        """Turn packed rows into a record batch and write it."""
        packed = packed_rows(buffer, count, targets)
        seq = self._seqs(packed.rows["process"])
        step = np.arange(self.rows, self.rows + count)
        self.write_batch(batch_of(packed, self._run, seq=seq, step=step))

    def _seqs(self, processes: np.ndarray) -> np.ndarray:
        """Return each row's place in the history of its process, and count on."""
        known = len(self._next_seq)
        if processes.max() >= known:
            more = max(int(processes.max()) + 1, 2 * known) - known
            self._next_seq = np.concatenate((self._next_seq, np.zeros(more, np.int64)))
        order = np.argsort(processes, kind="stable")
        together = processes[order]
        first = np.concatenate(([True], together[1:] != together[:-1]))
        starts = np.flatnonzero(first)
        lengths = np.diff(np.concatenate((starts, [len(together)])))
        places = np.arange(len(together)) - np.repeat(starts, lengths)
        seqs = np.empty(len(together), np.int64)
        seqs[order] = places + self._next_seq[together]
        self._next_seq[together[starts]] += lengths
        return seqs


def packed_rows(
    buffer: bytearray | bytes, count: int, targets: list[Sequence[int] | None]
) -> PackedRows:
    """View what a :class:`PackedRecorder` hands over as arrays; copy what you keep."""
    lengths = [-1 if each is None else len(each) for each in targets]
    flat = chain.from_iterable(each for each in targets if each is not None)
    return PackedRows(
        rows=np.frombuffer(buffer, PACKED, count),
        lengths=np.array(lengths, np.int32),
        targets=np.fromiter(flat, np.int32),
    )


def batch_of(
    packed: PackedRows, run: str, *, seq: np.ndarray, step: np.ndarray | None
) -> pa.RecordBatch:
    """Make rows of the schema from packed ones; without steps, ``step`` is null."""
    rows = packed.rows
    count = len(rows)
    columns: dict[str, pa.Array] = {
        "run": pa.repeat(pa.scalar(run), count),
        "process": pa.array(rows["process"].copy()),
        "seq": pa.array(seq),
        "step": pa.nulls(count, pa.int64()) if step is None else pa.array(step),
        "time": pa.array(rows["time"].copy()),
        "kind": KIND_NAMES.take(pa.array(rows["kind"].copy())),
        "targets": _targets(packed),
    }
    for name in ("source", "number", "target", "payload_bytes", "metadata_bytes"):
        values = rows[name].copy()
        columns[name] = pa.array(values, mask=values < 0)
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _targets(packed: PackedRows) -> pa.Array:
    """Make the column of lists: one for each send that names targets, null elsewhere."""
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
