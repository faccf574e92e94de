"""The frames that processes exchange, and how many bytes each takes on the wire.

A frame names neither its sender nor its receiver: whoever carries it knows both, and so
no field grows with the number of processes. Every number is written in as many bytes as
the frame's *largest* number needs, a width that the first byte states. The predecessor of
a message is smaller than the message's own number, hence the metadata of a message
depends on how many messages its sender has sent (and, for the length of the payload, on
that), never on how many processes there are or to whom the sender has spoken before.

::

    byte 0        kind (high nibble) · width - 1 (3 bits) · flag (lowest bit)
    MESSAGE       number, predecessor (width bytes each), payload length (LEB128), payload
                  flag: the message needs no permit
    ACK           delivered [, arrived]          flag: `arrived` follows, it differs
    PERMIT        number                         flag: must be 0
    REQUEST       number                         flag: must be 0

A datagram is one version byte followed by frames, back to back (`encode`, `decode`).
"""

from collections.abc import Iterable
from typing import Final

from antecede.errors import PeerError

__all__ = [
    "NUMBER_MAX",
    "VERSION",
    "Ack",
    "Frame",
    "Message",
    "Permit",
    "Request",
    "decode",
    "encode",
]

VERSION: Final = 1
"""The version of this encoding: the first byte of every datagram."""

NUMBER_MAX: Final = 2**63 - 1
"""The largest message number: 292 years of a message every nanosecond."""

MESSAGE: Final = 1
ACK: Final = 2
PERMIT: Final = 3
REQUEST: Final = 4


class Frame:
    """What one process hands the network for another."""

    __slots__ = ()

    def kind(self) -> int:
        """Return the number that the encoding gives this kind of frame."""
        raise TypeError("a bare Frame has no encoding")

    def metadata_size(self) -> int:
        """Count the bytes this frame adds to the payload it carries, if any."""
        raise TypeError("a bare Frame has no encoding")

    def size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return self.metadata_size()

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        raise TypeError("a bare Frame has no encoding")


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
        return 1 + 2 * _width(self.number) + _length_width(len(self.payload))

    def size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return self.metadata_size() + len(self.payload)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = _width(self.number)
        buffer.append(_head(MESSAGE, width, self.permitted))
        buffer += self.number.to_bytes(width, "big")
        buffer += self.predecessor.to_bytes(width, "big")
        length = len(self.payload)
        while length > 0x7F:
            buffer.append(length & 0x7F | 0x80)
            length >>= 7
        buffer.append(length)
        buffer += self.payload


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
            return 1 + _width(self.delivered)
        return 1 + 2 * _width(max(self.delivered, self.arrived))

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        differs = self.arrived != self.delivered
        width = _width(max(self.delivered, self.arrived))
        buffer.append(_head(ACK, width, differs))
        buffer += self.delivered.to_bytes(width, "big")
        if differs:
            buffer += self.arrived.to_bytes(width, "big")


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
        return 1 + _width(self.number)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        _write_number(buffer, PERMIT, self.number)


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
        return 1 + _width(self.number)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        _write_number(buffer, REQUEST, self.number)


def encode(frames: Iterable[Frame]) -> bytes:
    """Encode ``frames`` as one datagram."""
    buffer = bytearray()
    buffer.append(VERSION)
    for frame in frames:
        frame.write(buffer)
    return bytes(buffer)


def decode(received: bytes | bytearray | memoryview) -> list[Frame]:
    """Decode a datagram, or raise PeerError, which says what is wrong with it."""
    datagram = bytes(received)
    if not datagram:
        raise PeerError("empty datagram")
    if datagram[0] != VERSION:
        raise PeerError(f"datagram of version {datagram[0]}, expected {VERSION}")
    frames: list[Frame] = []
    reader = _Reader(datagram)
    while reader.position < len(datagram):
        frames.append(_read_frame(reader))
    return frames


class _Reader:
    """A position in a datagram that never passes its end."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 1

    def take(self, count: int) -> bytes:
        start = self.position
        if count > len(self.data) - start:
            raise PeerError(f"datagram cut short: {count} more bytes at {start} promised")
        self.position = start + count
        return self.data[start : start + count]

    def number(self, width: int) -> int:
        number = int.from_bytes(self.take(width), "big")
        if number > NUMBER_MAX:
            raise PeerError(f"number {number} out of range")
        return number

    def length(self) -> int:
        length = 0
        shift = 0
        while True:
            byte = self.take(1)[0]
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                return length
            shift += 7
            if shift > 28:
                raise PeerError("payload length out of range")


def _read_frame(reader: _Reader) -> Frame:
    head = reader.take(1)[0]
    kind = head >> 4
    width = (head >> 1 & 7) + 1
    flag = bool(head & 1)
    if kind == MESSAGE:
        number = reader.number(width)
        predecessor = reader.number(width)
        return Message(number, predecessor, flag, reader.take(reader.length()))
    if kind == ACK:
        delivered = reader.number(width)
        return Ack(delivered, reader.number(width) if flag else delivered)
    if flag or kind not in (PERMIT, REQUEST):
        raise PeerError(f"unknown frame head 0x{head:02x}")
    number = reader.number(width)
    return Permit(number) if kind == PERMIT else Request(number)


def _width(number: int) -> int:
    """Count the bytes that ``number`` needs: one to eight."""
    if number < 0x100:
        return 1
    if number < 0x10000:
        return 2
    if number < 0x1000000:
        return 3
    return (number.bit_length() + 7) // 8


def _length_width(length: int) -> int:
    return 1 if length < 0x80 else (length.bit_length() + 6) // 7


def _head(kind: int, width: int, flag: bool) -> int:
    return kind << 4 | (width - 1) << 1 | (1 if flag else 0)


def _write_number(buffer: bytearray, kind: int, number: int) -> None:
    width = _width(number)
    buffer.append(_head(kind, width, False))
    buffer += number.to_bytes(width, "big")
