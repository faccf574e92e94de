"""Retransmission timers: one policy for every protocol and for the link layer.

A :class:`RetransmissionTimer` waits for one kind of answer from one peer. Its timeout
follows the measured round trips (RFC 6298: a smoothed mean plus four deviations) and
doubles each time it expires. An answer to a retransmitted frame is not a sample, because
it is unknown which transmission it answers; so the doubled timeout stays until the next
sample (Karn), or the timer would never adapt to a path that has become slower. Before its
first sample, a timer uses the :class:`SharedRttEstimate` of the process's other peers. A
:class:`TimerQueue` finds the timer that is due.

Time is an argument everywhere; this module reads no clock.
"""

from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from math import nextafter
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.process import NEVER
from antecede.errors import ConfigError

__all__ = ["RetransmissionPolicy", "RetransmissionTimer", "SharedRttEstimate", "TimerQueue"]

GAIN_MEAN: Final = 0.125
"""The weight of a sample in the mean: alpha of RFC 6298, section 2."""
GAIN_DEVIATION: Final = 0.25
"""The weight of a sample in the deviation: beta of RFC 6298, section 2."""
DEVIATIONS: Final = 4.0
"""The number of deviations that a timeout adds: K of RFC 6298, section 2."""
GAIN_SHARED: Final = 1 / 64
"""The weight of a lower timeout in the shared estimate: so small that a slow peer with one
sample in a few dozen still counts."""


@dataclass(frozen=True, kw_only=True)
class RetransmissionPolicy:
    """The limits of all retransmission timeouts, in seconds."""

    initial_s: float = 1.0
    """The timeout before the first sample from any peer (RFC 6298, section 2.1)."""
    minimum_s: float = 0.01
    """The minimum, above the timer resolution and the scheduling noise of a host."""
    maximum_s: float = 60.0
    """The maximum, which ends the doubling (RFC 6298, section 2.5)."""
    patience: float = 1.0
    """How many timeouts a timer waits; more than one if the driver detects losses, so that
    timers only cover what it does not detect."""

    def __post_init__(self) -> None:
        if not 0 < self.minimum_s <= self.initial_s <= self.maximum_s < NEVER:
            raise ConfigError(
                "retransmission needs 0 < minimum_s <= initial_s <= maximum_s, got"
                f" {self.minimum_s}, {self.initial_s}, {self.maximum_s}"
            )
        if not 1 <= self.patience < NEVER:
            raise ConfigError(f"patience must be at least 1, got {self.patience}")


class SharedRttEstimate:
    """The first timeout of a new peer, from the samples of the process's other peers.

    Without it, the first lost frame to each peer would cost a second, even if all peers
    are near. It is the longest timeout that recent samples led to: it rises at once and
    falls slowly, because a timeout that is too short for a distant peer causes
    unnecessary frames. RFC 9040 lets connections share measurements in the same way.
    """

    __slots__ = ("_learned", "first_s", "policy")

    policy: RetransmissionPolicy
    first_s: float
    """The timeout of a peer without a sample; at most the policy's ``initial_s``."""

    def __init__(self, policy: RetransmissionPolicy | None = None) -> None:
        self.policy = policy if policy is not None else RetransmissionPolicy()
        self.first_s = self.policy.initial_s
        self._learned = False

    def learn(self, timeout_s: float) -> None:
        """Update the estimate by the timeout that a sample of some peer led to."""
        if timeout_s >= self.first_s or not self._learned:
            self.first_s = min(timeout_s, self.policy.initial_s)
            self._learned = True
        else:
            self.first_s -= GAIN_SHARED * (self.first_s - timeout_s)


