"""The transfer of a snapshot from a sponsor to a newcomer, in chunks.

The sponsor announces the size and the digest, and sends a bounded number of chunks beyond
what the newcomer has confirmed. The channel is reliable and ordered, so a chunk at a wrong
offset is an error. Another sponsor makes another snapshot, so its transfer starts again.
"""

from hashlib import blake2b
from typing import Final

from antecede.errors import PeerError
from antecede.group.codec import decode_control, encode_control
from antecede.group.frames import (
    Chunk,
    ChunkAck,
    SnapshotHeader,
    SnapshotStart,
)

__all__ = ["SnapshotReceiver", "SnapshotSender", "digest_of"]

DIGEST_BYTES: Final = 16
HEADER_BYTES_MAX: Final = 16 << 20
"""The maximum size of the header of a snapshot: the members and the cut."""


def digest_of(data: bytes | bytearray) -> bytes:
    """Return the checksum of a snapshot."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class SnapshotSender:
    """The sponsor's side of one transfer."""

    __slots__ = ("_acked", "_admission", "_chunk_bytes", "_data", "_sent", "_window")

    def __init__(
        self, admission: int, header: SnapshotHeader, chunk_bytes: int, chunks_max: int
    ) -> None:
        self._admission = admission
        self._data = encode_control(header)
        self._chunk_bytes = chunk_bytes
        self._window = chunk_bytes * chunks_max
        self._sent = 0
        self._acked = 0

    def start(self) -> SnapshotStart:
        """Return the announcement."""
        return SnapshotStart(self._admission, len(self._data), digest_of(self._data))

    def acknowledge(self, received: int) -> bool:
        """Note the confirmed bytes; return whether there are more than before."""
        if received > self._sent:
            raise PeerError(f"{received} bytes confirmed, only {self._sent} were sent")
        if received <= self._acked:
            return False
        self._acked = received
        return True

    @property
    def is_done(self) -> bool:
        """Whether the newcomer has the whole snapshot."""
        return self._acked == len(self._data)

    def chunks(self) -> list[Chunk]:
        """Return the chunks to send now."""
        chunks = []
        while self._sent < len(self._data) and self._sent < self._acked + self._window:
            data = self._data[self._sent : self._sent + self._chunk_bytes]
            chunks.append(Chunk(self._admission, self._sent, data))
            self._sent += len(data)
        return chunks


class SnapshotReceiver:
    """The newcomer's side of one transfer."""

    __slots__ = ("_admission", "_data", "_digest", "_size")

    def __init__(self, start: SnapshotStart, state_bytes_max: int) -> None:
        """Begin with an announcement; raise PeerError if it exceeds the limit."""
        if start.size > state_bytes_max + HEADER_BYTES_MAX:
            raise PeerError(
                f"snapshot of {start.size} bytes: at most {state_bytes_max} are accepted"
                " (snapshot_bytes_max)"
            )
        self._admission = start.admission
        self._size = start.size
        self._digest = start.digest
        self._data = bytearray()

    def add(self, chunk: Chunk) -> ChunkAck:
        """Store a chunk and return its confirmation; raise PeerError if it does not fit."""
        if chunk.offset != len(self._data):
            raise PeerError(
                f"chunk at {chunk.offset} of a snapshot, expected {len(self._data)}"
            )
        if not chunk.data or chunk.offset + len(chunk.data) > self._size:
            raise PeerError(
                f"chunk of {len(chunk.data)} bytes at {chunk.offset} of {self._size}"
            )
        self._data += chunk.data
        return ChunkAck(self._admission, len(self._data))

    @property
    def is_complete(self) -> bool:
        """Whether all bytes are there."""
        return len(self._data) == self._size

    def snapshot(self) -> SnapshotHeader:
        """Return the snapshot; raise PeerError if its checksum is wrong."""
        if digest_of(self._data) != self._digest:
            raise PeerError("the checksum of the snapshot is wrong")
        header = decode_control(bytes(self._data))
        if not isinstance(header, SnapshotHeader):
            raise PeerError(f"a snapshot begins with {type(header).__name__}")
        return header
