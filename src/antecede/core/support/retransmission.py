"""When to transmit again: one policy for every protocol and for the link layer.

A :class:`RetransmissionTimer` waits for one kind of answer from one peer. Its time-out
follows the round trips it has seen (RFC 6298: a smoothed mean plus four deviations) and
doubles each time it expires. An answer to something transmitted twice is never a sample,
because nobody knows which of the two it answers; so the doubled time-out stays until there
is a sample again (Karn), or a path that has become slower would never be learned.
Before a pair has a sample of its own, it begins with the :class:`Experience` that the
process has of its other peers. A :class:`TimerQueue` tells which of many timers is due.

Time is an argument everywhere; nothing here reads a clock.
"""

from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from math import nextafter
from typing import Final

from mypy_extensions import mypyc_attr

from antecede.core.process import NEVER
from antecede.errors import ConfigError

__all__ = ["Experience", "RetransmissionPolicy", "RetransmissionTimer", "TimerQueue"]

GAIN_MEAN: Final = 0.125
"""How fast the smoothed round trip follows a sample: alpha of RFC 6298, section 2."""
GAIN_DEVIATION: Final = 0.25
"""How fast the deviation follows a sample: beta of RFC 6298, section 2."""
DEVIATIONS: Final = 4.0
"""How many deviations a time-out adds to the mean: K of RFC 6298, section 2."""
GAIN_EXPERIENCE: Final = 1 / 64
"""How fast experience forgets a slow peer: one that answers one frame in a few dozen
still counts."""


@dataclass(frozen=True, kw_only=True)
class RetransmissionPolicy:
    """The limits of every retransmission time-out, in seconds."""

    initial_s: float = 1.0
    """The time-out before the first sample of any peer (RFC 6298, section 2.1)."""
    minimum_s: float = 0.01
    """The floor: above the timer resolution and the scheduling noise of one host."""
    maximum_s: float = 60.0
    """The ceiling that doubling ends at (RFC 6298, section 2.5)."""

    def __post_init__(self) -> None:
        """Raise ConfigError unless 0 < minimum <= initial <= maximum < infinity."""
        if not 0 < self.minimum_s <= self.initial_s <= self.maximum_s < NEVER:
            raise ConfigError(
                "retransmission needs 0 < minimum_s <= initial_s <= maximum_s, got"
                f" {self.minimum_s}, {self.initial_s}, {self.maximum_s}"
            )


class Experience:
    """How long one kind of answer has taken a process's peers: where a new pair begins.

    Without it, the first frame that is lost on the way to each peer would cost a second,
    however near all peers are. It is the longest time-out that samples have led to
    lately: it rises at once and falls slowly, since a time-out that is too short for a far
    peer makes frames that nobody needs. RFC 9040 lets connections share what they have
    measured in the same way.
    """

    __slots__ = ("_learned", "first_s", "policy")

    policy: RetransmissionPolicy
    first_s: float
    """The time-out of a pair without a sample; at most the policy's ``initial_s``."""

    def __init__(self, policy: RetransmissionPolicy | None = None) -> None:
        """Start with no experience, hence with ``initial_s``."""
        self.policy = policy if policy is not None else RetransmissionPolicy()
        self.first_s = self.policy.initial_s
        self._learned = False

    def learn(self, timeout_s: float) -> None:
        """Learn the time-out that a sample of some peer has led to."""
        if timeout_s >= self.first_s or not self._learned:
            self.first_s = min(timeout_s, self.policy.initial_s)
            self._learned = True
        else:
            self.first_s -= GAIN_EXPERIENCE * (self.first_s - timeout_s)


