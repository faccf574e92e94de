"""The trace of a node survives the node, closed or killed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.core import ProcessId, make_hybrid
from antecede.errors import ConfigError, LocalError, StorageError, TraceError
from antecede.trace import Event, Kind
from antecede.trace.live.reader import NodeTrace, are_nodes_of_one_run, read_node_trace
from antecede.trace.live.writer import NodeTraceWriter
from antecede.trace.reader import read_trace
from antecede.trace.table import events_from_table
from antecede.verify.verdict import Status
from antecede.verify.verifier import verify_trace
from tests.trace.nodes import Node, history, name_of


def recorded(node: NodeTrace) -> list[Event]:
    return [event for batch in node.batches() for event in events_from_table(batch)]


def send(number: int, time: float = 0.0) -> Event:
    return Event(
        process=0, kind=Kind.SEND, time=time, source=0, number=number, targets=(1, 2)
    )


def record_sends(trace: NodeTraceWriter, first: int, last: int) -> None:
    for number in range(first, last + 1):
        trace.observer.sent(0, number, [1, 2], float(number))


def sends(first: int, last: int) -> list[Event]:
    return [send(number, float(number)) for number in range(first, last + 1)]


@pytest.mark.long
@pytest.mark.parametrize("part_rows", [1, 10, 64, 1000])
@pytest.mark.parametrize("flush_rows", [1, 7, 1000])
def test_a_closed_trace_holds_all_recorded_events(
    flush_rows: int, part_rows: int, tmp_path: Path
) -> None:
    node = Node(tmp_path, 0, flush_rows=flush_rows, part_rows=part_rows)
    events = [event for event in history(processes=3, messages=9) if event.process == 0]
    node.record(events)
    node.trace.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["events.parquet", "run.json"]
    table = pq.read_table(tmp_path / "events.parquet")
    assert table.column("seq").to_pylist() == list(range(len(events)))
    assert set(table.column("process").to_pylist()) == {0}
    assert table.column("step").null_count == len(events)
    assert table.column("run").unique().to_pylist() == ["test"]
    found = [
        (event.kind, event.number, event.time)
        for event in recorded(read_node_trace(tmp_path))
    ]
    assert found == [(event.kind, event.number, event.time) for event in events]
    parts = len(list((tmp_path / "events.parquet").iterdir()))
    rows = -(-part_rows // flush_rows) * flush_rows
    assert parts == -(-len(events) // rows)


def test_a_driver_reports_the_events_of_its_process(tmp_path: Path) -> None:
    alice, bob = make_hybrid(ProcessId(0)), make_hybrid(ProcessId(1))
    with (
        NodeTraceWriter(tmp_path / "a", "alice") as one,
        NodeTraceWriter(tmp_path / "b", "bob") as two,
    ):
        one.set_name(1, "bob")
        two.set_name(1, "alice")
        one.observer.sent(0, 1, [1], 0.0)
        alice.send([bob.id], b"hello", now=0.0)
        for out in alice.frames_to_transmit():
            one.observer.transmitted(0, out, 0.1)
            one.observer.dropped(0, 1, out.frame, 0.1)
            two.observer.arrived(0, 1, out.frame, 0.2)
            bob.receive(alice.id, out.frame, now=0.2)
        for message in bob.messages_to_deliver():
            two.observer.happened(0, Kind.LOCAL, 0.3)
            two.observer.delivered(0, message, 0.3)
    assert one.observer.releases == 1
    kinds = [
        [e.kind.value for e in recorded(read_node_trace(tmp_path / n))] for n in ("a", "b")
    ]
    assert kinds == [["send", "release", "drop"], ["arrive", "local", "deliver"]]


def test_run_json_names_the_node(tmp_path: Path) -> None:
    trace = NodeTraceWriter(
        tmp_path, "alice", protocol="hybrid", run="today", started=5.0, parameters={"n": 1}
    )
    trace.set_name(1, "bob")
    trace.set_name(1, "bob")
    trace.set_name(2, "bob")
    trace.close(complete=True)
    info = json.loads((tmp_path / "run.json").read_text())
    assert (info["kind"], info["name"], info["started"]) == ("node", "alice", 5.0)
    assert info["names"] == {"0": "alice", "1": "bob", "2": "bob"}
    assert (info["run"], info["protocol"], info["complete"]) == ("today", "hybrid", True)
    assert info["parameters"] == {"n": 1}
    assert info["ended"] > info["started"]


def test_the_trace_of_a_single_node_is_unknown(tmp_path: Path) -> None:
    """It does not contain the sends of its peers."""
    node = Node(tmp_path, 0)
    events = history(processes=3, messages=9)
    node.record(event for event in events if event.process == 0)
    node.trace.close(complete=True)
    verdict = verify_trace(tmp_path)
    assert verdict.status is Status.UNKNOWN
    assert "antecede merge" in verdict.reasons[0]


@pytest.mark.parametrize("left", ["events.parquet", "run.json", "run.json.partial"])
def test_a_trace_is_never_overwritten(left: str, tmp_path: Path) -> None:
    (tmp_path / left).write_text("{}")
    with pytest.raises(ConfigError, match="give each start of a node a directory of its"):
        NodeTraceWriter(tmp_path, "alice")
    assert [path.name for path in tmp_path.iterdir()] == [left]


def test_two_nodes_cannot_share_a_directory(tmp_path: Path) -> None:
    with NodeTraceWriter(tmp_path, "alice") as trace:
        with pytest.raises(ConfigError, match="already holds a trace"):
            NodeTraceWriter(tmp_path, "bob")
        record_sends(trace, 1, 1)
    assert read_node_trace(tmp_path).name == "alice"


def test_a_directory_that_cannot_be_written_raises_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot write to"):
        NodeTraceWriter(tmp_path / "file" / "trace", "alice")


def test_a_process_has_one_name(tmp_path: Path) -> None:
    with NodeTraceWriter(tmp_path, "alice") as trace:
        trace.set_name(1, "bob")
        for process, name in ((0, "bob"), (1, "carol"), (2, ""), (-1, "dave")):
            with pytest.raises(LocalError, match=f"cannot name process {process} "):
                trace.set_name(process, name)
        assert trace.names == {0: "alice", 1: "bob"}


def test_only_read_node_trace_reads_an_unclosed_trace(tmp_path: Path) -> None:
    with NodeTraceWriter(tmp_path, "alice") as trace:
        trace.set_name(1, "bob")
        trace.set_name(2, "carol")
        record_sends(trace, 1, 3)
        trace.flush()
        record_sends(trace, 4, 5)
        with pytest.raises(TraceError, match=r"unfinished .*; `antecede merge` reads"):
            read_trace(tmp_path)
        node = read_node_trace(tmp_path)
        assert not node.closed
        assert node.lost_events_max == 4096
        assert recorded(node) == sends(1, 3)
        assert node.info.names == {0: "alice", 1: "bob", 2: "carol"}
        trace.close()
        assert recorded(read_node_trace(tmp_path)) == sends(1, 5)
        assert read_node_trace(tmp_path).closed


@pytest.mark.parametrize("cut", [1, 20, 300, 511])
def test_an_incomplete_flush_loses_only_its_own_rows(cut: int, tmp_path: Path) -> None:
    with NodeTraceWriter(tmp_path / "running", "alice") as trace:
        record_sends(trace, 1, 10)
        trace.flush()
        tail = tmp_path / "running" / "events.parquet.partial" / "tail-000000.packed"
        before = len(tail.read_bytes())
        record_sends(trace, 11, 20)
        trace.flush()
        text = tail.read_bytes()
        shutil.copytree(tmp_path / "running", tmp_path / "killed")
    cut = min(cut, len(text) - before)
    tail = tmp_path / "killed" / "events.parquet.partial" / "tail-000000.packed"
    tail.write_bytes(text[:-cut])
    assert recorded(read_node_trace(tmp_path / "killed")) == sends(1, 10)
    tail.write_bytes(text)
    assert recorded(read_node_trace(tmp_path / "killed")) == sends(1, 20)


def test_a_part_and_its_tail_are_not_counted_twice(tmp_path: Path) -> None:
    """A kill after writing the part and before removing the tail leaves both."""
    with NodeTraceWriter(tmp_path, "alice", part_rows=10) as trace:
        record_sends(trace, 1, 9)
        trace.flush()
        folder = tmp_path / "events.parquet.partial"
        tail = (folder / "tail-000000.packed").read_bytes()
        record_sends(trace, 10, 10)
        trace.flush()
        record_sends(trace, 11, 25)
        trace.flush()
        trace.close()
    folder = (tmp_path / "events.parquet").rename(folder)
    (tmp_path / "run.json").rename(tmp_path / "run.json.partial")
    assert len(list(folder.glob("part-*.parquet"))) == 2
    (folder / "tail-000000.packed").write_bytes(tail)
    (folder / "part-000002.parquet.partial").write_bytes(b"half")
    assert recorded(read_node_trace(tmp_path)) == sends(1, 25)


KILLED = """
import os, signal, sys
from antecede.trace.live.writer import NodeTraceWriter
trace = NodeTraceWriter(sys.argv[1], "alice", started=1.0, flush_rows=50, part_rows=500)
trace.set_name(1, "bob")
trace.set_name(2, "carol")
for number in range(1, 2345 + 1):
    trace.observer.sent(0, number, [1, 2], float(number))
    if number == 2340:
        trace.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_a_killed_process_loses_only_rows_after_the_last_flush(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -9
    node = read_node_trace(tmp_path)
    assert not node.closed
    assert node.lost_events_max == 50
    assert recorded(node) == sends(1, 2340)
    assert not (tmp_path / "events.parquet").exists()


FULL = """
import resource, sys
from antecede.errors import StorageError
from antecede.trace.live.writer import NodeTraceWriter
trace = NodeTraceWriter(sys.argv[1], "alice", flush_rows=100)
trace.set_name(1, "bob")
trace.set_name(2, "carol")
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
for number in range(1, 2001):
    trace.observer.sent(0, number, [1, 2], float(number))
assert trace.failure is not None
try:
    trace.close()
except StorageError as error:
    print(error)
"""


@pytest.mark.long
def test_a_full_disk_stops_the_trace_but_not_the_node(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"cannot write to {tmp_path}: File too large\n"
    assert f"stopped the trace of alice: cannot write to {tmp_path}" in done.stderr
    node = read_node_trace(tmp_path)
    assert not node.closed
    assert recorded(node) == sends(1, node.rows)
    assert node.rows % 100 == 0
    assert 0 < node.rows < 2000


def test_a_node_killed_before_its_first_event_is_refused(tmp_path: Path) -> None:
    (tmp_path / "events.parquet.partial").mkdir()
    with pytest.raises(TraceError, match="killed before its first event; leave this"):
        read_node_trace(tmp_path)
    (tmp_path / "run.json.partial").write_text("[]")
    with pytest.raises(TraceError, match=r"run\.json\.partial: not a JSON object"):
        read_node_trace(tmp_path)


def test_nodes_of_one_run_are_distinguished_from_several_runs(tmp_path: Path) -> None:
    for process in range(3):
        Node(tmp_path / str(process), process).trace.close()
    Node(tmp_path / "other", 5, run="other").trace.close()
    shutil.copytree(tmp_path / "0", tmp_path / "simulated")
    (tmp_path / "simulated" / "run.json").write_text('{"run": "test"}')
    nodes = [tmp_path / str(process) for process in range(3)]
    assert are_nodes_of_one_run(nodes)
    for other in ("other", "simulated", "nowhere"):
        assert not are_nodes_of_one_run([*nodes, tmp_path / other])
    assert read_node_trace(nodes[1]).name == name_of(1)
