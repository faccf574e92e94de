"""Spans and messages that arrive in any order have the violations of the oracle."""

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from antecede.pipeline.verify.event_rows import ProcessNames
from antecede.pipeline.verify.packed_rows import write_blob
from antecede.pipeline.verify.record_stream import RecordStream
from antecede.pipeline.verify.run_result import MessageRecord
from antecede.pipeline.verify.stream_rows import messages_of
from antecede.verify.online.state import load_state, save_state
from antecede.verify.online.status import OnlineViolation
from antecede.verify.online.verifier import OnlineVerifier
from antecede.verify.oracle import MessageId
from tests.pipeline.span_runs import NS, START, SpanRun
from tests.verify.test_online import expected

MS = 1_000_000


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
