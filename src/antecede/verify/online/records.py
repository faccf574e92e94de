"""The records of the online verifier: processes, messages, and events that wait.

A process has a *slot*, a small integer. A set of processes is an integer, in which the bit
of each slot is set; -1 is the set of all processes, and the targets of a broadcast.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from antecede.verify.kernels.slot_map import Longs

__all__ = [
    "BROADCAST",
    "NEVER",
    "NO_COPY",
    "ArrivedEvent",
    "Message",
    "ProcessState",
    "Segment",
    "Suspect",
    "slots_of",
]

BROADCAST: Final = -1
"""The targets of a broadcast."""
NEVER: Final = float("-inf")
NO_COPY: Final = np.iinfo(np.int64).max
"""The oldest undelivered copy of a source, where all are delivered."""

ArrivedEvent = tuple[bool, int, int, int, float]
"""Whether it is a send, the targets, the slot of the source, the number, and the time."""


def slots_of(processes: int) -> Iterator[int]:
    """Yield the slots in a set of processes, which must not be BROADCAST."""
    while processes:
        lowest = processes & -processes
        yield lowest.bit_length() - 1
        processes ^= lowest


class Message:
    """A message that was sent within the retention time."""

    __slots__ = (
        "clock", "delivered", "gap_until", "inexact_until", "is_expired", "number", "order",
        "ordinal", "source", "stamp", "suspected", "targets", "time",
    )  # fmt: skip

    source: int
    """The slot of the source."""
    number: int
    ordinal: int
    """The position among the sends of the source that were processed, from 1."""
    order: int
    """The position among all sends that were processed."""
    clock: Longs
    """By slot, the last ordinal in the causal past of the message, or its own ordinal."""
    targets: int
    delivered: int
    """The processes that have delivered it, and were targets."""
    time: float
    """The time of the send, by the clock of the source."""
    stamp: float
    """The time at which the send was processed."""
    inexact_until: float
    """Until this time, the causal past of the message may lack messages that matter."""
    gap_until: float
    """Until this time, an earlier message of the same source may be missing."""
    suspected: int
    """The number of suspects of this message."""
    is_expired: bool

    def __init__(
        self, source: int, number: int, ordinal: int, order: int, clock: Longs,
        targets: int, delivered: int, time: float, stamp: float, inexact_until: float,
        gap_until: float,
    ) -> None:  # fmt: skip
        self.source, self.number, self.ordinal, self.order = source, number, ordinal, order
        self.clock, self.targets, self.delivered = clock, targets, delivered
        self.time, self.stamp = time, stamp
        self.inexact_until, self.gap_until = inexact_until, gap_until
        self.suspected, self.is_expired = 0, False


@dataclass(slots=True)
class Suspect:
    """A delivery at a process before an undelivered copy of its causal past.

    It becomes a violation if the process delivers that copy later.
    """

    message: Message
    order: int
    """The number of sends that were processed before the delivery."""
    time: float
    """The time of the delivery."""
    is_causal: bool
    """The delivery may still violate causal order."""
    is_fifo: bool
    """The delivery may still violate FIFO order."""


@dataclass(slots=True)
class Segment:
    """Consecutive events of a process that arrived together.

    Only sends and deliveries are stored; the others count in the range of ``seq``.
    """

    first: int
    """The seq of the first event."""
    end: int
    """One more than the seq of the last event."""
    stamp: float
    """The time of the arrival."""
    seqs: list[int]
    """The seqs of the sends and deliveries."""
    events: list[ArrivedEvent]
    """The sends and deliveries."""
    position: int = 0
    """The number of events that were processed."""


class ProcessState:
    """What the verifier knows of one process."""

    __slots__ = (
        "clock",
        "copies",
        "gap_ordinal",
        "gap_until",
        "given_up",
        "id",
        "inexact_until",
        "is_queued",
        "next_seq",
        "number_expired",
        "number_max",
        "oldest",
        "own_delivered",
        "segments",
        "sends",
        "slot",
        "suspects",
    )  # fmt: skip

    def __init__(self, id: int, slot: int, capacity: int) -> None:
        self.id, self.slot = id, slot
        self.next_seq = 0
        self.sends = 0
        """The number of sends that were processed."""
        self.number_max = 0
        """The highest number that the process has sent."""
        self.number_expired = 0
        """The highest number of a message that was given up."""
        self.clock: Longs = np.zeros(capacity, np.int64)
        """By slot, the last ordinal in the past of the next send."""
        self.own_delivered = 0
        """The highest ordinal of its own messages in the past of what it delivered."""
        self.gap_ordinal = -1
        """The number of sends before the last gap in the history, -1 without a gap."""
        self.gap_until = NEVER
        self.inexact_until = NEVER
        self.segments: list[Segment] = []
        """The events that wait, in the order of seq."""
        self.given_up: list[tuple[int, int, float]] = []
        """The gaps that were given up: first seq, end, and time."""
        self.copies: dict[int, deque[Message]] = {}
        """By slot of the source, the copies to this process that may be undelivered."""
        self.oldest: Longs = np.full(capacity, NO_COPY, np.int64)
        """By slot of the source, the ordinal of the oldest undelivered copy."""
        self.suspects: deque[Suspect] = deque()
        self.is_queued = False

    def grow(self, capacity: int) -> None:
        """Make room for more slots."""
        clock, oldest = self.clock, self.oldest
        self.clock = np.zeros(capacity, np.int64)
        self.clock[: len(clock)] = clock
        self.oldest = np.full(capacity, NO_COPY, np.int64)
        self.oldest[: len(oldest)] = oldest

    def add_copy(self, message: Message) -> None:
        """Add an undelivered copy to this process."""
        queue = self.copies.get(message.source)
        if queue is None:
            self.copies[message.source] = deque((message,))
            self.oldest[message.source] = message.ordinal
        else:
            queue.append(message)

    def drop_delivered(self, source: int) -> None:
        """Remove delivered and expired copies from the front of the queue of a source."""
        queue = self.copies.get(source)
        if queue is None:
            return
        bit = 1 << self.slot
        while queue and (queue[0].is_expired or queue[0].delivered & bit):
            queue.popleft()
        if queue:
            self.oldest[source] = queue[0].ordinal
        else:
            self.oldest[source] = NO_COPY
            del self.copies[source]
