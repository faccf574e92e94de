"""The frames of hybrid buffering, and how many bytes each takes on the wire.

No field grows with the number of processes. The predecessor of a message is smaller than
the message's own number, hence the metadata of a message depends on how many messages its
sender has sent (and, for the length of the payload, on that), never on how many processes
there are or to whom the sender has spoken before.

::

    MESSAGE       number, predecessor, payload length (LEB128), payload
                  flag: the message needs no permit
    ACK           delivered [, arrived]          flag: `arrived` follows, it differs
    PERMIT        number                         flag: must be 0
    REQUEST       number                         flag: must be 0

The byte before each of these is described in :mod:`antecede.core.codec`.
"""

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

__all__ = ["Ack", "Message", "Permit", "Request", "read_frame"]

MESSAGE: Final = 1
ACK: Final = 2
PERMIT: Final = 3
REQUEST: Final = 4


@mypyc_attr(acyclic=True)
class Message(Frame):
    """A copy of an application message (MSG in the paper)."""

    __slots__ = ("number", "payload", "permitted", "predecessor")

    number: int
    """Its number among all messages of its sender, from 1 (``mid``)."""
    predecessor: int
    """The number of the sender's message before it to this target, 0 if none (``pid``)."""
    permitted: bool
    """It needs no permit; it is itself one, for every number up to its own."""
    payload: bytes
    """The application's bytes."""

    def __init__(
        self, number: int, predecessor: int, permitted: bool, payload: bytes
    ) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.predecessor = predecessor
        self.permitted = permitted
        self.payload = payload

    def __repr__(self) -> str:
        """Show the fields, with the payload by its length."""
        flag = " permitted" if self.permitted else ""
        return (
            f"Message({self.number} after {self.predecessor}{flag}, {len(self.payload)} B)"
        )

    def kind(self) -> int:
        """Return the number of this kind."""
        return MESSAGE

    def metadata_size(self) -> int:
        """Count the bytes around the payload."""
        return 1 + 2 * width_of(self.number) + varint_width(len(self.payload))

    def payload_size(self) -> int:
        """Count the application's bytes."""
        return len(self.payload)

    def message_number(self) -> int:
        """Return the number of the message."""
        return self.number

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(self.number)
        write_head(buffer, MESSAGE, width, self.permitted)
        write_number(buffer, self.number, width)
        write_number(buffer, self.predecessor, width)
        write_varint(buffer, len(self.payload))
        buffer += self.payload


@mypyc_attr(acyclic=True)
class Ack(Frame):
    """What the receiver has delivered of the sender's messages, cumulatively."""

    __slots__ = ("arrived", "delivered")

    delivered: int
    """Every message of the pair up to this number is delivered; 0 if none is."""
    arrived: int
    """The message whose arrival caused this ack: it need not be transmitted again."""

    def __init__(self, delivered: int, arrived: int) -> None:
        """Make the frame; the fields are documented on the class."""
        self.delivered = delivered
        self.arrived = arrived

    def __repr__(self) -> str:
        """Show the fields."""
        return f"Ack({self.delivered}, arrived {self.arrived})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return ACK

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        if self.arrived == self.delivered:
            return 1 + width_of(self.delivered)
        return 1 + 2 * width_of(max(self.delivered, self.arrived))

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        differs = self.arrived != self.delivered
        width = width_of(max(self.delivered, self.arrived))
        write_head(buffer, ACK, width, differs)
        write_number(buffer, self.delivered, width)
        if differs:
            write_number(buffer, self.arrived, width)


@mypyc_attr(acyclic=True)
class Permit(Frame):
    """The sender's word that the receiver's sends need not wait for its messages.

    Every message of the sender numbered up to ``number`` has been delivered by all its
    targets other than the receiver of this permit.
    """

    __slots__ = ("number",)

    number: int
    """The highest number that the permit covers."""

    def __init__(self, number: int) -> None:
        """Make the frame; the field is documented on the class."""
        self.number = number

    def __repr__(self) -> str:
        """Show the field."""
        return f"Permit({self.number})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return PERMIT

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1 + width_of(self.number)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        _write_single(buffer, PERMIT, self.number)


@mypyc_attr(acyclic=True)
class Request(Frame):
    """The receiver's question for a permit that may have been lost."""

    __slots__ = ("number",)

    number: int
    """The lowest delivered message of the pair whose permit is missing."""

    def __init__(self, number: int) -> None:
        """Make the frame; the field is documented on the class."""
        self.number = number

    def __repr__(self) -> str:
        """Show the field."""
        return f"Request({self.number})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return REQUEST

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1 + width_of(self.number)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        _write_single(buffer, REQUEST, self.number)


def read_frame(reader: Reader) -> Frame:
    """Read one frame of hybrid buffering."""
    kind = reader.head()
    flag = reader.flag
    if kind == MESSAGE:
        number = reader.number()
        predecessor = reader.number()
        return Message(number, predecessor, flag, reader.payload())
    if kind == ACK:
        delivered = reader.number()
        return Ack(delivered, reader.number() if flag else delivered)
    if flag or kind not in (PERMIT, REQUEST):
        raise reader.refuse()
    number = reader.number()
    return Permit(number) if kind == PERMIT else Request(number)


def _write_single(buffer: bytearray, kind: int, number: int) -> None:
    width = width_of(number)
    write_head(buffer, kind, width)
    write_number(buffer, number, width)
