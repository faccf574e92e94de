"""Encryption and authentication of datagrams with a group key.

The key of a datagram is derived (HKDF-SHA256) from the group key, both names and both
incarnations. A node draws its incarnation at random at each start and numbers its packets
to each peer from 1. Therefore no nonce is used twice with one key, and a datagram can be
decrypted only by its receiver, and only in the incarnation it was addressed to. The header
is authenticated with the body. The cipher is AES-256-GCM.

Every holder of the group key can impersonate every node: the key protects against
outsiders, not against members.

This module needs the extra ``antecede[secure]``.
"""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from antecede.engine.datagram import HEADER
from antecede.engine.handshake import AeadCipher
from antecede.errors import ConfigError, PeerError

__all__ = ["KEY_BYTES", "AesGcmDatagramCipher"]

KEY_BYTES: Final = 32
"""The length of a group key."""
NONCE_BYTES: Final = 12
CONTEXT: Final = b"antecede datagram 1"
STRANGER_CONTEXT: Final = b"antecede stranger 1"


class AesGcmDatagramCipher:
    """Encrypts and decrypts the datagrams of one node.

    Args:
        key: the group key, 32 bytes, for example of ``secrets.token_bytes(32)``.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        """Raise ConfigError unless the key has the right length."""
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            size = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
            raise ConfigError(
                f"a group key must have {KEY_BYTES} bytes, got {size}; generate one with"
                f" secrets.token_bytes({KEY_BYTES})"
            )
        self._key = key

    def derive(
        self, sender: str, incarnation: int, receiver: str, receiver_incarnation: int
    ) -> AeadCipher:
        """Return the cipher of one direction between two incarnations."""
        parts = [CONTEXT]
        for name, number in ((sender, incarnation), (receiver, receiver_incarnation)):
            encoded = name.encode()
            parts += [len(encoded).to_bytes(2, "big"), encoded, number.to_bytes(8, "big")]
        hkdf = HKDF(SHA256(), KEY_BYTES, salt=None, info=b"".join(parts))
        return AESGCM(hkdf.derive(self._key))

    def stranger_cipher(self, salt: bytes) -> AeadCipher:
        """Return the cipher of one datagram between nodes that are not peers."""
        hkdf = HKDF(SHA256(), KEY_BYTES, salt=salt, info=STRANGER_CONTEXT)
        return AESGCM(hkdf.derive(self._key))

    def seal(self, cipher: AeadCipher, packet: int, header: bytes, body: bytes) -> bytes:
        """Return the datagram with its body encrypted."""
        nonce = packet.to_bytes(NONCE_BYTES, "big")
        return header + cipher.encrypt(nonce, body, header)

    def open(self, cipher: AeadCipher, packet: int, datagram: bytes) -> bytes:
        """Return the decrypted body, or raise PeerError if authentication fails."""
        nonce = packet.to_bytes(NONCE_BYTES, "big")
        try:
            return cipher.decrypt(nonce, datagram[HEADER.size :], datagram[: HEADER.size])
        except InvalidTag:
            raise PeerError(f"packet {packet}: authentication failed") from None
