"""Write the trace of a node while it runs, so that a killed node loses few events.

A node's trace has the layout of :mod:`antecede.trace.schema`, but contains only the node's
own part of the run: every row belongs to the node itself, and the ids of the other
processes are the node's own. ``run.json`` maps the ids to names;
:mod:`antecede.merge.merge` joins the traces of several nodes by these names.

Events are packed into memory. A flush appends the packed rows to a file, the tail, which
takes microseconds; a kill loses only the rows after the last flush. When a tail is long
enough, a thread compresses it into a part, so the node does not wait for the compression.
Nothing is synced to the disk: after a loss of power, the file system decides what is left.
:mod:`antecede.trace.live.layout` describes the files.

This module needs the extra ``antecede[trace]``.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from time import time
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.errors import ConfigError, LocalError, StorageError
from antecede.trace.live.layout import (
    EVENTS_PARTIAL,
    FLUSH_ROWS,
    INFO_PARTIAL,
    NODE,
    encode_chunk,
    part_path,
    tail_path,
)
from antecede.trace.live.names import base_name
from antecede.trace.packed_rows import (
    PackedRows,
    join_packed_rows,
    packed_to_batch,
    view_packed_rows,
)
from antecede.trace.reader import PARTIAL_SUFFIX
from antecede.trace.recorders import BufferedRecorder, EventCounter
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME

__all__ = ["NodeTraceWriter"]

PART_ROWS = 1 << 17
"""The default number of rows of a part, which is one row group."""

_log = logging.getLogger("antecede.trace")


class NodeTraceWriter:
    """Writes the trace of one node: report events to :attr:`observer`, then close it.

    Give every process a name (:meth:`set_name`) before the first event that mentions it.

    If the trace cannot be written any more, for example because the disk is full, the node
    continues: :attr:`failure` says why, later events are dropped, and :meth:`close` raises.
    """

    observer: EventCounter
    """The observer for the driver of the node."""
    recorder: BufferedRecorder
    """The recorder of :attr:`observer`, for rows that no driver reports."""
    names: dict[int, str]
    """The names of the processes so far, by the node's own ids."""
    failure: str | None
    """Why events are no longer recorded, in one line; None without a failure."""

    def __init__(
        self,
        directory: str | Path,
        name: str,
        *,
        id: int = 0,
        protocol: str | None = None,
        run: str = "live",
        started: float | None = None,
        parameters: dict[str, object] | None = None,
        write_ahead: bool = False,
        incarnation: int = 0,
        continues: tuple[int, int] | None = None,
        flush_rows: int = FLUSH_ROWS,
        part_rows: int = PART_ROWS,
    ) -> None:
        """Create the directory, which must not hold a trace.

        Args:
            directory: A new directory for every start of a node.
            name: The node's name; another one if it numbers its messages from 1 again.
            id: The node's id in its own numbering of processes.
            protocol: The name of the protocol in the registry.
            run: The name of the run, the same at all its nodes.
            started: The start of the node by its wall clock; None for now.
            parameters: The configuration of the node, for ``run.json``.
            write_ahead: The caller promises to flush before a frame leaves the node. Then
                no other node has seen an effect of an event that a kill loses.
            incarnation: The number of this start of the node.
            continues: The incarnation that has committed last to the journal, and the
                number of its events at that commit; a merge leaves out its later events.
            flush_rows: Flush after this number of events, if the caller does not.
            part_rows: Make a part after this number of rows.

        Raises:
            ConfigError: The directory already holds a trace.
            StorageError: The directory cannot be written to.
        """
        self._directory = Path(directory)
        self._folder = self._directory / EVENTS_PARTIAL
        if not name or flush_rows < 1 or part_rows < 1:
            raise LocalError(
                "name must not be empty, flush_rows and part_rows must be at least 1; got"
                f" {name!r}, {flush_rows}, {part_rows}"
            )
        self._run, self._protocol = run, protocol
        self._parameters = parameters if parameters is not None else {}
        self._more: dict[str, object] = {
            "kind": NODE,
            "name": name,
            "id": id,
            "started": time() if started is None else started,
            "write_ahead": write_ahead,
            "flush_rows": flush_rows,
            "incarnation": incarnation,
            "continues": continues,
        }
        self._id, self.names, self.failure = id, {id: name}, None
        self._create_directory()
        self._part_rows = part_rows
        self._parts = self._rows = self._pending_rows = 0
        self._pending: list[PackedRows] = []
        self._tail: FileIO | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="antecede-trace")
        self._writing: Future[None] | None = None
        self._closed = False
        # Arrow loads its libraries at the first batch: do that now, not during traffic.
        packed_to_batch(join_packed_rows([]), run, seq=np.empty(0, np.int64), step=None)
        self.recorder = BufferedRecorder(self._write, flush_rows)
        self.observer = EventCounter(self.recorder)

    @property
    def rows(self) -> int:
        """The number of events that are flushed."""
        return self._rows + self._pending_rows

    def set_name(self, id: int, name: str) -> None:
        """Set the name of a process.

        Two ids may have the same name, such as those of a peer before and after a restart;
        the merged trace has one process for them. A name without a history may be replaced
        by the same name with one. Raise LocalError if the id already has another name.
        """
        known = self.names.get(id)
        if id < 0 or not name or known not in (None, name, base_name(name)):
            raise LocalError(f"cannot name process {id} {name!r}: its name is {known!r}")
        if known != name:
            self.names[id] = name
            self._names_saved = False

    def flush(self) -> None:
        """Write the recorded events to the tail; a kill of the node does not lose them."""
        self.recorder.flush()

    def close(self, *, complete: bool = False) -> None:
        """Finish the trace. Record nothing afterwards.

        Args:
            complete: The node had nothing left to do: a message that it has not delivered
                will never be delivered.

        Raises:
            StorageError: The trace could not be written; flushed events can be merged.
        """
        if self._closed:
            return
        self._closed = True
        self.recorder.flush()
        if self.failure is None:
            try:
                self._finish(complete)
            except (OSError, pa.ArrowException) as error:
                self._fail(error)
        self._executor.shutdown()
        if self._tail is not None:
            self._tail.close()
        if self.failure is not None:
            raise StorageError(self.failure)

    def __enter__(self) -> "NodeTraceWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the trace, also if the block raised: the recorded events did happen."""
        self.close()

    def _create_directory(self) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            taken = (EVENTS_NAME, INFO_NAME, INFO_PARTIAL)
            if any((self._directory / name).exists() for name in taken):
                raise FileExistsError
            self._folder.mkdir()  # Fails for the second of two nodes with one directory.
            self._save_info(complete=False)
        except FileExistsError as error:
            raise ConfigError(
                f"{self._directory} already holds a trace; give each start of a node a"
                " directory of its own"
            ) from error
        except OSError as error:
            directory = self._directory
            raise StorageError(f"cannot write to {directory}: {error.strerror}") from error

    def _save_info(self, *, complete: bool) -> None:
        """Replace ``run.json.partial`` atomically."""
        alone = len(set(self.names.values())) == 1
        name = self.names[self._id]
        missing = f"this is the trace of one node, {name}; `antecede merge` joins all nodes"
        info = RunInfo(
            run=self._run,
            protocol=self._protocol,
            complete=complete,
            parameters=self._parameters,
            names=dict(self.names),
            missing=[] if alone else [missing],
            more={**self._more},
        )
        written = self._directory / f".{INFO_NAME}"
        written.write_text(info.to_json(), encoding="utf-8")
        written.rename(self._directory / INFO_PARTIAL)
        self._names_saved = True

    def _write(
        self, buffer: bytearray, count: int, targets: list[Sequence[int] | None]
    ) -> None:
        """Append rows to the tail, and make a part of it if it is long enough."""
        if self.failure is not None:
            return
        packed = view_packed_rows(buffer, count, targets)
        packed = packed._replace(rows=packed.rows.copy())
        try:
            if not self._names_saved:
                self._save_info(complete=False)
            if self._tail is None:
                self._tail = tail_path(self._folder, self._parts).open("xb", buffering=0)
            _append(self._tail, encode_chunk(packed))
            self._pending.append(packed)
            self._pending_rows += count
            if self._pending_rows >= self._part_rows:
                self._start_part()
        except (OSError, pa.ArrowException) as error:
            self._fail(error)

    def _start_part(self) -> None:
        """Make a part of the tail in the background; the tail is kept until then."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None
        self._wait_for_part()
        pending, self._pending = self._pending, []
        self._writing = self._executor.submit(
            _write_part, self._folder, self._parts, self._run, self._rows, pending
        )
        self._parts += 1
        self._rows += self._pending_rows
        self._pending_rows = 0

    def _wait_for_part(self) -> None:
        """Wait for the part in the background, so that at most one is in memory twice."""
        if self._writing is not None:
            self._writing.result()

    def _finish(self, complete: bool) -> None:
        if self._pending or not self._parts:
            self._start_part()
        self._wait_for_part()
        self._more["ended"] = time()
        self._save_info(complete=complete)
        (self._directory / INFO_PARTIAL).rename(self._directory / INFO_NAME)
        self._folder.rename(self._directory / EVENTS_NAME)

    def _fail(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self.failure = f"cannot write to {self._directory}: {reason}"
        _log.warning("stopped the trace of %s: %s", self.names[self._id], self.failure)


def _write_part(
    folder: Path, index: int, run: str, first: int, pending: list[PackedRows]
) -> None:
    """Write a part, then remove the tail with the same rows."""
    packed = join_packed_rows(pending)
    seq = np.arange(first, first + len(packed.rows))
    batch = packed_to_batch(packed, run, seq=seq, step=None)
    part = part_path(folder, index)
    partial = part.with_name(part.name + PARTIAL_SUFFIX)
    pq.write_table(pa.Table.from_batches([batch]), partial, compression="zstd")
    partial.rename(part)
    tail_path(folder, index).unlink(missing_ok=True)


def _append(tail: FileIO, data: bytes) -> None:
    """Write all bytes; an unbuffered file may write fewer at a time."""
    while data:
        data = data[tail.write(data) :]
