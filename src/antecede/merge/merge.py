"""Join what the nodes of a run recorded, each for itself, into one trace.

A process is known by its name: the ids of the nodes' own give way to one numbering, by the
order of the names. The traces of a node that was restarted, one for each start, become one
history, in the order in which they were started by the node's clock.

The rows are put in a linear extension of happened-before, and ``step`` is its count. What
is used is the order of each node's own history, that a message is sent before it is
delivered, and that a copy is transmitted before it arrives. Clocks only choose among the
orders that are left. If there is none, the histories contradict each other.

What is missing is never made up: of a process without a trace there are no rows, of a
killed node there are those that it flushed, and ``holes`` in ``run.json`` says so. The
verifier answers that with "unknown" where the rows do not bear out a verdict.

The nodes' histories are read twice, a part at a time. Between the passes some 40 bytes for
each event are held in memory.

This module needs the extra ``antecede[trace]``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from antecede.errors import ConfigError
from antecede.merge.histories import (
    DELIVER,
    NOBODY,
    RENAMED,
    SEND,
    TRANSMIT,
    History,
)
from antecede.trace.live.names import called_simply
from antecede.trace.live.reader import NodeTrace, read_node
from antecede.trace.reader import BATCH_ROWS_MAX, RunInfo
from antecede.trace.schema import SCHEMA
from antecede.trace.writer import TraceWriter
from antecede.verify.kernels.slots import Ints, Longs, Slots
from antecede.verify.kernels.stream import Bools
from antecede.verify.linear_extension import extend

__all__ = ["Merged", "merge_traces"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What was merged; judge it with :func:`antecede.verify.verifier.verify`."""

    path: Path
    """The directory of the merged trace."""
    run: str
    """Which run."""
    nodes: int
    """How many processes have a trace."""
    restarts: int
    """How many traces are of a node that had been started before."""
    events: int
    """How many rows there are."""
    messages: int
    """How many sends are among them."""
    holes: tuple[str, ...]
    """What is missing, in a few words each."""
    notes: tuple[str, ...]
    """What else is odd, in a few words each."""


def merge_traces(directories: Sequence[str | Path], out: str | Path) -> Merged:
    """Merge the traces of nodes, closed or not, into a new one.

    Args:
        directories: One for each node, or one for each start of it, in any order.
        out: The directory of the merged trace, which must hold none yet.

    Raises:
        ConfigError: One of them is no trace of a node, they are not of one run, a start of
            a node is there twice or begins its numbers again, or no order of the events
            is possible; or ``out`` cannot be written.
    """
    nodes = _read_nodes(directories)
    told = sorted({name for node in nodes for name in node.info.names.values()})
    called = called_simply(told)
    names = sorted(set(called.values()))
    ids = {name: names.index(simple) for name, simple in called.items()}
    slots = Slots()
    slots.add(np.array([NOBODY]), np.array([0]))  # The slot that nothing waits for.
    histories = [History(place, name) for place, name in enumerate(names)]
    for node in nodes:
        histories[ids[node.name]].add(node, ids, slots)
    events = _Events(histories, slots)
    order, notes = events.order()
    holes, odd = events.holes()
    merged = Merged(
        path=Path(out),
        run=nodes[0].info.run,
        nodes=sum(bool(history.starts) for history in histories),
        restarts=sum(max(len(history.starts) - 1, 0) for history in histories),
        events=len(order),
        messages=events.messages,
        holes=tuple(holes),
        notes=(*notes, *odd),
    )
    with TraceWriter(merged.path, merged.run) as writer:
        for batch in _batches(merged.run, histories, order):
            writer.write_batch(batch)
        writer.close(_info(merged, histories, nodes[0].info.protocol))
    return merged


def _read_nodes(directories: Sequence[str | Path]) -> list[NodeTrace]:
    """Open all traces, in the order of their starts, and check that they are of one run."""
    if not directories:
        raise ConfigError("there is nothing to merge; name the directories of the nodes")
    nodes = [read_node(path) for path in directories]
    nodes.sort(key=lambda node: (node.name, node.started))
    first = nodes[0]
    for node in nodes:
        for key in ("run", "protocol"):
            one, other = getattr(first.info, key), getattr(node.info, key)
            if one != other:
                raise ConfigError(
                    f"{first.path} is of {key} {one!r} and {node.path} of {other!r}; merge"
                    " the nodes of one run only"
                )
    for node, after in pairwise(nodes):
        if (node.name, node.started) == (after.name, after.started):
            raise ConfigError(
                f"{node.path} and {after.path} hold the same start of {node.name}; name"
                " each trace once"
            )
    return nodes


