"""Acknowledgements of datagrams: which packets of a peer have arrived.

DATA, BYE and BYE_ACK contain an *ack block* after their numbers::

    count     1 byte: the number of ranges, plus 128 if the sender asks for an answer, plus
              64 if the block ends with the counts of marks
    largest   8 bytes: the highest packet number that has arrived
    delay     2 bytes: the time since its arrival, in units of 16 microseconds
    length    2 bytes: how many packets up to it have arrived, without a gap
    gap, length    2 bytes each, for each further range: how many packets before the range
              above have not arrived, and how many before these have
    ect, ce   4 bytes each: how many packets have arrived with the mark ECT(0), and how many
              with the mark CE (:mod:`antecede.engine.ecn`)

The fields after the count are left out if the count is 0. A packet is acknowledged when its
frames were processed. It is not acknowledged if the node dropped one of its messages,
because the inbox or the reorder buffer is full or a name is not defined: the peer then
treats it as lost.
"""

from struct import Struct
from typing import Final

from antecede.core.process import NEVER
from antecede.core.support.interval_set import IntervalSet

__all__ = [
    "ACK_BLOCK_BYTES_MAX",
    "ACK_DELAY_MAX_S",
    "NO_ACKS",
    "RANGES_MAX",
    "RANGES_WITH_MESSAGES_MAX",
    "AckBlock",
    "AckHistory",
    "read_ack_block",
]

ACK_DELAY_MAX_S: Final = 0.01
"""How long a node holds an answer back that no frame carries."""
RANGES_MAX: Final = 32
"""The most ranges in an ack block."""
RANGES_WITH_MESSAGES_MAX: Final = 4
"""The most ranges in an ack block beside messages, which leave no more room."""
INTERVALS_MAX: Final = 64
"""How many ranges a node remembers of one peer."""
DELAY_UNIT_S: Final = 16e-6
SHORT_MAX: Final = (1 << 16) - 1
COUNT_MAX: Final = (1 << 32) - 1
ASKS: Final = 128
HAS_MARKS: Final = 64
FIRST: Final = Struct(">BQHH")
FURTHER: Final = Struct(">HH")
MARKS: Final = Struct(">II")
FIRST_BYTES: Final = 13
FURTHER_BYTES: Final = 4
MARKS_BYTES: Final = 8
"""The sizes of these structures, which compiled code reads faster than their attributes."""
ACK_BLOCK_BYTES_MAX: Final = (
    FIRST_BYTES + (RANGES_WITH_MESSAGES_MAX - 1) * FURTHER_BYTES + MARKS_BYTES
)
"""The most bytes of an ack block beside messages."""
NO_ACKS: Final = b"\x00"
"""The ack block before anything has arrived."""
NO_ACKS_ASKS: Final = bytes([ASKS])


class AckBlock:
    """The packets of this node that a peer acknowledges."""

    __slots__ = ("asks", "ce", "delay_s", "ect", "end", "largest", "ranges")

    asks: bool
    """The peer asks for an answer."""
    ce: int
    """The number of packets that have arrived with the mark CE."""
    ect: int
    """The number of packets that have arrived with the mark ECT(0)."""
    largest: int
    """The highest packet number that has arrived; 0 for none."""
    delay_s: float
    """How long the peer has held the acknowledgement of that packet back."""
    ranges: list[tuple[int, int]]
    """The first and the last packet of each range, the highest range first."""
    end: int
    """Where the frames start in the body."""

    def __init__(self, asks: bool, end: int) -> None:
        self.asks = asks
        self.ce = 0
        self.ect = 0
        self.end = end
        self.largest = 0
        self.delay_s = 0.0
        self.ranges = []

    def names_any(self, packets: list[int]) -> bool:
        """Return whether the block acknowledges one of the packets, in increasing order."""
        largest = self.largest
        lowest = self.ranges[-1][0] if self.ranges else 0
        for packet in packets:
            if lowest <= packet <= largest:
                for low, high in self.ranges:
                    if low <= packet <= high:
                        return True
        return False


