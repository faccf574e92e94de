"""What a node records while it runs is there, whatever becomes of the node."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.core import Hybrid, ProcessId
from antecede.errors import ConfigError, LocalError
from antecede.trace import Event, Kind
from antecede.trace.live.reader import NodeTrace, are_nodes_of_one_run, read_node
from antecede.trace.live.writer import LiveTrace
from antecede.trace.reader import read_trace
from antecede.trace.table import events_of
from antecede.verify.verdict import EXIT_UNKNOWN
from antecede.verify.verifier import verify
from tests.trace.nodes import Node, history, name_of


def recorded(node: NodeTrace) -> list[Event]:
    return [event for batch in node.batches() for event in events_of(batch)]


def send(number: int, time: float = 0.0) -> Event:
    return Event(
        process=0, kind=Kind.SEND, time=time, source=0, number=number, targets=(1, 2)
    )


def record_sends(trace: LiveTrace, first: int, last: int) -> None:
    for number in range(first, last + 1):
        trace.sent(0, number, [1, 2], float(number))


def sends(first: int, last: int) -> list[Event]:
    return [send(number, float(number)) for number in range(first, last + 1)]


@pytest.mark.parametrize("part_rows", [1, 10, 64, 1000])
@pytest.mark.parametrize("flush_rows", [1, 7, 1000])
def test_a_closed_trace_holds_all_that_was_recorded(
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
        (event.kind, event.number, event.time) for event in recorded(read_node(tmp_path))
    ]
    assert found == [(event.kind, event.number, event.time) for event in events]
    parts = len(list((tmp_path / "events.parquet").iterdir()))
    rows = -(-part_rows // flush_rows) * flush_rows
    assert parts == -(-len(events) // rows)


def test_a_driver_records_into_it_what_its_process_does(tmp_path: Path) -> None:
    alice, bob = Hybrid(ProcessId(0)), Hybrid(ProcessId(1))
    with LiveTrace(tmp_path / "a", "alice") as one, LiveTrace(tmp_path / "b", "bob") as two:
        one.name_of(1, "bob")
        two.name_of(1, "alice")
        one.sent(0, 1, [1], 0.0)
        alice.send([bob.id], b"hello", now=0.0)
        for out in alice.frames_to_transmit():
            one.transmitted(0, out, 0.1)
            one.dropped(0, 1, out.frame, 0.1)
            two.arrived(0, 1, out.frame, 0.2)
            bob.receive(alice.id, out.frame, now=0.2)
        for message in bob.messages_to_deliver():
            two.happened(0, Kind.LOCAL, 0.3)
            two.delivered(0, message, 0.3)
    assert one.recorder.releases == 1
    kinds = [[e.kind.value for e in recorded(read_node(tmp_path / n))] for n in ("a", "b")]
    assert kinds == [["send", "release", "drop"], ["arrive", "local", "deliver"]]


def test_run_json_says_whose_trace_it_is(tmp_path: Path) -> None:
    trace = LiveTrace(
        tmp_path, "alice", protocol="hybrid", run="today", started=5.0, parameters={"n": 1}
    )
    trace.name_of(1, "bob")
    trace.name_of(1, "bob")
    trace.name_of(2, "bob")
    trace.close(complete=True)
    info = json.loads((tmp_path / "run.json").read_text())
    assert (info["kind"], info["name"], info["started"]) == ("node", "alice", 5.0)
    assert info["names"] == {"0": "alice", "1": "bob", "2": "bob"}
    assert (info["run"], info["protocol"], info["complete"]) == ("today", "hybrid", True)
    assert info["parameters"] == {"n": 1}
    assert info["ended"] > info["started"]


def test_one_node_by_itself_is_not_judged_for_what_others_did(tmp_path: Path) -> None:
    """Its peers' sends are not there; that is no sign that there were none."""
    node = Node(tmp_path, 0)
    events = history(processes=3, messages=9)
    node.record(event for event in events if event.process == 0)
    node.trace.close(complete=True)
    report = verify(tmp_path)
    assert report.exit_code == EXIT_UNKNOWN
    assert "antecede merge" in report.reasons[0]


@pytest.mark.parametrize("left", ["events.parquet", "run.json", "run.json.partial"])
def test_a_trace_is_never_overwritten(left: str, tmp_path: Path) -> None:
    (tmp_path / left).write_text("{}")
    with pytest.raises(ConfigError, match="give each start of a node a directory of its"):
        LiveTrace(tmp_path, "alice")
    assert [path.name for path in tmp_path.iterdir()] == [left]


def test_two_nodes_cannot_share_a_directory(tmp_path: Path) -> None:
    with LiveTrace(tmp_path, "alice") as trace:
        with pytest.raises(ConfigError, match="holds a trace already"):
            LiveTrace(tmp_path, "bob")
        record_sends(trace, 1, 1)
    assert read_node(tmp_path).name == "alice"


