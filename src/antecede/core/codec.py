"""How frames become bytes: what every protocol's frames share.

A frame names neither its sender nor its receiver: whoever carries it knows both. Its
first byte holds its kind, of which each protocol has its own set, and a width: every
plain number of the frame is written in as many bytes as the frame's *largest* one needs.
Lengths, and the entries of vectors and matrices, are variable-length numbers of their own
(LEB128: seven bits to a byte).

::

    byte 0        kind (high nibble) · width - 1 (3 bits) · flag (lowest bit)

A datagram is one version byte followed by frames, back to back (`encode`, `decode`).
"""

from collections.abc import Callable, Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.errors import PeerError

__all__ = [
    "NUMBER_MAX",
    "VERSION",
    "Frame",
    "FrameReader",
    "Reader",
    "decode",
    "encode",
    "varint_width",
    "width_of",
    "write_head",
    "write_number",
    "write_varint",
]

VERSION: Final = 1
"""The version of this encoding: the first byte of every datagram."""

NUMBER_MAX: Final = 2**63 - 1
"""The largest message number: 292 years of a message every nanosecond."""

ITSELF: Final = -1
"""Stands for whoever transmits the frame."""


@mypyc_attr(acyclic=True)
class Frame:
    """What one process hands the network for another."""

    __slots__ = ()

    def kind(self) -> int:
        """Return the number that the encoding gives this kind of frame, 1 to 15."""
        raise TypeError("a bare Frame has no encoding")

    def metadata_size(self) -> int:
        """Count the bytes this frame adds to the payload it carries, if any."""
        raise TypeError("a bare Frame has no encoding")

    def payload_size(self) -> int:
        """Count the application's bytes in this frame."""
        return 0

    def message_number(self) -> int:
        """Return the number of the application message in this frame, 0 if none is."""
        return 0

    def message_source(self) -> int:
        """Return who sent that message, or -1 if it is whoever transmits the frame."""
        return ITSELF

    def size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return self.metadata_size() + self.payload_size()

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        raise TypeError("a bare Frame has no encoding")


class Reader:
    """A position in a datagram that never passes its end."""

    __slots__ = ("data", "flag", "kind", "position", "width")

    kind: int
    """The kind of the frame that is being read."""
    width: int
    """The bytes of each of its plain numbers."""
    flag: bool
    """The lowest bit of its first byte."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        """Start reading at ``position``."""
        self.data = data
        self.position = position
        self.kind = 0
        self.width = 1
        self.flag = False

    def head(self) -> int:
        """Read the first byte of a frame and return its kind; the rest is in fields."""
        head = self.take(1)[0]
        self.kind = head >> 4
        self.width = (head >> 1 & 7) + 1
        self.flag = bool(head & 1)
        return self.kind

    def take(self, count: int) -> bytes:
        """Read so many bytes, or raise PeerError if there are fewer."""
        start = self.position
        if count > len(self.data) - start:
            raise PeerError(f"datagram cut short: {count} more bytes at {start} promised")
        self.position = start + count
        return self.data[start : start + count]

    def number(self) -> int:
        """Read a plain number."""
        number = int.from_bytes(self.take(self.width), "big")
        if number > NUMBER_MAX:
            raise PeerError(f"number {number} out of range")
        return number

    def varint(self, bytes_max: int = 9) -> int:
        """Read a variable-length number."""
        value = 0
        shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift == 7 * bytes_max:
                raise PeerError("variable-length number out of range")

    def payload(self) -> bytes:
        """Read a length, and so many bytes."""
        return self.take(self.varint(5))

    def refuse(self) -> PeerError:
        """Return the error to raise at a head that the protocol does not know."""
        flag = " with its flag set" if self.flag else ""
        return PeerError(f"unknown frame of kind {self.kind}{flag}")


FrameReader = Callable[[Reader], Frame]
"""Reads one frame of a protocol; call it where a frame begins."""


def encode(frames: Iterable[Frame]) -> bytes:
    """Encode ``frames`` as one datagram."""
    buffer = bytearray()
    buffer.append(VERSION)
    for frame in frames:
        frame.write(buffer)
    return bytes(buffer)


def decode(received: bytes | bytearray | memoryview, read: FrameReader) -> list[Frame]:
    """Decode a datagram, or raise PeerError, which says what is wrong with it.

    ``read`` is the protocol's, from :class:`antecede.core.registry.ProtocolInfo`.
    """
    datagram = bytes(received)
    if not datagram:
        raise PeerError("empty datagram")
    if datagram[0] != VERSION:
        raise PeerError(f"datagram of version {datagram[0]}, expected {VERSION}")
    frames: list[Frame] = []
    reader = Reader(datagram, 1)
    while reader.position < len(datagram):
        frames.append(read(reader))
    return frames


def width_of(number: int) -> int:
    """Count the bytes that ``number`` needs: one to eight."""
    if number < 0x100:
        return 1
    if number < 0x10000:
        return 2
    if number < 0x1000000:
        return 3
    return (number.bit_length() + 7) // 8


def varint_width(value: int) -> int:
    """Count the bytes that ``value`` takes as a variable-length number."""
    if value < 0x80:
        return 1
    if value < 0x4000:
        return 2
    return (value.bit_length() + 6) // 7


def write_head(buffer: bytearray, kind: int, width: int, flag: bool = False) -> None:
    """Append the first byte of a frame."""
    buffer.append(kind << 4 | (width - 1) << 1 | (1 if flag else 0))


def write_number(buffer: bytearray, number: int, width: int) -> None:
    """Append a plain number."""
    buffer += number.to_bytes(width, "big")


def write_varint(buffer: bytearray, value: int) -> None:
    """Append a variable-length number."""
    while value > 0x7F:
        buffer.append(value & 0x7F | 0x80)
        value >>= 7
    buffer.append(value)
