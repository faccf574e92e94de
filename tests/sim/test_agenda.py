"""The agenda, against a heap of (moment, when it was noted)."""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from random import Random
from sys import getrefcount

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core.process import NEVER
from antecede.sim.event_queue import (
    CROWDED,
    DAY_S,
    DAYS_JUDGED,
    TAKEN_MAX,
    Agenda,
    Happening,
)


class Checked:
    """An agenda and its model; whatever is taken must be what the model says."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.heap: list[tuple[float, int]] = []
        self.serial = 0
        self.now = 0.0

    def note(self, moment: float) -> None:
        self.serial += 1
        happening = Happening(0, 0, moment)
        happening.number = self.serial
        self.agenda.note(happening)
        heappush(self.heap, (moment, self.serial))

    def peek(self) -> None:
        assert self.agenda.next_moment() == (self.heap[0][0] if self.heap else NEVER)

    def take(self) -> None:
        if not self.heap:
            with pytest.raises(IndexError):
                self.agenda.take()
            return
        wanted = heappop(self.heap)
        taken = self.agenda.take()
        assert (taken.moment, taken.number) == wanted
        self.now = taken.moment

    def take_all(self) -> None:
        while self.heap:
            self.take()
        self.peek()
        self.take()


GAPS = st.one_of(
    st.sampled_from([0.0, DAY_S / 2, DAY_S, 1.0]),  # Often the same moment again.
    st.floats(0, 5 * DAY_S),
    st.floats(0, 1e6),
    st.sampled_from([1e-300, 1e12, 1e18, 1e300, inf]),
)
STEPS = st.one_of(
    GAPS.map(lambda gap: ("note", gap)),
    st.sampled_from([("take", 0.0), ("peek", 0.0)]),
)


@given(st.lists(STEPS, max_size=80))
def test_what_is_taken_is_what_a_heap_would_give(steps: list[tuple[str, float]]) -> None:
    checked = Checked()
    for step, gap in steps:
        if step == "note":
            checked.note(checked.now + gap)
        elif step == "take":
            checked.take()
        else:
            checked.peek()
    checked.take_all()


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 40))
def test_what_is_noted_for_one_moment_comes_in_the_order_of_noting(
    moments: list[int], turned: int
) -> None:
    """Also what joins a day that has begun."""
    checked = Checked()
    for place, moment in enumerate(moments):
        if place == turned:
            checked.peek()
        checked.note(moment * DAY_S / 8)  # All in one day.
    checked.take_all()


def churn(seed: int, events: int, gaps: Iterable[float]) -> Iterator[Checked]:
    """Keep some 400 happenings noted, at the given gaps; yield after each taken one."""
    random = Random(seed)
    later = iter(gaps)
    checked = Checked()
    for _ in range(400):
        checked.note(next(later))
    for _ in range(events):
        if random.random() < 0.1:
            checked.peek()
        checked.take()
        checked.note(checked.now + next(later))
        if random.random() < 0.1:
            checked.note(checked.now)  # At once, before all else that is not due now.
            checked.take()
        yield checked


def drawn(seed: int, mean: float) -> Iterator[float]:
    """Draw gaps of any kind: none, few different ones, any, and now and then a far one."""
    random = Random(seed)
    while True:
        yield random.choice(
            (
                0.0,
                mean,
                mean * random.randrange(4),
                random.expovariate(1 / mean),
                random.expovariate(1 / mean),
                mean * 10 ** random.uniform(-6, 4),
            )
        )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mean", [1e-9, 1e-4, 0.05, 30.0, 1e7])
def test_the_order_is_the_heaps_on_any_scale_of_time(seed: int, mean: float) -> None:
    for checked in churn(seed, 2500, drawn(seed, mean)):
        last = checked
    last.take_all()


def test_days_become_shorter_while_crowded_and_longer_while_lonely() -> None:
    """One agenda goes through a rush, a calm and a rush again, in order throughout."""
    random = Random(1)
    lengths: list[float] = []
    gaps = [
        random.uniform(0, 2 * mean)
        for mean, count in ((2e-5, 40_000), (50.0, 8000), (2e-5, 40_000))
        for _ in range(count)
    ]
    for checked in churn(1, len(gaps) - 400, gaps):
        if not lengths or checked.agenda.day_s != lengths[-1]:
            lengths.append(checked.agenda.day_s)
    checked.take_all()
    steps = [after / before for before, after in pairwise(lengths)]
    assert lengths[0] == DAY_S
    assert set(steps) == {8.0, 1 / 8}
    turns = [before for before, after in pairwise(steps) if before != after]
    assert turns == [1 / 8, 8.0]  # Shorter, then longer, then shorter.
    assert min(lengths) < DAY_S < max(lengths)


def test_a_day_that_suits_its_crowd_keeps_its_length() -> None:
    random = Random(2)
    gaps = (random.uniform(0, 20 * DAY_S) for _ in range(30_000))  # Some 40 a day.
    assert {c.agenda.day_s for c in churn(2, 20_000, gaps)} == {DAY_S}


def test_days_do_not_shrink_without_end_when_everybody_acts_at_once() -> None:
    """A clock's tick cannot be parted; to go on trying would end on the last day."""
    checked = Checked()
    for tick in range(20 * DAYS_JUDGED):
        for _ in range(CROWDED + 1):
            checked.note(tick * 0.0625)
        for _ in range(CROWDED + 1):
            checked.take()
    assert checked.agenda.day_s == DAY_S


