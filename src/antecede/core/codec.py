"""The encoding of frames: the parts that all protocols share.

A frame contains neither its sender nor its receiver: the driver knows both. The first byte
holds the kind of the frame (each protocol has its own set of kinds) and a width: each
plain number of the frame takes as many bytes as the *largest* one needs. Lengths, and the
entries of vectors and matrices, are variable-length numbers (LEB128: seven bits per byte).

::

    byte 0        kind (high nibble) · width - 1 (3 bits) · flag (lowest bit)

A datagram is one version byte followed by frames, back to back (`encode`, `decode`).
"""

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from antecede.core.support.attributes import listed_attributes
from antecede.errors import PeerError

__all__ = [
    "NO_PROCESS",
    "NUMBER_MAX",
    "VERSION",
    "Frame",
    "FrameReader",
    "HeadFrame",
    "PayloadFrame",
    "Reader",
    "decode",
    "encode",
    "varint_width",
    "width_of",
    "write_head",
    "write_number",
    "write_pair",
    "write_varint",
]

VERSION: Final = 1
"""The version of this encoding: the first byte of every datagram."""

NUMBER_MAX: Final = 2**63 - 1
"""The largest message number: 292 years of one message per nanosecond."""

NO_PROCESS: Final = -1
"""The id of no process."""


@mypyc_attr(acyclic=True)
class Frame:
    """The unit that one process transmits to another."""

    __slots__ = ()

    KIND: ClassVar[int] = 0
    """The kind in the first byte, from 1 to 15."""

    def __repr__(self) -> str:
        names = {
            name for cls in type(self).__mro__ for name in listed_attributes(cls) or ()
        }
        fields = [f"{name}={_short(getattr(self, name))}" for name in sorted(names)]
        return f"{type(self).__name__}({', '.join(fields)})"

    def kind(self) -> int:
        """Return the kind in the first byte of the encoding, from 1 to 15."""
        kind = self.KIND
        if kind == 0:
            raise TypeError("Frame itself has no encoding")
        return kind

    def metadata_size(self) -> int:
        """Return the size in bytes without the payload."""
        raise TypeError("Frame itself has no encoding")

    def payload_size(self) -> int:
        """Return the size of the payload in bytes."""
        return 0

    def message_number(self) -> int:
        """Return the number of the application message in this frame, or 0 without one."""
        return 0

    def message_source(self) -> int:
        """Return the source of that message, or NO_PROCESS if it transmits the frame."""
        return NO_PROCESS

    def size(self) -> int:
        """Return the size of the encoding in bytes."""
        return self.metadata_size() + self.payload_size()

    def write(self, buffer: bytearray) -> None:
        """Append the encoding to ``buffer``."""
        raise TypeError("Frame itself has no encoding")


def _short(value: object) -> object:
    return f"{len(value)} B" if isinstance(value, bytes) else value


@mypyc_attr(acyclic=True)
class PayloadFrame(Frame):
    """A frame that carries an application message."""

    __slots__ = ("number", "payload")

    number: int
    """The number of the message among all messages of its source, from 1."""
    payload: bytes

    def __init__(self, number: int, payload: bytes) -> None:
        self.number = number
        self.payload = payload

    def payload_size(self) -> int:
        return len(self.payload)

    def message_number(self) -> int:
        return self.number


@mypyc_attr(acyclic=True)
class HeadFrame(Frame):
    """A frame that consists of its first byte."""

    __slots__ = ()

    def metadata_size(self) -> int:
        return 1

    def write(self, buffer: bytearray) -> None:
        write_head(buffer, self.KIND, 1)


class Reader:
    """A read position in a datagram; it never passes the end."""

    __slots__ = ("data", "flag", "kind", "position", "width")

    kind: int
    """The kind of the current frame."""
    width: int
    """The size in bytes of each plain number in it."""
    flag: bool
    """The lowest bit of its first byte."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.kind = 0
        self.width = 1
        self.flag = False

    def head(self) -> int:
        """Read the first byte of a frame, set ``width`` and ``flag``, return the kind."""
        head = self._byte()
        self.kind = head >> 4
        self.width = (head >> 1 & 7) + 1
        self.flag = bool(head & 1)
        return self.kind

    def take(self, count: int) -> bytes:
        """Read ``count`` bytes; raise PeerError if there are fewer."""
        start = self.position
        if count > len(self.data) - start:
            raise self._cut_short(count)
        self.position = start + count
        return self.data[start : start + count]

    def _byte(self) -> int:
        """Read one byte; raise PeerError if there is none."""
        start = self.position
        if start >= len(self.data):
            raise self._cut_short(1)
        self.position = start + 1
        return self.data[start]

    def _cut_short(self, count: int) -> PeerError:
        return PeerError(
            f"datagram cut short: {count} more bytes expected at {self.position}"
        )

    def number(self) -> int:
        """Read a plain number."""
        data = self.data
        start = self.position
        end = start + self.width
        if end > len(data):
            raise self._cut_short(self.width)
        number = 0
        for index in range(start, end):  # Compiled, this is faster than int.from_bytes.
            number = number << 8 | data[index]
        self.position = end
        if number > NUMBER_MAX:
            raise PeerError(f"number {number} out of range: at most {NUMBER_MAX}")
        return number

    def varint(self, bytes_max: int = 9) -> int:
        """Read a variable-length number of at most ``bytes_max`` bytes."""
        value = 0
        shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift == 7 * bytes_max:
                raise PeerError(
                    f"variable-length number out of range: more than {bytes_max} bytes"
                )

    def payload(self) -> bytes:
        """Read a length and that many bytes."""
        return self.take(self.varint(5))

    def refuse(self) -> PeerError:
        """Return the error for a head that the protocol does not define."""
        flag = " with its flag set" if self.flag else ""
        return PeerError(f"unknown frame of kind {self.kind}{flag}")


FrameReader = Callable[[Reader], Frame]
"""Reads one frame of a protocol from the current position."""


def encode(frames: Iterable[Frame]) -> bytes:
    """Encode ``frames`` as one datagram."""
    buffer = bytearray()
    buffer.append(VERSION)
    for frame in frames:
        frame.write(buffer)
    return bytes(buffer)


def decode(received: bytes | bytearray | memoryview, read: FrameReader) -> list[Frame]:
    """Decode a datagram; raise PeerError with the reason if it is invalid.

    ``read`` is that of the protocol's :class:`antecede.core.registry.ProtocolInfo`.
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
    """Return the bytes that ``number`` needs as a plain number: 1 to 8."""
    if number < 0x100:
        return 1
    if number < 0x10000:
        return 2
    if number < 0x1000000:
        return 3
    return (number.bit_length() + 7) // 8


def varint_width(value: int) -> int:
    """Return the bytes that ``value`` needs as a variable-length number."""
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


def write_pair(
    buffer: bytearray, kind: int, width: int, flag: bool, first: int, second: int
) -> None:
    """Append the first byte of a frame and two plain numbers of at most ``width`` bytes.

    One call of ``to_bytes`` takes less time than three appends.
    """
    head = kind << 4 | (width - 1) << 1 | (1 if flag else 0)
    numbers = first << 8 * width | second
    buffer += (head << 16 * width | numbers).to_bytes(1 + 2 * width, "big")


def write_varint(buffer: bytearray, value: int) -> None:
    """Append a variable-length number."""
    while value > 0x7F:
        buffer.append(value & 0x7F | 0x80)
        value >>= 7
    buffer.append(value)
