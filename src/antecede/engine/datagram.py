"""The layout of datagrams.

::

    header  version and kind    1 byte
            sender              8 bytes, a hash of its name
            sender's incarnation    8 bytes
            receiver's incarnation  8 bytes
            packet number       8 bytes
    body    HELLO    timestamp, introduction
            WELCOME  timestamp, timestamp echo, introduction
            DATA     timestamp, timestamp echo, epoch, epoch echo, receive window, ack
                     block, frames
            BYE      timestamp, timestamp echo, epoch, epoch echo, receive window, ack block
            BYE_ACK  timestamp, timestamp echo, epoch, epoch echo, receive window, ack block
            PROBE    timestamp, timestamp echo, epoch, epoch echo, receive window, ack
                     block, padding
            PIECE    like DATA, with a piece of a frame (:mod:`antecede.engine.pieces`)
            UNORDERED  timestamp, timestamp echo, epoch, epoch echo, receive window, ack
                     block, payload
            QUESTION, ANSWER  like DATA, with a question or an answer instead of frames
                     (:mod:`antecede.engine.wait_questions`)
            CHALLENGE, RESPONSE
                     timestamp, timestamp echo, epoch, epoch echo, receive window, ack
                     block, 8 random bytes
            CARRY    like DATA, with datagrams of rooms instead of frames
                     (:mod:`antecede.engine.carrier`)

JOIN and JOIN_ANSWER have another header (:mod:`antecede.engine.joining`), and ANNOUNCE has
another body (:mod:`antecede.engine.announcements`).

With a group key the body is encrypted, the header is authenticated with it, and an
authentication tag follows. All numbers are big-endian. The receiver's incarnation is 0 in a
HELLO, because its sender does not know it yet. The *timestamp* is the sender's clock in
milliseconds; the *timestamp echo* is the latest timestamp that the sender has received from
the receiver. The *epoch* changes when the sender gives up messages to the receiver; the
*epoch echo* is the receiver's epoch, as the sender knows it
(docs/explanation/peer-removal.md). The *receive window* is the number of messages that the
receiver may have transmitted that the sender has not delivered
(:mod:`antecede.engine.flow_control`); the one with the highest packet number counts. The
*ack block* names the packets that have arrived (:mod:`antecede.engine.acknowledgements`).
The *introduction* describes the sender: its history, its protocol, its epoch, the epoch and
history of the receiver as it knows them, the last messages that it has received and that
the receiver has acked, the largest message that it accepts, its receive window and its
lease (:class:`Introduction`).
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final

from antecede.errors import PeerError

__all__ = [
    "AEAD_TAG_BYTES",
    "ANNOUNCE",
    "ANSWER",
    "BYE",
    "BYE_ACK",
    "CARRY",
    "CHALLENGE",
    "DATA",
    "DATA_PREFIX",
    "HEADER",
    "HEADER_BYTES",
    "HELLO",
    "HELLO_TIMES",
    "INTRODUCTION",
    "JOIN",
    "JOIN_ANSWER",
    "KINDS",
    "PIECE",
    "PROBE",
    "QUESTION",
    "RESPONSE",
    "TOKEN_BYTES",
    "UNORDERED",
    "VERSION",
    "WELCOME",
    "WELCOME_TIMES",
    "Introduction",
    "name_hash",
    "protocol_hash",
    "read_header",
    "read_introduction",
    "timestamp_ms",
]

VERSION: Final = 1
"""The version of this layout: the high nibble of every datagram."""
UNORDERED: Final = 0
"""Carries one unordered message (:mod:`antecede.engine.unordered`)."""
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
PROBE: Final = 6
"""Has padding; its acknowledgement shows that the path carries a datagram of its size."""
PIECE: Final = 7
"""Carries a piece of a frame that is larger than a datagram."""
QUESTION: Final = 8
"""Asks a peer what a message waits for (:mod:`antecede.engine.wait_questions`)."""
ANSWER: Final = 9
"""Answers one QUESTION."""
CHALLENGE: Final = 10
"""Asks for a RESPONSE, to validate the address of the receiver."""
RESPONSE: Final = 11
"""Repeats the random bytes of a CHALLENGE."""
CARRY: Final = 12
"""Carries datagrams of rooms."""
JOIN: Final = 13
"""Asks a node whose name is unknown to become a peer; answered by JOIN_ANSWER."""
JOIN_ANSWER: Final = 14
"""Answers one JOIN with the name of the node, or with the reason of a refusal."""
ANNOUNCE: Final = 15
"""Informs a node of the name of a stranger whose HELLO follows."""
TOKEN_BYTES: Final = 8
"""The random bytes at the end of CHALLENGE and RESPONSE."""
KINDS: Final = frozenset(range(UNORDERED, ANNOUNCE + 1))

HEADER: Final = Struct(">BQQQQ")
HEADER_BYTES: Final = 33
"""The size of a header, which compiled code reads faster than ``HEADER.size``."""
HELLO_TIMES: Final = Struct(">Q")
WELCOME_TIMES: Final = Struct(">QQ")
INTRODUCTION: Final = Struct(">QIIIQQQIII")
"""The end of the body of HELLO and WELCOME."""
DATA_PREFIX: Final = Struct(">QQIII")
"""The start of the body of all other kinds, before the ack block."""

AEAD_TAG_BYTES: Final = 16
"""The bytes that encryption adds to a datagram."""


class Introduction:
    """The description of a node in the HELLO or WELCOME to a peer."""

    __slots__ = (
        "acked",
        "epoch",
        "epoch_echo",
        "history",
        "known_history",
        "lease_ms",
        "message_bytes_max",
        "protocol",
        "received",
        "window",
    )

    history: int
    """The history of the sender."""
    protocol: int
    """The hash of its protocol, and of the members if they are fixed."""
    epoch: int
    """The epoch of its messages to the receiver."""
    epoch_echo: int
    """The epoch of the receiver's messages to it, 0 if unknown."""
    known_history: int
    """The history of the receiver, as the sender knows it; 0 if unknown."""
    received: int
    """The last message of that history and epoch that the sender has delivered or holds."""
    acked: int
    """The last message of its own epoch that the receiver has acked."""
    message_bytes_max: int
    """The largest message that the sender accepts."""
    window: int
    """How many messages the receiver may have transmitted that the sender has not
    delivered."""
    lease_ms: int
    """The lease of the sender, which should be equal at all nodes."""

    def __init__(
        self,
        history: int,
        protocol: int,
        epoch: int,
        epoch_echo: int,
        known_history: int,
        received: int,
        acked: int,
        message_bytes_max: int,
        window: int,
        lease_ms: int,
    ) -> None:
        self.history = history
        self.protocol = protocol
        self.epoch = epoch
        self.epoch_echo = epoch_echo
        self.known_history = known_history
        self.received = received
        self.acked = acked
        self.message_bytes_max = message_bytes_max
        self.window = window
        self.lease_ms = lease_ms

    def encode(self) -> bytes:
        """Return the bytes of an introduction."""
        return INTRODUCTION.pack(
            self.history,
            self.protocol,
            self.epoch,
            self.epoch_echo,
            self.known_history,
            self.received,
            self.acked,
            self.message_bytes_max,
            self.window,
            self.lease_ms,
        )


