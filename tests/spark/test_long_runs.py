"""Long runs of a table, in windows: the results are those of one task for the whole run."""

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antecede.errors import TraceError
from antecede.pipeline.verify.packed_rows import pack_rows, unpack_run
from antecede.pipeline.verify.packed_trace import (
    BlobStore,
    PackedTrace,
    blob_packer,
    verify_spooled,
)
from antecede.pipeline.verify.run_sizes import may_be_long
from antecede.pipeline.verify.table_run import TableOptions, run_verifier
from antecede.pipeline.verify.tables import verify_table
from antecede.pipeline.verify.violation_rows import FindTask, find_window_rows, merge_rows
from antecede.pipeline.verify.window_config import WindowConfig
from antecede.pipeline.verify.window_task import LongRun, no_deliveries, split_into_windows
from antecede.pipeline.verify.windowed_run import RepeatedEventError, WindowedVerification
from antecede.spark import Verification, verify
from antecede.trace import Event
from antecede.trace.run_info import RunInfo
from antecede.trace.table import events_to_table
from antecede.verify import MessageId, Property
from antecede.verify.kernels.stream import NotLinearExtensionError
from antecede.verify.verdict import TraceVerdict
from tests.pipeline.test_windows import long_flight
from tests.verify.test_verifier import (
    ALL,
    arbitrary_run,
    cluster_run,
    corrupt,
    deliver,
    send,
)

Task = TypeVar("Task")
Result = TypeVar("Result")


class LocalBlobs:
    """Packs a run in this process; a stage gives a task the blobs that it reads."""

    def __init__(self, table: pa.Table, blob_rows: int, memory_bytes: int) -> None:
        packed = pa.Table.from_batches(
            blob_packer(rows_max=blob_rows)(iter(table.to_batches()))
        )
        self.data = dict(
            zip(packed["id"].to_pylist(), packed["data"].to_pylist(), strict=True)
        )
        info = RunInfo(run="r", complete=True)
        self.trace = PackedTrace(info, packed["id"].to_pylist(), packed["rows"].to_pylist())
        self._memory_bytes = memory_bytes
        self.held_max = 0

    def stage(
        self, function: Callable[[Any], Result], tasks: Sequence[Any]
    ) -> list[Result]:
        function, tasks = pickle.loads(pickle.dumps((function, list(tasks))))
        results = []
        for task in tasks:
            with BlobStore(memory_bytes=self._memory_bytes) as store:
                blobs = task.trace.blobs_in(task.row_ranges())
                self.held_max = max(self.held_max, len(blobs))
                for blob in blobs:
                    store.add(blob, self.data[blob])
                results.append(function(replace(task, trace=task.trace.with_blobs(store))))
        return results

    def find_duplicate_send(self, trace: LongRun) -> MessageId | None:
        with BlobStore() as store:
            for blob, data in self.data.items():
                store.add(blob, data)
            sends: Counter[MessageId] = Counter()
            for _, batch in self.trace.with_blobs(store).numbered_batches():
                for row in batch.to_pylist():
                    if row["kind"] == "send":
                        sends[MessageId(row["source"], row["number"])] += 1
        return next((message for message, count in sends.items() if count > 1), None)


def verify_locally(
    table: pa.Table, config: WindowConfig, blob_rows: int, notices: list[str]
) -> tuple[TraceVerdict, LocalBlobs]:
    blobs = LocalBlobs(table, blob_rows, memory_bytes=1000)
    verification = WindowedVerification(
        stage=blobs.stage,
        find_duplicate_send=blobs.find_duplicate_send,
        config=config,
        violations_max=ALL,
        on_notice=notices.append,
        verify_whole=verify_spooled,
        has_seq="seq" in table.schema.names,
        is_unique=True,
    )
    return verification.verify(blobs.trace), blobs


def expected_row(table: pa.Table) -> dict[str, Any]:
    """Return the row of a run that one task verifies."""
    packed = pa.Table.from_batches(pack_rows(iter(table.to_batches())))
    options = TableOptions(rows="events", complete=True, violations_max=ALL)
    assert unpack_run(packed).in_order
    row: dict[str, Any] = run_verifier(options)((pa.scalar("r"),), packed).to_pylist()[0]
    return row


def draw_table(random: Random) -> pa.Table:
    make = random.choice([arbitrary_run, arbitrary_run, cluster_run])
    run: list[Event] = make(random, random.randint(2, 6), random.randint(10, 60), 2)
    for _ in range(random.choice([0, 1, 3])):
        corrupt(random, run)
    table = events_to_table(run, "r").select(
        ["run", "process", "seq", "step", "time", "kind", "source", "number", "targets"]
    )
    if random.random() < 0.25:
        table = table.drop_columns(["seq"])
    return table


