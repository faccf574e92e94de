"""Removal of a peer in every schedule (docs/explanation/peer-removal.md)."""

from pathlib import Path
from random import Random

import pytest

from antecede.check import CheckConfig, Counterexample, check
from antecede.check.actions import ABANDON, FORGO, RESET, STOP, Action
from antecede.check.checker import CheckResult, make_space
from antecede.check.removal import RemovalLimits
from antecede.check.search import SearchResult, Violation, search
from antecede.check.state_space import StateSpace
from antecede.check.transitions import TransitionTable
from antecede.cli.main import main
from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.testing import replay
from tests.check.mutant_hunt import break_core, find
from tests.check.programs import Program
from tests.check.test_symmetry import reach
from tests.mutation.mutants import Mutant

NAMES = ("hybrid", "hybrid-basic")
WALKS = 60
SEEDS = {"": "", "no lease": "no lease", "false suspicion": "mistaken"}
"""For each option, a seed with which some walk violates causal order."""

OVERTAKING: Program = [[[1], [2]], [[2], []], [[1], []]]
"""The message through process 2 must not overtake that of process 0 to 1."""
MULTICAST: Program = [[[1, 2], [2]], [[], []], [[1], []]]


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "limits",
    [
        {"processes": 2, "messages": 2, "removals": 1},
        {"processes": 2, "messages": 2, "removals": 2},
        {"messages": 1, "removals": 2},
        {"messages": 1, "stops": 1},
        {"messages": 1, "stops": 1, "removals": 1},
        # With losses timers fire, so liveness is checked.
        {"messages": 1, "removals": 1, "losses": 1},
        {"messages": 1, "stops": 1, "losses": 1},
        {"processes": 2, "messages": 2, "removals": 1, "losses": 1},
    ],
    ids=str,
)
def test_causal_order_holds_among_delivered_messages(
    name: str, limits: dict[str, int]
) -> None:
    result = check(CheckConfig(protocol=name, **limits))  # type: ignore[arg-type]
    assert result.exhausted
    assert result.violation is None


def search_removals(name: str, program: Program, **limits: int) -> SearchResult:
    """Search every schedule of a program in which processes remove each other."""
    info = protocol(name)
    config = ProcessConfig(processes=len(program), reliable=True)
    lease = limits.get("lease", 1) == 1
    table = TransitionTable(
        lambda index: info.make(ProcessId(index), config),
        len(program),
        ordered=False,
        refusals=not lease,
    )
    options = [
        [[sum(1 << t for t in targets)] if targets else [] for targets in own]
        for own in program
    ]
    space = StateSpace(
        table,
        options,
        fifo=False,
        losses=0,
        duplicates=0,
        symmetry=None,
        removal=RemovalLimits(
            removals=limits.get("removals", 0),
            stops=limits.get("stops", 0),
            lease=lease,
            false_suspicion=False,
        ),
    )
    result = SearchResult()
    search(space, result, lambda found: found.states <= 500_000)
    return result


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "program", [OVERTAKING, MULTICAST], ids=["overtaking", "multicast"]
)
@pytest.mark.parametrize("change", ["removals", "stops"])
def test_causal_order_holds_in_a_program_that_can_violate_it(
    name: str, program: Program, change: str
) -> None:
    result = search_removals(name, program, **{change: 1})
    assert result.exhausted
    assert result.violation is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["removals", "stops"])
def test_program_violates_causal_order_without_the_lease(name: str, change: str) -> None:
    result = search_removals(name, OVERTAKING, **{change: 1, "lease": 0})
    assert result.violation is not None
    assert result.violation.property == "causal"


# Why the rules are needed.


def message(number: int) -> MessageFrame:
    return MessageFrame(number, 0, True, b"")


@pytest.fixture(scope="module", params=NAMES)
def late(request: pytest.FixtureRequest) -> Counterexample:
    """An abandoned copy arrives late, because no process refuses it."""
    config = CheckConfig(protocol=request.param, removals=1, lease=False)
    return Counterexample.from_result(check(config))


