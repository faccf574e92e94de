"""Datagrams of one node: headers, and encryption if the group has a key."""

from collections.abc import Callable
from typing import Final, Protocol

from antecede.engine.datagram import HEADER, HEADER_BYTES, VERSION, name_hash
from antecede.engine.handshake import AeadCipher
from antecede.engine.peer_session import PeerSession

__all__ = ["DatagramCipher", "Sealer"]

SKIP_WAIT_MIN: Final = 100
SKIP_WAIT_BITS: Final = 8
"""A packet number is left out after 100 to 355 others."""
SKIPPED_MAX: Final = 8
"""The number of left-out packet numbers that are remembered."""


class DatagramCipher(Protocol):
    """Encryption with a group key: :class:`antecede.engine.crypto.AesGcmDatagramCipher`."""

    def derive(
        self, sender: str, incarnation: int, receiver: str, receiver_incarnation: int
    ) -> AeadCipher:
        """Return the cipher of one direction between two incarnations."""

    def stranger_cipher(self, salt: bytes) -> AeadCipher:
        """Return the cipher of one datagram between nodes that are not peers."""

    def seal(self, cipher: AeadCipher, packet: int, header: bytes, body: bytes) -> bytes:
        """Return the datagram with its body encrypted."""

    def open(self, cipher: AeadCipher, packet: int, datagram: bytes) -> bytes:
        """Return the decrypted body, or raise PeerError if authentication fails."""


class Sealer:
    """Makes the datagrams of one incarnation of a node, and opens those addressed to it."""

    __slots__ = ("_cipher", "_name_hash", "_random_bits", "incarnation", "name")

    def __init__(
        self,
        name: str,
        incarnation: int,
        cipher: DatagramCipher | None,
        random_bits: Callable[[int], int],
    ) -> None:
        self.name = name
        self._random_bits = random_bits
        self.incarnation = incarnation
        self._name_hash = name_hash(name)
        self._cipher = cipher

    def seal(self, kind: int, session: PeerSession, body: bytes) -> bytes:
        """Make a datagram for the current incarnation of a peer."""
        handshake = session.handshake
        header = self._header(kind, session, handshake.incarnation)
        if self._cipher is None:
            datagram = header + body
        else:
            aead = handshake.sealing_cipher
            if aead is None:
                aead = self._cipher.derive(
                    self.name, self.incarnation, session.name, handshake.incarnation
                )
                handshake.sealing_cipher = aead
            datagram = self._cipher.seal(aead, session.last_packet, header, body)
        session.bytes_out += len(datagram)
        return datagram

    def seal_for(
        self, kind: int, session: PeerSession, receiver: int, body: bytes
    ) -> bytes:
        """Make a datagram for any incarnation of a peer, 0 for an unknown one."""
        header = self._header(kind, session, receiver)
        if self._cipher is None:
            return header + body
        aead = self._cipher.derive(self.name, self.incarnation, session.name, receiver)
        return self._cipher.seal(aead, session.last_packet, header, body)

    def seal_for_all(self, kind: int, packet: int, body: bytes) -> bytes:
        """Make a datagram that every node of the group can decrypt."""
        first = VERSION << 4 | kind
        header = HEADER.pack(first, self._name_hash, self.incarnation, 0, packet)
        if self._cipher is None:
            return header + body
        aead = self._cipher.derive("", self.incarnation, "", 0)  # No node has this name.
        return self._cipher.seal(aead, packet, header, body)

    def open_for_all(self, incarnation: int, packet: int, datagram: bytes) -> bytes:
        """Return the body of a datagram of :meth:`seal_stranger`, or raise PeerError."""
        if self._cipher is None:
            return datagram[HEADER.size :]
        aead = self._cipher.derive("", incarnation, "", 0)
        return self._cipher.open(aead, packet, datagram)

    def _header(self, kind: int, session: PeerSession, receiver: int) -> bytes:
        packet = session.last_packet + 1
        if packet >= session.skip_at:
            packet = self._skip(session, packet)
        session.last_packet = packet
        return HEADER.pack(
            VERSION << 4 | kind, self._name_hash, self.incarnation, receiver, packet
        )

    def _skip(self, session: PeerSession, packet: int) -> int:
        """Return the next packet number; sometimes leave one out.

        A peer that acknowledges a left-out number has not received it (RFC 9000, section
        21.4).
        """
        if session.skip_at > 0:
            session.skipped.append(packet)
            if len(session.skipped) > SKIPPED_MAX:
                del session.skipped[0]
            packet += 1
        wait = SKIP_WAIT_MIN + self._random_bits(SKIP_WAIT_BITS)
        session.skip_at = packet + wait
        return packet

    def opening_cipher(
        self, session: PeerSession, incarnation: int, receiver: int
    ) -> AeadCipher | None:
        """Return the cipher of a datagram from a peer; None without a group key."""
        if self._cipher is None:
            return None
        handshake = session.handshake
        if incarnation == handshake.incarnation and receiver == self.incarnation:
            aead = handshake.opening_cipher
            if aead is not None:
                return aead
        return self._cipher.derive(session.name, incarnation, self.name, receiver)

    def open(self, aead: AeadCipher | None, packet: int, datagram: bytes) -> bytes:
        """Return the body of a datagram, or raise PeerError if authentication fails."""
        if self._cipher is None or aead is None:
            return datagram[HEADER_BYTES:]
        return self._cipher.open(aead, packet, datagram)