def first_disagreement(count: int) -> tuple[int | None, Counter[str]]:
    """Return the seed of the first run whose windows have another result, and counts."""
    seen: Counter[str] = Counter()
    for seed in range(count):
        random = Random(seed)
        table = draw_table(random)
        expected = expected_row(table)
        window_rows = max(1, table.num_rows // random.choice([2, 3, 5]))
        margin_rows = random.randint(1, window_rows)
        config = WindowConfig(window_rows=window_rows, margin_rows=margin_rows)
        notices: list[str] = []
        try:
            verdict, _ = verify_locally(table, config, random.randint(1, 12), notices)
        except NotLinearExtensionError:
            seen["out of order"] += 1
            continue
        except TraceError as error:
            seen["error"] += 1
            if str(error) != expected["error"]:
                return seed, seen
            continue
        if expected["error"] is not None:
            return seed, seen
        counts = {row["property"]: row["violated"] for row in expected["properties"]}
        found = {
            which.value: count if verdict.statuses[which].value == "violated" else 0
            for which, count in verdict.counts.items()
        }
        texts = [row["text"] for row in expected["violations"]]
        if found != counts or [str(each) for each in verdict.violations] != texts:
            return seed, seen
        seen["windows"] += not notices
        seen.update(name for name, count in counts.items() if count)
    return None, seen


def test_windows_of_packed_rows_have_the_result_of_the_whole_run() -> None:
    seed, seen = first_disagreement(80)
    assert seed is None
    # All branches were taken; otherwise the agreement would mean little.
    assert seen["windows"] > 40
    assert seen["out of order"], seen
    assert all(seen[which.value] for which in Property), seen


MUTANTS: dict[str, tuple[str, object]] = {
    "a task gets no blobs of its margins": (
        "antecede.pipeline.verify.window_task.WindowTask.row_ranges",
        lambda task: [(task.window.first, task.window.end)],
    ),
    "a window begins one row late": (
        "antecede.pipeline.verify.windowed_run.split_into_windows",
        lambda rows, window_rows, margin_rows: [
            replace(window, first=window.first + (window.first > 0))
            for window in split_into_windows(rows, window_rows, margin_rows)
        ],
    ),
    "the last blob of a range is missing": (
        "antecede.pipeline.verify.packed_trace.PackedTrace._overlapping",
        lambda trace, first, end: slice(
            max(0, int(trace._starts.searchsorted(first, side="right")) - 1),
            int(trace._starts[:-1].searchsorted(end)) - 1,
        ),
    ),
    "stragglers are ignored": (
        "antecede.pipeline.verify.stragglers.Stragglers.later_deliveries",
        lambda stragglers, window: no_deliveries(),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutation_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    seed, _ = first_disagreement(120)
    assert seed is not None


def exchange(messages: int) -> pa.Table:
    run = [e for n in range(1, messages) for e in (send(0, n, 1), deliver(1, 0, n))]
    return events_to_table(run, "r")


def test_no_task_holds_the_run() -> None:
    config = WindowConfig(window_rows=40, margin_rows=8)
    verdict, blobs = verify_locally(exchange(500), config, 8, [])
    assert verdict.held
    assert len(blobs.data) == 125
    assert blobs.held_max == 7  # A window of five blobs, and a margin on either side.


def test_an_event_that_is_there_twice_is_found_also_between_windows() -> None:
    table = exchange(41).select(
        ["run", "process", "seq", "step", "time", "kind", "source", "number", "targets"]
    )
    config = WindowConfig(window_rows=20, margin_rows=4)
    for row in (10, 38):
        twice = pa.concat_tables([table[: row + 1], table[row : row + 1], table[row + 1 :]])
        with pytest.raises(RepeatedEventError):
            verify_locally(twice, config, 7, [])
    quiet = events_to_table([send(0, 1, 1), *long_flight(60)[3:-3]], "r")
    late = quiet[:1]
    with pytest.raises(RepeatedEventError) as caught:
        verify_locally(pa.concat_tables([quiet, late]), config, 7, [])
    assert (caught.value.process, caught.value.seq) == (0, 0)


def test_the_rows_of_violations_are_found_in_windows() -> None:
    run = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), deliver(1, 0, 1)]
    blobs = LocalBlobs(events_to_table(run, "r"), 1, memory_bytes=0)
    messages = (MessageId(0, 1), MessageId(0, 2))
    tasks = [
        FindTask(trace=blobs.trace, window=window, messages=messages)
        for window in split_into_windows(4, 2, 1)
    ]
    found = merge_rows(blobs.stage(find_window_rows, tasks))
    assert {message: row for message, (row, _) in found.sends.items()} == {
        messages[0]: 0, messages[1]: 1,
    }  # fmt: skip
    assert set(found.deliveries) == {(1, messages[0]), (1, messages[1])}


def timed(run: list[Event], name: str) -> pa.Table:
    """Return a run whose times ascend with its steps."""
    table = events_to_table(run, name)
    index = table.schema.get_field_index("time")
    times = pa.array([step / 10 for step in range(table.num_rows)], pa.float64())
    return table.set_column(index, table.schema.field(index), times)


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> DataFrame:
    """One long run with violations, one that is no run, and a short one."""
    run = arbitrary_run(Random(2), 5, 150, 1)
    corrupt(Random(0), run)
    twice = [send(0, 1, 1), *long_flight(240)]
    short = [send(0, 1, 1), deliver(1, 0, 1)]
    parts = {"long": run, "twice": twice, "short": short}
    table = pa.concat_tables(timed(events, name) for name, events in parts.items())
    return spark.createDataFrame(table).persist()


def results(df: DataFrame, windows: bool, **columns: str) -> list[Any]:
    table = verify_table(
        df,
        columns=columns,
        rows=None,
        complete=True,
        violations_max=1000,
        tasks=None,
        windows=windows,
        window_rows=50,
    )
    result = Verification(table.persist())
    verdicts = sorted(result.verdicts.collect())
    violations = sorted(result.violations.collect(), key=lambda row: str(row.text))
    result.unpersist()
    return [verdicts, violations]


def in_one_order(tables: list[Any]) -> list[Any]:
    """Return verdicts, and violations in an order that does not depend on the rows."""
    verdicts, violations = tables
    named = [row.asDict(recursive=True) for row in violations]
    return [verdicts, sorted(named, key=str)]


@pytest.mark.parametrize(
    "shape",
    [
        "in order",
        pytest.param("names and no step", marks=pytest.mark.slow),
        "names and wrong clocks",
        pytest.param("shuffled", marks=pytest.mark.slow),
        pytest.param("no seq", marks=pytest.mark.slow),
    ],
)
def test_long_runs_on_spark_have_the_result_of_one_task(
    tables: DataFrame,
    shape: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="antecede")
    monkeypatch.setattr("antecede.pipeline.verify.run_sizes.LONG_ROWS", 100)
    df = tables
    if shape == "shuffled":
        df = df.repartition(3, "seq").sortWithinPartitions(F.rand(2))
    elif shape == "names and no step":
        df = df.selectExpr(
            "run", "concat('p', process) AS process", "seq", "time", "kind",
            "concat('p', source) AS source", "number",
            "transform(targets, t -> concat('p', t)) AS targets",
        )  # fmt: skip
    elif shape == "names and wrong clocks":
        # Some clocks run backward, and the others differ by more than the run takes.
        df = df.selectExpr(
            "run", "concat('p', process) AS process", "seq",
            "IF(process % 2 = 0, -time, time + 100 * (process % 5)) AS time", "kind",
            "concat('p', source) AS source", "number",
            "transform(targets, t -> concat('p', t)) AS targets",
        )  # fmt: skip
    elif shape == "no seq":
        df = df.drop("seq")
    expected, found = results(df, windows=False), results(df, windows=True)
    assert "one task" not in caplog.text
    assert ("finding an order" in caplog.text) == ("names" in shape)
    assert in_one_order(found) == in_one_order(expected)
    assert {row.run for row in expected[0]} == {"long", "twice", "short"}
    assert len(expected[1]) > 5
    errors = {row.error for row in expected[0] if row.error}
    assert len(errors) == 1, errors
    assert "is sent twice" in errors.pop()


def test_the_estimated_size_decides_without_a_job(spark: SparkSession) -> None:
    def fail(batches: object) -> object:
        raise AssertionError("a job started")

    small = spark.range(10)
    assert not may_be_long(small.mapInArrow(fail, small.schema))  # type: ignore[arg-type]
    large = spark.range(1 << 22)
    assert may_be_long(large.mapInArrow(fail, large.schema))  # type: ignore[arg-type]


def test_duplicates_of_a_long_run_are_one_clear_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecede.pipeline.verify.run_sizes.LONG_ROWS", 10)
    df = spark.createDataFrame(exchange(20))
    result = verify(df.union(df), windows=True)
    with pytest.raises(TraceError, match="run 'r': two rows have process 0 and seq 0: rem"):
        result.check()
    result = verify(df.union(df).drop("seq"), windows=True)
    with pytest.raises(TraceError, match="run 'r': two rows have step 0: remove the dup"):
        result.check()
    result = verify(df.drop("step", "time"), windows=True, complete=True)
    assert {row.status for row in result.verdicts.collect()} == {"held"}
