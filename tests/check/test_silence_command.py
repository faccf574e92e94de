"""Silent processes on the command line and in the files of counterexamples."""

import json
from pathlib import Path

import pytest

from antecede.check import CheckConfig, Counterexample
from antecede.cli.main import main
from antecede.errors import ConfigError
from antecede.testing import replay


def test_unsupported_silence_is_refused() -> None:
    with pytest.raises(ConfigError, match="silences must be from 0 to 200"):
        CheckConfig(protocol="hybrid", silences=201)
    with pytest.raises(ConfigError, match="returns must be from 0 to 200"):
        CheckConfig(protocol="hybrid", silences=1, returns=-1)
    with pytest.raises(ConfigError, match="returns need silences"):
        CheckConfig(protocol="hybrid", returns=1)
    with pytest.raises(ConfigError, match="cannot be combined"):
        CheckConfig(protocol="hybrid", silences=1, removals=1)
    with pytest.raises(ConfigError, match="cannot be combined"):
        CheckConfig(protocol="hybrid", silences=1, stops=1)


def test_the_command_names_the_copies_and_the_silent_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, drawn = tmp_path / "counterexample.json", tmp_path / "counterexample.svg"
    words = ["check", "--messages", "1", "--multicast", "--max-silences", "1"]
    assert main([*words, "--save", str(saved), "--svg", str(drawn)]) == 1
    out = capsys.readouterr().out
    assert "process 0 becomes silent" in out
    assert "\n1:1 to 2 is not delivered although only process 0 is silent\n" in out
    assert "VIOLATED (liveness)" in out
    assert drawn.read_text(encoding="utf-8").startswith("<svg")
    assert main(["check", "--replay", str(saved)]) == 1
    out = capsys.readouterr().out
    assert "liveness: process 2 never delivered 1:1" in out
    fields = json.loads(saved.read_text(encoding="utf-8"))
    saved.write_text(json.dumps(fields | {"undelivered": ["0:9 to 2"]}), encoding="utf-8")
    assert main(["check", "--replay", str(saved)]) == 0


def test_the_command_checks_returns(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "--processes", "2", "--max-silences", "1", "--max-returns", "1"]
    assert main(words) == 0
    assert "verdict: held" in capsys.readouterr().out


def steps_of(*steps: tuple[str, int]) -> Counterexample:
    return Counterexample(
        protocol="hybrid",
        processes=3,
        reliable=True,
        property="liveness",
        steps=tuple({"do": do, "process": process} for do, process in steps),
        undelivered=("0:1 to 1",),
    )


def test_the_conclusion_names_the_processes_that_are_silent_at_the_end() -> None:
    text = "0:1 to 1 is not delivered"
    assert steps_of().conclusion() == [text]
    one = [("silence", 2)]
    assert steps_of(*one).conclusion() == [f"{text} although only process 2 is silent"]
    two = [*one, ("silence", 1)]
    assert steps_of(*two).conclusion() == [
        f"{text} although only processes 1 and 2 are silent"
    ]
    back = [*two, ("return", 2)]
    assert steps_of(*back).conclusion() == [f"{text} although only process 1 is silent"]
    assert steps_of(*back).lines()[-1] == "  3. process 2 returns"


@pytest.mark.parametrize(
    "steps", [[("return", 1)], [("silence", 1), ("fire", 1)]], ids=["return", "fire"]
)
def test_an_impossible_step_is_refused(steps: list[tuple[str, int]]) -> None:
    with pytest.raises(ConfigError, match=f"step {len(steps)} is not possible"):
        replay(steps_of(*steps))
