"""A run is followed while its nodes write: each row once, under the names of the run."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.core.process import Delivery
from antecede.core.process_id import ProcessId
from antecede.errors import TraceError
from antecede.merge.follower import RunFollower
from antecede.trace.live.follower import NodeFollower, follow_trace
from antecede.trace.live.reader import read_node_trace
from antecede.trace.live.writer import NodeTraceWriter
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import EVENTS_NAME, INFO_NAME
from antecede.trace.table import events_to_table
from tests.verify.test_verifier import deliver, send


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(8))
def test_each_row_of_a_node_is_read_once_whenever_it_is_polled(
    seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    writer = NodeTraceWriter(
        tmp_path / "ann", "ann", run="monday", flush_rows=7, part_rows=20
    )
    writer.set_name(1, "bob")
    follower = follow_trace(tmp_path / "ann")
    assert isinstance(follower, NodeFollower)
    found: list[pa.RecordBatch] = []
    for number in range(1, random.randint(2, 200)):
        writer.observer.sent(0, number, [1], float(number))
        if random.random() < 0.2:
            writer.flush()
        if random.random() < 0.2:
            found += follower.poll()
            assert not follower.has_ended
    writer.close()
    found += follower.poll()
    assert follower.has_ended
    assert not follower.poll()
    recorded = list(read_node_trace(tmp_path / "ann").batches())
    assert rows_of(found) == rows_of(recorded)


def test_nodes_have_the_ids_of_the_run_and_new_ones_are_found(tmp_path: Path) -> None:
    run = RunFollower([tmp_path])
    assert run.poll() == []
    assert (run.traces, run.has_ended) == (0, False)
    with NodeTraceWriter(tmp_path / "ann", "ann~1a") as ann:
        ann.set_name(1, "bob")
        ann.observer.sent(0, 1, [1], 1.0)
        ann.flush()
        (row,) = rows_of(run.poll())
        assert (row["process"], row["source"], row["targets"]) == (0, 0, [1])
        with NodeTraceWriter(tmp_path / "bob", "bob~2b") as bob:
            bob.set_name(1, "ann~1a")
            bob.observer.delivered(0, Delivery(ProcessId(1), 1, b""), 2.0)
            bob.flush()
            (row,) = rows_of(run.poll())
        assert (row["process"], row["source"], row["number"]) == (1, 0, 1)
        assert run.names == {0: "ann", 1: "bob"}
        assert run.unrecorded() == set()
        assert (run.traces, run.has_ended) == (2, False)
    run.poll()
    assert run.has_ended
    with (
        NodeTraceWriter(tmp_path / "other", "cat", run="tuesday"),
        pytest.raises(TraceError, match="of the run 'tuesday', and not of 'live'"),
    ):
        run.poll()


def test_a_restart_ends_the_run_before_its_effects_are_seen(tmp_path: Path) -> None:
    run = RunFollower([tmp_path])
    ann = NodeTraceWriter(tmp_path / "ann", "ann~1a", incarnation=1)
    ann.set_name(1, "bob~2b")
    ann.observer.sent(0, 1, [1], 1.0)
    ann.flush()
    assert len(run.poll()) == 1
    with NodeTraceWriter(tmp_path / "ann2", "ann~1a", incarnation=2, continues=(1, 0)):
        ann.observer.sent(0, 2, [1], 2.0)
        ann.flush()
        assert run.poll() == []
    assert "ann~1a was restarted" in str(run.restart)
    ann.close()


def test_a_folder_of_parts_is_followed_until_run_json_appears(tmp_path: Path) -> None:
    events = [send(5, 1, 6), deliver(6, 5, 1)]
    table = events_to_table(events, "r")
    folder = tmp_path / EVENTS_NAME
    folder.mkdir()
    run = RunFollower([tmp_path])
    assert run.poll() == []
    for index in range(2):
        pq.write_table(table.slice(index, 1), folder / f"part-{index}.parquet")
        (row,) = rows_of(run.poll())
        assert row["process"] == events[index].process
    assert (run.traces, run.has_ended) == (1, False)
    info = RunInfo(run=tmp_path.name, names={5: "ann"})
    (tmp_path / INFO_NAME).write_text(info.to_json())
    assert run.poll() == []
    assert run.has_ended
    assert run.names == {5: "ann"}
    assert run.unrecorded() == set()


def test_a_single_unfinished_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{EVENTS_NAME}.partial").write_bytes(b"PAR1")
    with pytest.raises(TraceError, match="is a single file"):
        RunFollower([tmp_path]).poll()
