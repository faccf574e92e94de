"""Encryption and authentication of datagrams with a group key.

The key of a datagram is derived (HKDF-SHA256) from the group key, both names and both
incarnations. A node draws its incarnation at random at each start and numbers its packets
to each peer from 1. Therefore no nonce is used twice with one key, and a datagram can be
decrypted only by its receiver, and only in the incarnation it was addressed to. The header
is authenticated with the body. The cipher is AES-256-GCM.

A node may have several group keys, so that a group can change its key while it runs: it
encrypts with the first one, and accepts datagrams under any of them.

Every holder of a group key can impersonate every node: the key protects against
outsiders, not against members.

This module needs the extra ``antecede[secure]``.
"""

from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from antecede.engine.datagram import HEADER
from antecede.engine.handshake import AeadCipher
from antecede.errors import ConfigError, PeerError

__all__ = ["KEYS_MAX", "KEY_BYTES", "AesGcmDatagramCipher"]

KEY_BYTES: Final = 32
"""The length of a group key."""
KEYS_MAX: Final = 4
"""The maximum number of keys of a node, which tries each of them for a forged datagram."""
NONCE_BYTES: Final = 12
CONTEXT: Final = b"antecede datagram 1"
STRANGER_CONTEXT: Final = b"antecede stranger 1"


class AesGcmDatagramCipher:
    """Encrypts and decrypts the datagrams of one node.

    Args:
        keys: the group keys, each of 32 bytes, for example of ``secrets.token_bytes(32)``.
            The first one encrypts.
    """

    __slots__ = ("_keys",)

    def __init__(self, *keys: bytes) -> None:
        """Raise ConfigError unless the keys have the right length."""
        self._keys: tuple[bytes, ...] = ()
        self.set_keys(keys)

    def set_keys(self, keys: Sequence[bytes]) -> None:
        """Use other keys for the ciphers that are derived from now on."""
        for key in keys:
            if not isinstance(key, bytes) or len(key) != KEY_BYTES:
                size = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
                raise ConfigError(
                    f"a group key must have {KEY_BYTES} bytes, got {size}; generate one"
                    f" with secrets.token_bytes({KEY_BYTES})"
                )
        distinct = tuple(dict.fromkeys(keys))
        if not 1 <= len(distinct) <= KEYS_MAX:
            raise ConfigError(
                f"a node must have 1 to {KEYS_MAX} different keys, got {len(distinct)}"
            )
        self._keys = distinct

    def derive(
        self, sender: str, incarnation: int, receiver: str, receiver_incarnation: int
    ) -> AeadCipher:
        """Return the cipher of one direction between two incarnations."""
        parts = [CONTEXT]
        for name, number in ((sender, incarnation), (receiver, receiver_incarnation)):
            encoded = name.encode()
            parts += [len(encoded).to_bytes(2, "big"), encoded, number.to_bytes(8, "big")]
        return self._derive(b"".join(parts), None)

    def _derive(self, info: bytes, salt: bytes | None) -> AeadCipher:
        if len(self._keys) == 1:
            return _derive(self._keys[0], info, salt)
        return _SeveralKeys(self._keys, info, salt)

    def stranger_cipher(self, salt: bytes) -> AeadCipher:
        """Return the cipher of one datagram between nodes that are not peers."""
        return self._derive(STRANGER_CONTEXT, salt)

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


def _derive(key: bytes, info: bytes, salt: bytes | None) -> AESGCM:
    hkdf = HKDF(SHA256(), KEY_BYTES, salt=salt, info=info)
    return AESGCM(hkdf.derive(key))


class _SeveralKeys:
    """The cipher of one direction between two incarnations of nodes with several keys.

    It derives the ciphers of the other keys when it needs them, and first tries the key
    that has opened the last datagram.
    """

    __slots__ = ("_ciphers", "_info", "_keys", "_latest", "_salt")

    def __init__(self, keys: tuple[bytes, ...], info: bytes, salt: bytes | None) -> None:
        self._keys = keys
        self._info = info
        self._salt = salt
        self._ciphers: dict[bytes, AESGCM] = {}
        self._latest = keys[0]

    def _cipher(self, key: bytes) -> AESGCM:
        cipher = self._ciphers.get(key)
        if cipher is None:
            cipher = self._ciphers[key] = _derive(key, self._info, self._salt)
        return cipher

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        return self._cipher(self._keys[0]).encrypt(nonce, data, associated_data)

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        latest = self._latest
        for key in (latest, *(key for key in self._keys if key != latest)):
            try:
                opened = self._cipher(key).decrypt(nonce, data, associated_data)
            except InvalidTag:
                continue
            self._latest = key
            return opened
        raise InvalidTag
