"""Every schedule of ``bounded`` with several budgets, and the option for the budget."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from antecede.check import CheckConfig, Counterexample, check
from antecede.cli.main import main
from antecede.core import ProcessConfig, ProcessId, encode, protocol
from antecede.core.process import UNBOUNDED
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage
from antecede.core.protocols.hybrid.entry import Entry
from antecede.errors import ConfigError
from antecede.testing import replay
from tests.check.programs import search_program

BUDGETS = (0, 5, 8, UNBOUNDED)
TWO_THEN_ONE = [[[2], [1]], [[2], [2]], [[1], [1]]]
"""Process 0 sends to 2 and then to 1, which sends to 2 with an entry."""


def assert_holds(limits: dict[str, int], budget: int) -> int:
    """Check all schedules within the limits, and return the number of states."""
    config = CheckConfig(
        protocol="bounded",
        budget_bytes=budget,
        **limits,  # type: ignore[arg-type]
    )
    result = check(config)
    assert result.exhausted
    assert result.violation is None
    return result.states


@pytest.mark.long
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    "limits",
    [
        {"processes": 2, "messages": 2, "losses": 1},
        {"processes": 2, "messages": 2, "duplicates": 1},
        {"processes": 2, "messages": 2, "removals": 1},
        {"messages": 1, "removals": 1},
        {"messages": 1, "stops": 1},
        {"messages": 1, "removals": 1, "losses": 1},
    ],
    ids=str,
)
def test_every_schedule_holds(limits: dict[str, int], budget: int) -> None:
    assert_holds(limits, budget)


@pytest.mark.long
def test_every_schedule_of_multicasts_with_few_entries_holds() -> None:
    assert_holds({"messages": 1, "multicast": True}, 5)


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("budget", [0, 8, UNBOUNDED])
def test_every_schedule_of_multicasts_holds(budget: int) -> None:
    assert_holds({"messages": 1, "multicast": True}, budget)


@pytest.mark.long
def test_every_schedule_of_a_program_with_inherited_entries_holds() -> None:
    """The states of budgets from 5 on are the same."""
    config = ProcessConfig(processes=3, reliable=True, budget_bytes=5)
    result = search_program(
        lambda index: protocol("bounded").make(ProcessId(index), config), TWO_THEN_ONE
    )
    assert result.exhausted
    assert result.violation is None


def test_without_a_budget_the_states_are_those_of_hybrid() -> None:
    hybrid = check(CheckConfig(protocol="hybrid", messages=1))
    assert assert_holds({"messages": 1}, 0) == hybrid.states


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ConfigError, match="budget_bytes must be at least 0"):
        CheckConfig(protocol="bounded", budget_bytes=-1)
    with pytest.raises(ConfigError, match="budget_bytes must be at least 0"):
        CheckConfig(protocol="bounded", budget_bytes=UNBOUNDED + 1)


def test_a_counterexample_keeps_the_budget(tmp_path: Path) -> None:
    result = check(CheckConfig(protocol="fifo", budget_bytes=8))
    counterexample = Counterexample.from_result(result)
    assert counterexample.budget_bytes == 8
    path = tmp_path / "counterexample.json"
    path.write_text(counterexample.to_json(), encoding="utf-8")
    assert Counterexample.load(path) == counterexample


def test_a_replay_has_the_budget_of_the_counterexample() -> None:
    """The second message has an entry, without which it is another packet."""
    frame = DependentMessage(2, 0, False, False, [Entry(0, 2, 1)], [], [], b"")
    encoded = encode([frame]).hex()
    counterexample = Counterexample(
        protocol="bounded",
        processes=3,
        reliable=True,
        property="causal",
        steps=(
            {"do": "send", "process": 0, "targets": [2]},
            {"do": "send", "process": 0, "targets": [1]},
            {"do": "arrive", "process": 1, "source": 0, "frame": encoded, "shown": ""},
        ),
        budget_bytes=8,
    )
    assert replay(counterexample).verdict().held
    with pytest.raises(ConfigError, match="step 3 is not possible"):
        replay(replace(counterexample, budget_bytes=0))


@pytest.mark.parametrize(
    ("text", "budget"), [("0", 0), ("8", 8), ("inf", UNBOUNDED), (None, 64)]
)
def test_the_command_checks_with_a_budget(
    capsys: pytest.CaptureFixture[str], text: str | None, budget: int
) -> None:
    options = [] if text is None else ["--budget-bytes", text]
    arguments = ["check", "--protocol", "bounded", "--processes", "2", "--messages", "1"]
    assert main([*arguments, *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["budget_bytes"] == budget


@pytest.mark.parametrize("text", ["-1", "nan"])
def test_the_command_refuses_a_negative_budget(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    arguments = ["check", "--protocol", "bounded", f"--budget-bytes={text}"]
    assert main(arguments) != 0
    assert "--budget-bytes must be at least 0" in capsys.readouterr().err
