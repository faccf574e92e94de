"""``newtop``: total order by Lamport clocks, waiting for everyone (Ezhilchelvan et al.).

From Ezhilchelvan, Macêdo and Shrivastava, "Newtop: A Fault-Tolerant Group Communication
Protocol", ICDCS 1995: the symmetric protocol for one group, without its part that copes
with failures and changes of the group.

Rules, in the words of docs/glossary.md:

1. A process has a Lamport clock. It advances the clock before it transmits anything and
   stamps the frame with it (the paper's CA1); on arrival of a frame it sets its clock to
   the frame's stamp if that is higher (CA2).
2. The receive vector holds, for each member, the stamp of the last frame that arrived from
   it; for the process itself, of the last frame it transmitted. Links are FIFO and a
   member's stamps increase, so nothing with a stamp up to the lowest entry, D, is still
   to come from anybody.
3. A message can be delivered when its stamp is at most D (safe1). Messages are delivered in
   the order of their stamps, and where stamps are equal, of their sources (safe2).
4. *Time-silence*: while a member transmits nothing, nobody delivers. So a process that has
   been silent for a time ω transmits a *null* frame, a stamp without a message.

That gives every member the same order, more than causal order asks for: a message sent
after another was sent or delivered has a higher stamp, but of two messages that know
nothing of each other, one must wait for the other all the same. As in the paper, a process
delivers its own messages in their turn too. Here ``newtop`` departs from the contract, by
which its own delivery is among the outputs of ``broadcast``: it comes later, unless the
process is alone. Metadata is constant: the vector stays at home.

Nulls and rest. In the paper a silent process transmits a null every ω, for ever. Here the
nulls that nobody can be waiting for are left out, and all others come when the paper's
would: at the next multiple of ω after the process's last transmission. A null is owed if
the process knows of a message with a higher stamp than the last that it transmitted
itself, because somebody may be unable to deliver that message yet. Every message reaches
everybody, so everybody transmits a stamp at least as high in the end, and D passes the
message everywhere. Nulls are not delivered, so no null is owed for a null: once everybody
has passed every message's stamp, the group is silent.

::

    MESSAGE   clock, number, payload length (LEB128), payload     flag: must be 0
    NULL      clock                                               flag: must be 0

A receiver could count the messages of a FIFO link; the number is on the wire because a
trace names a message by it, as with every protocol here.
"""

from heapq import heappop, heappush
from math import inf
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
)
from antecede.errors import ConfigError, LocalError, PeerError

__all__ = ["SILENCE_S", "Newtop", "NewtopMessage", "NewtopNull", "read_newtop"]

MESSAGE: Final = 1
NULL: Final = 2

SILENCE_S: Final = 0.05
"""The default of ω, in seconds. It bounds both sides of a bargain: what a silent member
adds to the latency of the others' messages, here less than a wide-area round trip, and
how many null frames it transmits to each of them, here at most 20 a second."""


