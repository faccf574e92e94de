"""Random runs of broadcasts in a group whose members never change."""

from collections.abc import Sequence
from random import Random

from antecede.core.process import Delivery, Process, Transmit
from antecede.errors import LocalError
from antecede.testing import Cluster

__all__ = ["Outputs", "assert_right", "joined", "pick", "play", "rest"]


class Outputs:
    """The two output queues of a plain process that is written for a test."""

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


def joined(processes: Sequence[Process]) -> Cluster:
    """Join processes that are made already."""
    return Cluster("", len(processes), make=lambda place: processes[place])


def pick(cluster: Cluster, random: Random, *, fifo: bool) -> int:
    """Draw a packet in flight; with ``fifo`` the first of its pair."""
    index = random.randrange(len(cluster.in_flight))
    if not fifo:
        return index
    drawn = cluster.in_flight[index]
    return next(
        first
        for first, packet in enumerate(cluster.in_flight)
        if (packet.source, packet.target) == (drawn.source, drawn.target)
    )


def play(
    cluster: Cluster,
    random: Random,
    *,
    steps: int,
    fifo: bool = False,
    faults: float = 0.0,
    seconds: Sequence[float] = (),
) -> None:
    """Let the members broadcast now and then, and packets arrive or meet their fate.

    Args:
        cluster: Where it happens.
        random: Where the choices come from.
        steps: How many there are.
        fifo: Of each pair, only the first packet arrives.
        faults: The share of packets that are lost, and of those that are duplicated.
        seconds: By how much time may pass in a step; with none it stands still.
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


def rest(cluster: Cluster, random: Random, *, fifo: bool, steps_max: int = 5000) -> bool:
    """Let everything arrive and time pass; tell whether the group came to rest."""
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


def assert_right(cluster: Cluster, random: Random, *, fifo: bool) -> None:
    """The run so far is safe, and once at rest on a perfect network it is live too."""
    assert cluster.verdict(complete=False).held
    assert rest(cluster, random, fifo=fifo)
    verdict = cluster.verdict()
    assert verdict.held, "\n".join(str(violation) for violation in verdict.violations)
