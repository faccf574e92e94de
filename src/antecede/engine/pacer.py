"""Pacing: spreads the datagrams of a window over the round trip (RFC 9002, section 7.7)."""

from typing import Final

__all__ = ["BURST_DATAGRAMS", "Pacer"]

GAIN: Final = 1.25
"""The rate, relative to a window in each round trip, so that pacing alone does not keep the
window from being used."""
BURST_DATAGRAMS: Final = 10
"""How many datagrams may leave at once."""
BURST_S: Final = 0.002
"""The time that a burst may cover: a timer of an event loop may be so late."""


class Pacer:
    """A token bucket, in bytes."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens", "datagram_bytes")

    datagram_bytes: int
    """The largest datagram."""

    def __init__(self, datagram_bytes: int) -> None:
        self.datagram_bytes = datagram_bytes
        self._tokens = 0.0
        self._burst = 0.0
        self._rate = 0.0
        self._at = -1.0

    def tokens(self, window: int, round_trip_s: float, now: float) -> int:
        """Return how many bytes may leave now, at a rate of a window in a round trip."""
        self._rate = GAIN * window / round_trip_s
        self._burst = max(
            float(BURST_DATAGRAMS * self.datagram_bytes), self._rate * BURST_S
        )
        if self._at < 0:
            self._tokens = self._burst
        else:
            self._tokens += self._rate * (now - self._at)
        self._tokens = min(self._tokens, self._burst)
        self._at = now
        return int(self._tokens)

    def spend(self, size: int) -> None:
        """Use tokens for a datagram that was transmitted."""
        if self._at >= 0:
            self._tokens -= size

    def ready_at(self, now: float) -> float:
        """Return when the largest datagram may leave."""
        missing = self.datagram_bytes - self._tokens + 1  # More than the rounding error.
        return now + max(missing, 0.0) / self._rate if self._rate > 0 else now
