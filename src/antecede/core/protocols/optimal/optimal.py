"""``optimal``: only the dependencies that must be told (Kshemkalyani and Singhal 1998).

A. Kshemkalyani, M. Singhal, *Necessary and sufficient conditions on information for causal
message ordering and their optimal implementation*. It serves unicast and multicast on
reliable channels, and delivers a message at the earliest moment that causal order allows,
as ``matrix`` does, but carries the least explicit information that can do so.

A *dependency* "message m is to be delivered to d" is told from process to process until

(I)  m is known to have been delivered to d, or
(II) a message to d was sent of which m happened before the send: whoever makes sure that
     this one is delivered in order has made sure of m.

Rules:

1. A process keeps a log of the messages that happened before its next send, each with
   those targets to which it is still a dependency (LOG: entries of source, number and
   Dests). A message carries the log of the moment it is sent.
2. A message to some targets ends the dependencies on them (II), in the log and in what it
   carries. Only the copy to d keeps those on d, which d must wait for.
3. A target delivers a message when it has delivered everything that the message names as
   a dependency on it (the number of the last one delivered of each source: SR).
4. Having delivered it, the target enters it in the log as a dependency on its other
   targets alone (I), and its log and what the message carried become one. Nobody says
   what is settled. It is told by silence: a log that names a later message of a source,
   and not this one, knows this one and knows that it is settled for all its targets. If
   both name a message, its targets are those that neither knows to be settled.
5. So that silence can be told from ignorance, the last message known of each source stays
   in the log even when it is settled; earlier settled ones are dropped.

Nothing here asks for FIFO channels, nor for the number of processes: the message before
this one to the same target is a dependency like any other, and a source that is in
nobody's log has no message in anybody's past. The paper starts the log with a message 0
of every process, which says nothing, and is left out. Also left out of a message is what
it says of itself anyway: its own target, and, settled, the last message of its source. A
message to oneself is delivered inside ``send``, so it is settled from the start.

How two logs become one is in :mod:`antecede.core.protocols.optimal.log`.

::

    MESSAGE       number, others, length of the log, its entries,
                  payload length, payload                            flag: must be 0
    others        count of targets, targets in ascending order
    entry         source, number, count of targets, targets in ascending order

All but the message's number are LEB128.
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
from antecede.core.protocols.optimal.log import (
    NOBODY,
    Entry,
    append,
    ascend,
    merged,
    read_targets,
    targets_size,
    with_last,
    without,
    write_targets,
)
from antecede.errors import LocalError, PeerError

__all__ = ["Optimal", "OptimalMessage", "read_optimal"]

MESSAGE: Final = 1


@mypyc_attr(acyclic=True)
class OptimalMessage(Frame):
    """A copy of an application message, with the dependencies that must be told."""

    __slots__ = ("log", "number", "others", "payload")

    number: int
    """Its number among all messages of its sender, from 1."""
    others: tuple[int, ...]
    """Its targets, without the receiver and the sender, in ascending order."""
    log: list[Entry]
    """What happened before it, ordered by source and number."""
    payload: bytes
    """The application's bytes."""

    def __init__(
        self, number: int, others: tuple[int, ...], log: list[Entry], payload: bytes
    ) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.others = others
        self.log = log
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        return (
            f"OptimalMessage({self.number}, also to {self.others}, {self.log},"
            f" {len(self.payload)} B)"
        )

    def kind(self) -> int:
        """Return the number of this kind."""
        return MESSAGE

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        size = 1 + width_of(self.number) + targets_size(self.others)
        size += varint_width(len(self.log))
        for entry in self.log:
            size += entry.size
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
        write_targets(buffer, self.others)
        write_varint(buffer, len(self.log))
        for entry in self.log:
            write_varint(buffer, entry.source)
            write_varint(buffer, entry.number)
            write_targets(buffer, entry.targets)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


def read_optimal(reader: Reader) -> Frame:
    """Read one frame of the protocol."""
    if reader.head() != MESSAGE or reader.flag:
        raise reader.refuse()
    message = reader.number()
    others = read_targets(reader)
    log: list[Entry] = []
    for _ in range(reader.varint()):
        source = reader.varint()
        number = reader.varint()
        log.append(Entry(source, number, read_targets(reader)))
    return OptimalMessage(message, others, log, reader.payload())


class _Held:
    """A message that has arrived and waits, for each of its dependencies in turn."""

    __slots__ = ("message", "missing", "source")

    def __init__(self, source: int, message: OptimalMessage, missing: list[Entry]) -> None:
        self.source = source
        self.message = message
        self.missing = missing  # Not delivered when it arrived, the next one at the end.


