"""The layout of datagrams.

::

    header  version and kind    1 byte
            sender              8 bytes, a hash of its name
            sender's incarnation    8 bytes
            receiver's incarnation  8 bytes
            packet number       8 bytes
    body    HELLO    timestamp, epoch, history, protocol
            WELCOME  timestamp, timestamp echo, epoch, history, protocol
            DATA     timestamp, timestamp echo, epoch, frames
            BYE      timestamp, timestamp echo, epoch
            BYE_ACK  timestamp, timestamp echo, epoch

With a group key the body is encrypted, the header is authenticated with it, and an
authentication tag follows. All numbers are big-endian. The receiver's incarnation is 0 in a
HELLO, because its sender does not know it yet. The *timestamp* is the sender's clock in
milliseconds; the *timestamp echo* is the latest timestamp that the sender has received from
the receiver (docs/explanation/peer-removal.md).
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final

from antecede.errors import PeerError

__all__ = [
    "AEAD_TAG_BYTES",
    "BYE",
    "BYE_ACK",
    "DATA",
    "DATA_PREFIX",
    "HEADER",
    "HELLO",
    "HELLO_BODY",
    "KINDS",
    "VERSION",
    "WELCOME",
    "WELCOME_BODY",
    "elapsed_ms",
    "name_hash",
    "protocol_hash",
    "read_header",
    "timestamp_ms",
]

VERSION: Final = 1
"""The version of this layout: the high nibble of every datagram."""
HELLO: Final = 1
"""Asks the receiver for its incarnation; answered by WELCOME."""
WELCOME: Final = 2
"""Answers one HELLO with the sender's incarnation."""
DATA: Final = 3
"""Carries frames of the protocol."""
BYE: Final = 4
"""Announces that the sender leaves and that all its messages were delivered; answered by
BYE_ACK."""
BYE_ACK: Final = 5
"""Acknowledges a BYE."""
KINDS: Final = frozenset((HELLO, WELCOME, DATA, BYE, BYE_ACK))

HEADER: Final = Struct(">BQQQQ")
HELLO_BODY: Final = Struct(">IHQI")
WELCOME_BODY: Final = Struct(">IIHQI")
DATA_PREFIX: Final = Struct(">IIH")
"""The start of the body of DATA, and the whole body of BYE and BYE_ACK."""

AEAD_TAG_BYTES: Final = 16
"""The bytes that encryption adds to a datagram."""
TIMESTAMP_MODULUS: Final = 1 << 32
"""Timestamps wrap around after 49 days."""


def name_hash(name: str) -> int:
    """Return the 64-bit hash that identifies a node on the wire."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def protocol_hash(names: Sequence[str]) -> int:
    """Return the 32-bit hash of a protocol's name and, if fixed, of its members' names."""
    words = "\n".join(names).encode()
    return int.from_bytes(blake2b(words, digest_size=4).digest(), "big")


def timestamp_ms(now: float) -> int:
    """Return the timestamp to transmit at ``now`` seconds."""
    return int(now * 1000) % TIMESTAMP_MODULUS


def elapsed_ms(earlier: int, later: int) -> int:
    """Return the milliseconds from one timestamp to another, modulo 2**32."""
    return (later - earlier) % TIMESTAMP_MODULUS


def read_header(datagram: bytes) -> tuple[int, int, int, int, int]:
    """Return kind, sender, sender's incarnation, receiver's incarnation, packet number.

    Raise PeerError if the datagram is too short, or of another version or unknown kind.
    """
    if len(datagram) < HEADER.size:
        raise PeerError(
            f"datagram of {len(datagram)} bytes is shorter than a header of {HEADER.size}"
        )
    first, sender, incarnation, receiver, packet = HEADER.unpack_from(datagram)
    if first >> 4 != VERSION:
        raise PeerError(f"datagram of version {first >> 4}, expected {VERSION}")
    kind = first & 15
    if kind not in KINDS:
        raise PeerError(f"datagram of unknown kind {kind}")
    return kind, sender, incarnation, receiver, packet
