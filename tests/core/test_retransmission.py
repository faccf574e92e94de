"""Timeouts by the arithmetic of RFC 6298, and the queue of timers."""

import tracemalloc
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

from antecede.core.link import ReliableLink
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.baseline import Baseline
from antecede.core.protocols.hybrid.hybrid import make_hybrid
from antecede.core.support.retransmission import (
    RetransmissionPolicy,
    RetransmissionTimer,
    SharedRttEstimate,
    TimerQueue,
)
from antecede.errors import ConfigError


def timer_with(*round_trips: float, policy: RetransmissionPolicy) -> RetransmissionTimer:
    timer = RetransmissionTimer(SharedRttEstimate(policy), 1)
    for round_trip in round_trips:
        timer.sample(round_trip)
    timer.restart(0.0)
    return timer


WIDE = RetransmissionPolicy(minimum_s=1e-6, initial_s=1.0, maximum_s=1e6)
"""Limits that no test reaches."""


@pytest.mark.parametrize(
    ("minimum_s", "initial_s", "maximum_s"),
    [
        (0.0, 1.0, 60.0),
        (-1.0, 1.0, 60.0),
        (2.0, 1.0, 60.0),
        (0.01, 61.0, 60.0),
        (0.01, 1.0, 0.5),
        (0.01, 1.0, inf),
        (inf, inf, inf),
        (nan, 1.0, 60.0),
        (0.01, nan, 60.0),
        (0.01, 1.0, nan),
    ],
)
def test_a_policy_without_ordered_finite_limits_is_refused(
    minimum_s: float, initial_s: float, maximum_s: float
) -> None:
    with pytest.raises(ConfigError):
        RetransmissionPolicy(minimum_s=minimum_s, initial_s=initial_s, maximum_s=maximum_s)


def test_a_policy_may_have_all_limits_equal() -> None:
    policy = RetransmissionPolicy(minimum_s=0.5, initial_s=0.5, maximum_s=0.5)
    timer = timer_with(7.0, policy=policy)
    timer.expire(0.5)
    assert timer.timeout_s == 0.5


def test_the_default_first_time_out_is_a_second() -> None:
    timer = RetransmissionTimer(SharedRttEstimate(RetransmissionPolicy()), 4)
    assert (timer.owner, timer.deadline, timer.timeout_s) == (4, inf, 1.0)
    timer.restart(10.0)
    assert (timer.deadline, timer.timeout_s) == (11.0, 1.0)


def test_the_first_time_out_is_three_times_the_first_sample() -> None:
    # Mean R and deviation R / 2, so R + 4 · R / 2 (RFC 6298, 2.2).
    assert timer_with(0.5, policy=WIDE).timeout_s == 1.5
    assert timer_with(0.5, policy=WIDE).deadline == 1.5


@pytest.mark.parametrize(
    ("round_trips", "timeout_s"),
    [
        # mean 1/2, deviation 1/4. Then 1 is off by 1/2: the deviation becomes
        # 3/4 · 1/4 + 1/4 · 1/2 = 5/16, the mean 7/8 · 1/2 + 1/8 · 1 = 9/16.
        ((0.5, 1.0), 9 / 16 + 4 * 5 / 16),
        # A sample on the mean: the deviation shrinks to 15/64, the mean stays.
        ((0.5, 1.0, 9 / 16), 9 / 16 + 4 * 15 / 64),
        # 1/16 is off by -1/2: 3/4 · 5/16 + 1/4 · 1/2 = 23/64, mean 63/128 + 1/128 = 1/2.
        ((0.5, 1.0, 1 / 16), 1 / 2 + 4 * 23 / 64),
        # The deviation is taken from the mean before it moves (RFC 6298, 2.3).
        ((8.0, 16.0), 9.0 + 4 * 5.0),
        # A round trip of 0 is a sample, too.
        ((0.0, 1.0), 1 / 8 + 4 * 1 / 4),
    ],
)
def test_later_samples_are_smoothed(
    round_trips: tuple[float, ...], timeout_s: float
) -> None:
    assert timer_with(*round_trips, policy=WIDE).timeout_s == timeout_s


