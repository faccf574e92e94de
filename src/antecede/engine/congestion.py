"""Congestion control: how many bytes of messages may be in flight to one peer.

A :class:`CongestionController` follows the datagrams of one path. NewReno (RFC 9002,
section 7) and CUBIC (:mod:`antecede.engine.cubic`) enlarge the window until a datagram is
lost; :class:`FixedWindow` does not limit anything beyond the limits of the node.
"""

from abc import abstractmethod
from typing import Final

from antecede.core.process import UNBOUNDED

__all__ = [
    "INITIAL_DATAGRAMS",
    "MINIMUM_DATAGRAMS",
    "CongestionController",
    "FixedWindow",
    "NewReno",
]

INITIAL_DATAGRAMS: Final = 10
"""The initial window, in datagrams of the maximum size (RFC 6928)."""
MINIMUM_DATAGRAMS: Final = 2
LOSS_REDUCTION: Final = 0.5


class CongestionController:
    """The congestion window of one path."""

    __slots__ = ("datagram_bytes", "is_paced", "window")

    window: int
    """How many bytes may be in flight."""
    datagram_bytes: int
    """The largest datagram, the unit of the window."""
    is_paced: bool
    """Whether datagrams are spread over the round trip."""

    @abstractmethod
    def on_acked(
        self, size: int, sent_at: float, round_trip_s: float, is_limited: bool, now: float
    ) -> None:
        """Use an acknowledgement.

        Args:
            size: the bytes that it has removed from the flight.
            sent_at: when the last of these was transmitted.
            round_trip_s: the smoothed round trip.
            is_limited: the window was used up; otherwise it must not grow.
            now: the current time.
        """

    @abstractmethod
    def on_lost(self, sent_at: float, now: float) -> None:
        """Reduce the window, once for all losses of a round trip.

        Args:
            sent_at: when the last lost datagram was transmitted.
            now: the current time.
        """

    @abstractmethod
    def on_marked(self, sent_at: float, now: float) -> None:
        """Reduce the window as for a loss, but permanently: a queue has marked a datagram.

        Args:
            sent_at: the time at which the last datagram was transmitted that may be marked.
            now: the current time.
        """

    @abstractmethod
    def on_spurious_loss(self) -> None:
        """Undo the last reduction: the datagrams were late, not lost."""

    @abstractmethod
    def on_persistent_congestion(self) -> None:
        """Collapse the window: everything was lost for several probe timeouts."""

    @abstractmethod
    def on_idle(self) -> None:
        """Restart: nothing was in flight for a probe timeout."""


class FixedWindow(CongestionController):
    """No congestion control: the limits of the node are the only ones."""

    __slots__ = ()

    def __init__(self) -> None:
        self.window = UNBOUNDED
        self.datagram_bytes = 0
        self.is_paced = False

    def on_acked(
        self, size: int, sent_at: float, round_trip_s: float, is_limited: bool, now: float
    ) -> None:
        pass

    def on_lost(self, sent_at: float, now: float) -> None:
        pass

    def on_marked(self, sent_at: float, now: float) -> None:
        pass

    def on_spurious_loss(self) -> None:
        pass

    def on_persistent_congestion(self) -> None:
        pass

    def on_idle(self) -> None:
        pass


class NewReno(CongestionController):
    """Slow start, then one datagram more each round trip; half after a loss."""

    __slots__ = ("_before", "_credit", "_recovery_at", "_threshold")

    def __init__(self, datagram_bytes: int) -> None:
        self.is_paced = True
        self.window = INITIAL_DATAGRAMS * datagram_bytes
        self.datagram_bytes = datagram_bytes
        self._threshold = UNBOUNDED
        self._recovery_at = -1.0
        self._credit = 0  # The bytes acknowledged since the window has last grown.
        self._before = (0, 0)  # Window and threshold before the last reduction.

    def on_acked(
        self, size: int, sent_at: float, round_trip_s: float, is_limited: bool, now: float
    ) -> None:
        if sent_at <= self._recovery_at or not is_limited:
            return
        if self.window < self._threshold:
            self.window += size
            return
        self._credit += size
        if self._credit >= self.window:
            self._credit -= self.window
            self.window += self.datagram_bytes

    def on_lost(self, sent_at: float, now: float) -> None:
        if sent_at <= self._recovery_at:
            return
        self._before = self.window, self._threshold
        self._recovery_at = now
        minimum = MINIMUM_DATAGRAMS * self.datagram_bytes
        self.window = max(int(self.window * LOSS_REDUCTION), minimum)
        self._threshold = self.window
        self._credit = 0

    def on_marked(self, sent_at: float, now: float) -> None:
        self.on_lost(sent_at, now)
        self._before = (0, 0)

    def on_spurious_loss(self) -> None:
        window, threshold = self._before
        if window > self.window:
            self.window = window
            self._threshold = threshold
        self._recovery_at = -1.0
        self._before = (0, 0)

    def on_persistent_congestion(self) -> None:
        self.window = MINIMUM_DATAGRAMS * self.datagram_bytes
        self._recovery_at = -1.0
        self._before = (0, 0)

    def on_idle(self) -> None:
        self.window = min(self.window, INITIAL_DATAGRAMS * self.datagram_bytes)
