"""Verification of a DataFrame of events: the verdicts are those of the verifier."""

import re
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antecede.errors import ConfigError, TraceError
from antecede.pipeline.verify.event_rows import load_events
from antecede.pipeline.verify.packed_rows import pack_rows, unpack_run
from antecede.pipeline.verify.spooled_run import SpooledRun
from antecede.spark import Verification, verify
from antecede.trace import Event
from antecede.trace.run_info import RunInfo
from antecede.trace.table import events_to_table
from antecede.verify import Property
from antecede.verify.verdict import Status
from antecede.verify.verifier import verify_trace
from tests.verify.test_verifier import (
    FIGURE,
    arbitrary_run,
    broadcast,
    corrupt,
    deliver,
    memory,
    send,
)

RUNS = 16


def random_runs() -> dict[str, list[Event]]:
    """Return runs with and without violations, some of which are not runs at all."""
    runs = {}
    for seed in range(RUNS):
        random = Random(seed)
        run = arbitrary_run(random, 4, 60, 2)
        for _ in range(random.choice([0, 1, 3])):
            corrupt(random, run)
        runs[f"run-{seed}"] = run
    return runs


def table_of(runs: dict[str, list[Event]]) -> pa.Table:
    return pa.concat_tables(events_to_table(run, name) for name, run in runs.items())


@pytest.fixture(scope="module")
def runs() -> dict[str, list[Event]]:
    return random_runs()


@pytest.fixture(scope="module")
def events(spark: SparkSession, runs: dict[str, list[Event]]) -> DataFrame:
    return spark.createDataFrame(table_of(runs)).persist()


def check_verdicts(result: Verification, runs: dict[str, list[Event]]) -> int:
    """Compare the verdicts with those of the verifier; return how many runs have one."""
    rows: dict[str, dict[str, Any]] = {}
    for row in result.verdicts.collect():
        rows.setdefault(row.run, {})[row.property] = row
    assert set(rows) == set(runs)
    verified = 0
    for name, run in runs.items():
        try:
            expected = verify_trace(memory(run), violations_max=1000)
        except TraceError as error:
            text = str(error).removeprefix("memory")
            (found,) = {row.error for row in rows[name].values()}
            if "before it can have been sent" in text:  # Several deliveries may be named.
                assert "before it can have been sent" in found
            else:
                assert found.startswith(f"run {name!r}{text}")
            assert {row.status for row in rows[name].values()} == {None}
            continue
        verified += 1
        assert set(rows[name]) == {which.value for which in Property}
        for which in Property:
            row = rows[name][which.value]
            assert row.status == expected.statuses[which].value
            assert row.violated == expected.counts[which]
            assert row.judged == expected.deliveries + (
                expected.counts[which] if which is Property.LIVENESS else 0
            )
            assert (row.messages, row.deliveries) == (
                expected.messages, expected.deliveries,
            )  # fmt: skip
            assert (row.unknown, row.events) == (0, len(run))
            assert row.listed == sum(v.property is which for v in expected.violations)
    return verified


def test_verdicts_and_violations_equal_those_of_the_verifier(
    events: DataFrame, runs: dict[str, list[Event]]
) -> None:
    result = verify(events, complete=True)
    assert check_verdicts(result, runs) > RUNS // 2
    found: dict[str, list[Any]] = {}
    for row in result.violations.collect():
        found.setdefault(row.run, []).append(row)
    listed = 0
    for name, run in runs.items():
        if name not in found:
            continue
        expected = verify_trace(memory(run), violations_max=1000).violations
        assert [row.text for row in found[name]] == [str(each) for each in expected]
        for row, each in zip(found[name], expected, strict=True):
            assert row.property == each.property.value
            assert row.process == str(each.process)
            assert (row.message.source, row.message.number) == (
                str(each.message.source), each.message.number,
            )  # fmt: skip
            path = [(str(m.source), m.number) for m in each.chain]
            assert [(m.source, m.number) for m in row.path] == path
            if path:
                assert (row.earlier.source, row.earlier.number) == path[0]
                assert row.earlier.delivered_time == row.message.delivered_time == 0.0
            else:
                assert row.earlier is None
        listed += len(expected)
    assert listed > 10
    result.unpersist()


