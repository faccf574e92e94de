"""The violations of a run by pair of processes and by time: all, not only those listed.

A violation of causal or FIFO order has three processes: the process that delivered the
message too early, the source of that message, and the source of the message that should
have been delivered first: the *late message*. Of several late messages, the one that the
process delivered last counts. A violation of another property has two processes: the
process, and the source of the message.

The time of a violation is that of the delivery that came too early, twice, or without a
send; of liveness, that of the send.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, inf, log10

from antecede.verify.oracle import Property

__all__ = [
    "BUCKETS_MAX",
    "Buckets",
    "OvertakingCount",
    "PairCount",
    "ViolationBreakdown",
    "choose_buckets",
]

BUCKETS_MAX = 60
"""The most buckets of a timeline: a chart has about ten pixels for each."""
OVERTAKINGS_MAX = 1000
"""The most overtakings of a property: there may be as many as violations."""
STEPS = (1, 2, 5)
"""The width of a bucket is one of these times a power of ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Equal parts of the time of a run, or of its events in their order."""

    by_time: bool
    """Whether buckets divide seconds; otherwise events, because the run has no times."""
    first: int
    """The start of the first bucket, in widths."""
    width: float
    count: int

    def start(self, index: int) -> float:
        """Return the start of a bucket, in seconds or events."""
        # A width is a decimal fraction: a quotient is closer to the decimal than a product.
        scale = 1 / self.width
        if self.width < 1 and abs(scale - round(scale)) < 1e-6:
            return (self.first + index) / round(scale)
        return (self.first + index) * self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCount:
    """The number of violations of a property by messages from a source to a process."""

    property: Property
    source: int
    """The source of the late message; of other properties than causal and fifo, of the
    message that was delivered twice, without being sent, or never."""
    process: int
    """The process at which the property is violated."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OvertakingCount:
    """The number of violations of an order by the same three processes."""

    property: Property
    """causal or fifo."""
    late_source: int
    """The source of the late message."""
    source: int
    """The source of the message that was delivered too early."""
    process: int
    """The process that delivered both."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationBreakdown:
    """The numbers of violations by pair of processes, and by time."""

    pairs: tuple[PairCount, ...]
    """By property, the pairs with the most violations first."""
    overtakings: tuple[OvertakingCount, ...]
    """By property, the most frequent ones first; at most :data:`OVERTAKINGS_MAX` each."""
    buckets: Buckets
    deliveries: tuple[int, ...]
    """By bucket, the number of deliveries."""
    timeline: Mapping[Property, tuple[int, ...]]
    """Of each property with violations, the number in each bucket."""

    def times(self) -> dict[str, object]:
        """Return the numbers by time as JSON values; ``starts`` has one more than parts."""
        buckets = self.buckets
        return {
            "unit": "seconds" if buckets.by_time else "events",
            "starts": [buckets.start(index) for index in range(buckets.count + 1)],
            "deliveries": list(self.deliveries),
            "violations": {each.value: list(n) for each, n in self.timeline.items()},
        }


def choose_buckets(lowest: float, highest: float, *, by_time: bool) -> Buckets:
    """Return at most :data:`BUCKETS_MAX` buckets from the lowest to the highest value."""
    width = inf
    exponent = floor(log10(max(highest - lowest, 1e-9) / BUCKETS_MAX))
    for power in (exponent, exponent + 1):
        for step in STEPS:
            width = step * 10.0**power if power >= 0 else step / 10.0**-power
            if not by_time:
                width = max(1.0, width)
            first = floor(lowest / width)
            count = floor(highest / width) - first + 1
            if count <= BUCKETS_MAX:
                return Buckets(by_time=by_time, first=first, width=width, count=count)
    raise AssertionError(f"no width for {lowest} to {highest}")
