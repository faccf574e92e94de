"""Every schedule of ``bounded`` with removals, and with room for one and for two entries.

If every process sends one message to one target, no message has an entry. Therefore most of
these tests search programs in which messages have entries, in all schedules.
"""

import pytest

from antecede.check.removal import RemovalLimits
from antecede.core import ProcessConfig, ProcessId, protocol
from tests.check.programs import Program, search_program
from tests.check.test_bounded import assert_holds

BUDGETS = (5, 8)
"""There is room for one inherited entry, and for two."""
ONE_ENTRY: Program = [[[1], [2]], [[2], []], [[], []]]
"""Process 1 may deliver 0:1 before it sends; 0:2 lists 0:1."""
OVERTAKING: Program = [[[1], [2]], [[2], []], [[1], []]]
"""The message of process 2 may list 0:1, and then process 1 holds it."""
HELD: Program = [[[1, 2]], [[2]], [[0]]]
"""The message of process 1 may list the copy of 0:1 to process 2, which holds it then."""
TWO_ENTRIES: Program = [[[1, 2]], [[0, 2]], [[]]]
"""A copy of process 1 may have an own entry and an inherited one, in 7 bytes."""


def assert_program_holds(program: Program, budget: int, **limits: int) -> None:
    """Check all schedules of a program in which processes remove each other or stop."""
    losses = limits.get("losses", 0)
    duplicates = limits.get("duplicates", 0)
    config = ProcessConfig(
        processes=len(program),
        reliable=not losses and not duplicates,
        budget_bytes=budget,
    )
    result = search_program(
        lambda index: protocol("bounded").make(ProcessId(index), config),
        program,
        losses=losses,
        duplicates=duplicates,
        removal=RemovalLimits(
            removals=limits.get("removals", 0),
            stops=limits.get("stops", 0),
            lease=True,
            false_suspicion=False,
        ),
    )
    assert result.exhausted
    assert result.violation is None


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    "limits",
    [
        {"removals": 1},
        {"stops": 1},
        {"removals": 1, "losses": 1},
        {"removals": 1, "duplicates": 1},
    ],
    ids=str,
)
def test_every_schedule_of_a_program_with_an_entry_holds(
    limits: dict[str, int], budget: int
) -> None:
    assert_program_holds(ONE_ENTRY, budget, **limits)


@pytest.mark.long
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_schedule_of_a_program_with_a_held_message_holds(budget: int) -> None:
    assert_program_holds(OVERTAKING, budget, removals=1)


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    ("program", "limits"),
    [
        (OVERTAKING, {"stops": 1}),
        (HELD, {"removals": 1}),
        (HELD, {"stops": 1}),
        (TWO_ENTRIES, {"removals": 1}),
    ],
    ids=str,
)
def test_every_schedule_of_a_program_with_multicasts_holds(
    program: Program, limits: dict[str, int], budget: int
) -> None:
    assert_program_holds(program, budget, **limits)


@pytest.mark.long
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_schedule_of_three_messages_with_a_removal_and_a_duplicate_holds(
    budget: int,
) -> None:
    assert_holds({"messages": 1, "removals": 1, "duplicates": 1}, budget)


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("fault", ["losses", "duplicates"])
def test_every_schedule_of_two_processes_with_a_removal_and_a_fault_holds(
    fault: str, budget: int
) -> None:
    assert_holds({"processes": 2, "messages": 2, "removals": 1, fault: 1}, budget)
