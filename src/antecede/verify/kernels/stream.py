"""The sends and deliveries of a trace, as arrays that the kernels walk.

A *stream* yields the rows of a run in one linear extension of happened-before, a batch at
a time, in either direction, with dense numbers for its processes. :class:`RowStream` takes
the rows of a trace as they stand; :func:`antecede.verify.linear_extension.ordered_stream` puts them
in order first.

Nothing is taken on trust, ``step`` included. Rows stand in a linear extension just if the
rows of every process stand in the order of its history, and every delivery stands after its
send. The stream checks the first and whoever walks it the second; what breaks either raises
:class:`Disordered`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecede.errors import ConfigError
from antecede.trace.event import Kind
from antecede.trace.reader import NumberedBatch, Trace
from antecede.verify.kernels.compiled import compiled
from antecede.verify.kernels.slots import Ints, Longs, Slots
from antecede.verify.oracle import MessageId

__all__ = [
    "Bools",
    "Disordered",
    "Histories",
    "RowStream",
    "Rows",
    "Stream",
    "dense",
    "grown",
    "message_rows",
    "writable",
]

Bools = NDArray[np.bool_]

MESSAGE_KINDS = (Kind.SEND.value, Kind.DELIVER.value)
WALKED = ("process", "kind", "source", "number")
"""The columns that a walk in one direction needs, once the other has been made."""
MATCHED = (*WALKED, "run", "seq", "targets")
"""The columns that the first walk needs."""
SEQ_NONE = np.iinfo(np.int64).max


class Disordered(Exception):
    """The rows do not stand in a linear extension of happened-before."""


class Rows(NamedTuple):
    """Sends and deliveries that follow each other in a stream."""

    row: Longs
    """Where each stands in the run, counting events of every kind."""
    is_send: Bools
    """Whether it is a send, or else a delivery."""
    process: Ints
    """Where it happened, as a dense number."""
    source: Ints
    """Whose message it is, as a dense number."""
    number: Longs
    """Which of the source's messages."""
    target_start: Longs
    """For each send and one more, where its targets begin in ``target``; may be empty."""
    target: Ints
    """The targets of all sends, as dense numbers."""
    is_broadcast: Bools
    """For each send, whether its targets are not known; may be empty."""


