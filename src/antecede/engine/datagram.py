"""What a datagram looks like.

::

    head    version and kind    1 byte
            sender              8 bytes, a hash of its name
            its incarnation     8 bytes
            the receiver's      8 bytes
            packet number       8 bytes
    body    HELLO     reading, epoch, life, protocol
            WELCOME   reading, echo, epoch, life, protocol
            DATA      reading, echo, epoch, frames
            BYE       reading, echo, epoch
            FAREWELL  reading, echo, epoch

With a key the body is encrypted, the head is authenticated with it, and a tag follows. All
numbers are big-endian. The receiver's incarnation is 0 in a HELLO, whose sender does not
know it yet. A *reading* is the sender's clock in milliseconds, an *echo* the last reading
that the sender has seen of the receiver's; what they are for is in docs/removal.md.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final

from antecede.errors import PeerError

__all__ = [
    "BYE",
    "DATA",
    "DATA_PREFIX",
    "FAREWELL",
    "HEAD",
    "HELLO",
    "HELLO_BODY",
    "KINDS",
    "TAG_BYTES",
    "VERSION",
    "WELCOME",
    "WELCOME_BODY",
    "elapsed_ms",
    "protocol_tag",
    "read_head",
    "reading_ms",
    "tag_of",
]

VERSION: Final = 1
"""The version of this layout: the high nibble of every datagram."""
HELLO: Final = 1
"""Who are you now? Answered by a WELCOME."""
WELCOME: Final = 2
"""This is who I am now; it answers one HELLO."""
DATA: Final = 3
"""Frames of the protocol."""
BYE: Final = 4
"""I leave, and everything I sent has been delivered. Answered by a FAREWELL."""
FAREWELL: Final = 5
"""The BYE has been seen."""
KINDS: Final = frozenset((HELLO, WELCOME, DATA, BYE, FAREWELL))

HEAD: Final = Struct(">BQQQQ")
HELLO_BODY: Final = Struct(">IHQI")
WELCOME_BODY: Final = Struct(">IIHQI")
DATA_PREFIX: Final = Struct(">IIH")
"""A BYE and a FAREWELL have this and nothing else."""

TAG_BYTES: Final = 16
"""What sealing adds to a datagram."""
READINGS: Final = 1 << 32
"""Clock readings are counted modulo this: 49 days."""


def tag_of(name: str) -> int:
    """Return the eight bytes that stand for a name on the wire."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def protocol_tag(names: Sequence[str]) -> int:
    """Return the four bytes for a protocol, and for its members where those are fixed."""
    words = "\n".join(names).encode()
    return int.from_bytes(blake2b(words, digest_size=4).digest(), "big")


def reading_ms(now: float) -> int:
    """Return the clock reading to put on the wire at ``now`` seconds."""
    return int(now * 1000) % READINGS


def elapsed_ms(earlier: int, later: int) -> int:
    """Return how far ``later`` is behind ``earlier``, as far as 32 bits can tell."""
    return (later - earlier) % READINGS


def read_head(datagram: bytes) -> tuple[int, int, int, int, int]:
    """Return kind, sender's tag, its incarnation, the receiver's, and the packet number.

    Raise PeerError, which says what is wrong, if it is no datagram of this version.
    """
    if len(datagram) < HEAD.size:
        raise PeerError(f"a datagram of {len(datagram)} bytes is too short")
    first, tag, incarnation, receiver, packet = HEAD.unpack_from(datagram)
    if first >> 4 != VERSION:
        raise PeerError(f"datagram of version {first >> 4}, expected {VERSION}")
    kind = first & 15
    if kind not in KINDS:
        raise PeerError(f"unknown datagram of kind {kind}")
    return kind, tag, incarnation, receiver, packet
