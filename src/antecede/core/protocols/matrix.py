"""``matrix``: messages carry a message count for every pair (Raynal et al. 1991).

M. Raynal, A. Schiper, S. Toueg, *The causal ordering abstraction and a simple way to
implement it*. The protocol has unicast and multicast, needs reliable channels, which may
reorder, and delivers each message as early as causal order allows.

Rules:

1. Every process keeps ``sent[k][l]``: the number of messages from k to l that happened
   before its next send. A message counts once for each of its targets (SENT in the paper).
2. A message carries the whole matrix, in which it is counted itself.
3. A target j keeps ``delivered[k]``: the number of messages of k that it has delivered
   (DELIV). It delivers a message of i with the matrix M when M[i][j] is
   ``delivered[i] + 1`` and no other M[k][j] exceeds ``delivered[k]``: all messages to j
   that happened before it have been delivered.
4. After the delivery, j sets its own matrix to the elementwise maximum of M and itself.

In the paper a sender attaches the matrix before it counts the message, and the target
counts the message when it delivers it. Here the sender counts first, as Mattern and
Fünfrocken describe it in their §2. Then all copies of a multicast carry the same matrix,
which names all targets to each of them, and no target counts anything. This also corrects
a deadlock of the paper's version: there a message of a process to itself is counted at its
send and again at its delivery, and later messages to that process wait for a message that
does not exist. Here such a message is delivered inside ``send`` and not counted at all,
since no message can ever wait for it.

Only process k changes row k of a matrix, and its entries only grow, so of two versions of
the row one is larger in *every* entry. The maximum of two rows is therefore the larger
row, and rows can be shared: a send creates one new row, and a comparison decides a merge.

::

    MESSAGE       number, n, n² counts row by row (all LEB128 but the first),
                  payload length (LEB128), payload                    flag: must be 0
"""

from collections.abc import Iterable
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    PayloadFrame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.input_checks import checked_payload, checked_targets
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit, check_now
from antecede.errors import LocalError, PeerError

__all__ = ["Matrix", "MatrixMessage", "Row", "read_matrix"]

MESSAGE: Final = 1


@mypyc_attr(acyclic=True)
class Row:
    """The number of messages that one process has sent to each process; immutable."""

    __slots__ = ("counts", "size")

    counts: tuple[int, ...]
    """For each target, the number of messages to it."""
    size: int
    """The size of the encoded counts in bytes."""

    def __init__(self, counts: tuple[int, ...]) -> None:
        self.counts = counts
        size = 0
        for count in counts:
            size += varint_width(count)
        self.size = size

    def __repr__(self) -> str:
        return f"Row({self.counts})"


@mypyc_attr(acyclic=True)
class MatrixMessage(PayloadFrame):
    """A copy of an application message with the matrix of its sender."""

    __slots__ = ("rows",)

    KIND: ClassVar[int] = MESSAGE

    rows: list[Row]
    """A row for each process: the messages that it had sent, including this one."""

    def __init__(self, number: int, rows: list[Row], payload: bytes) -> None:
        super().__init__(number, payload)
        self.rows = rows

    def __repr__(self) -> str:
        return f"MatrixMessage({self.number}, n = {len(self.rows)}, {len(self.payload)} B)"

    def metadata_size(self) -> int:
        size = 1 + width_of(self.number) + varint_width(len(self.rows))
        for row in self.rows:
            size += row.size
        return size + varint_width(len(self.payload))

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_head(buffer, MESSAGE, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.rows))
        for row in self.rows:
            for count in row.counts:
                write_varint(buffer, count)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


def read_matrix(reader: Reader) -> Frame:
    """Read one frame of ``matrix``."""
    if reader.head() != MESSAGE or reader.flag:
        raise reader.refuse()
    number = reader.number()
    dimension = reader.varint()
    rows: list[Row] = []
    for _ in range(dimension):
        counts: list[int] = []
        for _ in range(dimension):
            counts.append(reader.varint())  # noqa: PERF401 (a loop compiles better)
        rows.append(Row(tuple(counts)))
    return MatrixMessage(number, rows, reader.payload())


