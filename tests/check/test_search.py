"""The search finds every state, in the same order every time."""

import os
import subprocess
import sys
from random import Random

import pytest

from antecede.check import CheckConfig, check
from antecede.check.checker import target_sets
from antecede.check.inputs import processes_in, send_input
from antecede.check.search import SearchResult, expand, search
from antecede.check.state_space import StateSpace
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import TransitionTable
from antecede.core.config import ProcessConfig
from antecede.core.process import Process, ProcessId
from antecede.core.registry import protocol

SCRIPT = """
from antecede.check import CheckConfig, check
for name, losses in (("hybrid", 1), ("buffer", 0), ("cykas", 1), ("fifo", 0)):
    processes = 2 if name == "cykas" else 3
    messages = 1 if losses else 2
    c = check(
        CheckConfig(
            protocol=name, processes=processes, messages=messages, losses=losses
        )
    )
    print(c.states, c.transitions, c.ends, c.depth, c.local_states)
    schedule = c.violation.schedule if c.violation else ()
    print([(a.kind, a.process, a.argument) for a in schedule])
"""


def make_unordered(index: int) -> Process:
    return protocol("unordered").make(ProcessId(index), ProcessConfig(reliable=True))


def tiny(messages: int, *, fifo: bool = False) -> StateSpace:
    """Two processes of ``unordered``."""
    choices = [[[1 << (1 - index)]] * messages for index in range(2)]
    return StateSpace(
        TransitionTable(make_unordered, 2),
        choices,
        fifo=fifo,
        losses=0,
        duplicates=0,
        symmetry=None,
    )


def test_tiny_protocol_has_the_states_that_can_be_counted_by_hand() -> None:
    """A message is unsent, in flight or delivered; two independent ones make 9 states."""
    result = SearchResult()
    search(tiny(1), result, lambda found: True)
    assert result.states == 9
    assert result.transitions == 12  # 2 moves of one, in each of 3 states of the other.
    assert result.ends == 1
    assert result.depth == 4
    assert result.exhausted
    assert result.violation is None


def test_fifo_channels_have_the_states_that_can_be_counted_by_hand() -> None:
    """Of two in order, 6 states: (sent, delivered) is 00, 10, 11, 20, 21 or 22."""
    result = SearchResult()
    search(tiny(2, fifo=True), result, lambda found: True)
    assert (result.states, result.depth, result.violation) == (36, 8, None)


def test_shortest_violation_is_found() -> None:
    result = SearchResult()
    search(tiny(2), result, lambda found: True)
    assert result.violation is not None
    assert result.violation.property == "fifo"
    assert result.violation.depth == len(result.violation.schedule) == 3


def test_search_stops_on_request() -> None:
    result = SearchResult()
    search(tiny(1), result, lambda found: False)
    assert not result.exhausted
    assert result.states < 9


def test_level_can_be_expanded_in_parts() -> None:
    space = tiny(2, fifo=True)
    level = [space.first]
    for _ in range(3):
        whole = expand(space, level)
        parts = [expand(space, [state]) for state in level]
        merged = dict.fromkeys(state for part in parts for state in part.found)
        assert list(merged) == list(whole.found)
        assert sum(part.transitions for part in parts) == whole.transitions
        level = list(whole.found)


@pytest.mark.long
@pytest.mark.parametrize(
    "config",
    [
        CheckConfig(protocol="hybrid", messages=1, losses=1),
        CheckConfig(protocol="cykas", messages=1, losses=1),
        CheckConfig(protocol="buffer"),
        CheckConfig(protocol="optimal", messages=1, multicast=True),
    ],
    ids=lambda config: f"{config.protocol}-{config.losses}",
)
def test_counts_do_not_depend_on_the_order_of_the_search(config: CheckConfig) -> None:
    """The order in which equal states are met makes no difference."""
    straight = check(config)
    info = protocol(config.protocol)
    process_config = ProcessConfig(processes=3, reliable=not config.losses)
    table = TransitionTable(
        lambda index: info.make(ProcessId(index), process_config),
        3,
        timers=config.losses > 0,
        ordered=False,
    )
    choices = [
        [target_sets(3, index, multicast=config.multicast)] * config.messages
        for index in range(3)
    ]
    space = StateSpace(
        table,
        choices,
        fifo=False,
        losses=config.losses,
        duplicates=0,
        symmetry=Symmetry(table),
    )
    random = Random(3)
    seen = {space.first}
    todo = [space.first]
    transitions = 0
    while todo:
        state = todo.pop(random.randrange(len(todo)))
        successors = space.successors(state)
        transitions += len(successors)
        for successor in successors:
            if successor.state not in seen:
                seen.add(successor.state)
                todo.append(successor.state)
    assert (len(seen), transitions) == (straight.states, straight.transitions)
    assert len(table.locals) == straight.local_states


@pytest.mark.long
def test_nothing_depends_on_the_hash_seed() -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    assert found[0].count("\n") == 8


def test_table_computes_each_step_once() -> None:
    table = TransitionTable(make_unordered, 3)
    first = table.step(table.start[0], send_input(0b110))
    assert table.step(table.start[0], send_input(0b110)) is first
    assert processes_in(0b110) == [1, 2]
    one, two = first.packets
    assert (table.packets[one].target, table.packets[two].target) == (1, 2)
    arrived = table.step(table.start[1], one)
    assert arrived.deliveries == [(0, 1)]
    assert arrived.local is table.start[1]  # The process keeps no record of deliveries.
    assert first.local.parent is table.start[0]
    assert first.local.sends == 1
    assert table.step(table.start[2], two).deliveries == [(0, 1)]


def test_equal_states_are_one_state() -> None:
    """Two messages of two sources arrive in either order."""
    table = TransitionTable(make_unordered, 3)
    (one,) = table.step(table.start[0], send_input(0b100)).packets
    (two,) = table.step(table.start[1], send_input(0b100)).packets
    start = table.start[2]
    here = table.step(table.step(start, one).local, two).local
    there = table.step(table.step(start, two).local, one).local
    assert here is there


def test_inspection_sees_every_local_state_once() -> None:
    shown = []
    result = check(
        CheckConfig(protocol="cykas", messages=1),
        inspect=lambda process: shown.append(process),
    )
    assert len(shown) == result.local_states
