"""The frames of ``preventive`` beside its messages, which are those of ``flood``.

::

    MESSAGE       as in flood
    PING          number, source (LEB128), target (LEB128)    flag: through a mediator
    PONG          number                                      flag: must be 0
    NEWCOMER                                                  flag: must be 0
    WELCOME                                                   flag: must be 0
    SUMMARY       number, count (LEB128), source and number of each (LEB128)
                                                              flag: must be 0
"""

from typing import Final

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

__all__ = ["Newcomer", "Ping", "Pong", "Summary", "Welcome", "read_preventive"]

PING: Final = 2
PONG: Final = 3
NEWCOMER: Final = 4
SUMMARY: Final = 5
WELCOME: Final = 6


class Ping(Frame):
    """A question on its way over safe links: has the target all that is before me?"""

    __slots__ = ("mediated", "number", "source", "target")

    source: ProcessId
    """Who asks."""
    target: ProcessId
    """Who is asked."""
    number: int
    """Its place among all pings and summaries of its source, from 1."""
    mediated: bool
    """It goes to one mediator, and from there to the target or nowhere."""

    def __init__(
        self, source: ProcessId, target: ProcessId, number: int, mediated: bool
    ) -> None:
        """Make the frame; the fields are documented on the class."""
        self.source = source
        self.target = target
        self.number = number
        self.mediated = mediated

    def __repr__(self) -> str:
        """Show the fields."""
        how = ", mediated" * self.mediated
        return f"Ping({self.source} to {self.target}, {self.number}{how})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return PING

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return (
            1
            + width_of(self.number)
            + varint_width(self.source)
            + varint_width(self.target)
        )

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(self.number)
        write_head(buffer, PING, width, self.mediated)
        write_number(buffer, self.number, width)
        write_varint(buffer, self.source)
        write_varint(buffer, self.target)


class Pong(Frame):
    """The answer to a ping or a summary, straight to who asked."""

    __slots__ = ("number",)

    number: int
    """The number of what it answers."""

    def __init__(self, number: int) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number

    def __repr__(self) -> str:
        """Show the fields."""
        return f"Pong({self.number})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return PONG

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1 + width_of(self.number)

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(self.number)
        write_head(buffer, PONG, width)
        write_number(buffer, self.number, width)


class Newcomer(Frame):
    """Who transmits this has no history yet and asks to be welcomed."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show what it is."""
        return "Newcomer()"

    def kind(self) -> int:
        """Return the number of this kind."""
        return NEWCOMER

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, NEWCOMER, 1)


class Welcome(Frame):
    """The link from who transmits this to the newcomer is safe now."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show what it is."""
        return "Welcome()"

    def kind(self) -> int:
        """Return the number of this kind."""
        return WELCOME

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        return 1

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        write_head(buffer, WELCOME, 1)


class Summary(Frame):
    """All that its sender had delivered when it was transmitted."""

    __slots__ = ("delivered", "number")

    number: int
    """Its place among all pings and summaries of its sender, from 1."""
    delivered: dict[ProcessId, int]
    """For each source, the highest number delivered."""

    def __init__(self, number: int, delivered: dict[ProcessId, int]) -> None:
        """Make the frame; the fields are documented on the class."""
        self.number = number
        self.delivered = delivered

    def __repr__(self) -> str:
        """Show the fields."""
        return f"Summary({self.number}, {self.delivered})"

    def kind(self) -> int:
        """Return the number of this kind."""
        return SUMMARY

    def metadata_size(self) -> int:
        """Count the bytes of this frame on the wire."""
        size = 1 + width_of(self.number) + varint_width(len(self.delivered))
        for source, number in self.delivered.items():
            size += varint_width(source) + varint_width(number)
        return size

    def write(self, buffer: bytearray) -> None:
        """Append the encoding of this frame to ``buffer``."""
        width = width_of(self.number)
        write_head(buffer, SUMMARY, width)
        write_number(buffer, self.number, width)
        write_varint(buffer, len(self.delivered))
        for source, number in self.delivered.items():
            write_varint(buffer, source)
            write_varint(buffer, number)


def read_preventive(reader: Reader) -> Frame:
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
            raise PeerError(f"a frame of kind {kind} has no numbers")
        return Newcomer() if kind == NEWCOMER else Welcome()
    if kind == SUMMARY:
        number = reader.number()
        delivered: dict[ProcessId, int] = {}
        for _ in range(reader.varint(5)):
            source = ProcessId(reader.varint())
            delivered[source] = reader.varint()
        return Summary(number, delivered)
    return read_relayed_message(reader)