@mypyc_attr(acyclic=True)
class RetransmissionTimer:
    """An adaptive timeout for one kind of answer from one peer."""

    __slots__ = (
        "_deviation",
        "_mean",
        "_rtt_estimate",
        "_timeout",
        "deadline",
        "owner",
        "queued",
    )

    owner: int
    """The purpose of the timer, a number that the creator chooses."""
    deadline: float
    """The time of expiry; infinite if the timer is stopped."""
    queued: float
    """The earliest time of its entries in a :class:`TimerQueue`."""

    def __init__(self, rtt_estimate: SharedRttEstimate, owner: int) -> None:
        self.owner = owner
        self.deadline = NEVER
        self.queued = NEVER
        self._rtt_estimate = rtt_estimate
        self._mean = -1.0
        self._deviation = 0.0
        self._timeout = 0.0  # 0: that of the shared estimate.

    @property
    def timeout_s(self) -> float:
        """The current timeout, with the doublings since the last sample."""
        return self._timeout if self._timeout > 0 else self._rtt_estimate.first_s

    @property
    def round_trip_s(self) -> float:
        """The smoothed round trip, or -1 before the first sample."""
        return self._mean

    def sample(self, round_trip_s: float) -> None:
        """Use the round trip of a frame that was transmitted once."""
        if self._mean < 0:
            self._mean = round_trip_s
            self._deviation = round_trip_s / 2
        else:
            error = round_trip_s - self._mean
            self._deviation += GAIN_DEVIATION * (abs(error) - self._deviation)
            self._mean += GAIN_MEAN * error
        wanted = self._mean + DEVIATIONS * self._deviation
        policy = self._rtt_estimate.policy
        self._timeout = min(max(wanted, policy.minimum_s), policy.maximum_s)
        self._rtt_estimate.learn(self._timeout)

    def restart(self, now: float) -> None:
        """Set the deadline to a timeout from ``now``."""
        policy = self._rtt_estimate.policy
        self.deadline = now + min(self.timeout_s * policy.patience, policy.maximum_s)
        if self.deadline <= now:  # The timeout is below the precision of ``now``.
            self.deadline = nextafter(now, NEVER)

    def stop(self) -> None:
        """Stop the timer."""
        self.deadline = NEVER

    def expire(self, now: float) -> None:
        """Double the timeout and restart, because no answer came."""
        self._timeout = min(2 * self.timeout_s, self._rtt_estimate.policy.maximum_s)
        self.restart(now)


class TimerQueue:
    """The running timers of one process, ordered by deadline.

    A timer that is restarted or stopped keeps its old entry, which is corrected when its
    time comes; so a timer that is restarted with each message costs one queue operation
    per timeout, not one per message.
    """

    __slots__ = ("_earliest", "_first", "_heap", "_serial")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, RetransmissionTimer]] = []
        self._serial = 0
        # The result of next_deadline, until that timer is restarted.
        self._first: RetransmissionTimer | None = None
        self._earliest = NEVER

    def schedule(self, timer: RetransmissionTimer) -> None:
        """Add ``timer``, or move it forward; call this after each restart."""
        if timer.deadline < timer.queued:
            timer.queued = timer.deadline
            self._serial += 1
            heappush(self._heap, (timer.deadline, self._serial, timer))
            if timer.deadline < self._earliest:
                self._earliest = timer.deadline
                self._first = timer

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, or None if no timer runs."""
        first = self._first
        if first is not None and first.deadline == self._earliest:
            return self._earliest
        heap = self._heap
        while heap:
            entry, _, timer = heap[0]
            if entry != timer.queued or timer.deadline == NEVER:
                heappop(heap)  # It has an earlier entry, or is stopped.
                if entry == timer.queued:
                    timer.queued = NEVER
            elif timer.deadline > entry:
                timer.queued = timer.deadline
                self._serial += 1
                heapreplace(heap, (timer.deadline, self._serial, timer))
            else:
                self._first = timer
                self._earliest = entry
                return entry
        self._first = None
        self._earliest = NEVER
        return None

    def due(self, now: float) -> RetransmissionTimer | None:
        """Return a timer that has expired at ``now``, or None; the caller restarts it."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        return self._first
