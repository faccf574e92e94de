"""Lockstep of ``bounded`` and the naive rules in schedules with removals.

:mod:`tests.core.test_bounded_naive` has the comparison, and
:mod:`tests.core.removal_lockstep` has the steps of a removal.
"""

import os
from collections import Counter
from math import inf
from random import Random

import pytest

from antecede.core.process import ProcessId
from tests.core.lockstep_runs import Shape, Step
from tests.core.naive_bounded_records import Entry, Listing
from tests.core.naive_bounded_removal import NaiveRemoval
from tests.core.removal_lockstep import REMOVAL_ACTIONS, RemovalRules
from tests.core.test_bounded_naive import BUDGETS, FIRST_IDS, follow

SCHEDULES = 10
SCHEDULES_SLOW = SCHEDULES if "ANTECEDE_MUTANT" in os.environ else 200
"""For each shape and budget."""
SHAPES = [
    Shape(name="unicast", processes=5, steps=120, targets_max=1, to_itself=False),
    Shape(name="multicast", processes=5, steps=90, targets_max=3),
    Shape(name="unicast-faults", processes=6, steps=140, targets_max=1, faults=1),
    Shape(name="multicast-faults", processes=5, steps=110, targets_max=3, faults=1),
]
MULTICAST_FAULTS = SHAPES[3]
HOLD_S = (inf, 2.0)
REMOVALS_MAX = 12
"""The most steps of removals in a schedule, without those that follow at its end."""
WEIGHTS = [4, 4, 3, 1, 1, 4]


def draw(shape: Shape, seed: int) -> list[Step]:
    """Draw a schedule, and insert steps of removals."""
    schedule = shape.draw(seed)
    random = Random(f"removal {seed}")
    for action in random.choices(
        REMOVAL_ACTIONS, WEIGHTS, k=random.randint(3, REMOVALS_MAX)
    ):
        index = random.randrange(len(schedule) // 4, len(schedule) + 1)
        schedule.insert(index, Step(action, random.randrange(1000)))
    return schedule


def run(
    budget: int, shape: Shape, seed: int, naive: type[NaiveRemoval] = NaiveRemoval
) -> Counter[str]:
    """Run a schedule in lockstep, then until idle, and count frames and removals."""
    first_id = FIRST_IDS[seed % 2]
    slow = first_id if seed % 3 == 0 else -1
    hold_s = HOLD_S[seed // 2 % 2]
    schedule = draw(shape, seed)
    has_ends = any(step.action in ("stop", "leave") for step in schedule)
    rules = RemovalRules(
        *(shape.processes, budget, naive, first_id, slow),
        hold_s=hold_s,
        is_named=has_ends or seed % 5 < 2,
    )
    follow(rules, schedule, seed, f"budget {budget}, shape {shape}")
    return rules.kinds + Counter(rules.done)


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_step_of_a_removal_follows_the_naive_rules(budget: int, shape: Shape) -> None:
    for seed in range(SCHEDULES):
        run(budget, shape, seed)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_step_of_many_removals_follows_the_naive_rules(
    budget: int, shape: Shape
) -> None:
    for seed in range(SCHEDULES, SCHEDULES + SCHEDULES_SLOW):
        run(budget, shape, seed)


def test_the_schedules_have_every_step_of_a_removal() -> None:
    counts: Counter[str] = Counter()
    for seed in range(3 * SCHEDULES):
        counts += run(8, MULTICAST_FAULTS, seed)
    for action in REMOVAL_ACTIONS:
        assert counts[action] > 0, action
    for kind in ("own", "inherited", "wildcard", "opaque", "Settled", "Query"):
        assert counts[kind] > SCHEDULES, kind


# Broken rules.


class ForgetsWhatWasDeliveredBeforeAReset(NaiveRemoval):
    def reset_channel(self, peer: ProcessId, now: float) -> None:
        super().reset_channel(peer, now)
        self.floors.clear()


class DeliversHeldCopiesOfSilentSenders(NaiveRemoval):
    def is_silent(self, source: int) -> bool:
        return False


class CountsEntriesOfReportersThatAreGone(NaiveRemoval):
    def counted(self, listing: Listing) -> Listing:
        return listing


class SettlesEntriesOfReportersThatAreGone(NaiveRemoval):
    def end(self, peer: ProcessId, now: float) -> None:
        for kept in self.entries:
            if kept.reporters[0] == peer:
                self.learn(kept.entry)
        super().end(peer, now)


class SettlesNoCopiesOfProcessesThatAreGone(NaiveRemoval):
    def is_settled(self, entry: Entry) -> bool:
        gone, self.gone = self.gone, set()
        found = super().is_settled(entry)
        self.gone = gone
        return found


class KeepsThePredecessorOfAnAbandonedChannel(NaiveRemoval):
    def abandon(self, peer: ProcessId, now: float) -> None:
        super().abandon(peer, now)
        for copy in self.copies:
            copy.is_in_channel = True


BROKEN = [
    ForgetsWhatWasDeliveredBeforeAReset,
    DeliversHeldCopiesOfSilentSenders,
    CountsEntriesOfReportersThatAreGone,
    SettlesEntriesOfReportersThatAreGone,
    SettlesNoCopiesOfProcessesThatAreGone,
    KeepsThePredecessorOfAnAbandonedChannel,
]


def differs(seed: int, broken: type[NaiveRemoval]) -> bool:
    """Return whether a broken rule differs from ``bounded`` on a schedule."""
    try:
        run(8, MULTICAST_FAULTS, seed, broken)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_lockstep_detects_a_broken_rule(broken: type[NaiveRemoval]) -> None:
    assert any(differs(seed, broken) for seed in range(30 * SCHEDULES))
