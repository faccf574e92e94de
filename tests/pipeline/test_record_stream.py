"""Spans and messages that arrive in any order have the violations of the oracle."""

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa

from antecede.pipeline.verify.event_rows import ProcessNames
from antecede.pipeline.verify.packed_rows import write_blob
from antecede.pipeline.verify.record_stream import RecordStream
from antecede.pipeline.verify.run_result import MessageRecord
from antecede.pipeline.verify.stream_rows import messages_of
from antecede.trace.event import Event, Kind
from antecede.verify.online.state import load_state, save_state
from antecede.verify.online.status import OnlineViolation
from antecede.verify.online.verifier import OnlineVerifier
from antecede.verify.oracle import MessageId
from tests.pipeline.span_runs import SPANS, SpanRun
from tests.verify.test_online import expected

MS = 1_000_000
S = 1_000 * MS


class LocalStream:
    """The verification of one run of records, with the state saved at every step."""

    def __init__(self, kind: str, delay: float) -> None:
        self.stream = RecordStream(kind, delay)
        self.verifier = OnlineVerifier(delay)
        self.names = ProcessNames()
        self.found: list[OnlineViolation] = []
        self.records: dict[MessageId, MessageRecord] = {}
        self.sizes: list[int] = []

    def add(self, rows: pa.Table) -> None:
        self._note(self.stream.add([write_blob_buffer(rows)], self.names, self.verifier))
        self._note(self.verifier.advance(self.stream.opened.now))
        self.stream.forget()
        state = self.stream.save(), save_state(self.verifier)
        self.sizes.append(sum(map(len, state)))
        self.stream, self.verifier = RecordStream.load(state[0]), load_state(state[1])
        assert self.stream.save() == state[0]

    def give_up(self) -> None:
        self._note(self.stream.give_up(self.names, self.verifier))
        self._note(self.verifier.advance(self.stream.opened.now))

    def _note(self, found: list[OnlineViolation]) -> None:
        self.records |= self.stream.find_records(messages_of(found))
        self.found += found

    def keys(self) -> Counter[tuple[str, str, str | None]]:
        """Return by property, process and span of the message the violations."""
        names = self.names.names()
        return Counter(
            (each.property.value, names[each.process], self.records[each.message].span)
            for each in self.found
        )

    @property
    def unknown(self) -> int:
        return self.verifier.counters.unknown["causal"]


def write_blob_buffer(rows: pa.Table) -> pa.Buffer:
    return pa.py_buffer(write_blob(rows))


def true_keys(run: SpanRun) -> Counter[tuple[str, str, str | None]]:
    spans = run.spans()
    return Counter(
        (which.value, f"service-{process}", spans[message.source, message.number])
        for which, process, message in expected(run.events()).elements()
    )


def arrivals(run: SpanRun, jitter_ns: int) -> pa.Table:
    """Return the spans in the order of their true ends, each with a random lateness."""
    table = run.table()
    late = [run.random.randrange(jitter_ns + 1) for _ in range(table.num_rows)]
    ends = table["end_ns"].to_pylist()
    order = sorted(range(table.num_rows), key=lambda i: ends[i] + late[i])
    return table.take(pa.array(order))


def test_spans_in_any_order_of_arrival_have_the_violations_of_the_oracle() -> None:
    violated = 0
    for seed in range(12):
        random = Random(seed)
        run = SpanRun(random, random.randint(2, 6), skew_ns=random.choice((0, 40)) * MS)
        run.add_traces(40, duration_ns=400 * MS)
        stream = LocalStream("spans", delay=0.2)
        rows = arrivals(run, jitter_ns=20 * MS)
        start = 0
        while start < rows.num_rows:
            count = random.randint(1, 60)
            stream.add(rows.slice(start, count))
            start += count
        stream.give_up()
        assert stream.keys() == true_keys(run), seed
        counters = stream.verifier.counters
        assert counters.deliveries == len(run.events()) // 2
        assert (counters.late, stream.unknown) == (0, 0)
        assert stream.stream.to_fields()["records"] == len(run.rows)
        violated += len(stream.found)
    assert violated > 100


def feed(stream: LocalStream, rows: pa.Table, batch_rows: int) -> None:
    for start in range(0, rows.num_rows, batch_rows):
        stream.add(rows.slice(start, batch_rows))
    stream.give_up()


def test_late_spans_make_deliveries_unknown_and_no_violation_false() -> None:
    late = 0
    for seed in range(12):
        run = SpanRun(Random(seed), 4, skew_ns=0)
        run.add_traces(60, duration_ns=2_000 * MS)
        rows = arrivals(run, jitter_ns=400 * MS)
        stream = LocalStream("spans", delay=0.02)
        feed(stream, rows, 10)
        assert not stream.keys() - true_keys(run), seed
        counters = stream.verifier.counters
        assert counters.deliveries <= len(run.events()) // 2 + counters.late
        assert stream.unknown >= counters.late > 0
        late += counters.late
    assert late > 200