class _Events:
    """The events of all histories, one after the other, and how they can be ordered."""

    def __init__(self, histories: Sequence[History], slots: Slots) -> None:
        self._histories = histories
        self._slots = slots
        scans = [scan for history in histories for scan in history.scans]
        self._time = np.concatenate([scan.time for scan in scans] or [np.empty(0)])
        roles = [scan.role for scan in scans] or [np.empty(0, np.int8)]
        self._role = np.concatenate(roles)
        self._slot = np.concatenate(
            [scan.slot for scan in scans] or [np.empty(0, np.int32)]
        )
        rows = [sum(len(scan.time) for scan in each.scans) for each in histories]
        self._bounds = np.cumsum([0, *rows])
        for history in histories:
            history.scans.clear()
        self.messages = int(np.count_nonzero(self._role == SEND))

    def order(self) -> tuple[Ints, list[str]]:
        """Return whose event is next, of all events, and what is odd about it.

        Raise ConfigError if there is no order that all histories agree with.
        """
        provides = (self._role == SEND) | (self._role == TRANSMIT)
        is_provided = np.zeros(len(self._slots), np.bool_)
        is_provided[self._slot[provides]] = True
        notes = []
        order, place = self._extend(provides, is_provided)
        if len(order) < len(self._role):
            notes.append("a copy arrived before it was transmitted, by the histories")
            is_provided[self._slot[self._role == TRANSMIT]] = False
            order, place = self._extend(provides, is_provided)
        if len(order) < len(self._role):
            raise ConfigError(f"no order of the events is possible: {self._cycle(place)}")
        process = np.searchsorted(self._bounds, order, side="right") - 1
        return process.astype(np.int32), notes

    def holes(self) -> tuple[list[str], list[str]]:
        """Say what is missing, and what was delivered though it was not sent."""
        is_sent = np.zeros(len(self._slots), np.bool_)
        is_sent[self._slot[self._role == SEND]] = True
        unsent = self._slot[(self._role == DELIVER) & ~is_sent[self._slot]]
        sources = self._slots.first[unsent]
        found = np.bincount(sources, minlength=len(self._histories)).tolist()
        copies_to = sum((each.copies_to for each in self._histories), Counter())
        holes: list[str] = []
        odd: list[str] = []
        for history, count in zip(self._histories, found, strict=True):
            name, killed = (
                history.name,
                [s.node for s in history.starts if not s.node.whole],
            )
            holes += [
                f"{name} was killed: up to {node.lost_max:,} events are missing at the end"
                f" of {node.path}"
                for node in killed
                if node.lost_max
            ]
            if not history.starts and (count or copies_to[history.id]):
                holes.append(
                    f"no trace of {name}: {count:,} deliveries of its messages lack their"
                    f" send, and of {copies_to[history.id]:,} copies to it nothing is known"
                )
            elif count:
                lacking = f"{count:,} deliveries of messages of {name} lack their send"
                (holes if killed else odd).append(lacking)
        return holes, odd

    def _extend(self, provides: Bools, is_provided: Bools) -> tuple[Longs, Longs]:
        every = np.arange(len(self._role))
        return extend(self._bounds, every, provides, self._slot, is_provided, self._time)

    def _cycle(self, place: Longs) -> str:
        """Tell how histories contradict each other, from where each of them is stuck."""
        process = int(np.flatnonzero(place < self._bounds[1:])[0])
        seen: list[int] = []
        while process not in seen:
            seen.append(process)
            wanted = self._slot[place[process]]
            (send, *_) = np.flatnonzero((self._slot == wanted) & (self._role == SEND))
            process = int(np.searchsorted(self._bounds, send, side="right")) - 1
        stuck = seen[seen.index(process) :]
        told = [f"{self._name(stuck[0])} delivered {self._message(place[stuck[0]])}"]
        for each in stuck[1:]:
            message = self._message(place[each])
            told.append(f"which {self._name(each)} sent only after it delivered {message}")
        told.append(f"which {self._name(stuck[0])} sent only afterwards")
        return ", ".join(told)

    def _name(self, process: int) -> str:
        return self._histories[process].name

    def _message(self, row: int) -> str:
        slot = self._slot[row]
        return f"{self._name(self._slots.first[slot])}:{self._slots.second[slot]}"


class _Stream:
    """The rows of one history, to be taken a few at a time."""

    def __init__(self, history: History) -> None:
        self._batches = history.rows()
        self._left = RENAMED.empty_table().combine_chunks().to_batches()

    def take(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next so many rows."""
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
    run: str, histories: Sequence[History], order: Ints
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the merged trace."""
    streams = [_Stream(history) for history in histories]
    for first in range(0, len(order), BATCH_ROWS_MAX):
        process = order[first : first + BATCH_ROWS_MAX]
        parts = [
            part
            for source, count in zip(*np.unique(process, return_counts=True), strict=True)
            for part in streams[source].take(int(count))
        ]
        # The parts stand by process; the rows of each have their order already.
        place = np.empty(len(process), np.int64)
        place[np.argsort(process, kind="stable")] = np.arange(len(process))
        (batch,) = (
            pa.Table.from_batches(parts)
            .combine_chunks()
            .take(pa.array(place))
            .combine_chunks()
            .to_batches()
        )
        steps = pa.array(np.arange(first, first + len(process)))
        added = {"run": pa.repeat(pa.scalar(run), len(process)), "step": steps}
        columns = [
            added[name] if name in added else batch.column(name) for name in SCHEMA.names
        ]
        yield pa.record_batch(columns, schema=SCHEMA)


def _info(merged: Merged, histories: Sequence[History], protocol: str | None) -> RunInfo:
    last = [history.starts[-1].node for history in histories if history.starts]
    nodes = [
        {
            "name": history.name,
            "directory": str(start.node.path),
            "started": start.node.started,
            "events": start.node.rows,
            "whole": start.node.whole,
        }
        for history in histories
        for start in history.starts
    ]
    return RunInfo(
        run=merged.run,
        protocol=protocol,
        complete=not merged.holes and all(node.info.complete for node in last),
        processes=len(histories),
        names={history.id: history.name for history in histories},
        holes=list(merged.holes),
        more={"kind": "merged", "nodes": nodes},
    )
