"""Ctrl-C during a Spark job: one line, no process left, and the study can continue."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
from pyspark.sql import SparkSession

from antecede.pipeline.spark.interrupt import cancel_on_interrupt
from antecede.pipeline.study.directory import StudyDirectory
from antecede.pipeline.study.run import run_study
from antecede.pipeline.study.study import parse_study
from antecede.sim import Scenario, simulate_to
from tests.pipeline.processes import COMMAND, in_session, left_behind
from tests.pipeline.test_run_study import TABLE, study_file, tables

TIMEOUT_S = 240


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start the command in a new session, as a terminal does."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_an_interrupted_study_leaves_no_process_and_can_continue(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = study_file(tmp_path, seeds=2, messages=40)
    directory = tmp_path / "interrupted"
    process = start("study", "run", str(file), "--out", str(directory), "--cores", "1")
    since = monotonic()
    while not StudyDirectory(directory).simulated():
        assert process.poll() is None, process.communicate()[1]
        assert monotonic() - since < TIMEOUT_S
        sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # To the process group, as a terminal does.
    out, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, errors
    *progress, last = errors.splitlines()
    assert last == "antecede: interrupted; run the same command again to resume"
    stages = ("small: ", "simulate: ", "verify: ", "measure: ")  # The last it reached.
    assert all(line.startswith(stages) for line in progress), progress
    assert out == ""
    assert left_behind(process.pid) == []
    assert not (directory / "summary").exists()  # The study had not finished.
    done = len(StudyDirectory(directory).simulated())
    study = parse_study({**TABLE, "messages": 40})
    outcome = run_study(spark, study, directory)
    assert outcome.simulated == 6 - done
    run_study(spark, study, tmp_path / "whole")
    assert tables(directory) == tables(tmp_path / "whole")


@pytest.mark.slow
def test_an_interrupted_verification_leaves_no_process(tmp_path: Path) -> None:
    simulate_to(tmp_path / "run", Scenario(processes=3, messages=5))
    process = start("verify", str(tmp_path / "run"), "--spark", "on", "--cores", "1")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("verified on Spark, local")
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, errors
    assert (out, errors) == ("", "antecede: interrupted\n")
    assert left_behind(process.pid) == []


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def wait_for(calls: list[str], count: int) -> None:
    since = monotonic()
    while len(calls) < count:
        assert monotonic() - since < TIMEOUT_S
        sleep(0.01)


def test_the_first_interrupt_cancels_and_is_raised_at_the_end_of_the_block() -> None:
    before = signal.getsignal(signal.SIGINT)
    calls: list[str] = []

    def work() -> None:
        with cancel_on_interrupt(lambda: calls.append("cancelled")):
            interrupt()
            wait_for(calls, 2)  # Repeatedly, because another job may follow.
            raise ValueError("cancelled")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(calls) >= 2
    assert signal.getsignal(signal.SIGINT) is before


def test_a_block_that_cannot_be_cancelled_is_left_after_the_timeout() -> None:
    calls: list[str] = []

    def work() -> None:
        with cancel_on_interrupt(lambda: None, timeout_s=0.1):
            interrupt()
            calls.append("continued")
            wait_for(calls, 2)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert calls == ["continued"]


def test_the_second_interrupt_is_raised_at_once() -> None:
    calls: list[str] = []

    def work() -> None:
        with cancel_on_interrupt(lambda: None):
            interrupt()
            calls.append("continued")
            interrupt()
            calls.append("continued again")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert calls == ["continued"]


def test_without_an_interrupt_exceptions_are_unchanged() -> None:
    with pytest.raises(ValueError, match="unchanged"), cancel_on_interrupt(lambda: None):
        raise ValueError("unchanged")


def test_a_remaining_process_is_found() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        (found,) = in_session(process.pid)
        assert found.startswith(f"{process.pid}: ")
        process.communicate(b"\n")
    assert left_behind(process.pid) == []
