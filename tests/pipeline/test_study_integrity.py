"""Cells without a valid verdict, locks, versions, replays, and reruns without work."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import antecede
from antecede.cli import main as cli
from antecede.errors import AntecedeError, ConfigError, StorageError
from antecede.pipeline.spark.stage import spark_stage
from antecede.pipeline.spark.transient import attempts_max, is_transient
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.lock import LOCK_NAME, lock_directory
from antecede.pipeline.study.run import StudyOutcome, run_study
from antecede.pipeline.study.simulate import _run_group
from antecede.pipeline.study.study import Study, load_study, parse_study
from antecede.sim import Scenario, simulate_to
from antecede.spark import load_study as load_tables
from antecede.trace.reader import read_trace
from antecede.trace.run_info import RunInfo
from antecede.trace.run_table_writer import RunTableWriter
from antecede.trace.writer import RunWriter
from tests.pipeline.test_run_study import TABLE, rows, tables
from tests.trace.tables import damage, part_of, write_runs

FEW: dict[str, Any] = {**TABLE, "protocols": ["hybrid", "unordered"], "seeds": [1]}


def no_session() -> SparkSession:
    raise AssertionError("Spark must not start")


@dataclass
class Repaired:
    """A study with two invalid traces, run twice."""

    directory: StudyDirectory
    study: Study
    violated: str
    damaged: str
    sound: str
    first: StudyOutcome
    verdicts: dict[str, str]
    """After the first run."""
    measured: set[str]
    """After the first run."""
    kept: set[str]
    """The traces that the first run kept beside the measured ones."""
    second: StudyOutcome


@pytest.fixture(scope="module")
def repaired(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Repaired:
    path = tmp_path_factory.mktemp("study")
    study = parse_study({**TABLE, "seeds": [1]})
    violated, damaged, sound = (cell.id for cell in study.cells)
    assert sound.startswith("unordered")
    directory = StudyDirectory(path)
    directory.open(study)
    # The trace of a causal protocol is one without causal order.
    scenarios = {cell.id: cell.scenario for cell in study.cells}
    write_runs(path, {**scenarios, violated: scenarios[sound]})
    damage(path, damaged)
    first = run_study(spark, study, path)
    return Repaired(
        directory=directory,
        study=study,
        violated=violated,
        damaged=damaged,
        sound=sound,
        first=first,
        verdicts={row["run"]: row["causal"] for row in rows(path, "verdicts")},
        measured=measured(path),
        kept={path.name for path in directory.failed_traces.iterdir()},
        second=run_study(spark, study, path),
    )


def measured(directory: Path) -> set[str]:
    return {row["cell"] for row in rows(directory, "measures")}


def test_a_cell_that_cannot_be_verified_fails(repaired: Repaired) -> None:
    ((cell, details),) = repaired.first.failed.items()
    assert cell == repaired.damaged
    assert "not verified: " in details["error"]
    assert "--seed 1" in details["command"]
    assert cell not in repaired.verdicts
    assert cell not in repaired.measured


def test_the_command_exits_with_4_and_names_the_cell(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one.toml"
    file.write_text('name = "one"\nprotocols = ["hybrid"]\nprocesses = [3]\nseeds = 1\n')
    study = load_study(file)
    (cell,) = study.cells
    directory = StudyDirectory(tmp_path / "out")
    directory.open(study)
    write_runs(directory.path, {cell.id: cell.scenario})
    damage(directory.path, cell.id)
    arguments = ["study", "run", str(file), "--out", str(directory.path), "--no-report"]
    assert cli.main(arguments) == 4
    assert f"{cell.id} failed: not verified: " in capsys.readouterr().out
    assert spark.range(1).count() == 1  # The command used this session.


def test_a_violation_of_a_guarantee_is_not_measured(repaired: Repaired) -> None:
    assert repaired.first.violated == (repaired.violated,)
    assert repaired.verdicts[repaired.violated] == "violated"
    assert repaired.measured == {repaired.sound}
    assert repaired.kept == {repaired.violated}


def test_cells_without_a_valid_verdict_run_again(repaired: Repaired) -> None:
    again = repaired.second
    assert (again.simulated, again.failed, again.violated) == (2, {}, ())
    cells = {repaired.violated, repaired.damaged, repaired.sound}
    assert measured(again.directory) == cells
    assert sorted(row["run"] for row in rows(again.directory, "verdicts")) == sorted(cells)
    assert not repaired.directory.failed_traces.exists()


def test_settings_of_sql_do_not_change_the_results(
    repaired: Repaired, spark: SparkSession, tmp_path: Path
) -> None:
    """The other session is strict where the first is not, and in another time zone."""
    other = spark.newSession()
    for name, value in {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.session.timeZone": "Asia/Kathmandu",
    }.items():
        assert spark.conf.get(name) != value
        other.conf.set(name, value)
    path = tmp_path / "study"
    shutil.copytree(repaired.directory.path, path)
    shutil.rmtree(path / "verdicts")
    shutil.rmtree(path / "measures")
    assert run_study(other, repaired.study, path).simulated == 0
    assert tables(path) == tables(repaired.directory.path)


def test_a_finished_study_starts_no_spark_and_keeps_its_tables(repaired: Repaired) -> None:
    path = repaired.directory.path
    files = [file for file in path.rglob("*.parquet") if file.name != "cells.parquet"]
    times = {file: file.stat().st_mtime_ns for file in files}
    outcome = run_study(no_session, repaired.study, path)
    assert (outcome.cells, outcome.simulated) == (3, 0)
    assert {file: file.stat().st_mtime_ns for file in files} == times
    before = tables(path)
    shutil.rmtree(path / "summary")
    run_study(no_session, repaired.study, path)
    assert tables(path) == before
    shutil.rmtree(path / "summary")
    shutil.rmtree(path / "results")
    with pytest.raises(AssertionError, match="must not start"):
        run_study(no_session, repaired.study, path)


def test_a_new_name_of_a_network_measures_again_and_simulates_nothing(
    tmp_path: Path,
) -> None:
    table = {**FEW, "protocols": ["hybrid"]}
    directory = StudyDirectory(tmp_path)
    directory.open(parse_study(table))
    before = directory.measure_inputs()
    directory.set_measured(before)
    assert directory.measured_inputs() == before
    renamed = parse_study({**table, "networks": {"x": TABLE["networks"]["wan"]}})
    assert renamed.cells[0].id == parse_study(table).cells[0].id
    directory.open(renamed)
    assert directory.measure_inputs() != before


def test_results_of_another_version_are_refused(tmp_path: Path) -> None:
    study = parse_study(FEW)
    StudyDirectory(tmp_path).open(study)
    header = json.loads((tmp_path / "study.json").read_text())
    assert header["version"] == antecede.__version__
    header["version"] = "0.0.1"
    (tmp_path / "study.json").write_text(json.dumps(header))
    with pytest.raises(ConfigError, match=r"has results of antecede 0\.0\.1, and this is"):
        StudyDirectory(tmp_path).open(study)


def test_the_id_of_a_replay_depends_on_the_content_and_not_on_the_path(
    tmp_path: Path,
) -> None:
    def cell_id(directory: Path) -> str:
        workloads = {"recorded": {"workload": f"replay:{directory}"}}
        table = {**FEW, "protocols": ["hybrid"], "workloads": workloads}
        (cell,) = parse_study(table).cells
        return cell.id

    simulate_to(tmp_path / "a", Scenario(processes=4, messages=5, seed=1))
    first = cell_id(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert cell_id(tmp_path / "b") == first
    shutil.rmtree(tmp_path / "a")
    simulate_to(tmp_path / "a", Scenario(processes=4, messages=5, seed=2))
    assert cell_id(tmp_path / "a") != first


HOLD = """
import sys
from dataclasses import dataclass
from pathlib import Path
from antecede.pipeline.study.lock import lock_directory

