"""Verification in windows of any size returns the verdict on the whole run."""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antecede.errors import ConfigError, TraceError
from antecede.pipeline.spark.stage import run_locally
from antecede.pipeline.verify.window_config import WindowConfig
from antecede.pipeline.verify.window_task import (
    LongRun,
    no_deliveries,
    split_into_windows,
)
from antecede.pipeline.verify.windowed_run import WindowedVerification
from antecede.pipeline.verify.windows import verify_windows
from antecede.trace import Event, Kind
from antecede.trace.reader import NumberedBatch, Trace
from antecede.trace.run_info import RunInfo
from antecede.trace.table import events_to_table
from antecede.verify import MessageId, Property
from antecede.verify.kernels.state import no_initial_limits
from antecede.verify.kernels.stream import NotLinearExtensionError
from antecede.verify.verdict import Status, TraceVerdict
from antecede.verify.verifier import verify_trace
from tests.verify.test_verifier import (
    ALL,
    FIGURE,
    MemoryTrace,
    arbitrary_run,
    broadcast,
    cluster_run,
    compare,
    corrupt,
    deliver,
    memory,
    random_batch_rows,
    send,
)

Task = TypeVar("Task")
Result = TypeVar("Result")


def pickling(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """A stage in this process that pickles as on Spark and runs the last task first."""
    function, tasks = pickle.loads(pickle.dumps((function, list(tasks))))
    results = [pickle.dumps(function(task)) for task in reversed(tasks)]
    return [pickle.loads(result) for result in reversed(results)]


def find_duplicate_send(trace: LongRun) -> MessageId | None:
    assert isinstance(trace, Trace)
    sends = Counter(
        (event.source, event.number)
        for event in trace.events()
        if event.kind.value == "send"
    )
    twice = [message for message, count in sends.items() if count > 1]
    return MessageId(*twice[0]) if twice else None  # type: ignore[arg-type]


class Windows:
    """Verifies traces in windows, and records the fallbacks."""

    def __init__(self, config: WindowConfig) -> None:
        self.config = config
        self.notices: list[str] = []
        self.out_of_order = False

    def verify(
        self, trace: Trace, *, violations_max: int = 10, with_breakdown: bool = False
    ) -> TraceVerdict:
        try:
            return WindowedVerification(
                stage=pickling,
                find_duplicate_send=find_duplicate_send,
                config=self.config,
                violations_max=violations_max,
                on_notice=self.notices.append,
                with_breakdown=with_breakdown,
            ).verify(trace)
        except NotLinearExtensionError:
            self.out_of_order = True
            return verify_trace(
                trace, violations_max=violations_max, with_breakdown=with_breakdown
            )


def random_config(random: Random, rows: int) -> WindowConfig:
    """Draw window sizes, mostly for few windows, since many take long to test."""
    count = random.choice([1, 2, 2, 2, 3, 3, 3, 4, 5, min(12, max(1, rows))])
    window_rows = max(1, rows // count)
    margin_rows = random.choice([1, random.randint(1, window_rows), window_rows])
    return WindowConfig(
        window_rows=window_rows,
        margin_rows=margin_rows,
        window_rows_max=random.choice([window_rows, 10 * window_rows]),
        straggler_deliveries_max=random.choice([ALL, ALL, ALL, 3]),
        propagations_max=random.choice([ALL, ALL, ALL, 2]),
        propagation_tasks=random.choice([1, 2, 5]),
    )


def same(one: TraceVerdict, other: TraceVerdict) -> bool:
    return replace(one, limits_max=0) == replace(other, limits_max=0)


Make = Callable[[Random, int, int, int], list[Event]]


def draw_trace(
    random: Random, make: Make, processes_max: int, steps_max: int
) -> tuple[list[Event], MemoryTrace]:
    processes = random.randint(2, processes_max)
    steps = random.randint(1, steps_max)
    run = make(random, processes, steps, random.choice([1, 1, 2, 4]))
    if random.random() < 0.2:
        run = [replace(event, targets=None) for event in run]
    for _ in range(random.choice([0, 0, 1, 2, 5])):
        corrupt(random, run)
    complete = random.random() < 0.8
    return run, memory(run, random_batch_rows(random, run), complete=complete)


@pytest.mark.parametrize(
    ("make", "count", "processes_max", "steps_max"),
    [
        (arbitrary_run, 300, 4, 25),
        pytest.param(
            arbitrary_run, 600, 4, 25, marks=[pytest.mark.slow, pytest.mark.proof]
        ),
        (arbitrary_run, 80, 12, 120),
        (cluster_run, 120, 4, 60),
        (cluster_run, 15, 8, 300),
    ],
)
def test_windows_agree_with_the_oracle(
    make: Make,
    count: int,
    processes_max: int,
    steps_max: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "antecede.verify.kernels.state.POOL_ROWS_MIN", 1
    )  # So that pools are moved.
    violated: Counter[Property] = Counter()
    out_of_order = fallbacks = windowed = 0
    for seed in range(count):
        random = Random(seed)
        run, trace = draw_trace(random, make, processes_max, steps_max)
        windows = Windows(random_config(random, len(run)))
        violations_max = random.choice([ALL, ALL, ALL, 3, 1, 0])
        try:
            expected = verify_trace(trace, violations_max=violations_max)
        except TraceError:
            with pytest.raises(TraceError):
                windows.verify(trace)
            continue
        if violations_max == ALL and any(event.targets for event in run):
            monkeypatch.setattr("tests.verify.test_verifier.verify_trace", windows.verify)
            found = compare(run, trace)
        else:
            found = windows.verify(trace, violations_max=violations_max)
        assert found is not None
        assert same(found, expected), f"seed {seed}"
        out_of_order += windows.out_of_order
        fallbacks += bool(windows.notices)
        windowed += not windows.notices and not windows.out_of_order
        violated.update(w for w in Property if found.statuses[w] is Status.VIOLATED)
    # All branches were taken; otherwise the agreement would mean little.
    assert windowed > count / 3
    assert fallbacks
    if count > 100:
        assert out_of_order
        assert set(violated) == set(Property)


@pytest.mark.parametrize("is_timed", [True, False])
def test_the_breakdowns_of_windows_add_up(is_timed: bool) -> None:
    """Also for violations of stragglers, whose rows are in other windows."""
    windowed = 0
    seen: Counter[Property] = Counter()
    for seed in range(60):
        random = Random(seed)
        run, _ = draw_trace(random, arbitrary_run, 5, 60)
        if is_timed:
            run = [replace(event, time=row / 8) for row, event in enumerate(run)]
        trace = memory(run, random_batch_rows(random, run))
        windows = Windows(WindowConfig(window_rows=max(1, len(run) // 4), margin_rows=1))
        try:
            expected = verify_trace(trace, with_breakdown=True).breakdown
        except TraceError:
            continue
        found = windows.verify(trace, with_breakdown=True).breakdown
        assert found == expected
        assert found is not None
        assert found.buckets.by_time == is_timed or len(run) < 2
        if not windows.out_of_order and not windows.notices:
            windowed += 1
            seen.update(found.timeline.keys())
    assert windowed > 20
    assert set(seen) == set(Property)


def first_disagreement(count: int) -> int | None:
    """Return the seed of the first run whose windows yield another verdict."""
    for seed in range(count):
        random = Random(seed)
        run, trace = draw_trace(random, arbitrary_run, 5, 40)
        windows = Windows(WindowConfig(window_rows=max(1, len(run) // 5), margin_rows=1))
        try:
            expected = verify_trace(trace, violations_max=ALL)
            found = windows.verify(trace, violations_max=ALL)
        except TraceError:
            continue
        if not same(found, expected):
            return seed
    return None


MUTANTS: dict[str, tuple[str, object]] = {
    "windows ignore propagations": (
        "antecede.pipeline.verify.window._WindowVerifier._initial_limits",
        lambda verifier: no_initial_limits(),
    ),
    "windows ignore later deliveries": (
        "antecede.pipeline.verify.stragglers.Stragglers.later_deliveries",
        lambda stragglers, window: no_deliveries(),
    ),
    "windows report no stragglers": (
        "antecede.pipeline.verify.window._WindowVerifier._unmatched",
        lambda verifier, matcher, first, end: no_deliveries(),
    ),
    "a duplicate counts as the first delivery": (
        "antecede.pipeline.verify.stragglers.StragglerRows.first_deliveries",
        lambda rows: {process: row for row, process in rows.deliveries},
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutation_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    assert first_disagreement(400) is not None


def long_flight(rows: int) -> list[Event]:
    """0:1 to 1 stays in flight while 2 and 3 exchange messages and 3 sends to 1."""
    run = [send(0, 1, 1), send(0, 2, 2), deliver(2, 0, 2)]
    for number in range(1, rows // 4):
        run += [send(2, number, 3), deliver(3, 2, number)]
        run += [send(3, number, 2), deliver(2, 3, number)]
    number = rows // 4
    return [*run, send(3, number, 1), deliver(1, 3, number), deliver(1, 0, 1)]


def test_a_message_that_is_in_flight_for_many_windows_is_followed() -> None:
    run = long_flight(200)
    windows = Windows(WindowConfig(window_rows=16, margin_rows=4))
    verdict = windows.verify(memory(run, 10))
    assert same(verdict, verify_trace(memory(run)))
    (shown,) = verdict.violations
    assert [str(message) for message in shown.chain[:2]] == ["0:1", "0:2"]
    assert str(shown.message) == "3:50"
    assert not windows.notices
    # Without the message that puts 0:1 in their causal past, nothing is violated.
    quiet = [event for event in run if (event.source, event.number) != (0, 2)]
    assert windows.verify(memory(quiet, 10)).held
    # Without propagations, one task verifies the whole run.
    few = Windows(
        WindowConfig(window_rows=16, margin_rows=4, window_rows_max=64, propagations_max=0)
    )
    assert same(few.verify(memory(run, 10)), verdict)
    assert few.notices == [
        "many stragglers: windows of 64 rows",
        "too many stragglers: one task verifies the whole run",
    ]


def test_a_message_that_was_never_sent_has_no_causal_past() -> None:
    run = long_flight(200)
    run[2] = deliver(2, 0, 99)  # So 0:1 is not in the causal past of 2.
    windows = Windows(WindowConfig(window_rows=16, margin_rows=4))
    verdict = windows.verify(memory(run, 10))
    assert same(verdict, verify_trace(memory(run)))
    assert verdict.counts[Property.CAUSAL] == 0
    assert verdict.counts[Property.NO_CREATION] == 1
    assert not windows.notices


def test_a_broadcast_that_reaches_one_process_late_is_followed() -> None:
    run = [broadcast(0, 1), deliver(1, 0, 1), broadcast(1, 1), deliver(2, 1, 1)]
    for number in range(1, 30):
        run += [send(3, number, 4), deliver(4, 3, number)]
    run += [deliver(p, 0, 1) for p in (2, 3, 4)]
    run += [deliver(p, 1, 1) for p in (0, 3, 4)]
    verdict = Windows(WindowConfig(window_rows=9, margin_rows=3)).verify(memory(run))
    assert same(verdict, verify_trace(memory(run)))
    assert verdict.counts[Property.CAUSAL] == 1
    assert verdict.statuses[Property.LIVENESS] is Status.HELD


def test_a_task_reads_no_more_than_its_window_and_the_margins() -> None:
    asked: list[int] = []

    class Watched(MemoryTrace):
        def numbered_batches(
            self,
            columns: Sequence[str] | None = None,
            *,
            first: int = 0,
            last: int | None = None,
            backward: bool = False,
        ) -> Iterator[NumberedBatch]:
            asked.append((self.rows if last is None else last + 1) - first)
            return super().numbered_batches(
                columns, first=first, last=last, backward=backward
            )

    run = [e for n in range(1, 200) for e in (send(0, n, 1), deliver(1, 0, n))]
    trace = Watched(events_to_table(run, "r"), RunInfo(run="r", complete=True), 7)
    verdict = WindowedVerification(
        stage=run_locally,
        find_duplicate_send=find_duplicate_send,
        config=WindowConfig(window_rows=30, margin_rows=5),
        violations_max=1,
        on_notice=lambda line: None,
    ).verify(trace)
    assert verdict.held
    assert len(asked) == len(split_into_windows(len(run), 30, 5)) == 14
    assert max(asked) == 40


def test_gaps_and_order_between_windows_are_checked() -> None:
    run = [e for n in range(1, 21) for e in (send(0, n, 1), deliver(1, 0, n))]
    table = events_to_table(run, "r")
    info = RunInfo(run="r", complete=True)
    windows = Windows(WindowConfig(window_rows=10, margin_rows=2))
    for kept in (
        [*range(9), *range(11, 40)],
        [*range(2, 40)],
        [*range(12), *range(24, 40)],
    ):
        holed = MemoryTrace(table.take(kept), info)
        assert verify_trace(holed).reasons
        assert same(windows.verify(holed), verify_trace(holed))
    assert not windows.out_of_order
    other = pa.array(["r"] * 20 + ["s"] * 20)
    mixed = table.set_column(table.schema.get_field_index("run"), "run", other)
    with pytest.raises(TraceError, match="rows of several runs, such as 'r' and 's'"):
        windows.verify(MemoryTrace(mixed, info))
    with pytest.raises(TraceError, match="0:3 is sent twice"):
        windows.verify(memory([*run, send(0, 3, 1)]))
    backward = MemoryTrace(table.take([*range(20, 40), *range(20)]), info)
    assert same(windows.verify(backward), verify_trace(backward))
    assert windows.out_of_order


@pytest.mark.parametrize(("last", "counts"), [(2, (20, 0, 5)), (None, (0, 0, 20))])
def test_missing_deliveries_of_all_windows_are_counted(
    last: int | None, counts: tuple[int, int, int]
) -> None:
    run = [each for n in range(1, 21) for each in (send(0, n, 1), deliver(1, 0, n))]
    for index, number in ((40, last), (13, 1), (12, 1), (0, 1)):
        run.insert(index, Event(process=0, kind=Kind.MISSING, number=number))
    verdict = Windows(WindowConfig(window_rows=10, margin_rows=4)).verify(memory(run))
    assert verdict.delivery_counts(Property.FIFO) == counts
    assert same(verdict, verify_trace(memory(run)))


def test_windows_cover_a_run_and_none_is_shorter_than_its_margin() -> None:
    for seed in range(300):
        random = Random(seed)
        rows, window_rows = random.randint(1, 60), random.randint(1, 20)
        margin_rows = random.randint(1, window_rows)
        windows = split_into_windows(rows, window_rows, margin_rows)
        assert [r for w in windows for r in range(w.first, w.end)] == list(range(rows))
        for left, right in pairwise(windows):
            assert left.end - left.first >= margin_rows
            assert right.read_first == right.first - margin_rows
            assert left.read_end == min(rows, right.near_end)


def write(directory: Path, table: pa.Table, random: Random, **info: object) -> Path:
    """Write a trace in a few parts, each of a few row groups."""
    parts = directory / "events.parquet"
    parts.mkdir(parents=True)
    count = random.randint(1, 3)
    rows = -(-table.num_rows // count) or 1
    for number in range(count):
        part = table.slice(number * rows, rows)
        name = parts / f"part-{number:03}.parquet"
        pq.write_table(part, name, row_group_size=random.randint(5, 40))
    fields = {"complete": True, **info}
    about = RunInfo(run="r", **fields)  # type: ignore[arg-type]
    (directory / "run.json").write_text(about.to_json())
    return directory


def test_spark_agrees_in_any_window_size(spark: SparkSession, tmp_path: Path) -> None:
    notices: list[str] = []
    verified = 0
    for seed in range(10):
        random = Random(seed)
        run, _ = draw_trace(random, random.choice([arbitrary_run, cluster_run]), 6, 90)
        if not run:
            continue
        path = write(tmp_path / str(seed), events_to_table(run, "r"), random)
        rows = random.choice([None, 1, max(1, len(run) // 6), max(1, len(run) // 3)])
        rows = rows if rows != 1 or len(run) < 12 else len(run) // 4
        try:
            expected = verify_trace(path, violations_max=4)
        except TraceError:
            with pytest.raises(TraceError):
                verify_windows(spark, path, rows_per_window=rows)
            continue
        found = verify_windows(
            spark, path, rows_per_window=rows, violations_max=4, on_notice=notices.append
        )
        assert found.counts == expected.counts
        assert same(found, expected) or notices
        verified += 1
    assert verified > 6


def test_spark_sorts_rows_that_are_not_a_linear_extension(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = [*FIGURE, *(e for n in range(9, 40) for e in (send(0, n, 1), deliver(1, 0, n)))]
    table = events_to_table(run, "r")
    mixed = table.take(Random(1).sample(range(len(run)), len(run)))
    times = pa.array([float(step) for step in mixed.column("step").to_pylist()])
    timed = mixed.set_column(4, "time", times)
    no_steps = pa.array([None] * len(run), pa.int64())
    tables = {
        "by-step": mixed,
        "by-time": timed.set_column(3, "step", no_steps),
        "not-at-all": mixed.set_column(3, "step", no_steps).set_column(
            4, "time", pc.negate(times)
        ),
    }
    expected = verify_trace(memory(run))
    sorting = "the rows are not in a linear extension: sorting them"
    finding = "no sort puts the rows in order: finding an order"
    for name, shuffled_table in tables.items():
        notices: list[str] = []
        path = write(tmp_path / name, shuffled_table, Random(2))
        found = verify_windows(spark, path, rows_per_window=20, on_notice=notices.append)
        assert same(found, expected)
        assert notices == ([sorting, finding] if name == "not-at-all" else [sorting])


def test_spark_reports_an_invalid_run_in_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = [e for n in range(1, 21) for e in (send(0, n, 1), deliver(1, 0, n))]
    for name, bad, reason in (
        ("twice", [*run, send(0, 3, 1)], r"twice: message 0:3 is sent twice$"),
        ("other", [*run, replace(send(0, 21, 1), process=7)], "process 7 sends 0:21"),
    ):
        path = write(tmp_path / name, events_to_table(bad, "r"), Random(1))
        with pytest.raises(TraceError, match=reason) as caught:
            verify_windows(spark, path, rows_per_window=10)
        assert "\n" not in str(caught.value)
    with pytest.raises(TraceError, match="no such directory"):
        verify_windows(spark, tmp_path / "absent")
    for wrong in ({"rows_per_window": 0}, {"violations_max": -1}):
        with pytest.raises(ConfigError, match="must be at least"):
            verify_windows(spark, tmp_path, **wrong)  # type: ignore[arg-type]
    assert verify_windows(
        spark, write(tmp_path / "none", events_to_table([], "r"), Random(1))
    ).held
