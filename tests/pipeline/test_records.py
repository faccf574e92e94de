"""Long runs of spans in buckets and slices have the verdicts of the oracle."""

from dataclasses import replace
from random import Random
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from antecede.pipeline.records.bucket_events import infer_bucket
from antecede.pipeline.records.clock_offsets import find_offsets
from antecede.pipeline.records.cut_refinement import CutSearch
from antecede.pipeline.records.run_summary import RunSummary, merge_summaries
from antecede.pipeline.records.slice_task import arrange_slice
from antecede.pipeline.records.slices import (
    Dropped,
    SlicePlan,
    cut_events,
    split_bucket,
    to_blob,
)
from antecede.pipeline.verify.event_rows import EventLoader, ProcessNames
from antecede.pipeline.verify.spooled_run import SpooledRun
from antecede.trace.event import Event
from antecede.trace.run_info import RunInfo
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.oracle import MessageId, Property, Verdict, verify_events
from antecede.verify.verdict import TraceVerdict
from antecede.verify.verifier import verify_trace
from tests.pipeline.local_cuts import local_search
from tests.pipeline.span_runs import SpanRun, with_hashed_ids
from tests.verify.test_verifier import deliver, send

MS = 1_000_000
ORDERS = (Property.CAUSAL, Property.FIFO)


