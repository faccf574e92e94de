"""Spans as a stream: each violation once, also after a restart; metrics; messages."""

import os
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antecede.errors import ConfigError
from antecede.pipeline.study.measure import spark_schema
from antecede.spark import verify_stream
from tests.pipeline.span_runs import SPANS, START, SpanRun
from tests.pipeline.test_record_stream import MS, S, arrivals, true_keys
from tests.spark.test_verify_stream import run_killed, two_partitions, write_part

__all__ = ["two_partitions"]

RUNS = ("one", "two")


def span_runs() -> dict[str, SpanRun]:
    runs = {}
    for seed, name in enumerate(RUNS):
        runs[name] = SpanRun(Random(seed), 4, skew_ns=10 * MS)
        runs[name].add_traces(120, duration_ns=600 * MS)
    return runs


def last_span(run: str) -> pa.Table:
    """Return a span that ends long after all others, so that no group stays open."""
    times = {"start_ns": START + 60 * S, "end_ns": START + 60 * S + 1}
    row = {"trace": "end", "span": "end", "process": "end", "kind": "server", **times}
    return pa.Table.from_pylist([row], schema=SPANS).append_column("run", pa.array([run]))


def parts(runs: dict[str, SpanRun], count: int) -> list[pa.Table]:
    """Return the spans of all runs in parts, as they arrive, and a last part."""
    found: list[list[pa.Table]] = [[] for _ in range(count)]
    for name, run in runs.items():
        rows = arrivals(run, jitter_ns=20 * MS)
        rows = rows.append_column("run", pa.array([name] * rows.num_rows))
        size = -(-rows.num_rows // count)
        for index in range(count):
            found[index].append(rows.slice(index * size, size))
    found.append([last_span(name) for name in runs])
    return [pa.concat_tables(tables) for tables in found]


def read_spans(spark: SparkSession, path: Path) -> DataFrame:
    schema = spark_schema(last_span("r").schema)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(path / "in"))


def run_query(spark: SparkSession, path: Path) -> None:
    found = verify_stream(
        read_spans(spark, path).withColumnRenamed("process", "instance"),
        watermark="100 milliseconds",
        rows="spans",
        columns={"process": F.upper("instance")},
        expire_quiet=False,
    )
    writer = found.coalesce(1).writeStream.format("parquet")
    writer = writer.option("path", str(path / "out"))
    writer = writer.option("checkpointLocation", str(path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)


def check_result(spark: SparkSession, path: Path, runs: dict[str, SpanRun]) -> None:
    rows = spark.read.parquet(str(path / "out")).collect()
    violations = [row for row in rows if row.record == "violation"]
    for name, run in runs.items():
        found = sorted(
            (row.property, row.process.lower(), row.message.span)
            for row in violations
            if row.run == name
        )
        assert found == sorted(true_keys(run).elements())
        assert len(found) > 10
        last = max(
            (row.status for row in rows if row.run == name and row.status is not None),
            key=lambda status: status.records,
        )
        assert (last.records, last.unread, last.open) == (len(run.rows) + 1, 0, 1)
        assert (last.deliveries, last.late) == (len(run.events()) // 2, 0)
    for row in violations:
        path_of = [(each.source, each.number, each.span) for each in row.path]
        for which, end in ((row.earlier, 0), (row.message, -1)):
            assert path_of[end] == (which.source, which.number, which.span)
            assert which.trace.startswith("t")
            assert row.path[end].sent_time == which.sent_time


def test_a_restarted_query_of_spans_reports_each_violation_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = span_runs()
    *tables, last = parts(runs, 3)
    for index, part in enumerate(tables):
        write_part(tmp_path / "in", f"{index}.parquet", part)
    run_query(spark, tmp_path)
    before = spark.read.parquet(str(tmp_path / "out")).where("record = 'violation'").count()
    assert before
    # Without the commit of its last batch, the query was killed before the end of it.
    (tmp_path / "checkpoint" / "commits" / "2").unlink()
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    write_part(tmp_path / "in", "3.parquet", last)
    run_query(spark, tmp_path)
    check_result(spark, tmp_path, runs)


@pytest.mark.slow
def test_a_killed_process_reports_each_violation_of_spans_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = span_runs()
    for index, part in enumerate(parts(runs, 3)):
        write_part(tmp_path / "in", f"{index}.parquet", part)
    run_killed(tmp_path, "spans")
    check_result(spark, tmp_path, runs)


def test_messages_late_rows_and_metrics(spark: SparkSession, tmp_path: Path) -> None:
    def row(source: str, target: str, sent: float, received: float) -> dict[str, object]:
        times = {"sent_at": float(sent), "received_at": float(received)}
        return {"from": source, "to": target, **times, "id": f"{source}{sent:g}"}

    early = [
        row("a", "c", 1, 9), row("a", "b", 2, 3), row("b", "c", 4, 5), row("a", "b", 50, 51)
    ]  # fmt: skip
    late = row("a", "b", 4, 4.5)
    batches = [early, [row("a", "b", 90, 91)], [late], [row("a", "b", 200, 201)]]
    for index, batch in enumerate(batches):
        write_part(tmp_path / "in", f"{index}.parquet", pa.Table.from_pylist(batch))
    schema = "`from` string, `to` string, sent_at double, received_at double, id string"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(tmp_path / "in"))
    found = verify_stream(stream, watermark="20 seconds", expire_quiet=False)
    writer = found.writeStream.format("memory").queryName("messages")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    rows = spark.table("messages").collect()
    (violation,) = [each for each in rows if each.record == "violation"]
    assert violation.text.startswith("causal: c delivered b:")
    assert [each.name for each in violation.path] == ["a1", "a2", "b4"]
    assert violation.message.delivered_time == 5.0
    # The late row arrives after the later events of a and b were emitted.
    metrics = [each["observedMetrics"]["antecede"] for each in query.recentProgress]
    found_late = [(each["late"], each["unknown"], each["open"]) for each in metrics]
    assert found_late == [(0, 0, 4), (0, 0, 1), (0, 0, 2), (2, 7, 1)]
    statuses = [each.status for each in rows if each.record == "status"]
    for each, status in zip(metrics, statuses, strict=True):
        assert each["state_bytes"] == each["state_bytes_max"] == status.state_bytes > 0
        assert (each["runs"], each["errors"]) == (1, 0)
    assert [each["violations"] for each in metrics] == [0, 1, 0, 0]


def test_clocks_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    os.makedirs(tmp_path / "in")
    schema = "process string, clock map<string, bigint>"
    stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    with pytest.raises(ConfigError, match="and this stream has clocks"):
        verify_stream(stream)
