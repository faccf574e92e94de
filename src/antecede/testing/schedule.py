"""Schedules: the steps of a run on a cluster, as data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from antecede.testing.cluster import Cluster

__all__ = ["Step", "StepKind", "random_schedule", "run_schedule"]


class StepKind(Enum):
    """The kinds of steps."""

    SEND = "send"
    ARRIVE = "arrive"
    DROP = "drop"
    DUPLICATE = "duplicate"
    PASS_TIME = "pass time"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Step:
    """One step; every step is possible in every state, so that schedules can shrink."""

    kind: StepKind
    pick: int = 0
    """The process, or the packet in flight, modulo their number."""
    targets: tuple[int, ...] = ()
    """The targets of a send."""
    seconds: float = 0.0
    """The seconds that pass."""


def run_schedule(cluster: Cluster, schedule: Iterable[Step]) -> None:
    """Run the steps of a schedule; a step without a packet to act on does nothing."""
    for step in schedule:
        process = step.pick % len(cluster.processes)
        if step.kind is StepKind.SEND:
            cluster.send(process, step.targets)
        elif step.kind is StepKind.PASS_TIME:
            cluster.pass_time(step.seconds)
        elif step.kind is StepKind.PAUSE:
            cluster.paused.add(process)
        elif step.kind is StepKind.RESUME:
            cluster.paused.discard(process)
        else:
            _run_packet_step(cluster, step)


def _run_packet_step(cluster: Cluster, step: Step) -> None:
    candidates = [
        index
        for index, packet in enumerate(cluster.in_flight)
        if packet.target not in cluster.paused
    ]
    if not candidates:
        return
    index = candidates[step.pick % len(candidates)]
    if step.kind is StepKind.ARRIVE:
        cluster.arrive(index)
    elif step.kind is StepKind.DROP:
        cluster.drop(index)
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
        random: The source of randomness.
        processes: The number of processes of the cluster.
        steps: The number of steps.
        fan_out_max: The maximum number of targets of a message, the sender included.
        loss: The share of packets that are dropped instead of arriving.
        duplicate: The share of packets that are duplicated.
        seconds: The possible lengths of a step of time; if empty, time stands still.
    """
    schedule: list[Step] = []
    for _ in range(steps):
        pick = random.randrange(1 << 16)
        draw = random.random()
        if draw < 0.25:
            fan_out = random.randint(1, min(fan_out_max, processes))
            targets = tuple(random.sample(range(processes), fan_out))
            schedule.append(Step(StepKind.SEND, pick, targets))
        elif draw < 0.3 and seconds:
            schedule.append(Step(StepKind.PASS_TIME, seconds=random.choice(seconds)))
        elif draw < 0.33 and seconds:
            schedule.append(Step(random.choice((StepKind.PAUSE, StepKind.RESUME)), pick))
        else:
            draw = random.random()
            kind = StepKind.DROP if draw < loss else StepKind.ARRIVE
            if draw > 1 - duplicate:
                kind = StepKind.DUPLICATE
            schedule.append(Step(kind, pick))
    return schedule