def test_a_sample_does_not_change_the_current_deadline() -> None:
    timer = RetransmissionTimer(SharedRttEstimate(WIDE), 1)
    timer.restart(2.0)
    timer.sample(0.5)
    assert (timer.deadline, timer.timeout_s) == (3.0, 1.5)
    timer.restart(4.0)
    assert timer.deadline == 5.5


def test_each_expiry_doubles_up_to_the_maximum() -> None:
    policy = RetransmissionPolicy(minimum_s=0.5, initial_s=1.0, maximum_s=5.0)
    timer = RetransmissionTimer(SharedRttEstimate(policy), 1)
    timer.restart(0.0)
    deadlines = [timer.deadline]
    for _ in range(4):
        timer.expire(timer.deadline)
        deadlines.append(timer.deadline)
    assert deadlines == [1.0, 1.0 + 2.0, 3.0 + 4.0, 7.0 + 5.0, 12.0 + 5.0]


def test_a_late_expiry_counts_from_its_handling() -> None:
    timer = RetransmissionTimer(SharedRttEstimate(WIDE), 1)
    timer.restart(0.0)
    timer.expire(10.0)
    assert timer.deadline == 12.0


def test_a_doubled_time_out_stays_until_the_next_sample() -> None:
    """Karn: otherwise, a path slower than the timeout would never give a sample."""
    timer = timer_with(0.5, policy=WIDE)
    assert timer.timeout_s == 1.5  # 0.5 + 4 * 0.25.
    timer.expire(1.0)
    timer.expire(2.0)
    assert timer.timeout_s == 6.0
    timer.restart(100.0)
    assert (timer.timeout_s, timer.deadline) == (6.0, 106.0)
    timer.sample(0.5)
    assert timer.timeout_s == 1.25  # 0.5 + 4 * 0.1875.


def test_a_deadline_is_after_now_even_below_the_precision_of_now() -> None:
    timer = RetransmissionTimer(SharedRttEstimate(RetransmissionPolicy()), 1)
    now = 1.7e18
    assert now + timer.timeout_s == now
    timer.restart(now)
    assert timer.deadline > now
    timer.expire(now)
    assert timer.deadline > now


def test_a_time_out_is_kept_within_the_limits() -> None:
    policy = RetransmissionPolicy(minimum_s=0.25, initial_s=1.0, maximum_s=4.0)
    assert timer_with(1 / 16, policy=policy).timeout_s == 0.25  # Not 3/16.
    assert timer_with(1 / 8, policy=policy).timeout_s == 0.375
    assert timer_with(2.0, policy=policy).timeout_s == 4.0  # Not 6.
    assert timer_with(0.0, policy=policy).timeout_s == 0.25  # Not the initial second.
    low = timer_with(1 / 16, policy=policy)
    low.expire(0.25)
    assert low.timeout_s == 0.5


def test_a_stopped_timer_has_no_deadline_and_can_restart() -> None:
    timer = timer_with(policy=WIDE)
    timer.stop()
    assert timer.deadline == inf
    timer.restart(3.0)
    assert timer.deadline == 4.0


@given(
    st.lists(st.tuples(st.sampled_from(["sample", "restart", "expire"]), st.floats(0, 1e4)))
)
def test_the_time_out_never_leaves_the_limits(actions: list[tuple[str, float]]) -> None:
    policy = RetransmissionPolicy(minimum_s=0.125, initial_s=1.0, maximum_s=8.0)
    timer = RetransmissionTimer(SharedRttEstimate(policy), 1)
    for action, value in actions:
        if action == "sample":
            timer.sample(value)
            continue
        if action == "restart":
            timer.restart(value)
        else:
            timer.expire(value)
        assert 0.125 <= timer.timeout_s <= 8.0
        assert timer.deadline == value + timer.timeout_s


def scheduled(queue: TimerQueue, owner: int, initial_s: float) -> RetransmissionTimer:
    """Start a timer at time 0 and schedule it."""
    policy = RetransmissionPolicy(minimum_s=0.25, initial_s=initial_s, maximum_s=64.0)
    timer = RetransmissionTimer(SharedRttEstimate(policy), owner)
    timer.restart(0.0)
    queue.schedule(timer)
    return timer


