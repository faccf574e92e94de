"""Runs in which each process exists twice, and both get the same inputs.

After every step the outputs of the two are compared; the first difference ends the run.
So every frame in flight was transmitted by both, and they share one list of packets.

Every step of a schedule is valid whatever is in flight, so any part of a schedule is a
schedule, too.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest

__all__ = [
    "SHAPES",
    "Divergence",
    "FrameValue",
    "Lockstep",
    "Packet",
    "Shape",
    "Step",
    "Steppable",
    "as_tuple",
]

TICK_S = 0.25
"""Exact in binary, so deadlines can be compared with ``==``."""
IDLE_STEPS_MAX = 10_000


class Step(NamedTuple):
    """One input."""

    action: str
    """One of send, arrive, drop, duplicate, wait."""
    pick: int
    """The sender; or the packet, modulo those in flight; or the number of ticks."""
    targets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The parameters of a set of random schedules."""

    name: str
    processes: int
    steps: int
    targets_max: int
    to_itself: bool = True
    """Whether a process may be among its own targets."""
    arrivals_max: int = 6
    """The most arrivals per two sends; each schedule draws its own number."""
    faults: int = 0
    """The number of losses, of duplicates and of waits per two sends."""
    schedules: int = 200 if "ANTECEDE_MUTANT" in os.environ else 600
    """Fewer for mutants, because the tests run for every mutant."""

    def __str__(self) -> str:
        return self.name

    def draw(self, seed: int) -> list[Step]:
        """Draw the schedule of ``seed``."""
        random = Random(seed)
        actions = ["send", "arrive", "drop", "duplicate", "wait"]
        arrivals = random.randint(2, self.arrivals_max)
        weights = [2, arrivals, self.faults, self.faults, self.faults]
        return [
            self.draw_step(action, random)
            for action in random.choices(actions, weights, k=self.steps)
        ]

    def draw_step(self, action: str, random: Random) -> Step:
        if action == "wait":
            return Step(action, random.randint(1, 6))
        if action != "send":
            return Step(action, random.randrange(1000))
        source = random.randrange(self.processes)
        members = [p for p in range(self.processes) if self.to_itself or p != source]
        count = random.randint(1, self.targets_max)
        return Step(action, source, tuple(random.choices(members, k=count)))


SHAPES = [
    Shape(name="unicast", processes=3, steps=70, targets_max=1, to_itself=False),
    Shape(name="multicast", processes=4, steps=50, targets_max=4),
    Shape(name="unicast-faults", processes=3, steps=80, targets_max=1, faults=1),
    Shape(name="multicast-faults", processes=4, steps=60, targets_max=3, faults=1),
    Shape(name="multicast-outage", processes=3, steps=60, targets_max=2, faults=3),
    # Long enough that the sliding arrays compact their storage.
    Shape(
        name="long",
        processes=3,
        steps=400,
        targets_max=2,
        arrivals_max=3,
        faults=1,
        schedules=10,
    ),
]


class FrameValue(NamedTuple):
    """A transmitted frame, by value."""

    target: int
    kind: str
    number: int
    second: int = 0
    permitted: bool = False
    payload: bytes = b""
    is_retransmission: bool = False

    @staticmethod
    def of(transmit: Transmit) -> "FrameValue":
        target, frame = transmit.target, transmit.frame
        if isinstance(frame, MessageFrame):
            return FrameValue(
                target,
                "message",
                frame.number,
                frame.predecessor,
                frame.permitted,
                frame.payload,
                transmit.is_retransmission,
            )
        if isinstance(frame, Ack):
            return FrameValue(target, "ack", frame.delivered, frame.arrived)
        if isinstance(frame, Permit):
            return FrameValue(target, "permit", frame.number)
        assert isinstance(frame, PermitRequest)
        return FrameValue(target, "request", frame.number)


class Packet(NamedTuple):
    """A frame in flight."""

    source: ProcessId
    target: ProcessId
    frame: Frame


class Divergence(AssertionError):
    """The two processes of a pair have different outputs."""


class Steppable(Protocol):
    """What a run needs of both processes of a pair."""

    def send(self, targets: Sequence[ProcessId], payload: bytes, now: float) -> int: ...

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None: ...

    def handle_timer(self, now: float) -> None: ...

    def next_timer(self) -> float | None: ...


class Lockstep(ABC):
    """Pairs of processes, and the packets in flight."""

    def __init__(self, pairs: Mapping[ProcessId, tuple[Steppable, Steppable]]) -> None:
        self.pairs = pairs
        self.ids = list(pairs)
        self.in_flight: list[Packet] = []
        self.now = 0.0

    @abstractmethod
    def compare(self, id: ProcessId) -> None:
        """Raise Divergence if the outputs of a pair differ; add them to the packets."""

    def input(self, id: ProcessId, call: Callable[[Steppable], object]) -> None:
        """Give both processes of a pair the same input, and compare their outputs."""
        for process in self.pairs[id]:
            call(process)
        self.compare(id)

    def apply(self, step: Step) -> None:
        """Apply ``step`` to both processes; raise Divergence if their outputs differ."""
        if step.action == "send":
            self.send(self.ids[step.pick], [self.ids[t] for t in step.targets])
        elif step.action == "wait":
            self.wait(step.pick * TICK_S)
        elif self.in_flight:
            index = step.pick % len(self.in_flight)
            if step.action == "duplicate":
                self.in_flight.append(self.in_flight[index])
                return
            source, target, frame = self.in_flight.pop(index)
            if step.action == "arrive":
                self.input(target, lambda each: each.receive(source, frame, self.now))

    def send(self, source: ProcessId, targets: list[ProcessId]) -> None:
        """Send a message."""
        self.input(source, lambda each: each.send(targets, b"payload", self.now))

    def wait(self, seconds: float) -> None:
        """Let time pass, and call ``handle_timer`` of all processes, due or not."""
        self.now += seconds
        for member in self.ids:
            self.input(member, lambda each: each.handle_timer(self.now))

    def run_until_idle(self, random: Random) -> None:
        """Run without faults until idle."""
        for _ in range(IDLE_STEPS_MAX):
            if self.in_flight:
                self.apply(Step("arrive", random.randrange(len(self.in_flight))))
                continue
            timers = [process.next_timer() for process, _ in self.pairs.values()]
            due = min((timer for timer in timers if timer is not None), default=None)
            if due is None:
                return
            self.wait(max(due - self.now, 0.0))
        raise AssertionError(f"not idle after {IDLE_STEPS_MAX} steps")


def as_tuple(delivery: Delivery) -> tuple[int, int, bytes]:
    return delivery.source, delivery.number, delivery.payload
