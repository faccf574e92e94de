"""Counterexamples are printed, saved, replayed and drawn; and the command ``check``."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from antecede.check import CheckConfig, Counterexample, check
from antecede.cli.main import main
from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.testing import replay


@pytest.fixture(scope="module")
def counterexample() -> Counterexample:
    """The shortest violation of causal order with FIFO channels alone."""
    return Counterexample.from_result(check(CheckConfig(protocol="fifo")))


def test_counterexample_has_numbered_lines(counterexample: Counterexample) -> None:
    lines = counterexample.lines()
    assert len(lines) == len(counterexample.steps)
    assert lines[0].startswith("  1. process ")
    assert "sends to" in lines[0]
    assert "arrives" in lines[-1]


def test_counterexample_survives_its_file(
    counterexample: Counterexample, tmp_path: Path
) -> None:
    path = tmp_path / "counterexample.json"
    path.write_text(counterexample.to_json(), encoding="utf-8")
    assert Counterexample.load(path) == counterexample
    verdict = replay(Counterexample.load(path)).verdict()
    assert {each.property.value for each in verdict.violations} == {"causal"}


def test_counterexample_with_faults_is_replayed() -> None:
    """A duplicate, and a process that delivers it twice."""
    info = protocol("unordered")
    reliable = ProcessConfig(processes=2, reliable=True)
    config = CheckConfig(protocol="unordered", processes=2, messages=1, duplicates=1)
    result = check(config, make=lambda index: info.make(ProcessId(index), reliable))
    found = Counterexample.from_result(result)
    assert found.property == "no-duplication"
    assert any("is duplicated" in line for line in found.lines())
    cluster = replay(found, lambda index: info.make(index, reliable))
    names = {each.property.value for each in cluster.verdict().violations}
    assert names == {"no-duplication"}


def test_counterexample_to_liveness_ends_where_it_is_stuck() -> None:
    info = protocol("unordered")
    reliable = ProcessConfig(processes=2, reliable=True)
    config = CheckConfig(protocol="unordered", processes=2, messages=1, losses=1)
    result = check(config, make=lambda index: info.make(ProcessId(index), reliable))
    found = Counterexample.from_result(result)
    assert found.property == "liveness"
    cluster = replay(found, lambda index: info.make(index, reliable))
    assert not cluster.in_flight
    names = {each.property.value for each in cluster.verdict().violations}
    assert names == {"liveness"}


@pytest.mark.parametrize(
    "step",
    [
        {"do": "arrive", "process": 0, "source": 1, "frame": "00", "shown": "x"},
        {"do": "fire", "process": 0},
        {"do": "send", "process": 0, "targets": [7]},
        {"do": "send", "process": 0, "targets": 7},
        {"do": "send", "process": 0},
        {"do": "send", "process": 9, "targets": [1]},
        {"do": "explode", "process": 0},
        {"process": 0},
        {},
    ],
    ids=str,
)
def test_impossible_step_is_refused(
    counterexample: Counterexample, step: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="step 1"):
        replay(replace(counterexample, steps=(step,)))


def test_counterexample_of_another_protocol_is_refused(
    counterexample: Counterexample,
) -> None:
    with pytest.raises(ConfigError, match="not possible"):
        replay(replace(counterexample, protocol="matrix"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"protocol": "fifo"}', "\xff"])
def test_invalid_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counterexample.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError):
        Counterexample.load(path)
    with pytest.raises(ConfigError, match="cannot read"):
        Counterexample.load(tmp_path / "nothing")


def test_command_reports_that_a_protocol_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--protocol", "buffer", "--messages", "1"]) == 0
    out = capsys.readouterr().out
    assert "states" in out
    assert "verdict: held" in out


def test_command_prints_saves_draws_and_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, drawn = tmp_path / "counterexample.json", tmp_path / "counterexample.svg"
    words = ["check", "--protocol", "fifo", "--save", str(saved), "--svg", str(drawn)]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "  1. process " in out
    assert "VIOLATED (causal)" in out
    assert drawn.read_text(encoding="utf-8").startswith("<svg")
    assert main(["check", "--replay", str(saved)]) == 1
    assert "VIOLATED" in capsys.readouterr().out


def test_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--protocol", "unordered", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["violated"] == "fifo"
    assert [step["do"] for step in found["schedule"]] == ["send", "send", "arrive"]
    assert main(["check", "--protocol", "buffer", "--messages", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exhausted"] is True
    assert found["schedule"] is None


@pytest.mark.parametrize(
    "words",
    [
        ["--protocol", "newtop"],
        ["--processes", "9"],
        ["--protocol", "cykas", "--multicast"],
        ["--replay", "nothing.json"],
        ["--protocol", "fifo", "--save", "no/such/directory"],
    ],
)
def test_command_refuses(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 2
    assert capsys.readouterr().err.startswith("antecede: ")


def test_command_reports_that_a_bound_was_reached(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "--protocol", "buffer", "--max-states", "20"]) == 4
    assert "verdict: UNKNOWN" in capsys.readouterr().out
