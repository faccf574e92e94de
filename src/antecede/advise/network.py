"""Estimate the delays of the network that recorded traffic went over.

One-way delays cannot be measured, because clocks differ. But for a message from P to Q and
a later one from Q to P, the *sum* of both delays can, since the offset between the clocks
is added to one and subtracted from the other: it is the time from the first send to the
second delivery by P's clock, minus the time from the first delivery to the second send by
Q's. That is a round trip, and half of it is the estimate of a delay. Halving averages the
two directions, so single delays vary more than the estimates.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from antecede.core.support.keyed_random import fold_in, key
from antecede.sim.delay import parse_delay
from antecede.sim.simulate import Scenario
from antecede.trace.event import Event, Kind

__all__ = ["Delays", "find_delays", "round_trips", "scaled", "typical_delay"]

SAMPLES_MIN = 20
"""Fewer round trips do not show how they vary."""
SIGMA_MAX = 2.0
"""A larger spread is not the network's: half of all frames would take longer than four
times, or less than a quarter of, the median."""
NORMAL_P90 = 1.2816
"""The 90th percentile of the standard normal distribution."""
TIMES = {"constant": 1, "lognormal": 1, "geographic": 2}
"""The number of leading parameters that are times; for other distributions, all."""
DRAWS = 1001


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """The distribution of delays, and its origin."""

    delay: str
    """In the syntax of ``antecede simulate --delay``."""
    origin: str
    """``trace``, ``option`` or ``default``."""
    samples: int = 0
    """The number of round trips in the trace."""

    def __str__(self) -> str:
        if self.origin == "trace":
            origin = f"half of the {self.samples:,} round trips in the trace"
        elif self.origin == "option":
            origin = "from --delay"
        elif self.samples:
            origin = f"default: {self.samples:,} round trips in the trace are too few"
        else:
            origin = "default: the trace has no round trips; set --delay"
        return f"delay {self.delay} ({origin})"


def find_delays(events: Sequence[Event], option: str | None = None) -> Delays:
    """Return the delays to simulate: the option, those of the trace, or the default.

    Raises:
        ConfigError: The option is not a valid delay.
    """
    if option is not None:
        parse_delay(option)
        return Delays(delay=option, origin="option")
    found = sorted(round_trips(events))
    if not any(found):  # The trace has no times.
        found = []
    middle = median(found) if found else 0.0
    if len(found) < SAMPLES_MIN or middle <= 0:
        return Delays(delay=Scenario().delay, origin="default", samples=len(found))
    high = found[9 * len(found) // 10]
    sigma = min(log(high / middle) / NORMAL_P90, SIGMA_MAX)
    return Delays(
        delay=f"lognormal:{middle / 2:.3g},{sigma:.3g}",
        origin="trace",
        samples=len(found),
    )


def round_trips(events: Iterable[Event]) -> list[float]:
    """Return the round trips of a run, in seconds, each from two messages.

    A message is paired with the last unpaired message in the opposite direction that was
    delivered before its send. Usually these are a request and a reply; with several
    requests in flight it may be another request, but the sum of all round trips is the
    same. Some may be negative if timestamps are coarse.
    """
    sent: dict[tuple[int, int], float] = {}
    unpaired: dict[tuple[int, int], list[float]] = {}
    pending: dict[tuple[int, int, int], float] = {}
    found: list[float] = []
    for event in events:
        source, number, process = event.source, event.number, event.process
        if source is None or number is None:
            continue
        if event.kind is Kind.SEND:
            sent[source, number] = event.time
            for target in event.targets or ():
                requests = unpaired.get((target, process))
                if requests:
                    pending[source, number, target] = requests.pop()
        elif event.kind is Kind.DELIVER and (source, number) in sent:
            # The delay plus the offset between the two clocks.
            difference = event.time - sent[source, number]
            if (source, number, process) in pending:
                found.append(pending.pop((source, number, process)) + difference)
            else:
                unpaired.setdefault((source, process), []).append(difference)
    return found


def scaled(delay: str, factor: float) -> str:
    """Return a delay that is ``factor`` times as long, in the same syntax."""
    name, colon, rest = delay.partition(":")
    if not colon:
        name, rest = "constant", delay
    values = rest.split(",")
    times = TIMES.get(name, len(values))
    values[:times] = [f"{factor * float(value):.6g}" for value in values[:times]]
    return name + colon + ",".join(values) if colon else values[0]


def typical_delay(delay: str) -> float:
    """Return the median of a delay between two processes, by sampling."""
    model = parse_delay(delay)
    state = key(0)
    return median(model.draw(0, 1, fold_in(state, draw)) for draw in range(DRAWS))