class Optimal(ProcessBase):
    """A process of ``optimal``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_clock", "_delivered", "_held", "_log", "_waiting")

    def __init__(self, id: ProcessId) -> None:
        """Start a process with no history; it need not know the others."""
        super().__init__(id)
        self._clock = 0
        self._log: list[Entry] = []  # LOG
        self._delivered: dict[int, int] = {}  # SR: the last number of each source.
        # Both by (source, number): what waits, and what waits for that one.
        self._held: dict[tuple[int, int], _Held] = {}
        self._waiting: dict[tuple[int, int], list[_Held]] = {}

    @property
    def log(self) -> list[Entry]:
        """What happened before the next send, ordered by source and number."""
        return list(self._log)

    @property
    def delivered(self) -> dict[int, int]:
        """For each source, the number of its last message delivered."""
        return dict(self._delivered)

    @property
    def held(self) -> int:
        """How many messages have arrived and wait."""
        return len(self._held)

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        """Accept a message for ``targets`` and return its number, from 1."""
        check_now(now)
        members = list(dict.fromkeys(checked_targets(targets)))  # Each once.
        data = checked_payload(payload)
        self._clock += 1
        number = self._clock
        if self._id in members:
            members.remove(self._id)
            self._deliveries.append(Delivery(self._id, number, data))
        gone: set[int] = set(members)
        ordered = sorted(members)
        common = self._log_without(gone)
        named: set[int] = set()
        for entry in self._log:
            named.update(entry.targets)
        for target in members:
            # Only the copy to a target says what happened before to that target.
            log = self._log_without(gone, target) if target in named else common
            others = tuple([other for other in ordered if other != target])
            self._transmits.append(
                Transmit(target, OptimalMessage(number, others, log, data))
            )
        self._log = with_last(common, Entry(self._id, number, tuple(ordered)))
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if not isinstance(frame, OptimalMessage):
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")
        self._check(source, frame)
        missing = [
            entry
            for entry in frame.log
            if self._id in entry.targets
            and entry.number > self._delivered.get(entry.source, 0)
        ]
        held = _Held(source, frame, missing)
        self._held[(source, frame.number)] = held
        self._deliver(held)

    def _log_without(self, gone: set[int], kept: int = NOBODY) -> list[Entry]:
        """Return the log as the next message ends its dependencies (II), ``kept`` not.

        What is settled of our own messages is left out, as the next one is the later.
        """
        log: list[Entry] = []
        for entry in self._log:
            rest = without(entry, gone, kept)
            if rest.targets or rest.source != self._id:
                append(log, rest)
        return log

    def _deliver(self, held: _Held) -> None:
        """Deliver a message if it may be, and all that it holds up."""
        ready = [held]
        for waiting in ready:  # It grows meanwhile.
            missing = waiting.missing
            while missing and missing[-1].number <= self._delivered.get(
                missing[-1].source, 0
            ):
                missing.pop()
            if missing:
                key = (missing[-1].source, missing[-1].number)
                self._waiting.setdefault(key, []).append(waiting)
                continue
            source = waiting.source
            message = waiting.message
            key = (source, message.number)
            del self._held[key]
            self._delivered[source] = message.number
            self._merge(source, message)
            self._deliveries.append(
                Delivery(ProcessId(source), message.number, message.payload)
            )
            ready += self._waiting.pop(key, [])

    def _merge(self, source: int, message: OptimalMessage) -> None:
        """Make one log of ours and the message's, which becomes a part of the past.

        It is a dependency on its other targets alone (I). What it carried about us, we
        have delivered before, and our own log knows.
        """
        entry = Entry(source, message.number, message.others)
        self._log = merged(self._log, with_last(message.log, entry))

    def _check(self, source: ProcessId, message: OptimalMessage) -> None:
        """Raise PeerError if a message cannot be."""
        number = message.number
        if number < 1 or not ascend(message.others, source):
            raise PeerError(f"{message} cannot be")
        if self._id in message.others:
            raise PeerError(f"{message} names its own target as another one")
        last_source = 0
        last_number = 0
        for entry in message.log:
            if (
                entry.source < last_source
                or (entry.source == last_source and entry.number <= last_number)
                or entry.number < 1
                or not ascend(entry.targets, entry.source)
            ):
                raise PeerError(f"{message} cannot be: {entry}")
            last_source = entry.source
            last_number = entry.number
            if (entry.source == source and entry.number >= number) or (
                entry.source == self._id and entry.number > self._clock
            ):
                raise PeerError(f"{message} depends on {entry}, which was not sent")
        if number <= self._delivered.get(source, 0) or (source, number) in self._held:
            raise PeerError(f"{message} from {source} is here already")
