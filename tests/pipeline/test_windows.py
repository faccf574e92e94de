"""A run in windows gets the verdict that it gets whole, however it is cut."""

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

from antecede.errors import ConfigError
from antecede.pipeline.spark.stage import here
from antecede.pipeline.verify.window import cut, no_deliveries
from antecede.pipeline.verify.windows import Sizes, judge_in_windows, verify_windows
from antecede.trace import Event
from antecede.trace.reader import NumberedBatch, RunInfo, Trace
from antecede.trace.table import table_of
from antecede.verify import MessageId, Property
from antecede.verify.kernels.stream import Disordered
from antecede.verify.kernels.walk import nothing_known
from antecede.verify.verdict import Report, Status
from antecede.verify.verifier import verify
from tests.verify.test_verifier import (
    ALL,
    FIGURE,
    MemoryTrace,
    arbitrary_run,
    batch_rows_of,
    broadcast,
    cluster_run,
    compare,
    deliver,
    do_harm,
    memory,
    send,
)

Task = TypeVar("Task")
Result = TypeVar("Result")


def pickling(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """A stage in this process, through the same bytes as on Spark, the last task first."""
    function, tasks = pickle.loads(pickle.dumps((function, list(tasks))))
    results = [pickle.dumps(function(task)) for task in reversed(tasks)]
    return [pickle.loads(result) for result in reversed(results)]


def sent_twice(trace: Trace) -> MessageId | None:
    sends = Counter(
        (event.source, event.number)
        for event in trace.events()
        if event.kind.value == "send"
    )
    twice = [message for message, count in sends.items() if count > 1]
    return MessageId(*twice[0]) if twice else None  # type: ignore[arg-type]


class Windows:
    """Judges traces in windows of some size, and notes what became of it."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.said: list[str] = []
        self.disordered = False

    def verify(self, trace: Trace, *, violations_max: int = 10) -> Report:
        try:
            return judge_in_windows(
                trace,
                pickling,
                sent_twice,
                sizes=self.sizes,
                violations_max=violations_max,
                say=self.said.append,
            )
        except Disordered:
            self.disordered = True
            return verify(trace, violations_max=violations_max)


def sizes_of(random: Random, rows: int) -> Sizes:
    """Draw a cut, mostly into few windows, since many take long to test."""
    count = random.choice([1, 2, 2, 2, 3, 3, 3, 4, 5, min(12, max(1, rows))])
    window_rows = max(1, rows // count)
    margin_rows = random.choice([1, random.randint(1, window_rows), window_rows])
    return Sizes(
        window_rows=window_rows,
        margin_rows=margin_rows,
        window_rows_max=random.choice([window_rows, 10 * window_rows]),
        far_max=random.choice([ALL, ALL, ALL, 3]),
        spreads_max=random.choice([ALL, ALL, ALL, 2]),
        spread_tasks=random.choice([1, 2, 5]),
    )


def same(one: Report, other: Report) -> bool:
    return replace(one, kept_max=0) == replace(other, kept_max=0)


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
        do_harm(random, run)
    complete = random.random() < 0.8
    return run, memory(run, batch_rows_of(random, run), complete=complete)


@pytest.mark.parametrize(
    ("make", "count", "processes_max", "steps_max"),
    [
        (arbitrary_run, 2000, 4, 25),
        (arbitrary_run, 200, 12, 120),
        (cluster_run, 250, 4, 60),
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
        "antecede.verify.kernels.state.ROOM_FIRST", 1
    )  # So that pools are moved.
    broken: Counter[Property] = Counter()
    disordered = whole = windowed = 0
    for seed in range(count):
        random = Random(seed)
        run, trace = draw_trace(random, make, processes_max, steps_max)
        windows = Windows(sizes_of(random, len(run)))
        violations_max = random.choice([ALL, ALL, ALL, 3, 1, 0])
        try:
            expected = verify(trace, violations_max=violations_max)
        except ConfigError:
            with pytest.raises(ConfigError):
                windows.verify(trace)
            continue
        if violations_max == ALL and any(event.targets for event in run):
            monkeypatch.setattr("tests.verify.test_verifier.verify", windows.verify)
            found = compare(run, trace)
        else:
            found = windows.verify(trace, violations_max=violations_max)
        assert found is not None
        assert same(found, expected), f"seed {seed}"
        disordered += windows.disordered
        whole += bool(windows.said)
        windowed += not windows.said and not windows.disordered
        broken.update(w for w in Property if found.statuses[w] is Status.VIOLATED)
    # All ways were taken, or the agreement would mean little.
    assert windowed > count / 3
    assert whole
    if count > 200:
        assert disordered
        assert set(broken) == set(Property)


def first_disagreement(count: int) -> int | None:
    """Return the seed of the first run of which its windows say something else."""
    for seed in range(count):
        random = Random(seed)
        run, trace = draw_trace(random, arbitrary_run, 5, 40)
        windows = Windows(Sizes(window_rows=max(1, len(run) // 5), margin_rows=1))
        try:
            expected = verify(trace, violations_max=ALL)
            found = windows.verify(trace, violations_max=ALL)
        except ConfigError:
            continue
        if not same(found, expected):
            return seed
    return None


MUTANTS: dict[str, tuple[str, object]] = {
    "windows do not know what spreads": (
        "antecede.pipeline.verify.window._Judge._known",
        lambda judge: nothing_known(),
    ),
    "windows do not know what is delivered later": (
        "antecede.pipeline.verify.stragglers.Stragglers.later",
        lambda stragglers, window: no_deliveries(),
    ),
    "nothing is far": (
        "antecede.pipeline.verify.window._Judge._unsent",
        lambda judge, matching, first, end: no_deliveries(),
    ),
    "a duplicate counts as the delivery": (
        "antecede.pipeline.verify.stragglers.Story.copies",
        lambda story: {process: row for row, process in story.deliveries},
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_step_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    assert first_disagreement(400) is not None


def long_flight(rows: int) -> list[Event]:
    """0:1 to 1 is in flight all the time, while 2 and 3 talk and then one writes to 1."""
    run = [send(0, 1, 1), send(0, 2, 2), deliver(2, 0, 2)]
    for number in range(1, rows // 4):
        run += [send(2, number, 3), deliver(3, 2, number)]
        run += [send(3, number, 2), deliver(2, 3, number)]
    number = rows // 4
    return [*run, send(3, number, 1), deliver(1, 3, number), deliver(1, 0, 1)]


def test_a_message_that_is_in_flight_for_many_windows_is_followed() -> None:
    run = long_flight(200)
    windows = Windows(Sizes(window_rows=16, margin_rows=4))
    report = windows.verify(memory(run, 10))
    assert same(report, verify(memory(run)))
    (shown,) = report.violations
    assert [str(message) for message in shown.chain[:2]] == ["0:1", "0:2"]
    assert str(shown.message) == "3:50"
    assert not windows.said
    # The same without the message by which they learn of it.
    quiet = [event for event in run if (event.source, event.number) != (0, 2)]
    assert windows.verify(memory(quiet, 10)).held
    # Too much of that, and one task judges the whole.
    few = Windows(Sizes(window_rows=16, margin_rows=4, window_rows_max=64, spreads_max=0))
    assert same(few.verify(memory(run, 10)), report)
    assert few.said == [
        "many stragglers: windows of 64 rows",
        "too many stragglers: one task judges the whole run",
    ]


def test_what_was_never_sent_spreads_nothing() -> None:
    run = long_flight(200)
    run[2] = deliver(2, 0, 99)  # So 2 learns nothing of 0:1.
    windows = Windows(Sizes(window_rows=16, margin_rows=4))
    report = windows.verify(memory(run, 10))
    assert same(report, verify(memory(run)))
    assert report.counts[Property.CAUSAL] == 0
    assert report.counts[Property.GENUINE] == 1
    assert not windows.said


def test_a_broadcast_that_reaches_one_process_late_is_followed() -> None:
    run = [broadcast(0, 1), deliver(1, 0, 1), broadcast(1, 1), deliver(2, 1, 1)]
    for number in range(1, 30):
        run += [send(3, number, 4), deliver(4, 3, number)]
    run += [deliver(p, 0, 1) for p in (2, 3, 4)]
    run += [deliver(p, 1, 1) for p in (0, 3, 4)]
    report = Windows(Sizes(window_rows=9, margin_rows=3)).verify(memory(run))
    assert same(report, verify(memory(run)))
    assert report.counts[Property.CAUSAL] == 1
    assert report.statuses[Property.LIVE] is Status.HELD


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
    trace = Watched(table_of(run, "r"), RunInfo(run="r", complete=True), 7)
    report = judge_in_windows(
        trace,
        here,
        sent_twice,
        sizes=Sizes(window_rows=30, margin_rows=5),
        violations_max=1,
        say=lambda line: None,
    )
    assert report.held
    assert len(asked) == len(cut(len(run), 30, 5)) == 14
    assert max(asked) == 40


def test_what_lies_between_windows_is_checked_too() -> None:
    run = [e for n in range(1, 21) for e in (send(0, n, 1), deliver(1, 0, n))]
    table = table_of(run, "r")
    info = RunInfo(run="r", complete=True)
    windows = Windows(Sizes(window_rows=10, margin_rows=2))
    for kept in (
        [*range(9), *range(11, 40)],
        [*range(2, 40)],
        [*range(12), *range(24, 40)],
    ):
        holed = MemoryTrace(table.take(kept), info)
        assert verify(holed).reasons
        assert same(windows.verify(holed), verify(holed))
    assert not windows.disordered
    other = pa.array(["r"] * 20 + ["s"] * 20)
    mixed = table.set_column(table.schema.get_field_index("run"), "run", other)
    with pytest.raises(ConfigError, match="rows of several runs, such as 'r' and 's'"):
        windows.verify(MemoryTrace(mixed, info))
    with pytest.raises(ConfigError, match="0:3 is sent twice"):
        windows.verify(memory([*run, send(0, 3, 1)]))
    backward = MemoryTrace(table.take([*range(20, 40), *range(20)]), info)
    assert same(windows.verify(backward), verify(backward))
    assert windows.disordered


def test_windows_cover_a_run_and_none_is_shorter_than_its_margin() -> None:
    for seed in range(300):
        random = Random(seed)
        rows, window_rows = random.randint(1, 60), random.randint(1, 20)
        margin_rows = random.randint(1, window_rows)
        windows = cut(rows, window_rows, margin_rows)
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
    said: list[str] = []
    judged = 0
    for seed in range(24):
        random = Random(seed)
        run, _ = draw_trace(random, random.choice([arbitrary_run, cluster_run]), 6, 90)
        if not run:
            continue
        path = write(tmp_path / str(seed), table_of(run, "r"), random)
        rows = random.choice([None, 1, max(1, len(run) // 6), max(1, len(run) // 3)])
        rows = rows if rows != 1 or len(run) < 12 else len(run) // 4
        try:
            expected = verify(path, violations_max=4)
        except ConfigError:
            with pytest.raises(ConfigError):
                verify_windows(spark, path, rows_per_window=rows)
            continue
        found = verify_windows(
            spark, path, rows_per_window=rows, violations_max=4, say=said.append
        )
        assert found.counts == expected.counts
        assert same(found, expected) or said
        judged += 1
    assert judged > 15


def test_spark_sorts_what_stands_in_disorder(spark: SparkSession, tmp_path: Path) -> None:
    run = [*FIGURE, *(e for n in range(9, 40) for e in (send(0, n, 1), deliver(1, 0, n)))]
    table = table_of(run, "r")
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
    expected = verify(memory(run))
    sorting = "the rows do not stand in a linear extension: sorting them"
    giving_up = "no sort puts the rows in order: one task judges the whole run"
    for name, shuffled_table in tables.items():
        said: list[str] = []
        path = write(tmp_path / name, shuffled_table, Random(2))
        found = verify_windows(spark, path, rows_per_window=20, say=said.append)
        assert same(found, expected)
        assert said == ([sorting, giving_up] if name == "not-at-all" else [sorting])


def test_spark_refuses_what_is_no_run_in_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = [e for n in range(1, 21) for e in (send(0, n, 1), deliver(1, 0, n))]
    for name, bad, reason in (
        ("twice", [*run, send(0, 3, 1)], r"twice: message 0:3 is sent twice$"),
        ("other", [*run, replace(send(0, 21, 1), process=7)], "0:21 is sent by another"),
    ):
        path = write(tmp_path / name, table_of(bad, "r"), Random(1))
        with pytest.raises(ConfigError, match=reason) as caught:
            verify_windows(spark, path, rows_per_window=10)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="no such directory"):
        verify_windows(spark, tmp_path / "absent")
    for wrong in ({"rows_per_window": 0}, {"violations_max": -1}):
        with pytest.raises(ConfigError, match="must be at least"):
            verify_windows(spark, tmp_path, **wrong)  # type: ignore[arg-type]
    assert verify_windows(
        spark, write(tmp_path / "none", table_of([], "r"), Random(1))
    ).held
