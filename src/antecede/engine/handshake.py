"""The handshake with one peer: its incarnation, HELLOs and timestamps."""

from typing import Final, Protocol

from antecede.core.process import NEVER
from antecede.engine.datagram import Introduction

__all__ = ["NOTHING", "AeadCipher", "Handshake"]

INTRODUCED_MAX: Final = 8
"""How many incarnations of a peer are remembered that sent HELLO and proved nothing."""
RETIRED_MAX: Final = 16
"""How many former incarnations of a peer are refused without further checks."""
HELLOS_MAX: Final = 8
"""How many unanswered HELLOs are remembered."""
NOTHING: Final = (0, 0)
"""No incarnation, and no epoch."""


class AeadCipher(Protocol):
    """Encrypts or decrypts one direction between two incarnations."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the ciphertext and its authentication tag."""

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the plaintext, or raise if the tag does not match."""


class Handshake:
    """The incarnation of a peer that a session is bound to, and the evidence for it."""

    __slots__ = (
        "hello_at",
        "hello_wait_s",
        "hellos",
        "incarnation",
        "introduced",
        "met_at",
        "opening_cipher",
        "probe_wait_s",
        "retired",
        "sealing_cipher",
        "timestamp_echo",
        "timestamp_echo_at",
        "unproven",
    )

    incarnation: int
    """The current incarnation of the peer; 0 before the first handshake."""
    met_at: float
    """When the session was bound to this incarnation."""
    introduced: dict[int, Introduction]
    """Incarnations that sent HELLO and have not proven to be current."""
    retired: dict[int, None]
    """Former incarnations; their datagrams are refused."""
    unproven: tuple[int, int]
    """An incarnation and an epoch from a HELLO, unless a HELLO has asked for proof."""
    hellos: dict[int, float]
    """The timestamps of unanswered HELLOs, and when these were transmitted."""
    hello_at: float
    """When to transmit the next HELLO; infinite if none is due."""
    hello_wait_s: float
    """The timeout of the latest HELLO, or 0."""
    probe_wait_s: float
    """The wait before the latest HELLO that asked for a window, or 0."""
    timestamp_echo: int
    """The latest timestamp received from the peer, to be echoed to it; -1 for none."""
    timestamp_echo_at: float
    """When that timestamp was received."""
    sealing_cipher: AeadCipher | None
    """Encrypts datagrams to the current incarnation."""
    opening_cipher: AeadCipher | None
    """Decrypts datagrams from the current incarnation."""

    def __init__(self) -> None:
        self.introduced = {}
        self.retired = {}
        self.hellos = {}
        self.unproven = NOTHING
        self._start(0, -NEVER)

    def _start(self, incarnation: int, now: float) -> None:
        self.incarnation = incarnation
        self.met_at = now
        self.hello_at = NEVER
        self.hello_wait_s = 0.0
        self.probe_wait_s = 0.0
        self.timestamp_echo = -1
        self.timestamp_echo_at = -NEVER
        self.sealing_cipher = None
        self.opening_cipher = None

    def forget_ciphers(self) -> None:
        """Derive the ciphers of the current incarnation again: the group key changes."""
        self.sealing_cipher = None
        self.opening_cipher = None

    def introduce(self, incarnation: int, introduction: Introduction) -> None:
        """Remember the incarnation and the epoch of a HELLO."""
        self.unproven = incarnation, introduction.epoch
        if incarnation == self.incarnation:
            return
        self.introduced.pop(incarnation, None)
        self.introduced[incarnation] = introduction
        if len(self.introduced) > INTRODUCED_MAX:
            del self.introduced[next(iter(self.introduced))]

    def bind(self, incarnation: int, now: float) -> None:
        """Make this incarnation the current one, and retire the one before."""
        if self.incarnation:
            self.retired[self.incarnation] = None
            if len(self.retired) > RETIRED_MAX:  # An older one fails the timestamp check.
                del self.retired[next(iter(self.retired))]
        self._start(incarnation, now)
        self.introduced.pop(incarnation, None)

    def record_hello(self, timestamp: int, now: float) -> None:
        """Remember a transmitted HELLO, so that its WELCOME can be matched."""
        if len(self.hellos) >= HELLOS_MAX:
            del self.hellos[next(iter(self.hellos))]
        self.hellos[timestamp] = now
        self.unproven = NOTHING

    def record_welcome(self, timestamp_echo: int, incarnation: int, epoch: int) -> bool:
        """Record the answer to a HELLO; return whether no later HELLO is unanswered."""
        if self.unproven[0] == incarnation and self.unproven[1] <= epoch:
            self.unproven = NOTHING
        del self.hellos[timestamp_echo]
        return not self.hellos or max(self.hellos) < timestamp_echo

    def record_timestamp(self, timestamp: int, now: float) -> None:
        """Echo this timestamp from now on, unless it is older than the current echo."""
        if timestamp >= self.timestamp_echo:
            self.timestamp_echo = timestamp
            self.timestamp_echo_at = now
