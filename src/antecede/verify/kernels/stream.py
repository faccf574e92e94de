"""The sends and deliveries of a trace, as arrays for the kernels.

A *stream* yields the rows of a run in one linear extension of happened-before, a batch at a
time, in either direction, and numbers its processes with indexes from 0. :class:`RowStream`
reads the rows of a trace in their order on disk;
:func:`antecede.verify.linear_extension.ordered_stream` sorts them first.

Nothing is taken on trust, not even ``step``. Rows are in a linear extension if and only if
the rows of every process are in the order of its history, and every delivery follows its
send. The stream checks the first condition, the passes over it check the second; a
violation of either raises :class:`NotLinearExtensionError`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecede.errors import TraceError
from antecede.trace.event import Kind
from antecede.trace.reader import NumberedBatch, RecordedRun
from antecede.trace.store import StorePath
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slot_map import Ints, Longs, SlotMap
from antecede.verify.oracle import MessageId

__all__ = [
    "Bools",
    "Doubles",
    "NotLinearExtensionError",
    "HistoryChecker",
    "MissingDeliveries",
    "RowStream",
    "Rows",
    "Stream",
    "process_indexes",
    "count_missing",
    "grow",
    "message_rows",
    "writable_copy",
]

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

MESSAGE_KINDS = (Kind.SEND.value, Kind.DELIVER.value)
MESSAGE_COLUMNS = ("process", "kind", "source", "number")
"""The columns that the forward pass needs."""
MATCHING_COLUMNS = (*MESSAGE_COLUMNS, "run", "seq", "targets")
"""The columns that the backward pass needs."""
SEQ_NONE = np.iinfo(np.int64).max


class NotLinearExtensionError(Exception):
    """The rows are not in a linear extension of happened-before."""


class MissingDeliveries(NamedTuple):
    """How many deliveries a run marks as missing, by events of the kind missing."""

    counted: int = 0
    """The number of deliveries whose number is known."""
    uncounted: int = 0
    """The number of events that mark an unknown number of deliveries."""

    def plus(self, other: "MissingDeliveries") -> "MissingDeliveries":
        """Return the sum."""
        return MissingDeliveries(
            self.counted + other.counted, self.uncounted + other.uncounted
        )


class Rows(NamedTuple):
    """Consecutive sends and deliveries of a stream."""

    row: Longs
    """The row number in the run, counting events of every kind."""
    is_send: Bools
    """Whether the row is a send; otherwise it is a delivery."""
    process: Ints
    """The index of the process."""
    source: Ints
    """The index of the source of the message."""
    number: Longs
    """The number of the message."""
    target_start: Longs
    """For each send and one more, the start of its targets in ``target``; may be empty."""
    target: Ints
    """The indexes of the targets of all sends."""
    is_broadcast: Bools
    """For each send, whether it is a broadcast; may be empty."""
    time: Doubles
    """The time of the row; may be empty."""


class Stream(Protocol):
    """A run in a linear extension; read it backward first, then forward."""

    processes: SlotMap
    """Every process so far; its key is (id, 0), and its slot is its index."""
    gaps: int
    """The number of gaps in the histories; valid after the backward pass."""
    late_starts: int
    """The number of histories that begin after seq 0, a gap each; valid as ``gaps`` is."""
    members: int
    """The number of processes that have events; valid after the backward pass."""
    missing: MissingDeliveries
    """The deliveries that are marked as missing; valid after the backward pass."""

    def forward(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        """Yield the batches that overlap rows ``first`` to ``last``, without targets."""

    def backward(self) -> Iterator[Rows]:
        """Yield the same batches from the end, with targets; rows in a batch ascend."""


class RowStream:
    """The rows of a trace in their order on disk."""

    processes: SlotMap
    gaps: int
    late_starts: int
    members: int
    missing: MissingDeliveries

    def __init__(self, trace: RecordedRun, *, with_times: bool = False) -> None:
        """Read a trace; ``with_times`` to read the times in the forward pass, too."""
        self._trace = trace
        self._columns = (*MESSAGE_COLUMNS, "time") if with_times else MESSAGE_COLUMNS
        self.processes = SlotMap()
        self.gaps = 0
        self.late_starts = 0
        self.members = 0
        self.missing = MissingDeliveries()

    def forward(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        """Yield the batches that overlap rows ``first`` to ``last``, without targets."""
        for numbered in self._trace.numbered_batches(self._columns, first=first, last=last):
            yield message_rows(numbered, self.processes, self._trace.location)

    def backward(self) -> Iterator[Rows]:
        """Yield batches from the end, with targets, and check every history."""
        histories = HistoryChecker(self.processes)
        self.missing = MissingDeliveries()
        for numbered in self._trace.numbered_batches(MATCHING_COLUMNS, backward=True):
            histories.check(numbered.batch)
            self.missing = self.missing.plus(count_missing(numbered.batch))
            yield message_rows(numbered, self.processes, self._trace.location)
        process, first, _ = histories.seq_ranges()
        self.late_starts = int(np.count_nonzero(first > 0))
        self.gaps = histories.gaps + self.late_starts
        self.members = len(process)


class HistoryChecker:
    """Checks that the rows of every process are in the order of its history."""

    gaps: int
    """The number of gaps between the events so far."""
    repeated: tuple[int, int] | None
    """The index of a process and the seq of an event that is there twice, if any."""

    def __init__(self, processes: SlotMap) -> None:
        """Start at the end of a run; new processes are added to ``processes``."""
        self.gaps = 0
        self.repeated = None
        self._processes = processes
        self._lowest: Longs = np.empty(0, np.int64)
        self._highest: Longs = np.empty(0, np.int64)

    def check(self, batch: pa.RecordBatch) -> None:
        """Check the columns process and seq of a batch, the last batch first.

        Raises:
            NotLinearExtensionError: An event follows a later one of the same process.
        """
        process = process_indexes(batch.column("process"), self._processes)
        self._lowest = grow(self._lowest, len(self._processes), SEQ_NONE)
        self._highest = grow(self._highest, len(self._processes), SEQ_NONE)
        seq = writable_copy(batch.column("seq"))
        gaps, repeated = _check_histories(process, seq, self._lowest, self._highest)
        if gaps < 0:
            raise NotLinearExtensionError
        self.gaps += gaps
        if repeated >= 0:
            self.repeated = (int(process[repeated]), int(seq[repeated]))

    def seq_ranges(self) -> tuple[Longs, Longs, Longs]:
        """Return the processes that have events, and the first and last seq of each."""
        (process,) = np.nonzero(self._lowest < SEQ_NONE)
        return process, self._lowest[process], self._highest[process]


def count_missing(batch: pa.RecordBatch) -> MissingDeliveries:
    """Count the deliveries that a batch with the columns kind and number marks."""
    kind = batch.column("kind")
    code = pc.index(kind.dictionary, Kind.MISSING.value).as_py()
    if code < 0:
        return MissingDeliveries()
    where = np.flatnonzero(kind.indices.to_numpy() == code)
    number = batch.column("number").take(pa.array(where))
    return MissingDeliveries(pc.sum(number).as_py() or 0, number.null_count)


def message_rows(
    numbered: NumberedBatch, processes: SlotMap, path: Path | StorePath | str
) -> Rows:
    """Return the sends and deliveries of a batch, with targets and times if it has these.

    Raise TraceError if a row has no message, or a process sends a message of another.
    """
    kind = numbered.batch.column("kind")
    code = kind.indices.to_numpy()
    is_message = pc.is_in(kind.dictionary, pa.array(MESSAGE_KINDS)).to_numpy(False)
    where = np.flatnonzero(is_message[code])
    is_send = pc.equal(kind.dictionary, Kind.SEND.value).to_numpy(False)[code[where]]
    batch = numbered.batch.select(["process", "source", "number"]).take(pa.array(where))
    for name in ("source", "number"):
        if batch.column(name).null_count:
            missing = batch.column(name).is_null().to_numpy(False)
            row = numbered.first + int(where[missing][0])
            raise TraceError(f"{path}: row {row} is a send or deliver without a {name}")
    process = process_indexes(batch.column("process"), processes)
    source = process_indexes(batch.column("source"), processes)
    number = writable_copy(batch.column("number"))
    foreign = np.flatnonzero(is_send & (process != source))
    if len(foreign):
        i = int(foreign[0])
        message = MessageId(int(processes.first[source[i]]), int(number[i]))
        sender = processes.first[process[i]]
        raise TraceError(
            f"{path}: process {sender} sends {message}, which is not its own message"
        )
    start, target, is_broadcast = _targets(numbered, where[is_send], processes, path)
    time: Doubles = np.empty(0)
    if "time" in numbered.batch.schema.names:
        time = numbered.batch.column("time").to_numpy(False)[where]
    return Rows(
        row=where + numbered.first,
        is_send=is_send,
        process=process,
        source=source,
        number=number,
        target_start=start,
        target=target,
        is_broadcast=is_broadcast,
        time=time,
    )


def process_indexes(ids: pa.Array, processes: SlotMap) -> Ints:
    """Return the index of each process of a column; new processes are added."""
    wide = ids.to_numpy().astype(np.int64)
    return processes.add(wide, np.zeros(len(wide), np.int64))


def writable_copy(column: pa.Array) -> Longs:
    """Copy a column; for a read-only array, Numba would compile the kernels again."""
    return np.array(column.to_numpy())


def _targets(
    numbered: NumberedBatch,
    sends: Longs,
    processes: SlotMap,
    path: Path | StorePath | str,
) -> tuple[Longs, Ints, Bools]:
    if "targets" not in numbered.batch.schema.names:
        return np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.bool_)
    lists = numbered.batch.column("targets").take(pa.array(sends))
    if lists.values.null_count:
        raise TraceError(f"{path}: a send has a null among its targets")
    start = lists.offsets.to_numpy().astype(np.int64)
    target = process_indexes(lists.values, processes)
    return start, target, lists.is_null().to_numpy(False)


def grow(array: Longs, size: int, value: int) -> Longs:
    """Return the array extended to at least ``size`` entries, filled with ``value``."""
    if len(array) >= size:
        return array
    longer = np.full((max(size, 2 * len(array)), *array.shape[1:]), value, np.int64)
    longer[: len(array)] = array
    return longer


@compiled
def _check_histories(
    process: Ints, seq: Longs, lowest: Longs, highest: Longs
) -> tuple[int, int]:
    """Check rows from the last to the first.

    Return the number of gaps, or -1 if the rows are not in order; and the first row that is
    there twice, or -1.
    """
    gaps, repeated = 0, -1
    for i in range(process.size - 1, -1, -1):
        after = lowest[process[i]]
        if seq[i] > after:
            return -1, repeated
        # Rows with the same seq are the same event, recorded twice.
        if seq[i] == after:
            repeated = i
        if after != SEQ_NONE and seq[i] < after - 1:
            gaps += 1
        if after == SEQ_NONE:
            highest[process[i]] = seq[i]
        lowest[process[i]] = seq[i]
    return gaps, repeated