def test_a_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot write to"):
        LiveTrace(tmp_path / "file" / "trace", "alice")


def test_a_process_has_one_name(tmp_path: Path) -> None:
    with LiveTrace(tmp_path, "alice") as trace:
        trace.name_of(1, "bob")
        for process, name in ((0, "bob"), (1, "carol"), (2, ""), (-1, "dave")):
            with pytest.raises(LocalError, match=f"process {process} cannot be called"):
                trace.name_of(process, name)
        assert trace.names == {0: "alice", 1: "bob"}


def test_an_unclosed_trace_is_no_trace_but_can_be_read_as_a_nodes(tmp_path: Path) -> None:
    with LiveTrace(tmp_path, "alice") as trace:
        trace.name_of(1, "bob")
        trace.name_of(2, "carol")
        record_sends(trace, 1, 3)
        trace.flush()
        record_sends(trace, 4, 5)
        with pytest.raises(ConfigError, match=r"half-written: .* `antecede merge` takes"):
            read_trace(tmp_path)
        node = read_node(tmp_path)
        assert not node.whole
        assert node.lost_max == 4096
        assert recorded(node) == sends(1, 3)
        assert node.info.names == {0: "alice", 1: "bob", 2: "carol"}
        trace.close()
        assert recorded(read_node(tmp_path)) == sends(1, 5)
        assert read_node(tmp_path).whole


@pytest.mark.parametrize("cut", [1, 20, 300, 511])
def test_a_flush_that_was_cut_short_is_lost_alone(cut: int, tmp_path: Path) -> None:
    with LiveTrace(tmp_path / "running", "alice") as trace:
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
    assert recorded(read_node(tmp_path / "killed")) == sends(1, 10)
    tail.write_bytes(text)
    assert recorded(read_node(tmp_path / "killed")) == sends(1, 20)


def test_a_part_and_its_tail_are_not_counted_twice(tmp_path: Path) -> None:
    """A kill between the two leaves both."""
    with LiveTrace(tmp_path, "alice", part_rows=10) as trace:
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
    assert recorded(read_node(tmp_path)) == sends(1, 25)


KILLED = """
import os, signal, sys
from antecede.trace.live.writer import LiveTrace
trace = LiveTrace(sys.argv[1], "alice", started=1.0, flush_rows=50, part_rows=500)
trace.name_of(1, "bob")
trace.name_of(2, "carol")
for number in range(1, 2345 + 1):
    trace.sent(0, number, [1, 2], float(number))
    if number == 2340:
        trace.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_what_it_flushed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -9
    node = read_node(tmp_path)
    assert not node.whole
    assert node.lost_max == 50
    assert recorded(node) == sends(1, 2340)
    assert not (tmp_path / "events.parquet").exists()


FULL = """
import resource, sys
from antecede.errors import ConfigError
from antecede.trace.live.writer import LiveTrace
trace = LiveTrace(sys.argv[1], "alice", flush_rows=100)
trace.name_of(1, "bob")
trace.name_of(2, "carol")
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
for number in range(1, 2001):
    trace.sent(0, number, [1, 2], float(number))
assert trace.failure is not None
try:
    trace.close()
except ConfigError as error:
    print(error)
"""


def test_a_full_disk_ends_the_trace_but_not_the_node(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"cannot write to {tmp_path}: File too large\n"
    assert f"the trace of alice ends here: cannot write to {tmp_path}" in done.stderr
    node = read_node(tmp_path)
    assert not node.whole
    assert recorded(node) == sends(1, node.rows)
    assert node.rows % 100 == 0
    assert 0 < node.rows < 2000


def test_a_node_that_was_killed_at_once_says_so(tmp_path: Path) -> None:
    (tmp_path / "events.parquet.partial").mkdir()
    with pytest.raises(ConfigError, match="killed before it recorded anything; leave it"):
        read_node(tmp_path)
    (tmp_path / "run.json.partial").write_text("[]")
    with pytest.raises(ConfigError, match=r"run\.json\.partial: not a JSON object"):
        read_node(tmp_path)


def test_nodes_of_one_run_are_told_from_several_runs(tmp_path: Path) -> None:
    for process in range(3):
        Node(tmp_path / str(process), process).trace.close()
    Node(tmp_path / "other", 5, run="other").trace.close()
    shutil.copytree(tmp_path / "0", tmp_path / "simulated")
    (tmp_path / "simulated" / "run.json").write_text('{"run": "test"}')
    nodes = [tmp_path / str(process) for process in range(3)]
    assert are_nodes_of_one_run(nodes)
    for other in ("other", "simulated", "nowhere"):
        assert not are_nodes_of_one_run([*nodes, tmp_path / other])
    assert read_node(nodes[1]).name == name_of(1)
