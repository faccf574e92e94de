"""Tables of runs: many runs in a file, complete or not there at all."""

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecede.cli.main import main
from antecede.errors import ConfigError, StorageError, TraceError
from antecede.sim import Scenario, simulate
from antecede.trace.reader import read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.run_table import list_parts, list_runs, read_part
from antecede.trace.run_table_writer import RunTableWriter, remove_runs
from antecede.trace.schema import SCHEMA
from antecede.trace.store import open_store
from antecede.trace.writer import TraceWriter
from antecede.verify.verifier import verify_trace
from tests.trace.object_store import store_without_rename
from tests.trace.tables import add_run, damage, part_of, write_runs

SCENARIOS = {
    f"run-{seed}": Scenario(processes=3, messages=5, seed=seed) for seed in (1, 2, 3)
}


def refusal(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_runs_of_one_file_are_traces(tmp_path: Path) -> None:
    write_runs(tmp_path, SCENARIOS)
    (part,) = (tmp_path / "events").iterdir()
    assert pq.read_schema(part).equals(SCHEMA)
    for name, scenario in SCENARIOS.items():
        for path in (tmp_path / "events" / name, part / name):
            trace = read_trace(path)
            assert tuple(trace.events()) == simulate(scenario).history
            assert trace.info.seed == scenario.seed
            assert verify_trace(path).held
            assert tuple(pickle.loads(pickle.dumps(trace)).events()) == tuple(
                trace.events()
            )
    assert trace.path == part / "run-3"
    uri = f"file://{tmp_path}/events/run-2"
    assert read_trace(uri).info.run == "run-2"


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_runs(tmp_path, SCENARIOS)
    part = part_of(tmp_path, "run-1")
    assert refusal(tmp_path / "events" / "run-9").endswith("events has no run 'run-9'")
    assert refusal(part / "run-9").endswith(f"{part.name} has no run 'run-9'")
    assert refusal(part).endswith(f"{part.name} has 3 runs: append /RUN to the path")
    assert "no such directory" in refusal(tmp_path / "run-1")


def test_no_prefix_of_the_writes_has_runs(tmp_path: Path) -> None:
    """Look at the table after each step, as a killed process leaves it."""
    events = open_store(tmp_path / "events")
    whole = tmp_path / "whole"
    write_runs(whole, SCENARIOS)
    with RunTableWriter(tmp_path) as table:
        for name, scenario in SCENARIOS.items():
            with table.open_run(name) as writer:
                for batch in read_trace(whole / "events" / name).batches():
                    writer.write_batch(batch.cast(SCHEMA))
                assert list_runs(events) == {}
                writer.close(RunInfo(run=name, seed=scenario.seed))
            assert list_runs(events) == {}
        assert (table.runs, table.rows) == (3, pq.read_table(whole / "events").num_rows)
        table.commit()
    assert list_runs(events).keys() == SCENARIOS.keys()
    content = part_of(tmp_path, "run-1").read_bytes()
    copy = tmp_path / "events" / f"runs-{'0' * 32}.parquet"
    for length in (0, 4, len(content) // 2, len(content) - 1):
        copy.write_bytes(content[:length])
        assert len(list_runs(events)) == 3
        assert list_runs(events)["run-1"].path.name != copy.name


def test_a_run_that_fails_leaves_no_rows_in_the_file(tmp_path: Path) -> None:
    write_runs(tmp_path / "other", SCENARIOS)
    with RunTableWriter(tmp_path) as table:
        for name in SCENARIOS:
            try:
                with table.open_run(name) as writer:
                    for batch in read_trace(tmp_path / "other/events" / name).batches():
                        writer.write_batch(batch.cast(SCHEMA))
                    assert name != "run-2"
                    writer.close(RunInfo(run=name))
            except AssertionError:
                assert name == "run-2"
        table.commit()
    (part,) = list_parts(open_store(tmp_path / "events"))
    assert read_part(part).runs.keys() == {"run-1", "run-3"}
    assert set(pq.read_table(tmp_path / "events").column("run").to_pylist()) == {
        "run-1", "run-3",
    }  # fmt: skip
    assert verify_trace(tmp_path / "events" / "run-3").held


def test_a_table_without_runs_has_no_file(tmp_path: Path) -> None:
    with RunTableWriter(tmp_path) as table:
        table.commit()
        with pytest.raises(ValueError, match="stop"), table.open_run("a"):
            raise ValueError("stop")
        table.commit()
        with pytest.raises(ConfigError, match="cannot be the name of a run"):
            table.open_run("a/b")
    assert list((tmp_path / "events").iterdir()) == []


def test_runs_are_removed_in_one_step(tmp_path: Path) -> None:
    write_runs(tmp_path, SCENARIOS)
    part = read_part(open_store(part_of(tmp_path, "run-1")))
    damage(tmp_path, "run-2")
    damaged = read_part(part.path)
    assert remove_runs(damaged, {"run-1"}) == {"run-1", "run-2"}  # One is unreadable.
    assert list_runs(open_store(tmp_path / "events")).keys() == {"run-3"}
    assert tuple(read_trace(tmp_path / "events/run-3").events()) == (
        simulate(SCENARIOS["run-3"]).history
    )
    assert remove_runs(read_part(part.path), {"run-3"}) == {"run-3"}
    assert list((tmp_path / "events").iterdir()) == []


def test_a_table_is_the_same_in_a_store_without_rename(tmp_path: Path) -> None:
    handler, bucket = store_without_rename(tmp_path)
    sampled = replace(SCENARIOS["run-1"], probe="state:0.01,0.01,3")
    write_runs(bucket / "table", {**SCENARIOS, "run-1": sampled})
    for name in SCENARIOS:
        assert verify_trace(bucket / "table" / "events" / name).held
    assert "move" not in {call for call, _ in handler.calls}
    written = [path.split("/")[2] for call, path in handler.calls if call == "write"]
    assert written == ["samples", "events"]  # The events commit the part.
    # A copy of the directory on a local disk is a table, too.
    assert verify_trace(tmp_path / "bucket/table/events/run-2").held


@pytest.mark.parametrize("folder", ["events", "samples"])
def test_a_store_that_fails_has_no_runs(folder: str, tmp_path: Path) -> None:
    handler, bucket = store_without_rename(tmp_path)
    handler.fail_writes_of = f"{folder}/runs-"
    scenario = replace(SCENARIOS["run-1"], probe="state:0.01,0.01,3")
    with pytest.raises(StorageError, match=r"^cannot write to test://bucket/table/"):
        add_run(bucket / "table", scenario, "run-1")
    assert list_runs(bucket / "table" / "events") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no list of runs in its footer"),
        ("[]", "the footer lists fewer row groups than exist"),
        ('[{"info": {"run": "a"}, "row_groups": 9}]', "lists more row groups than exist"),
        ('[{"info": {}, "row_groups": 1}]', "has no list of runs in its footer"),
    ],
)
def test_an_invalid_footer_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "run", "a") as writer:
        writer.recorder.record(0, 0.0, 0, 0, 1, -1, -1, -1, (1,))
        writer.recorder.flush()
        writer._writer.add_key_value_metadata({"antecede.runs": text})
        writer.close(RunInfo(run="a"))
    part = tmp_path / f"runs-{'a' * 32}.parquet"
    (tmp_path / "run" / "events.parquet").rename(part)
    assert reason in refusal(part / "a")


def test_commands_read_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "study", SCENARIOS)
    for path in ("study", "study/events"):
        assert main(["verify", str(tmp_path / path)]) == 0
        out = capsys.readouterr().out
        assert f"{tmp_path}/study/events/run-2\n" in out
        assert out.endswith("3 runs: 3 held\n")
    svg = tmp_path / "run.svg"
    run = tmp_path / "study" / "events" / "run-2"
    assert main(["show", str(run), "--svg", str(svg)]) == 0
    assert svg.read_text().startswith("<svg")
    assert main(["show", str(tmp_path / "study"), "--svg", str(svg)]) == 2
    assert "has 3 runs: give the directory of one run" in capsys.readouterr().err
    unfinished = tmp_path / "study" / "events" / f"runs-{'0' * 32}.parquet"
    unfinished.write_bytes(b"PAR1")
    assert main(["verify", f"file://{tmp_path}/study"]) == 2
    captured = capsys.readouterr()
    assert "4 runs: 3 held, 1 not verified" in captured.out
    assert f"{unfinished} is truncated, or is not a Parquet file" in captured.err