def named(column: str) -> str:
    return f"concat('p', {column})"


@pytest.mark.parametrize("shape", ["shuffled", "no step", "no seq", "names"])
def test_the_order_of_the_rows_and_the_type_of_names_do_not_matter(
    events: DataFrame, runs: dict[str, list[Event]], shape: str
) -> None:
    columns: dict[str, Any] = {}
    if shape == "shuffled":
        events = events.repartition(3, "seq").sortWithinPartitions(F.rand(2))
    elif shape == "no step":
        events = events.drop("step").repartition(3, "process")
    elif shape == "no seq":
        events = events.drop("seq")
    else:
        events = events.selectExpr(
            "run AS tenant", f"{named('process')} AS who", "seq", "kind", "number",
            f"{named('source')} AS source", "timestamp_seconds(time) AS time",
            f"transform(targets, t -> {named('t')}) AS targets",
        )  # fmt: skip
        columns = {"columns": {"process": "who"}, "run": "tenant"}
    result = verify(events, complete=True, **columns)
    assert check_verdicts(result, runs) > RUNS // 2
    if shape == "names":
        row = result.violations.first()
        assert row is not None
        assert row.process[0] == row.message.source[0] == "p"
        assert row.text.startswith(f"{row.property}: {row.process} ")
        errors = [row.error for row in result.errors.collect()]
        wanted = re.compile(
            r"run '[^']+': p\d+ delivered p\d+:\d+ before it can have been sent"
        )
        assert errors
        assert all(wanted.fullmatch(error) for error in errors), errors
    result.unpersist()


def test_a_table_without_a_run_is_one_run(spark: SparkSession) -> None:
    df = spark.createDataFrame(events_to_table(FIGURE, "r")).drop("run")
    result = verify(df)
    (row,) = result.violations.collect()
    assert (row.run, row.property) == ("table", "causal")
    assert [(m.source, m.number) for m in row.path] == [
        ("0", 1), ("0", 2), ("1", 1), ("2", 1),
    ]  # fmt: skip
    assert result.status() is Status.VIOLATED
    monday = verify(df, run=F.lit("monday")).verdicts.select("run").distinct().collect()
    assert [each.run for each in monday] == ["monday"]


def test_incomplete_runs_have_unknown_deliveries(spark: SparkSession) -> None:
    in_flight = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 1)]
    gap = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), deliver(1, 0, 1)]
    table = table_of({"in flight": in_flight, "gap": gap})
    is_last = pc.and_(pc.equal(table["run"], "gap"), pc.equal(table["seq"], 1))
    shifted = pc.if_else(is_last, 5, table["seq"])
    table = table.set_column(table.schema.get_field_index("seq"), "seq", shifted)
    rows = verify(spark.createDataFrame(table)).verdicts.collect()
    found = {
        (row.run, row.property): (row.status, row.judged, row.violated, row.unknown)
        for row in rows
    }
    assert found["in flight", "causal"] == ("held", 1, 0, 0)
    assert found["in flight", "liveness"] == ("unknown", 1, 0, 1)
    assert found["gap", "causal"] == ("violated", 1, 1, 1)
    assert found["gap", "no-duplication"] == ("unknown", 0, 0, 2)