def read_introduction(body: bytes, offset: int) -> Introduction:
    """Return the introduction at the end of a body of HELLO or WELCOME."""
    return Introduction(*INTRODUCTION.unpack_from(body, offset))


def name_hash(name: str) -> int:
    """Return the 64-bit hash that identifies a node on the wire."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def protocol_hash(names: Sequence[str]) -> int:
    """Return the 32-bit hash of a protocol's name and, if fixed, of its members' names."""
    words = "\n".join(names).encode()
    return int.from_bytes(blake2b(words, digest_size=4).digest(), "big")


def timestamp_ms(now: float) -> int:
    """Return the timestamp to transmit at ``now`` seconds."""
    return int(now * 1000)


def read_header(datagram: bytes) -> tuple[int, int, int, int, int]:
    """Return kind, sender, sender's incarnation, receiver's incarnation, packet number.

    Raise PeerError if the datagram is too short, or of another version or unknown kind.
    """
    if len(datagram) < HEADER_BYTES:
        raise PeerError(
            f"datagram of {len(datagram)} bytes is shorter than a header of {HEADER_BYTES}"
        )
    first: int
    sender: int
    incarnation: int
    receiver: int
    packet: int
    first, sender, incarnation, receiver, packet = HEADER.unpack_from(datagram)
    if first >> 4 != VERSION:
        raise PeerError(f"datagram of version {first >> 4}, expected {VERSION}")
    kind = first & 15
    if kind not in KINDS:
        raise PeerError(f"datagram of unknown kind {kind}")
    return kind, sender, incarnation, receiver, packet
