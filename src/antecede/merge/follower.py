"""Follow the traces of all nodes of a run while they are written.

As in a merge, a process is identified by its name, because each node has its own ids. The
first history of a name that appears is the process of that name.

This module needs the extra ``antecede[trace]``.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from antecede.errors import TraceError
from antecede.trace.live.follower import NodeFollower, PartFollower, follow_trace
from antecede.trace.live.names import base_name
from antecede.trace.live.reader import find_node_traces

__all__ = ["RunFollower"]

NO_ID = -(1 << 40)
"""Stands for a null while ids are mapped."""
COLUMNS = ("process", "seq", "time", "kind", "source", "number", "targets")


class RunFollower:
    """Follows the directories of one run, and those that appear in them."""

    names: dict[int, str]
    """The names of the processes that have one."""
    run: str | None
    """The name of the run; None before the first trace is found."""
    restart: str | None
    """The line that reports the restart of a node, after which the run cannot be followed:
    events of the node before the restart, which were returned, may not count, and the node
    may have sent other messages with the same numbers. None without a restart."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.names, self.run, self.restart = {}, None, None
        self._paths = list(paths)
        self._followers: dict[Path, NodeFollower | PartFollower] = {}
        self._ids: dict[str, int] = {}
        self._histories: dict[str, str] = {}
        """By base name, the first name with a history."""
        self._recorded: set[int] = set()

    @property
    def traces(self) -> int:
        """The number of traces that are followed."""
        return len(self._followers)

    @property
    def has_ended(self) -> bool:
        """Whether there are traces, and all are closed and read to the end."""
        found = self._followers.values()
        return bool(found) and all(each.has_ended for each in found)

    def unrecorded(self) -> set[int]:
        """Return the processes whose events are not, or not all, in a trace."""
        if any(isinstance(each, PartFollower) for each in self._followers.values()):
            return set()
        return set(self._ids.values()) - self._recorded

    def poll(self) -> list[pa.RecordBatch]:
        """Return the rows since the last poll, with the ids of the run.

        Return no rows after the restart of a node; see :attr:`restart`.

        Raises:
            TraceError: A directory holds the trace of another run, or a damaged one.
        """
        self._find_traces()
        batches = []
        for follower in self._followers.values():
            found = follower.poll()
            if isinstance(follower, PartFollower):
                self.names.update(follower.info.names)
                batches += [batch.select(COLUMNS) for batch in found]
            else:
                ids = self._ids_of(follower)
                batches += [_map_batch(batch, ids, follower) for batch in found]
        # The rows may have effects of a restart since the directories were listed.
        self._find_traces()
        return batches if self.restart is None else []

    def _find_traces(self) -> None:
        for path in find_node_traces(self._paths):
            if path not in self._followers:
                self._open(path)

    def _open(self, path: Path) -> None:
        follower = follow_trace(path)
        if follower is None:
            return
        if self.run is not None and follower.info.run != self.run:
            raise TraceError(
                f"{path} is of the run {follower.info.run!r}, and not of {self.run!r}:"
                " follow the traces of one run"
            )
        if isinstance(follower, PartFollower) and self._followers:
            raise TraceError(f"{path}: follow the trace of a run alone")
        name = follower.info.more.get("name")
        known = {each.info.more.get("name") for each in self._followers.values()}
        if isinstance(follower, NodeFollower) and name in known:
            self.restart = (
                f"{path}: {name} was restarted, and the run cannot be followed any longer:"
                " merge the traces at its end, and verify the result"
            )
            return
        self.run = follower.info.run
        self._followers[path] = follower
        if isinstance(follower, NodeFollower):
            self._recorded.add(self._id_of(str(name)))

    def _ids_of(self, node: NodeFollower) -> dict[int, int]:
        return {own: self._id_of(name) for own, name in node.info.names.items()}

    def _id_of(self, name: str) -> int:
        base = base_name(name)
        if name != base:
            first = self._histories.setdefault(base, name)
            if first == name:
                name = base
        found = self._ids.setdefault(name, len(self._ids))
        self.names[found] = name
        return found


def _map_batch(
    batch: pa.RecordBatch, ids: dict[int, int], node: NodeFollower
) -> pa.RecordBatch:
    """Replace the ids of a node by those of the run."""
    known = np.full(max(ids, default=0) + 1, NO_ID, np.int64)
    known[list(ids)] = list(ids.values())

    def mapped(column: pa.Array) -> pa.Array:
        own = column.fill_null(-1).to_numpy(zero_copy_only=False)
        is_null = own < 0
        if np.any(own >= len(known)) or np.any(known[own[~is_null]] == NO_ID):
            raise TraceError(f"{node.path}: a process has no name in run.json")
        return pa.array(known[own], mask=is_null)

    lists = batch.column("targets")
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    columns = {
        "process": mapped(batch.column("process")),
        "source": mapped(batch.column("source")),
        "targets": pa.ListArray.from_arrays(
            pa.array(offsets), mapped(lists.flatten()), mask=lists.is_null()
        ),
    }
    return pa.record_batch(
        [columns.get(name, batch.column(name)) for name in COLUMNS], names=list(COLUMNS)
    )
