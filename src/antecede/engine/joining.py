"""JOIN and JOIN_ANSWER: the datagrams of two nodes that do not know each other's names.

::

    version and kind    1 byte
    salt                16 random bytes
    body                encrypted, if the group has a key; zeros follow its fields

    JOIN                version of the body, nonce, name, incarnation, protocol, lease
    JOIN_ANSWER         nonce, incarnation, name, address, reason

The numbers are LEB128; a text is its length in bytes, at most 255, and its UTF-8. The
protocol is the hash of the protocol outside of rooms, the lease a time in milliseconds. The
address is that of the newcomer, as the sender of the answer sees it. The reason is empty if
that node has added the newcomer, and else the reason of its refusal. For example, without a
key and without salt and padding, a JOIN with nonce 5 of the node ``bob`` with incarnation
300, protocol 7 and a lease of 2000 ms, and the answer of ``al`` with incarnation 9::

    JOIN                01  05  03 62 6f 62  ac 02  07  d0 0f
    JOIN_ANSWER         05  09  02 61 6c  03 68 3a 31  00

The key is derived from the group key and the salt, because the receiver cannot know the
name of the sender. A JOIN is padded to the base size of datagrams, so that its answer,
which goes to an address that is not validated, is never larger. The answer repeats the
nonce of the JOIN. A JOIN that was recorded and is transmitted again can make a node answer,
and contact the newcomer in its name; both need the handshake before they exchange more.
"""

from collections.abc import Callable
from typing import Final

from antecede.core.codec import Reader, write_varint
from antecede.engine.datagram import JOIN, JOIN_ANSWER, VERSION
from antecede.engine.sealer import DatagramCipher
from antecede.errors import PeerError

__all__ = ["JOIN_VERSION", "JoinAnswer", "JoinRequest", "open_stranger", "seal_stranger"]

JOIN_VERSION: Final = 1
"""The version of the body of JOIN, and of the messages between the members of rooms."""
SALT_BYTES: Final = 16
HEADER_BYTES: Final = 1 + SALT_BYTES
NONCE: Final = bytes(12)
"""Every datagram has a key of its own, so one nonce is enough."""
SIZE_MIN: Final = 64
"""The session layer drops shorter datagrams."""
TEXT_BYTES_MAX: Final = 255


class JoinRequest:
    """The body of JOIN: a newcomer asks to become a peer."""

    __slots__ = ("incarnation", "lease_ms", "name", "nonce", "protocol", "version")

    def __init__(
        self,
        nonce: int,
        name: str,
        incarnation: int,
        protocol: int,
        lease_ms: int,
        version: int = JOIN_VERSION,
    ) -> None:
        self.version = version
        self.nonce = nonce
        self.name = name
        self.incarnation = incarnation
        self.protocol = protocol
        """The hash of the protocol of the node outside of rooms."""
        self.lease_ms = lease_ms

    def encode(self) -> bytes:
        """Return the body."""
        buffer = bytearray()
        for number in (self.version, self.nonce):
            write_varint(buffer, number)
        _write_text(buffer, self.name)
        for number in (self.incarnation, self.protocol, self.lease_ms):
            write_varint(buffer, number)
        return bytes(buffer)


class JoinAnswer:
    """The body of JOIN_ANSWER: the receiver has added the newcomer, or refuses it."""

    __slots__ = ("address", "incarnation", "name", "nonce", "reason")

    def __init__(
        self, nonce: int, incarnation: int, name: str, address: str, reason: str
    ) -> None:
        self.nonce = nonce
        self.incarnation = incarnation
        self.name = name
        """The name of the node that answers."""
        self.address = address
        """The address of the newcomer, as this node sees it."""
        self.reason = reason
        """The reason of a refusal; empty if the node accepts the newcomer."""

    def encode(self) -> bytes:
        """Return the body."""
        buffer = bytearray()
        write_varint(buffer, self.nonce)
        write_varint(buffer, self.incarnation)
        for text in (self.name, self.address, self.reason):
            _write_text(buffer, text)
        return bytes(buffer)


def _write_text(buffer: bytearray, text: str) -> None:
    data = text.encode()[:TEXT_BYTES_MAX]
    write_varint(buffer, len(data))
    buffer += data


def _read_text(reader: Reader) -> str:
    return reader.payload()[:TEXT_BYTES_MAX].decode(errors="replace")


def seal_stranger(
    message: JoinRequest | JoinAnswer,
    cipher: DatagramCipher | None,
    random_bits: Callable[[int], int],
    size: int,
) -> bytes:
    """Return the datagram of a message, padded to ``size`` bytes."""
    kind = JOIN if isinstance(message, JoinRequest) else JOIN_ANSWER
    salt = random_bits(8 * SALT_BYTES).to_bytes(SALT_BYTES, "big")
    header = bytes((VERSION << 4 | kind,)) + salt
    overhead = HEADER_BYTES if cipher is None else HEADER_BYTES + 16
    body = message.encode()
    body += bytes(max(0, max(size, SIZE_MIN) - overhead - len(body)))
    if cipher is None:
        return header + body
    return header + cipher.stranger_cipher(salt).encrypt(NONCE, body, header)


def open_stranger(
    datagram: bytes, cipher: DatagramCipher | None
) -> JoinRequest | JoinAnswer:
    """Return the message in a datagram; raise PeerError if it cannot be decrypted."""
    header, body = datagram[:HEADER_BYTES], datagram[HEADER_BYTES:]
    if cipher is not None:
        try:
            body = cipher.stranger_cipher(header[1:]).decrypt(NONCE, body, header)
        except Exception:
            raise PeerError("a JOIN cannot be decrypted with the group key") from None
    reader = Reader(body)
    if header[0] & 15 == JOIN:
        version = reader.varint()
        nonce = reader.varint()
        name = _read_text(reader)
        if version != JOIN_VERSION:  # Other versions may have other fields after it.
            return JoinRequest(nonce, name, 0, 0, 0, version)
        return JoinRequest(nonce, name, reader.varint(), reader.varint(), reader.varint())
    nonce, incarnation = reader.varint(), reader.varint()
    name, address, reason = (_read_text(reader) for _ in range(3))
    return JoinAnswer(nonce, incarnation, name, address, reason)
