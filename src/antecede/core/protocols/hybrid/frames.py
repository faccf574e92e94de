"""The frames of hybrid buffering and their encodings.

No field grows with the number of processes: the predecessor of a message is smaller than
the number of the message, so its metadata depends only on the number of messages that its
sender has sent and on the length of the payload.

::

    MESSAGE       number, predecessor, payload length (LEB128), payload
                  flag: the message needs no permit
    ACK           delivered [, arrived]          flag: `arrived` follows, it differs
    PERMIT        number                         flag: must be 0
    REQUEST       number                         flag: must be 0

:mod:`antecede.core.codec` describes the byte before each of these.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.codec import (
    Frame,
    PayloadFrame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_pair,
    write_varint,
)

__all__ = ["Ack", "MessageFrame", "Permit", "PermitRequest", "read_frame", "read_kind"]

MESSAGE: Final = 1
ACK: Final = 2
PERMIT: Final = 3
REQUEST: Final = 4


@mypyc_attr(acyclic=True)
class MessageFrame(PayloadFrame):
    """A copy of an application message (MSG in the paper; its number is ``mid``)."""

    __slots__ = ("permitted", "predecessor")

    # The frames of this module override kind(), which is faster than KIND.

    predecessor: int
    """The number of the sender's previous message to this target, 0 if none (``pid``)."""
    permitted: bool
    """The message needs no permit; it is itself a permit for every number up to its own."""

    def __init__(
        self, number: int, predecessor: int, permitted: bool, payload: bytes
    ) -> None:
        super().__init__(number, payload)
        self.predecessor = predecessor
        self.permitted = permitted

    def kind(self) -> int:
        return MESSAGE

    def metadata_size(self) -> int:
        return 1 + 2 * width_of(self.number) + varint_width(len(self.payload))

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_pair(buffer, MESSAGE, width, self.permitted, self.number, self.predecessor)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


@mypyc_attr(acyclic=True)
class Ack(Frame):
    """A cumulative ack: the messages of the sender that the receiver has delivered."""

    __slots__ = ("arrived", "delivered")

    delivered: int
    """Every message of the channel up to this number is delivered; 0 if none."""
    arrived: int
    """The message whose arrival caused this ack; it need not be retransmitted."""

    def __init__(self, delivered: int, arrived: int) -> None:
        self.delivered = delivered
        self.arrived = arrived

    def kind(self) -> int:
        return ACK

    def metadata_size(self) -> int:
        if self.arrived == self.delivered:
            return 1 + width_of(self.delivered)
        return 1 + 2 * width_of(max(self.delivered, self.arrived))

    def write(self, buffer: bytearray) -> None:
        differs = self.arrived != self.delivered
        width = width_of(max(self.delivered, self.arrived))
        write_head(buffer, ACK, width, differs)
        write_number(buffer, self.delivered, width)
        if differs:
            write_number(buffer, self.arrived, width)


@mypyc_attr(acyclic=True)
class Permit(Frame):
    """Tells the receiver that its sends need not wait for messages of the sender.

    Every message of the sender numbered up to ``number`` has been delivered by all its
    targets other than the receiver of this permit.
    """

    __slots__ = ("number",)

    number: int
    """The highest number that the permit covers."""

    def __init__(self, number: int) -> None:
        self.number = number

    def kind(self) -> int:
        return PERMIT

    def metadata_size(self) -> int:
        return 1 + width_of(self.number)

    def write(self, buffer: bytearray) -> None:
        _write_single(buffer, PERMIT, self.number)


@mypyc_attr(acyclic=True)
class PermitRequest(Frame):
    """Asks the sender of a message for a permit that may have been lost."""

    __slots__ = ("number",)

    number: int
    """The lowest number of a delivered message of the channel whose permit is missing."""

    def __init__(self, number: int) -> None:
        self.number = number

    def kind(self) -> int:
        return REQUEST

    def metadata_size(self) -> int:
        return 1 + width_of(self.number)

    def write(self, buffer: bytearray) -> None:
        _write_single(buffer, REQUEST, self.number)


def read_frame(reader: Reader) -> Frame:
    """Read one frame of ``hybrid`` or ``hybrid-basic``."""
    return read_kind(reader, reader.head())


def read_kind(reader: Reader, kind: int) -> Frame:
    """Read the rest of a frame after its first byte."""
    flag = reader.flag
    if kind == MESSAGE:
        number = reader.number()
        predecessor = reader.number()
        return MessageFrame(number, predecessor, flag, reader.payload())
    if kind == ACK:
        delivered = reader.number()
        return Ack(delivered, reader.number() if flag else delivered)
    if flag or kind not in (PERMIT, REQUEST):
        raise reader.refuse()
    number = reader.number()
    return Permit(number) if kind == PERMIT else PermitRequest(number)


def _write_single(buffer: bytearray, kind: int, number: int) -> None:
    width = width_of(number)
    write_head(buffer, kind, width)
    write_number(buffer, number, width)
