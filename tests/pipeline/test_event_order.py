"""Events whose clocks are wrong are put into a linear extension, slice by slice."""

from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from antecede.errors import TraceError
from antecede.pipeline.records.cut_refinement import LIMIT
from antecede.pipeline.records.cuts import slice_numbers
from antecede.pipeline.records.event_buckets import EventRun, EventSurvey, event_bucket
from antecede.pipeline.records.event_slices import (
    EventPlan,
    arrange_events,
    split_events,
)
from antecede.pipeline.records.slices import cut_events
from antecede.pipeline.verify.event_rows import EventLoader, ProcessNames
from antecede.pipeline.verify.spooled_run import SpooledRun
from antecede.trace.event import Event, Kind
from antecede.trace.run_info import RunInfo
from antecede.trace.table import events_to_table
from antecede.verify import verify_events
from antecede.verify.kernels.slot_map import Longs
from antecede.verify.kernels.stream import NotLinearExtensionError
from antecede.verify.verdict import TraceVerdict
from antecede.verify.verifier import verify_trace
from tests.pipeline.local_cuts import local_search
from tests.verify.test_verifier import (
    ALL,
    arbitrary_run,
    cluster_run,
    corrupt,
    deliver,
    keys,
    message_of,
    send,
)

Clock = Callable[[float], float]


def random_clock(random: Random, events: int) -> Clock:
    """Return what a clock shows at the time of an event: often something else."""
    kind = random.choice(["skew", "drift", "step", "reversed", "stopped", "exact"])
    offset = random.uniform(-2, 2) * events
    at = random.random() * events
    shown: dict[str, Clock] = {
        "skew": lambda time: time + offset,
        "drift": lambda time: time * (1 + offset / events / 4),
        "step": lambda time: time + (offset if time > at else 0),
        "reversed": lambda time: -time,
        "stopped": lambda time: offset,
        "exact": lambda time: time,
    }
    return shown[kind]


def with_clocks(random: Random, run: list[Event]) -> pa.Table:
    """Return the events in random order, with the times that random clocks show."""
    table = events_to_table(run, "r")
    clocks = {p: random_clock(random, len(run)) for p in {e.process for e in run}}
    times = [clocks[event.process](float(step)) for step, event in enumerate(run)]
    index = table.schema.get_field_index("time")
    table = table.set_column(index, "time", pa.array(times, pa.float64()))
    return table.take(random.sample(range(len(run)), len(run)))