def test_at_most_the_wanted_number_of_violations_is_listed(spark: SparkSession) -> None:
    run = [send(0, n, 1) for n in range(1, 6)] + [deliver(1, 0, n) for n in (5, 4, 3, 2, 1)]
    df = spark.createDataFrame(events_to_table(run, "r"))
    result = verify(df, violations_max=2)
    rows = {row.property: row for row in result.verdicts.collect()}
    assert (rows["causal"].violated, rows["causal"].listed) == (4, 2)
    assert result.violations.where("property = 'causal'").count() == 2
    with pytest.raises(ConfigError, match="violations_max must be at least 0"):
        verify(df, violations_max=-1)
    with pytest.raises(ConfigError, match="tasks must be at least 1"):
        verify(df, tasks=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("null process", r"run 'r': column 'process' is null in some rows: remove them"),
        ("null seq", r"run 'r': column 'seq' is null in some rows"),
        ("null run", r"column 'run' is null in some rows \(8\)"),
        ("duplicate", r"run 'r': two rows have process 0 and seq 0: remove the duplicates"),
        ("duplicate, no seq", r"run 'r': two rows have step 0: remove the duplicates"),
        ("kind", r"run 'r': unknown kind of event: 'sent'; kinds are send, release"),
        ("sent twice", r"run 'r': message 0:1 is sent twice"),
        ("sent again, no time", r"run 'r': message 0:2 is sent twice"),
    ],
)
def test_a_bad_row_is_one_clear_line(
    spark: SparkSession, change: str, message: str
) -> None:
    df = spark.createDataFrame(events_to_table(FIGURE, "r"))
    assert df.count() == 8
    if change == "null process":
        df = df.withColumn("process", F.expr("nullif(process, 2)"))
        df = df.where("process IS NOT NULL OR step = 5")
    elif change.startswith("null"):
        name = change.split()[1]
        df = df.withColumn(
            name, F.expr(f"CAST(NULL AS {'STRING' if name == 'run' else 'LONG'})")
        )
    elif change.startswith("duplicate"):
        df = df.union(df)
        df = df.drop("seq") if "no seq" in change else df
    elif change == "sent again, no time":
        run = [send(0, 1, 1), deliver(1, 0, 1), send(0, 2, 1), deliver(1, 0, 2)]
        df = spark.createDataFrame(events_to_table([*run, send(0, 2, 1)], "r")).drop("time")
    elif change == "kind":
        df = df.withColumn("kind", F.expr("replace(kind, 'send', 'sent')"))
    else:
        df = df.withColumn("number", F.expr("if(kind = 'send' AND source = 0, 1, number)"))
    good = spark.createDataFrame(events_to_table(FIGURE, "good"))
    result = verify(df.unionByName(good, allowMissingColumns=True).select(*df.columns))
    with pytest.raises(TraceError, match=message) as caught:
        result.check()
    assert "\n" not in str(caught.value)
    assert result.violations.where("run = 'good'").count() == 1  # Other runs continue.
    assert result.errors.count() == 1


def test_long_runs_are_read_from_a_file_in_both_directions() -> None:
    run = arbitrary_run(Random(3), 5, 140_000, 1)
    table = events_to_table(run, "r")
    batches = iter(table.to_batches(max_chunksize=10_000))
    packed = pa.Table.from_batches(pack_rows(batches, rows_max=1 << 15))
    assert packed.num_rows > 1
    with SpooledRun(RunInfo(run="r", complete=True), memory_batches=1) as spool:
        load_events(unpack_run(packed), spool)
        file = spool.file
        assert file is not None
        assert file.exists()
        found = verify_trace(spool, violations_max=5)
    assert not file.exists()
    expected = verify_trace(memory(run), violations_max=5)
    assert found.counts == expected.counts
    assert found.violations == expected.violations
    assert found.counts[Property.CAUSAL] > 100


def test_broadcasts_need_no_targets(spark: SparkSession) -> None:
    run = [broadcast(0, 1), broadcast(0, 2), deliver(1, 0, 2), deliver(1, 0, 1)]
    df = spark.createDataFrame(events_to_table(run, "r")).drop("targets", "time")
    (row,) = verify(df).violations.where("property = 'fifo'").collect()
    assert (row.process, row.message.sent_time) == ("1", None)
