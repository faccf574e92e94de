"""Merge the traces of the nodes of a run into one trace.

A process is identified by its name: each node has its own ids, and the merged trace numbers
the processes in the order of their names. The traces of a node that was restarted, one for
each incarnation, become one history, in the order of their starts by the node's clock.

The rows are sorted into a linear extension of happened-before, and ``step`` counts them.
The order is derived from each node's own history, from the rule that a message is sent
before it is delivered, and from the rule that a copy is transmitted before it arrives.
Clocks only choose among the remaining orders. If there is none, the histories contradict
each other.

Missing events are never made up: a process without a trace has no rows, and a killed node
has the rows that it flushed. ``missing`` in ``run.json`` says so, and the verifier then
reports "unknown" where the rows do not prove a verdict.

The histories are read twice, a part at a time. Between the passes, about 40 bytes for each
event are in memory.

This module needs the extra ``antecede[trace]``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from antecede.core.process import NO_PROCESS
from antecede.errors import ConfigError, TraceError
from antecede.merge.histories import (
    DELIVER,
    HISTORY_SCHEMA,
    SEND,
    TRANSMIT,
    ProcessHistory,
)
from antecede.trace.live.names import display_names
from antecede.trace.live.reader import NodeTrace, read_node_trace
from antecede.trace.row_groups import BATCH_ROWS_MAX
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import SCHEMA
from antecede.trace.table import missing_row
from antecede.trace.writer import TraceWriter
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.kernels.stream import Bools
from antecede.verify.linear_extension import find_linear_extension

__all__ = ["MergeResult", "merge_traces"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """A merged trace; verify it with :func:`antecede.verify.verifier.verify_trace`."""

    path: Path
    """The directory of the merged trace."""
    run: str
    """The name of the run."""
    nodes: int
    """The number of processes that have a trace."""
    restarts: int
    """The number of traces of nodes that had been started before."""
    events: int
    """The number of rows."""
    messages: int
    """The number of sends."""
    missing: tuple[str, ...]
    """The known gaps of the trace, one short sentence each."""
    notes: tuple[str, ...]
    """Other irregularities, one short sentence each."""


def merge_traces(directories: Sequence[str | Path], out: str | Path) -> MergeResult:
    """Merge the traces of nodes, closed or not, into a new trace.

    Args:
        directories: One for each incarnation of each node, in any order.
        out: The directory of the merged trace, which must not hold a trace.

    Raises:
        TraceError: A directory does not hold the trace of a node, the traces are not of
            one run, an incarnation occurs twice or restarts its numbers, or the histories
            contradict each other.
        StorageError: ``out`` cannot be written.
    """
    nodes = _read_nodes(directories)
    recorded = sorted({name for node in nodes for name in node.info.names.values()})
    displayed = display_names(recorded)
    names = sorted(set(displayed.values()))
    ids = {name: names.index(shown) for name, shown in displayed.items()}
    slots = SlotMap()
    slots.add(np.array([NO_PROCESS]), np.array([0]))  # No event waits for it.
    histories = [ProcessHistory(index, name) for index, name in enumerate(names)]
    for node in nodes:
        histories[ids[node.name]].add(node, ids, slots)
    events = _Events(histories, slots)
    order, notes = events.order()
    missing, unsent = events.find_missing()
    merged = MergeResult(
        path=Path(out),
        run=nodes[0].info.run,
        nodes=sum(bool(history.incarnations) for history in histories),
        restarts=sum(max(len(history.incarnations) - 1, 0) for history in histories),
        events=len(order),
        messages=events.messages,
        missing=tuple(missing),
        notes=(*notes, *unsent),
    )
    with TraceWriter(merged.path, merged.run) as writer:
        for batch in _batches(merged.run, histories, order):
            writer.write_batch(batch)
        if merged.missing and len(order):
            writer.write_batch(missing_row(batch))
        writer.close(_info(merged, histories, nodes[0].info.protocol))
    return merged


def _read_nodes(directories: Sequence[str | Path]) -> list[NodeTrace]:
    """Open all traces, sorted by name and start, and check that they are of one run."""
    if not directories:
        raise ConfigError("no traces to merge; pass the directories of the nodes")
    nodes = [read_node_trace(path) for path in directories]
    nodes.sort(key=lambda node: (node.name, node.started))
    first = nodes[0]
    for node in nodes:
        for key in ("run", "protocol"):
            one, other = getattr(first.info, key), getattr(node.info, key)
            if one != other:
                raise TraceError(
                    f"{first.path} has {key} {one!r}, {node.path} has {other!r}; merge only"
                    " nodes of one run"
                )
    for node, after in pairwise(nodes):
        if (node.name, node.started) == (after.name, after.started):
            raise TraceError(
                f"{node.path} and {after.path} are traces of the same incarnation of"
                f" {node.name}; pass each trace once"
            )
    return _without_lost_events(nodes)


def _without_lost_events(nodes: list[NodeTrace]) -> list[NodeTrace]:
    """Cut the traces of killed incarnations where their successors continue.

    An event that was not in the journal when the node was killed has not happened for the
    next incarnation, and no other node has seen its effect.
    """
    kept = list(nodes)
    for index, node in enumerate(nodes):
        continues = node.continues
        if continues is None:
            continue
        for before in range(index - 1, -1, -1):
            earlier = nodes[before]
            if earlier.name != node.name or not earlier.incarnation:
                break
            is_last = earlier.incarnation == continues[0]
            if not earlier.closed:
                kept[before] = earlier.cut(continues[1] if is_last else 0)
            if is_last:
                break
    return kept


class _Events:
    """The events of all histories, one history after the other."""

    def __init__(self, histories: Sequence[ProcessHistory], slots: SlotMap) -> None:
        self._histories = histories
        self._slots = slots
        batches = [columns for history in histories for columns in history.event_columns]
        self._time = np.concatenate([columns.time for columns in batches] or [np.empty(0)])
        roles = [columns.role for columns in batches] or [np.empty(0, np.int8)]
        self._role = np.concatenate(roles)
        self._slot = np.concatenate(
            [columns.slot for columns in batches] or [np.empty(0, np.int32)]
        )
        rows = [
            sum(len(columns.time) for columns in each.event_columns) for each in histories
        ]
        self._bounds = np.cumsum([0, *rows])
        for history in histories:
            history.event_columns.clear()
        self.messages = int(np.count_nonzero(self._role == SEND))

    def order(self) -> tuple[Ints, list[str]]:
        """Return the process of each event in a linear extension, and notes about it.

        Raise TraceError if the histories contradict each other.
        """
        provides = (self._role == SEND) | (self._role == TRANSMIT)
        is_provided = np.zeros(len(self._slots), np.bool_)
        is_provided[self._slot[provides]] = True
        notes = []
        order, reached = self._extend(provides, is_provided)
        if len(order) < len(self._role):
            notes.append("by the histories, a copy arrived before it was transmitted")
            is_provided[self._slot[self._role == TRANSMIT]] = False
            order, reached = self._extend(provides, is_provided)
        if len(order) < len(self._role):
            raise TraceError(f"the histories contradict each other: {self._cycle(reached)}")
        process = np.searchsorted(self._bounds, order, side="right") - 1
        return process.astype(np.int32), notes

    def find_missing(self) -> tuple[list[str], list[str]]:
        """Return the gaps of the trace, and other deliveries without a send."""
        is_sent = np.zeros(len(self._slots), np.bool_)
        is_sent[self._slot[self._role == SEND]] = True
        unsent = self._slot[(self._role == DELIVER) & ~is_sent[self._slot]]
        sources = self._slots.first[unsent]
        found = np.bincount(sources, minlength=len(self._histories)).tolist()
        copies_to = sum((each.copies_to for each in self._histories), Counter())
        missing: list[str] = []
        notes: list[str] = []
        for history, count in zip(self._histories, found, strict=True):
            name = history.name
            killed = [each.node for each in history.incarnations if not each.node.closed]
            missing += [
                f"{name} was killed: up to {node.lost_events_max:,} events are missing at"
                f" the end of {node.path}"
                for node in killed
                if node.lost_events_max
            ]
            if not history.incarnations and (count or copies_to[history.id]):
                missing.append(
                    f"no trace of {name}: {count:,} deliveries of its messages lack their"
                    f" send, and the deliveries of {copies_to[history.id]:,} copies to it"
                    " are unknown"
                )
            elif count:
                lacking = f"{count:,} deliveries of messages of {name} lack their send"
                (missing if killed else notes).append(lacking)
        return missing, notes

    def _extend(self, provides: Bools, is_provided: Bools) -> tuple[Longs, Longs]:
        every = np.arange(len(self._role))
        return find_linear_extension(
            self._bounds, every, provides, self._slot, is_provided, self._time
        )

    def _cycle(self, reached: Longs) -> str:
        """Describe a contradiction, from the position that each history has reached."""
        process = int(np.flatnonzero(reached < self._bounds[1:])[0])
        seen: list[int] = []
        while process not in seen:
            seen.append(process)
            wanted = self._slot[reached[process]]
            (send, *_) = np.flatnonzero((self._slot == wanted) & (self._role == SEND))
            process = int(np.searchsorted(self._bounds, send, side="right")) - 1
        stuck = seen[seen.index(process) :]
        steps = [f"{self._name(stuck[0])} delivered {self._message(reached[stuck[0]])}"]
        for each in stuck[1:]:
            message = self._message(reached[each])
            steps.append(f"which {self._name(each)} sent only after it delivered {message}")
        steps.append(f"which {self._name(stuck[0])} sent only afterwards")
        return ", ".join(steps)

    def _name(self, process: int) -> str:
        return self._histories[process].name

    def _message(self, row: int) -> str:
        slot = self._slot[row]
        return f"{self._name(self._slots.first[slot])}:{self._slots.second[slot]}"


class _RowReader:
    """Reads the rows of one history, any number at a time."""

    def __init__(self, history: ProcessHistory) -> None:
        self._batches = history.rows()
        self._left = HISTORY_SCHEMA.empty_table().combine_chunks().to_batches()

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next ``count`` rows."""
        while count:
            if not self._left:
                self._left = [next(self._batches)]
            batch = self._left.pop()
            if batch.num_rows > count:
                self._left.append(batch.slice(count))
                batch = batch.slice(0, count)
            count -= batch.num_rows
            yield batch


