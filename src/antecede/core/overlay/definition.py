"""The frame that defines a process id, and the ids in the frames of an overlay.

::

    DEFINITION    history, id (LEB128), length (LEB128), name, length (LEB128), address
                  flag: must be 0
"""

from collections.abc import Callable
from typing import ClassVar, Final

from antecede.core.codec import (
    NO_PROCESS,
    Frame,
    FrameReader,
    Reader,
    varint_width,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.overlay.spray_frames import Answer, ExchangeFrame, Forward, Offer
from antecede.core.overlay.spray_overlay import LinkNotice, read_overlay_frame
from antecede.core.process_id import ProcessId
from antecede.core.protocols.flood import RelayedMessage
from antecede.core.protocols.pc_broadcast.frames import Ping, Summary
from antecede.errors import PeerError

__all__ = ["Definition", "named_ids", "read_named_frame", "translated"]

DEFINED: Final = 7
HISTORY_BYTES: Final = 8
NAME_BYTES_MAX: Final = 255
ADDRESS_BYTES_MAX: Final = 255


class Definition(Frame):
    """What an id means in the later frames of the sender on this link."""

    __slots__ = ("address", "history", "id", "name")

    KIND: ClassVar[int] = DEFINED

    id: int
    """The id that the sender uses."""
    name: bytes
    """The name of the process, in UTF-8."""
    history: int
    address: bytes
    """The address at which the sender has reached the process; empty if unknown."""

    def __init__(self, id: int, name: bytes, history: int, address: bytes) -> None:
        self.id = id
        self.name = name
        self.history = history
        self.address = address

    def metadata_size(self) -> int:
        name, address = len(self.name), len(self.address)
        size = 1 + HISTORY_BYTES + varint_width(self.id)
        return size + varint_width(name) + name + varint_width(address) + address

    def write(self, buffer: bytearray) -> None:
        write_head(buffer, DEFINED, HISTORY_BYTES)
        write_number(buffer, self.history, HISTORY_BYTES)
        write_varint(buffer, self.id)
        write_varint(buffer, len(self.name))
        buffer += self.name
        write_varint(buffer, len(self.address))
        buffer += self.address


def read_named_frame(reader: Reader, read: FrameReader) -> Frame:
    """Read a frame of a NamedOverlay; ``read`` reads the frames of its broadcast."""
    position = reader.position
    if position < len(reader.data) and reader.data[position] >> 4 == DEFINED:
        reader.head()
        return _read_definition(reader)
    return read_overlay_frame(reader, read)


def _read_definition(reader: Reader) -> Definition:
    if reader.kind != DEFINED or reader.flag or reader.width != HISTORY_BYTES:
        raise reader.refuse()
    history = reader.number()
    id = reader.varint()  # noqa: A001 (the word for it)
    name = reader.payload()
    address = reader.payload()
    if not 0 < len(name) <= NAME_BYTES_MAX or len(address) > ADDRESS_BYTES_MAX:
        raise PeerError(
            f"invalid definition of process {id}: a name has 1 to {NAME_BYTES_MAX} bytes,"
            f" an address at most {ADDRESS_BYTES_MAX}"
        )
    return Definition(id, name, history, address)


def named_ids(frame: Frame) -> list[int]:
    """Return the process ids in a frame."""
    if isinstance(frame, RelayedMessage):
        return [frame.source]
    if isinstance(frame, Ping):
        return [frame.source, frame.target]
    if isinstance(frame, Summary):
        return list(frame.delivered)
    if isinstance(frame, ExchangeFrame):
        return list(frame.peers)
    if isinstance(frame, Forward):
        return [frame.peer]
    if isinstance(frame, LinkNotice) and frame.mediator != NO_PROCESS:
        return [frame.mediator]
    return []


def translated(frame: Frame, own: Callable[[int], ProcessId]) -> Frame:
    """Return a frame with other process ids: ``own`` returns the one for each."""
    if isinstance(frame, RelayedMessage):
        return RelayedMessage(own(frame.source), frame.number, frame.payload)
    if isinstance(frame, Ping):
        return Ping(own(frame.source), own(frame.target), frame.number, frame.mediated)
    if isinstance(frame, Summary):
        delivered = {own(source): number for source, number in frame.delivered.items()}
        return Summary(frame.number, delivered)
    if isinstance(frame, Offer):
        return Offer(frame.number, [own(peer) for peer in frame.peers])
    if isinstance(frame, Answer):
        return Answer(frame.number, [own(peer) for peer in frame.peers])
    if isinstance(frame, Forward):
        return Forward(own(frame.peer))
    if isinstance(frame, LinkNotice) and frame.mediator != NO_PROCESS:
        return LinkNotice(own(frame.mediator))
    return frame
