"""Letting go of a peer, in every schedule; and what it takes (docs/removal.md)."""

from pathlib import Path
from random import Random

import pytest

from antecede.check import Bound, Story, check, load_story, tell
from antecede.check.checker import Checked, make_space
from antecede.check.removal import ABANDON, RENEW, STOP, WAIVE, RemovalSpace
from antecede.check.search import Result, Violation, search
from antecede.check.state_space import Action, Space
from antecede.check.transitions import Model
from antecede.cli.main import main
from antecede.core.config import Setting
from antecede.core.process import ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.testing import replay
from tests.check.mutant_hunt import break_core, find
from tests.check.programs import Program
from tests.mutation.mutants import Mutant

NAMES = ("hybrid", "hybrid-basic")
WALKS = 60

OVERTAKING: Program = [[[1], [2]], [[2], []], [[1], []]]
"""What process 0 sends to 1, the message by way of 2 must not overtake."""
MULTICAST: Program = [[[1, 2], [2]], [[], []], [[1], []]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "limits",
    [
        {"processes": 2, "messages": 2, "abandons": 1},
        {"processes": 2, "messages": 2, "abandons": 2},
        {"messages": 1, "abandons": 2},
        {"messages": 1, "stops": 1},
        {"messages": 1, "stops": 1, "abandons": 1},
        # With losses timers fire, and so nothing may be undelivered in the end.
        {"messages": 1, "abandons": 1, "losses": 1},
        {"messages": 1, "stops": 1, "losses": 1},
        {"processes": 2, "messages": 2, "abandons": 1, "losses": 1},
    ],
    ids=str,
)
def test_causal_order_holds_among_what_is_delivered(
    name: str, limits: dict[str, int]
) -> None:
    checked = check(Bound(protocol=name, **limits))  # type: ignore[arg-type]
    assert checked.exhausted
    assert checked.violation is None


def search_removals(name: str, program: Program, **limits: int) -> Result:
    """Look at every schedule of a program in which processes let go of each other."""
    info = protocol(name)
    setting = Setting(processes=len(program), reliable=True)
    lease = limits.get("lease", 1) == 1
    model = Model(
        lambda place: info.make(ProcessId(place), setting),
        len(program),
        ordered=False,
        refusals=not lease,
    )
    options = [
        [[sum(1 << t for t in targets)] if targets else [] for targets in own]
        for own in program
    ]
    space = RemovalSpace(
        model,
        options,
        abandons=limits.get("abandons", 0),
        stops=limits.get("stops", 0),
        lease=lease,
        mistaken=False,
        losses=0,
        duplicates=0,
        symmetry=None,
    )
    result = Result()
    search(space, result, lambda found: found.states <= 500_000)
    return result


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "program", [OVERTAKING, MULTICAST], ids=["overtaking", "multicast"]
)
@pytest.mark.parametrize("change", ["abandons", "stops"])
def test_causal_order_holds_in_a_program_where_it_is_at_stake(
    name: str, program: Program, change: str
) -> None:
    result = search_removals(name, program, **{change: 1})
    assert result.exhausted
    assert result.violation is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["abandons", "stops"])
def test_program_breaks_without_the_lease(name: str, change: str) -> None:
    result = search_removals(name, OVERTAKING, **{change: 1, "lease": 0})
    assert result.violation is not None
    assert result.violation.property == "causal"


# Why the rules are what they are.


@pytest.fixture(scope="module", params=NAMES)
def late(request: pytest.FixtureRequest) -> Story:
    """What was abandoned comes late, since nobody refuses it."""
    return tell(check(Bound(protocol=request.param, abandons=1, lease=False)))


@pytest.fixture(scope="module", params=NAMES)
def mistaken(request: pytest.FixtureRequest) -> Story:
    """The permits of one that lives are waived."""
    return tell(check(Bound(protocol=request.param, stops=1, mistaken=True)))


def test_without_the_lease_a_late_copy_breaks_causal_order(late: Story) -> None:
    assert late.property == "causal"
    assert [line[5:].partition(" (")[0] for line in late.lines()] == [
        "process 0 sends to [1]",
        "process 0 lets go of process 1",
        "process 0 sends to [2]",
        "Message(2 after 0 permitted, 0 B) from 0 to 2 arrives",
        "process 2 sends to [1]",
        "Message(1 after 0 permitted, 0 B) from 2 to 1 arrives",
        "Message(1 after 0 permitted, 0 B) from 0 to 1 arrives",
    ]
    (violation,) = replay(late).verdict().violations
    assert violation.property.value == "causal"
    assert [str(each) for each in violation.chain] == ["0:1", "0:2", "2:1"]


def test_waiving_the_permits_of_the_living_breaks_causal_order(mistaken: Story) -> None:
    assert mistaken.property == "causal"
    lines = [line[5:] for line in mistaken.lines()]
    assert lines[-3:] == [
        "process 0 is said to have stopped",
        "process 2 waives the permits of process 0",
        "Message(1 after 0 permitted, 0 B) from 2 to 1 arrives",
    ]
    (violation,) = replay(mistaken).verdict().violations
    assert violation.property.value == "causal"
    assert [str(each) for each in violation.chain] == ["0:1", "0:2", "2:1"]


def test_who_stopped_must_not_be_waived_before_its_lease_is_over() -> None:
    checked = check(Bound(protocol="hybrid", stops=1, lease=False))
    assert checked.violation is not None
    assert checked.violation.property == "causal"
    violations = replay(tell(checked)).verdict(complete=False).violations
    assert {each.property.value for each in violations} == {"causal"}


def test_story_survives_its_file(late: Story, tmp_path: Path) -> None:
    path = tmp_path / "story.json"
    path.write_text(late.to_json(), encoding="utf-8")
    assert load_story(path) == late


