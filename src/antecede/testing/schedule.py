"""A schedule: what happens in a cluster, step by step, as data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from antecede.testing.cluster import Cluster

__all__ = ["Act", "Step", "play", "random_schedule"]


class Act(Enum):
    """What a step does."""

    SEND = "send"
    ARRIVE = "arrive"
    LOSE = "lose"
    DUPLICATE = "duplicate"
    PASS_TIME = "pass time"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Step:
    """One step; any step is possible in any state, so that schedules can be shortened."""

    act: Act
    pick: int = 0
    """Which process, or which of the packets in flight, counted around."""
    targets: tuple[int, ...] = ()
    """Of a send: whom it is for."""
    seconds: float = 0.0
    """Of passing time: how much."""


def play(cluster: Cluster, schedule: Iterable[Step]) -> None:
    """Carry out a schedule; a step that nothing is there for does nothing."""
    for step in schedule:
        process = step.pick % len(cluster.processes)
        if step.act is Act.SEND:
            cluster.send(process, step.targets)
        elif step.act is Act.PASS_TIME:
            cluster.pass_time(step.seconds)
        elif step.act is Act.PAUSE:
            cluster.paused.add(process)
        elif step.act is Act.RESUME:
            cluster.paused.discard(process)
        else:
            _play_packet(cluster, step)


def _play_packet(cluster: Cluster, step: Step) -> None:
    open_packets = [
        index
        for index, packet in enumerate(cluster.in_flight)
        if packet.target not in cluster.paused
    ]
    if not open_packets:
        return
    index = open_packets[step.pick % len(open_packets)]
    if step.act is Act.ARRIVE:
        cluster.arrive(index)
    elif step.act is Act.LOSE:
        cluster.lose(index)
    else:
        cluster.duplicate(index)


def random_schedule(
    random: Random,
    *,
    processes: int,
    steps: int,
    fan_out_max: int = 1,
    loss: float = 0.0,
    duplicate: float = 0.0,
    seconds: Sequence[float] = (),
) -> list[Step]:
    """Draw a schedule: about one send for every three packets, in any order.

    Args:
        random: Where the choices come from.
        processes: How many processes the cluster has.
        steps: How many steps to draw.
        fan_out_max: The most targets of a message, itself included.
        loss: The share of packets that are lost instead of arriving.
        duplicate: The share of packets that are duplicated.
        seconds: By how much time may pass in a step; with none it stands still.
    """
    schedule: list[Step] = []
    for _ in range(steps):
        pick = random.randrange(1 << 16)
        draw = random.random()
        if draw < 0.25:
            fan_out = random.randint(1, min(fan_out_max, processes))
            targets = tuple(random.sample(range(processes), fan_out))
            schedule.append(Step(Act.SEND, pick, targets))
        elif draw < 0.3 and seconds:
            schedule.append(Step(Act.PASS_TIME, seconds=random.choice(seconds)))
        elif draw < 0.33 and seconds:
            schedule.append(Step(random.choice((Act.PAUSE, Act.RESUME)), pick))
        else:
            fate = random.random()
            lost = Act.LOSE if fate < loss else Act.ARRIVE
            act = Act.DUPLICATE if fate > 1 - duplicate else lost
            schedule.append(Step(act, pick))
    return schedule