def _batches(
    run: str, histories: Sequence[ProcessHistory], order: Ints
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the merged trace."""
    readers = [_RowReader(history) for history in histories]
    for first in range(0, len(order), BATCH_ROWS_MAX):
        process = order[first : first + BATCH_ROWS_MAX]
        parts = [
            part
            for source, count in zip(*np.unique(process, return_counts=True), strict=True)
            for part in readers[source].take(int(count))
        ]
        # The parts are grouped by process; the rows of each process are in order.
        index = np.empty(len(process), np.int64)
        index[np.argsort(process, kind="stable")] = np.arange(len(process))
        (batch,) = (
            pa.Table.from_batches(parts)
            .combine_chunks()
            .take(pa.array(index))
            .combine_chunks()
            .to_batches()
        )
        steps = pa.array(np.arange(first, first + len(process)))
        added = {"run": pa.repeat(pa.scalar(run), len(process)), "step": steps}
        columns = [
            added[name] if name in added else batch.column(name) for name in SCHEMA.names
        ]
        yield pa.record_batch(columns, schema=SCHEMA)


def _info(
    merged: MergeResult, histories: Sequence[ProcessHistory], protocol: str | None
) -> RunInfo:
    last = [history.incarnations[-1].node for history in histories if history.incarnations]
    nodes = [
        {
            "name": history.name,
            "directory": str(incarnation.node.path),
            "started": incarnation.node.started,
            "events": incarnation.node.rows,
            "closed": incarnation.node.closed,
        }
        for history in histories
        for incarnation in history.incarnations
    ]
    return RunInfo(
        run=merged.run,
        protocol=protocol,
        complete=not merged.missing and all(node.info.complete for node in last),
        processes=len(histories),
        names={history.id: history.name for history in histories},
        missing=list(merged.missing),
        more={"kind": "merged", "nodes": nodes},
    )
