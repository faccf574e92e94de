"""Samples of foreign files: the same spans in every format, and random logs."""

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from antecede.ingest import IngestedRun, IngestedVerdict, ReadOptions, ingest
from antecede.trace.event import Event, Kind
from antecede.trace.reader import read_trace
from antecede.verify.verifier import verify_trace

MS = 1_000_000
START = 1_700_000_000_000 * MS


@dataclass(frozen=True, kw_only=True)
class Span:
    """A span, with times in milliseconds after START."""

    id: str
    parent: str | None = None
    process: str
    kind: str | None
    begin: int
    end: int
    trace: str = "t"


SHOP_SPANS = (
    Span(id="a", process="shop", kind="server", begin=0, end=90),
    Span(id="b", parent="a", process="shop", kind="client", begin=10, end=80),
    Span(id="c", parent="b", process="stöck", kind="server", begin=50, end=70),
    Span(id="d", parent="a", process="shop", kind="client", begin=20, end=60),
    Span(id="e", parent="d", process="stöck", kind="server", begin=30, end=40),
)
"""Shop calls stöck twice, by b and then by d; the request of d overtakes that of b."""

SHOP_HISTORIES = {
    "shop": [
        ("local", None), ("send", "shop:1"), ("send", "shop:2"), ("deliver", "stöck:1"),
        ("deliver", "stöck:2"), ("local", None),
    ],
    "stöck": [
        ("deliver", "shop:2"), ("send", "stöck:1"), ("deliver", "shop:1"),
        ("send", "stöck:2"),
    ],
}  # fmt: skip
"""The histories of SHOP_SPANS."""


def jaeger(spans: Sequence[Span]) -> str:
    """Return a Jaeger document, with the processes after the spans."""
    names = list(dict.fromkeys(span.process for span in spans))
    found = [
        {
            "traceID": span.trace,
            "spanID": span.id,
            "operationName": f"do {span.id}",
            "references": []
            if span.parent is None
            else [{"refType": "CHILD_OF", "traceID": span.trace, "spanID": span.parent}],
            "startTime": (START + span.begin * MS) // 1000,
            "duration": (span.end - span.begin) * 1000,
            "tags": []
            if span.kind is None
            else [{"key": "span.kind", "type": "string", "value": span.kind}],
            "processID": f"p{names.index(span.process)}",
        }
        for span in spans
    ]
    processes = {f"p{n}": {"serviceName": name} for n, name in enumerate(names)}
    trace = {"traceID": spans[0].trace, "spans": found, "processes": processes}
    return json.dumps({"data": [trace], "total": 0}, indent=1, ensure_ascii=False)


def zipkin_spans(spans: Sequence[Span]) -> list[dict[str, object]]:
    """Return spans in the format of Zipkin."""
    found = []
    for span in spans:
        each: dict[str, object] = {
            "traceId": span.trace,
            "id": span.id,
            "timestamp": (START + span.begin * MS) // 1000,
            "duration": (span.end - span.begin) * 1000,
            "localEndpoint": {"serviceName": span.process},
        }
        if span.parent is not None:
            each["parentId"] = span.parent
        if span.kind is not None:
            each["kind"] = span.kind.upper()
        found.append(each)
    return found


def zipkin(spans: Sequence[Span]) -> str:
    """Return a Zipkin document."""
    return json.dumps(zipkin_spans(spans), indent=1, ensure_ascii=False)


