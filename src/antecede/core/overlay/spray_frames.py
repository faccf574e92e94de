"""The frames of Spray.

::

    OFFER         number, count (LEB128), peers (LEB128)      flag: must be 0
    ANSWER        number, count (LEB128), peers (LEB128)      flag: must be 0
    SUBSCRIBE                                                 flag: must be 0
    FORWARD       peer (LEB128)                               flag: must be 0
"""

from typing import ClassVar, Final

from antecede.core.codec import (
    Frame,
    Reader,
    varint_width,
    width_of,
    write_head,
    write_number,
    write_varint,
)
from antecede.core.process import ProcessId

__all__ = [
    "Answer",
    "ExchangeFrame",
    "Forward",
    "Offer",
    "SprayFrame",
    "Subscribe",
    "read_spray",
]

OFFER: Final = 8
ANSWER: Final = 9
SUBSCRIBE: Final = 10
FORWARD: Final = 11


class SprayFrame(Frame):
    """Base class of the frames of Spray."""

    __slots__ = ()


class ExchangeFrame(SprayFrame):
    """The peers that one side of an exchange gives to the other."""

    __slots__ = ("number", "peers")

    number: int
    """The number of the exchange at the process that started it, from 1."""
    peers: list[ProcessId]
    """The peers of the arcs."""

    def __init__(self, number: int, peers: list[ProcessId]) -> None:
        self.number = number
        self.peers = peers

    def metadata_size(self) -> int:
        size = 1 + width_of(self.number) + varint_width(len(self.peers))
        for peer in self.peers:
            size += varint_width(peer)
        return size

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_head(buffer, self.kind(), width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.peers))
        for peer in self.peers:
            write_varint(buffer, peer)


class Offer(ExchangeFrame):
    """The first frame of an exchange."""

    __slots__ = ()

    KIND: ClassVar[int] = OFFER


class Answer(ExchangeFrame):
    """The second frame of an exchange."""

    __slots__ = ()

    KIND: ClassVar[int] = ANSWER


class Subscribe(SprayFrame):
    """A newcomer's request to its contact."""

    __slots__ = ()

    KIND: ClassVar[int] = SUBSCRIBE

    def metadata_size(self) -> int:
        return 1

    def write(self, buffer: bytearray) -> None:
        write_head(buffer, SUBSCRIBE, 1)


class Forward(SprayFrame):
    """A contact's notification to one of its peers about a newcomer."""

    __slots__ = ("peer",)

    KIND: ClassVar[int] = FORWARD

    peer: ProcessId
    """The newcomer."""

    def __init__(self, peer: ProcessId) -> None:
        self.peer = peer

    def metadata_size(self) -> int:
        return 1 + varint_width(self.peer)

    def write(self, buffer: bytearray) -> None:
        write_head(buffer, FORWARD, 1)
        write_varint(buffer, self.peer)


def read_spray(reader: Reader) -> Frame:
    """Read one frame of Spray."""
    kind = reader.head()
    if reader.flag or (kind in (SUBSCRIBE, FORWARD) and reader.width != 1):
        raise reader.refuse()
    if kind == SUBSCRIBE:
        return Subscribe()
    if kind == FORWARD:
        return Forward(ProcessId(reader.varint()))
    if kind != OFFER and kind != ANSWER:
        raise reader.refuse()
    number = reader.number()
    peers = [ProcessId(reader.varint()) for _ in range(reader.varint(5))]
    return Offer(number, peers) if kind == OFFER else Answer(number, peers)
