"""The control frames of ``pc-broadcast``; its messages are those of ``flood``.

::

    MESSAGE       as in flood
    PING          number, source (LEB128), target (LEB128)    flag: through a mediator
    PONG          number                                      flag: must be 0
    NEWCOMER                                                  flag: must be 0
    WELCOME                                                   flag: must be 0
    SUMMARY       number, count (LEB128), source and number of each (LEB128)
                                                              flag: must be 0
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
from antecede.core.protocols.flood import read_relayed_message
from antecede.errors import PeerError

__all__ = ["Newcomer", "Ping", "Pong", "Summary", "Welcome", "read_pc_broadcast"]

PING: Final = 2
PONG: Final = 3
NEWCOMER: Final = 4
SUMMARY: Final = 5
WELCOME: Final = 6


class Ping(Frame):
    """A request that travels over safe links, behind the messages before it."""

    __slots__ = ("mediated", "number", "source", "target")

    KIND: ClassVar[int] = PING

    source: ProcessId
    target: ProcessId
    number: int
    """The number among all pings and summaries of its source, from 1."""
    mediated: bool
    """Whether it goes to one mediator, which may only transmit it to the target."""

    def __init__(
        self, source: ProcessId, target: ProcessId, number: int, mediated: bool
    ) -> None:
        self.source = source
        self.target = target
        self.number = number
        self.mediated = mediated

    def metadata_size(self) -> int:
        return (
            1
            + width_of(self.number)
            + varint_width(self.source)
            + varint_width(self.target)
        )

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_head(buffer, PING, width, self.mediated)
        write_number(buffer, self.number, width)
        write_varint(buffer, self.source)
        write_varint(buffer, self.target)


class Pong(Frame):
    """The answer to a ping or a summary, directly to its source."""

    __slots__ = ("number",)

    KIND: ClassVar[int] = PONG

    number: int
    """The number of the ping or summary."""

    def __init__(self, number: int) -> None:
        self.number = number

    def metadata_size(self) -> int:
        return 1 + width_of(self.number)

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_head(buffer, PONG, width)
        write_number(buffer, self.number, width)


class Newcomer(Frame):
    """The notice that its sender has no history and asks for a summary."""

    __slots__ = ()

    KIND: ClassVar[int] = NEWCOMER

    def metadata_size(self) -> int:
        return 1

    def write(self, buffer: bytearray) -> None:
        write_head(buffer, NEWCOMER, 1)


class Welcome(Frame):
    """The notice to a newcomer that the link from the sender to it is safe."""

    __slots__ = ()

    KIND: ClassVar[int] = WELCOME

    def metadata_size(self) -> int:
        return 1

    def write(self, buffer: bytearray) -> None:
        write_head(buffer, WELCOME, 1)


class Summary(Frame):
    """The messages that its sender has delivered."""

    __slots__ = ("delivered", "number")

    KIND: ClassVar[int] = SUMMARY

    number: int
    """The number among all pings and summaries of its sender, from 1."""
    delivered: dict[ProcessId, int]
    """For each source, the highest number delivered."""

    def __init__(self, number: int, delivered: dict[ProcessId, int]) -> None:
        self.number = number
        self.delivered = delivered

    def metadata_size(self) -> int:
        size = 1 + width_of(self.number) + varint_width(len(self.delivered))
        for source, number in self.delivered.items():
            size += varint_width(source) + varint_width(number)
        return size

    def write(self, buffer: bytearray) -> None:
        width = width_of(self.number)
        write_head(buffer, SUMMARY, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.delivered))
        for source, number in self.delivered.items():
            write_varint(buffer, source)
            write_varint(buffer, number)


def read_pc_broadcast(reader: Reader) -> Frame:
    """Read one frame of this protocol."""
    kind = reader.head()
    if kind == PING:
        mediated = reader.flag
        number = reader.number()
        source = ProcessId(reader.varint())
        return Ping(source, ProcessId(reader.varint()), number, mediated)
    if reader.flag:
        raise reader.refuse()
    if kind == PONG:
        return Pong(reader.number())
    if kind in (NEWCOMER, WELCOME):
        if reader.width != 1:
            raise PeerError(f"invalid width {reader.width} of a frame of kind {kind}")
        return Newcomer() if kind == NEWCOMER else Welcome()
    if kind == SUMMARY:
        number = reader.number()
        delivered: dict[ProcessId, int] = {}
        for _ in range(reader.varint(5)):
            source = ProcessId(reader.varint())
            delivered[source] = reader.varint()
        return Summary(number, delivered)
    return read_relayed_message(reader)
