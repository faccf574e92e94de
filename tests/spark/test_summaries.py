"""The summaries of violations count the rows of the table of violations."""

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
    result = verify(spark.createDataFrame(table_of(runs)), complete=True)
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
    result = verify(spark.createDataFrame(table), complete=True)
    found = {
        (row.run, row.property, row.start): (row.end, row.violations)
        for row in result.timeline.collect()
    }
    # 120 seconds in parts of 2 seconds; run b has one time only.
    assert found == {
        ("a", "causal", 100.0): (102.0, 1),
        ("a", "causal", 102.0): (104.0, 1),
        ("a", "causal", 220.0): (222.0, 1),
        ("a", "fifo", 100.0): (102.0, 1),
        ("a", "fifo", 102.0): (104.0, 1),
        ("a", "fifo", 220.0): (222.0, 1),
        ("a", "liveness", 150.0): (152.0, 1),
        ("b", "causal", 7.0): (8.0, 1),
        ("b", "fifo", 7.0): (8.0, 1),
        ("b", "liveness", 7.0): (8.0, 2),
    }
    result.unpersist()


def test_without_times_the_parts_are_null(spark: SparkSession) -> None:
    table = events_to_table([send(0, 1, 1)], "r").drop_columns(["time"])
    result = verify(spark.createDataFrame(table), complete=True)
    (row,) = result.timeline.collect()
    assert (row.property, row.start, row.end, row.violations) == ("liveness", None, None, 1)
    result.unpersist()
