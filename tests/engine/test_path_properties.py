"""Properties of recovery on paths that change: with bandwidth, queues, bursts and marks.

Nothing is lost, nothing leaves beyond the congestion window, and no copy is transmitted
again without a reason.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.engine import Limits
from antecede.engine.loss_detection import PROBED_PACKETS
from antecede.net.faults import FaultInjector, Faults
from tests.engine.path_run import Run

SIZE = 400
"""The payload of each message: one fits into a datagram of 600 bytes."""
END = Faults(delay_s=0.01)
"""The path at the end of each run."""

rare = st.floats(0.0, 0.2)
some_faults = st.builds(
    Faults,
    loss=rare,
    burst=st.sampled_from([1.0, 4.0, 16.0]),
    duplicate=rare,
    delay_s=st.floats(0.001, 0.1),
    jitter_s=st.sampled_from([0.0, 0.001, 0.05]),
    bytes_per_s=st.sampled_from([0.0, 2e4, 2e5, 2e6]),
    queue_s=st.floats(0.01, 0.3),
    mark_s=st.sampled_from([0.0, 0.005, 0.05]),
)
phases = st.lists(
    st.tuples(some_faults, st.integers(0, 40), st.floats(0.001, 1.0)),
    min_size=1,
    max_size=5,
)
"""Faults of the path, messages of ann, and the seconds after them."""


def play(run: Run, plan: list[tuple[Faults, int, float]], both_ways: bool) -> int:
    """Let ann send while the path changes; return how many messages she has sent."""
    network = run.network
    injector = FaultInjector(END, seed=network.random.getrandbits(30))
    network.injector = injector
    sent = 0
    for faults, messages, seconds in plan:
        # The way back loses and delays acks, too, unless only messages are to be lost.
        injector.faults = faults if both_ways else replace(END, delay_s=faults.delay_s)
        injector.faults_of["ann", "bob"] = faults
        run.send(messages, SIZE)
        sent += messages
        network.run(seconds)
    injector.faults = END
    injector.faults_of.clear()
    return sent


def lost_datagrams(run: Run) -> int:
    """Return how many datagrams the network has lost."""
    assert run.network.injector is not None
    counts = run.network.injector.counts
    return counts["lost"] + counts["overflowed"]


@pytest.mark.parametrize("control", ["cubic", "newreno"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30), plan=phases, both_ways=st.booleans())
def test_no_message_is_lost_and_the_window_holds_while_the_path_changes(
    control: str, seed: int, plan: list[tuple[Faults, int, float]], both_ways: bool
) -> None:
    run = Run(seed, control)
    sent = play(run, plan, both_ways)
    network = run.network
    network.run(30.0)  # The longest probe timeouts are 4 s, and a window may be small.
    assert len(network.data("bob")) == sent
    assert network.verdict().held
    assert run.excess == []
    assert run.path.in_flight == 0
    assert network.engines["ann"].backlog == 0


@pytest.mark.parametrize("control", ["cubic", "newreno"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30), plan=phases)
def test_a_copy_is_transmitted_again_only_for_a_loss_a_delay_or_a_probe(
    control: str, seed: int, plan: list[tuple[Faults, int, float]]
) -> None:
    run = Run(seed, control, protocol="fifo")
    sent = play(run, plan, both_ways=True)
    run.network.run(30.0)
    transmitted = sum(len(flight.datagram) > SIZE for flight in run.data_of("ann"))
    probes = run.network.engines["ann"].stats().probes
    late = run.path.losses.spurious
    reasons = lost_datagrams(run) + late + PROBED_PACKETS * probes
    assert transmitted <= sent + reasons


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 30), rate=st.sampled_from([5e4, 2e5, 1e6]))
def test_a_queue_that_overflows_causes_no_storm(seed: int, rate: float) -> None:
    """What ann transmits is at most a third more than what the link carries."""
    run = Run(seed)
    network = run.network
    injector = FaultInjector(END, seed=seed)
    injector.faults_of["ann", "bob"] = Faults(delay_s=0.02, bytes_per_s=rate, queue_s=0.1)
    network.injector = injector
    run.send(2000, SIZE)
    network.run(2.0)  # Slow start, which overflows the queue once.
    before = injector.counts["overflowed"], len(run.data_of("ann"))
    network.run(5.0)
    transmitted = len(run.data_of("ann")) - before[1]
    assert injector.counts["overflowed"] - before[0] <= transmitted / 4
    assert network.engines["ann"].stats().retransmitted <= injector.counts["overflowed"]


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    sizes=st.lists(st.sampled_from([600, 900, 1300, 1472]), min_size=1, max_size=5),
)
def test_no_message_is_lost_while_the_size_of_the_path_changes(
    seed: int, sizes: list[int]
) -> None:
    run = Run(seed, limits=Limits(datagram_bytes_base=600, datagram_bytes_max=1472))
    network = run.network
    injector = network.injector = FaultInjector(END, seed=seed)
    for size in sizes:
        injector.faults = replace(END, datagram_bytes_max=size)
        run.send(60, 100)
        network.run(1.0)
    network.run_until_idle()
    assert len(network.data("bob")) == 60 * len(sizes)
    assert network.verdict().held
    assert run.excess == []
