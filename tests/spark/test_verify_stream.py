"""Verification of a stream of events: each violation once, also after a restart."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from antecede.errors import ConfigError, TraceError
from antecede.pipeline.study.measure import spark_schema
from antecede.spark import verify_stream
from antecede.trace import Event, Kind
from antecede.trace.schema import SCHEMA
from antecede.trace.table import events_to_table
from antecede.verify import Property
from tests.spark.child_process import ROOT
from tests.verify.test_online import expected, random_run
from tests.verify.test_verifier import deliver, message_of, send

RUNS = 5
PARTS = 4
Found = Counter[tuple[str, str, str, str, int]]
"""Violations: run, property, process, and source and number of the message."""


def stream_runs() -> dict[str, list[Event]]:
    """Return runs with violations; some are not runs at all."""
    runs: dict[str, list[Event]] = {}
    seed = 0
    while len(runs) < RUNS:
        random = Random(seed)
        run = random_run(random)
        seed += 1
        try:
            is_wanted = bool(expected(run))
        except TraceError:
            is_wanted = False
        if is_wanted:
            runs[f"run-{seed}"] = run
    return runs


def true_violations(runs: dict[str, list[Event]]) -> Found:
    """Return what the oracle finds, without deliveries that have no send.

    Their sends may still come, so that a stream reports them as unknown.
    """
    found: Found = Counter()
    for name, run in runs.items():
        sent = {message_of(event) for event in run if event.kind is Kind.SEND}
        for (which, process, message), count in expected(run).items():
            if which is not Property.NO_CREATION or message in sent:
                key = (name, which.value, str(process), str(message.source), message.number)
                found[key] = count
    return found


def write_part(directory: Path, name: str, table: pa.Table) -> None:
    """Add a file, such as ``2.parquet``; Spark reads files in the order of their times."""
    directory.mkdir(exist_ok=True)
    pq.write_table(table, directory / f".{name}")
    os.utime(directory / f".{name}", (0, 1_000_000_000 + int(name.partition(".")[0])))
    (directory / f".{name}").rename(directory / name)


@pytest.fixture(autouse=True)
def two_partitions(spark: SparkSession) -> Iterator[None]:
    """A stateful query starts as many tasks per micro-batch as this setting says."""
    key = "spark.sql.shuffle.partitions"
    before = str(spark.conf.get(key))
    spark.conf.set(key, 2)
    yield
    spark.conf.set(key, before)


def shuffled_parts(runs: dict[str, list[Event]]) -> list[pa.Table]:
    """Return the events of all runs in random order, in parts."""
    table = pa.concat_tables(events_to_table(run, name) for name, run in runs.items())
    order = Random(1).sample(range(table.num_rows), table.num_rows)
    table = table.take(pa.array(order))
    rows = -(-table.num_rows // PARTS)
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]


def read_stream(spark: SparkSession, path: Path) -> DataFrame:
    reader = spark.readStream.schema(spark_schema(SCHEMA)).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(path / "in"))


def start_query(spark: SparkSession, path: Path, *, ends: bool) -> StreamingQuery:
    """Start the query, or start it again; it ends when all files are read if it should."""
    found = verify_stream(read_stream(spark, path), watermark="1 hour", expire_quiet=False)
    writer = found.coalesce(1).writeStream.format("parquet")
    writer = writer.option("path", str(path / "out"))
    writer = writer.option("checkpointLocation", str(path / "checkpoint"))
    return (writer.trigger(availableNow=True) if ends else writer).start()


def run_query(spark: SparkSession, path: Path) -> None:
    assert start_query(spark, path, ends=True).awaitTermination(120)


def violations(spark: SparkSession, path: Path) -> Found:
    rows = spark.read.parquet(str(path / "out")).where("record = 'violation'").collect()
    return Counter(
        (row.run, row.property, row.process, row.message.source, row.message.number)
        for row in rows
    )


def test_a_restarted_query_reports_each_violation_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = stream_runs()
    parts = shuffled_parts(runs)
    for index, part in enumerate(parts[:2]):
        write_part(tmp_path / "in", f"{index}.parquet", part)
    run_query(spark, tmp_path)
    first = violations(spark, tmp_path)
    # Without the commit of its last batch, the query was killed before the end of it.
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    for index, part in enumerate(parts[2:3], 2):
        write_part(tmp_path / "in", f"{index}.parquet", part)
    query = start_query(spark, tmp_path, ends=False)
    while (query.lastProgress or {"batchId": 0})["batchId"] < 2:
        time.sleep(0.05)
        assert query.isActive, query.exception()
    query.stop()
    for index, part in enumerate(parts[3:], 3):
        write_part(tmp_path / "in", f"{index}.parquet", part)
    query = start_query(spark, tmp_path, ends=False)
    query.processAllAvailable()
    query.stop()
    found = violations(spark, tmp_path)
    assert found == true_violations(runs)
    assert first.total() < found.total()
    rows = spark.read.parquet(str(tmp_path / "out"))
    last = rows.where("record = 'status'").groupBy("run").agg(F.max("status.events"))
    assert {row[0]: row[1] for row in last.collect()} == {
        name: len(run) for name, run in runs.items()
    }


def test_statuses_count_what_was_given_up_and_what_is_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    def at(event: Event, seconds: float) -> Event:
        return Event(
            process=event.process, kind=event.kind, time=seconds, source=event.source,
            number=event.number, target=event.target, targets=event.targets,
        )  # fmt: skip

    run = [at(send(0, number, 1), number) for number in range(1, 4)]
    run += [at(deliver(1, 0, 1), 5), at(deliver(1, 0, 1), 6), at(send(0, 4, 1), 100)]
    table = events_to_table(run, "r").drop_columns(["step"])
    table = table.rename_columns(["day", "node", *table.column_names[2:]])
    for index, part in enumerate([[0, 2, 3, 4], [5], [1]]):
        write_part(tmp_path / "in", f"{index}.parquet", table.take(pa.array(part)))
    schema = spark_schema(table.schema)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    stream = reader.parquet(str(tmp_path / "in"))
    found = verify_stream(
        stream,
        watermark="30 seconds",
        columns={"process": F.concat(F.lit("node-"), "node")}
        | {"source": F.concat(F.lit("node-"), "source")}
        | {"targets": F.transform("targets", lambda x: F.concat(F.lit("node-"), x))},
        run="day",
        expire_quiet=False,
    )
    query = found.writeStream.format("memory").queryName("found")
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    rows = spark.table("found").collect()
    (violation,) = [row for row in rows if row.record == "violation"]
    assert violation.text == "no-duplication: node-1 delivered node-0:1 twice"
    assert (violation.message.sent_time, violation.message.delivered_time) == (1.0, 6.0)
    assert violation.earlier is None
    statuses = [row.status for row in rows if row.record == "status"]
    assert [each.waiting for each in statuses] == [1, 0, 0]
    assert [each.missing for each in statuses] == [0, 1, 1]
    assert [each.late for each in statuses] == [0, 0, 1]
    assert [each.time for each in statuses] == [6.0, 100.0, 100.0]
    assert all(each.state_bytes > 0 and each.error is None for each in statuses)
    assert all(each.violated["no-duplication"] == 1 for each in statuses)


def test_an_invalid_run_is_an_error_row_and_a_quiet_run_is_given_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    wrong = events_to_table([send(0, 1, 1), send(0, 1, 1)], "wrong")
    quiet = events_to_table([send(0, 1, 1), deliver(1, 0, 7)], "quiet")
    write_part(tmp_path / "in", "0.parquet", pa.concat_tables([wrong, quiet]))
    write_part(tmp_path / "in", "1.parquet", wrong)
    found = verify_stream(read_stream(spark, tmp_path), watermark="500 milliseconds")
    query = found.writeStream.format("memory").queryName("quiet").start()
    rows = spark.table("quiet").where("status.is_quiet AND run = 'quiet'")
    while not rows.count():
        time.sleep(0.2)
        assert query.isActive, query.exception()
    query.stop()
    (row,) = rows.collect()
    assert row.status.unknown["no-creation"] == 1
    assert (row.status.lost_copies, row.status.state_bytes) == (1, 0)
    errors = [
        row.status.error
        for row in spark.table("quiet").where("run = 'wrong'").collect()
        if not row.status.is_quiet
    ]
    assert errors == ["run 'wrong': message 0:1 is sent twice"]


def test_a_stream_that_cannot_be_verified_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_part(tmp_path / "in", "0.parquet", events_to_table([send(0, 1, 1)], "r"))
    stream = read_stream(spark, tmp_path)
    with pytest.raises(ConfigError, match="needs a streaming DataFrame"):
        verify_stream(spark.read.parquet(str(tmp_path / "in")))
    with pytest.raises(ConfigError, match="needs the column 'seq'"):
        verify_stream(stream.drop("seq"))
    with pytest.raises(ConfigError, match="such as '10 minutes', got '10 parsecs'"):
        verify_stream(stream, watermark="10 parsecs")
    with pytest.raises(ConfigError, match="rows must be one of events, spans"):
        verify_stream(stream, rows="traces")  # type: ignore[arg-type]


def run_killed(path: Path, kind: str) -> None:
    """Run a query in another process, and kill that after its first and third batch."""
    commits = path / "checkpoint" / "commits"
    for wanted in ("0", "2", None):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.stream_client", kind, str(path)],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            start_new_session=True,
        )
        if wanted is None:
            assert child.wait(180) == 0
            break
        deadline = time.monotonic() + 120
        while not (commits / wanted).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert child.poll() is None
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    assert json.loads((commits / str(PARTS - 1)).read_text().splitlines()[1])


@pytest.mark.slow
def test_a_killed_process_reports_each_violation_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = stream_runs()
    for index, part in enumerate(shuffled_parts(runs)):
        write_part(tmp_path / "in", f"{index}.parquet", part)
    run_killed(tmp_path, "events")
    assert violations(spark, tmp_path) == true_violations(runs)
