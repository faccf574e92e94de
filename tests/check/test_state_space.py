"""The verdict of the state space on random walks, compared with the oracle's.

A walk is one schedule, from the initial state to a violation or to an end. It is replayed
on a cluster, and the oracle verifies the history."""

from random import Random

import pytest

from antecede.check import CheckConfig, CheckResult, Counterexample
from antecede.check.actions import ARRIVE, DROP, DUPLICATE, FIRE, SEND, Action
from antecede.check.checker import target_sets
from antecede.check.search import SearchResult, Violation
from antecede.check.state_space import StateSpace
from antecede.check.transitions import TransitionTable
from antecede.core.config import ProcessConfig
from antecede.core.process import Process, ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.testing import replay
from tests.check.variants import LISTINGS, SECRET_MODE, Make, cykas
from tests.core.cykas_variants import Change

WALKS = 40


def walk(space: StateSpace, random: Random) -> tuple[str, list[Action], bool]:
    """Return the violated property, the actions, and whether all is delivered."""
    state = space.first
    path: list[Action] = []
    while True:
        successors = space.successors(state)
        if not successors:
            assert space.is_over(state)
            return "", path, space.is_delivered(state)
        assert not space.is_over(state)
        chosen = random.choice(successors)
        path.append(chosen.action)
        if chosen.violated:
            return chosen.violated, path, True
        state = chosen.state


def compare(config: CheckConfig, make: Make | None, fifo: bool | None = None) -> set[str]:
    """Walk at random, compare each verdict with the oracle's, and return all verdicts."""
    faults = config.losses > 0 or config.duplicates > 0
    if make is not None:
        made = make
    else:
        info = protocol(config.protocol)
        fifo = not faults and not info.capabilities.reordering
        process_config = ProcessConfig(processes=config.processes, reliable=not faults)

        def made(index: int) -> Process:
            return info.make(ProcessId(index), process_config)

    table = TransitionTable(made, config.processes, timers=faults)
    choices = [
        [target_sets(config.processes, index, multicast=config.multicast)] * config.messages
        for index in range(config.processes)
    ]
    space = StateSpace(
        table,
        choices,
        fifo=bool(fifo),
        losses=config.losses,
        duplicates=config.duplicates,
        symmetry=None,
    )
    random = Random(1)
    seen = set()
    for _ in range(WALKS):
        violated, path, delivered = walk(space, random)
        seen.add(violated or ("" if delivered else "liveness"))
        violation = Violation(
            property=violated or "liveness", depth=len(path), schedule=tuple(path)
        )
        result = SearchResult(violation=violation)
        counterexample = Counterexample.from_result(
            CheckResult.of(config, result, table, start=0.0, local_states=0)
        )
        cluster = replay(
            counterexample, None if make is None else lambda index: made(index)
        )
        verdict = cluster.verdict()
        names = {each.property.value for each in verdict.violations}
        held = not violated and delivered
        assert verdict.held == held, (counterexample.lines(), names)
        if violated in ("no-duplication", "no-creation"):
            assert violated in names
        elif violated:  # A message that was overtaken may be refused for good.
            assert names & {violated, "liveness"}
    return seen


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["hybrid", "hybrid-basic", "buffer", "buffer-fifo", "cykas", "matrix", "tree"]
)
def test_oracle_agrees_that_a_walk_holds(name: str) -> None:
    assert compare(CheckConfig(protocol=name), None) == {""}


@pytest.mark.long
@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic", "matrix", "optimal"])
def test_oracle_agrees_on_multicast(name: str) -> None:
    assert compare(CheckConfig(protocol=name, multicast=True), None) == {""}


@pytest.mark.long
@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic", "buffer", "buffer-fifo"])
def test_oracle_agrees_under_faults(name: str) -> None:
    assert compare(CheckConfig(protocol=name, losses=2, duplicates=2), None) == {""}


@pytest.mark.long
@pytest.mark.parametrize("name", ["fifo", "unordered"])
@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize("faults", [0, 1])
def test_oracle_agrees_that_a_baseline_violates_order(
    name: str, multicast: bool, faults: int
) -> None:
    config = CheckConfig(
        protocol=name,
        messages=3 if not multicast else 2,
        multicast=multicast,
        losses=faults,
        duplicates=faults,
    )
    seen = compare(config, None)
    assert "causal" in seen or "fifo" in seen


@pytest.mark.long
@pytest.mark.parametrize(
    "make",
    [SECRET_MODE, cykas(Change.NO_SECRET_MODE), cykas(Change.PIPELINE), *LISTINGS.values()],
)
def test_oracle_agrees_on_broken_variants(make: Make) -> None:
    compare(CheckConfig(protocol="hybrid"), make)


def test_unreliable_network_breaks_a_process_that_assumes_a_reliable_one() -> None:
    """Without the link layer, a duplicate is delivered again and a loss is for good."""
    info = protocol("unordered")
    reliable = ProcessConfig(processes=2, reliable=True)
    config = CheckConfig(
        protocol="unordered", processes=2, messages=1, losses=1, duplicates=1
    )
    seen = compare(config, lambda index: info.make(ProcessId(index), reliable))
    assert seen == {"", "no-duplication", "liveness"}


def test_too_many_copies_are_refused() -> None:
    info = protocol("unordered")
    table = TransitionTable(
        lambda index: info.make(ProcessId(index), ProcessConfig(reliable=True)), 5
    )
    choices = [[target_sets(5, index, multicast=False)] * 2 for index in range(5)]
    with pytest.raises(ConfigError, match="copies of messages: 40, at most 32"):
        StateSpace(table, choices, fifo=False, losses=0, duplicates=0, symmetry=None)


def test_walks_take_every_kind_of_action() -> None:
    info = protocol("hybrid")
    table = TransitionTable(
        lambda index: info.make(ProcessId(index), ProcessConfig()), 2, timers=True
    )
    choices = [[target_sets(2, index, multicast=False)] for index in range(2)]
    space = StateSpace(table, choices, fifo=False, losses=1, duplicates=1, symmetry=None)
    kinds = set()
    random = Random(2)
    for _ in range(50):
        kinds |= {action.kind for action in walk(space, random)[1]}
    assert kinds == {SEND, ARRIVE, DROP, DUPLICATE, FIRE}
