"""A counterexample can be told, kept, replayed and drawn; and what the command answers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from antecede.check import Bound, Story, check, load_story, tell
from antecede.cli.main import main
from antecede.core.config import Setting
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.testing import replay


@pytest.fixture(scope="module")
def story() -> Story:
    """The shortest way to break causal order with FIFO channels alone."""
    return tell(check(Bound(protocol="fifo")))


def test_story_is_told_in_numbered_lines(story: Story) -> None:
    lines = story.lines()
    assert len(lines) == len(story.steps)
    assert lines[0].startswith("  1. process ")
    assert "sends to" in lines[0]
    assert "arrives" in lines[-1]


def test_story_survives_its_file(story: Story, tmp_path: Path) -> None:
    path = tmp_path / "story.json"
    path.write_text(story.to_json(), encoding="utf-8")
    assert load_story(path) == story
    verdict = replay(load_story(path)).verdict()
    assert {each.property.value for each in verdict.violations} == {"causal"}


def test_story_of_faults_is_replayed() -> None:
    """Losses, duplicates and timers, on a process that cannot cope with the duplicate."""
    info = protocol("unordered")
    setting = Setting(processes=2, reliable=True)
    bound = Bound(protocol="unordered", processes=2, messages=1, duplicates=1)
    checked = check(bound, make=lambda place: info.make(ProcessId(place), setting))
    found = tell(checked)
    assert found.property == "once"
    assert any("is duplicated" in line for line in found.lines())
    cluster = replay(found, lambda place: info.make(place, setting))
    names = {each.property.value for each in cluster.verdict().violations}
    assert names == {"once"}


def test_stuck_story_ends_where_it_is_stuck() -> None:
    info = protocol("unordered")
    setting = Setting(processes=2, reliable=True)
    bound = Bound(protocol="unordered", processes=2, messages=1, losses=1)
    checked = check(bound, make=lambda place: info.make(ProcessId(place), setting))
    found = tell(checked)
    assert found.property == "live"
    cluster = replay(found, lambda place: info.make(place, setting))
    assert not cluster.in_flight
    names = {each.property.value for each in cluster.verdict().violations}
    assert names == {"live"}


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
def test_story_that_is_not_possible_is_refused(
    story: Story, step: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="step 1"):
        replay(replace(story, steps=(step,)))


def test_story_of_another_protocol_is_refused(story: Story) -> None:
    with pytest.raises(ConfigError, match="not possible"):
        replay(replace(story, protocol="matrix"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"protocol": "fifo"}', "\xff"])
def test_file_without_a_story_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "story.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError):
        load_story(path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_story(tmp_path / "nothing")


def test_command_says_that_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--protocol", "buffer", "--messages", "1"]) == 0
    out = capsys.readouterr().out
    assert "states" in out
    assert "verdict: held" in out


def test_command_tells_keeps_draws_and_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, drawn = tmp_path / "story.json", tmp_path / "story.svg"
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
    assert found["broken"] == "fifo"
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
        ["--protocol", "fifo", "--save", "no/such/place"],
    ],
)
def test_command_refuses(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 2
    assert capsys.readouterr().err.startswith("antecede: ")


def test_command_owns_up_to_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--protocol", "buffer", "--states", "20"]) == 4
    assert "NOT EXHAUSTED" in capsys.readouterr().out