class LocalRun:
    """The stages of a long run in this process, without Spark."""

    def __init__(self, records: pa.Table, buckets: int, kind: str = "spans") -> None:
        keys = records["trace" if kind == "spans" else "message"].to_pylist()
        bucket = np.array([crc32(key.encode()) % buckets for key in keys])
        hashed = with_hashed_ids(records)
        found = [
            infer_bucket(hashed.filter(pa.array(bucket == each)), kind)
            for each in np.unique(bucket)
        ]
        self.blobs = [
            pa.py_buffer(to_blob(events, number, names))
            for number, (events, names, _) in enumerate(found)
        ]
        self.events = sum(events.num_rows for events, _, _ in found)
        texts = [summary.to_json() for _, _, summary in found]
        self.sends: list[tuple[int, int]] = []
        """The source and the number of each message."""
        self.summary: RunSummary = merge_summaries(texts, kind)

    def search(self, names: tuple[str, ...], units: Longs, slice_events: int) -> CutSearch:
        numbers = {name: number for number, name in enumerate(names)}
        buckets = [cut_events(blob, numbers) for blob in self.blobs]
        return local_search(buckets, units, slice_events)

    def plan(self, slices: int) -> SlicePlan:
        slice_events = -(-self.events // slices)
        plan = self.summary.plan("run", self.events, slice_events)
        found = self.search(plan.names, plan.units, slice_events).find(plan.frontier)
        return replace(plan, frontier=found.frontier)

    def arrange(
        self, plan: SlicePlan, dropped: Dropped, *, find: bool
    ) -> tuple[list[pa.Table], Dropped, bool]:
        """Return the rows of all slices, the messages to drop, and whether to repeat it."""
        parts: dict[int, list[pa.Buffer]] = {}
        for blob in self.blobs:
            for each, part in split_bucket(blob, dropped, plan):
                parts.setdefault(each, []).append(pa.py_buffer(part))
        tables, again = [], False
        found = dict(dropped)
        for each in sorted(parts):
            arranged = arrange_slice(parts[each], plan, find_ambiguous=find)
            again |= arranged.crosses
            for bucket, messages in arranged.dropped.items():
                found[bucket] = np.union1d(found.get(bucket, messages[:0]), messages)
            if arranged.rows is not None:
                tables.append(arranged.rows)
        return tables, found, again

    def verify(self, slices: int) -> TraceVerdict:
        """Return the verdict, with the steps of the driver."""
        plan = self.plan(slices)
        tables, dropped, again = self.arrange(plan, {}, find=True)
        while again:
            tables, dropped, again = self.arrange(plan, dropped, find=False)
        loader = EventLoader(ProcessNames(), "run")
        with SpooledRun(RunInfo(run="r", complete=True)) as run:
            for table in tables:
                is_send = np.array(table["kind"].to_pylist()) == "send"
                sent = table.filter(pa.array(is_send))
                pairs = zip(sent["source"], sent["number"], strict=True)
                self.sends += [(a.as_py(), b.as_py()) for a, b in pairs]
                run.add(loader.convert(table.combine_chunks()))
            run.finish()
            # A table that is not a linear extension would be sorted by time, which fails.
            return verify_trace(run, violations_max=10**6)


def early_deliveries(found: Verdict | TraceVerdict) -> set[tuple[Property, int, MessageId]]:
    """Return the deliveries that violate a property: where, and of which message."""
    return {(each.property, each.process, each.message) for each in found.violations}


def true_names(
    found: set[tuple[Property, int, MessageId]], local: LocalRun
) -> set[tuple[Property, int, MessageId]]:
    """Return deliveries with the services and the numbers of the true events."""
    service = [int(name.removeprefix("service-")) for name in local.summary.names]
    numbers = sorted(local.sends)
    first = {source: index for index, (source, _) in reversed(list(enumerate(numbers)))}

    def message(which: MessageId) -> MessageId:
        index = numbers.index((which.source, which.number))
        return MessageId(service[which.source], index - first[which.source] + 1)

    return {(each, service[process], message(which)) for each, process, which in found}


@pytest.mark.parametrize(
    ("skew_ns", "drift", "step_ns"),
    [
        (0, 0.0, 0),
        (3 * MS, 0.0, 0),
        (10**12, 0.0, 0),
        (MS, 0.0005, 0),
        (10**12, 0.0005, 10**13),
    ],
)
@pytest.mark.parametrize("seed", range(6))
def test_slices_have_the_verdict_of_the_oracle(
    seed: int, skew_ns: int, drift: float, step_ns: int
) -> None:
    random = Random(seed)
    services = random.randint(2, 6)
    run = SpanRun(random, services, skew_ns, drift, step_ns=step_ns)
    run.add_traces(random.randint(5, 60), duration_ns=20 * MS)
    # Until then, the drift of two clocks can be 10 ms, and clocks step. Spans are too short
    # for a drift.
    run.add_traces(random.randint(5, 60), duration_ns=20 * MS, first_ns=10_000 * MS)
    expected = verify_events(run.events())
    assert expected.violations
    local = LocalRun(run.table(), random.randint(1, 5))
    assert local.events == 2 * expected.messages
    found = local.verify(random.randint(1, 12))
    assert found.deliveries == expected.deliveries
    actual = true_names(early_deliveries(found), local)
    assert actual == early_deliveries(expected)
    assert found.counts[Property.CAUSAL] + found.counts[Property.FIFO] == len(actual)


def random_messages(random: Random, count: int) -> tuple[pa.Table, list[Event]]:
    """Return messages with clocks that differ, drift and step, and the true events."""
    processes = random.randint(2, 6)
    skew = [random.randint(-(10**12), 10**12) for _ in range(processes)]
    drift = [random.uniform(0.5, 2) for _ in range(processes)]
    step = [(random.randrange(1000 * MS), random.choice([0, 10**13])) for _ in skew]

    def clock(process: int, time: int) -> int:
        at, length = step[process]
        shown = round(time * drift[process]) + (length if time > at else 0)
        return 10**18 + skew[process] + shown

    rows: list[dict[str, object]] = []
    timed: list[tuple[int, int, int, int, list[int] | None]] = []
    for index in range(count):
        source, sent = random.randrange(processes), random.randrange(1000 * MS)
        others = [p for p in range(processes) if p != source]
        targets = random.sample(others, random.randint(1, min(3, len(others))))
        timed.append((sent, source, index, source, targets))
        for target in targets:
            got = sent + random.randint(1, random.choice([MS, MS, 100 * MS]))
            timed.append((got, target, index, source, None))
            names = {"source": f"service-{source}", "target": f"service-{target}"}
            times = {"sent_ns": clock(source, sent), "received_ns": clock(target, got)}
            rows.append({"message": f"m{index}", **names, **times})
    events: list[Event] = []
    numbers: dict[int, int] = {}
    counts = [0] * processes
    for _, process, index, source, sent_to in sorted(timed, key=lambda each: each[0]):
        if sent_to is not None:
            counts[source] += 1
            numbers[index] = counts[source]
            events.append(send(source, numbers[index], *sent_to))
        else:
            events.append(deliver(process, source, numbers[index]))
    return pa.Table.from_pylist(random.sample(rows, len(rows))), events


@pytest.mark.parametrize("seed", range(12))
def test_messages_have_the_verdict_of_the_oracle_whatever_the_clocks_show(
    seed: int,
) -> None:
    random = Random(seed)
    rows, events = random_messages(random, random.randint(20, 120))
    expected = verify_events(events)
    assert expected.violations
    local = LocalRun(rows, random.randint(1, 5), "messages")
    found = local.verify(random.randint(4, 20))
    assert found.deliveries == expected.deliveries
    assert true_names(early_deliveries(found), local) == early_deliveries(expected)


@pytest.mark.parametrize("slices", [1, 7])
def test_no_ambiguous_event_remains_after_the_messages_are_dropped(slices: int) -> None:
    run = SpanRun(Random(2), 4, 5 * MS, resolution_ns=MS // 20)
    run.add_traces(80, duration_ns=60 * MS)
    local = LocalRun(run.table(), 6)
    plan = local.plan(slices)
    _, dropped, _ = local.arrange(plan, {}, find=True)
    assert dropped
    tables, remaining, again = local.arrange(plan, dropped, find=True)
    assert not again
    assert {bucket: list(found) for bucket, found in remaining.items()} == {
        bucket: list(found) for bucket, found in dropped.items()
    }
    kept = sum(table.num_rows for table in tables)
    assert 0 < kept < local.events
    # The deliveries of a dropped message are dropped, too.
    assert local.verify(slices).counts[Property.NO_CREATION] == 0


def test_offsets_of_constant_skew_leave_no_lead() -> None:
    random = Random(5)
    true = np.array([random.randint(-(10**12), 10**12) for _ in range(30)])
    pairs = [(p, q) for p in range(30) for q in random.sample(range(30), 8)]
    source, target = np.array(pairs).T
    delay = np.array([random.randint(0, 10**6) for _ in pairs])
    lead = true[source] - true[target] - delay
    offsets = find_offsets(30, source, target, lead)
    remote = source != target
    assert np.all((offsets[source] + lead <= offsets[target])[remote])


def test_offsets_leave_the_least_lead_if_clocks_drift() -> None:
    # Each of the two is ahead of the other at some time: by 900 and by 300.
    first, second = find_offsets(
        2, np.array([0, 1]), np.array([1, 0]), np.array([900, 300])
    ).tolist()
    left = max(900 - (second - first), 300 - (first - second))
    assert 600 <= left <= 610
    assert not find_offsets(
        2, np.array([], int), np.array([], int), np.array([], int)
    ).any()


def test_messages_of_different_traces_that_form_a_cycle_are_dropped() -> None:
    def span(name: str, parent: str | None, process: str, start: int) -> dict[str, object]:
        row = {"trace": name[0], "span": name, "parent": parent, "process": process}
        kind = "client" if parent is None else "server"
        end = start + (60 if parent is None else 5)
        return {**row, "kind": kind, "start_ns": start * MS, "end_ns": end * MS}

    # By the clock of a, the request of trace 1 is sent after that of trace 2 is received;
    # by the clock of b, the other way round.
    rows = [
        *(span("1c", None, "a", 30), span("1s", "1c", "b", 10)),
        *(span("2c", None, "b", 20), span("2s", "2c", "a", 5)),
    ]
    local = LocalRun(pa.Table.from_pylist(rows), 64)
    assert len(local.blobs) == 2
    for slices in (1, 8):
        plan = local.plan(slices)
        tables, dropped, again = local.arrange(plan, {}, find=True)
        assert sorted(dropped) == [0, 1]  # The request of each trace.
        assert not again
        assert sum(table.num_rows for table in tables) == local.events - 4
        _, remaining, _ = local.arrange(plan, dropped, find=False)
        assert [len(found) for found in remaining.values()] == [1, 1]
