"""The summaries of violations: by pair of processes, by time and by path."""

from collections import Counter
from dataclasses import replace

from pyspark.sql import SparkSession

from antecede.errors import TraceError
from antecede.spark import verify
from antecede.trace.table import events_to_table
from antecede.verify import Property
from antecede.verify.verifier import verify_trace
from tests.spark.test_verify_events import random_runs, table_of
from tests.verify.test_verifier import deliver, memory, send


def test_the_pairs_are_those_of_the_verifier(spark: SparkSession) -> None:
    runs = random_runs()
    expected: Counter[tuple[str, ...]] = Counter()
    for name, run in runs.items():
        try:
            found = verify_trace(memory(run), with_breakdown=True).breakdown
        except TraceError:
            continue
        assert found is not None
        for each in found.overtakings:
            processes = (str(each.process), str(each.source), str(each.late_source))
            expected[name, each.property.value, *processes] = each.count
        for pair in found.pairs:
            if pair.property not in (Property.CAUSAL, Property.FIFO):
                processes = (str(pair.process), str(pair.source), "")
                expected[name, pair.property.value, *processes] = pair.count
    assert len(expected) > 40
    # The numbers do not depend on how many violations are listed.
    df = spark.createDataFrame(table_of(runs))
    result = verify(df, complete=True, violations_max=1)
    pairs = {
        (row.run, row.property, row.process, row.source, row.earlier_source or ""): (
            row.violations
        )
        for row in result.pairs.collect()
    }
    assert pairs == expected
    result.unpersist()


def test_the_timeline_divides_the_time_of_the_violations(spark: SparkSession) -> None:
    # At process 1, 0:2 overtakes 0:1 at 100 s, 0:4 overtakes 0:3 at 103 s and 0:5 at
    # 220 s; 0:7 is sent at 150 s and never delivered.
    events = [
        *((send(0, number, 1), 1.0 * number) for number in (1, 2, 3, 4)),
        (deliver(1, 0, 2), 100.0),
        (deliver(1, 0, 1), 101.0),
        (deliver(1, 0, 4), 103.9),
        (deliver(1, 0, 3), 104.0),
        (send(0, 5, 1), 149.0),
        (send(0, 6, 1), 149.5),
        (send(0, 7, 1), 150.0),
        (deliver(1, 0, 6), 220.0),
        (deliver(1, 0, 5), 221.0),
    ]
    run = [replace(event, time=time) for event, time in events]
    one = [replace(event, time=7.25) for event in run[:6]]
    table = table_of({"a": run, "b": one})
    result = verify(spark.createDataFrame(table), complete=True, violations_max=1)
    found = {
        (row.run, row.property, row.start): (row.end, row.violations)
        for row in result.timeline.collect()
    }
    # The events of run a are from 1 s to 221 s, in parts of 5 seconds; run b has one time.
    assert found == {
        ("a", "causal", 100.0): (105.0, 2),
        ("a", "causal", 220.0): (225.0, 1),
        ("a", "fifo", 100.0): (105.0, 2),
        ("a", "fifo", 220.0): (225.0, 1),
        ("a", "liveness", 150.0): (155.0, 1),
        ("b", "causal", None): (None, 1),
        ("b", "fifo", None): (None, 1),
        ("b", "liveness", None): (None, 2),
    }
    result.unpersist()


def test_paths_count_the_violations_by_the_processes_of_their_chains(
    spark: SparkSession,
) -> None:
    # 0:1 to 2 is overtaken by way of process 1, twice: by 1:1 and by 1:3, which the
    # message 1:2 of the same process precedes; 0:3 overtakes 0:1 directly.
    run = [
        send(0, 1, 2),
        send(0, 2, 1),
        deliver(1, 0, 2),
        send(1, 1, 2),
        send(1, 2, 2),
        send(1, 3, 2),
        deliver(2, 1, 1),
        deliver(2, 1, 3),
        send(0, 3, 2),
        deliver(2, 0, 3),
        deliver(2, 0, 1),
        deliver(2, 1, 2),
    ]
    result = verify(spark.createDataFrame(table_of({"r": run})), complete=True)
    found = {
        (row.property, tuple(row.processes), row.process): (row.violations, row.messages)
        for row in result.paths.collect()
    }
    causal = {key[1]: value for key, value in found.items() if key[0] == "causal"}
    listed = result.violations.where("property = 'causal'").collect()
    assert sum(count for count, _ in causal.values()) == len(listed) == 3
    assert causal["0", "1"][0] + causal.get(("1",), (0, 0))[0] == 2
    assert causal["0",] == (1, 2)
    result.unpersist()


def test_without_a_breakdown_nothing_is_counted(spark: SparkSession) -> None:
    run = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), deliver(1, 0, 1)]
    df = spark.createDataFrame(table_of({"r": run}))
    result = verify(df, complete=True, with_breakdown=False)
    assert result.violations.count() == 2
    assert not result.pairs.collect()
    assert not result.timeline.collect()
    result.unpersist()


def test_without_times_the_parts_are_null(spark: SparkSession) -> None:
    table = events_to_table([send(0, 1, 1)], "r").drop_columns(["time"])
    result = verify(spark.createDataFrame(table), complete=True)
    (row,) = result.timeline.collect()
    assert (row.property, row.start, row.end, row.violations) == ("liveness", None, None, 1)
    result.unpersist()
