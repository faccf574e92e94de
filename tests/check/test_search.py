"""The search finds every state, in the same order every time."""

import os
import subprocess
import sys
from random import Random

import pytest

from antecede.check import Bound, check
from antecede.check.checker import options
from antecede.check.search import Result, expand, search
from antecede.check.state_space import Space
from antecede.check.symmetry import Symmetry
from antecede.check.transitions import Model, members, send_input
from antecede.core.config import Setting
from antecede.core.process import Process, ProcessId
from antecede.core.registry import protocol

SCRIPT = """
from antecede.check import Bound, check
for name, losses in (("hybrid", 1), ("buffer", 0), ("cykas", 1), ("fifo", 0)):
    processes = 2 if name == "cykas" else 3
    messages = 1 if losses else 2
    bound = Bound(protocol=name, processes=processes, messages=messages, losses=losses)
    c = check(bound)
    print(c.states, c.transitions, c.ends, c.depth, c.local_states)
    print([(a.kind, a.place, a.what) for a in c.violation.schedule] if c.violation else "")
"""


def plain(place: int) -> Process:
    return protocol("unordered").make(ProcessId(place), Setting(reliable=True))


def tiny(messages: int, *, fifo: bool = False) -> Space:
    """Two processes that send at will, with no order at all, and no answers."""
    choices = [[[1 << (1 - place)]] * messages for place in range(2)]
    return Space(Model(plain, 2), choices, fifo=fifo, losses=0, duplicates=0, symmetry=None)


def test_tiny_protocol_has_the_states_that_can_be_counted_by_hand() -> None:
    """A message is unsent, in flight or delivered; two independent ones make 9 states."""
    result = Result()
    search(tiny(1), result, lambda found: True)
    assert result.states == 9
    assert result.transitions == 12  # 2 moves of one, in each of 3 states of the other.
    assert result.ends == 1
    assert result.depth == 4
    assert result.exhausted
    assert result.violation is None


def test_fifo_channels_have_the_states_that_can_be_counted_by_hand() -> None:
    """Of two in order, 6 states: (sent, delivered) is 00, 10, 11, 20, 21 or 22."""
    result = Result()
    search(tiny(2, fifo=True), result, lambda found: True)
    assert (result.states, result.depth, result.violation) == (36, 8, None)


def test_shortest_violation_is_found() -> None:
    result = Result()
    search(tiny(2), result, lambda found: True)
    assert result.violation is not None
    assert result.violation.property == "fifo"
    assert result.violation.depth == len(result.violation.schedule) == 3


def test_search_stops_when_told_to() -> None:
    result = Result()
    search(tiny(1), result, lambda found: False)
    assert not result.exhausted
    assert result.states < 9


def test_level_can_be_handed_out_in_pieces() -> None:
    space = tiny(2, fifo=True)
    level = [space.first]
    for _ in range(3):
        whole = expand(space, level)
        pieces = [expand(space, [state]) for state in level]
        merged = dict.fromkeys(state for piece in pieces for state in piece.found)
        assert list(merged) == list(whole.found)
        assert sum(piece.transitions for piece in pieces) == whole.transitions
        level = list(whole.found)


@pytest.mark.parametrize(
    "bound",
    [
        Bound(protocol="hybrid", messages=1, losses=1),
        Bound(protocol="cykas", messages=1, losses=1),
        Bound(protocol="buffer"),
        Bound(protocol="optimal", messages=1, multicast=True),
    ],
    ids=lambda bound: f"{bound.protocol}-{bound.losses}",
)
def test_counts_do_not_depend_on_the_order_of_the_search(bound: Bound) -> None:
    """Which of two equal states is met first makes no difference."""
    straight = check(bound)
    info = protocol(bound.protocol)
    setting = Setting(processes=3, reliable=not bound.losses)
    model = Model(
        lambda place: info.make(ProcessId(place), setting),
        3,
        timers=bound.losses > 0,
        ordered=False,
    )
    choices = [
        [options(3, place, multicast=bound.multicast)] * bound.messages
        for place in range(3)
    ]
    space = Space(
        model,
        choices,
        fifo=False,
        losses=bound.losses,
        duplicates=0,
        symmetry=Symmetry(model),
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
    assert len(model.locals) == straight.local_states


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


def test_model_computes_each_step_once() -> None:
    model = Model(plain, 3)
    first = model.step(model.start[0], send_input(0b110))
    assert model.step(model.start[0], send_input(0b110)) is first
    assert members(0b110) == [1, 2]
    one, two = first.packets
    assert (model.packets[one].target, model.packets[two].target) == (1, 2)
    arrived = model.step(model.start[1], one)
    assert arrived.deliveries == [(0, 1)]
    assert arrived.local is model.start[1]  # It keeps no record of what it delivers.
    assert first.local.parent is model.start[0]
    assert first.local.sends == 1
    assert model.step(model.start[2], two).deliveries == [(0, 1)]


def test_states_that_are_the_same_get_the_same_number() -> None:
    """Two messages of two sources: whichever arrives first, the state is the same."""
    model = Model(plain, 3)
    (one,) = model.step(model.start[0], send_input(0b100)).packets
    (two,) = model.step(model.start[1], send_input(0b100)).packets
    start = model.start[2]
    here = model.step(model.step(start, one).local, two).local
    there = model.step(model.step(start, two).local, one).local
    assert here is there


def test_inspection_sees_every_local_state_once() -> None:
    shown = []
    checked = check(
        Bound(protocol="cykas", messages=1), inspect=lambda process: shown.append(process)
    )
    assert len(shown) == checked.local_states
