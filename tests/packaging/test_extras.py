"""Each extra, installed alone into an empty environment, does what the README promises."""

from pathlib import Path

import pytest

from tests.packaging.environments import Environment, build, copy_tree
from tests.packaging.test_build import MESSAGE_PROGRAM, wheel_in

pytestmark = [pytest.mark.own_build, pytest.mark.slow]

SECURE_PROGRAM = MESSAGE_PROGRAM.replace(
    'Node("ann")', 'Node("ann", key=bytes(32))'
).replace('Node("bob")', 'Node("bob", key=bytes(32))')

TESTING_PROGRAM = """
from hypothesis import given, settings
from antecede.testing import Cluster, run_schedule
from antecede.testing.strategies import schedules

@settings(max_examples=5, database=None)
@given(schedules(processes=3))
def check(schedule):
    cluster = Cluster("hybrid", processes=3)
    run_schedule(cluster, schedule)
    cluster.run_until_idle()
    assert cluster.verdict().held

check()
print("held")
"""

STUDY = """
name = "two"
title = "Two protocols"
protocols = ["hybrid", "unordered"]
processes = [4]
seeds = 1
messages = 4
[workloads.steady]
workload = "uniform"
[networks.lan]
delay = "0.001"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that was built in isolation, without compilation."""
    directory = tmp_path_factory.mktemp("wheel")
    done = build(copy_tree(directory), directory, isolated=True, ANTECEDE_COMPILE="0")
    assert done.returncode == 0, done.stderr
    return wheel_in(directory)


def installed(wheel: Path, directory: Path, extras: str) -> Environment:
    environment = Environment(directory)
    environment.install(f"{wheel}[{extras}]" if extras else str(wheel))
    return environment


def test_no_extra_sends_simulates_and_checks(wheel: Path, tmp_path: Path) -> None:
    environment = installed(wheel, tmp_path, "")
    assert environment.python(MESSAGE_PROGRAM) == "ann hello\n"
    assert "verdict: held" in environment.antecede("simulate", "--processes", "3")
    assert "verdict: held" in environment.antecede("check", "--messages", "1")
    refused = environment.run("antecede", "simulate", "--out", "run")
    assert refused.returncode == 2
    assert "pip install 'antecede[trace]'" in refused.stderr


def test_secure_sends_an_encrypted_message(wheel: Path, tmp_path: Path) -> None:
    environment = installed(wheel, tmp_path, "secure")
    assert environment.python(SECURE_PROGRAM) == "ann hello\n"


def test_trace_writes_verifies_and_draws_a_trace(wheel: Path, tmp_path: Path) -> None:
    environment = installed(wheel, tmp_path, "trace")
    environment.antecede("simulate", "--processes", "3", "--out", "run")
    assert "held" in environment.antecede("verify", "run")
    assert "wrote run.svg" in environment.antecede("show", "run", "--svg", "run.svg")


def test_testing_generates_schedules(wheel: Path, tmp_path: Path) -> None:
    environment = installed(wheel, tmp_path, "testing")
    assert environment.python(TESTING_PROGRAM) == "held\n"


@pytest.mark.proof  # The installation of PySpark takes minutes.
def test_spark_and_report_run_a_study_and_write_its_page(
    wheel: Path, tmp_path: Path
) -> None:
    environment = installed(wheel, tmp_path, "spark")
    (tmp_path / "two.toml").write_text(STUDY, encoding="utf-8")
    study = ("study", "run", str(tmp_path / "two.toml"), "--out", "results")
    done = environment.run("antecede", *study)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pip install 'antecede[report]'" in done.stderr
    environment.install(f"{wheel}[report]")
    assert "report.html" in environment.antecede("report", "results")


def test_report_alone_says_what_is_missing_where_there_is_no_study(
    wheel: Path, tmp_path: Path
) -> None:
    environment = installed(wheel, tmp_path, "report")
    refused = environment.run("antecede", "report", "nowhere")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
