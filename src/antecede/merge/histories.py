"""What each process recorded, as :mod:`antecede.merge.merge` joins it with the others'.

This module needs the extra ``antecede[trace]``.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecede.errors import ConfigError
from antecede.trace.event import Kind
from antecede.trace.live.reader import NodeTrace
from antecede.trace.schema import INFO_NAME, SCHEMA
from antecede.verify.kernels.slots import Ints, Longs, Slots
from antecede.verify.kernels.stream import writable

__all__ = ["History", "Scan", "Start"]

SCANNED = ("run", "process", "seq", "time", "kind", "source", "number", "target", "targets")

RENAMED = pa.schema([column for column in SCHEMA if column.name not in ("run", "step")])
"""The columns that each history has by itself."""
NOBODY = -1

OTHER, SEND, DELIVER, TRANSMIT, ARRIVE = range(5)
"""What an event is to the order: a deliver waits for the send of its message, an arrive for
a first transmit of its copy, and nothing waits for any other."""
ROLES = {
    Kind.SEND.value: SEND,
    Kind.DELIVER.value: DELIVER,
    Kind.RELEASE.value: TRANSMIT,
    Kind.TRANSMIT.value: TRANSMIT,
    Kind.ARRIVE.value: ARRIVE,
}
TARGET_SHIFT = 32
"""A copy is numbered by its message, and by its target in the upper half of the source."""


class Scan(NamedTuple):
    """What the order needs of some rows that follow each other."""

    time: NDArray[np.float64]
    role: NDArray[np.int8]
    """SEND, DELIVER, TRANSMIT, ARRIVE or OTHER."""
    slot: Ints
    """Of the message, or of the copy; that of NOBODY for another event."""


class Start(NamedTuple):
    """What a node recorded from one start to its end."""

    node: NodeTrace
    ids: pa.Array
    """By the node's own id, that of the merged trace."""
    seq_first: int
    """What its first row is counted as."""