@mypyc_attr(acyclic=True)
class RetransmissionTimer:
    """A time-out that learns, for one kind of answer from one peer."""

    __slots__ = (
        "_deviation",
        "_experience",
        "_mean",
        "_timeout",
        "deadline",
        "owner",
        "queued",
    )

    owner: int
    """What the timer is for; whoever made it knows what the number means."""
    deadline: float
    """When it expires; infinite while it is stopped."""
    queued: float
    """The earliest time under which a :class:`TimerQueue` has filed it."""

    def __init__(self, experience: Experience, owner: int) -> None:
        """Make a stopped timer that has seen no round trip."""
        self.owner = owner
        self.deadline = NEVER
        self.queued = NEVER
        self._experience = experience
        self._mean = -1.0
        self._deviation = 0.0
        self._timeout = 0.0  # As experience tells, until it expires or has a sample.

    @property
    def timeout_s(self) -> float:
        """The time-out in force, with the doublings since the last sample."""
        return self._timeout if self._timeout > 0 else self._experience.first_s

    @property
    def round_trip_s(self) -> float:
        """The smoothed round trip, or -1 before the first sample."""
        return self._mean

    def sample(self, round_trip_s: float) -> None:
        """Learn from an answer to something that was transmitted once."""
        if self._mean < 0:
            self._mean = round_trip_s
            self._deviation = round_trip_s / 2
        else:
            error = round_trip_s - self._mean
            self._deviation += GAIN_DEVIATION * (abs(error) - self._deviation)
            self._mean += GAIN_MEAN * error
        wanted = self._mean + DEVIATIONS * self._deviation
        policy = self._experience.policy
        self._timeout = min(max(wanted, policy.minimum_s), policy.maximum_s)
        self._experience.learn(self._timeout)

    def restart(self, now: float) -> None:
        """Count anew: there was progress, or there is something to wait for again."""
        self.deadline = now + self.timeout_s
        if self.deadline <= now:  # The clock's numbers are too large for such a step.
            self.deadline = nextafter(now, NEVER)

    def stop(self) -> None:
        """Wait for nothing."""
        self.deadline = NEVER

    def expire(self, now: float) -> None:
        """Double the time-out and count anew: the answer did not come."""
        self._timeout = min(2 * self.timeout_s, self._experience.policy.maximum_s)
        self.restart(now)


class TimerQueue:
    """The running timers of one process, earliest first.

    A timer that is put off or stopped stays filed under its old time, and is looked at
    again when that time comes; so a timer that progress keeps putting off costs one queue
    operation per time-out, not one per message.
    """

    __slots__ = ("_earliest", "_first", "_heap", "_serial")

    def __init__(self) -> None:
        """Start with no timer."""
        self._heap: list[tuple[float, int, RetransmissionTimer]] = []
        self._serial = 0
        # The answer to next_deadline, for as long as that timer is not put off.
        self._first: RetransmissionTimer | None = None
        self._earliest = NEVER

    def file(self, timer: RetransmissionTimer) -> None:
        """See to it that ``timer`` is found by its deadline."""
        if timer.deadline < timer.queued:
            timer.queued = timer.deadline
            self._serial += 1
            heappush(self._heap, (timer.deadline, self._serial, timer))
            if timer.deadline < self._earliest:
                self._earliest = timer.deadline
                self._first = timer

    def next_deadline(self) -> float | None:
        """Tell the earliest deadline, or None if no timer runs."""
        first = self._first
        if first is not None and first.deadline == self._earliest:
            return self._earliest
        heap = self._heap
        while heap:
            filed, _, timer = heap[0]
            if filed != timer.queued or timer.deadline == NEVER:
                heappop(heap)  # Filed earlier elsewhere, or stopped.
                if filed == timer.queued:
                    timer.queued = NEVER
            elif timer.deadline > filed:
                timer.queued = timer.deadline
                self._serial += 1
                heapreplace(heap, (timer.deadline, self._serial, timer))
            else:
                self._first = timer
                self._earliest = filed
                return filed
        self._first = None
        self._earliest = NEVER
        return None

    def due(self, now: float) -> RetransmissionTimer | None:
        """Return a timer that has expired at ``now``, or None; restart or stop it."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        return self._first
