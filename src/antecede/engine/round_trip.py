"""The round trip to one peer, estimated from acknowledged datagrams (RFC 9002, section 5).

A sample is the time from the transmission of a datagram to its acknowledgement. The peer
reports how long it held the acknowledgement back, and the estimate leaves that out, unless
the result would be below the shortest sample.
"""

from typing import Final

__all__ = ["GRANULARITY_S", "RoundTrip"]

GRANULARITY_S: Final = 0.001
"""The resolution of the timers of a driver (RFC 9002, section 6.1.2)."""


class RoundTrip:
    """The smoothed round trip to one peer, and its deviation."""

    __slots__ = ("deviation_s", "latest_s", "shortest_s", "smoothed_s")

    smoothed_s: float
    """The weighted mean of the samples; -1 before the first."""
    deviation_s: float
    """The weighted mean of their distances from the smoothed round trip."""
    latest_s: float
    shortest_s: float

    def __init__(self) -> None:
        self.smoothed_s = -1.0
        self.deviation_s = 0.0
        self.latest_s = 0.0
        self.shortest_s = 0.0

    def sample(self, sample_s: float, ack_delay_s: float) -> None:
        """Use the time until a datagram was acknowledged.

        Args:
            sample_s: the time from its transmission to the arrival of the acknowledgement.
            ack_delay_s: how long the peer has held the acknowledgement back.
        """
        self.latest_s = sample_s
        if self.smoothed_s < 0:
            self.shortest_s = sample_s
            self.smoothed_s = sample_s
            self.deviation_s = sample_s / 2
            return
        self.shortest_s = min(self.shortest_s, sample_s)
        adjusted_s = sample_s
        if sample_s - ack_delay_s >= self.shortest_s:
            adjusted_s -= ack_delay_s
        error_s = abs(self.smoothed_s - adjusted_s)
        self.deviation_s += (error_s - self.deviation_s) / 4
        self.smoothed_s += (adjusted_s - self.smoothed_s) / 8

    def forget_shortest(self) -> None:
        """Begin with the last sample: the path has changed (RFC 9002, section 5.2)."""
        self.shortest_s = self.latest_s

    def timeout_s(self, ack_delay_max_s: float) -> float:
        """Return the maximum time until an answer, estimated from the samples."""
        deviations_s = max(4 * self.deviation_s, GRANULARITY_S)
        return self.smoothed_s + deviations_s + ack_delay_max_s
