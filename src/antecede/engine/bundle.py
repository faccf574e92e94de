"""Bundles: several messages of the application that travel as one message of the protocol.

The inverse of fragments. A bundle takes the place of consecutive sends to the same target,
between which the node sent nothing else and received nothing. Its payload is::

    kind      1 byte: BUNDLE
    count     1 byte: the number of messages, at least 1
    length    LEB128; then that many bytes, for each message

The messages keep their numbers: a bundle of k messages with the number n holds the messages
n - k + 1 to n. To the protocol it is message n, and its predecessor is the last message
before the bundle.

Bundles keep causal order. No event of the process lies between the sends of a bundle: the
node hands it to the protocol before it sends to another target, and before it delivers
anything (:class:`PendingBundle`). So an event happened before the first of these sends if
and only if it happened before the last, and the same holds for the events after them. All
messages of a bundle have the same past and the same future, apart from each other, and the
target delivers them one after the other, in order. A protocol that orders its one message
causally therefore orders each message in the bundle causally.
"""

from typing import Final, final

from antecede.core.codec import Frame, PayloadFrame, write_varint
from antecede.errors import PeerError

__all__ = [
    "BUNDLE",
    "BUNDLE_MAX",
    "BundlePart",
    "PendingBundle",
    "count_messages",
    "observed_frames",
    "split",
]

BUNDLE: Final = 4
"""The kind of a bundle; :mod:`antecede.engine.fragmentation` has the others."""
BUNDLE_MAX: Final = 64
"""The maximum number of messages in a bundle."""
HEAD_BYTES: Final = 2
LENGTH_BYTES_MAX: Final = 3
"""The maximum size of the length field of a message that fits into a datagram."""


@final
class PendingBundle:
    """The latest messages, until the protocol gets them as one message.

    The owner calls :meth:`start` only while the bundle is empty, and empties it before
    anything else happens at the process.
    """

    __slots__ = ("_parts", "_room_bytes", "_room_messages", "count", "number", "target")

    target: str
    count: int
    """The number of messages in it; 0 for no bundle."""
    number: int
    """The number of its last message."""

    def __init__(self) -> None:
        self.target = ""
        self.count = 0
        self.number = 0
        self._room_bytes = 0
        self._room_messages = 0
        self._parts: list[bytes] = []

    def start(
        self, target: str, data: bytes, number: int, payload_bytes: int, messages: int
    ) -> None:
        """Begin with a message of this number; the others must fit into ``room`` bytes."""
        self.target = target
        self.number = number - 1
        self._room_bytes = payload_bytes - HEAD_BYTES
        self._room_messages = min(messages, BUNDLE_MAX)
        self._append(data)

    def append(self, target: str, data: bytes) -> int:
        """Append a message and return its number; return 0 if the bundle cannot hold it."""
        if (
            self._room_messages <= 0
            or len(data) + LENGTH_BYTES_MAX > self._room_bytes
            or target != self.target
        ):
            return 0
        self._append(data)
        return self.number

    def _append(self, data: bytes) -> None:
        size = len(data)
        parts = self._parts
        parts.append(LENGTHS[size] if size < len(LENGTHS) else _encoded(size))
        parts.append(data)
        self.count += 1
        self.number += 1
        self._room_messages -= 1
        self._room_bytes -= size + len(parts[-2])

    def pop(self) -> bytes:
        """Return the payload, and empty the bundle; it must hold two messages or more."""
        payload = HEADS[self.count] + b"".join(self._parts)
        self._clear()
        return payload

    def pop_single(self) -> bytes:
        """Return the only message, and empty the bundle."""
        data = self._parts[1]
        self._clear()
        return data

    def _clear(self) -> None:
        self._parts = []
        self.count = 0
        self._room_messages = 0


def _encoded(size: int) -> bytes:
    buffer = bytearray()
    write_varint(buffer, size)
    return bytes(buffer)


LENGTHS: Final = [_encoded(size) for size in range(1024)]
HEADS: Final = [bytes([BUNDLE, count]) for count in range(BUNDLE_MAX + 1)]


def count_messages(frame: Frame) -> int:
    """Return the number of messages of the application in a frame with a message."""
    if isinstance(frame, PayloadFrame):
        payload = frame.payload
        if len(payload) > HEAD_BYTES and payload[0] == BUNDLE:
            return payload[1]
    return 1


def split(payload: bytes, number: int) -> list[bytes]:
    """Return the messages of a bundle with this number; raise PeerError if malformed."""
    end = len(payload)
    count = payload[1] if end > 1 else 0
    position = HEAD_BYTES
    parts: list[bytes] = []
    while position < end and len(parts) < count:
        size = payload[position]
        position += 1
        if size > 0x7F:
            size &= 0x7F
            shift = 7
            byte = 0x80
            while byte > 0x7F and position < end and shift < 28:
                byte = payload[position]
                position += 1
                size |= (byte & 0x7F) << shift
                shift += 7
        start = position
        position += size
        parts.append(payload[start:position])
    if position != end or len(parts) != count or not 0 < count <= number:
        raise PeerError(
            f"invalid bundle of {count} messages up to number {number}: {end} bytes"
        )
    return parts


@final
class BundlePart(PayloadFrame):
    """One message of a bundle, for observers; the metadata belong to the first one."""

    __slots__ = ("_metadata_bytes", "_source")

    def __init__(
        self, number: int, payload: bytes, source: int, metadata_bytes: int
    ) -> None:
        super().__init__(number, payload)
        self._source = source
        self._metadata_bytes = metadata_bytes

    def metadata_size(self) -> int:
        return self._metadata_bytes

    def message_source(self) -> int:
        return self._source


def observed_frames(frame: Frame) -> list[Frame]:
    """Return the frames for observers: one frame for each message of a bundle."""
    if count_messages(frame) == 1 or not isinstance(frame, PayloadFrame):
        return [frame]
    try:
        parts = split(frame.payload, frame.number)
    except PeerError:
        return [frame]
    metadata = frame.size() - sum([len(part) for part in parts])
    number = frame.number - len(parts)
    found: list[Frame] = []
    for part in parts:
        number += 1
        found.append(BundlePart(number, part, frame.message_source(), metadata))
        metadata = 0
    return found
