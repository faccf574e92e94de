"""A standalone cluster, one of whose workers is killed.

The commands run in separate processes, because Spark has one session per process.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest
from pyspark.sql import SparkSession

from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.run import run_study
from antecede.pipeline.study.study import parse_study
from antecede.sim import Scenario, simulate_to
from antecede.verify.verifier import verify_trace
from tests.pipeline.standalone import Standalone, standalone
from tests.pipeline.test_run_study import TABLE, study_file, tables

WINDOW_ROWS = 600
VIOLATIONS = 3

VERIFY_IN_WINDOWS = """
import sys
from pathlib import Path
from antecede.pipeline.spark.progress import Progress, RunningTasks, poll_progress
from antecede.pipeline.spark.session import open_session
from antecede.pipeline.verify.windows import verify_windows

url, path, rows, violations = sys.argv[1:]
with open_session(url) as spark:
    running = RunningTasks(spark)

    def measure(seconds):
        done, total = running.count()
        return Progress(stage="windows", done=done, total=total, seconds=seconds)

    def on_progress(progress):
        print("tasks", progress.done, progress.total, flush=True)

    with poll_progress(on_progress, measure):
        verdict = verify_windows(
            spark, Path(path), rows_per_window=int(rows), violations_max=int(violations)
        )
print(verdict.to_json())
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster"), workers=2) as cluster:
        yield cluster


@pytest.fixture
def two_workers(cluster: Standalone) -> Standalone:
    """The cluster, with killed workers replaced."""
    cluster.add_workers(2 - len(cluster.workers))
    return cluster


def kill_worker_when_started(
    cluster: Standalone, directory: Path, study: subprocess.Popen[str]
) -> None:
    """Kill a worker as soon as the first cell is simulated."""
    while not StudyDirectory(directory).simulated():
        if study.poll() is not None:
            return
        sleep(0.02)
    cluster.kill_worker()


@pytest.mark.slow
@pytest.mark.cluster
def test_a_cluster_that_loses_a_worker_writes_the_same_tables(
    spark: SparkSession, two_workers: Standalone, tmp_path: Path
) -> None:
    study = parse_study({**TABLE, "seeds": 4, "messages": 30})
    run_study(spark, study, tmp_path / "local")
    file = study_file(tmp_path, seeds=4, messages=30)
    command = [
        *(sys.executable, "-m", "antecede", "study", "run", str(file)),
        *("--out", str(tmp_path / "cluster"), "--json"),
    ]
    with subprocess.Popen(
        [*command, "--master", two_workers.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        killer = threading.Thread(
            target=kill_worker_when_started,
            args=(two_workers, tmp_path / "cluster", process),
        )
        killer.start()
        out, errors = process.communicate()
        killer.join()
        assert process.returncode == 0, errors
        assert len(two_workers.workers) == 1
    assert json.loads(out)["simulated"] == 12
    assert tables(tmp_path / "cluster") == tables(tmp_path / "local")


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_returns_the_same_verdict_on_windows(
    two_workers: Standalone, tmp_path: Path
) -> None:
    scenario = Scenario(
        protocol="unordered",
        processes=4,
        messages=1000,
        gap="exponential:0.1",
        delay="lognormal:0.02,1.0",
        seed=3,
    )
    simulate_to(tmp_path / "run", scenario)
    arguments = [two_workers.url, str(tmp_path / "run"), str(WINDOW_ROWS), str(VIOLATIONS)]
    with subprocess.Popen(
        [sys.executable, "-c", VERIFY_IN_WINDOWS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        windows = 0
        for line in process.stdout:
            word, done, windows = (
                line.split()[0],
                int(line.split()[1]),
                int(line.split()[2]),
            )
            assert word == "tasks"
            if 0 < done < windows:
                break
        two_workers.kill_worker()
        out, errors = process.communicate()
        assert process.returncode == 0, errors
    assert windows > 20
    report = json.loads(out[out.index("{") :])
    expected = verify_trace(tmp_path / "run", violations_max=VIOLATIONS)
    assert report == json.loads(expected.to_json())
    assert any(violation["chain"] for violation in report["violations"])