@mypyc_attr(acyclic=True)
class NewtopMessage(Frame):
    """A copy of an application message with its stamp."""

    __slots__ = ("clock", "number", "payload")

    clock: int
    """Its stamp: the Lamport clock of its sender, from 1."""
    number: int
    """Its number among all messages of its sender, from 1; nulls do not count."""
    payload: bytes
    """The application's bytes."""

    def __init__(self, clock: int, number: int, payload: bytes) -> None:
        """Make the frame; the fields are documented on the class."""
        self.clock = clock
        self.number = number
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        return f"NewtopMessage({self.clock}, {self.number}, {len(self.payload)} B)"

    def kind(self) -> int:
        """Return the number of this kind."""
        return MESSAGE

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        width = width_of(max(self.clock, self.number))
        return 1 + 2 * width + varint_width(len(self.payload))

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return len(self.payload)

    def message_number(self) -> int:
        """Return the number of the message."""
        return self.number

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
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

    clock: int
    """The Lamport clock of its sender, from 1."""

    def __init__(self, clock: int) -> None:
        """Make the frame; the field is documented on the class."""
        self.clock = clock

    def __repr__(self) -> str:
        """Show the field."""
        return f"NewtopNull({self.clock})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return NULL

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1 + width_of(self.clock)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
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

    Its own messages are delivered in their turn in the total order, which is after
    ``broadcast`` has returned, unless it is alone.
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
        """Start a process of a group whose members are 0 up to ``processes`` - 1.

        Args:
            id: Which of them it is.
            processes: How many there are.
            silence_s: How long it is silent at most while others may be waiting (ω).
        """
        if not 0 <= id < processes:
            raise ConfigError(f"no process {id} in a group of {processes}")
        if not 0 < silence_s < inf:
            raise ConfigError(f"silence_s must be above 0 and finite, got {silence_s}")
        super().__init__(id)
        self._processes = processes
        self._silence_s = silence_s
        self._clock = 0  # LC.
        self._received = [0] * processes  # RV.
        self._horizon = 0  # D: the lowest entry of the receive vector.
        self._numbers = [0] * processes  # Of each member, its last message's number.
        # What is not delivered yet, as a heap of (stamp, source, number, payload).
        self._held: list[tuple[int, ProcessId, int, bytes]] = []
        # Time-silence.
        self._highest = 0  # The highest stamp of a message, nulls aside.
        self._silent_since: float | None = None  # The first input, before a transmission.
        self._deadline: float | None = None  # When the null that is owed goes out.

    @property
    def clock(self) -> int:
        """The Lamport clock."""
        return self._clock

    @property
    def received(self) -> list[int]:
        """The last stamp of each member: the receive vector."""
        return self._received.copy()

    @property
    def held(self) -> int:
        """How many messages, its own included, are known and not delivered."""
        return len(self._held)

    def broadcast(self, payload: object, now: float) -> int:
        """Accept a message for all members and return its number, from 1.

        It is delivered here in its turn, like everywhere.
        """
        check_now(now)
        data = checked_payload(payload)
        self._clock += 1  # CA1.
        self._numbers[self._id] += 1
        number = self._numbers[self._id]
        self._hold(self._clock, self._id, number, data)
        self._transmit(NewtopMessage(self._clock, number, data), now)
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        """Take a frame that arrived from ``source``, and deliver what it makes safe."""
        check_now(now)
        if source == self._id:
            raise LocalError("a process transmits nothing to itself")
        if not 0 <= source < self._processes:
            raise PeerError(f"{source} is not in the group of {self._processes}")
        if isinstance(frame, NewtopMessage):
            clock = frame.clock
            self._check_stamp(source, frame, clock)
            if frame.number != self._numbers[source] + 1:
                raise PeerError(f"{frame} after message {self._numbers[source]}")
            self._numbers[source] = frame.number
            self._hold(clock, source, frame.number, frame.payload)
        elif isinstance(frame, NewtopNull):
            clock = frame.clock
            self._check_stamp(source, frame, clock)
        else:
            raise PeerError(f"a {type(frame).__name__} is no frame of this protocol")
        self._clock = max(self._clock, clock)  # CA2.
        self._watch_silence(now)
        self._advance(source, clock)

    def handle_timer(self, now: float) -> None:
        """End the silence if somebody may be waiting for it (time-silence)."""
        check_now(now)
        deadline = self._deadline
        if deadline is not None and deadline <= now:
            self._clock += 1  # CA1 holds for nulls too.
            self._transmit(NewtopNull(self._clock), now)

    def next_timer(self) -> float | None:
        """Tell when ``handle_timer`` wants to be called next, or None for never."""
        return self._deadline

    def _check_stamp(self, source: ProcessId, frame: Frame, clock: int) -> None:
        """Raise PeerError unless the stamp is higher than the last one of ``source``."""
        if clock <= self._received[source]:
            raise PeerError(f"{frame} after the stamp {self._received[source]}")

    def _hold(self, clock: int, source: ProcessId, number: int, payload: bytes) -> None:
        """Keep a message until it is safe."""
        heappush(self._held, (clock, source, number, payload))
        self._highest = max(self._highest, clock)

    def _transmit(self, frame: Frame, now: float) -> None:
        """Transmit a frame stamped with the clock to everybody, and to itself."""
        for target in range(self._processes):
            if target != self._id:
                self._transmits.append(Transmit(ProcessId(target), frame))
        self._silent_since = now
        self._deadline = None
        self._advance(self._id, self._clock)

    def _watch_silence(self, now: float) -> None:
        """Set the time of a null if one is owed and has no time yet."""
        since = self._silent_since
        if since is None:
            since = now
            self._silent_since = now
        if self._deadline is None and self._received[self._id] < self._highest:
            # The paper's process would have ended its silence every ω since then.
            self._deadline = now + (self._silence_s - (now - since) % self._silence_s)

    def _advance(self, source: ProcessId, clock: int) -> None:
        """Note a member's latest stamp, and deliver what is safe now."""
        received = self._received
        lowest = received[source] == self._horizon
        received[source] = clock
        if not lowest:
            return  # Another entry holds the horizon where it is.
        horizon = min(received)
        self._horizon = horizon
        held = self._held
        while held and held[0][0] <= horizon:  # Both safe1 and safe2.
            _, sender, number, payload = heappop(held)
            self._deliveries.append(Delivery(sender, number, payload))
