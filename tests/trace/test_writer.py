"""A trace on disk is finished, or is not read."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.errors import ConfigError, StorageError, TraceError
from antecede.sim import Network, Scenario, run, simulate, simulate_to
from antecede.trace.reader import read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.schema import SCHEMA
from antecede.trace.writer import TraceWriter
from antecede.verify import verify_events

SCENARIO = Scenario(
    processes=5,
    messages=20,
    workload="uniform:fan_out=2",
    loss=0.1,
    payload_bytes="uniform:0,99",
)


def test_a_trace_on_disk_holds_the_same_events_as_memory(tmp_path: Path) -> None:
    summary = simulate_to(tmp_path / "run", SCENARIO)
    in_memory = simulate(SCENARIO)
    trace = read_trace(tmp_path / "run")
    assert tuple(trace.events()) == in_memory.history
    assert summary == in_memory.summary
    assert verify_events(trace.events()) == in_memory.verdict
    assert trace.info.complete
    assert trace.info.processes == 5
    assert trace.info.protocol == "hybrid"


def test_the_same_seed_gives_a_byte_equal_trace(tmp_path: Path) -> None:
    for name in ("one", "two"):
        simulate_to(tmp_path / name, SCENARIO)
    one, two = (tmp_path / name / "events.parquet" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_rows_are_numbered_in_the_run_and_in_their_process(tmp_path: Path) -> None:
    simulate_to(tmp_path, SCENARIO)
    table = pq.read_table(tmp_path / "events.parquet")
    assert table.schema.equals(SCHEMA)
    rows = table.to_pylist()
    assert [row["step"] for row in rows] == list(range(len(rows)))
    for process in range(5):
        own = [row["seq"] for row in rows if row["process"] == process]
        assert own == list(range(len(own)))
    assert {row["run"] for row in rows} == {"hybrid-0"}
    assert all((row["targets"] is None) is (row["kind"] != "send") for row in rows)


@pytest.mark.long
def test_memory_stays_bounded_by_the_batch(tmp_path: Path) -> None:
    """A long run is written in more than one row group."""
    simulate_to(tmp_path, Scenario(processes=20, messages=1500))
    metadata = pq.ParquetFile(tmp_path / "events.parquet").metadata
    assert metadata.num_row_groups > 1


def test_a_trace_that_is_not_closed_is_refused(tmp_path: Path) -> None:
    with TraceWriter(tmp_path, "half") as writer:
        run(
            "hybrid",
            SCENARIO.make_workload(),
            Network(),
            writer.observer,
        )
        assert not (tmp_path / "events.parquet").exists()
        writer.recorder.flush()
        with pytest.raises(TraceError):
            read_trace(tmp_path)
        writer.close(RunInfo(run="half"))
    assert read_trace(tmp_path).rows > 0


def test_a_failed_run_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        with TraceWriter(directory, "none"):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        fail(tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []


def test_a_trace_is_never_overwritten(tmp_path: Path) -> None:
    simulate_to(tmp_path, SCENARIO)
    before = (tmp_path / "events.parquet").read_bytes()
    with pytest.raises(ConfigError, match="already holds a trace"):
        simulate_to(tmp_path, SCENARIO)
    assert (tmp_path / "events.parquet").read_bytes() == before


def test_a_directory_that_cannot_be_written_raises_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot write to"):
        simulate_to(tmp_path / "file" / "run", SCENARIO)


def test_run_json_has_the_command_that_replays_the_run(tmp_path: Path) -> None:
    simulate_to(tmp_path, SCENARIO)
    info = json.loads((tmp_path / "run.json").read_text())
    assert info["command"] == (
        "antecede simulate --processes 5 --workload uniform:fan_out=2"
        " --payload-bytes uniform:0,99 --loss 0.1 --out DIR"
    )