def test_equal_timestamps_are_unknown_as_in_a_table() -> None:
    unknown = 0
    for seed in range(6):
        run = SpanRun(Random(seed), 3, skew_ns=0, resolution_ns=MS)
        run.add_traces(60, duration_ns=400 * MS)
        stream = LocalStream("spans", delay=0.2)
        feed(stream, arrivals(run, jitter_ns=20 * MS), 25)
        assert not stream.keys() - true_keys(run), seed
        assert stream.verifier.counters.deliveries == len(run.events()) // 2
        assert stream.verifier.counters.late == 0
        unknown += stream.unknown
    assert unknown > 100


def message_rows(random: Random) -> tuple[list[dict[str, object]], list[Event]]:
    """Return messages, some of which are delivered twice or never, and their events."""
    rows: list[dict[str, object]] = []
    found: list[tuple[int, Event]] = []
    times = iter(random.sample(range(2 * S), 2_000))
    for name in range(60):
        source, *targets = random.sample(range(4), random.randint(2, 4))
        sent = next(times)
        send = Event(
            process=source, kind=Kind.SEND, time=sent / S, source=source, number=name,
            targets=tuple(targets),
        )  # fmt: skip
        found.append((sent, send))
        for target in targets:
            count = random.choice((0, 1, 1, 1, 1, 1, 2))
            received: list[int | None] = [
                sent + random.randrange(100 * MS) for _ in range(count)
            ]
            for time in received or [None]:
                rows.append(
                    {"source": str(source), "target": str(target), "sent_ns": sent,
                     "received_ns": time, "message": str(name)}
                )  # fmt: skip
                if time is not None:
                    event = Event(
                        process=target, kind=Kind.DELIVER, time=time / S, source=source,
                        number=name, target=target,
                    )  # fmt: skip
                    found.append((time, event))
    return rows, [event for _, event in sorted(found, key=lambda each: each[0])]


def test_messages_have_the_violations_of_the_oracle() -> None:
    violated: Counter[str] = Counter()
    for seed in range(8):
        random = Random(seed)
        rows, events = message_rows(random)
        numbers = {each.number: each.source for each in events if each.kind is Kind.SEND}
        rows.sort(key=lambda row: (row["received_ns"] or row["sent_ns"], row["message"]))
        table = pa.Table.from_pylist(rows)
        stream = LocalStream("messages", delay=0.5)
        feed(stream, table, random.randint(5, 50))
        names = stream.names.names()
        found = Counter(
            (each.property, int(names[each.process]), stream.records[each.message].name)
            for each in stream.found
        )
        truth = Counter(
            (which, process, str(message.number))
            for which, process, message in expected(events).elements()
        )
        assert all(
            numbers[int(stream.records[each.message].name or "")]
            == int(names[each.message.source])
            for each in stream.found
        )
        assert found == truth, seed
        assert stream.verifier.counters.late == 0
        violated.update(which.value for which, *_ in found.elements())
    assert set(violated) == {"causal", "fifo", "no-duplication"}


def span(
    trace: str, name: str, parent: str | None, process: str, start_s: float, end_s: float
) -> dict[str, object]:
    kind = "server" if parent is not None and parent.startswith("c") else "client"
    times = {"start_ns": round(start_s * S), "end_ns": round(end_s * S)}
    ids = {"trace": trace, "span": name, "parent": parent, "process": process}
    return {**ids, "kind": kind, **times}


def spans(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SPANS)


def test_a_call_that_timed_out_is_dropped_with_a_cycle_over_several_groups() -> None:
    # The call c1 of a ends at 2, and its span s1 at b is served after the message of c2,
    # which a sent after the timeout. So the reply of s1 did not end c1. The requests of c1
    # and c2 are certain, and b delivers them in the wrong order.
    first = spans(span("t1", "c1", None, "a", 1, 2), span("t1", "s1", "c1", "b", 4.0, 4.5))
    second = spans(
        span("t2", "c2", None, "a", 2.5, 8), span("t2", "s2", "c2", "b", 3.5, 3.8)
    )
    marker = spans(span("t3", "c3", None, "z", 60, 61))
    stream = LocalStream("spans", delay=2)
    stream.add(first)
    stream.add(second)
    # The group t1 is closed, and its events wait for t2.
    fields = stream.stream.to_fields()
    assert fields == {"records": 4, "unread": 0, "open": 2, "waiting": 3}
    stream.add(marker)
    fields = stream.stream.to_fields()
    assert fields == {"records": 5, "unread": 0, "open": 1, "waiting": 0}
    assert (stream.verifier.counters.deliveries, stream.unknown) == (4, 1)
    assert stream.keys() == Counter({("causal", "b", "c2"): 1, ("fifo", "b", "c2"): 1})