def test_days_do_not_shrink_without_end_when_ticks_are_a_rounding_apart() -> None:
    agenda = Agenda()
    lengths = set()
    for tick in range(1, 60 * DAYS_JUDGED):
        for wobble in (0.0, 1e-13):
            for _ in range(CROWDED):
                agenda.note(Happening(0, 0, tick * (0.1 + wobble)))
        for _ in range(2 * CROWDED):
            agenda.take()
        lengths.add(agenda.day_s)
    now = 60 * DAYS_JUDGED * 0.1
    assert max(lengths) == DAY_S > min(lengths) > now / 2**43


def test_days_become_longer_before_they_run_out_of_numbers() -> None:
    """A rush at the start makes days short; then the clock goes on for ages."""
    random = Random(3)
    checked = Checked()
    for _ in range(100_000):
        checked.note(random.uniform(0, 5 * DAY_S))
    checked.take_all()
    assert checked.agenda.day_s < DAY_S / 100
    for power in range(60):
        for _ in range(5):  # No day is lonely, or crowded.
            checked.note(random.uniform(1, 2) * 2.0**power)
        checked.take_all()
    assert checked.now / checked.agenda.day_s < 2**52


def test_what_was_taken_is_let_go_of_though_its_day_does_not_end() -> None:
    """Without delays everything happens at one moment, for as long as the run goes on."""
    agenda = Agenda()
    first = Happening(0, 0, 0.0)
    agenda.note(first)
    held = getrefcount(first)
    for _ in range(TAKEN_MAX):
        agenda.note(Happening(0, 0, 0.0))
        agenda.take()
    assert getrefcount(first) == held - 1
    agenda.take()
    assert agenda.next_moment() == NEVER


def test_what_is_far_off_waits_for_all_that_is_nearer() -> None:
    checked = Checked()
    for moment in (inf, 1e300, 5.0, 1e18, inf, 1e18, 0.0):
        checked.note(moment)
    for _ in range(5):
        checked.take()
    assert checked.now == 1e300
    checked.note(1e300)
    checked.take()
    checked.peek()
    checked.take_all()
    assert checked.now == inf


def test_an_agenda_that_was_empty_can_be_used_again() -> None:
    checked = Checked()
    for moment in (0.0, 3.0, 3.0, 3.0 + DAY_S / 4, 100.0):
        checked.take_all()
        checked.note(moment)
    checked.take_all()


def test_something_may_come_before_the_day_that_was_looked_at() -> None:
    """To look at the next moment is not to have come to it."""
    checked = Checked()
    checked.note(10.0)
    checked.peek()
    for moment in (5.0, 10.0, 0.25, 5.0, 20.0):
        checked.note(moment)
        checked.peek()
    checked.take_all()
