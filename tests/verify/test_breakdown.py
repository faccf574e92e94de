"""The breakdown of violations agrees with the oracle, for any run and any batches."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from antecede.errors import TraceError
from antecede.testing import Cluster, random_schedule, run_schedule
from antecede.trace import Event, Kind
from antecede.verify import MessageId, Property, verify_events
from antecede.verify.breakdown import BUCKETS_MAX, ViolationBreakdown, choose_buckets
from antecede.verify.verifier import verify_trace
from tests.verify.test_verifier import (
    arbitrary_run,
    corrupt,
    deliver,
    memory,
    message_of,
    random_batch_rows,
    send,
    shuffled,
)

CAUSAL, FIFO = Property.CAUSAL, Property.FIFO
Pair = tuple[Property, int, int, int | None]


def expected_pairs(run: list[Event], *, complete: bool) -> Counter[Pair]:
    """Count the pairs by the definition, from all violations that the oracle finds."""
    verdict = verify_events(run, complete=complete)
    delivered: dict[tuple[int, MessageId], int] = {}
    for row, event in enumerate(run):
        if event.kind is Kind.DELIVER:
            delivered.setdefault((event.process, message_of(event)), row)
    last: dict[tuple[Property, int, MessageId], tuple[int, int]] = {}
    pairs: Counter[Pair] = Counter()
    for found in verdict.violations:
        if found.property not in (CAUSAL, FIFO):
            pairs[found.property, found.process, found.message.source, None] += 1
            continue
        key = (found.property, found.process, found.message)
        earlier = found.chain[0]
        row = delivered[found.process, earlier]
        last[key] = max(last.get(key, (-1, -1)), (row, earlier.source))
    for (which, process, message), (_, earlier_source) in last.items():
        pairs[which, process, message.source, earlier_source] += 1
    return pairs


def expected_timeline(
    run: list[Event], found: ViolationBreakdown
) -> dict[Property, Counter[int]]:
    """Count the buckets of causal and fifo, by the time of the first delivery."""
    verdict = verify_events(run)
    times: dict[tuple[int, MessageId], float] = {}
    for event in run:
        if event.kind is Kind.DELIVER:
            times.setdefault((event.process, message_of(event)), event.time)
    seen = {(v.property, v.process, v.message) for v in verdict.violations if v.chain}
    counts: dict[Property, Counter[int]] = {}
    buckets = found.buckets
    for which, process, message in seen:
        time = times[process, message]
        (bucket,) = [
            i
            for i in range(buckets.count)
            if buckets.start(i) - 1e-9 <= time < buckets.start(i + 1) - 1e-9
        ]
        counts.setdefault(which, Counter())[bucket] += 1
    return counts


def with_times(run: list[Event]) -> list[Event]:
    """Give event i the time i + 1/2, which is never the bound of a bucket."""
    return [replace(event, time=row + 0.5) for row, event in enumerate(run)]


def found_pairs(found: ViolationBreakdown) -> Counter[Pair]:
    """Return the overtakings, and the pairs of the other properties."""
    counts: Counter[Pair] = Counter()
    by_pair: Counter[tuple[Property, int, int]] = Counter()
    for each in found.overtakings:
        key = (each.property, each.process, each.source, each.late_source)
        assert key not in counts
        counts[key] = each.count
        by_pair[each.property, each.process, each.late_source] += each.count
    for pair in found.pairs:
        if pair.property in (CAUSAL, FIFO):
            assert by_pair[pair.property, pair.process, pair.source] == pair.count
        else:
            counts[pair.property, pair.process, pair.source, None] = pair.count
    assert len(found.pairs) == len({(p.property, p.process, p.source) for p in found.pairs})
    return counts


def cluster_run(random: Random) -> list[Event]:
    cluster = Cluster("unordered", 4)
    schedule = random_schedule(
        random, processes=4, steps=150, fan_out_max=2, loss=0.0, duplicate=0.0,
        seconds=(0.1, 1.0),
    )  # fmt: skip
    run_schedule(cluster, schedule)
    cluster.run_until_idle(random)
    return list(cluster.history)


@pytest.mark.parametrize("grouped", [0, 1 << 14])
def test_the_counts_agree_with_the_oracle(
    grouped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With 0, pending and counted entries are grouped in every batch.
    monkeypatch.setattr("antecede.verify.breakdown_counter.GROUPS_MIN", grouped)
    seen: Counter[Property] = Counter()
    for seed in range(80):
        random = Random(seed)
        run = cluster_run(random) if seed % 5 == 0 else arbitrary_run(random, 5, 70, 2)
        for _ in range(random.choice([0, 1, 3])):
            corrupt(random, run)
        run = with_times(run)
        trace = memory(run, random_batch_rows(random, run))
        try:
            pairs = expected_pairs(run, complete=True)
        except TraceError:
            continue
        # The counts do not depend on how many violations are listed.
        verdict = verify_trace(trace, violations_max=1, with_breakdown=True)
        found = verdict.breakdown
        assert found is not None
        assert found_pairs(found) == pairs
        assert sum(found.deliveries) == verdict.deliveries
        for which, counts in found.timeline.items():
            assert sum(counts) == verdict.counts[which]
            seen[which] += 1
        for which, by_bucket in expected_timeline(run, found).items():
            assert Counter(dict(enumerate(found.timeline[which]))) == by_bucket
    assert set(seen) == set(Property)


def test_the_counts_do_not_depend_on_the_order_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antecede.verify.linear_extension.BATCH_ROWS_MAX", 11)
    violated = 0
    for seed in range(40):
        random = Random(seed)
        run = with_times(arbitrary_run(random, 5, 60, 2))
        found = verify_trace(shuffled(random, run), with_breakdown=True).breakdown
        assert found is not None
        assert found_pairs(found) == expected_pairs(run, complete=True)
        for which, by_bucket in expected_timeline(run, found).items():
            assert Counter(dict(enumerate(found.timeline[which]))) == by_bucket
            violated += 1
    assert violated > 20


def overtaken_run() -> list[Event]:
    """Return a run in which 1:1 overtakes 0:1 at process 2, twice, and 0:3 is lost."""
    return [
        send(0, 1, 2),
        send(0, 2, 1),
        deliver(1, 0, 2),
        send(1, 1, 2),
        deliver(2, 1, 1),
        send(1, 2, 2),
        deliver(2, 1, 2),
        deliver(2, 0, 1),
        send(0, 3, 2),
    ]


def test_a_run_without_times_is_divided_by_events() -> None:
    found = verify_trace(memory(overtaken_run()), with_breakdown=True).breakdown
    assert found is not None
    assert not found.buckets.by_time
    assert (found.buckets.start(0), found.buckets.width, found.buckets.count) == (0, 1, 9)
    # The deliveries of 1:1 and 1:2 are rows 4 and 6, and the send of 0:3 is row 8.
    assert found.timeline == {
        CAUSAL: (0, 0, 0, 0, 1, 0, 1, 0, 0),
        Property.LIVENESS: (0, 0, 0, 0, 0, 0, 0, 0, 1),
    }
    assert found.deliveries == (0, 0, 1, 0, 1, 0, 1, 1, 0)
    (overtaking,) = found.overtakings
    assert (overtaking.late_source, overtaking.source, overtaking.process) == (0, 1, 2)
    assert overtaking.count == 2
    counts = [
        (pair.property, pair.source, pair.process, pair.count) for pair in found.pairs
    ]
    assert counts == [(CAUSAL, 0, 2, 2), (Property.LIVENESS, 0, 2, 1)]


def test_only_the_most_frequent_overtakings_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antecede.verify.breakdown_counter.OVERTAKINGS_MAX", 2)
    run = []
    for source, count in ((1, 1), (2, 3), (3, 2)):
        for first in range(1, 2 * count, 2):
            run += [send(source, first, 9), send(source, first + 1, 9)]
            run += [deliver(9, source, first + 1), deliver(9, source, first)]
    found = verify_trace(memory(run), with_breakdown=True).breakdown
    assert found is not None
    for which in (CAUSAL, FIFO):
        kept = [(e.source, e.count) for e in found.overtakings if e.property is which]
        assert kept == [(2, 3), (3, 2)]
        pairs = [(p.source, p.count) for p in found.pairs if p.property is which]
        assert pairs == [(2, 3), (3, 2), (1, 1)]


def test_nothing_is_counted_unless_it_is_asked_for() -> None:
    assert verify_trace(memory(overtaken_run())).breakdown is None


def test_a_run_without_violations_has_no_pairs() -> None:
    run = with_times([send(0, 1, 1), deliver(1, 0, 1)])
    found = verify_trace(memory(run), with_breakdown=True).breakdown
    assert found is not None
    assert found.pairs == ()
    assert found.timeline == {}
    assert sum(found.deliveries) == 1


@pytest.mark.parametrize(
    ("lowest", "highest", "first", "width", "count"),
    [
        (0.0, 60.0, 0, 2.0, 31),
        (0.0, 59.5, 0, 1.0, 60),
        (10.0, 10.3, 1000, 0.01, 31),
        (-0.5, 1.0, -10, 0.05, 31),
        (1_700_000_000.0, 1_700_003_600.0, 17_000_000, 100.0, 37),
    ],
)
def test_buckets_have_round_bounds(
    lowest: float, highest: float, first: int, width: float, count: int
) -> None:
    found = choose_buckets(lowest, highest, by_time=True)
    assert (found.first, found.width, found.count) == (first, width, count)


def test_every_range_has_buckets_that_contain_it() -> None:
    random = Random(1)
    for _ in range(2000):
        lowest = random.choice([0, 1.7e9, -3.0]) + random.random()
        highest = lowest + 10 ** random.uniform(-6, 9)
        found = choose_buckets(lowest, highest, by_time=True)
        assert found.count + 2 > BUCKETS_MAX / 3
        assert found.count <= BUCKETS_MAX
        assert found.start(0) <= lowest + 1e-6
        assert highest - 1e-6 <= found.start(found.count)
    assert choose_buckets(5.0, 5.0, by_time=False).count == 1
