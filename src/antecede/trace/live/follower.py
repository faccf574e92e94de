"""Read the trace of a node, or the parts of a trace, while they are written.

A follower returns each row once. It reads the finished parts, and of a node also the tail,
which has every flushed row (:mod:`antecede.trace.live.layout`).

This module needs the extra ``antecede[trace]``.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.trace.live.layout import (
    EVENTS_PARTIAL,
    HEADER,
    NODE,
    decode_chunks,
    part_path,
    tail_path,
)
from antecede.trace.live.reader import read_info
from antecede.trace.packed_rows import packed_to_batch
from antecede.trace.reader import PARTIAL_SUFFIX
from antecede.trace.row_groups import check_schema, open_parquet
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA
from antecede.trace.store import open_store

__all__ = ["NodeFollower", "PartFollower", "follow_trace"]


class NodeFollower:
    """Follows the trace of one node."""

    path: Path
    info: RunInfo
    """The contents of ``run.json`` at the last poll, with the names so far."""
    rows: int
    """The number of rows that were read."""
    has_ended: bool
    """The node has closed the trace, and all rows were read."""

    def __init__(self, path: Path, info: RunInfo) -> None:
        self.path, self.info = path, info
        self.rows, self.has_ended = 0, False
        self._index = 0
        """The index of the part, or of the tail, that is read next."""
        self._offset = 0
        """The number of bytes of the tail that were read."""
        self._first = 0
        """The row number of the first row of the part."""

    def poll(self) -> list[pa.RecordBatch]:
        """Return the rows since the last poll."""
        is_closed = self._folder().name == EVENTS_NAME
        batches: list[pa.RecordBatch] = []
        while True:
            folder = self._folder()
            part = part_path(folder, self._index)
            has_next = tail_path(folder, self._index + 1).exists()
            if part.exists():
                try:
                    batches += self._read_part(part)
                except TraceError:
                    if part.exists():
                        raise
                    continue  # The folder was renamed.
            elif tail_path(folder, self._index).exists():
                batches += self._read_tail(tail_path(folder, self._index))
                if not has_next:
                    break
            elif part.exists() or folder != self._folder():
                continue
            else:
                break
            # The part is complete, or the next tail had begun before this one was read.
            self._index, self._offset, self._first = self._index + 1, 0, self.rows
        # The names are saved before the rows that use them.
        self.info = _read_renamed_info(self.path)
        self.has_ended = is_closed
        return batches

    def _folder(self) -> Path:
        partial = self.path / EVENTS_PARTIAL
        return partial if partial.is_dir() else self.path / EVENTS_NAME

    def _read_part(self, part: Path) -> list[pa.RecordBatch]:
        with open_parquet(open_store(part)) as parquet:
            check_schema(open_store(part), parquet.schema_arrow)
            table = parquet.read().slice(self.rows - self._first)
        self.rows += table.num_rows
        return _with_kinds(table)

    def _read_tail(self, tail: Path) -> list[pa.RecordBatch]:
        """Return the new rows of the tail, unless it has become a part."""
        try:
            with tail.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        batches = []
        for packed in decode_chunks(data):
            count = len(packed.rows)
            seq = np.arange(self.rows, self.rows + count)
            batch = packed_to_batch(packed, self.info.run, seq=seq, step=None)
            batches += _with_kinds(pa.Table.from_batches([batch]))
            self.rows += count
            self._offset += HEADER.size + sum(column.nbytes for column in packed)
        return batches


class PartFollower:
    """Follows a trace that is one file, or a folder of parts that others add to."""

    path: Path
    info: RunInfo
    rows: int
    has_ended: bool
    """``run.json`` exists, which a writer adds at the end, and all parts were read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info = RunInfo(run=path.resolve().name)
        self.rows, self.has_ended = 0, False
        self._read: set[str] = set()

    def poll(self) -> list[pa.RecordBatch]:
        """Return the rows of the parts that are new since the last poll."""
        is_closed = (self.path / INFO_NAME).exists()
        if is_closed:
            self.info = read_info(self.path)
        events = self.path / EVENTS_NAME
        files = [events] if events.is_file() else sorted(events.glob("*.parquet"))
        batches: list[pa.RecordBatch] = []
        for file in files:
            if file.name.startswith(("_", ".")) or file.name in self._read:
                continue
            with open_parquet(open_store(file)) as parquet:
                check_schema(open_store(file), parquet.schema_arrow)
                table = parquet.read()
            self._read.add(file.name)
            self.rows += table.num_rows
            batches += _with_kinds(table)
        self.has_ended = is_closed
        return batches


def follow_trace(path: Path) -> NodeFollower | PartFollower | None:
    """Return a follower of the trace in a directory; None if there is none yet.

    Raise TraceError if the trace cannot be read while it is written.
    """
    partial = path / f"{EVENTS_NAME}{PARTIAL_SUFFIX}"
    if partial.is_file():
        raise TraceError(
            f"{path}: {partial.name} is a single file, which can be read when the trace is"
            " finished: verify it then"
        )
    try:
        info = read_info(path)
    except TraceError:
        return PartFollower(path) if (path / EVENTS_NAME).exists() else None
    if info.more.get("kind") == NODE:
        return NodeFollower(path, info)
    return PartFollower(path)


def _read_renamed_info(path: Path) -> RunInfo:
    """Read ``run.json``, also while a node that closes its trace renames it."""
    try:
        return read_info(path)
    except TraceError:
        return read_info(path)


def _with_kinds(table: pa.Table) -> list[pa.RecordBatch]:
    """Return the rows in batches, with a dictionary of kinds."""
    table = table.select(SCHEMA.names)
    index = table.schema.get_field_index("kind")
    if not pa.types.is_dictionary(table.schema.field(index).type):
        table = table.set_column(index, "kind", table.column(index).dictionary_encode())
    batches: list[pa.RecordBatch] = table.unify_dictionaries().combine_chunks().to_batches()
    return batches
