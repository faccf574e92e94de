"""The bookkeeping of global states: every walk through a space gets the oracle's verdict.

A walk is one schedule, from the beginning to a violation or to an end. What the space
says of it is compared with what the oracle says when it is played on a cluster.
"""

from random import Random

import pytest

from antecede.check import Bound, Checked, tell
from antecede.check.checker import options
from antecede.check.search import Violation
from antecede.check.state_space import ARRIVE, DUPLICATE, FIRE, LOSE, SEND, Action, Space
from antecede.check.transitions import Model
from antecede.core.config import Setting
from antecede.core.process import Process, ProcessId
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.testing import replay
from tests.check.variants import LISTINGS, SECRET_MODE, Make, cykas
from tests.core.cykas_variants import Change

WALKS = 40


def walk(space: Space, random: Random) -> tuple[str, list[Action], bool]:
    """Go any way to an end; return what is broken, the way, and whether it is live."""
    state = space.first
    way: list[Action] = []
    while True:
        successors = space.successors(state)
        if not successors:
            assert space.is_over(state)
            return "", way, space.is_delivered(state)
        assert not space.is_over(state)
        chosen = random.choice(successors)
        way.append(chosen.action)
        if chosen.broken:
            return chosen.broken, way, True
        state = chosen.state


def compare(bound: Bound, make: Make | None, fifo: bool | None = None) -> set[str]:
    """Walk at random, compare each verdict with the oracle's, and return all verdicts."""
    faults = bound.losses > 0 or bound.duplicates > 0
    if make is not None:
        made = make
    else:
        info = protocol(bound.protocol)
        fifo = not faults and not info.capabilities.reordering
        setting = Setting(processes=bound.processes, reliable=not faults)

        def made(place: int) -> Process:
            return info.make(ProcessId(place), setting)

    model = Model(made, bound.processes, timers=faults)
    choices = [
        [options(bound.processes, place, multicast=bound.multicast)] * bound.messages
        for place in range(bound.processes)
    ]
    space = Space(
        model,
        choices,
        fifo=bool(fifo),
        losses=bound.losses,
        duplicates=bound.duplicates,
        symmetry=None,
    )
    random = Random(1)
    seen = set()
    for _ in range(WALKS):
        broken, way, live = walk(space, random)
        seen.add(broken or ("" if live else "live"))
        violation = Violation(
            property=broken or "live", depth=len(way), schedule=tuple(way)
        )
        story = tell(_checked(bound, violation, model))
        cluster = replay(story, None if make is None else lambda place: made(place))
        verdict = cluster.verdict()
        names = {each.property.value for each in verdict.violations}
        assert verdict.held == (not broken and live), (story.lines(), names)
        if broken in ("once", "genuine"):
            assert broken in names
        elif broken:  # What is overtaken may be lost for good: then it is not live.
            assert names & {broken, "live"}
    return seen


def _checked(bound: Bound, violation: Violation, model: Model) -> Checked:
    return Checked(
        bound=bound,
        states=0,
        transitions=0,
        ends=0,
        depth=0,
        local_states=0,
        exhausted=False,
        seconds=0.0,
        violation=violation,
        model=model,
    )


@pytest.mark.parametrize(
    "name", ["hybrid", "hybrid-basic", "buffer", "buffer-fifo", "cykas", "matrix", "tree"]
)
def test_oracle_agrees_that_a_walk_is_good(name: str) -> None:
    assert compare(Bound(protocol=name), None) == {""}


@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic", "matrix", "optimal"])
def test_oracle_agrees_on_multicast(name: str) -> None:
    assert compare(Bound(protocol=name, multicast=True), None) == {""}


@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic", "buffer", "buffer-fifo"])
def test_oracle_agrees_under_faults(name: str) -> None:
    assert compare(Bound(protocol=name, losses=2, duplicates=2), None) == {""}


@pytest.mark.parametrize("name", ["fifo", "unordered"])
@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize("faults", [0, 1])
def test_oracle_agrees_that_a_baseline_is_broken(
    name: str, multicast: bool, faults: int
) -> None:
    bound = Bound(
        protocol=name,
        messages=3 if not multicast else 2,
        multicast=multicast,
        losses=faults,
        duplicates=faults,
    )
    seen = compare(bound, None)
    assert "causal" in seen or "fifo" in seen


@pytest.mark.parametrize(
    "make",
    [SECRET_MODE, cykas(Change.NO_SECRET_MODE), cykas(Change.PIPELINE), *LISTINGS.values()],
)
def test_oracle_agrees_on_broken_variants(make: Make) -> None:
    compare(Bound(protocol="hybrid"), make)


def test_unreliable_network_breaks_what_assumes_a_reliable_one() -> None:
    """Without the link layer, a duplicate is delivered again and a loss is for good."""
    info = protocol("unordered")
    setting = Setting(processes=2, reliable=True)
    bound = Bound(protocol="unordered", processes=2, messages=1, losses=1, duplicates=1)
    seen = compare(bound, lambda place: info.make(ProcessId(place), setting))
    assert seen == {"", "once", "live"}


def test_too_many_copies_are_refused() -> None:
    info = protocol("unordered")
    model = Model(lambda place: info.make(ProcessId(place), Setting(reliable=True)), 5)
    choices = [[options(5, place, multicast=False)] * 2 for place in range(5)]
    with pytest.raises(ConfigError, match="40 copies"):
        Space(model, choices, fifo=False, losses=0, duplicates=0, symmetry=None)


def test_every_kind_of_action_is_there() -> None:
    info = protocol("hybrid")
    model = Model(lambda place: info.make(ProcessId(place), Setting()), 2, timers=True)
    choices = [[options(2, place, multicast=False)] for place in range(2)]
    space = Space(model, choices, fifo=False, losses=1, duplicates=1, symmetry=None)
    kinds = set()
    random = Random(2)
    for _ in range(50):
        kinds |= {action.kind for action in walk(space, random)[1]}
    assert kinds == {SEND, ARRIVE, LOSE, DUPLICATE, FIRE}
