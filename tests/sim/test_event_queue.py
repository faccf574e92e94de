"""The event queue, compared with a heap of (time, order of pushes)."""

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
    BUCKETS_AVERAGED,
    COMPACT_AFTER,
    EVENTS_MAX,
    INITIAL_WIDTH_S,
    EventQueue,
    ScheduledEvent,
)


class CheckedQueue:
    """An event queue and a heap, which must pop the same events."""

    def __init__(self) -> None:
        self.queue = EventQueue()
        self.heap: list[tuple[float, int]] = []
        self.serial = 0
        self.now = 0.0

    def push(self, time: float) -> None:
        self.serial += 1
        event = ScheduledEvent(0, 0, time)
        event.number = self.serial
        self.queue.push(event)
        heappush(self.heap, (time, self.serial))

    def peek(self) -> None:
        assert self.queue.next_time() == (self.heap[0][0] if self.heap else NEVER)

    def pop(self) -> None:
        if not self.heap:
            with pytest.raises(IndexError):
                self.queue.pop()
            return
        wanted = heappop(self.heap)
        event = self.queue.pop()
        assert (event.time, event.number) == wanted
        self.now = event.time

    def pop_all(self) -> None:
        while self.heap:
            self.pop()
        self.peek()
        self.pop()


GAPS = st.one_of(
    st.sampled_from(
        [0.0, INITIAL_WIDTH_S / 2, INITIAL_WIDTH_S, 1.0]
    ),  # Often the same time again.
    st.floats(0, 5 * INITIAL_WIDTH_S),
    st.floats(0, 1e6),
    st.sampled_from([1e-300, 1e12, 1e18, 1e300, inf]),
)
STEPS = st.one_of(
    GAPS.map(lambda gap: ("push", gap)),
    st.sampled_from([("pop", 0.0), ("peek", 0.0)]),
)


@given(st.lists(STEPS, max_size=80))
def test_events_are_popped_in_the_order_of_a_heap(steps: list[tuple[str, float]]) -> None:
    checked = CheckedQueue()
    for step, gap in steps:
        if step == "push":
            checked.push(checked.now + gap)
        elif step == "pop":
            checked.pop()
        else:
            checked.peek()
    checked.pop_all()


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(0, 40))
def test_events_of_one_time_are_popped_in_the_order_of_pushes(
    times: list[int], peeked_at: int
) -> None:
    """Also events pushed into the current bucket."""
    checked = CheckedQueue()
    for index, time in enumerate(times):
        if index == peeked_at:
            checked.peek()
        checked.push(time * INITIAL_WIDTH_S / 8)  # All in one bucket.
    checked.pop_all()


def churn(seed: int, events: int, gaps: Iterable[float]) -> Iterator[CheckedQueue]:
    """Keep some 400 happenings noted, at the given gaps; yield after each event one."""
    random = Random(seed)
    later = iter(gaps)
    checked = CheckedQueue()
    for _ in range(400):
        checked.push(next(later))
    for _ in range(events):
        if random.random() < 0.1:
            checked.peek()
        checked.pop()
        checked.push(checked.now + next(later))
        if random.random() < 0.1:
            checked.push(checked.now)  # Before all events that are not due now.
            checked.pop()
        yield checked


def random_gaps(seed: int, mean: float) -> Iterator[float]:
    """Draw gaps of several kinds: zero, multiples, random, and very long ones."""
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
def test_order_is_that_of_a_heap_on_every_time_scale(seed: int, mean: float) -> None:
    for checked in churn(seed, 2500, random_gaps(seed, mean)):
        last = checked
    last.pop_all()


@pytest.mark.long
def test_buckets_narrow_when_full_and_widen_when_sparse() -> None:
    """Many events, few events, and many events again."""
    random = Random(1)
    widths: list[float] = []
    gaps = [
        random.uniform(0, 2 * mean)
        for mean, count in ((2e-5, 40_000), (50.0, 8000), (2e-5, 40_000))
        for _ in range(count)
    ]
    for checked in churn(1, len(gaps) - 400, gaps):
        if not widths or checked.queue.bucket_width_s != widths[-1]:
            widths.append(checked.queue.bucket_width_s)
    checked.pop_all()
    steps = [after / before for before, after in pairwise(widths)]
    assert widths[0] == INITIAL_WIDTH_S
    assert set(steps) == {8.0, 1 / 8}
    turns = [before for before, after in pairwise(steps) if before != after]
    assert turns == [1 / 8, 8.0]  # Narrower, then wider, then narrower.
    assert min(widths) < INITIAL_WIDTH_S < max(widths)


