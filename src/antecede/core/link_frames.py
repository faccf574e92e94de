"""The frames of the link layer.

::

    SEGMENT     number, acked [, dropped], frame   flag: `dropped` follows
    LINK_ACK    acked [, arrived]                  flag: `arrived` follows, it differs
"""

from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    FrameReader,
    Reader,
    width_of,
    write_head,
    write_number,
)

__all__ = ["LinkAck", "Segment", "read_link_frame"]

LINK_ACK: Final = 14
SEGMENT: Final = 15
"""The kinds that a protocol on the link layer must not use."""


@mypyc_attr(acyclic=True)
class Segment(Frame):
    """A frame of the protocol, with its number among all segments to the same peer."""

    __slots__ = ("acked", "dropped", "frame", "number")

    KIND: ClassVar[int] = SEGMENT

    number: int
    """The number, from 1."""
    acked: int
    """All segments of the other direction up to this number have arrived."""
    frame: Frame
    """The frame of the protocol."""
    dropped: int
    """No segment of this direction up to this number will be transmitted again; 0 if none
    was dropped. It is below the number of this segment."""

    def __init__(self, number: int, acked: int, frame: Frame, dropped: int = 0) -> None:
        self.number = number
        self.acked = acked
        self.frame = frame
        self.dropped = dropped

    def metadata_size(self) -> int:
        width = width_of(max(self.number, self.acked))
        numbers = 3 if self.dropped > 0 else 2
        return 1 + numbers * width + self.frame.metadata_size()

    def payload_size(self) -> int:
        return self.frame.payload_size()

    def message_number(self) -> int:
        return self.frame.message_number()

    def message_source(self) -> int:
        return self.frame.message_source()

    def write(self, buffer: bytearray) -> None:
        width = width_of(max(self.number, self.acked))
        write_head(buffer, SEGMENT, width, self.dropped > 0)
        write_number(buffer, self.number, width)
        write_number(buffer, self.acked, width)
        if self.dropped > 0:
            write_number(buffer, self.dropped, width)
        self.frame.write(buffer)


@mypyc_attr(acyclic=True)
class LinkAck(Frame):
    """An ack, when no segment to the peer can carry it."""

    __slots__ = ("acked", "arrived")

    KIND: ClassVar[int] = LINK_ACK

    acked: int
    """All segments up to this number have arrived."""
    arrived: int
    """The segment whose arrival caused this ack."""

    def __init__(self, acked: int, arrived: int) -> None:
        self.acked = acked
        self.arrived = arrived

    def metadata_size(self) -> int:
        if self.arrived == self.acked:
            return 1 + width_of(self.acked)
        return 1 + 2 * width_of(max(self.acked, self.arrived))

    def write(self, buffer: bytearray) -> None:
        differs = self.arrived != self.acked
        width = width_of(max(self.acked, self.arrived))
        write_head(buffer, LINK_ACK, width, differs)
        write_number(buffer, self.acked, width)
        if differs:
            write_number(buffer, self.arrived, width)


def read_link_frame(reader: Reader, read: FrameReader) -> Frame:
    """Read a frame of the link layer; ``read`` reads the frames of the protocol."""
    kind = reader.head()
    flag = reader.flag
    if kind == LINK_ACK:
        acked = reader.number()
        return LinkAck(acked, reader.number() if flag else acked)
    if kind != SEGMENT:
        raise reader.refuse()
    number = reader.number()
    acked = reader.number()
    dropped = reader.number() if flag else 0
    return Segment(number, acked, read(reader), dropped)
