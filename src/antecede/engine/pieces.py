"""Pieces of a frame that is larger than a datagram.

The metadata of the protocols with a fixed membership grow with the group. A frame that does
not fit into a datagram is cut into pieces, each in a datagram of the kind PIECE::

    frame     4 bytes: numbers the frames that were cut for this peer
    index     2 bytes: the number of the piece, from 0
    count     2 bytes: the number of pieces of the frame
    bytes     the piece

The receiver acknowledges the pieces when it has processed the frame. If one of them is
lost, the whole frame is transmitted again.
"""

from struct import Struct
from typing import Final

__all__ = ["FRAME_BYTES_MAX", "PieceBuffer", "PieceWriter", "WaitingFrame"]

FRAME_BYTES_MAX: Final = 1 << 20
"""The largest frame that is cut."""
FRAMES_MAX: Final = 4
"""The maximum number of incomplete frames of a peer; beyond it, the oldest is dropped."""
PIECE: Final = Struct(">IHH")
FRAME_NUMBERS: Final = 1 << 32


class WaitingFrame:
    """The pieces of one frame that have arrived."""

    __slots__ = ("_missing", "_pieces", "packets", "size")

    packets: list[int]
    """The packet numbers of the pieces."""
    size: int
    """The bytes that have arrived."""

    def __init__(self, count: int) -> None:
        self._pieces = [b""] * count
        self._missing = count
        self.packets = []
        self.size = 0

    def add(self, index: int, piece: bytes, packet: int) -> None:
        """Add a piece, unless it has arrived before."""
        if self._pieces[index] == b"":
            self._pieces[index] = piece
            self._missing -= 1
            self.size += len(piece)
        self.packets.append(packet)

    @property
    def count(self) -> int:
        """The number of pieces of the frame."""
        return len(self._pieces)

    @property
    def frame(self) -> bytes | None:
        """The frame; None while pieces are missing."""
        return b"".join(self._pieces) if self._missing == 0 else None


class PieceBuffer:
    """The frames of one peer of which pieces are missing."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames: dict[int, WaitingFrame] = {}

    def __len__(self) -> int:
        return len(self._frames)

    def clear(self) -> None:
        """Drop all pieces."""
        self._frames.clear()

    def add(self, body: bytes, start: int, packet: int) -> WaitingFrame | None:
        """Add the piece at a position of a body; return its frame, or None if malformed.

        A complete frame is removed from the buffer.
        """
        if len(body) <= start + PIECE.size:
            return None
        number, index, count = PIECE.unpack_from(body, start)
        piece = body[start + PIECE.size :]
        waiting = self._frames.get(number)
        if waiting is None:
            waiting = WaitingFrame(count)
            if len(self._frames) >= FRAMES_MAX:
                del self._frames[next(iter(self._frames))]
            self._frames[number] = waiting
        if (
            index >= waiting.count
            or count != waiting.count
            or waiting.size + len(piece) > FRAME_BYTES_MAX
        ):
            del self._frames[number]
            return None
        waiting.add(index, piece, packet)
        if waiting.frame is not None:
            del self._frames[number]
        return waiting


class PieceWriter:
    """Cuts frames for one peer."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = 0

    def split(self, frame: bytes, room: int) -> list[bytes]:
        """Return the parts of datagrams of ``room`` bytes that contain the pieces."""
        self._frames = (self._frames + 1) % FRAME_NUMBERS
        step = room - PIECE.size
        starts = range(0, len(frame), step)
        return [
            PIECE.pack(self._frames, index, len(starts)) + frame[start : start + step]
            for index, start in enumerate(starts)
        ]
