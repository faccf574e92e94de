"""Silent processes in every schedule: who is held up, and by whom."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from antecede.check import CheckConfig, Counterexample, check
from antecede.check.actions import ARRIVE, DROP, FIRE, RETURN, SEND, SILENCE, Action
from antecede.check.checker import CheckResult, make_space
from antecede.check.search import SearchResult, Violation
from antecede.check.state_space import StateSpace
from antecede.check.transitions import TransitionTable
from antecede.cli.main import main
from antecede.core.config import ProcessConfig
from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.testing import Cluster, replay
from antecede.trace import Kind
from tests.check.programs import Program, program_space, search_program
from tests.check.variants import Make
from tests.core.bounded_runs import left_over

ONE_ENTRY, TWO_ENTRIES, DEFAULT = 5, 8, 32
PROBLEM: Program = [[[3], [1]], [[2], []], [[], []], [[], []]]
"""The program of docs/explanation/bounded.md, "The problem"."""
FORWARDED: Program = [[[2], [1]], [[2], [2]], [[1], [1]]]
WALKS = 60


def maker(name: str, processes: int, budget: int = DEFAULT) -> Make:
    info = protocol(name)
    config = ProcessConfig(processes=processes, reliable=True, budget_bytes=budget)
    return lambda index: info.make(ProcessId(index), config)


def assert_holds(config: CheckConfig) -> CheckResult:
    result = check(config)
    assert result.exhausted
    assert result.violation is None
    return result


def follow(
    table: TransitionTable, space: StateSpace, steps: Sequence[tuple[int, int, int]]
) -> bytes:
    """Take steps from the first state, and return the last one.

    A step is a kind of action, its process, and the targets of a SEND as a bit set or the
    source of a packet.
    """
    state = space.first
    for kind, process, argument in steps:
        for successor in space.successors(state, canonical=False):
            action = successor.action
            found = action.argument
            if action.kind in (ARRIVE, DROP):
                found = table.packets[action.argument].source
            if (action.kind, action.process, found) == (kind, process, argument):
                state = successor.state
                break
        else:
            raise AssertionError(f"not possible: {(kind, process, argument)}")
    return state


# Protocols that wait at the sender.


@pytest.mark.parametrize(("name", "budget"), [("hybrid", DEFAULT), ("bounded", 0)])
def test_a_copy_waits_forever_for_the_permit_of_a_silent_process(
    name: str, budget: int
) -> None:
    """Process 1 has delivered 0:1, which needs a permit, as it has another target.

    No schedule is shorter: a copy waits for a permit if a message was sent, arrived and was
    followed by a send. The other copy of that message must not be in flight, and a process
    must be silent.
    """
    result = check(
        CheckConfig(
            protocol=name, budget_bytes=budget, messages=1, multicast=True, silences=1
        )
    )
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
    assert space.stuck(follow(table, space, THE_PROBLEM[:-1]), is_end=False) == ("", [])
    state = follow(table, space, THE_PROBLEM)
    assert space.stuck(state, is_end=False) == ("liveness", [])
    assert space.undelivered(state) == [(1, 1, 2)]


@pytest.mark.parametrize("budget", [ONE_ENTRY, TWO_ENTRIES, DEFAULT, UNBOUNDED])
def test_an_entry_solves_the_problem(budget: int) -> None:
    result = search_program(maker("bounded", 4, budget), PROBLEM, silences=1)
    assert result.exhausted
    assert result.violation is None


def test_the_search_finds_the_problem() -> None:
    result = search_program(maker("hybrid", 4), PROBLEM, silences=1)
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


@pytest.mark.long
@pytest.mark.parametrize("budget", [TWO_ENTRIES, UNBOUNDED])
def test_a_silent_process_holds_up_no_others_under_loss(budget: int) -> None:
    limits = {"budget_bytes": budget, "silences": 1, "losses": 1}
    assert_holds(CheckConfig(protocol="bounded", messages=1, **limits))
    assert_holds(CheckConfig(protocol="bounded", processes=2, **limits))


@pytest.mark.long
@pytest.mark.parametrize("budget", [TWO_ENTRIES, UNBOUNDED])
def test_a_silent_process_holds_up_no_others_with_inherited_entries(budget: int) -> None:
    result = search_program(maker("bounded", 3, budget), FORWARDED, silences=1)
    assert result.exhausted
    assert result.violation is None


@pytest.mark.slow
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


def test_entries_of_a_silent_process_fill_a_small_budget() -> None:
    """The documented limit of the budget.

    1:1 to process 2 has the own entry for its copy to process 0, which is silent, and the
    inherited entry for 0:1 to process 2. Process 2 has delivered 0:1, but only process 0
    could inform process 1. The budget has room for one of the entries.
    """
    result = check(
        CheckConfig(
            protocol="bounded",
            budget_bytes=ONE_ENTRY,
            messages=1,
            multicast=True,
            silences=1,
        )
    )
    assert result.violation is not None
    assert result.violation.undelivered == ((1, 1, 2),)
    found = [(each.kind, each.process) for each in result.violation.schedule]
    assert sorted(found) == sorted(
        [(SEND, 0), (ARRIVE, 1), (SEND, 1), (ARRIVE, 2), (SILENCE, 0)]
    )
    targets = [each.argument for each in result.violation.schedule if each.kind == SEND]
    assert targets == [1 << 1 | 1 << 2, 1 << 0 | 1 << 2]


# What causal order excuses.


def test_a_copy_that_depends_on_a_lost_copy_of_a_silent_process_is_excused() -> None:
    """0:1 to process 2 is lost, and 1:1 to process 2 happened after it."""
    table, space = make_space(
        CheckConfig(protocol="bounded", silences=1, losses=1, symmetry=False)
    )
    steps = [
        (SEND, 0, 1 << 2),
        (SEND, 0, 1 << 1),
        (DROP, 2, 0),
        (ARRIVE, 1, 0),
        (SEND, 1, 1 << 2),
        (ARRIVE, 2, 1),
    ]
    running = follow(table, space, [*steps, (ARRIVE, 0, 1), (ARRIVE, 1, 2)])
    assert space.undelivered(running) == [(0, 1, 2), (1, 1, 2)]
    assert space.stuck(running, is_end=False) == ("", [])  # It is retransmitted.
    silent = follow(table, space, [*steps, (SILENCE, 0, 0), (ARRIVE, 1, 2)])
    assert space.undelivered(silent) == []


def test_a_violation_after_the_last_send_is_found() -> None:
    """Both copies to process 1 are lost, and the later one is retransmitted first."""
    config = CheckConfig(protocol="fifo", silences=1, losses=2, symmetry=False)
    table, space = make_space(config)
    state = follow(
        table,
        space,
        [
            (SEND, 0, 1 << 1),
            (DROP, 1, 0),
            (SEND, 0, 1 << 2),
            (ARRIVE, 2, 0),
            (ARRIVE, 0, 2),
            (SEND, 2, 1 << 1),
            (DROP, 1, 2),
        ],
    )
    violated, steps = space.stuck(state, is_end=False)
    assert violated == "causal"
    assert [(each.kind, each.process) for each in steps] == [(FIRE, 2), (ARRIVE, 1)]


def excused_by_definition(cluster: Cluster, silent: set[int]) -> list[tuple[int, int, int]]:
    """Return the copies that must be delivered, by the definition, from the history."""
    before: dict[tuple[int, int], set[tuple[int, int]]] = {}
    past: list[set[tuple[int, int]]] = [set() for _ in cluster.processes]
    pending: set[tuple[int, int, int]] = set()
    for event in cluster.history:
        process, number = event.process, event.number
        if event.kind is Kind.SEND:
            assert number is not None
            before[process, number] = set(past[process])
            past[process].add((process, number))
            pending |= {(process, number, target) for target in event.targets or ()}
        elif event.kind is Kind.DELIVER:
            assert event.source is not None
            assert number is not None
            past[process] |= before[event.source, number] | {(event.source, number)}
            pending.discard((event.source, number, process))
    return sorted(
        (source, number, target)
        for source, number, target in pending
        if source not in silent
        and target not in silent
        and not any(
            each[0] in silent and each[2] == target and each[:2] in before[source, number]
            for each in pending
        )
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["hybrid", "bounded", "optimal"])
@pytest.mark.parametrize("losses", [0, 2])
def test_the_definition_agrees_on_walks(name: str, losses: int) -> None:
    config = CheckConfig(
        protocol=name,
        processes=4,
        multicast=name != "optimal" or losses == 0,
        losses=losses,
        silences=2,
        returns=1 if losses else 0,
        symmetry=False,
    )
    table, space = make_space(config)
    random = Random(name)
    required = excused = returned = 0
    for _ in range(WALKS):
        state = space.first
        path: list[Action] = []
        for _ in range(random.randrange(40)):
            if not (successors := space.successors(state)):
                break
            chosen = random.choice(successors)
            path.append(chosen.action)
            state = chosen.state
        silent: set[int] = set()
        for action in path:
            if action.kind == SILENCE:
                silent.add(action.process)
            elif action.kind == RETURN:
                silent.remove(action.process)
        cluster = replay(counterexample_of(config, table, path))
        found = excused_by_definition(cluster, silent)
        assert space.undelivered(state) == found
        required += len(found)
        excused += len(excused_by_definition(cluster, set())) - len(found)
        if not silent and name != "optimal":
            returned += any(action.kind == RETURN for action in path)
            cluster.run_until_idle(random)
            assert cluster.verdict().held
            if name == "bounded":
                assert [left_over(process) for process in cluster.processes] == [[]] * 4
    assert required > WALKS
    assert excused > WALKS
    assert returned > 0 or not losses or name == "optimal"


def counterexample_of(
    config: CheckConfig, table: TransitionTable, path: list[Action]
) -> Counterexample:
    """Return a path that ends anywhere as a counterexample, so that it can be replayed."""
    violation = Violation(property="liveness", depth=len(path), schedule=tuple(path))
    result = SearchResult(violation=violation)
    return Counterexample.from_result(
        CheckResult.of(config, result, table, start=0.0, local_states=0)
    )


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


# Symmetry.


@pytest.mark.parametrize("name", ["hybrid", "bounded", "optimal"])
@pytest.mark.parametrize("multicast", [False, True], ids=["unicast", "multicast"])
def test_reduced_and_full_search_agree(name: str, multicast: bool) -> None:
    budget = 0 if multicast else DEFAULT
    reduced, full = (
        check(
            CheckConfig(
                protocol=name,
                budget_bytes=budget,
                messages=1,
                multicast=multicast,
                silences=1,
                symmetry=symmetry,
            )
        )
        for symmetry in (True, False)
    )
    violations = (reduced.violation, full.violation)
    assert (violations[0] is None) == (not multicast or name == "optimal")
    if violations[0] is not None and violations[1] is not None:
        assert violations[0].depth == violations[1].depth
    else:
        assert violations == (None, None)
        assert reduced.depth == full.depth
        assert reduced.states < full.states <= 6 * reduced.states


# The configuration, the command and its files.


def test_unsupported_silence_is_refused() -> None:
    with pytest.raises(ConfigError, match="silences must be from 0 to 200"):
        CheckConfig(protocol="hybrid", silences=201)
    with pytest.raises(ConfigError, match="returns must be from 0 to 200"):
        CheckConfig(protocol="hybrid", silences=1, returns=-1)
    with pytest.raises(ConfigError, match="returns need silences"):
        CheckConfig(protocol="hybrid", returns=1)
    for limits in ({"removals": 1}, {"stops": 1}):
        with pytest.raises(ConfigError, match="cannot be combined"):
            CheckConfig(protocol="hybrid", silences=1, **limits)


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