class History:
    """All that a process recorded, from its first start to its last."""

    id: int
    """The process, in the merged trace."""
    name: str
    """What it is called."""
    starts: list[Start]
    """Its traces, the earliest first; none if it has left no trace."""
    scans: list[Scan]
    """Its events, as far as the order needs them; clear it when they are used."""
    copies_to: Counter[int]
    """How many copies it sent, by whom they are for."""

    def __init__(self, id: int, name: str) -> None:
        """Start with nothing."""
        self.id = id
        self.name = name
        self.starts = []
        self.scans = []
        self.copies_to = Counter()
        self._seq_next = 0
        self._number_last = 0

    def add(self, node: NodeTrace, ids: dict[str, int], slots: Slots) -> None:
        """Read the next start, and give slots to the messages that it speaks of."""
        names = node.info.names
        if names.get(node.id) != node.name:
            raise ConfigError(
                f"{node.path}: process {node.id} is not {node.name}, the node itself"
            )
        if not _is_in_order(node):
            node = node.in_order()
        known = [
            ids[names[each]] if each in names else NOBODY for each in range(max(names) + 1)
        ]
        start = Start(node, pa.array(known, pa.int32()), self._seq_next)
        seq_last, number_last = -1, self._number_last
        for batch in node.batches(SCANNED):
            if batch.num_rows:
                _check_batch(node, batch, seq_last)
                seq_last = batch.column("seq")[-1].as_py()
                number_last = max(number_last, self._scan(start, batch, slots))
        self.starts.append(start)
        self._seq_next += seq_last + 1
        self._number_last = number_last

    def _scan(self, start: Start, batch: pa.RecordBatch, slots: Slots) -> int:
        """Take in a batch; return the highest number that was sent in it."""
        role = _roles(start.node, batch)
        source = _mapped(start.ids, batch.column("source"))
        target = _mapped(start.ids, batch.column("target"))
        number = batch.column("number").fill_null(0).to_numpy().astype(np.int64)
        target[role == ARRIVE] = self.id
        is_send, is_copy = role == SEND, (role == TRANSMIT) | (role == ARRIVE)
        if np.any(source[is_send] != self.id):
            raise ConfigError(f"{start.node.path}: a message is sent by another process")
        sent = number[is_send]
        if len(sent) and self.starts and sent.min() <= self._number_last:
            raise ConfigError(
                f"{start.node.path}: {self.name} sends message {sent.min()}, though it sent"
                f" up to {self._number_last} in {self.starts[-1].node.path}, started"
                " before; a node that forgets its numbers needs a new name"
            )
        first = np.where(is_copy, source + ((target + 1) << TARGET_SHIFT), source)
        first[role == OTHER] = NOBODY
        number[role == OTHER] = 0
        time = batch.column("time").to_numpy().copy()
        self.scans.append(Scan(time, role, slots.add(first, number)))
        copies = _mapped(start.ids, batch.column("targets").flatten())
        found, counts = np.unique(copies, return_counts=True)
        self.copies_to.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        return int(sent.max(initial=0))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield its rows with the ids of the merged trace, in the order of its history.

        No file is open in between: there may be more nodes than files can be open.
        """
        for start in self.starts:
            row = 0
            while row < start.node.rows:
                batch = next(start.node.batches(first=row))
                row += batch.num_rows
                yield _renamed(batch, self.id, start)


def _is_in_order(node: NodeTrace) -> bool:
    last = -1
    for batch in node.batches(("seq",)):
        seq = batch.column("seq").to_numpy()
        if len(seq):
            if seq[0] <= last or np.any(np.diff(seq) <= 0):
                return False
            last = int(seq[-1])
    return True


def _check_batch(node: NodeTrace, batch: pa.RecordBatch, seq_last: int) -> None:
    """Refuse rows of another process, ids without a name, and a place taken twice."""
    if pc.any(pc.not_equal(batch.column("process"), node.id)).as_py():
        raise ConfigError(f"{node.path}: a node's trace has rows of the node itself only")
    seq = batch.column("seq").to_numpy()
    again = np.flatnonzero(np.diff(seq, prepend=seq_last) < 1)
    if len(again):
        raise ConfigError(f"{node.path}: two rows have the seq {seq[again[0]]}")
    for column in (batch.column("source"), batch.column("target")):
        _check_named(node, column)
    _check_named(node, batch.column("targets").flatten())


def _check_named(node: NodeTrace, column: pa.Array) -> None:
    for process in column.unique().drop_null().to_pylist():
        if process not in node.info.names:
            raise ConfigError(f"{node.path}: process {process} has no name in {INFO_NAME}")


def _roles(node: NodeTrace, batch: pa.RecordBatch) -> NDArray[np.int8]:
    """Return what each row is to the order; a frame without a message is nothing."""
    kind = batch.column("kind")
    known = [ROLES.get(name, OTHER) for name in kind.dictionary.to_pylist()]
    role: NDArray[np.int8] = np.array(known, np.int8)[kind.indices.to_numpy()]
    nameless = pc.or_(batch.column("source").is_null(), batch.column("number").is_null())
    is_nameless = nameless.to_numpy(False)
    if np.any(is_nameless & ((role == SEND) | (role == DELIVER))):
        raise ConfigError(f"{node.path}: a send or deliver names no message")
    role[is_nameless] = OTHER
    role[(role == TRANSMIT) & batch.column("target").is_null().to_numpy(False)] = OTHER
    return role


def _mapped(ids: pa.Array, column: pa.Array) -> Longs:
    """Turn a node's own ids into those of the merged trace; null is NOBODY."""
    mapped: Longs = ids.take(column).fill_null(NOBODY).to_numpy().astype(np.int64)
    return mapped


def _renamed(batch: pa.RecordBatch, process: int, start: Start) -> pa.RecordBatch:
    """Return the rows as the merged trace has them, without run and step."""
    lists = batch.column("targets")
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    seq = writable(batch.column("seq")) + start.seq_first
    changed = {
        "process": pa.array(np.full(batch.num_rows, process, np.int32)),
        "seq": pa.array(seq),
        "kind": batch.column("kind").cast(pa.string()),
        "source": start.ids.take(batch.column("source")),
        "target": start.ids.take(batch.column("target")),
        "targets": pa.ListArray.from_arrays(
            pa.array(offsets),
            start.ids.take(lists.flatten()),
            type=SCHEMA.field("targets").type,
            mask=lists.is_null(),
        ),
    }
    columns = [changed.get(name, batch.column(name)) for name in RENAMED.names]
    return pa.record_batch(columns, schema=RENAMED)