def test_an_event_waits_for_open_groups_and_a_group_is_closed_in_any_case() -> None:
    delay = 10.0
    stream = LocalStream("spans", delay)
    # The group g has a record every 8 s, so it is never quiet for 10 s.
    stream.add(spans(span("g", "s0", "x", "a", 1, 2)))
    stream.add(spans(span("h", "c1", None, "a", 3, 5), span("h", "s1", "c1", "b", 3.5, 4)))
    for number in range(1, 6):
        at = 8.0 * number
        stream.add(spans(span("g", f"s{number}", "x", "a", at, at + 0.5)))
    # At 40.5, which is 38.5 s after its first record, the group g is still open.
    assert stream.stream.opened.table.num_rows == 6
    assert stream.verifier.counters.deliveries == 0
    assert stream.stream.waiting.table.num_rows == 4
    # At 48.5, it is closed.
    stream.add(spans(span("k", "s9", "x", "a", 48, 48.5)))
    counters = stream.verifier.counters
    # Two deliveries of the call in h, and an unknown request of each span of g.
    assert (counters.deliveries, stream.unknown) == (8, 6)
    # Its next record is late: its trace was closed.
    stream.add(spans(span("g", "s10", "x", "a", 49, 49.5)))
    assert (stream.verifier.counters.late, stream.unknown) == (1, 7)


def test_the_state_is_bounded_by_the_watermark() -> None:
    run = SpanRun(Random(1), 4, skew_ns=0)
    run.add_traces(600, duration_ns=12_000 * MS)
    stream = LocalStream("spans", delay=0.5)
    feed(stream, arrivals(run, jitter_ns=100 * MS), 40)
    half = len(stream.sizes) // 2
    assert len(stream.stream.opened.closed_key) < 200
    assert max(stream.sizes[half:]) < 1.3 * max(stream.sizes[half // 2 : half])
    assert stream.verifier.counters.late == 0


def test_records_that_cannot_be_read_are_counted() -> None:
    stream = LocalStream("spans", delay=1)
    bad = span("t", "c", None, "a", 1, 2) | {"process": None}
    stream.add(spans(bad))
    assert stream.stream.to_fields()["unread"] == 1
    assert not np.isfinite(stream.stream.opened.now)
    stream.add(spans(bad, span("t", "c", None, "a", 1, 2)))
    assert stream.stream.to_fields()["unread"] == 2
    assert stream.stream.opened.now == 2.0


def sent_rows(*rows: tuple[str, str, float, float]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"source": source, "target": target, "sent_ns": round(sent * S),
             "received_ns": round(received * S)}
            for source, target, sent, received in rows
        ]
    )  # fmt: skip


def test_a_late_send_is_not_placed_after_the_sends_that_were_emitted() -> None:
    stream = LocalStream("messages", delay=10)
    stream.add(sent_rows(("c", "d", 8, 50)))
    # The send at 8 is emitted, and its delivery waits for the open message to d.
    stream.add(sent_rows(("e", "d", 29, 30), ("f", "f", 64, 65)))
    assert stream.verifier.counters.messages == 1
    assert stream.stream.waiting.table.num_rows == 1
    # It would violate FIFO if c had sent it after the first one.
    stream.add(sent_rows(("c", "d", 5, 40)))
    stream.add(sent_rows(("c", "d", 90, 91)))
    stream.add(sent_rows(("f", "f", 104, 105)))
    assert not stream.found
    counters = stream.verifier.counters
    assert (counters.late, counters.messages, counters.deliveries) == (1, 4, 5)
    # The late message is unknown, and for one that c sent later, whether c delivered
    # or sent another one before it.
    assert counters.unknown == {
        "causal": 2, "fifo": 2, "no-duplication": 1, "no-creation": 1,
    }  # fmt: skip


def test_an_event_is_emitted_although_earlier_events_may_come() -> None:
    stream = LocalStream("spans", delay=10)
    stream.add(spans(span("h", "c1", None, "a", 3, 5), span("h", "s1", "c1", "b", 3.5, 4)))
    waiting = []
    for end in range(16, 72, 8):
        stream.add(spans(span(f"g{end}", "s", "x", "a", 1, end)))
        waiting.append(stream.stream.waiting.table.num_rows)
    # The group h is closed at 16; 4 watermarks later, its events are emitted.
    assert waiting == [4, 4, 4, 4, 4, 4, 0]
    assert stream.verifier.counters.deliveries >= 2
