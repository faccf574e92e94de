"""The traces of live nodes as a stream: every row once, under the names of the run."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antecede.core.process import Delivery
from antecede.core.process_id import ProcessId
from antecede.errors import ConfigError, TraceError
from antecede.pipeline.spark.trace_stream import NodeTraceStreamReader
from antecede.spark import read_trace_stream, register, verify_stream
from antecede.trace import Event, Kind
from antecede.trace.live.writer import NodeTraceWriter
from antecede.trace.run_info import RunInfo
from tests.spark.test_verify_stream import (
    stream_runs,
    true_violations,
    two_partitions,
    violations,
)

__all__ = ["two_partitions"]


class Nodes:
    """The nodes of a run, which record its events in traces of their own.

    Each node numbers itself 0, and the other processes in the order in which it meets them.
    """

    def __init__(self, path: Path, run: str, events: list[Event]) -> None:
        self.path, self.run, self.left = path, run, list(events)
        self.writers: dict[int, NodeTraceWriter] = {}
        self.ids: dict[int, dict[int, int]] = {}

    def record(self, count: int) -> None:
        """Record the next events, and flush."""
        for event in self.left[:count]:
            own = event.process
            if own not in self.writers:
                path = self.path / f"{self.run}-{own}"
                self.writers[own] = NodeTraceWriter(
                    path, f"{own}~{own + 10:x}", run=self.run, part_rows=8, flush_rows=3
                )
                self.ids[own] = {own: 0}
            observer = self.writers[own].observer
            if event.kind is Kind.SEND:
                targets = event.targets
                ids = None if targets is None else [self._id(own, t) for t in targets]
                observer.sent(0, event.number or 0, ids, event.time)
            elif event.kind is Kind.DELIVER:
                source = ProcessId(self._id(own, event.source or 0))
                message = Delivery(source, event.number or 0, b"")
                observer.delivered(0, message, event.time)
        self.left = self.left[count:]
        for writer in self.writers.values():
            writer.flush()

    def _id(self, own: int, other: int) -> int:
        """Return the id of a process at a node, which names it first."""
        ids, writer = self.ids[own], self.writers[own]
        if other not in ids:
            ids[other] = len(ids)
            writer.set_name(ids[other], str(other))
            writer.set_name(ids[other], f"{other}~{other + 10:x}")
        return ids[other]

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


def node_runs() -> dict[str, list[Event]]:
    """Return two runs with violations whose sends have targets."""
    found = {
        name: run
        for name, run in stream_runs().items()
        if all(e.targets is not None for e in run if e.kind is Kind.SEND)
    }
    return dict(list(found.items())[:2])


def run_query(spark: SparkSession, path: Path) -> None:
    stream = read_trace_stream(spark, path / "nodes")
    found = verify_stream(stream, watermark="1 hour", expire_quiet=False)
    writer = found.coalesce(1).writeStream.format("parquet")
    writer = writer.option("path", str(path / "out"))
    writer = writer.option("checkpointLocation", str(path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)


def test_nodes_are_verified_while_they_record_and_after_a_restart_of_the_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = node_runs()
    assert len(runs) == 2
    (tmp_path / "nodes").mkdir()
    nodes = [Nodes(tmp_path / "nodes", name, run) for name, run in runs.items()]
    for each in nodes:
        each.record(len(each.left) // 2)
    run_query(spark, tmp_path)
    first = violations(spark, tmp_path)
    for each in nodes:
        each.record(len(each.left) // 2)
    run_query(spark, tmp_path)
    # Without the commit of its last batch, the query was killed before the end of it.
    last = max(int(p.name) for p in (tmp_path / "checkpoint/commits").glob("[0-9]*"))
    (tmp_path / f"checkpoint/commits/{last}").unlink()
    (tmp_path / f"checkpoint/commits/.{last}.crc").unlink(missing_ok=True)
    for each in nodes:
        each.record(len(each.left))
        each.close()
    run_query(spark, tmp_path)  # Repeats the last batch.
    run_query(spark, tmp_path)
    found = violations(spark, tmp_path)
    assert found == true_violations(runs)
    assert first.total() < found.total()
    rows = spark.read.parquet(str(tmp_path / "out")).where("record = 'status'")
    events = {row.run: row.status.events for row in rows.orderBy("status.events").collect()}
    assert events == {name: len(run) for name, run in runs.items()}


@pytest.fixture
def reader(tmp_path: Path) -> NodeTraceStreamReader:
    return NodeTraceStreamReader([tmp_path])


def rows_between(
    reader: NodeTraceStreamReader, start: dict[str, object], end: dict[str, object]
) -> list[dict[str, object]]:
    return [
        row
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_a_second_history_of_a_name_is_another_process(
    reader: NodeTraceStreamReader, tmp_path: Path
) -> None:
    with NodeTraceWriter(tmp_path / "a", "ann~1", started=5.0) as ann:
        ann.set_name(1, "bob")
        ann.observer.sent(0, 1, [1], 1.0)
        ann.flush()
        first = reader.latestOffset()
        with NodeTraceWriter(tmp_path / "0", "ann~2", started=9.0) as other:
            other.set_name(1, "ann~1")
            other.set_name(2, "bob~7")
            other.observer.sent(0, 1, [1, 2], 2.0)
        second = reader.latestOffset()
    (row,) = rows_between(reader, reader.initialOffset(), first)
    assert (row["run"], row["process"], row["targets"]) == ("live", "ann", ["bob"])
    (row,) = rows_between(reader, first, second)
    assert (row["process"], row["targets"]) == ("ann~2", ["ann", "bob"])
    assert (row["seq"], row["time"], row["kind"]) == (0, 2.0, "send")


def test_a_restart_ends_its_run_only(reader: NodeTraceStreamReader, tmp_path: Path) -> None:
    assert reader.latestOffset() == reader.initialOffset()
    writers = [
        NodeTraceWriter(tmp_path / name, name, run=run)
        for name, run in (("ann", "one"), ("bob", "two"))
    ]
    for writer in writers:
        writer.observer.sent(0, 1, [0], 1.0)
        writer.close()
    first = reader.latestOffset()
    assert len(rows_between(reader, reader.initialOffset(), first)) == 2
    with NodeTraceWriter(tmp_path / "ann-2", "ann", run="one") as again:
        again.observer.sent(0, 2, [0], 2.0)
    second = reader.latestOffset()
    (row,) = rows_between(reader, first, second)
    assert (row["run"], row["kind"], row["process"]) == ("one", "restart", "ann")
    assert not rows_between(reader, second, reader.latestOffset())
    shutil.rmtree(tmp_path / "ann-2")
    with pytest.raises(TraceError, match="do not remove or replace a trace"):
        reader.partitions(second, reader.latestOffset())


def test_a_restarted_node_is_an_error_of_its_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("ann", "ann-2"):
        with NodeTraceWriter(tmp_path / "nodes" / name, "ann") as writer:
            writer.observer.sent(0, 1, [0], 1.0)
    run_query(spark, tmp_path)
    (row,) = spark.read.parquet(str(tmp_path / "out")).collect()
    assert row.status.error.startswith("run 'live': ann was restarted, and the run cannot")


def test_what_is_not_a_live_trace_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such directory"):
        read_trace_stream(spark, tmp_path / "nowhere")
    (tmp_path / "events.parquet").mkdir()
    (tmp_path / "run.json").write_text(RunInfo(run="merged").to_json())
    with pytest.raises(TraceError, match="is not the trace of a node"):
        NodeTraceStreamReader([tmp_path]).latestOffset()
    register(spark)
    with pytest.raises(Exception, match=r"antecede\.nodes is a stream") as caught:
        spark.read.format("antecede.nodes").load(str(tmp_path)).collect()
    assert not isinstance(caught.value, ConfigError)
