"""``newtop``: total order by Lamport clocks, waiting for everyone (Ezhilchelvan et al.).

From Ezhilchelvan, Macêdo and Shrivastava, "Newtop: A Fault-Tolerant Group Communication
Protocol", ICDCS 1995: the symmetric protocol for one group, without failures and changes
of the group.

Rules, in the terms of docs/reference/glossary.md:

1. A process has a Lamport clock. It increments the clock before each transmission and
   stamps the frame with it (the paper's CA1). When a frame arrives, it sets its clock to
   the frame's stamp if that is higher (CA2).
2. The receive vector holds the stamp of the last frame that arrived from each member; for
   the process itself, of the last frame it transmitted. Links are FIFO and the stamps of a
   member increase, so no frame with a stamp up to the lowest entry, D, can still arrive.
3. A message can be delivered when its stamp is at most D (safe1). Messages are delivered in
   the order of their stamps; equal stamps in the order of their sources (safe2).
4. *Time-silence*: while one member transmits nothing, no member delivers. Therefore a
   process that has been silent for a time ω transmits a *null* frame, which has a stamp
   and no message.

Every member delivers in the same order, which is more than causal order demands: a message
sent after another was sent or delivered has a higher stamp, but of two concurrent messages
one must wait for the other as well. As in the paper, a process delivers its own messages in
this order, too. Here ``newtop`` departs from the other protocols, in which its own delivery
is among the outputs of ``broadcast``: it follows later, unless the process is alone. The
size of the metadata is constant, since frames do not carry the vector.

In the paper a silent process transmits a null every ω, forever. Here a process omits the
nulls for which no member can be waiting, and transmits the others when the paper's process
would: at the next multiple of ω after its last transmission. A null is due if the process
knows of a message with a higher stamp than its own last transmission, because a member may
be unable to deliver that message. Every message reaches every member, so every member
eventually transmits a stamp that is at least as high, and D passes the message at every
member. Nulls are not delivered, so no null is due for a null: once every member has passed
the stamp of every message, the group is silent.

::

    MESSAGE   clock, number, payload length (LEB128), payload     flag: must be 0
    NULL      clock                                               flag: must be 0

A receiver could count the messages of a FIFO link; the number is encoded because traces
identify a message by it.
"""

from heapq import heappop, heappush
from math import inf
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
from antecede.core.input_checks import checked_payload
from antecede.core.process import Delivery, ProcessBase, ProcessId, Transmit, check_now
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["SILENCE_S", "Newtop", "NewtopMessage", "NewtopNull", "read_newtop"]

MESSAGE: Final = 1
NULL: Final = 2

SILENCE_S: Final = 0.05
"""The default of ω, in seconds: a compromise between the latency that a silent member adds
to the messages of others (less than a wide-area round trip) and the number of null frames
that it transmits to each of them (at most 20 per second)."""


@mypyc_attr(acyclic=True)
class NewtopMessage(PayloadFrame):
    """A copy of an application message with its stamp."""

    __slots__ = ("clock",)

    KIND: ClassVar[int] = MESSAGE

    clock: int
    """The stamp: the Lamport clock of the sender, from 1."""

    def __init__(self, clock: int, number: int, payload: bytes) -> None:
        super().__init__(number, payload)
        self.clock = clock

    def metadata_size(self) -> int:
        width = width_of(max(self.clock, self.number))
        return 1 + 2 * width + varint_width(len(self.payload))

    def write(self, buffer: bytearray) -> None:
        width = width_of(max(self.clock, self.number))
        write_head(buffer, MESSAGE, width)
        write_number(buffer, self.clock, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


@mypyc_attr(acyclic=True)
class NewtopNull(Frame):
    """A stamp without a message."""

    __slots__ = ("clock",)

    KIND: ClassVar[int] = NULL

    clock: int
    """The Lamport clock of the sender, from 1."""

    def __init__(self, clock: int) -> None:
        self.clock = clock

    def metadata_size(self) -> int:
        return 1 + width_of(self.clock)

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.clock)
        write_head(buffer, NULL, width)
        write_number(buffer, self.clock, width)


def read_newtop(reader: Reader) -> Frame:
    """Read one frame of ``newtop``."""
    kind = reader.head()
    if reader.flag:
        raise reader.refuse()
    if kind == MESSAGE:
        clock = reader.number()
        number = reader.number()
        return NewtopMessage(clock, number, reader.payload())
    if kind == NULL:
        return NewtopNull(reader.number())
    raise reader.refuse()


