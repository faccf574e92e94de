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
from math import nextafter
from typing import Final

from mypy_extensions import i64, mypyc_attr

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
        "position",
        "queued",
        "serial",
    )

    owner: int
    """The purpose of the timer, a number that the creator chooses."""
    deadline: float
    """The time of expiry; infinite if the timer is stopped."""
    queued: float
    """Its time in the :class:`TimerQueue`, infinite if it is in none."""
    serial: i64
    """Orders the timers of the same time."""
    position: i64
    """Its position in the heap of the queue."""

    def __init__(self, rtt_estimate: SharedRttEstimate, owner: int) -> None:
        self.owner = owner
        self.deadline = NEVER
        self.queued = NEVER
        self.serial = 0
        self.position = 0
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

    A timer that is restarted or stopped keeps its place, which is corrected when it is the
    first one. The queue is a heap of timers: compiled code compares their times without
    objects, unlike those of tuples in :mod:`heapq`.
    """

    __slots__ = ("_earliest", "_first", "_heap", "_serial")

    def __init__(self) -> None:
        self._heap: list[RetransmissionTimer] = []
        self._serial: i64 = 0
        # The result of first_deadline, until that timer is restarted.
        self._first: RetransmissionTimer | None = None
        self._earliest = NEVER

    def schedule(self, timer: RetransmissionTimer) -> None:
        """Add ``timer``, or move it forward; call this after each restart."""
        deadline = timer.deadline
        if deadline < timer.queued:
            if timer.queued == NEVER:
                timer.position = len(self._heap)
                self._heap.append(timer)
            timer.queued = deadline
            self._serial += 1
            timer.serial = self._serial
            self._move_up(timer)
            if deadline < self._earliest:
                self._earliest = deadline
                self._first = timer

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, or None if no timer runs."""
        deadline = self.first_deadline()
        return deadline if deadline < NEVER else None

    def first_deadline(self) -> float:
        """Return the earliest deadline, infinite if no timer runs."""
        first = self._first
        if first is not None and first.deadline == self._earliest:
            return self._earliest
        heap = self._heap
        while heap:
            timer = heap[0]
            deadline = timer.deadline
            if deadline == NEVER:
                timer.queued = NEVER
                last = heap.pop()
                if last is not timer:
                    self._move_down(last)
            elif deadline > timer.queued:
                timer.queued = deadline
                self._serial += 1
                timer.serial = self._serial
                self._move_down(timer)
            else:
                self._first = timer
                self._earliest = deadline
                return deadline
        self._first = None
        self._earliest = NEVER
        return NEVER

    def due(self, now: float) -> RetransmissionTimer | None:
        """Return a timer that has expired at ``now``, or None; the caller restarts it."""
        return self._first if self.first_deadline() <= now else None

    def _move_up(self, timer: RetransmissionTimer) -> None:
        """Move a timer in the heap up to its place; it has the highest serial."""
        heap = self._heap
        position = timer.position
        time = timer.queued
        while position > 0:
            above = (position - 1) // 2
            other = heap[above]
            if other.queued <= time:
                break
            heap[position] = other
            other.position = position
            position = above
        heap[position] = timer
        timer.position = position

    def _move_down(self, timer: RetransmissionTimer) -> None:
        """Put a timer in the place of the first one of the heap, and move it down."""
        heap = self._heap
        time = timer.queued
        serial = timer.serial
        position: i64 = 0
        below: i64 = 1
        end: i64 = len(heap)
        while below < end:
            other = heap[below]
            if below + 1 < end:
                right = heap[below + 1]
                if right.queued < other.queued or (
                    right.queued == other.queued and right.serial < other.serial
                ):
                    other = right
                    below += 1
            if time < other.queued or (time == other.queued and serial < other.serial):
                break
            heap[position] = other
            other.position = position
            position = below
            below = 2 * position + 1
        heap[position] = timer
        timer.position = position