class Matrix(ProcessBase):
    """A process of ``matrix``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_blocked", "_checked", "_clock", "_delivered", "_held", "_sent")

    def __init__(self, id: ProcessId, processes: int) -> None:
        """Create a member of a group with the ids 0 to ``processes`` - 1."""
        if not 0 <= id < processes:
            raise LocalError(f"process {id} is not in a group of {processes}")
        super().__init__(id)
        nothing = Row((0,) * processes)
        self._clock = 0
        self._sent: list[Row] = [nothing] * processes  # SENT
        self._delivered: list[int] = [0] * processes  # DELIV
        # For each source, its held messages by their count among those to this process.
        self._held: list[dict[int, MatrixMessage]] = [{} for _ in range(processes)]
        # Only the next message of a source can be delivered next. If it is held, it waits
        # for one message of another source, given as (other source, count); `_blocked`
        # maps that to the waiting sources. `_checked` says how many entries of its column
        # were compared before, so each entry is compared about once.
        self._blocked: dict[tuple[int, int], list[int]] = {}
        self._checked: list[int] = [0] * processes

    @property
    def sent(self) -> list[tuple[int, ...]]:
        """The message counts for every pair that happened before the next send."""
        return [row.counts for row in self._sent]

    @property
    def delivered(self) -> list[int]:
        """The number of messages delivered of each other process."""
        return list(self._delivered)

    @property
    def held(self) -> int:
        """The number of messages that have arrived and are not delivered."""
        return sum([len(held) for held in self._held])

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        check_now(now)
        members = list(dict.fromkeys(checked_targets(targets)))  # Each once.
        data = checked_payload(payload)
        processes = len(self._sent)
        for target in members:
            if target >= processes:
                raise LocalError(f"target {target} is not in a group of {processes}")
        self._clock += 1
        number = self._clock
        counts = list(self._sent[self._id].counts)
        for target in members:
            if target == self._id:
                self._deliveries.append(Delivery(self._id, number, data))
            else:
                counts[target] += 1
        self._sent[self._id] = Row(tuple(counts))
        message = MatrixMessage(number, self._sent.copy(), data)
        for target in members:
            if target != self._id:
                self._transmits.append(Transmit(target, message))
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if not isinstance(frame, MatrixMessage):
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")
        self._check(source, frame)
        count = frame.rows[source].counts[self._id]
        self._held[source][count] = frame
        if count == self._delivered[source] + 1:
            self._deliver_from(source)

    def _check(self, source: ProcessId, message: MatrixMessage) -> None:
        """Raise PeerError if the message is invalid."""
        rows = message.rows
        processes = len(self._sent)
        if not 0 <= source < processes or len(rows) != processes:
            raise PeerError(f"invalid {message} from {source}: expected n = {processes}")
        for index, row in enumerate(rows):
            if len(row.counts) != processes or row.counts[index] != 0:
                raise PeerError(f"invalid {message}: row {index} is {row}")
        if rows[self._id].counts > self._sent[self._id].counts:
            raise PeerError(f"invalid {message}: depends on messages that were not sent")
        count = rows[source].counts[self._id]
        if not 1 <= count <= message.number:
            raise PeerError(
                f"invalid {message}: it counts as message {count} from {source}"
            )
        if count <= self._delivered[source] or count in self._held[source]:
            raise PeerError(f"duplicate {message} from {source}")

    def _deliver_from(self, source: int) -> None:
        """Deliver the next message of ``source`` if possible, then those it blocks."""
        ready = [source]
        for source in ready:  # The list grows in the loop.
            count = self._delivered[source] + 1
            message = self._held[source].get(count)
            if message is None:
                continue
            other = self._find_missing(source, message)
            if other >= 0:
                missing = (other, message.rows[other].counts[self._id])
                self._blocked.setdefault(missing, []).append(source)
                continue
            del self._held[source][count]
            self._checked[source] = 0
            self._delivered[source] = count
            self._merge(message.rows)
            self._deliveries.append(
                Delivery(ProcessId(source), message.number, message.payload)
            )
            ready.append(source)
            ready += self._blocked.pop((source, count), [])

    def _find_missing(self, source: int, message: MatrixMessage) -> int:
        """Return a source of an undelivered message that happened before this, or -1."""
        rows = message.rows
        for other in range(self._checked[source], len(rows)):
            if rows[other].counts[self._id] > self._delivered[other] and other != source:
                self._checked[source] = other
                return other
        return -1

    def _merge(self, rows: list[Row]) -> None:
        """Set the matrix to the maximum; the maximum of two rows is the larger row."""
        sent = self._sent
        for index, row in enumerate(rows):
            own = sent[index]
            if row is not own and row.counts > own.counts:
                sent[index] = row
