"""Random runs of services as spans, with skewed clocks, and the events they stand for."""

from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random

import pyarrow as pa

from antecede.trace.event import Event, Kind

NS = 1_000_000_000
START = 1_700_000_000 * NS
STEP_AT = 5 * NS
SPANS = pa.schema(
    [
        ("trace", pa.string()),
        ("span", pa.string()),
        ("parent", pa.string()),
        ("process", pa.string()),
        ("kind", pa.string()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
    ]
)
OWNERS = {"span": "trace", "parent": "trace", "trace": None, "message": "source"}
"""By id, the column in which it is unique."""


@dataclass
class SpanRun:
    """A random run: requests pass from service to service, and replies come back."""

    random: Random
    services: int
    skew_ns: int
    """The greatest difference of a clock from the true time."""
    drift: float = 0.0
    """The greatest change of that difference, per time that passes."""
    resolution_ns: int = 1
    """The recorded times are multiples of it."""
    step_ns: int = 0
    """The greatest step forward of a clock, at :data:`STEP_AT`."""
    rows: list[dict[str, object]] = field(default_factory=list)
    _truth: list[tuple[int, int, str, int]] = field(default_factory=list)
    """The true time, the service, the kind and the message of each event."""
    _messages: int = 0
    _senders: list[str] = field(default_factory=list)
    """By message, the span that sent it."""

    def __post_init__(self) -> None:
        self._offsets = [
            self.random.randint(-self.skew_ns, self.skew_ns) for _ in range(self.services)
        ]
        self._drifts = [
            self.random.uniform(-self.drift, self.drift) for _ in range(self.services)
        ]
        self._steps = [0] * self.services
        if self.step_ns:
            self._steps = [self.random.randint(0, self.step_ns) for _ in self._steps]

    def add_traces(self, count: int, *, duration_ns: int, first_ns: int = 0) -> None:
        """Add traces that begin at random times within a duration."""
        for _ in range(count):
            service = self.random.randrange(self.services)
            begin = first_ns + self.random.randrange(duration_ns)
            self._serve(f"t{len(self.rows)}", None, service, begin, depth=0)

    def _serve(
        self, trace: str, parent: str | None, service: int, begin: int, depth: int
    ) -> int:
        """Add the span of a request, with all calls in it; return its end."""
        span = f"s{len(self.rows)}"
        row: dict[str, object] = {"trace": trace, "span": span, "parent": parent}
        self.rows.append(row)
        at = begin + self._pause()
        for _ in range(self.random.choice((0, 1, 1, 2)) if depth < 3 else 0):
            at = self._call(trace, span, service, at, depth) + self._pause()
        row.update(process=f"service-{service}", kind="server")
        row.update(start_ns=self._clock(service, begin), end_ns=self._clock(service, at))
        return at

    def _call(self, trace: str, parent: str, service: int, begin: int, depth: int) -> int:
        others = [each for each in range(self.services) if each != service]
        target = self.random.choice(others)
        span = f"s{len(self.rows)}"
        row: dict[str, object] = {"trace": trace, "span": span, "parent": parent}
        self.rows.append(row)
        request, reply = self._messages, self._messages + 1
        self._messages += 2
        self._senders += [span, f"s{len(self.rows)}"]
        arrived = begin + self._delay()
        served = self._serve(trace, span, target, arrived, depth + 1)
        end = served + self._delay()
        self._truth += [
            (begin, service, "send", request),
            (arrived, target, "deliver", request),
            (served, target, "send", reply),
            (end, service, "deliver", reply),
        ]
        row.update(process=f"service-{service}", kind="client")
        row.update(start_ns=self._clock(service, begin), end_ns=self._clock(service, end))
        return end

    def _pause(self) -> int:
        return self.random.randint(1, 200_000)

    def _delay(self) -> int:
        """Return the time that a message takes; a few take much longer."""
        return self.random.randint(10_000, 300_000) * self.random.choice((1, 1, 1, 10))

    def _clock(self, service: int, time: int) -> int:
        """Return a true time by the clock of a service."""
        shown = time + self._offsets[service] + round(time * self._drifts[service])
        shown += self._steps[service] if time > STEP_AT else 0
        return (START + shown) // self.resolution_ns * self.resolution_ns

    def table(self) -> pa.Table:
        """Return the spans, in random order."""
        rows = self.random.sample(self.rows, len(self.rows))
        return pa.Table.from_pylist(rows, schema=SPANS)

    def _sends(self) -> dict[int, tuple[int, int]]:
        """Return by message the true time and the service of its send."""
        return {m: (time, p) for time, p, kind, m in self._truth if kind == "send"}

    def _numbers(self) -> dict[int, int]:
        numbers: dict[int, int] = {}
        counts = dict.fromkeys(range(self.services), 0)
        for message, (_, service) in sorted(
            self._sends().items(), key=lambda item: item[1]
        ):
            counts[service] += 1
            numbers[message] = counts[service]
        return numbers

    def spans(self) -> dict[tuple[int, int], str]:
        """Return by service and number of a message the span that sent it."""
        sent = self._sends()
        return {
            (sent[message][1], number): self._senders[message]
            for message, number in self._numbers().items()
        }

    def events(self) -> list[Event]:
        """Return the true events, in the true order."""
        sent, numbers = self._sends(), self._numbers()
        target = {m: p for _, p, kind, m in self._truth if kind == "deliver"}
        return [
            Event(
                process=service,
                kind=Kind(kind),
                time=time / NS,
                source=sent[m][1],
                number=numbers[m],
                target=target[m] if kind == "deliver" else None,
                targets=(target[m],) if kind == "send" else None,
            )
            for time, service, kind, m in sorted(self._truth)
        ]


def with_hashed_ids(records: pa.Table) -> pa.Table:
    """Return spans or messages with hashes as ids, as Spark makes them for a bucket."""
    for name, owner in OWNERS.items():
        if name in records.schema.names:
            owners = records[owner].to_pylist() if owner else [""] * records.num_rows
            found = [
                None if text is None else _hash(above, text)
                for above, text in zip(owners, records[name].to_pylist(), strict=True)
            ]
            index = records.schema.get_field_index(name)
            records = records.set_column(index, name, pa.array(found, pa.int64()))
    return records


def _hash(*texts: object) -> int:
    digest = blake2b(repr(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