with lock_directory(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_refused_until_the_first_ends_or_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.toml"
    file.write_text('name = "small"\nprotocols = ["hybrid"]\nprocesses = [3]\n')
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        assert cli.main(["study", "run", str(file), "--out", str(out)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        holder = f"process {process.pid} on {socket.gethostname()} since "
        assert f"{out} is in use by {holder}" in line
        os.kill(process.pid, signal.SIGKILL)
    assert (out / LOCK_NAME).exists()  # The dead process left its file, but no lock.
    with (
        lock_directory(out),
        pytest.raises(ConfigError, match=f"process {os.getpid()} "),
        lock_directory(out),
    ):
        pass
    assert not (out / LOCK_NAME).exists()


def test_spark_runs_a_task_with_a_transient_error_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert attempts_max(spark) > 1

    def task(name: str) -> str:
        mark = tmp_path / name
        if not mark.exists():
            mark.touch()
            cause = OSError(5, "Input/output error")
            raise StorageError("cannot write") from cause
        return name

    assert spark_stage(spark)(task, ["one", "two"]) == ["one", "two"]


def test_spark_does_not_repeat_a_task_with_a_permanent_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    def task(name: str) -> None:
        with open(tmp_path / name, "a") as file:
            file.write("attempt\n")
        raise StorageError("cannot read") from FileNotFoundError(2, "No such file")

    with pytest.raises(StorageError, match="cannot read"):
        spark_stage(spark)(task, ["one"])
    assert (tmp_path / "one").read_text() == "attempt\n"


def test_a_cell_fails_after_the_last_attempt_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = parse_study(FEW)
    failing, other = (cell.id for cell in study.cells)
    directory = StudyDirectory(tmp_path)
    directory.open(study)

    def record(open_writer: Callable[[], RunWriter], scenario: Scenario, name: str) -> None:
        with open_writer() as writer:
            if name == failing:
                send_one(writer)
                writer.recorder.flush()
                raise StorageError("no space") from OSError(28, "No space left on device")
            send_one(writer)
            writer.close(RunInfo(run=name))

    monkeypatch.setattr("antecede.pipeline.study.simulate.record_scenario", record)
    with pytest.raises(StorageError, match="no space"):
        _run_group(list(study.cells), directory, attempts=2)
    assert directory.simulated() == {other}
    assert directory.failed() == {}
    written = part_of(tmp_path, other)
    assert pq.read_table(written).column("run").to_pylist() == [other]
    monkeypatch.setattr("antecede.pipeline.study.simulate.attempt_number", lambda: 2)
    batch = _run_group(list(study.cells), directory, attempts=2)
    assert {row["cell"]: row["ok"] for row in batch.to_pylist()} == {
        failing: False, other: True,
    }  # fmt: skip
    assert part_of(tmp_path, other) == written
    assert directory.failed()[failing]["attempts"] == "2"


def send_one(writer: RunWriter) -> None:
    writer.recorder.record(0, 0.0, 0, 0, 1, -1, -1, -1, (1,))


def test_cells_of_a_file_that_cannot_be_finished_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = parse_study(FEW)
    directory = StudyDirectory(tmp_path)
    directory.open(study)

    def commit(table: RunTableWriter) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunTableWriter, "commit", commit)
    with pytest.raises(OSError, match="No space left"):
        _run_group(list(study.cells), directory, attempts=2)
    _run_group(list(study.cells), directory, attempts=1)
    assert directory.failed().keys() == {cell.id for cell in study.cells}
    assert list(directory.events.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (OSError(28, "No space left on device"), True),
        (ConnectionResetError(), True),
        (MemoryError(), True),
        (PermissionError(), False),
        (ValueError(), False),
        (AntecedeError(), False),
    ],
)
def test_which_errors_are_transient(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient


def test_a_cell_that_two_attempts_wrote_is_kept_once(tmp_path: Path) -> None:
    study = parse_study({**TABLE, "workloads": {"w": {"probe": "state:0,0.1,3"}}})
    directory = StudyDirectory(tmp_path)
    directory.open(study)
    scenarios = {cell.id: cell.scenario for cell in study.cells}
    one, other, *_ = scenarios
    write_runs(tmp_path, scenarios)
    write_runs(tmp_path, {one: scenarios[one]})
    write_runs(tmp_path, {other: scenarios[other]})
    samples = sorted(pq.read_table(directory.samples).column("run").to_pylist())
    directory.remove_duplicates()
    assert directory.simulated() == scenarios.keys()
    once = sum(part.runs[cell].rows for cell, part in directory.parts().items())
    assert pq.read_table(directory.events).num_rows == once
    left = sorted(pq.read_table(directory.samples).column("run").to_pylist())
    assert set(left) == scenarios.keys()
    assert sorted([*left, *(run for run in left if run in (one, other))]) == samples


def test_removing_cells_keeps_the_others(tmp_path: Path) -> None:
    study = parse_study(TABLE)
    directory = StudyDirectory(tmp_path)
    assert directory.open(study) == 0
    write_runs(tmp_path, {cell.id: cell.scenario for cell in study.cells})
    before = {cell.id: read_trace(tmp_path / "events" / cell.id) for cell in study.cells}
    events = {cell: list(trace.events()) for cell, trace in before.items()}
    fewer = parse_study({**TABLE, "protocols": ["optimal"]})
    assert directory.open(fewer) == len(study.cells) - len(fewer.cells)
    assert directory.simulated() == {cell.id for cell in fewer.cells}
    for cell in fewer.cells:
        found = read_trace(tmp_path / "events" / cell.id)
        assert list(found.events()) == events[cell.id]
        assert found.info == before[cell.id].info


def test_a_study_of_the_former_format_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    study = parse_study(FEW)
    StudyDirectory(tmp_path).open(study)
    header = json.loads((tmp_path / "study.json").read_text())
    del header["format"]
    (tmp_path / "study.json").write_text(json.dumps(header))
    with pytest.raises(ConfigError, match="run the study again in another directory"):
        StudyDirectory(tmp_path).open(study)
    with pytest.raises(ConfigError, match="run the study again in another directory"):
        load_tables(tmp_path, session=spark)