def test_an_empty_queue_has_nothing_due() -> None:
    queue = TimerQueue()
    assert queue.next_deadline() is None
    assert queue.due(1e9) is None


def test_a_stopped_timer_is_not_due_even_if_scheduled() -> None:
    queue = TimerQueue()
    timer = RetransmissionTimer(SharedRttEstimate(WIDE), 1)
    queue.schedule(timer)
    assert queue.next_deadline() is None


def test_the_earliest_timer_comes_first_and_not_before_its_time() -> None:
    queue = TimerQueue()
    late, early = scheduled(queue, 1, 5.0), scheduled(queue, 2, 3.0)
    assert queue.next_deadline() == 3.0
    assert queue.due(2.999) is None
    assert queue.due(3.0) is early
    early.stop()
    assert queue.due(4.0) is None
    assert queue.next_deadline() == 5.0
    assert queue.due(6.0) is late


def test_timers_with_the_same_deadline_are_due_one_after_the_other() -> None:
    queue = TimerQueue()
    timers = [scheduled(queue, owner, 1.0) for owner in range(5)]
    seen = []
    while (timer := queue.due(1.0)) is not None:
        seen.append(timer.owner)
        timer.expire(1.0)
    assert sorted(seen) == [timer.owner for timer in timers]
    assert queue.next_deadline() == 3.0


def test_a_postponed_timer_is_due_at_its_new_time() -> None:
    queue = TimerQueue()
    timer = scheduled(queue, 1, 1.0)
    timer.restart(0.5)
    assert queue.due(1.0) is None
    assert queue.next_deadline() == 1.5
    assert queue.due(1.5) is timer


def test_a_timer_moved_forward_and_back_is_due_once() -> None:
    queue = TimerQueue()
    timer = scheduled(queue, 1, 8.0)
    timer.sample(1.0)
    timer.restart(1.0)  # 3 seconds, so 4.
    queue.schedule(timer)
    assert queue.next_deadline() == 4.0
    timer.restart(5.0)  # Back at 8, its first deadline.
    assert queue.next_deadline() == 8.0
    assert queue.due(8.0) is timer
    timer.stop()
    assert queue.due(1e9) is None
    timer.restart(5.0)
    queue.schedule(timer)
    assert queue.due(8.0) is timer


def test_a_timer_moved_repeatedly_leaves_no_entries_in_the_queue() -> None:
    # Each round schedules it earlier than before, and then postpones it. 5000 old entries,
    # each a tuple with its own float, would be 400 000 bytes.
    queue = TimerQueue()
    policy = RetransmissionPolicy(minimum_s=1.0, initial_s=1.0, maximum_s=64.0)
    timer = RetransmissionTimer(SharedRttEstimate(policy), 1)
    tracemalloc.start()
    try:
        for now in range(5000):
            timer.sample(0.0)
            timer.restart(float(now))
            queue.schedule(timer)
            assert queue.next_deadline() == now + 1.0
            timer.expire(float(now))
            timer.expire(float(now))
            assert queue.next_deadline() == now + 4.0
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 64_000


def test_a_new_peer_starts_with_the_time_out_of_the_slowest_other_peer() -> None:
    rtt_estimate = SharedRttEstimate(WIDE)
    near = RetransmissionTimer(rtt_estimate, 1)
    far = RetransmissionTimer(rtt_estimate, 2)
    new = RetransmissionTimer(rtt_estimate, 3)
    near.sample(0.125)
    assert new.timeout_s == 0.375  # The estimate changes for existing timers, too.
    far.sample(0.25)
    assert (near.timeout_s, new.timeout_s) == (0.375, 0.75)
    new.restart(1.0)
    assert new.deadline == 1.75


def test_the_shared_estimate_rises_at_once_and_falls_by_a_sixty_fourth() -> None:
    rtt_estimate = SharedRttEstimate(WIDE)
    rtt_estimate.learn(0.25)
    assert rtt_estimate.first_s == 0.25
    rtt_estimate.learn(0.75)
    assert rtt_estimate.first_s == 0.75
    rtt_estimate.learn(0.25)
    assert rtt_estimate.first_s == 0.75 - 0.5 / 64


