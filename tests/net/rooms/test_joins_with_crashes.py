"""Joins in the middle of which the newcomer, its sponsor or another member stops."""

import pytest

from antecede import Limits, WhenSilent
from antecede.net.faults import Faults
from tests.net.rooms.whiteboard import Group

LIMITS = Limits(lease_s=2.0, keep_alive_s=0.5)
JOIN = {"when_silent": WhenSilent.remove(3.0), "timeout_s": 60.0}
MOMENTS_S = (0.03, 0.06, 0.09, 0.12, 0.15, 0.2, 0.3)
"""When a node stops, after the newcomer has started: a join takes about 0.3 s here."""


def room_of_three(seed: int) -> Group:
    """Return three members that have written, on a network with 10 ms delay and loss."""
    faults = Faults(delay_s=0.01, jitter_s=0.01, loss=0.05)
    group = Group(seed, faults)
    for name in "abc":
        seeds = "a" if name != "a" else ""
        group.start(name, *seeds, limits=LIMITS, join=JOIN)
        group.run(3)
        group.write(name, f"{name} is here")
    group.run(3)  # What a member that dies has sent is delivered everywhere.
    return group


def finish(group: Group, *names: str) -> None:
    """Check that all members that are left have the same texts, each once."""
    group.run(60)
    for name in names:
        assert group.boards[name].errors == []
        assert group.members(name) == sorted(names), name
        group.write(name, f"{name} at the end")
    group.run(3)
    texts = sorted(group.texts(names[0]))
    assert len(texts) == len(set(texts))
    for name in names:
        assert sorted(group.texts(name)) == texts, name
        assert f"{name} at the end" in texts
    group.check()


@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_a_newcomer_joins_through_another_member_if_its_sponsor_dies(
    moment_s: float,
) -> None:
    with room_of_three(seed=1) as group:
        group.start("x", "a", "b", limits=LIMITS, join=JOIN)
        group.run(moment_s)
        group.simulation.kill("a")
        group.write("b", "during the join")
        finish(group, "b", "c", "x")
        assert "during the join" in group.texts("x")


@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_a_newcomer_joins_although_another_member_dies(moment_s: float) -> None:
    with room_of_three(seed=2) as group:
        group.start("x", "a", "b", limits=LIMITS, join=JOIN)
        group.run(moment_s)
        group.simulation.kill("c")
        group.write("b", "during the join")
        finish(group, "a", "b", "x")
        assert "during the join" in group.texts("x")


@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_a_newcomer_that_restarts_in_the_middle_joins(moment_s: float) -> None:
    with room_of_three(seed=3) as group:
        group.start("x", "a", "b", limits=LIMITS, join=JOIN)
        group.run(moment_s)
        group.simulation.kill("x")
        group.write("b", "during the join")
        group.start("x", "b", "a", limits=LIMITS, join=JOIN)
        finish(group, "a", "b", "c", "x")
        assert "during the join" in group.texts("x")
