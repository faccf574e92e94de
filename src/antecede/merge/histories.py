"""The history of each process, read from the traces of its incarnations.

This module needs the extra ``antecede[trace]``.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecede.core.process import NO_PROCESS
from antecede.errors import TraceError
from antecede.trace.event import Kind
from antecede.trace.live.reader import NodeTrace
from antecede.trace.schema import INFO_NAME, SCHEMA
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.kernels.stream import writable_copy

__all__ = ["ProcessHistory", "EventColumns", "Incarnation"]

ORDER_COLUMNS = (
    "run",
    "process",
    "seq",
    "time",
    "kind",
    "source",
    "number",
    "target",
    "targets",
)

HISTORY_SCHEMA = pa.schema(
    [column for column in SCHEMA if column.name not in ("run", "step")]
)
"""The columns that do not depend on the other histories."""

OTHER, SEND, DELIVER, TRANSMIT, ARRIVE = range(5)
"""The role of an event in the order: a deliver waits for the send of its message, an arrive
for a first transmit of its copy; no event waits for an event of another role."""
ROLES = {
    Kind.SEND.value: SEND,
    Kind.DELIVER.value: DELIVER,
    Kind.RELEASE.value: TRANSMIT,
    Kind.TRANSMIT.value: TRANSMIT,
    Kind.ARRIVE.value: ARRIVE,
}
TARGET_SHIFT = 32
"""The first component of the key of a copy holds the target above this bit."""


class EventColumns(NamedTuple):
    """The columns of some consecutive rows that determine the order."""

    time: NDArray[np.float64]
    role: NDArray[np.int8]
    """SEND, DELIVER, TRANSMIT, ARRIVE or OTHER."""
    slot: Ints
    """The slot of the message or of the copy; that of NO_PROCESS for other events."""


class Incarnation(NamedTuple):
    """The trace of a node from one start to its end."""

    node: NodeTrace
    ids: pa.Array
    """By the node's own id of a process, the id in the merged trace."""
    seq_first: int
    """The ``seq`` of its first row in the merged trace."""


