"""A simulated graph of services: its spans by skewed clocks, and its true events.

A service handles requests concurrently. A call ends when its reply arrives, or at a
timeout; then the caller may call again, in a span of its own or in the same span. A reply
that arrives after the timeout is not delivered.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from antecede.trace.event import Event, Kind
from tests.ingest.foreign_samples import MS

TIMEOUT = 100.0
"""In milliseconds, as all times here."""
SKEW_MAX = 10_000.0

Copy = tuple[str, str]
"""A message to one target: ``request`` or ``reply``, and the id of the called span."""


@dataclass(frozen=True, kw_only=True)
class TimedSpan:
    """A span with the true times of its start and its end."""

    id: str
    parent: str | None
    process: int
    kind: str
    start: float
    end: float


@dataclass
class ServiceGraph:
    """Runs random requests, and records their spans and messages."""

    seed: int
    services: int = 4
    has_timeouts: bool = True
    hides_timeouts: bool = False
    """Whether a timed-out call may have a called span that is shorter than itself."""
    spans: list[TimedSpan] = field(default_factory=list)
    late: int = 0
    """The number of calls that timed out."""
    repeated: int = 0
    """The number of spans with two attempts of a call."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._sends: list[tuple[float, int, Copy, int]] = []
        self._deliveries: list[tuple[float, int, Copy]] = []
        self._ids: Iterator[str] = (f"s{number}" for number in range(1_000_000))
        for _ in range(12):
            self._call(
                self._random.randrange(self.services), None, self._uniform(0, 300), 3
            )
        self.skew = [self._uniform(-SKEW_MAX, SKEW_MAX) for _ in range(self.services)]

    @property
    def copies(self) -> int:
        """The number of requests and replies."""
        return len(self._sends)

    def to_csv(self) -> str:
        """Return the spans with the times of the clocks of their processes."""
        lines = ["trace,span,parent,process,kind,start,end"]
        for span in self.spans:
            start, end = (
                round((time + self.skew[span.process] + 10**12) * MS)
                for time in (span.start, span.end)
            )
            parent = span.parent or "root"
            lines.append(f"t,{span.id},{parent},p{span.process},{span.kind},{start},{end}")
        return "\n".join(lines)

    def true_events(self) -> tuple[list[Event], dict[tuple[int, int], Copy]]:
        """Return all events in the order of true time, and the copy of each message."""
        numbers: Counter[int] = Counter()
        message: dict[Copy, tuple[int, int]] = {}
        targets = {copy: target for _, _, copy, target in self._sends}
        every = [(time, p, Kind.SEND, copy) for time, p, copy, _ in self._sends]
        every += [(time, p, Kind.DELIVER, copy) for time, p, copy in self._deliveries]
        events = []
        for _, process, kind, copy in sorted(every, key=lambda each: each[0]):
            if kind is Kind.SEND:
                numbers[process] += 1
                message[copy] = (process, numbers[process])
            source, number = message[copy]
            to = (targets[copy],) if kind is Kind.SEND else None
            events.append(
                Event(process=process, kind=kind, source=source, number=number, targets=to)
            )
        return events, {each: copy for copy, each in message.items()}

    def _call(self, caller: int, parent: str | None, start: float, depth: int) -> float:
        """Call a service; return the end of the call, after repeated attempts."""
        span = next(self._ids)
        end, is_late = self._attempt(caller, span, start, depth)
        again = self._random.random() if is_late else 1.0
        if again < 0.3:
            self.repeated += 1
            end, _ = self._attempt(caller, span, end + self._uniform(0.01, 1), depth)
        self.spans.append(
            TimedSpan(
                id=span, parent=parent, process=caller, kind="client", start=start, end=end
            )
        )
        if 0.3 <= again < 0.8 and depth:
            return self._call(caller, parent, end + self._uniform(0.01, 1), depth - 1)
        return end

    def _attempt(
        self, caller: int, client: str, start: float, depth: int
    ) -> tuple[float, bool]:
        """Send a request; return the end of the attempt, and whether it timed out."""
        span = next(self._ids)
        others = [each for each in range(self.services) if each != caller]
        callee = self._random.choice(others)
        begin = start + self._uniform(0.1, 30)
        end = self._serve(callee, span, begin, depth)
        arrival = end + self._uniform(0.1, 30)
        is_late = self.has_timeouts and arrival > start + TIMEOUT
        if is_late and not self.hides_timeouts and end - begin <= TIMEOUT:
            end = begin + TIMEOUT + self._uniform(0.1, 50)
        self._sends.append((start, caller, ("request", span), callee))
        self._deliveries.append((begin, callee, ("request", span)))
        self._sends.append((end, callee, ("reply", span), caller))
        if not is_late:
            self._deliveries.append((arrival, caller, ("reply", span)))
        self.spans.append(
            TimedSpan(
                id=span, parent=client, process=callee, kind="server", start=begin, end=end
            )
        )
        self.late += is_late
        return (start + TIMEOUT if is_late else arrival), is_late

    def _serve(self, process: int, span: str, start: float, depth: int) -> float:
        """Handle a request, with calls in turn or at once; return the end."""
        time = start + self._uniform(0.1, 10)
        if self._random.random() < 0.1:
            time += self._uniform(100, 300)
        calls = self._random.randrange(3) if depth else 0
        if self._random.random() < 0.5:
            begins = [time + self._uniform(0, 5) for _ in range(calls)]
            ends = [self._call(process, span, begin, depth - 1) for begin in begins]
            time = max([time, *ends])
        else:
            for _ in range(calls):
                time = self._call(process, span, time, depth - 1) + self._uniform(0.01, 3)
        return time + self._uniform(0.1, 10)

    def _uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
