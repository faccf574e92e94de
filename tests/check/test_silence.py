"""Silent processes in every schedule: who is held up, and by whom."""

from dataclasses import replace

import pytest

from antecede.check import CheckConfig, check
from antecede.check.actions import ARRIVE, RETURN, SEND, SILENCE
from antecede.check.checker import CheckResult
from antecede.check.recovery import find_stuck
from antecede.core.config import ProcessConfig
from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.registry import protocol
from tests.check.programs import Program, follow, program_space, search_program
from tests.check.variants import Make

ONE_ENTRY, TWO_ENTRIES, DEFAULT = 5, 8, 32
PROBLEM: Program = [[[3], [1]], [[2], []], [[], []], [[], []]]
"""The program of docs/explanation/bounded.md, "The problem"."""
TWO_WAYS: Program = [[[2], [1]], [[], []], [[], []]]
FORWARDED: Program = [[[2], [1]], [[2], []], [[1], []]]
SMALL_BUDGET: Program = [[[1, 2]], [[0, 2]], [[]]]


def maker(name: str, processes: int, budget: int = DEFAULT) -> Make:
    info = protocol(name)
    config = ProcessConfig(processes=processes, reliable=True, budget_bytes=budget)
    return lambda index: info.make(ProcessId(index), config)


def assert_holds(config: CheckConfig) -> CheckResult:
    result = check(config)
    assert result.exhausted
    assert result.violation is None
    return result


# Protocols that wait at the sender.


def test_a_copy_waits_forever_for_the_permit_of_a_silent_process() -> None:
    """Process 1 has delivered 0:1, which needs a permit, as it has another target.

    No schedule is shorter: a copy waits for a permit if a message was sent, arrived and was
    followed by a send. The other copy of that message must not be in flight, and a process
    must be silent.
    """
    result = check(CheckConfig(protocol="hybrid", messages=1, multicast=True, silences=1))
    assert result.violation is not None
    assert result.violation.property == "liveness"
    assert result.violation.undelivered == ((1, 1, 2),)
    found = [(each.kind, each.process) for each in result.violation.schedule]
    assert sorted(found) == sorted(
        [(SEND, 0), (ARRIVE, 1), (SEND, 1), (ARRIVE, 2), (SILENCE, 0)]
    )


THE_PROBLEM = (
    (SILENCE, 3, 0),
    (SEND, 0, 1 << 3),
    (SEND, 0, 1 << 1),
    (ARRIVE, 1, 0),
    (ARRIVE, 0, 1),  # The ack of 0:2.
    (SEND, 1, 1 << 2),
)


@pytest.mark.parametrize(("name", "budget"), [("hybrid", DEFAULT), ("bounded", 0)])
def test_the_ack_of_a_silent_process_is_missing(name: str, budget: int) -> None:
    """The copy of 0:1 to process 3 is excused; 1:1 to process 2 is not."""
    table, space = program_space(maker(name, 4, budget), PROBLEM, silences=1)
    assert find_stuck(space, follow(table, space, THE_PROBLEM[:-1]), is_end=False) == (
        "",
        [],
    )
    state = follow(table, space, THE_PROBLEM)
    assert find_stuck(space, state, is_end=False) == ("liveness", [])
    assert space.undelivered(state) == [(1, 1, 2)]


@pytest.mark.parametrize("budget", [ONE_ENTRY, TWO_ENTRIES, DEFAULT, UNBOUNDED])
def test_an_entry_solves_the_problem(budget: int) -> None:
    result = search_program(maker("bounded", 4, budget), PROBLEM, silences=1)
    assert result.exhausted
    assert result.violation is None


@pytest.mark.parametrize(("name", "budget"), [("hybrid", DEFAULT), ("bounded", 0)])
def test_the_search_finds_the_problem(name: str, budget: int) -> None:
    result = search_program(maker(name, 4, budget), PROBLEM, silences=1)
    assert result.violation is not None
    assert result.violation.depth == len(THE_PROBLEM)
    assert result.violation.undelivered == ((1, 1, 2),)


# Protocols that do not wait at the sender.


@pytest.mark.parametrize("name", ["optimal", "matrix"])
def test_a_silent_process_holds_up_no_others(name: str) -> None:
    assert_holds(CheckConfig(protocol=name, messages=1, multicast=True, silences=1))
    assert_holds(CheckConfig(protocol=name, processes=2, silences=2))


@pytest.mark.parametrize("budget", [ONE_ENTRY, TWO_ENTRIES, DEFAULT, UNBOUNDED])
def test_a_silent_process_holds_up_no_others_under_bounded(budget: int) -> None:
    assert_holds(
        CheckConfig(protocol="bounded", budget_bytes=budget, messages=1, silences=2)
    )
    assert_holds(
        CheckConfig(protocol="bounded", budget_bytes=budget, processes=2, silences=1)
    )


def test_a_lost_copy_is_retransmitted_beside_a_silent_target() -> None:
    result = search_program(maker("bounded", 3), TWO_WAYS, losses=1, silences=1)
    assert result.exhausted
    assert result.violation is None


@pytest.mark.long
@pytest.mark.parametrize("budget", [TWO_ENTRIES, UNBOUNDED])
def test_a_silent_process_holds_up_no_others_under_loss(budget: int) -> None:
    config = CheckConfig(protocol="bounded", budget_bytes=budget, silences=1, losses=1)
    assert_holds(replace(config, messages=1))
    assert_holds(replace(config, processes=2))


@pytest.mark.long
@pytest.mark.parametrize("budget", [TWO_ENTRIES, UNBOUNDED])
def test_a_silent_process_holds_up_no_others_with_inherited_entries(budget: int) -> None:
    result = search_program(maker("bounded", 3, budget), FORWARDED, silences=1)
    assert result.exhausted
    assert result.violation is None


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("budget", [TWO_ENTRIES, UNBOUNDED])
def test_a_silent_process_holds_up_no_others_by_multicast(budget: int) -> None:
    assert_holds(
        CheckConfig(
            protocol="bounded",
            budget_bytes=budget,
            messages=1,
            multicast=True,
            silences=1,
        )
    )


@pytest.mark.parametrize("budget", [ONE_ENTRY, TWO_ENTRIES])
def test_entries_that_a_silent_process_reported_are_settled(budget: int) -> None:
    """1:1 to process 2 has two entries, and the smaller budget has room for one.

    They are the own entry for the copy to process 0, which is silent, and the inherited
    entry for 0:1 to process 2, which process 0 has reported. Process 2 has delivered 0:1,
    and process 1 asks it, because process 0 does not answer.
    """
    result = search_program(maker("bounded", 3, budget), SMALL_BUDGET, silences=1)
    assert result.exhausted
    assert result.violation is None


# A process that returns.


@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic", "bounded", "optimal"])
def test_all_is_delivered_after_a_return(name: str) -> None:
    """Frames to the process were lost meanwhile."""
    assert_holds(CheckConfig(protocol=name, processes=2, messages=1, silences=1, returns=1))
    if name != "optimal":
        assert_holds(CheckConfig(protocol=name, messages=1, silences=1, returns=1))


def test_after_a_return_copies_to_the_process_must_be_delivered() -> None:
    info = protocol("unordered")
    config = CheckConfig(
        protocol="unordered", processes=2, messages=1, silences=1, returns=1
    )
    reliable = ProcessConfig(processes=2, reliable=True)
    result = check(config, make=lambda index: info.make(ProcessId(index), reliable))
    assert result.violation is not None
    kinds = [action.kind for action in result.violation.schedule]
    assert sorted(kinds) == sorted([SEND, SILENCE, RETURN])
