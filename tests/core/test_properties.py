"""Runs of the hybrids are causal and live on any network."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.check.snapshot import snapshot
from antecede.core import RetransmissionPolicy
from antecede.testing import Cluster, Step, random_schedule, run_schedule
from antecede.testing.strategies import schedules
from antecede.trace import Kind
from antecede.verify import Property

PROTOCOLS = ("hybrid", "hybrid-basic")
POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)


def assert_held(cluster: Cluster, random: Random | None = None) -> None:
    """Assert safety of the run so far, and liveness after a run until idle."""
    assert cluster.verdict(complete=False).held
    cluster.run_until_idle(random)
    verdict = cluster.verdict()
    assert verdict.held, "\n".join(str(violation) for violation in verdict.violations)


@pytest.mark.long
@pytest.mark.parametrize("name", PROTOCOLS)
@given(schedule=schedules(3, faults=False), order=st.randoms(use_true_random=False))
def test_unicast_is_causal_when_frames_only_overtake(
    name: str, schedule: list[Step], order: Random
) -> None:
    cluster = Cluster(name, 3, policy=POLICY)
    run_schedule(cluster, schedule)
    assert_held(cluster, order)


@pytest.mark.long
@pytest.mark.parametrize("name", PROTOCOLS)
@given(schedule=schedules(4), order=st.randoms(use_true_random=False))
def test_unicast_is_causal_despite_loss_duplication_and_pauses(
    name: str, schedule: list[Step], order: Random
) -> None:
    cluster = Cluster(name, 4, policy=POLICY)
    run_schedule(cluster, schedule)
    assert_held(cluster, order)


@pytest.mark.long
@pytest.mark.parametrize("name", PROTOCOLS)
@given(schedule=schedules(4, fan_out_max=4), order=st.randoms(use_true_random=False))
def test_multicast_is_causal_despite_loss_duplication_and_pauses(
    name: str, schedule: list[Step], order: Random
) -> None:
    cluster = Cluster(name, 4, policy=POLICY)
    run_schedule(cluster, schedule)
    assert_held(cluster, order)


@pytest.mark.long
@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("fan_out_max", [1, 4])
@pytest.mark.parametrize("faults", [0.0, 0.2])
def test_long_random_runs_are_causal_and_live(
    name: str, fan_out_max: int, faults: float
) -> None:
    for seed in range(250):
        random = Random(seed)
        processes = random.randint(2, 6)
        cluster = Cluster(name, processes, policy=POLICY)
        run_schedule(
            cluster,
            random_schedule(
                random,
                processes=processes,
                steps=random.choice((30, 120)),
                fan_out_max=fan_out_max,
                loss=faults,
                duplicate=faults,
                seconds=(0.25, 1.0, 4.0) if faults else (),
            ),
        )
        try:
            assert_held(cluster, random)
        except AssertionError as error:
            raise AssertionError(f"{name}, seed {seed}: {error}") from error


@pytest.mark.long
@pytest.mark.parametrize("name", PROTOCOLS)
def test_timers_are_needed_only_after_loss(name: str) -> None:
    """Without loss, a run becomes idle although no time passes."""
    for seed in range(200):
        random = Random(seed)
        cluster = Cluster(name, 4)
        run_schedule(
            cluster,
            random_schedule(random, processes=4, steps=100, fan_out_max=3, duplicate=0.1),
        )
        while cluster.in_flight:
            cluster.arrive(random.randrange(len(cluster.in_flight)))
        assert cluster.now == 0.0
        assert cluster.verdict().held, f"seed {seed}"
        assert all(process.next_timer() is None for process in cluster.processes)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_idle_process_keeps_no_message(name: str) -> None:
    """Copies, held frames and missing permits are removed in the end."""
    for seed in range(50):
        random = Random(seed)
        cluster = Cluster(name, 4, policy=POLICY)
        run_schedule(
            cluster,
            random_schedule(
                random,
                processes=4,
                steps=100,
                fan_out_max=3,
                loss=0.1,
                duplicate=0.2,
                seconds=(1.0,),
            ),
        )
        cluster.run_until_idle(random)
        state = str([snapshot(process) for process in cluster.processes])
        kept = [
            kind
            for kind in ("Copy", "MessageFrame", "MissingPermit")
            if f"'{kind}'" in state
        ]
        assert kept == [], f"seed {seed}"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_same_schedule_gives_the_same_history(name: str) -> None:
    schedule = random_schedule(
        Random(7), processes=5, steps=300, fan_out_max=3, loss=0.1, seconds=(1.0,)
    )
    histories = []
    for _ in range(2):
        cluster = Cluster(name, 5)
        run_schedule(cluster, schedule)
        cluster.run_until_idle()
        histories.append(cluster.history)
    assert histories[0] == histories[1]


def test_hybrid_releases_earlier_than_hybrid_basic_on_average() -> None:
    """SPS demands fewer permits than CSPS; every frame takes one turn here."""
    waits = dict.fromkeys(PROTOCOLS, 0)
    for name in PROTOCOLS:
        for seed in range(50):
            cluster = Cluster(name, 4)
            random = Random(seed)
            for turn in range(60):
                before = len(cluster.history)
                for _ in range(2 if turn < 20 else 0):
                    cluster.send(random.randrange(4), [random.randrange(4)])
                for _ in range(len(cluster.in_flight)):
                    cluster.arrive()
                for event in cluster.history[before:]:
                    waits[name] += turn * (event.kind is Kind.RELEASE)
                    waits[name] -= turn * (event.kind is Kind.SEND)
            assert not cluster.in_flight
            assert cluster.verdict().held
    assert waits["hybrid"] < waits["hybrid-basic"]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_silent_peer_blocks_permits_but_keeps_causal_order(name: str) -> None:
    """Liveness is violated for the blocked message, and no other property."""
    cluster = Cluster(name, 4, policy=POLICY)
    cluster.send(0, [3])
    cluster.send(0, [1])
    cluster.drop(0)
    cluster.arrive(0)
    cluster.send(1, [2])
    for _ in range(50):
        cluster.in_flight[:] = [
            p for p in cluster.in_flight if 3 not in (p.target, p.source)
        ]
        if cluster.in_flight:
            cluster.arrive()
        else:
            cluster.pass_time(8.0)
    assert cluster.delivered(2) == []
    assert cluster.verdict(complete=False).held
    assert cluster.verdict().violated() == {Property.LIVENESS}
