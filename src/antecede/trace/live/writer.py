"""Record what a node does while it runs, so that even a kill leaves most of it.

A node's trace has the layout of :mod:`antecede.trace.schema`, and knows only its own part
of the run: every row is of process 0, which is the node itself, and the others go by
numbers of the node's own. ``run.json`` says what they are called, by which
:mod:`antecede.merge.merge` joins the traces of several nodes.

Until :meth:`LiveTrace.close` a directory looks like this::

    run.json.partial                        who it is, since when, and the names so far
    events.parquet.partial/
        part-000000.parquet ...             rows that are written for good
        tail-000001.packed ...              rows that have been flushed since

Rows are packed into memory as they happen. A flush appends them to the tail as they are,
which takes microseconds; a kill leaves what was flushed. When a tail is long enough, a
thread makes a part of it, so that the node does not wait for the compression. Nothing is
forced to the disk itself: what a loss of power leaves is up to the file system.

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

from antecede.errors import ConfigError, LocalError
from antecede.trace.live.reader import (
    CHUNK,
    CHUNK_MARK,
    EVENTS_PARTIAL,
    FLUSH_ROWS,
    INFO_PARTIAL,
    NODE,
    part_path,
    tail_path,
)
from antecede.trace.reader import PARTIAL_SUFFIX, RunInfo
from antecede.trace.recorders import PackedRecorder
from antecede.trace.schema import EVENTS_NAME, INFO_NAME
from antecede.trace.writer import PACKED, PackedRows, batch_of, packed_rows

__all__ = ["LiveTrace"]

PART_ROWS = 1 << 17
"""How many rows make a part; it is a row group, too."""

_log = logging.getLogger("antecede.trace")


class LiveTrace:
    """The trace of one node while it runs; record into it, then close it.

    It has the methods of :class:`antecede.trace.recorders.Tally` with which a driver
    records; :attr:`recorder` is the same as a Tally. The node is process 0 there, and every
    other process needs a name (:meth:`name_of`) before the first event that speaks of it.

    A disk that is full does not stop a node: :attr:`failure` says so from then on, nothing
    more is kept, and :meth:`close` raises.
    """

    recorder: PackedRecorder
    """Where the driver records what happens."""
    names: dict[int, str]
    """What the processes are called so far, by the node's own ids; it is 0 itself."""
    failure: str | None
    """Why nothing is recorded any more, in one line; None if all is well."""

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
        flush_rows: int = FLUSH_ROWS,
        part_rows: int = PART_ROWS,
    ) -> None:
        """Make the directory, which must hold no trace yet.

        Args:
            directory: Its own for every start of a node.
            name: What the others call this node. A node that is restarted keeps its name if
                its messages' numbers go on; one that has forgotten them is a new process,
                and needs a new name.
            id: Which process of its own numbering the node is.
            protocol: By its name in the registry.
            run: Which run; all nodes of a run must be told the same.
            started: When the node was started, by its wall clock; None for now.
            parameters: How it was set up, for ``run.json``.
            write_ahead: The caller promises to flush before anything leaves the node. Then
                whatever a kill takes with it was never seen by another.
            flush_rows: Flush after so many events, if the caller does not.
            part_rows: Make a part of so many.

        Raises:
            ConfigError: It holds a trace, or cannot be written to.
        """
        self._directory = Path(directory)
        self._folder = self._directory / EVENTS_PARTIAL
        if not name or flush_rows < 1 or part_rows < 1:
            raise LocalError("a trace needs a name, and to flush at least 1 row")
        self._run, self._protocol = run, protocol
        self._parameters = parameters if parameters is not None else {}
        self._more = {
            "kind": NODE,
            "name": name,
            "id": id,
            "started": time() if started is None else started,
            "write_ahead": write_ahead,
            "flush_rows": flush_rows,
        }
        self._id = id
        self.names = {id: name}
        self._make_directory()
        self.failure = None
        self._part_rows = part_rows
        self._parts = 0
        self._rows = 0
        self._pending: list[PackedRows] = []
        self._pending_rows = 0
        self._tail: FileIO | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="antecede-trace")
        self._writing: Future[None] | None = None
        self._closed = False
        # Arrow loads what it needs at its first batch: now, rather than amid traffic.
        batch_of(_joined([]), run, seq=np.empty(0, np.int64), step=None)
        self.recorder = PackedRecorder(self._take, flush_rows)
        self.sent = self.recorder.sent
        self.arrived = self.recorder.arrived
        self.dropped = self.recorder.dropped
        self.delivered = self.recorder.delivered
        self.transmitted = self.recorder.transmitted
        self.happened = self.recorder.happened

    def name_of(self, id: int, name: str) -> None:
        """Say what a process is called, when it is met.

        Two ids may have one name, as of a peer before and after its restart; they are one
        process to the merged trace. Raise LocalError if the id has another name already.
        """
        known = self.names.get(id)
        if id < 0 or not name or (known is not None and known != name):
            raise LocalError(f"process {id} cannot be called {name!r}, it is {known!r}")
        if known is None:
            self.names[id] = name
            self._names_saved = False

    def flush(self) -> None:
        """Put what was recorded where a kill of the node does not reach it."""
        self.recorder.flush()

    def close(self, *, complete: bool = False) -> None:
        """Write what is left; the trace is whole from now on. Record nothing afterwards.

        Args:
            complete: Nothing was left to do at the node: of what is undelivered nothing
                will be delivered any more.

        Raises:
            ConfigError: It could not be written; what was flushed before can be merged.
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
            raise ConfigError(self.failure)

    def __enter__(self) -> "LiveTrace":
        """Return it; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it, also if the block raised: what happened before did happen."""
        self.close()

    def _make_directory(self) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            taken = (EVENTS_NAME, INFO_NAME, INFO_PARTIAL)
            if any((self._directory / name).exists() for name in taken):
                raise FileExistsError
            self._folder.mkdir()  # Of two nodes that want the same directory, one fails.
            self._save_info(complete=False)
        except FileExistsError as error:
            raise ConfigError(
                f"{self._directory} holds a trace already; give each start of a node a"
                " directory of its own"
            ) from error
        except OSError as error:
            where = self._directory
            raise ConfigError(f"cannot write to {where}: {error.strerror}") from error

    def _save_info(self, *, complete: bool) -> None:
        """Write down everything that is no event; it appears by a rename."""
        alone = len(set(self.names.values())) == 1
        name = self.names[self._id]
        one = f"one node's view, that of {name}; `antecede merge` joins it with the others'"
        info = RunInfo(
            run=self._run,
            protocol=self._protocol,
            complete=complete,
            parameters=self._parameters,
            names=dict(self.names),
            holes=[] if alone else [one],
            more={**self._more},
        )
        written = self._directory / f".{INFO_NAME}"
        written.write_text(info.to_json(), encoding="utf-8")
        written.rename(self._directory / INFO_PARTIAL)
        self._names_saved = True

    def _take(
        self, buffer: bytearray, count: int, targets: list[Sequence[int] | None]
    ) -> None:
        """Append rows to the tail, and end the part if it is long enough."""
        if self.failure is not None:
            return
        packed = packed_rows(buffer, count, targets)
        packed = packed._replace(rows=packed.rows.copy())
        try:
            if not self._names_saved:
                self._save_info(complete=False)
            if self._tail is None:
                self._tail = tail_path(self._folder, self._parts).open("xb", buffering=0)
            _append(self._tail, packed)
            self._pending.append(packed)
            self._pending_rows += count
            if self._pending_rows >= self._part_rows:
                self._end_part()
        except (OSError, pa.ArrowException) as error:
            self._fail(error)

    def _end_part(self) -> None:
        """Have a part made of the rows of the tail, which is kept until then."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None
        self._wait()
        pending, self._pending = self._pending, []
        self._writing = self._executor.submit(
            _write_part, self._folder, self._parts, self._run, self._rows, pending
        )
        self._parts += 1
        self._rows += self._pending_rows
        self._pending_rows = 0

    def _wait(self) -> None:
        """Wait for the part before, so that no more than one is in memory twice."""
        if self._writing is not None:
            self._writing.result()

    def _finish(self, complete: bool) -> None:
        if self._pending or not self._parts:
            self._end_part()
        self._wait()
        self._more["ended"] = time()
        self._save_info(complete=complete)
        (self._directory / INFO_PARTIAL).rename(self._directory / INFO_NAME)
        self._folder.rename(self._directory / EVENTS_NAME)

    def _fail(self, error: Exception) -> None:
        words = error.strerror if isinstance(error, OSError) else str(error)
        self.failure = f"cannot write to {self._directory}: {words}"
        _log.warning("the trace of %s ends here: %s", self.names[self._id], self.failure)


