"""``matrix``: a count of messages for every pair, on every message (Raynal et al. 1991).

M. Raynal, A. Schiper, S. Toueg, *The causal ordering abstraction and a simple way to
implement it*. It serves unicast and multicast on reliable channels that keep no order, and
delivers a message at the earliest moment that causal order allows.

Rules:

1. Every process keeps ``sent[k][l]``: how many messages from k to l happened before its
   next send, as far as it can know, which is exactly. A message counts once for each of
   its targets (SENT in the paper).
2. A message carries the whole matrix, itself included.
3. A target j keeps ``delivered[k]``: how many messages of k it has delivered (DELIV). It
   delivers a message of i with the matrix M when M[i][j] is ``delivered[i] + 1`` and no
   other M[k][j] exceeds ``delivered[k]``: everything that was sent to j before it is there.
4. Having delivered it, j takes the maximum of M and its own matrix, place by place.

The paper attaches the matrix before it counts the message, and the target counts it when
it delivers; here it is attached afterwards, as Mattern and Fünfrocken tell it in their §2.
Then all copies of a multicast carry the same matrix, which tells each target of the
others, and no target counts anything. That also mends what wedges the paper's version: a
message to oneself is counted there by its send and again by its delivery, and whatever is
sent to that process afterwards waits for a message that does not exist. Here it is
delivered inside ``send`` and not counted at all, since nobody can ever wait for it.

Row k of a matrix is written by process k alone and only grows, so of two copies of it one
is the larger at *every* place. The maximum of two rows is therefore the larger row, and
rows can be shared: a send makes one new row, and a comparison decides a merge.

::

    MESSAGE       number, n, n² counts row by row (all LEB128 but the first),
                  payload length (LEB128), payload                    flag: must be 0
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.process import (
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
    checked_payload,
    checked_targets,
)
from antecede.errors import LocalError, PeerError

__all__ = ["Matrix", "MatrixMessage", "Row", "read_matrix"]

MESSAGE: Final = 1


@mypyc_attr(acyclic=True)
class Row:
    """How many messages one process has sent to each; never changed once it is made."""

    __slots__ = ("counts", "size")

    counts: tuple[int, ...]
    """For each target, the messages to it."""
    size: int
    """The bytes that the counts take on the wire."""

    def __init__(self, counts: tuple[int, ...]) -> None:
        """Make the row, and count its bytes once for all the messages that carry it."""
        self.counts = counts
        size = 0
        for count in counts:
            size += varint_width(count)
        self.size = size

    def __repr__(self) -> str:
        """Show the counts."""
        return f"Row({self.counts})"


@mypyc_attr(acyclic=True)
class MatrixMessage(Frame):
    """A copy of an application message, with all that happened before it, counted."""

    __slots__ = ("number", "payload", "rows")

    number: int
    """Its number among all messages of its sender, from 1."""
    rows: list[Row]
    """For each process a row: what it had sent, this message included."""
    payload: bytes
    """The application's bytes."""

    def __init__(self, number: int, rows: list[Row], payload: bytes) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.rows = rows
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the matrix by its dimension, the payload by its length."""
        return f"MatrixMessage({self.number}, n = {len(self.rows)}, {len(self.payload)} B)"

    def kind(self) -> int:
        """Return the number of this kind."""
        return MESSAGE

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        size = 1 + width_of(self.number) + varint_width(len(self.rows))
        for row in self.rows:
            size += row.size
        return size + varint_width(len(self.payload))

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return len(self.payload)

    def message_number(self) -> int:
        """Return the number of the message."""
        return self.number

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
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
    """Read one frame of the protocol."""
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

    __slots__ = ("_checked", "_clock", "_delivered", "_held", "_sent", "_waiting")

    def __init__(self, id: ProcessId, processes: int) -> None:
        """Start a process with no history in a group of ``processes``, ids from 0."""
        if not 0 <= id < processes:
            raise LocalError(f"no process {id} among {processes}")
        super().__init__(id)
        nothing = Row((0,) * processes)
        self._clock = 0
        self._sent: list[Row] = [nothing] * processes  # SENT
        self._delivered: list[int] = [0] * processes  # DELIV
        # For each source, its messages here that wait, by their count among those to us.
        self._held: list[dict[int, MatrixMessage]] = [{} for _ in range(processes)]
        # Only the next message of a source can be the next to deliver. If it waits, it
        # waits for one count of one other source (the key) and has been found to wait for
        # nothing of the sources before that one (`_checked`), so that each count of its
        # column is looked at about once, whatever arrives meanwhile.
        self._waiting: dict[tuple[int, int], list[int]] = {}
        self._checked: list[int] = [0] * processes

    @property
    def sent(self) -> list[tuple[int, ...]]:
        """How many messages from each to each happened before the next send."""
        return [row.counts for row in self._sent]

    @property
    def delivered(self) -> list[int]:
        """How many messages of each source have been delivered, its own left out."""
        return list(self._delivered)

    @property
    def held(self) -> int:
        """How many messages have arrived and wait."""
        return sum([len(held) for held in self._held])

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1."""
        check_now(now)
        members = list(dict.fromkeys(checked_targets(targets)))  # Each once.
        data = checked_payload(payload)
        processes = len(self._sent)
        for target in members:
            if target >= processes:
                raise LocalError(f"no process {target} among {processes}")
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
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if not isinstance(frame, MatrixMessage):
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")
        self._check(source, frame)
        count = frame.rows[source].counts[self._id]
        self._held[source][count] = frame
        if count == self._delivered[source] + 1:
            self._deliver_from(source)

    def _check(self, source: ProcessId, message: MatrixMessage) -> None:
        """Raise PeerError if a message cannot be."""
        rows = message.rows
        processes = len(self._sent)
        if not 0 <= source < processes or len(rows) != processes:
            raise PeerError(f"{message} from {source}, expected n = {processes}")
        for index, row in enumerate(rows):
            if len(row.counts) != processes or row.counts[index] != 0:
                raise PeerError(f"{message} cannot be: its row {index} is {row}")
        if rows[self._id].counts > self._sent[self._id].counts:
            raise PeerError(f"{message} depends on messages that were not sent")
        count = rows[source].counts[self._id]
        if not 1 <= count <= message.number:
            raise PeerError(f"{message} cannot be the message {count} from {source}")
        if count <= self._delivered[source] or count in self._held[source]:
            raise PeerError(f"{message} from {source} is here already")

    def _deliver_from(self, source: int) -> None:
        """Deliver the next message of ``source`` if it may, and all that it holds up."""
        ready = [source]
        for source in ready:  # It grows meanwhile.
            count = self._delivered[source] + 1
            message = self._held[source].get(count)
            if message is None:
                continue
            other = self._find_missing(source, message)
            if other >= 0:
                missing = (other, message.rows[other].counts[self._id])
                self._waiting.setdefault(missing, []).append(source)
                continue
            del self._held[source][count]
            self._checked[source] = 0
            self._delivered[source] = count
            self._merge(message.rows)
            self._deliveries.append(
                Delivery(ProcessId(source), message.number, message.payload)
            )
            ready.append(source)
            ready += self._waiting.pop((source, count), [])

    def _find_missing(self, source: int, message: MatrixMessage) -> int:
        """Return a process with a message to come that happened before this, or -1."""
        rows = message.rows
        for other in range(self._checked[source], len(rows)):
            if rows[other].counts[self._id] > self._delivered[other] and other != source:
                self._checked[source] = other
                return other
        return -1

    def _merge(self, rows: list[Row]) -> None:
        """Take the maximum of the matrices; that of two rows is the larger row."""
        sent = self._sent
        for index, row in enumerate(rows):
            mine = sent[index]
            if row is not mine and row.counts > mine.counts:
                sent[index] = row
