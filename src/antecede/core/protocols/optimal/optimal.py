"""``optimal``: messages carry the minimal dependencies (Kshemkalyani and Singhal 1998).

A. Kshemkalyani, M. Singhal, *Necessary and sufficient conditions on information for causal
message ordering and their optimal implementation*. The protocol has unicast and multicast,
needs reliable channels, and delivers each message as early as causal order allows, like
``matrix``, but with the least explicit information.

Processes pass on a *dependency* "message m must be delivered at d" until

(I)  m is known to have been delivered at d, or
(II) another message m' with the target d was sent after m, causally: if m' is delivered in
     causal order, so is m.

Rules:

1. A process keeps a log of the messages that happened before its next send, each with the
   targets for which it is still a dependency (LOG: entries of source, number and Dests).
   A message carries the log of its sender at the send.
2. A message to a target d ends the dependencies for d (II), in the log of the sender and
   in the copies to other targets. The copy to d keeps them, because d must wait for them.
3. A target delivers a message when it has delivered every message that is a dependency for
   it in the message's log (SR: the number of the last message delivered of each source).
4. After the delivery, the target adds the message to its log as a dependency for the other
   targets (I), and merges the received log with its own. A log does not list settled
   dependencies. If it contains a later message of a source and not this one, then this
   message is settled for all its targets. If both logs contain a message, its targets are
   those in both entries.
5. The last known message of each source stays in the log even if it is settled, so that a
   settled message can be told from an unknown one; earlier settled messages are dropped.

The protocol needs neither FIFO channels nor the number of processes: the previous message
to the same target is a dependency like any other, and a source without an entry in a log
has sent no message that happened before. The paper starts the log with a message 0 of every
process, which carries no information and is omitted here. A message also omits what follows
from the message itself: its own target, and the last message of its source if that is
settled. A message of a process to itself is delivered inside ``send``, so it is settled at
once.

:mod:`antecede.core.protocols.optimal.log` merges two logs.

::

    MESSAGE       number, others, length of the log, its entries,
                  payload length, payload                            flag: must be 0
    others        count of targets, targets in ascending order
    entry         source, number, count of targets, targets in ascending order

All but the message's number are LEB128.
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
from antecede.core.process import (
    NO_PROCESS,
    Delivery,
    ProcessBase,
    ProcessId,
    Transmit,
    check_now,
)
from antecede.core.protocols.optimal.log import (
    Entry,
    append,
    are_valid,
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
class OptimalMessage(PayloadFrame):
    """A copy of an application message with its dependencies."""

    __slots__ = ("log", "others")

    KIND: ClassVar[int] = MESSAGE

    others: tuple[int, ...]
    """The targets without the receiver and the sender, in ascending order."""
    log: list[Entry]
    """The messages that happened before it, ordered by source and number."""

    def __init__(
        self, number: int, others: tuple[int, ...], log: list[Entry], payload: bytes
    ) -> None:
        super().__init__(number, payload)
        self.others = others
        self.log = log

    def metadata_size(self) -> int:
        size = 1 + width_of(self.number) + targets_size(self.others)
        size += varint_width(len(self.log))
        for entry in self.log:
            size += entry.size
        return size + varint_width(len(self.payload))

    def write(self, buffer: bytearray) -> None:
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
    """Read one frame of ``optimal``."""
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
    """A message that has arrived and waits for its dependencies, one after the other."""

    __slots__ = ("message", "missing", "source")

    def __init__(self, source: int, message: OptimalMessage, missing: list[Entry]) -> None:
        self.source = source
        self.message = message
        self.missing = missing  # The undelivered dependencies; the next one is the last.


class Optimal(ProcessBase):
    """A process of ``optimal``; see :class:`antecede.core.process.Process`."""

    __slots__ = ("_blocked", "_clock", "_delivered", "_held", "_log")

    def __init__(self, id: ProcessId) -> None:
        super().__init__(id)
        self._clock = 0
        self._log: list[Entry] = []  # LOG
        self._delivered: dict[int, int] = {}  # SR: the last number of each source.
        # By (source, number): the held messages, and the messages that wait for that one.
        self._held: dict[tuple[int, int], _Held] = {}
        self._blocked: dict[tuple[int, int], list[_Held]] = {}

    @property
    def log(self) -> list[Entry]:
        """The messages that happened before the next send, by source and number."""
        return list(self._log)

    @property
    def delivered(self) -> dict[int, int]:
        """The number of the last delivered message of each source."""
        return dict(self._delivered)

    @property
    def held(self) -> int:
        """The number of messages that have arrived and are not delivered."""
        return len(self._held)

    def send(self, targets: Iterable[ProcessId], payload: object, now: float) -> int:
        check_now(now)
        members = list(dict.fromkeys(checked_targets(targets)))  # Each once.
        data = checked_payload(payload)
        self._clock += 1
        number = self._clock
        if self._id in members:
            members.remove(self._id)
            self._deliveries.append(Delivery(self._id, number, data))
        removed: set[int] = set(members)
        ordered = sorted(members)
        common = self._log_without(removed)
        dependents: set[int] = set()
        for entry in self._log:
            dependents.update(entry.targets)
        for target in members:
            # Only the copy to a target carries the dependencies for that target.
            log = self._log_without(removed, target) if target in dependents else common
            others = tuple([other for other in ordered if other != target])
            self._transmits.append(
                Transmit(target, OptimalMessage(number, others, log, data))
            )
        self._log = with_last(common, Entry(self._id, number, tuple(ordered)))
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if not isinstance(frame, OptimalMessage):
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")
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

    def _log_without(self, removed: set[int], kept: int = NO_PROCESS) -> list[Entry]:
        """Return the log without the dependencies for ``removed`` (II), except ``kept``.

        Settled messages of this process are omitted, because the next message is later.
        """
        log: list[Entry] = []
        for entry in self._log:
            rest = without(entry, removed, kept)
            if rest.targets or rest.source != self._id:
                append(log, rest)
        return log

    def _deliver(self, first: _Held) -> None:
        """Deliver a message if possible, then those it blocks."""
        ready = [first]
        for held in ready:  # The list grows in the loop.
            missing = held.missing
            while missing and missing[-1].number <= self._delivered.get(
                missing[-1].source, 0
            ):
                missing.pop()
            if missing:
                key = (missing[-1].source, missing[-1].number)
                self._blocked.setdefault(key, []).append(held)
                continue
            source = held.source
            message = held.message
            key = (source, message.number)
            del self._held[key]
            self._delivered[source] = message.number
            self._merge(source, message)
            self._deliveries.append(
                Delivery(ProcessId(source), message.number, message.payload)
            )
            ready += self._blocked.pop(key, [])

    def _merge(self, source: int, message: OptimalMessage) -> None:
        """Merge the message and its log into our log.

        The message is a dependency for its other targets only (I). Its dependencies for
        this process have been delivered, which our own log reflects.
        """
        entry = Entry(source, message.number, message.others)
        self._log = merged(self._log, with_last(message.log, entry))

    def _check(self, source: ProcessId, message: OptimalMessage) -> None:
        """Raise PeerError if the message is invalid."""
        number = message.number
        if number < 1 or not are_valid(message.others, source):
            raise PeerError(f"invalid {message}: number or other targets out of order")
        if self._id in message.others:
            raise PeerError(f"invalid {message}: process {self._id} is listed in others")
        last_source = 0
        last_number = 0
        for entry in message.log:
            if (
                entry.source < last_source
                or (entry.source == last_source and entry.number <= last_number)
                or entry.number < 1
                or not are_valid(entry.targets, entry.source)
            ):
                raise PeerError(f"invalid {message}: {entry} is out of order")
            last_source = entry.source
            last_number = entry.number
            if (entry.source == source and entry.number >= number) or (
                entry.source == self._id and entry.number > self._clock
            ):
                raise PeerError(
                    f"invalid {message}: depends on {entry}, which was not sent"
                )
        if number <= self._delivered.get(source, 0) or (source, number) in self._held:
            raise PeerError(f"duplicate {message} from {source}")
