"""The group keys of a node, which may change while it runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from antecede.engine.engine import Engine
from antecede.errors import ConfigError, LocalError

if TYPE_CHECKING:
    from antecede.engine.crypto import AesGcmDatagramCipher

__all__ = ["GroupKeys", "Keys"]

Keys = bytes | Sequence[bytes]
"""One key, or several: the first one encrypts, and all of them are accepted."""


class GroupKeys:
    """The keys of one node.

    Args:
        keys: the keys; None for a node that encrypts nothing.
    """

    cipher: "AesGcmDatagramCipher | None"
    """Encrypts the datagrams of the node; None without a key."""

    def __init__(self, keys: Keys | None) -> None:
        self.cipher = None
        if keys is None:
            return
        try:
            from antecede.engine.crypto import AesGcmDatagramCipher
        except ImportError:
            raise ConfigError(
                "encryption (key=) needs the package cryptography:"
                " run pip install 'antecede[secure]'"
            ) from None
        self.cipher = AesGcmDatagramCipher(*_as_list(keys))

    def change(self, keys: Keys, engine: Engine) -> None:
        """Use other keys from now on; raise, and change nothing, if they are invalid."""
        if self.cipher is None:
            raise LocalError(
                f"{engine.name} was opened without a key: only a node that was opened with"
                " key= can change it"
            )
        self.cipher.set_keys(_as_list(keys))
        for session in engine.sessions.values():
            session.handshake.forget_ciphers()


def _as_list(keys: Keys) -> list[bytes]:
    """Return one key, or several, as a list."""
    return list(keys) if isinstance(keys, list | tuple) else [keys]  # type: ignore[list-item]