def test_buckets_of_a_suitable_width_keep_it() -> None:
    random = Random(2)
    gaps = (
        random.uniform(0, 100 * INITIAL_WIDTH_S) for _ in range(30_000)
    )  # About 8 per bucket.
    assert {c.queue.bucket_width_s for c in churn(2, 20_000, gaps)} == {INITIAL_WIDTH_S}


@pytest.mark.long
def test_buckets_do_not_narrow_for_events_of_the_same_time() -> None:
    """Narrower buckets cannot separate events of the same time."""
    checked = CheckedQueue()
    for tick in range(20 * BUCKETS_AVERAGED):
        for _ in range(EVENTS_MAX + 1):
            checked.push(tick * INITIAL_WIDTH_S)
        for _ in range(EVENTS_MAX + 1):
            checked.pop()
    assert checked.queue.bucket_width_s == INITIAL_WIDTH_S


@pytest.mark.long
def test_buckets_do_not_narrow_without_end_for_times_a_rounding_apart() -> None:
    queue = EventQueue()
    widths = set()
    for tick in range(1, 60 * BUCKETS_AVERAGED):
        for error in (0.0, 1e-15):
            for _ in range(EVENTS_MAX):
                queue.push(ScheduledEvent(0, 0, tick * (INITIAL_WIDTH_S + error)))
        for _ in range(2 * EVENTS_MAX):
            queue.pop()
        widths.add(queue.bucket_width_s)
    now = 60 * BUCKETS_AVERAGED * INITIAL_WIDTH_S
    assert max(widths) == INITIAL_WIDTH_S > min(widths) > now / 2**43


@pytest.mark.long
def test_buckets_widen_before_their_index_overflows() -> None:
    """Many events at the start narrow the buckets; then times grow exponentially."""
    random = Random(3)
    checked = CheckedQueue()
    for _ in range(100_000):
        checked.push(random.uniform(0, 5 * INITIAL_WIDTH_S))
    checked.pop_all()
    assert checked.queue.bucket_width_s < INITIAL_WIDTH_S / 100
    for power in range(60):
        for _ in range(5):  # No bucket is sparse, or full.
            checked.push(random.uniform(1, 2) * 2.0**power)
        checked.pop_all()
    assert checked.now / checked.queue.bucket_width_s < 2**52


@pytest.mark.long
def test_popped_events_are_released_before_their_bucket_ends() -> None:
    """Without delays, all events of a run have the same time."""
    queue = EventQueue()
    first = ScheduledEvent(0, 0, 0.0)
    queue.push(first)
    references = getrefcount(first)
    for _ in range(COMPACT_AFTER):
        queue.push(ScheduledEvent(0, 0, 0.0))
        queue.pop()
    assert getrefcount(first) == references - 1
    queue.pop()
    assert queue.next_time() == NEVER


def test_very_late_events_are_popped_last() -> None:
    checked = CheckedQueue()
    for time in (inf, 1e300, 5.0, 1e18, inf, 1e18, 0.0):
        checked.push(time)
    for _ in range(5):
        checked.pop()
    assert checked.now == 1e300
    checked.push(1e300)
    checked.pop()
    checked.peek()
    checked.pop_all()
    assert checked.now == inf


def test_an_empty_queue_can_be_used_again() -> None:
    checked = CheckedQueue()
    for time in (0.0, 3.0, 3.0, 3.0 + INITIAL_WIDTH_S / 4, 100.0):
        checked.pop_all()
        checked.push(time)
    checked.pop_all()


def test_an_event_may_be_pushed_before_the_peeked_one() -> None:
    """next_time does not advance the queue."""
    checked = CheckedQueue()
    checked.push(10.0)
    checked.peek()
    for time in (5.0, 10.0, 0.25, 5.0, 20.0):
        checked.push(time)
        checked.peek()
    checked.pop_all()