def test_story_that_lets_go_of_nobody_is_refused(late: Story) -> None:
    steps = ({"do": "abandon", "process": 0}, {"do": "waive", "process": 0, "peer": "1"})
    for step in steps:
        story = Story(
            protocol="hybrid",
            processes=3,
            reliable=True,
            property="causal",
            steps=(step,),
        )
        with pytest.raises(ConfigError, match="step 1 is not possible"):
            replay(story)


# The oracle, on random walks.


def walk(space: Space, random: Random) -> tuple[str, list[Action]]:
    """Go at random until nothing is left, or a property is broken."""
    state = space.first
    way: list[Action] = []
    while successors := space.successors(state):
        chosen = random.choice(successors)
        way.append(chosen.action)
        if chosen.broken:
            return chosen.broken, way
        state = chosen.state
    return "", way


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("careless", ["", "no lease", "mistaken"])
@pytest.mark.parametrize("multicast", [False, True], ids=["unicast", "multicast"])
def test_oracle_agrees_on_walks(name: str, careless: str, multicast: bool) -> None:
    bound = Bound(
        protocol=name,
        abandons=2,
        stops=1,
        lease=careless != "no lease",
        mistaken=careless == "mistaken",
        multicast=multicast,
        reduce=False,
    )
    model, space = make_space(bound)
    random = Random(name + careless)
    done: set[int] = set()
    verdicts: set[str] = set()
    for _ in range(WALKS * (2 if careless else 1)):
        broken, way = walk(space, random)
        done |= {action.kind for action in way}
        verdicts.add(broken)
        violation = Violation(property=broken, depth=len(way), schedule=tuple(way))
        story = tell(told(bound, violation, model))
        verdict = replay(story).verdict(complete=False)
        names = {each.property.value for each in verdict.violations}
        if not broken:
            assert names == set(), story.lines()
        elif not bound.mistaken:  # What is overtaken then may be refused when it comes.
            assert broken in names, story.lines()
    assert {ABANDON, STOP, WAIVE} <= done
    assert (RENEW in done) == bound.lease
    assert verdicts <= {"", "causal"}
    # Unicast rarely goes wrong by chance.
    assert ("causal" in verdicts) == bool(careless) or not multicast


def told(bound: Bound, violation: Violation, model: Model) -> Checked:
    result = Result(violation=violation)
    return Checked.of(bound, result, model, start=0.0, local_states=0)


# Names do not count here, either.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lease", [True, False])
def test_least_states_are_those_of_the_reduced_search(name: str, lease: bool) -> None:
    stops = 1 if lease and name == "hybrid" else 0
    bound = Bound(protocol=name, messages=1, abandons=1, stops=stops, lease=lease)
    model, reduced = make_space(bound)
    choices = [[[1 << t for t in range(3) if t != place]] for place in range(3)]
    full = RemovalSpace(
        model,
        choices,
        abandons=1,
        stops=stops,
        lease=lease,
        mistaken=False,
        losses=0,
        duplicates=0,
        symmetry=None,
    )
    everything = reach(full)
    least = {reduced.least(state) for state in everything}
    assert least == reach(reduced)
    assert len(least) < len(everything) <= 6 * len(least)


def reach(space: Space) -> set[bytes]:
    """Return all states of a space."""
    seen = {space.first}
    todo = [space.first]
    while todo:
        for successor in space.successors(todo.pop()):
            if successor.state not in seen:
                seen.add(successor.state)
                todo.append(successor.state)
    return seen


# Mutants of the core, found by the checker; the tests of the core find more.

STATE = "protocols/hybrid/state"
MUTANTS = {
    "what is sent anew has a predecessor that was abandoned": (
        Mutant("", STATE, "        known.sent = 0\n        known.pending = 0\n", ""),
        {"processes": 2, "messages": 2, "abandons": 1, "losses": 1},
    ),
    "an abandoned copy is released after all": (
        Mutant("", STATE, "copy.released = True  # It never will be.", "pass"),
        {"messages": 1, "abandons": 1, "multicast": True},
    ),
    "a stale ack is taken for one of what was never sent": (
        Mutant("", STATE, "known.acked = known.sent  # An", "# An"),
        {"processes": 2, "messages": 1, "abandons": 1},
    ),
    "the one that was abandoned does not begin anew": (
        Mutant("", STATE, "known.delivered = 0\n            known.held.clear()", "pass"),
        {"processes": 2, "messages": 2, "abandons": 1},
    ),
}


@pytest.mark.own_build
@pytest.mark.parametrize("name", MUTANTS)
def test_checker_finds(name: str, tmp_path: Path) -> None:
    mutant, limits = MUTANTS[name]
    break_core(mutant, tmp_path)
    found = find(tmp_path, {"protocol": "hybrid", **limits})
    assert found, name


# The bound.


def test_protocol_that_cannot_let_go_is_refused() -> None:
    with pytest.raises(ConfigError, match="buffer cannot let go of a peer"):
        check(Bound(protocol="buffer", abandons=1))
    with pytest.raises(ConfigError, match="no order of frames"):
        check(Bound(protocol="hybrid", abandons=1), fifo=True)


def test_budget_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="abandon must be from 0 to 200"):
        Bound(protocol="hybrid", abandons=-1)
    with pytest.raises(ConfigError, match="stop must be from 0 to 200"):
        Bound(protocol="hybrid", stops=201)


def test_command_lets_processes_let_go(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "--processes", "2", "--messages", "1", "--abandon", "1"]
    assert main([*words, "--stop", "1"]) == 0
    assert "verdict: held" in capsys.readouterr().out
