"""Which copies must be delivered while a process is silent, by the definition."""

from dataclasses import replace
from random import Random

import pytest

from antecede.check import CheckConfig, Counterexample, check
from antecede.check.actions import ARRIVE, DROP, FIRE, RETURN, SEND, SILENCE, Action
from antecede.check.checker import CheckResult, make_space, target_sets
from antecede.check.recovery import find_stuck
from antecede.check.search import SearchResult, Violation
from antecede.check.state_space import StateSpace
from antecede.check.transitions import TransitionTable
from antecede.testing import Cluster, replay
from antecede.trace import Kind
from tests.check.programs import follow
from tests.check.test_symmetry import reach
from tests.core.bounded_runs import left_over

WALKS = {"hybrid": 150, "bounded": 15, "optimal": 400}


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
    assert find_stuck(space, running, is_end=False) == ("", [])  # It is retransmitted.
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
    violated, steps = find_stuck(space, state, is_end=False)
    assert violated == "causal"
    assert [(each.kind, each.process) for each in steps] == [(FIRE, 2), (ARRIVE, 1)]


Copies = set[tuple[int, int, int]]


def copies_by_definition(cluster: Cluster, silent: set[int]) -> tuple[Copies, Copies]:
    """Return the undelivered copies between processes that are not silent.

    First those that must be delivered, then those that causal order excuses, both from the
    history by the definition.
    """
    before: dict[tuple[int, int], set[tuple[int, int]]] = {}
    past: list[set[tuple[int, int]]] = [set() for _ in cluster.processes]
    pending: Copies = set()
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
    among_others = {each for each in pending if not {each[0], each[2]} & silent}
    excused = {
        (source, number, target)
        for source, number, target in among_others
        if any(
            each[0] in silent and each[2] == target and each[:2] in before[source, number]
            for each in pending
        )
    }
    return among_others - excused, excused


@pytest.mark.long
@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("losses", [0, 2])
def test_the_definition_agrees_on_walks(name: str, losses: int) -> None:
    config = CheckConfig(
        protocol=name,
        multicast=True,
        losses=losses,
        silences=1,
        returns=1 if losses else 0,
        symmetry=False,
    )
    table, space = make_space(config)
    random = Random(name)
    required, excused, returned = 0, 0, False
    for _ in range(WALKS[name]):
        state = space.first
        path: list[Action] = []
        silent: set[int] = set()
        first = random.randrange(12)  # A process becomes silent at this step.
        for step in range(first + random.randrange(12)):
            successors = [
                each
                for each in space.successors(state)
                if (each.action.kind == SILENCE) == (step == first)
            ]
            if not successors:
                break
            chosen = random.choice(successors)
            path.append(chosen.action)
            state = chosen.state
            if chosen.action.kind == SILENCE:
                silent.add(chosen.action.process)
            elif chosen.action.kind == RETURN:
                silent.remove(chosen.action.process)
        cluster = replay(counterexample_of(config, table, path))
        found, not_found = copies_by_definition(cluster, silent)
        assert set(space.undelivered(state)) == found
        required += len(found)
        excused += len(not_found)
        if not silent:
            returned |= any(action.kind == RETURN for action in path)
            cluster.run_until_idle(random)
            assert cluster.verdict().held
            if name == "bounded":
                assert [left_over(process) for process in cluster.processes] == [[]] * 3
    assert required > 0
    assert excused > 0 or name == "bounded"
    assert returned == (losses > 0)


def counterexample_of(
    config: CheckConfig, table: TransitionTable, path: list[Action]
) -> Counterexample:
    """Return a path that ends anywhere as a counterexample, so that it can be replayed."""
    violation = Violation(property="liveness", depth=len(path), schedule=tuple(path))
    result = SearchResult(violation=violation)
    return Counterexample.from_result(
        CheckResult.of(config, result, table, start=0.0, local_states=0)
    )


# Symmetry.


@pytest.mark.parametrize("name", ["hybrid", "bounded", "matrix"])
def test_canonical_states_are_those_of_the_reduced_search(name: str) -> None:
    returns = 0 if name == "matrix" else 1  # It would need the link layer.
    config = CheckConfig(protocol=name, messages=1, silences=1, returns=returns)
    table, reduced = make_space(config)
    full = StateSpace(
        table,
        [[target_sets(3, index, multicast=False)] for index in range(3)],
        fifo=False,
        losses=0,
        duplicates=0,
        symmetry=None,
        silences=1,
        returns=returns,
    )
    everything = reach(full)
    canonical = {reduced.canonical(state) for state in everything}
    assert canonical == reach(reduced)
    assert len(canonical) < len(everything) <= 6 * len(canonical)


def test_reduced_and_full_search_find_the_same_violation() -> None:
    config = CheckConfig(protocol="hybrid", messages=1, multicast=True, silences=1)
    reduced = check(config).violation
    full = check(replace(config, symmetry=False)).violation
    assert reduced is not None
    assert full is not None
    assert reduced.depth == full.depth
    assert reduced.undelivered == full.undelivered
