"""Read the trace of one node, whether it was closed or not.

:mod:`antecede.trace.live.writer` writes these traces.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.trace.live.layout import (
    EVENTS_PARTIAL,
    FLUSH_ROWS,
    INFO_PARTIAL,
    NODE,
    decode_chunks,
    part_path,
)
from antecede.trace.packed_rows import packed_to_batch
from antecede.trace.reader import Trace, read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA

__all__ = [
    "NodeTrace",
    "are_nodes_of_one_run",
    "find_node_traces",
    "read_info",
    "read_node_trace",
]


class NodeTrace:
    """The trace of one node, from one start to its end; see :func:`read_node_trace`."""

    path: Path
    """The directory of the trace."""
    info: RunInfo
    """The contents of ``run.json``; its ``names`` have the node's own process ids."""
    name: str
    """The name of the node."""
    id: int
    """The node's id in its own numbering of processes."""
    started: float
    """The start of the node by its own clock."""
    closed: bool
    """The node closed the trace. Otherwise it was killed, and events that it had not
    flushed are lost."""
    rows: int
    """The number of events."""

    def __init__(
        self, path: Path, info: RunInfo, parts: Trace, tail: pa.Table, *, closed: bool
    ) -> None:
        """Join the finished parts and the rows flushed after them."""
        self.path, self.info, self.closed = path, info, closed
        name, started = info.more.get("name"), info.more.get("started")
        if not isinstance(name, str) or not isinstance(started, int | float):
            raise TraceError(f"{path}: {INFO_NAME} lacks 'name' or 'started' of a node")
        self.name, self.started = name, started
        own = info.more.get("id", 0)
        self.id = own if isinstance(own, int) else 0
        self.rows = parts.rows + tail.num_rows
        self._parts, self._tail = parts, tail

    @property
    def lost_events_max(self) -> int:
        """The maximum number of lost events whose effects another node may have seen."""
        if self.closed or self.info.more.get("write_ahead") is True:
            return 0
        rows = self.info.more.get("flush_rows")
        return rows if isinstance(rows, int) else FLUSH_ROWS

    @property
    def incarnation(self) -> int:
        """The number of the start of the node; 0 if it is unknown."""
        number = self.info.more.get("incarnation")
        return number if isinstance(number, int) else 0

    @property
    def continues(self) -> tuple[int, int] | None:
        """The earlier incarnation that this one continues, and the events that count.

        None if the node was not restored from a journal.
        """
        found = self.info.more.get("continues")
        if isinstance(found, list) and len(found) == 2:
            return int(found[0]), int(found[1])
        return None

    def cut(self, rows: int) -> "NodeTrace":
        """Return the same trace without the events after the first ``rows``."""
        node = copy(self)
        node.rows = min(rows, self.rows)
        return node

    def batches(
        self, columns: Sequence[str] | None = None, *, first: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows from row ``first`` on; ``kind`` is dictionary-encoded."""
        left = self.rows - first
        for batch in self._all_batches(columns, first):
            if left <= 0:
                return
            yield batch.slice(0, left)
            left -= batch.num_rows

    def _all_batches(
        self, columns: Sequence[str] | None, first: int
    ) -> Iterator[pa.RecordBatch]:
        for start, batch in self._parts.numbered_batches(columns, first=first):
            yield batch.slice(max(first - start, 0))
        tail = self._tail.slice(max(first - self._parts.rows, 0))
        yield from (tail if columns is None else tail.select(columns)).to_batches()

    def sorted_by_seq(self) -> "NodeTrace":
        """Return the same trace with its rows sorted by ``seq``, all in memory."""
        node = copy(self)
        table = pa.Table.from_batches([_encode_kind(batch) for batch in self.batches()])
        node._parts = Trace(self.path, self.info, [])
        node._tail = table.unify_dictionaries().combine_chunks().sort_by("seq")
        return node


def read_node_trace(path: str | Path) -> NodeTrace:
    """Open the trace of a node, closed or not.

    Raise TraceError if there is no trace, it is damaged, or it is not the trace of a node.
    """
    directory = Path(path)
    empty = SCHEMA.empty_table()
    folder = directory / EVENTS_PARTIAL
    if not folder.is_dir():
        trace = read_trace(directory)
        _check_node(directory, trace.info)
        return NodeTrace(directory, trace.info, trace, empty, closed=True)
    info = read_info(directory)
    _check_node(directory, info)
    parts = Trace(directory, info, sorted(folder.glob("part-*.parquet")))
    batches = []
    first = parts.rows
    for path in sorted(folder.glob("tail-*.packed")):
        if not part_path(folder, int(path.stem.partition("-")[2])).exists():
            for packed in decode_chunks(path.read_bytes()):
                seq = np.arange(first, first + len(packed.rows))
                batch = packed_to_batch(packed, info.run, seq=seq, step=None)
                batches.append(_encode_kind(batch))
                first += len(packed.rows)
    tail = pa.Table.from_batches(batches).combine_chunks() if batches else empty
    return NodeTrace(directory, info, parts, tail, closed=False)


def find_node_traces(paths: Sequence[str | Path]) -> list[Path]:
    """Return the directories of nodes, closed or not: the paths, or what is in them.

    A path that contains no trace is returned itself, so that reading it says why.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(each for each in path.glob("*") if _is_node(each))
        found += [path] if _is_node(path) or not inside else inside
    return found


def _is_node(directory: Path) -> bool:
    names = (EVENTS_PARTIAL, INFO_PARTIAL, EVENTS_NAME)
    return any((directory / name).exists() for name in names)


def are_nodes_of_one_run(paths: Sequence[Path]) -> bool:
    """Return whether all paths hold traces of nodes, with the same name of the run."""
    runs = set()
    for path in paths:
        try:
            info = read_info(path)
        except TraceError:
            return False
        if info.more.get("kind") != NODE:
            return False
        runs.add(info.run)
    return len(runs) == 1


def read_info(directory: Path) -> RunInfo:
    """Return the contents of ``run.json`` of a node, or of ``run.json.partial``.

    Raise TraceError if there is neither, or it is invalid.
    """
    # A node that closes its trace renames run.json before the folder of the events.
    path = directory / INFO_PARTIAL
    path = path if path.exists() else directory / INFO_NAME
    try:
        return RunInfo.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise TraceError(
            f"{directory} has no {INFO_NAME}: the node was killed before its first event;"
            " leave this directory out"
        ) from error
    except (TraceError, OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error


def _check_node(directory: Path, info: RunInfo) -> None:
    if info.more.get("kind") != NODE:
        raise TraceError(
            f"{directory} is not the trace of a node; verify it directly, without a merge"
        )


def _encode_kind(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionary-encode the column ``kind`` if it is not."""
    index = batch.schema.get_field_index("kind")
    kind = batch.column(index)
    if not pa.types.is_dictionary(kind.type):
        batch = batch.set_column(index, "kind", kind.dictionary_encode())
    return batch