def _write_part(
    folder: Path, place: int, run: str, first: int, pending: list[PackedRows]
) -> None:
    """Write a part, and then remove the tail that it stands for."""
    packed = _joined(pending)
    seq = np.arange(first, first + len(packed.rows))
    batch = batch_of(packed, run, seq=seq, step=None)
    part = part_path(folder, place)
    partial = part.with_name(part.name + PARTIAL_SUFFIX)
    pq.write_table(pa.Table.from_batches([batch]), partial, compression="zstd")
    partial.rename(part)
    tail_path(folder, place).unlink(missing_ok=True)


def _joined(pending: list[PackedRows]) -> PackedRows:
    nothing = np.empty(0, np.int32)
    return PackedRows(
        rows=np.concatenate([np.empty(0, PACKED), *(each.rows for each in pending)]),
        lengths=np.concatenate([nothing, *(each.lengths for each in pending)]),
        targets=np.concatenate([nothing, *(each.targets for each in pending)]),
    )


def _append(tail: FileIO, packed: PackedRows) -> None:
    """Append a chunk; a file without a buffer leaves nothing for later."""
    counts = [len(column) for column in packed]
    columns = [column.tobytes() for column in packed]
    text = b"".join([CHUNK.pack(CHUNK_MARK, *counts), *columns])
    while text:
        text = text[tail.write(text) :]
