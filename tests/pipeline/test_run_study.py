"""Running a study: whole, again, interrupted, changed, and with cells that fail."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antecede.cli import main as cli
from antecede.errors import ConfigError, StorageError
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.run import Progress, run_study
from antecede.pipeline.study.study import Study, parse_study

TABLE: dict[str, Any] = {
    "name": "small",
    "protocols": ["hybrid", "optimal", "unordered"],
    "processes": [4],
    "seeds": 2,
    "messages": 8,
    "networks": {"wan": {"delay": "lognormal:0.05,0.5", "loss": 0.05}},
}


def study_file(directory: Path, *, seeds: int, messages: int) -> Path:
    """Write the study as a TOML file."""
    file = directory / "small.toml"
    file.write_text(
        'name = "small"\nprotocols = ["hybrid", "optimal", "unordered"]\n'
        f"processes = [4]\nseeds = {seeds}\nmessages = {messages}\n"
        '[networks.wan]\ndelay = "lognormal:0.05,0.5"\nloss = 0.05\n'
    )
    return file


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    """Read a table of a study, sorted, without columns that vary."""
    found = pq.read_table(directory / table).to_pylist()
    for row in found:
        row.pop("seconds", None)
        row.pop("path", None)
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def tables(directory: Path) -> dict[str, list[dict[str, Any]]]:
    names = ("cells.parquet", "verdicts", "copies", "measures", "summary")
    return {name: rows(directory, name) for name in names}


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that was run without interruption."""
    directory = tmp_path_factory.mktemp("study") / "whole"
    seen: list[Progress] = []
    outcome = run_study(spark, parse_study(TABLE), directory, on_progress=seen.append)
    assert (outcome.cells, outcome.simulated, outcome.stale) == (6, 6, 0)
    assert outcome.failed == {}
    assert outcome.violated == ()
    assert {"simulate"} <= {progress.stage for progress in seen}
    assert all(0 <= progress.done <= progress.total for progress in seen)
    return directory


def test_every_cell_has_a_trace_a_verdict_and_measures(whole: Path) -> None:
    cells = {row["cell"] for row in rows(whole, "cells.parquet")}
    assert len(cells) == 6
    verdicts = rows(whole, "verdicts")
    assert sorted(row["run"] for row in verdicts) == sorted(cells)
    assert {row["cell"] for row in rows(whole, "measures")} == cells
    held = {row["run"]: row["causal"] for row in verdicts}
    assert all(held[cell] == "held" for cell in cells if "unordered" not in cell)
    assert "violated" in {held[cell] for cell in cells if "unordered" in cell}


def test_running_a_finished_study_again_changes_nothing(
    spark: SparkSession, whole: Path
) -> None:
    before = tables(whole)
    times = {path: path.stat().st_mtime_ns for path in (whole / "events").rglob("*")}
    outcome = run_study(spark, parse_study(TABLE), whole)
    assert outcome.simulated == 0
    assert tables(whole) == before
    assert {p: p.stat().st_mtime_ns for p in (whole / "events").rglob("*")} == times


@pytest.mark.slow
def test_a_changed_parameter_runs_only_the_cells_that_it_affects(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "changed"
    run_study(spark, parse_study({**TABLE, "seeds": 1}), directory)
    kept = StudyDirectory(directory).simulated()
    outcome = run_study(spark, parse_study(TABLE), directory)
    assert (outcome.simulated, outcome.stale) == (3, 0)
    assert kept < StudyDirectory(directory).simulated()
    assert tables(directory) == tables(whole)
    outcome = run_study(spark, parse_study({**TABLE, "seeds": [1]}), directory)
    assert (outcome.simulated, outcome.stale) == (0, 3)
    assert {row["run"] for row in rows(directory, "verdicts")} == {
        cell.id for cell in parse_study({**TABLE, "seeds": [1]}).cells
    }


@pytest.mark.slow
def test_a_partial_cell_is_run_again(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    """Files of a killed worker are ignored and removed."""
    directory = tmp_path / "half"
    study = parse_study(TABLE)
    StudyDirectory(directory).open(study)
    part = f"runs-{'0' * 32}.parquet"
    (directory / "events" / f".{part}.partial").write_bytes(b"PAR1")
    (directory / "events" / part).write_bytes(b"PAR1")
    (directory / "samples" / part).write_bytes(b"PAR1")
    (directory / "verdicts" / "part-9.partial").write_bytes(b"PAR1")
    run_study(spark, study, directory)
    assert tables(directory) == tables(whole)
    assert not list((directory / "events").glob(".*"))
    assert not (directory / "samples" / part).exists()


@pytest.mark.slow
def test_a_killed_study_continues(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    """SIGKILL while cells are simulated."""
    file = study_file(tmp_path, seeds=2, messages=8)
    directory = tmp_path / "killed"
    command = [sys.executable, "-m", "antecede", "study", "run", str(file)]
    process = subprocess.Popen(
        [*command, "--out", str(directory), "--cores", "1"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    start = monotonic()
    while not StudyDirectory(directory).simulated() and process.poll() is None:
        assert monotonic() - start < 240
        sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    outcome = run_study(spark, parse_study(TABLE), directory)
    assert outcome.failed == {}
    assert tables(directory) == tables(whole)


def test_a_failing_cell_is_reported_and_the_others_continue(
    spark: SparkSession, tmp_path: Path
) -> None:
    failing = {
        "big": {"workload": "uniform", "payload_bytes": 3e9},
        "fine": {"workload": "uniform"},
    }
    table = {**TABLE, "protocols": ["hybrid"], "seeds": [7], "workloads": failing}
    outcome = run_study(spark, parse_study(table), tmp_path / "failing")
    ((cell, details),) = outcome.failed.items()
    assert "ConfigError" in details["error"]
    assert details["seed"] == "7"
    assert "--seed 7" in details["command"]
    assert "--payload-bytes 3000000000.0" in details["command"]
    assert outcome.simulated == 1
    assert cell not in {row["run"] for row in rows(tmp_path / "failing", "verdicts")}


def test_a_directory_of_another_study_is_refused(tmp_path: Path) -> None:
    study = parse_study(TABLE)
    StudyDirectory(tmp_path / "a").open(study)
    with pytest.raises(ConfigError, match="holds the study 'small'"):
        StudyDirectory(tmp_path / "a").open(
            Study(name="other", cells=study.cells, skipped=())
        )
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "precious").write_text("x")
    with pytest.raises(ConfigError, match="is not empty"):
        StudyDirectory(tmp_path / "b").open(study)
    assert (tmp_path / "b" / "precious").exists()
    (tmp_path / "a" / "study.json").write_text("{")
    with pytest.raises(StorageError, match="is damaged"):
        StudyDirectory(tmp_path / "a").open(study)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write to"):
        StudyDirectory(tmp_path / "file" / "c").open(study)


def test_the_command_reports_an_invalid_study_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('name = "x"\nprotocols = ["hybird"]\nprocesses = [3]\n')
    assert cli.main(["study", "run", str(file)]) == 2
    assert cli.main(["study", "run", str(tmp_path / "none.toml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "unknown protocol 'hybird'" in lines[0]
