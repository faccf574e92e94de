"""Sealing: with a group key, every datagram is encrypted and authenticated.

The key of a datagram is derived (HKDF-SHA256) from the group key, both names and both
incarnations. An incarnation is drawn at random at each start and each sender numbers its
packets to each peer from 1, so no nonce is ever used twice with one key, and a datagram
opens for its own receiver only, in the life that it was meant for. The head is
authenticated with the body. The cipher is AES-256-GCM.

Everybody who has the group key can speak in everybody's name: it keeps outsiders out, not
insiders.

This module needs the extra ``antecede[secure]``.
"""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from antecede.engine.datagram import HEAD
from antecede.engine.peer_session import Cipher
from antecede.errors import ConfigError, PeerError

__all__ = ["KEY_BYTES", "Seal"]

KEY_BYTES: Final = 32
"""The length of a group key."""
NONCE_BYTES: Final = 12
CONTEXT: Final = b"antecede datagram 1"


class Seal:
    """Opens and closes the datagrams of one node.

    Args:
        key: the group key, 32 bytes; make one with ``secrets.token_bytes(32)``.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        """Keep the group key; raise ConfigError unless it has the right length."""
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise ConfigError(
                f"a group key is {KEY_BYTES} bytes, as secrets.token_bytes makes them"
            )
        self._key = key

    def cipher(
        self, sender: str, incarnation: int, receiver: str, receiver_incarnation: int
    ) -> Cipher:
        """Derive the cipher for one direction between two incarnations."""
        parts = [CONTEXT]
        for name, number in ((sender, incarnation), (receiver, receiver_incarnation)):
            encoded = name.encode()
            parts += [len(encoded).to_bytes(2, "big"), encoded, number.to_bytes(8, "big")]
        hkdf = HKDF(SHA256(), KEY_BYTES, salt=None, info=b"".join(parts))
        return AESGCM(hkdf.derive(self._key))

    def close(self, cipher: Cipher, packet: int, head: bytes, body: bytes) -> bytes:
        """Return the sealed datagram."""
        nonce = packet.to_bytes(NONCE_BYTES, "big")
        return head + cipher.encrypt(nonce, body, head)

    def open(self, cipher: Cipher, packet: int, datagram: bytes) -> bytes:
        """Return the body, or raise PeerError if the datagram is not what it seems."""
        nonce = packet.to_bytes(NONCE_BYTES, "big")
        try:
            return cipher.decrypt(nonce, datagram[HEAD.size :], datagram[: HEAD.size])
        except InvalidTag:
            raise PeerError("the seal is broken") from None
