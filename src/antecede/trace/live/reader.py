"""Read the trace of one node, closed or not: what :mod:`antecede.trace.live.writer` writes.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from struct import Struct

import numpy as np
import pyarrow as pa

from antecede.errors import ConfigError
from antecede.trace.reader import PARTIAL_SUFFIX, RunInfo, Trace, read_trace
from antecede.trace.schema import EVENTS_NAME, INFO_NAME, SCHEMA
from antecede.trace.writer import PACKED, PackedRows, batch_of

__all__ = ["NodeTrace", "are_nodes_of_one_run", "part_path", "read_node", "tail_path"]

NODE = "node"
"""What ``kind`` is in the ``run.json`` of a node's trace."""
FLUSH_ROWS = 4096
"""How many events are in memory only, at most, unless the caller flushes sooner."""
EVENTS_PARTIAL = EVENTS_NAME + PARTIAL_SUFFIX
INFO_PARTIAL = INFO_NAME + PARTIAL_SUFFIX

CHUNK = Struct("<4sIII")
"""Begins what one flush appends: a mark, and how many rows, sends and targets follow."""
CHUNK_MARK = b"rows"


class NodeTrace:
    """What a node recorded; get one from :func:`read_node`."""

    path: Path
    """Its directory."""
    info: RunInfo
    """What is known of the run, with the node's own ids for its ``names``."""
    name: str
    """What the node is called."""
    id: int
    """Which process of its own numbering it is."""
    started: float
    """When it was started, by its own clock."""
    whole: bool
    """The node closed it; else it was killed, and what it had not flushed is lost."""
    rows: int
    """How many events there are."""

    def __init__(
        self, path: Path, info: RunInfo, parts: Trace, rest: pa.Table, *, whole: bool
    ) -> None:
        """Join the parts, and what comes after them."""
        self.path, self.info, self.whole = path, info, whole
        name, started = info.more.get("name"), info.more.get("started")
        if not isinstance(name, str) or not isinstance(started, int | float):
            raise ConfigError(f"{path}: {INFO_NAME} lacks 'name' or 'started' of a node")
        self.name, self.started = name, started
        own = info.more.get("id", 0)
        self.id = own if isinstance(own, int) else 0
        self.rows = parts.rows + rest.num_rows
        self._parts, self._rest = parts, rest

    @property
    def lost_max(self) -> int:
        """How many events that others may have seen the effects of a kill took, at most."""
        if self.whole or self.info.more.get("write_ahead") is True:
            return 0
        rows = self.info.more.get("flush_rows")
        return rows if isinstance(rows, int) else FLUSH_ROWS

    def batches(
        self, columns: Sequence[str] | None = None, *, first: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows from the row ``first`` on; ``kind`` is dictionary-encoded."""
        for start, batch in self._parts.numbered_batches(columns, first=first):
            yield batch.slice(max(first - start, 0))
        rest = self._rest.slice(max(first - self._parts.rows, 0))
        yield from (rest if columns is None else rest.select(columns)).to_batches()

    def in_order(self) -> "NodeTrace":
        """Return the same with its rows in the order of ``seq``, all in memory."""
        node = copy(self)
        table = pa.Table.from_batches([_encoded(batch) for batch in self.batches()])
        node._parts = Trace(self.path, self.info, [])
        node._rest = table.unify_dictionaries().combine_chunks().sort_by("seq")
        return node


def read_node(path: str | Path) -> NodeTrace:
    """Open the trace of a node, closed or not.

    Raise ConfigError if there is none, it is damaged, or it is no node's.
    """
    directory = Path(path)
    nothing = SCHEMA.empty_table()
    folder = directory / EVENTS_PARTIAL
    if not folder.is_dir():
        trace = read_trace(directory)
        _check_node(directory, trace.info)
        return NodeTrace(directory, trace.info, trace, nothing, whole=True)
    info = _read_info(directory)
    _check_node(directory, info)
    parts = Trace(directory, info, sorted(folder.glob("part-*.parquet")))
    batches = []
    seq = parts.rows
    for tail in sorted(folder.glob("tail-*.packed")):
        if not part_path(folder, int(tail.stem.partition("-")[2])).exists():
            for packed in _chunks(tail.read_bytes()):
                places = np.arange(seq, seq + len(packed.rows))
                batches.append(_encoded(batch_of(packed, info.run, seq=places, step=None)))
                seq += len(packed.rows)
    rest = pa.Table.from_batches(batches).combine_chunks() if batches else nothing
    return NodeTrace(directory, info, parts, rest, whole=False)


def are_nodes_of_one_run(paths: Sequence[Path]) -> bool:
    """Whether all of these are traces of nodes, and say that they are of the same run."""
    runs = set()
    for path in paths:
        try:
            info = _read_info(path)
        except ConfigError:
            return False
        if info.more.get("kind") != NODE:
            return False
        runs.add(info.run)
    return len(runs) == 1


def _read_info(directory: Path) -> RunInfo:
    # The last thing that closing does is a rename, after that of the run's description.
    path = directory / INFO_PARTIAL
    path = path if path.exists() else directory / INFO_NAME
    try:
        return RunInfo.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{directory}: the node was killed before it recorded anything; leave it out"
        ) from error
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _check_node(directory: Path, info: RunInfo) -> None:
    if info.more.get("kind") != NODE:
        raise ConfigError(
            f"{directory} is not the trace of a node; verify it as it is, unmerged"
        )


def part_path(folder: Path, place: int) -> Path:
    """Return the path of a part, by its place among the parts."""
    return folder / f"part-{place:06}.parquet"


def tail_path(folder: Path, place: int) -> Path:
    """Return the path of what becomes the part of that place."""
    return folder / f"tail-{place:06}.packed"


def _chunks(text: bytes) -> Iterator[PackedRows]:
    """Yield what the flushes appended; the last may have been cut short."""
    place = 0
    while place + CHUNK.size <= len(text):
        mark, *counts = CHUNK.unpack_from(text, place)
        place += CHUNK.size
        kinds = (PACKED, np.dtype("<i4"), np.dtype("<i4"))
        sizes = [count * kind.itemsize for count, kind in zip(counts, kinds, strict=True)]
        if mark != CHUNK_MARK or place + sum(sizes) > len(text):
            return
        columns = []
        for kind, count, size in zip(kinds, counts, sizes, strict=True):
            columns.append(np.frombuffer(text, kind, count, place))
            place += size
        yield PackedRows(*columns)


def _encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Encode the kinds as those of a part are, if they are not."""
    place = batch.schema.get_field_index("kind")
    kind = batch.column(place)
    if not pa.types.is_dictionary(kind.type):
        batch = batch.set_column(place, "kind", kind.dictionary_encode())
    return batch