def read_ack_block(body: bytes, start: int) -> AckBlock | None:
    """Read the ack block at a position of a body; return None if it is malformed."""
    size = len(body)
    if size <= start:
        return None
    first = body[start]
    count = first & (HAS_MARKS - 1)
    if count == 0:
        return AckBlock(first >= ASKS, start + 1)
    position = start + FIRST_BYTES
    ranges_end = position + (count - 1) * FURTHER_BYTES
    end = ranges_end + (MARKS_BYTES if first & HAS_MARKS else 0)
    if size < end or count > RANGES_MAX:
        return None
    largest: int
    delay: int
    length: int
    gap: int
    _, largest, delay, length = FIRST.unpack_from(body, start)
    block = AckBlock(first >= ASKS, end)
    block.largest = largest
    block.delay_s = delay * DELAY_UNIT_S
    low = largest - length + 1
    if length == 0 or low < 1:
        return None
    block.ranges.append((low, largest))
    while position < ranges_end:
        gap, length = FURTHER.unpack_from(body, position)
        high = low - gap - 1
        low = high - length + 1
        if gap == 0 or length == 0 or low < 1:
            return None
        block.ranges.append((low, high))
        position += FURTHER_BYTES
    if end > ranges_end:
        block.ect, block.ce = MARKS.unpack_from(body, ranges_end)
    return block


class AckHistory:
    """The packets of one incarnation of a peer that have arrived and were processed."""

    __slots__ = ("_arrived", "_ce", "_ect", "_largest", "_largest_at", "due")

    due: float
    """When to transmit an ack block at the latest; infinite if the peer asks for none."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget the packets: the peer has restarted."""
        self._arrived = IntervalSet()
        self._ect = 0  # The numbers of packets with each mark.
        self._ce = 0
        self._largest = 0
        self._largest_at = 0.0
        self.due = NEVER

    @property
    def largest(self) -> int:
        """The highest packet number that has arrived; 0 for none."""
        return self._largest

    def record(self, packet: int, asks: bool, now: float) -> None:
        """Acknowledge a packet in later ack blocks."""
        if packet > self._largest:
            self._largest = packet
            self._largest_at = now
        arrived = self._arrived
        arrived.add(packet)
        if len(arrived) > INTERVALS_MAX:
            arrived.discard_first()
        if asks and self.due == NEVER:
            self.due = now + ACK_DELAY_MAX_S

    def record_mark(self, is_congestion: bool) -> None:
        """Count the mark of a packet that was recorded."""
        if is_congestion:
            self._ce = min(self._ce + 1, COUNT_MAX)
        else:
            self._ect = min(self._ect + 1, COUNT_MAX)

    def forget(self, packet: int) -> None:
        """Leave out the packets up to this one: the peer knows that they have arrived."""
        self._arrived.discard_up_to(packet)

    def encode(self, now: float, asks: bool, ranges_max: int) -> bytes:
        """Return an ack block; nothing is due after its transmission."""
        self.due = NEVER
        ranges = self._arrived.last(ranges_max)
        if not ranges:
            return NO_ACKS_ASKS if asks else NO_ACKS
        low, largest = ranges[0]
        delay_s = now - self._largest_at if largest == self._largest else 0.0
        delay = min(max(int(delay_s / DELAY_UNIT_S), 0), SHORT_MAX)
        length = min(largest - low + 1, SHORT_MAX)
        first = ASKS if asks else 0
        marks = b""
        if self._ect > 0 or self._ce > 0:
            first += HAS_MARKS
            marks = MARKS.pack(self._ect, self._ce)
        if len(ranges) == 1 or length == SHORT_MAX:
            return FIRST.pack(first + 1, largest, delay, length) + marks
        further = b""
        count = 1
        for next_low, next_high in ranges[1:]:
            gap = low - next_high - 1
            length_below = next_high - next_low + 1
            if gap > SHORT_MAX or length_below > SHORT_MAX:
                break
            further += FURTHER.pack(gap, length_below)
            low = next_low
            count += 1
        return FIRST.pack(first + count, largest, delay, length) + further + marks