@pytest.fixture(scope="module", params=NAMES)
def suspected(request: pytest.FixtureRequest) -> Counterexample:
    """The permits of a live process are forgone."""
    config = CheckConfig(protocol=request.param, stops=1, false_suspicion=True)
    return Counterexample.from_result(check(config))


@pytest.mark.long
def test_without_the_lease_a_late_copy_violates_causal_order(late: Counterexample) -> None:
    assert late.property == "causal"
    assert [line[5:].partition(" (")[0] for line in late.lines()] == [
        "process 0 sends to [1]",
        "process 0 removes process 1",
        "process 0 sends to [2]",
        f"{message(2)} from 0 to 2 arrives",
        "process 2 sends to [1]",
        f"{message(1)} from 2 to 1 arrives",
        f"{message(1)} from 0 to 1 arrives",
    ]
    (violation,) = replay(late).verdict().violations
    assert violation.property.value == "causal"
    assert [str(each) for each in violation.chain] == ["0:1", "0:2", "2:1"]


@pytest.mark.long
def test_forgoing_the_permits_of_a_live_process_violates_causal_order(
    suspected: Counterexample,
) -> None:
    assert suspected.property == "causal"
    lines = [line[5:] for line in suspected.lines()]
    assert lines[-3:] == [
        "process 0 is declared stopped",
        "process 2 forgoes the permits of process 0",
        f"{message(1)} from 2 to 1 arrives",
    ]
    (violation,) = replay(suspected).verdict().violations
    assert violation.property.value == "causal"
    assert [str(each) for each in violation.chain] == ["0:1", "0:2", "2:1"]


@pytest.mark.long
def test_permits_must_not_be_forgone_before_the_lease_has_ended() -> None:
    result = check(CheckConfig(protocol="hybrid", stops=1, lease=False))
    assert result.violation is not None
    assert result.violation.property == "causal"
    cluster = replay(Counterexample.from_result(result))
    violations = cluster.verdict(complete=False).violations
    assert {each.property.value for each in violations} == {"causal"}


@pytest.mark.long
def test_counterexample_survives_its_file(late: Counterexample, tmp_path: Path) -> None:
    path = tmp_path / "counterexample.json"
    path.write_text(late.to_json(), encoding="utf-8")
    assert Counterexample.load(path) == late


def test_removal_without_a_valid_peer_is_refused() -> None:
    steps = ({"do": "abandon", "process": 0}, {"do": "forgo", "process": 0, "peer": "1"})
    for step in steps:
        counterexample = Counterexample(
            protocol="hybrid",
            processes=3,
            reliable=True,
            property="causal",
            steps=(step,),
        )
        with pytest.raises(ConfigError, match="step 1 is not possible"):
            replay(counterexample)


# The oracle, on random walks.


def walk(space: StateSpace, random: Random) -> tuple[str, list[Action]]:
    """Walk at random until an end, or a violation."""
    state = space.first
    path: list[Action] = []
    while successors := space.successors(state):
        chosen = random.choice(successors)
        path.append(chosen.action)
        if chosen.violated:
            return chosen.violated, path
        state = chosen.state
    return "", path


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("option", SEEDS)
@pytest.mark.parametrize("multicast", [False, True], ids=["unicast", "multicast"])
def test_oracle_agrees_on_walks(name: str, option: str, multicast: bool) -> None:
    config = CheckConfig(
        protocol=name,
        removals=2,
        stops=1,
        lease=option != "no lease",
        false_suspicion=option == "false suspicion",
        multicast=multicast,
        symmetry=False,
    )
    table, space = make_space(config)
    random = Random(name + SEEDS[option])
    done: set[int] = set()
    verdicts: set[str] = set()
    for _ in range(WALKS * (2 if option else 1)):
        violated, path = walk(space, random)
        done |= {action.kind for action in path}
        verdicts.add(violated)
        violation = Violation(property=violated, depth=len(path), schedule=tuple(path))
        result = SearchResult(violation=violation)
        counterexample = Counterexample.from_result(
            CheckResult.of(config, result, table, start=0.0, local_states=0)
        )
        verdict = replay(counterexample).verdict(complete=False)
        names = {each.property.value for each in verdict.violations}
        if not violated:
            assert names == set(), counterexample.lines()
        elif not config.false_suspicion:  # A message that was overtaken may be refused.
            assert violated in names, counterexample.lines()
    assert {ABANDON, STOP, FORGO} <= done
    assert (RESET in done) == config.lease
    assert verdicts <= {"", "causal"}
    # Random walks rarely violate causal order with unicast.
    assert ("causal" in verdicts) == bool(option) or not multicast


