"""The network that recorded traffic went over, as far as a trace tells.

One-way delays cannot be had: clocks differ. But of a message from P to Q and a later one
from Q to P the *sum* of both can, since what the one clock is ahead is added to the one
delay and taken from the other: from the first send to the second delivery by P's clock,
less the time from the first delivery to the second send by Q's. That is a round trip, and
a delay is taken to be half of one. Halving evens out the two ways, so that single delays
vary more than what is found here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from antecede.core.support.keyed_random import begin, stir
from antecede.sim.delay import parse_delay
from antecede.sim.simulate import Scenario
from antecede.trace.event import Event, Kind

__all__ = ["Delays", "find_delays", "round_trips", "scaled", "typical_delay"]

SAMPLES_MIN = 20
"""Fewer round trips tell nothing of how they vary."""
SIGMA_MAX = 2.0
"""More spread than this is not the network's: half of all frames would take longer than
four times, or less than a quarter of, what is usual."""
NORMAL_P90 = 1.2816
"""How many deviations the 90th percentile of a normal distribution lies above its mean."""
TIMES = {"constant": 1, "lognormal": 1, "geographic": 2}
"""How many of its parameters are times; of other distributions, all."""
DRAWS = 1001


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long frames take, and how that is known."""

    delay: str
    """In the words of ``antecede simulate --delay``."""
    origin: str
    """Where it comes from: ``trace``, ``given`` or ``default``."""
    samples: int = 0
    """How many round trips the trace has."""

    def __str__(self) -> str:
        """Say it in a line."""
        if self.origin == "trace":
            how = f"half of the round trips in the trace, {self.samples:,} of them"
        elif self.origin == "given":
            how = "as given"
        elif self.samples:
            how = f"the default: {self.samples:,} round trips in the trace do not tell it"
        else:
            how = "the default: the trace tells no round trip; --delay sets it"
        return f"delay {self.delay} ({how})"


def find_delays(events: Sequence[Event], given: str | None = None) -> Delays:
    """Return the delays to simulate: those given, the trace's, or the default.

    Raise ConfigError if what is given is no delay.
    """
    if given is not None:
        parse_delay(given)
        return Delays(delay=given, origin="given")
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

    A message is paired with the last one that came the other way before it was sent, if
    there is one that is in no pair yet. That is a request and a reply; where several are
    under way it may be another's, which makes no difference to what the two add up to. Some
    may be negative where timestamps are coarse.
    """
    sent: dict[tuple[int, int], float] = {}
    heard: dict[tuple[int, int], list[float]] = {}
    pending: dict[tuple[int, int, int], float] = {}
    found: list[float] = []
    for event in events:
        source, number, process = event.source, event.number, event.process
        if source is None or number is None:
            continue
        if event.kind is Kind.SEND:
            sent[source, number] = event.time
            for target in event.targets or ():
                forth = heard.get((target, process))
                if forth:
                    pending[source, number, target] = forth.pop()
        elif event.kind is Kind.DELIVER and (source, number) in sent:
            lead = event.time - sent[source, number]
            if (source, number, process) in pending:
                found.append(pending.pop((source, number, process)) + lead)
            else:
                heard.setdefault((source, process), []).append(lead)
    return found


def scaled(delay: str, factor: float) -> str:
    """Return a delay so many times as long, in the same words."""
    name, colon, rest = delay.partition(":")
    if not colon:
        name, rest = "constant", delay
    values = rest.split(",")
    times = TIMES.get(name, len(values))
    values[:times] = [f"{factor * float(value):.6g}" for value in values[:times]]
    return name + colon + ",".join(values) if colon else values[0]


def typical_delay(delay: str) -> float:
    """Return the median of a delay, over some draws between two processes."""
    model = parse_delay(delay)
    state = begin(0)
    return median(model.draw(0, 1, stir(state, draw)) for draw in range(DRAWS))
