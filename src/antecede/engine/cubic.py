"""CUBIC: the congestion window grows with the cube of the time since a loss (RFC 9438)."""

from typing import Final

from antecede.core.process import UNBOUNDED
from antecede.engine.congestion import (
    INITIAL_DATAGRAMS,
    MINIMUM_DATAGRAMS,
    CongestionController,
)

__all__ = ["Cubic"]

SCALE: Final = 0.4
"""C of RFC 9438, section 4.1, in datagrams per cubic second."""
REDUCTION: Final = 0.7
"""The part of the window that remains after a loss: beta of RFC 9438, section 4.6."""
RENO_GAIN: Final = 3 * (1 - REDUCTION) / (1 + REDUCTION)
"""The growth per window that is as fair as NewReno: alpha of RFC 9438, section 4.3."""
GROWTH_MAX: Final = 1.5
"""The window grows to at most this multiple in a round trip (RFC 9438, section 4.2)."""
NOT_STARTED: Final = -1.0


class Cubic(CongestionController):
    """A window that grows fast far from the window of the last loss, and slowly near it."""

    __slots__ = (
        "_before",
        "_epoch_at",
        "_peak",
        "_prior",
        "_recovery_at",
        "_reno_window",
        "_threshold",
        "_time_to_peak_s",
        "_window",
    )

    def __init__(self, datagram_bytes: int) -> None:
        self.is_paced = True
        self.datagram_bytes = datagram_bytes
        self._window = float(INITIAL_DATAGRAMS * datagram_bytes)
        self.window = int(self._window)
        self._threshold = float(UNBOUNDED)
        self._peak = 0.0  # Where the growth is slowest (W_max).
        self._prior = 0.0  # The window before the last reduction (cwnd_prior).
        self._recovery_at = NOT_STARTED
        self._epoch_at = NOT_STARTED  # When the current growth has begun.
        self._time_to_peak_s = 0.0  # K of RFC 9438.
        self._reno_window = 0.0  # The window of NewReno (W_est).
        self._before = (0.0, 0.0, 0.0)  # Window, threshold, peak before the reduction.

    def on_acked(
        self, size: int, sent_at: float, round_trip_s: float, is_limited: bool, now: float
    ) -> None:
        if sent_at <= self._recovery_at:
            return
        if not is_limited:
            self._epoch_at = NOT_STARTED  # The time without data must not enlarge it.
            return
        if self._window < self._threshold:
            self._window += size
        else:
            self._avoid_congestion(size, round_trip_s, now)
        self.window = int(self._window)

    def _avoid_congestion(self, size: int, round_trip_s: float, now: float) -> None:
        datagram_bytes = self.datagram_bytes
        window = self._window
        if self._epoch_at == NOT_STARTED:
            self._epoch_at = now
            self._reno_window = window
            self._peak = max(self._peak, window)
            self._time_to_peak_s = float(
                ((self._peak - window) / datagram_bytes / SCALE) ** (1 / 3)
            )
        gain = RENO_GAIN if self._reno_window < self._prior else 1.0
        self._reno_window += gain * datagram_bytes * size / window
        after_peak_s = now - self._epoch_at - self._time_to_peak_s
        if self._cubic(after_peak_s) < self._reno_window:
            self._window = max(window, self._reno_window)
            return
        cubic = self._cubic(after_peak_s + round_trip_s)
        target = min(max(cubic, window), GROWTH_MAX * window)
        self._window += (target - window) * size / window

    def _cubic(self, after_peak_s: float) -> float:
        """Return W_cubic of RFC 9438, section 4.2."""
        return self._peak + SCALE * after_peak_s**3 * self.datagram_bytes

    def on_lost(self, sent_at: float, now: float) -> None:
        if sent_at <= self._recovery_at:
            return
        window = self._window
        self._before = window, self._threshold, self._peak
        self._prior = window
        self._recovery_at = now
        self._epoch_at = NOT_STARTED
        if window < self._peak:  # Fast convergence leaves room for new flows.
            self._peak = window * (1 + REDUCTION) / 2
        else:
            self._peak = window
        minimum = MINIMUM_DATAGRAMS * self.datagram_bytes
        self._window = max(window * REDUCTION, float(minimum))
        self._threshold = self._window
        self.window = int(self._window)

    def on_marked(self, sent_at: float, now: float) -> None:
        self.on_lost(sent_at, now)
        self._before = (0.0, 0.0, 0.0)

    def on_spurious_loss(self) -> None:
        window, threshold, peak = self._before
        if window > self._window:
            self._window = window
            self._threshold = threshold
            self._peak = peak
            self.window = int(window)
        self._recovery_at = NOT_STARTED
        self._epoch_at = NOT_STARTED
        self._before = (0.0, 0.0, 0.0)

    def on_persistent_congestion(self) -> None:
        self._window = float(MINIMUM_DATAGRAMS * self.datagram_bytes)
        self.window = int(self._window)
        self._recovery_at = NOT_STARTED
        self._epoch_at = NOT_STARTED
        self._before = (0.0, 0.0, 0.0)

    def on_idle(self) -> None:
        initial = float(INITIAL_DATAGRAMS * self.datagram_bytes)
        self._window = min(self._window, initial)
        self.window = int(self._window)
        self._epoch_at = NOT_STARTED