def otlp(spans: Sequence[Span]) -> str:
    """Return OTLP JSON with one line per process, as the file exporter writes it."""
    kinds = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
    lines = []
    for name in dict.fromkeys(span.process for span in spans):
        found = [
            {
                "traceId": span.trace,
                "spanId": span.id,
                "parentSpanId": span.parent or "",
                "name": f"do {span.id}",
                "kind": 0 if span.kind is None else kinds[span.kind],
                "startTimeUnixNano": str(START + span.begin * MS),
                "endTimeUnixNano": str(START + span.end * MS),
            }
            for span in spans
            if span.process == name
        ]
        attribute = {"key": "service.name", "value": {"stringValue": name}}
        resource = {
            "resource": {"attributes": [attribute]},
            "scopeSpans": [{"scope": {}, "spans": found}],
        }
        lines.append(json.dumps({"resourceSpans": [resource]}, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def span_csv(spans: Sequence[Span]) -> str:
    """Return a CSV with the columns of the Nezha data set, and the kind."""
    header = (
        "TraceID,SpanID,ParentID,PodName,OperationName,SpanKind,"
        "StartTimeUnixNano,EndTimeUnixNano,Duration"
    )
    lines = [
        f'{span.trace},{span.id},{span.parent or "root"},{span.process},"do, {span.id}",'
        f"{span.kind or ''},{START + span.begin * MS},{START + span.end * MS},0"
        for span in spans
    ]
    return "\n".join([header, *lines]) + "\n"


SPAN_FORMATS = {"jaeger": jaeger, "zipkin": zipkin, "otlp": otlp, "spancsv": span_csv}

MESSAGES_CSV = """source,target,sent,received
shop,stock,10,50
shop,stock,20,30
stock,shop,40,60
"""
"""The second message of shop overtakes the first."""

SHIVIZ = """Start
alice {"alice":1}
Send
alice {"alice":2}
Got it
bob {"bob":1, "alice":2}
Answer
bob {"bob":2, "alice":2}
Got answer
alice {"alice":3, "bob":2}
"""
"""Alice sends a message to bob, who replies."""


def write_sample(path: Path, text: str) -> Path:
    """Write a file, gzipped if its name ends in .gz."""
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def ingest_file(path: Path, out: Path, **options: object) -> IngestedRun:
    """Ingest a file with one run."""
    (ingested,) = ingest([path], out, options=ReadOptions(**options))  # type: ignore[arg-type]
    summary = ingested.summary
    assert summary.records == summary.verified + summary.unknown
    return ingested


def verify_file(path: Path, out: Path, **options: object) -> IngestedVerdict:
    """Ingest a file with one run, and verify it."""
    ingested = ingest_file(path, out, **options)
    return IngestedVerdict(
        trace_verdict=verify_trace(ingested.directory), ingested=ingested
    )


def events(ingested: IngestedRun) -> list[Event]:
    """Return the events of the trace, without a last one for an unknown number."""
    found = list(read_trace(ingested.directory).events())
    is_mark = found[-1].kind is Kind.MISSING and found[-1].number is None
    return found[:-1] if is_mark else found


def histories(ingested: IngestedRun) -> dict[str, list[tuple[str, str | None]]]:
    """Return the history of each process, with the names of the file."""
    names = read_trace(ingested.directory).info.names
    found: dict[str, list[tuple[str, str | None]]] = {name: [] for name in names.values()}
    for event in events(ingested):
        message = None
        if event.source is not None:
            message = f"{names[event.source]}:{event.number}"
        found[names[event.process]].append((event.kind.value, message))
    return found


def clocks_by_messages(ingested: IngestedRun) -> dict[int, dict[str, int]]:
    """Compute vector clocks from the messages of a trace; return them by line.

    Rows of one line are one event.
    """
    draft = ingested.written.table
    first = {int(p): int(draft.process.searchsorted(p)) for p in set(draft.process)}
    names = read_trace(ingested.directory).info.names
    here: dict[int, dict[str, int]] = {}
    last: dict[int, int] = {}
    carried: dict[tuple[int | None, int | None], dict[str, int]] = {}
    clocks: dict[int, dict[str, int]] = {}
    seqs = dict.fromkeys(first, 0)
    for event in events(ingested):
        clock, name = here.setdefault(event.process, {}), names[event.process]
        line = int(draft.line[first[event.process] + seqs[event.process]])
        seqs[event.process] += 1
        if event.kind is Kind.DELIVER:
            for process, count in carried[event.source, event.number].items():
                clock[process] = max(count, clock.get(process, 0))
        if last.get(event.process) != line:
            clock[name] = clock.get(name, 0) + 1
        last[event.process] = line
        if event.kind is Kind.SEND:
            carried[event.source, event.number] = dict(clock)
        clocks[line] = dict(clock)
    return clocks


@dataclass
class LoggedEvent:
    """An event of a random log."""

    process: str
    clock: dict[str, int]
    token: str | None = None
    is_receive: bool = False
    cause: "LoggedEvent | None" = field(default=None, repr=False)


def random_log(seed: int, *, processes: int = 4, steps: int = 60) -> list[LoggedEvent]:
    """Return a log of processes that randomly send, receive and have local events."""
    chance = random.Random(seed)
    clocks: dict[str, dict[str, int]] = {f"p{n}": {} for n in range(processes)}
    in_transit: list[tuple[str, LoggedEvent]] = []
    log: list[LoggedEvent] = []
    for step in range(steps):
        action = chance.choice(("local", "send", "send", "receive"))
        process = chance.choice(list(clocks))
        event = LoggedEvent(process, {})
        if action == "receive" and in_transit:
            target, send = in_transit.pop(chance.randrange(len(in_transit)))
            event = LoggedEvent(target, {}, send.token, True, send)
            for each, count in send.clock.items():
                clocks[target][each] = max(count, clocks[target].get(each, 0))
        elif action == "send":
            event.token = f"token {step}"
            others = [name for name in clocks if name != process]
            in_transit.append((chance.choice(others), event))
        own = clocks[event.process]
        own[event.process] = own.get(event.process, 0) + 1
        event.clock = dict(own)
        log.append(event)
    return log


def as_shiviz(log: Sequence[LoggedEvent]) -> str:
    """Return a log in the format of GoVector."""
    return "".join(
        f"event {index}\n{event.process} {json.dumps(event.clock)}\n"
        for index, event in enumerate(log)
    )


def as_tracechecker(log: Sequence[LoggedEvent]) -> str:
    """Return a log in the format of the tracing library."""
    return "".join(tracechecker_line(event) for event in log)


def tracechecker_line(event: LoggedEvent) -> str:
    """Return one event in the format of the tracing library."""
    tag = "Something"
    body: Mapping[str, str] = {}
    if event.token is not None:
        tag = "ReceiveTokenTrace" if event.is_receive else "GenerateTokenTrace"
        body = {"Token": event.token}
    fields = {
        "TracerIdentity": event.process,
        "TraceID": 1,
        "Tag": tag,
        "Body": body,
        "VectorClock": event.clock,
    }
    return json.dumps(fields, ensure_ascii=False) + "\n"


def changed(spans: Sequence[Span], span_id: str, **changes: object) -> list[Span]:
    """Return the spans with one of them changed."""
    return [replace(s, **changes) if s.id == span_id else s for s in spans]  # type: ignore[arg-type]