class Stream(Protocol):
    """A run in a linear extension; walk it backward first, then forward."""

    processes: Slots
    """Every process that has appeared so far; its name is (id, 0)."""
    gaps: int
    """How many holes the histories have; known after the first walk."""
    members: int
    """How many processes have events; known after the first walk."""

    def forward(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        """Yield the rows from the start, without targets; skip what lies outside."""

    def backward(self) -> Iterator[Rows]:
        """Yield the same batches from the end, with targets; their rows are in order."""


class RowStream:
    """The rows of a trace on disk, in the order in which they stand."""

    processes: Slots
    gaps: int
    members: int

    def __init__(self, trace: Trace) -> None:
        """Read nothing yet."""
        self._trace = trace
        self.processes = Slots()
        self.gaps = 0
        self.members = 0

    def forward(self, first: int = 0, last: int | None = None) -> Iterator[Rows]:
        """Yield the rows from the start, without targets; skip what lies outside."""
        for numbered in self._trace.numbered_batches(WALKED, first=first, last=last):
            yield message_rows(numbered, self.processes, self._trace.path)

    def backward(self) -> Iterator[Rows]:
        """Yield the rows from the end, with targets, and check every history."""
        histories = Histories(self.processes)
        for numbered in self._trace.numbered_batches(MATCHED, backward=True):
            histories.take(numbered.batch)
            yield message_rows(numbered, self.processes, self._trace.path)
        process, first, _ = histories.spans()
        self.gaps = histories.gaps + int(np.count_nonzero(first > 0))
        self.members = len(process)


class Histories:
    """Checks that the rows of every process stand in the order of its history."""

    gaps: int
    """How many holes there are between the events that were seen."""

    def __init__(self, processes: Slots) -> None:
        """Start at the end of a run; processes that appear are added."""
        self.gaps = 0
        self._processes = processes
        self._lowest: Longs = np.empty(0, np.int64)
        self._highest: Longs = np.empty(0, np.int64)

    def take(self, batch: pa.RecordBatch) -> None:
        """Take in process and seq of a batch, the last batch first.

        Raises:
            Disordered: An event of a process stands after a later one.
        """
        at = dense(batch.column("process"), self._processes)
        self._lowest = grown(self._lowest, len(self._processes), SEQ_NONE)
        self._highest = grown(self._highest, len(self._processes), SEQ_NONE)
        seq = writable(batch.column("seq"))
        gaps = _check_histories(at, seq, self._lowest, self._highest)
        if gaps < 0:
            raise Disordered
        self.gaps += gaps

    def spans(self) -> tuple[Longs, Longs, Longs]:
        """Return the processes that have events, and the first and last seq of each."""
        (process,) = np.nonzero(self._lowest < SEQ_NONE)
        return process, self._lowest[process], self._highest[process]


def message_rows(numbered: NumberedBatch, processes: Slots, path: Path) -> Rows:
    """Take the sends and deliveries out of a batch, with targets if it has that column.

    Raise ConfigError, which names the path, if one of them names no message, or another's
    message is sent.
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
            raise ConfigError(f"{path}: row {row} is a send or deliver without its {name}")
    process = dense(batch.column("process"), processes)
    source = dense(batch.column("source"), processes)
    number = writable(batch.column("number"))
    foreign = np.flatnonzero(is_send & (process != source))
    if len(foreign):
        i = int(foreign[0])
        message = MessageId(int(processes.first[source[i]]), int(number[i]))
        raise ConfigError(f"{path}: message {message} is sent by another process")
    start, target, is_broadcast = _targets(numbered, where[is_send], processes, path)
    return Rows(
        row=where + numbered.first,
        is_send=is_send,
        process=process,
        source=source,
        number=number,
        target_start=start,
        target=target,
        is_broadcast=is_broadcast,
    )


def dense(ids: pa.Array, processes: Slots) -> Ints:
    """Number the processes of a column densely."""
    wide = ids.to_numpy().astype(np.int64)
    return processes.add(wide, np.zeros(len(wide), np.int64))


def writable(column: pa.Array) -> Longs:
    """Copy a column: kernels are compiled once more for arrays that are read-only."""
    return np.array(column.to_numpy())


def _targets(
    numbered: NumberedBatch, sends: Longs, processes: Slots, path: Path
) -> tuple[Longs, Ints, Bools]:
    if "targets" not in numbered.batch.schema.names:
        return np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.bool_)
    lists = numbered.batch.column("targets").take(pa.array(sends))
    if lists.values.null_count:
        raise ConfigError(f"{path}: a send has a null among its targets")
    start = lists.offsets.to_numpy().astype(np.int64)
    target = dense(lists.values, processes)
    return start, target, lists.is_null().to_numpy(False)


def grown(array: Longs, size: int, value: int) -> Longs:
    """Return the array if it is long enough, else a longer one filled up with a value."""
    if len(array) >= size:
        return array
    longer = np.full((max(size, 2 * len(array)), *array.shape[1:]), value, np.int64)
    longer[: len(array)] = array
    return longer


@compiled
def _check_histories(process: Ints, seq: Longs, lowest: Longs, highest: Longs) -> int:
    """Go through rows from the last to the first; count gaps, or return -1 on disorder."""
    gaps = 0
    for i in range(process.size - 1, -1, -1):
        after = lowest[process[i]]
        if seq[i] > after:
            return -1
        # Rows of one seq count as one event, seen twice.
        if after != SEQ_NONE and seq[i] < after - 1:
            gaps += 1
        if after == SEQ_NONE:
            highest[process[i]] = seq[i]
        lowest[process[i]] = seq[i]
    return gaps