def test_the_shared_estimate_is_at_most_the_initial_time_out() -> None:
    rtt_estimate = SharedRttEstimate(RetransmissionPolicy(initial_s=0.5, maximum_s=60.0))
    rtt_estimate.learn(40.0)
    assert rtt_estimate.first_s == 0.5


def test_an_expiry_doubles_the_shared_estimate_until_the_first_sample() -> None:
    rtt_estimate = SharedRttEstimate(WIDE)
    rtt_estimate.learn(0.25)
    timer = RetransmissionTimer(rtt_estimate, 1)
    timer.restart(0.0)
    timer.expire(0.25)
    assert (timer.timeout_s, timer.deadline) == (0.5, 0.75)
    rtt_estimate.learn(0.125)
    assert timer.timeout_s == 0.5
    timer.sample(0.03125)
    assert timer.timeout_s == 0.09375


@pytest.mark.parametrize("linked", [False, True])
def test_the_first_retransmission_to_a_peer_uses_the_shared_estimate(
    linked: bool,
) -> None:
    def process(id: int) -> ProcessBase:
        if linked:
            return ReliableLink(Baseline(ProcessId(id)), fifo=True)
        return make_hybrid(ProcessId(id))

    sender, near = process(0), process(1)
    sender.send([ProcessId(1)], b"one", 0.0)
    (first,) = sender.frames_to_transmit()
    near.receive(ProcessId(0), first.frame, 0.0625)
    (ack,) = near.frames_to_transmit()
    sender.receive(ProcessId(1), ack.frame, 0.125)
    sender.frames_to_transmit()
    sender.send([ProcessId(2)], b"two", 8.0)
    sender.frames_to_transmit()
    assert sender.next_timer() == 8.375  # Three round trips instead of the initial second.
    sender.handle_timer(8.375)
    (again,) = sender.frames_to_transmit()
    assert (again.target, again.is_retransmission) == (2, True)


class QueueMachine(RuleBasedStateMachine):
    """Several timers in a queue, compared with a search over all timers."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = TimerQueue()
        self.now = 0.0
        self.timers = [
            RetransmissionTimer(
                SharedRttEstimate(
                    RetransmissionPolicy(minimum_s=0.5, initial_s=initial, maximum_s=16.0)
                ),
                owner,
            )
            for owner, initial in enumerate([1.0, 1.0, 4.0, 16.0])
        ]

    owners = st.integers(min_value=0, max_value=3)
    # Multiples of a half, so that deadlines of different timers often coincide.
    halves = st.integers(min_value=0, max_value=12).map(lambda count: count / 2)

    @rule(seconds=halves)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(owner=owners)
    def restart(self, owner: int) -> None:
        self.timers[owner].restart(self.now)
        self.queue.schedule(self.timers[owner])

    @rule(owner=owners)
    def postpone_without_scheduling(self, owner: int) -> None:
        timer = self.timers[owner]
        if timer.deadline <= self.now:
            timer.restart(self.now)

    @rule(owner=owners, round_trip=halves)
    def sample(self, owner: int, round_trip: float) -> None:
        self.timers[owner].sample(round_trip)

    @rule(owner=owners)
    def stop(self, owner: int) -> None:
        self.timers[owner].stop()

    @rule()
    def next_deadline_is_the_earliest(self) -> None:
        earliest = min(timer.deadline for timer in self.timers)
        assert self.queue.next_deadline() == (None if earliest == inf else earliest)

    @rule()
    def due_is_one_of_the_expired(self) -> None:
        due = self.queue.due(self.now)
        expired = [timer for timer in self.timers if timer.deadline <= self.now]
        assert due in expired if expired else due is None

    @rule()
    def handle_all_due(self) -> None:
        expected = {t.owner for t in self.timers if t.deadline <= self.now}
        handled = []
        while (timer := self.queue.due(self.now)) is not None:
            assert timer.deadline <= self.now
            handled.append(timer.owner)
            timer.expire(self.now)
        assert sorted(handled) == sorted(expected)

    def teardown(self) -> None:
        self.next_deadline_is_the_earliest()
        for timer in self.timers:
            timer.stop()
        assert self.queue.next_deadline() is None


@pytest.mark.long
def test_the_queue_agrees_with_a_search_over_all_timers() -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(max_examples=150, stateful_step_count=40),
    )
