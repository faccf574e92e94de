"""Random runs of ``bounded``, and runs with a process that is silent."""

from collections import Counter
from random import Random

import pytest

from antecede.core.process import UNBOUNDED
from antecede.core.protocols.hybrid.dependency_frames import SettledAck
from antecede.testing import Cluster
from antecede.trace import Kind
from tests.core.bounded_runs import (
    BUDGETS,
    RUNS,
    bounded_cluster,
    ledger_of,
    left_over,
    run_randomly,
    without,
)

DEPENDENT = {"own", "inherited", "Settled", "Query"}
EXPECTED = {
    0: {"opaque", "Permit"},
    5: DEPENDENT | {"opaque", "wildcard"},
    8: DEPENDENT | {"opaque", "wildcard"},
    16: DEPENDENT | {"wildcard"},
    32: DEPENDENT | {"wildcard"},
    UNBOUNDED: DEPENDENT,
}
"""What must occur in the runs of each budget, so that they test it."""


def check_idle(cluster: Cluster, where: str) -> None:
    """Check the order of a run that is over, and that nothing is left over."""
    verdict = cluster.verdict()
    assert verdict.held, f"{where}: " + "\n".join(map(str, verdict.violations))
    for process in cluster.processes:
        assert left_over(process) == [], f"{where}, process {process.id}"


@pytest.mark.long
@pytest.mark.parametrize("faults", [False, True], ids=["lossless", "lossy"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_random_runs_are_causal_and_live_and_nothing_is_left_over(
    budget: int, faults: bool
) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(RUNS):
        random = Random(seed)
        cluster = bounded_cluster(random.randint(3, 6), budget)
        kinds += run_randomly(cluster, random, faults=faults, budget=budget)
        cluster.run_until_idle(random)
        check_idle(cluster, f"seed {seed}")
    missing = {kind for kind in EXPECTED[budget] if kinds[kind] < RUNS // 20}
    assert not missing, kinds
    if budget == 0:
        assert not {"DependentMessage", "Settled", "SettledAck", "Query"} & kinds.keys()


@pytest.mark.long
@pytest.mark.parametrize("budget", [16, 32, UNBOUNDED])
def test_notes_of_wide_multicasts_ride_on_acks(budget: int) -> None:
    """A note waits for others, and leaves with an ack to the same peer meanwhile."""
    acks = 0
    for seed in range(RUNS // 4):
        random = Random(seed)
        cluster = bounded_cluster(8, budget)
        for step in range(200):
            cluster.pass_time(0.05 if step % 3 == 0 else 0.0)
            if random.random() < 0.12:
                source, *targets = random.sample(range(8), random.randint(2, 8))
                cluster.send(source, targets)
            elif cluster.in_flight:
                early = min(random.randrange(len(cluster.in_flight)) for _ in range(2))
                acks += isinstance(cluster.in_flight[early].frame, SettledAck)
                cluster.arrive(early)
        cluster.run_until_idle(random)
        check_idle(cluster, f"seed {seed}")
    assert acks > RUNS // 20


@pytest.mark.long
@pytest.mark.parametrize("budget", BUDGETS)
def test_timers_are_needed_only_after_loss_and_for_notes(budget: int) -> None:
    """Without loss and without any time, every copy is delivered."""
    for seed in range(RUNS):
        random = Random(seed)
        cluster = bounded_cluster(4, budget)
        for _ in range(100):
            if random.random() < 0.3:
                source, *targets = random.sample(range(4), random.randint(2, 4))
                cluster.send(source, targets)
            elif cluster.in_flight:
                cluster.arrive(random.randrange(len(cluster.in_flight)))
        while cluster.in_flight:
            cluster.arrive(random.randrange(len(cluster.in_flight)))
        assert cluster.now == 0.0
        if budget in (0, UNBOUNDED):
            assert cluster.verdict().held, f"seed {seed}"
        cluster.run_until_idle(random)
        check_idle(cluster, f"seed {seed}")


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_same_seed_gives_the_same_history(budget: int) -> None:
    histories = []
    for _ in range(2):
        cluster = bounded_cluster(4, budget)
        run_randomly(cluster, Random(3), faults=True)
        cluster.run_until_idle(Random(4))
        histories.append(cluster.history)
    assert histories[0] == histories[1]


# Silence.


def run_with_silence(
    cluster: Cluster, random: Random, silent: int, *, steps: int, targets_max: int
) -> None:
    """Run at random; everything to and from the process ``silent`` is lost.

    Its own messages must be delivered before: others may depend on them.
    """
    everyone = range(len(cluster.processes))
    cluster.paused.add(silent)
    for _ in range(steps):
        draw = random.random()
        if draw < 0.1:
            source = random.choice([each for each in everyone if each != silent])
            others = [each for each in everyone if each != source]
            cluster.send(source, random.sample(others, random.randint(1, targets_max)))
        elif draw < 0.92 and cluster.in_flight:
            cluster.arrive(random.randrange(len(cluster.in_flight)))
        else:
            cluster.pass_time(random.choice((0.02, 0.1)))
        without(cluster, lambda packet: silent in (packet.source, packet.target))


def settle_among_others(cluster: Cluster, silent: int) -> None:
    """Let time pass until the others are idle, except for the silent process."""
    for _ in range(60):
        while cluster.in_flight:
            cluster.arrive()
            without(cluster, lambda packet: silent in (packet.source, packet.target))
        cluster.pass_time(1.0)
        without(cluster, lambda packet: silent in (packet.source, packet.target))


def undelivered(cluster: Cluster) -> list[tuple[int, int, int]]:
    """Return source, number and target of the copies that are not delivered."""
    copies = {
        (event.process, event.number, target)
        for event in cluster.history
        if event.kind is Kind.SEND
        for target in event.targets or ()
    }
    for index in range(len(cluster.processes)):
        copies -= {(source, number, index) for source, number in cluster.delivered(index)}
    return sorted((source, number or 0, target) for source, number, target in copies)


@pytest.mark.long
@pytest.mark.parametrize("processes", [5, 10, 20])
@pytest.mark.parametrize("budget", [32, 64, UNBOUNDED])
def test_a_silent_process_holds_up_copies_to_itself_only(
    processes: int, budget: int
) -> None:
    silent = processes - 1
    for seed in range(4):
        random = Random(seed)
        cluster = bounded_cluster(processes, budget)
        run_randomly(cluster, random, faults=False, steps=30 * processes)
        cluster.run_until_idle(random)
        run_with_silence(cluster, random, silent, steps=60 * processes, targets_max=3)
        settle_among_others(cluster, silent)
        late = undelivered(cluster)
        assert late
        assert [copy for copy in late if silent not in (copy[0], copy[2])] == []
        assert any(ledger_of(process).table.sources for process in cluster.processes)
        cluster.run_until_idle(random)
        check_idle(cluster, f"{processes} processes, seed {seed}")


def test_without_a_budget_a_silent_process_holds_up_others() -> None:
    """The test above detects copies that wait."""
    late = []
    for seed in range(4):
        cluster = bounded_cluster(5, 0)
        run_with_silence(cluster, Random(seed), 4, steps=300, targets_max=3)
        settle_among_others(cluster, 4)
        late += [copy for copy in undelivered(cluster) if copy[2] != 4]
    assert late
