"""Long runs of spans in buckets and slices have the verdicts of the oracle."""

from random import Random
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from antecede.pipeline.records.bucket_events import infer_bucket
from antecede.pipeline.records.clock_offsets import find_offsets
from antecede.pipeline.records.run_summary import RunSummary, merge_summaries
from antecede.pipeline.records.slices import (
    SlicePlan,
    arrange_slice,
    split_bucket,
    to_blob,
)
from antecede.pipeline.verify.event_rows import EventLoader, ProcessNames
from antecede.pipeline.verify.spooled_run import SpooledRun
from antecede.trace.run_info import RunInfo
from antecede.verify.oracle import MessageId, Property, Verdict, verify_events
from antecede.verify.verdict import TraceVerdict
from antecede.verify.verifier import verify_trace
from tests.pipeline.span_runs import SpanRun, with_hashed_ids

MS = 1_000_000
ORDERS = (Property.CAUSAL, Property.FIFO)


class LocalRun:
    """The stages of a long run in this process, without Spark."""

    def __init__(self, spans: pa.Table, buckets: int) -> None:
        traces = spans["trace"].to_pylist()
        bucket = np.array([crc32(trace.encode()) % buckets for trace in traces])
        hashed = with_hashed_ids(spans)
        found = [
            infer_bucket(hashed.filter(pa.array(bucket == each)), "spans")
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
        self.summary: RunSummary = merge_summaries(texts, "spans")

    def plan(self, slices: int, reach: int = 0) -> SlicePlan:
        return self.summary.plan("run", self.events, -(-self.events // slices), reach=reach)

    def arrange(
        self, plan: SlicePlan, dropped: dict[int, list[pa.Buffer]], *, find: bool
    ) -> tuple[list[pa.Table], dict[int, list[pa.Buffer]], int]:
        """Return the rows of all slices, the messages to drop, and the greatest shift."""
        parts: dict[int, list[pa.Buffer]] = {}
        for number, blob in enumerate(self.blobs):
            for each, part in split_bucket(blob, dropped.get(number, []), plan):
                parts.setdefault(each, []).append(pa.py_buffer(part))
        tables, shift = [], 0
        found: dict[int, list[pa.Buffer]] = {}
        for each in sorted(parts):
            arranged = arrange_slice(parts[each], each, plan, find_ambiguous=find)
            shift = max(shift, arranged.shift)
            for bucket, messages in arranged.dropped.items():
                found.setdefault(bucket, []).append(pa.py_buffer(messages.tobytes()))
            if arranged.rows is not None:
                tables.append(arranged.rows)
        return tables, found, shift

    def verify(self, slices: int) -> TraceVerdict:
        """Return the verdict, with the steps of the driver."""
        plan = self.plan(slices)
        tables, dropped, shift = self.arrange(plan, {}, find=True)
        if dropped:
            tables, _, shift = self.arrange(plan, dropped, find=False)
        while 2 * shift > plan.reach:
            plan = self.plan(slices, reach=max(4 * plan.reach, 2 * shift))
            tables, _, shift = self.arrange(plan, dropped, find=False)
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
    ("skew_ns", "drift"), [(0, 0.0), (3 * MS, 0.0), (10**12, 0.0), (MS, 0.0005)]
)
@pytest.mark.parametrize("seed", range(6))
def test_slices_have_the_verdict_of_the_oracle(
    seed: int, skew_ns: int, drift: float
) -> None:
    random = Random(seed)
    run = SpanRun(random, random.randint(2, 6), skew_ns, drift)
    run.add_traces(random.randint(5, 60), duration_ns=20 * MS)
    # Until then, the drift of two clocks can be 10 ms. Spans are too short for a drift.
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


def test_clocks_that_drift_need_a_longer_reach() -> None:
    run = SpanRun(Random(1), 5, 0, drift=0.3)
    run.add_traces(60, duration_ns=40 * MS)
    local = LocalRun(run.table(), 3)
    plan = local.plan(10)
    assert len(plan.bounds) == 9
    _, _, shift = local.arrange(plan, {}, find=True)
    assert 2 * shift > plan.reach  # The driver tries again.
    longer = local.plan(10, reach=4 * shift)
    assert 2 * local.arrange(longer, {}, find=True)[2] <= longer.reach


@pytest.mark.parametrize("slices", [1, 7])
def test_no_ambiguous_event_remains_after_the_messages_are_dropped(slices: int) -> None:
    run = SpanRun(Random(2), 4, 5 * MS, resolution_ns=MS // 20)
    run.add_traces(80, duration_ns=60 * MS)
    local = LocalRun(run.table(), 6)
    plan = local.plan(slices)
    _, dropped, _ = local.arrange(plan, {}, find=True)
    assert dropped
    tables, remaining, _ = local.arrange(plan, dropped, find=True)
    assert not remaining
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
    offsets, left = find_offsets(30, source, target, lead)
    assert left == 0
    remote = source != target
    assert np.all((offsets[source] + lead <= offsets[target])[remote])


def test_offsets_leave_the_least_lead_if_clocks_drift() -> None:
    # Each of the two is ahead of the other at some time: by 900 and by 300.
    offsets, left = find_offsets(
        2, np.array([0, 1]), np.array([1, 0]), np.array([900, 300])
    )
    assert 600 <= left <= 610
    assert 900 - left <= offsets[1] - offsets[0] <= left - 300
    assert find_offsets(2, np.array([], int), np.array([], int), np.array([], int))[1] == 0


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
    plan = local.plan(1, reach=1000 * MS)
    _, dropped, _ = local.arrange(plan, {}, find=True)
    assert sorted(dropped) == [0, 1]  # The request of each trace.
    tables, remaining, _ = local.arrange(plan, dropped, find=False)
    assert not remaining
    assert sum(table.num_rows for table in tables) == local.events - 4