# Symmetry.


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lease", [True, False])
def test_canonical_states_are_those_of_the_reduced_search(name: str, lease: bool) -> None:
    stops = 1 if lease and name == "hybrid" else 0
    config = CheckConfig(protocol=name, messages=1, removals=1, stops=stops, lease=lease)
    table, reduced = make_space(config)
    choices = [[[1 << t for t in range(3) if t != index]] for index in range(3)]
    full = StateSpace(
        table,
        choices,
        fifo=False,
        losses=0,
        duplicates=0,
        symmetry=None,
        removal=RemovalLimits(removals=1, stops=stops, lease=lease, false_suspicion=False),
    )
    everything = reach(full)
    canonical = {reduced.canonical(state) for state in everything}
    assert canonical == reach(reduced)
    assert len(canonical) < len(everything) <= 6 * len(canonical)


# Mutants of the core, found by the checker; the tests of the core find more.

RECOVERY = "protocols/hybrid/recovery"
MUTANTS = {
    "a message after a reset has a predecessor that was abandoned": (
        Mutant("", RECOVERY, "        known.sent = 0\n        known.backlog = 0\n", ""),
        {"processes": 2, "messages": 2, "removals": 1, "losses": 1},
    ),
    "an abandoned copy is released after all": (
        Mutant("", RECOVERY, "copy.released = True  # It must never be released.", "pass"),
        {"messages": 1, "removals": 1, "multicast": True},
    ),
    "a stale ack counts as one of a message never sent": (
        Mutant("", RECOVERY, "known.acked = known.sent  # An", "# An"),
        {"processes": 2, "messages": 1, "removals": 1},
    ),
    "the peer does not reset its channel": (
        Mutant("", RECOVERY, "known.delivered = 0\n            known.held.clear()", "pass"),
        {"processes": 2, "messages": 2, "removals": 1},
    ),
}


@pytest.mark.long
@pytest.mark.own_build
@pytest.mark.parametrize("name", MUTANTS)
def test_checker_finds(name: str, tmp_path: Path) -> None:
    mutant, limits = MUTANTS[name]
    break_core(mutant, tmp_path)
    found = find(tmp_path, {"protocol": "hybrid", **limits})
    assert found, name


# The configuration.


def test_protocol_that_cannot_remove_a_peer_is_refused() -> None:
    with pytest.raises(ConfigError, match="buffer cannot remove a peer"):
        check(CheckConfig(protocol="buffer", removals=1))
    with pytest.raises(ConfigError, match="on FIFO channels"):
        check(CheckConfig(protocol="hybrid", removals=1), fifo=True)


def test_budget_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="removals must be from 0 to 200"):
        CheckConfig(protocol="hybrid", removals=-1)
    with pytest.raises(ConfigError, match="stops must be from 0 to 200"):
        CheckConfig(protocol="hybrid", stops=201)


def test_command_checks_removals(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "--processes", "2", "--messages", "1", "--max-removals", "1"]
    assert main([*words, "--max-stops", "1"]) == 0
    assert "verdict: held" in capsys.readouterr().out