class ProcessHistory:
    """The events of one process, from its first incarnation to its last."""

    id: int
    """The id of the process in the merged trace."""
    name: str
    """The name of the process."""
    incarnations: list[Incarnation]
    """Its incarnations, the earliest first; empty if it has no trace."""
    event_columns: list[EventColumns]
    """The columns of its events that determine the order; clear it after use."""
    copies_to: Counter[int]
    """The number of copies that it sent, by target."""

    def __init__(self, id: int, name: str) -> None:
        self.id = id
        self.name = name
        self.incarnations = []
        self.event_columns = []
        self.copies_to = Counter()
        self._seq_next = 0
        self._number_last = 0

    def add(self, node: NodeTrace, ids: dict[str, int], slots: SlotMap) -> None:
        """Read the next incarnation, and assign slots to its messages."""
        names = node.info.names
        if names.get(node.id) != node.name:
            raise TraceError(
                f"{node.path}: process {node.id} must have the name of the node,"
                f" {node.name!r}; its name is {names.get(node.id)!r}"
            )
        if not _is_sorted(node):
            node = node.sorted_by_seq()
        known = [
            ids[names[each]] if each in names else NO_PROCESS
            for each in range(max(names) + 1)
        ]
        incarnation = Incarnation(node, pa.array(known, pa.int32()), self._seq_next)
        seq_last, number_last = -1, self._number_last
        for batch in node.batches(ORDER_COLUMNS):
            if batch.num_rows:
                _check_batch(node, batch, seq_last)
                seq_last = batch.column("seq")[-1].as_py()
                number_last = max(number_last, self._add_batch(incarnation, batch, slots))
        self.incarnations.append(incarnation)
        self._seq_next += seq_last + 1
        self._number_last = number_last

    def _add_batch(
        self, incarnation: Incarnation, batch: pa.RecordBatch, slots: SlotMap
    ) -> int:
        """Add the columns of a batch; return the highest number that it sends."""
        role = _roles(incarnation.node, batch)
        source = _map_ids(incarnation.ids, batch.column("source"))
        target = _map_ids(incarnation.ids, batch.column("target"))
        number = batch.column("number").fill_null(0).to_numpy().astype(np.int64)
        target[role == ARRIVE] = self.id
        is_send, is_copy = role == SEND, (role == TRANSMIT) | (role == ARRIVE)
        if np.any(source[is_send] != self.id):
            raise TraceError(
                f"{incarnation.node.path}: {self.name} sends a message of another process"
            )
        sent = number[is_send]
        if len(sent) and self.incarnations and sent.min() <= self._number_last:
            raise TraceError(
                f"{incarnation.node.path}: {self.name} sends message {sent.min()}, but its"
                f" earlier trace {self.incarnations[-1].node.path} ends with message"
                f" {self._number_last}; a node that restarts its numbers needs a new name"
            )
        first = np.where(is_copy, source + ((target + 1) << TARGET_SHIFT), source)
        first[role == OTHER] = NO_PROCESS
        number[role == OTHER] = 0
        time = batch.column("time").to_numpy().copy()
        self.event_columns.append(EventColumns(time, role, slots.add(first, number)))
        copies = _map_ids(incarnation.ids, batch.column("targets").flatten())
        found, counts = np.unique(copies, return_counts=True)
        self.copies_to.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        return int(sent.max(initial=0))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the ids of the merged trace, in the order of the history.

        No file stays open between batches: there may be more nodes than the process can
        have open files.
        """
        for incarnation in self.incarnations:
            row = 0
            while row < incarnation.node.rows:
                batch = next(incarnation.node.batches(first=row))
                row += batch.num_rows
                yield _merged_rows(batch, self.id, incarnation)


def _is_sorted(node: NodeTrace) -> bool:
    last = -1
    for batch in node.batches(("seq",)):
        seq = batch.column("seq").to_numpy()
        if len(seq):
            if seq[0] <= last or np.any(np.diff(seq) <= 0):
                return False
            last = int(seq[-1])
    return True


def _check_batch(node: NodeTrace, batch: pa.RecordBatch, seq_last: int) -> None:
    """Raise TraceError on rows of other processes, ids without names, and equal seqs."""
    if pc.any(pc.not_equal(batch.column("process"), node.id)).as_py():
        raise TraceError(
            f"{node.path}: all rows must be of process {node.id}, the node itself"
        )
    seq = batch.column("seq").to_numpy()
    repeated = np.flatnonzero(np.diff(seq, prepend=seq_last) < 1)
    if len(repeated):
        raise TraceError(f"{node.path}: two rows have seq {seq[repeated[0]]}")
    for column in (batch.column("source"), batch.column("target")):
        _check_named(node, column)
    _check_named(node, batch.column("targets").flatten())


def _check_named(node: NodeTrace, column: pa.Array) -> None:
    for process in column.unique().drop_null().to_pylist():
        if process not in node.info.names:
            raise TraceError(f"{node.path}: process {process} has no name in {INFO_NAME}")


def _roles(node: NodeTrace, batch: pa.RecordBatch) -> NDArray[np.int8]:
    """Return the role of each row; a frame without a message has the role OTHER."""
    kind = batch.column("kind")
    known = [ROLES.get(name, OTHER) for name in kind.dictionary.to_pylist()]
    role: NDArray[np.int8] = np.array(known, np.int8)[kind.indices.to_numpy()]
    nulls = pc.or_(batch.column("source").is_null(), batch.column("number").is_null())
    lacks_message = nulls.to_numpy(False)
    if np.any(lacks_message & ((role == SEND) | (role == DELIVER))):
        raise TraceError(f"{node.path}: a send or deliver has no source or no number")
    role[lacks_message] = OTHER
    role[(role == TRANSMIT) & batch.column("target").is_null().to_numpy(False)] = OTHER
    return role


def _map_ids(ids: pa.Array, column: pa.Array) -> Longs:
    """Map the node's ids to those of the merged trace; null becomes NO_PROCESS."""
    mapped: Longs = ids.take(column).fill_null(NO_PROCESS).to_numpy().astype(np.int64)
    return mapped


def _merged_rows(
    batch: pa.RecordBatch, process: int, incarnation: Incarnation
) -> pa.RecordBatch:
    """Return the rows of the merged trace, without run and step."""
    lists = batch.column("targets")
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    seq = writable_copy(batch.column("seq")) + incarnation.seq_first
    changed = {
        "process": pa.array(np.full(batch.num_rows, process, np.int32)),
        "seq": pa.array(seq),
        "kind": batch.column("kind").cast(pa.string()),
        "source": incarnation.ids.take(batch.column("source")),
        "target": incarnation.ids.take(batch.column("target")),
        "targets": pa.ListArray.from_arrays(
            pa.array(offsets),
            incarnation.ids.take(lists.flatten()),
            type=SCHEMA.field("targets").type,
            mask=lists.is_null(),
        ),
    }
    columns = [changed.get(name, batch.column(name)) for name in HISTORY_SCHEMA.names]
    return pa.record_batch(columns, schema=HISTORY_SCHEMA)
