"""The command line: what it prints, and how it exits."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from antecede.cli import main as cli
from antecede.core import protocols
from antecede.errors import InternalError
from antecede.sim import Scenario, SimulationResult, simulate
from antecede.verify import MessageId, Property, Verdict, Violation


def test_simulate_ends_in_a_verified_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["simulate", "--processes", "4", "--messages", "5", "--loss", "0.1"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0].startswith("hybrid, seed 0: 20 copies in ")
    assert (
        lines[-1] == "verdict: held (causal, fifo, no-duplication, no-creation, liveness)"
    )


def test_simulate_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "simulate --protocol hybrid-basic --processes 4 --messages 5"
    more = ["--workload", "uniform:fan_out=2", "--seed", "3", "--json"]
    assert cli.main([*arguments.split(), *more]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["held"] is True
    assert result["violations"] == []
    assert (result["protocol"], result["seed"]) == ("hybrid-basic", 3)
    assert result["copies"] == 40
    command = "antecede simulate --protocol hybrid-basic --processes 4 --messages 5"
    assert result["command"] == f"{command} --workload uniform:fan_out=2 --seed 3"


def test_a_violation_is_printed_and_exits_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = MessageId(0, 1), MessageId(0, 2)
    violation = Violation(
        property=Property.FIFO, process=1, message=second, chain=(first, second)
    )
    verdict = Verdict(messages=2, deliveries=2, violations=(violation,))
    run = replace(simulate(Scenario(processes=2, messages=1)), verdict=verdict)
    monkeypatch.setattr("antecede.cli.simulate.simulate", lambda *_, **__: run)
    assert cli.main(["simulate"]) == 1
    out = capsys.readouterr().out
    assert "process 1 delivered 0:2 before 0:1" in out
    assert out.splitlines()[-1] == "verdict: VIOLATED, 1 violations found"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--protocol nope", "unknown protocol 'nope'; choose one of: hybrid,"),
        ("--processes 1", "at least 2 processes"),
        ("--messages -1", "messages must be at least 0"),
        ("--workload nope", "unknown workload 'nope'; choose one of: uniform,"),
        ("--workload uniform:fan_out=0", "fan_out must be from 1"),
        ("--workload uniform:fan_out=10", "fan_out must be from 1 to 9"),
        ("--workload hotspot:hat=1", "has no parameter 'hat'; it has: hot, share"),
        ("--workload hotspot:hot=much", "invalid value 'much' for hot of workload hotspot"),
        ("--workload program:nowhere.json", "nowhere.json is not a valid program"),
        ("--delay -1", "must be finite and at least 0, got -1"),
        ("--delay nan", "must be finite and at least 0, got nan"),
        (
            "--delay soon",
            "'soon' is not a valid distribution; the forms are: NUMBER, constant:NUMBER",
        ),
        ("--gap uniform:2,1", "the width must be finite and at least 0"),
        ("--service-share 2", "service_share must be from 0 to 1"),
        ("--bandwidth 0", "bandwidth must be above 0"),
        ("--reorder 2", "reorder must be from 0 to 1"),
        ("--loss 1", "loss must be at least 0 and below 1"),
        ("--loss -0.1", "loss must be"),
        ("--duplicate 1.5", "duplicate must be from 0 to 1"),
    ],
)
def test_bad_input_is_one_line_and_exits_with_2(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["simulate", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("antecede: ")
    assert words in captured.err


def test_a_missing_package_is_named_with_what_to_install(tmp_path: Path) -> None:
    """In a process of its own, where pyarrow cannot be imported."""
    program = (
        "import sys; sys.modules['pyarrow'] = None; from antecede.cli.main import main;"
        f"sys.exit(main(['verify', {str(tmp_path)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "antecede: this command needs more packages: pip install 'antecede[trace]'"
        " (no pyarrow)\n"
    )


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        cli.main([])
    assert exited.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "words"),
    [(InternalError("the floor is open"), "the floor"), (KeyError("a"), "KeyError('a')")],
)
def test_a_bug_of_ours_exits_with_3(
    error: Exception,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> SimulationResult:
        raise error

    monkeypatch.setattr("antecede.cli.simulate.simulate", broken)
    assert cli.main(["simulate"]) == 3
    assert f"please report it: {words}" in capsys.readouterr().err


def test_protocols_lists_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["protocols"]) == 0
    text = capsys.readouterr().out
    assert cli.main(["protocols", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    names = [info.name for info in protocols()]
    assert [row["name"] for row in table] == names
    assert all(f"\n{name}" in f"\n{text}" for name in names)
    able = {row["name"]: row for row in table}
    assert able["hybrid"]["loss"]
    assert able["hybrid"]["multicast"]
    assert not able["fifo"]["causal"]