class LocalOrder:
    """The stages that find the order of a run, in this process, without Spark."""

    def __init__(self, rows: pa.Table, *, buckets: int, has_seq: bool = True) -> None:
        run = EventRun(
            location="run 'r'", names=(), has_seq=has_seq, is_unique=True, sample_step=1
        )
        key = [
            hash((row["source"], row["number"])) % buckets
            if row["kind"] in (Kind.SEND.value, Kind.DELIVER.value)
            else hash((row["process"], row["seq"])) % buckets
            for row in rows.to_pylist()
        ]
        dropped = ["run", "target", "payload_bytes", "metadata_bytes"]
        rows = rows.drop_columns(dropped + ([] if has_seq else ["seq"]))
        found = [
            event_bucket(rows.filter(pa.array(np.array(key) == bucket)), bucket, run)
            for bucket in sorted(set(key))
        ]
        self._run = run
        self._blobs = [pa.py_buffer(each.blob) for each in found]
        self.survey = EventSurvey.merge(
            (each.survey for each in found), (each.samples for each in found)
        )
        self._events = rows.num_rows

    def slices(self, slice_events: int) -> list[pa.Table]:
        """Return the events of each slice, in a linear extension."""
        names = self.survey.names
        numbers = {name: number for number, name in enumerate(names)}
        buckets = [cut_events(blob, numbers) for blob in self._blobs]
        units = np.ones(len(names), np.int64)
        guess = self.survey.guess(-(-self._events // slice_events) - 1)
        found = local_search(buckets, units, slice_events).find(guess)
        plan = EventPlan(
            run=self._run,
            names=names,
            offsets=self.survey.offsets,
            frontier=found.frontier,
        )
        parts: dict[int, list[pa.Buffer]] = {}
        for blob in self._blobs:
            for number, part in split_events(blob, plan):
                parts.setdefault(number, []).append(pa.py_buffer(part))
        return [arrange_events(parts[number], plan) for number in sorted(parts)]


def verdict_of(tables: list[pa.Table]) -> TraceVerdict:
    loader = EventLoader(ProcessNames(), "run 'r'")
    with SpooledRun(RunInfo(run="r", complete=True)) as run:
        for table in tables:
            run.add(loader.convert(table.combine_chunks()))
        run.finish()
        return verify_trace(run, violations_max=ALL)


def is_linear_extension(tables: list[pa.Table]) -> bool:
    """Return whether the order of each process is kept, and sends are before deliveries."""
    rows = [row for table in tables for row in table.to_pylist()]
    sends = {(r["source"], r["number"]) for r in rows if r["kind"] == "send"}
    sent, last = set(), Counter[int]()
    for row in rows:
        message = (row["source"], row["number"])
        if row.get("seq", ALL) < last[row["process"]]:
            return False
        last[row["process"]] = row.get("seq", 0) + 1
        if row["kind"] == "send":
            sent.add(message)
        elif row["kind"] == "deliver" and message in sends - sent:
            return False
    return True


def draw_run(random: Random) -> list[Event]:
    make = random.choice([arbitrary_run, arbitrary_run, cluster_run])
    run: list[Event] = make(random, random.randint(2, 6), random.randint(10, 80), 2)
    for _ in range(random.choice([0, 1, 3])):
        corrupt(random, run)
    for _ in range(random.choice([0, 5])):
        process = random.choice(run).process
        kind = random.choice([Kind.LOCAL, Kind.CRASH])
        run.insert(random.randint(0, len(run)), Event(process=process, kind=kind))
    return run


def first_disagreement(count: int) -> tuple[int | None, Counter[str]]:
    """Return the seed of the first run that is not ordered correctly, and counts."""
    seen: Counter[str] = Counter()
    for seed in range(count):
        random = Random(seed)
        run = draw_run(random)
        try:
            expected = verify_events(run, complete=True)
        except TraceError:
            seen["error"] += 1
            continue
        has_seq = random.random() < 0.8
        rows = with_clocks(random, run)
        local = LocalOrder(rows, buckets=random.randint(1, 5), has_seq=has_seq)
        try:
            tables = local.slices(random.choice([3, 10, 30]))
            found = verdict_of(tables)
        except (TraceError, NotLinearExtensionError):
            return seed, seen
        if not is_linear_extension(tables):
            return seed, seen
        is_equal = (
            keys(found.violations).keys() == keys(expected.violations).keys()
            and found.messages == expected.messages
            and found.deliveries == expected.deliveries
        )
        if not is_equal:
            return seed, seen
        seen["slices"] += len(tables) > 3
        seen["violated"] += not expected.held
        seen["without seq"] += not has_seq
    return None, seen


def test_the_verdict_is_that_of_the_oracle_whatever_the_clocks_show() -> None:
    seed, seen = first_disagreement(80)
    assert seed is None
    # All kinds of runs were drawn; otherwise the agreement would mean little.
    assert seen["slices"] > 30, seen
    assert seen["violated"] > 20, seen
    assert seen["without seq"] > 5, seen


MUTANTS: dict[str, tuple[str, object]] = {
    "no frontier is raised": (
        "tests.pipeline.local_cuts.raised_frontiers",
        lambda before, after: np.empty((4, 0), np.int64),
    ),
    "a slice begins one event late": (
        "antecede.pipeline.records.event_slices.slice_numbers",
        lambda process, position, frontier: slice_numbers(process, position - 1, frontier),
    ),
    "no event waits in a slice": (
        "antecede.pipeline.records.event_slices.order_events",
        lambda preferred, *rest: preferred,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutation_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    seed, _ = first_disagreement(80)
    assert seed is not None


def test_events_that_are_no_messages_keep_their_place() -> None:
    run = [e for n in range(1, 200) for e in (send(0, n, 1), deliver(1, 0, n))]
    for place in (0, 150, 399):
        run.insert(place, Event(process=1, kind=Kind.MISSING, number=2))
    rows = with_clocks(Random(1), run)
    gap = rows.filter(pa.array([row["seq"] != 77 for row in rows.to_pylist()]))
    for table in (rows, gap):
        tables = LocalOrder(table, buckets=3).slices(40)
        assert max(part.num_rows for part in tables) <= LIMIT * 40
        assert is_linear_extension(tables)
        found = verdict_of(tables)
        # Sorted in one piece, the events have the same verdict.
        order = np.argsort(table["step"].to_numpy())
        assert found == verdict_of([table.take(pa.array(order)).drop_columns(["step"])])
    assert found.unverified is None


def test_a_cycle_is_an_error_that_names_a_delivery() -> None:
    # Each process delivers the message of the other before it sends its own.
    run = [e for n in range(1, 50) for e in (send(0, n, 1), deliver(1, 0, n))]
    run += [deliver(0, 1, 900), send(0, 900, 1), deliver(1, 0, 900), send(1, 900, 0)]
    run += [e for n in range(901, 950) for e in (send(0, n, 1), deliver(1, 0, n))]
    local = LocalOrder(with_clocks(Random(3), run), buckets=2)
    with pytest.raises(TraceError, match=r"run 'r': process 0 delivered 1:900 before it"):
        local.slices(20)


@pytest.mark.parametrize("has_seq", [True, False])
def test_an_event_that_is_there_twice_is_an_error(has_seq: bool) -> None:
    run = [e for n in range(1, 50) for e in (send(0, n, 1), deliver(1, 0, n))]
    rows = events_to_table(run, "r")
    twice = pa.concat_tables([rows, rows.slice(61, 1)])
    text = "process 1 and seq 30" if has_seq else "step 61"
    with pytest.raises(TraceError, match=f"run 'r': two rows have {text}: remove the"):
        LocalOrder(twice, buckets=3, has_seq=has_seq).slices(10)


def flights_of(tables: list[pa.Table]) -> Longs:
    """Return by delivery the number of events since its send."""
    times: dict[bool, dict[object, int]] = {True: {}, False: {}}
    for at, row in enumerate(row for table in tables for row in table.to_pylist()):
        times[row["kind"] == "send"][row["source"], row["number"]] = at
    return np.array([at - times[True][which] for which, at in times[False].items()])


def test_few_messages_are_in_flight_although_no_time_is_known() -> None:
    # Two processes are there all the time, and the others come and go.
    random, run, in_flight = Random(1), [], []
    for number in range(1, 3001):
        there = [0, 1, 2 + number // 500, 3 + number // 700]
        source, target = random.sample(sorted(set(there)), 2)
        run.append(send(source, number, target))
        in_flight.append((target, source, number))
        if len(in_flight) > 5:
            run.append(deliver(*in_flight.pop(random.randrange(4))))
    run += [deliver(*copy) for copy in in_flight]
    rows = with_clocks(random, run)
    tables = LocalOrder(rows.drop_columns(["time"]), buckets=3).slices(600)
    assert len(tables) > 5
    # In the order in which the events happened, a message is in flight for 10 events or so.
    assert np.quantile(flights_of(tables), 0.9) < 40


@pytest.mark.parametrize("slice_events", [300, 10_000])
def test_messages_of_processes_that_only_send_are_not_sent_long_before(
    slice_events: int,
) -> None:
    run = [
        event
        for n in range(1, 1000)
        for event in (send(0, n, 2), send(1, n, 2), deliver(2, 0, n), deliver(2, 1, n))
    ]
    rows = events_to_table(run, "r").drop_columns(["time"])
    tables = LocalOrder(rows, buckets=3).slices(slice_events)
    assert (len(tables) > 5) == (slice_events == 300)
    assert flights_of(tables).max() < 200


def test_a_message_that_is_sent_twice_is_noticed() -> None:
    run = [send(0, 1, 1), deliver(1, 0, 1), send(0, 1, 1)]
    assert LocalOrder(events_to_table(run, "r"), buckets=2).survey.is_sent_twice
    assert not LocalOrder(events_to_table(run[:2], "r"), buckets=2).survey.is_sent_twice
    assert message_of(run[0]) == message_of(run[2])