class Newtop(ProcessBase):
    """A process of ``newtop``; see :class:`antecede.core.process.Process`.

    It delivers its own messages in the total order, after ``broadcast`` has returned,
    unless it is alone.
    """

    __slots__ = (
        "_clock",
        "_deadline",
        "_held",
        "_highest",
        "_horizon",
        "_numbers",
        "_processes",
        "_received",
        "_silence_s",
        "_silent_since",
    )

    def __init__(self, id: ProcessId, processes: int, silence_s: float = SILENCE_S) -> None:
        """Create a member of a group with the ids 0 to ``processes`` - 1.

        Args:
            id: The id of the member.
            processes: The size of the group.
            silence_s: The longest silence while other members may be waiting (ω).
        """
        if not 0 <= id < processes:
            raise ConfigError(f"process {id} is not in a group of {processes}")
        if not 0 < silence_s < inf:
            raise ConfigError(f"silence_s must be above 0 and finite, got {silence_s}")
        super().__init__(id)
        self._processes = processes
        self._silence_s = silence_s
        self._clock = 0  # LC.
        self._received = [0] * processes  # RV.
        self._horizon = 0  # D: the lowest entry of the receive vector.
        self._numbers = [0] * processes  # The number of the last message of each member.
        # The undelivered messages, as a heap of (stamp, source, number, payload).
        self._held: list[tuple[int, ProcessId, int, bytes]] = []
        # Time-silence.
        self._highest = 0  # The highest stamp of a message, without nulls.
        self._silent_since: float | None = None  # The last transmission, or first input.
        self._deadline: float | None = None  # When the due null is transmitted.

    @property
    def clock(self) -> int:
        """The Lamport clock."""
        return self._clock

    @property
    def received(self) -> list[int]:
        """The receive vector: the last stamp of each member."""
        return self._received.copy()

    @property
    def held(self) -> int:
        """The number of undelivered messages, including its own."""
        return len(self._held)

    def broadcast(self, payload: object, now: float) -> int:
        check_now(now)
        data = checked_payload(payload)
        self._clock += 1  # CA1.
        self._numbers[self._id] += 1
        number = self._numbers[self._id]
        self._hold(self._clock, self._id, number, data)
        self._transmit(NewtopMessage(self._clock, number, data), now)
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Record the stamp of a frame, and deliver the messages that are safe now."""
        check_now(now)
        if source == self._id:
            raise LocalError(f"source {source} is this process itself")
        if not 0 <= source < self._processes:
            raise PeerError(f"source {source} is not in a group of {self._processes}")
        if isinstance(frame, NewtopMessage):
            clock = frame.clock
            self._check_stamp(source, frame, clock)
            if frame.number != self._numbers[source] + 1:
                expected = self._numbers[source] + 1
                raise PeerError(f"invalid {frame}: expected message {expected}")
            self._numbers[source] = frame.number
            self._hold(clock, source, frame.number, frame.payload)
        elif isinstance(frame, NewtopNull):
            clock = frame.clock
            self._check_stamp(source, frame, clock)
        else:
            raise PeerError(f"{type(frame).__name__} is not a frame of this protocol")
        self._clock = max(self._clock, clock)  # CA2.
        self._watch_silence(now)
        self._advance(source, clock)

    def handle_timer(self, now: float) -> None:
        """Transmit a null if it is due (time-silence)."""
        check_now(now)
        deadline = self._deadline
        if deadline is not None and deadline <= now:
            self._clock += 1  # CA1 holds for nulls, too.
            self._transmit(NewtopNull(self._clock), now)

    def next_timer(self) -> float | None:
        return self._deadline

    def _check_stamp(self, source: ProcessId, frame: Frame, clock: int) -> None:
        """Raise PeerError unless the stamp is higher than the last one of ``source``."""
        if clock <= self._received[source]:
            last = self._received[source]
            raise PeerError(f"invalid {frame}: expected a stamp above {last}")

    def _hold(self, clock: int, source: ProcessId, number: int, payload: bytes) -> None:
        """Hold a message until it is safe."""
        heappush(self._held, (clock, source, number, payload))
        self._highest = max(self._highest, clock)

    def _transmit(self, frame: Frame, now: float) -> None:
        """Transmit a frame that is stamped with the clock to all other members."""
        for target in range(self._processes):
            if target != self._id:
                self._transmits.append(Transmit(ProcessId(target), frame))
        self._silent_since = now
        self._deadline = None
        self._advance(self._id, self._clock)

    def _watch_silence(self, now: float) -> None:
        """Set the deadline of a null if one is due and has no deadline."""
        since = self._silent_since
        if since is None:
            since = now
            self._silent_since = now
        if self._deadline is None and self._received[self._id] < self._highest:
            # The paper's process would have transmitted a null every ω since then.
            self._deadline = now + (self._silence_s - (now - since) % self._silence_s)

    def _advance(self, source: ProcessId, clock: int) -> None:
        """Record the last stamp of a member, and deliver the messages that are safe now."""
        received = self._received
        was_lowest = received[source] == self._horizon
        received[source] = clock
        if not was_lowest:
            return  # The lowest entry has not changed.
        horizon = min(received)
        self._horizon = horizon
        held = self._held
        while held and held[0][0] <= horizon:  # Both safe1 and safe2.
            _, sender, number, payload = heappop(held)
            self._deliveries.append(Delivery(sender, number, payload))
