"""Random runs of broadcasts in a group with fixed members."""

from collections.abc import Sequence
from random import Random

from antecede.core.process import Delivery, Process, Transmit
from antecede.errors import LocalError
from antecede.testing import Cluster

__all__ = [
    "Outputs",
    "assert_correct",
    "cluster_of",
    "pick",
    "run_randomly",
    "run_until_idle",
]


class Outputs:
    """The two output queues of a process that is written for a test."""

    def __init__(self) -> None:
        self.transmits: list[Transmit] = []
        self.deliveries: list[Delivery] = []

    def send(self, targets: object, payload: bytes, now: float) -> int:
        raise LocalError("broadcast only")

    def connect(self, peer: int, now: float) -> None:
        raise LocalError("no overlay")

    def disconnect(self, peer: int, now: float) -> None:
        raise LocalError("no overlay")

    def frames_to_transmit(self) -> list[Transmit]:
        taken, self.transmits = self.transmits, []
        return taken

    def messages_to_deliver(self) -> list[Delivery]:
        taken, self.deliveries = self.deliveries, []
        return taken


def cluster_of(processes: Sequence[Process]) -> Cluster:
    """Return a cluster of existing processes."""
    return Cluster("", len(processes), make=lambda own: processes[own])


def pick(cluster: Cluster, random: Random, *, fifo: bool) -> int:
    """Return the index of a random packet; with ``fifo``, the first of its pair."""
    index = random.randrange(len(cluster.in_flight))
    if not fifo:
        return index
    drawn = cluster.in_flight[index]
    return next(
        first
        for first, packet in enumerate(cluster.in_flight)
        if (packet.source, packet.target) == (drawn.source, drawn.target)
    )


def run_randomly(
    cluster: Cluster,
    random: Random,
    *,
    steps: int,
    fifo: bool = False,
    faults: float = 0.0,
    seconds: Sequence[float] = (),
) -> None:
    """Broadcast, and pass on, lose or duplicate packets, at random.

    Args:
        cluster: The processes.
        random: The source of the choices.
        steps: The number of steps.
        fifo: Whether only the first packet of each pair may arrive.
        faults: The share of packets that are lost, and of those that are duplicated.
        seconds: The possible durations of a step; empty for none.
    """
    for _ in range(steps):
        draw = random.random()
        if draw < 0.2:
            member = random.randrange(len(cluster.processes))
            cluster.broadcast(member, random.randbytes(2))
        elif draw < 0.3 and seconds:
            cluster.pass_time(random.choice(seconds))
        elif cluster.in_flight:
            index = pick(cluster, random, fifo=fifo)
            fate = random.random()
            if fate < faults:
                cluster.drop(index)
            elif fate < 2 * faults:
                cluster.duplicate(index)
            else:
                cluster.arrive(index)


def run_until_idle(
    cluster: Cluster, random: Random, *, fifo: bool, steps_max: int = 5000
) -> bool:
    """Pass on all packets and handle timers; return whether the cluster becomes idle."""
    for _ in range(steps_max):
        if cluster.in_flight:
            cluster.arrive(pick(cluster, random, fifo=fifo))
            continue
        timers = [process.next_timer() for process in cluster.processes]
        due = [timer for timer in timers if timer is not None]
        if not due:
            return True
        cluster.pass_time(max(min(due) - cluster.now, 0.0))
    return False


def assert_correct(cluster: Cluster, random: Random, *, fifo: bool) -> None:
    """Check that the run is safe, and live once idle on a reliable network."""
    assert cluster.verdict(complete=False).held
    assert run_until_idle(cluster, random, fifo=fifo)
    verdict = cluster.verdict()
    assert verdict.held, "\n".join(str(violation) for violation in verdict.violations)
