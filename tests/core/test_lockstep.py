"""Lockstep: the indexed protocols do at every step exactly what the naive rule says.

An indexed process and a naive one stand at each place of a network and get the same
inputs. After every step they must have transmitted the same frames, delivered the same
messages in the same order, and wait for the same time. The first difference ends the run,
so all that is ever in flight was transmitted by both, and one list of it serves both.

A schedule is a list of steps that make sense whatever is in flight, so any part of a
schedule is one too: a failure prints the schedule, and ``run`` replays it.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core.codec import Frame
from antecede.core.config import ProcessConfig
from antecede.core.process import Delivery, Process, ProcessId, Transmit
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.registry import protocol
from antecede.core.support.retransmission import RetransmissionPolicy
from tests.core.naive_sps import Copy, NaiveProcess, Sent

TIMEOUT_S = 1.0
TICK_S = 0.25
"""Both are exact in binary, so deadlines can be compared with ``==``."""
POLICY = RetransmissionPolicy(initial_s=TIMEOUT_S, minimum_s=TIMEOUT_S, maximum_s=TIMEOUT_S)
"""The time-out neither learns nor doubles: the rule says nothing of either."""
IDLE_STEPS_MAX = 10_000
CONSERVATIVE = {"hybrid": False, "hybrid-basic": True}


class Step(NamedTuple):
    """One thing that happens."""

    action: str
    """One of send, arrive, lose, duplicate, wait."""
    pick: int
    """The sender; the packet, counted modulo those in flight; or how many ticks."""
    targets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What kind of schedule to draw, and how many."""

    name: str
    processes: int
    steps: int
    targets_max: int
    to_itself: bool = True
    """A process may be among its own targets."""
    arrivals_max: int = 6
    """How many arrivals there are for two sends, at most; each schedule draws its own."""
    faults: int = 0
    """How many losses, how many duplicates and how many waits there are for two sends."""
    schedules: int = 200 if "ANTECEDE_MUTANT" in os.environ else 1000
    """A mutant is caught by fewer; the hunt runs these tests for every one of them."""

    def __str__(self) -> str:
        return self.name

    def draw(self, seed: int) -> list[Step]:
        """Draw the schedule of ``seed``."""
        random = Random(seed)
        actions = ["send", "arrive", "lose", "duplicate", "wait"]
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
        places = [p for p in range(self.processes) if self.to_itself or p != source]
        count = random.randint(1, self.targets_max)
        return Step(action, source, tuple(random.choices(places, k=count)))


SHAPES = [
    Shape(name="unicast", processes=3, steps=70, targets_max=1, to_itself=False),
    Shape(name="multicast", processes=4, steps=50, targets_max=4),
    Shape(name="unicast-faults", processes=3, steps=80, targets_max=1, faults=1),
    Shape(name="multicast-faults", processes=4, steps=60, targets_max=3, faults=1),
    Shape(name="multicast-outage", processes=3, steps=60, targets_max=2, faults=3),
    # Long enough for the windows of the indexed protocols to move their storage.
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
MULTICAST_FAULTS = SHAPES[3]


class Line(NamedTuple):
    """A transmitted frame, by value."""

    target: int
    kind: str
    number: int
    second: int = 0
    permitted: bool = False
    payload: bytes = b""
    is_retransmission: bool = False

    @staticmethod
    def of(transmit: Transmit) -> "Line":
        target, frame = transmit.target, transmit.frame
        if isinstance(frame, MessageFrame):
            return Line(
                target,
                "message",
                frame.number,
                frame.predecessor,
                frame.permitted,
                frame.payload,
                transmit.is_retransmission,
            )
        if isinstance(frame, Ack):
            return Line(target, "ack", frame.delivered, frame.arrived)
        if isinstance(frame, Permit):
            return Line(target, "permit", frame.number)
        assert isinstance(frame, PermitRequest)
        return Line(target, "request", frame.number)


class Packet(NamedTuple):
    """A frame in flight."""

    source: ProcessId
    target: ProcessId
    frame: Frame


class Divergence(AssertionError):
    """The two processes at one place did different things."""


class Network:
    """A naive and an indexed process at each place, and what is in flight between them."""

    def __init__(self, name: str, processes: int, naive: type[NaiveProcess]) -> None:
        info = protocol(name)
        conservative = CONSERVATIVE[name]
        places = [ProcessId(place) for place in range(processes)]
        self.indexed: list[Process] = [
            info.make(place, ProcessConfig(policy=POLICY)) for place in places
        ]
        self.naive = [
            naive(place, conservative=conservative, timeout_s=TIMEOUT_S) for place in places
        ]
        self.in_flight: list[Packet] = []
        self.now = 0.0
        self.owed: Counter[tuple[int, int, int]] = Counter()
        """How often (target, source, number) was sent and not delivered."""

    def take(self, step: Step) -> None:
        """Let ``step`` happen at both; raise Divergence unless they do the same."""
        if step.action == "send":
            self._send(ProcessId(step.pick), [ProcessId(t) for t in step.targets])
        elif step.action == "wait":
            self.wait(step.pick * TICK_S)
        elif self.in_flight:
            index = step.pick % len(self.in_flight)
            if step.action == "duplicate":
                self.in_flight.append(self.in_flight[index])
                return
            source, target, frame = self.in_flight.pop(index)
            if step.action == "arrive":
                self.indexed[target].receive(source, frame, self.now)
                self.naive[target].receive(source, frame, self.now)
                self._compare(target)

    def wait(self, seconds: float) -> None:
        """Let time pass; timers that come due meanwhile are late, early calls harmless."""
        self.now += seconds
        for process in self.indexed:
            process.handle_timer(self.now)
            self.naive[process.id].handle_timer(self.now)
            self._compare(process.id)

    def run_until_idle(self, random: Random) -> None:
        """Come to rest on a perfect network, with everything delivered once."""
        for _ in range(IDLE_STEPS_MAX):
            if self.in_flight:
                self.take(Step("arrive", random.randrange(len(self.in_flight))))
                continue
            timers = [process.next_timer() for process in self.indexed]
            due = min((timer for timer in timers if timer is not None), default=None)
            if due is None:
                assert not +self.owed, f"sent and never delivered: {+self.owed}"
                return
            self.wait(max(due - self.now, 0.0))
        raise AssertionError(f"not at rest after {IDLE_STEPS_MAX} steps")

    def _send(self, source: ProcessId, targets: list[ProcessId]) -> None:
        number = len(self.naive[source].sent) + 1
        payload = b"%d:%d" % (source, number)
        self.owed.update((target, source, number) for target in set(targets))
        for process in (self.indexed[source], self.naive[source]):
            assert process.send(targets, payload, self.now) == number
        self._compare(source)

    def _compare(self, id: ProcessId) -> None:
        indexed, naive = self.indexed[id], self.naive[id]
        transmits = [(Line.of(t), t.frame) for t in indexed.frames_to_transmit()]
        transmits.sort(key=lambda pair: pair[0])
        lines = [line for line, _ in transmits]
        lines_naive = sorted(map(Line.of, naive.frames_to_transmit()))
        deliveries = [as_tuple(d) for d in indexed.messages_to_deliver()]
        deliveries_naive = [as_tuple(d) for d in naive.messages_to_deliver()]
        timer, timer_naive = indexed.next_timer(), naive.next_timer()
        if (lines, deliveries, timer) != (lines_naive, deliveries_naive, timer_naive):
            raise Divergence(
                f"process {id} at {self.now} s\n"
                f"  indexed: {show(lines)}, delivers {deliveries}, timer {timer}\n"
                f"  naive:   {show(lines_naive)}, delivers {deliveries_naive},"
                f" timer {timer_naive}"
            )
        for source, number, _ in deliveries:
            self.owed[id, source, number] -= 1
            assert self.owed[id, source, number] == 0, "delivered twice, or to a stranger"
        for line, frame in transmits:
            self.in_flight.append(Packet(id, ProcessId(line.target), frame))


def as_tuple(delivery: Delivery) -> tuple[int, int, bytes]:
    return delivery.source, delivery.number, delivery.payload


def show(lines: list[Line]) -> str:
    return "".join(f"\n    {line}" for line in lines) or "nothing"


def run(
    name: str,
    processes: int,
    schedule: list[Step],
    naive: type[NaiveProcess] = NaiveProcess,
    settle: int = 0,
) -> None:
    """Run ``schedule`` in lockstep, then settle in an order drawn from ``run_until_idle``."""
    network = Network(name, processes, naive)
    index = 0
    try:
        for index, step in enumerate(schedule):  # noqa: B007 (named in the failure)
            network.take(step)
        index = len(schedule)
        network.run_until_idle(Random(settle))
    except Exception as error:
        error.add_note(f"{name}, {processes} processes, settle={settle}, at step {index}")
        error.add_note("\n".join(map(str, schedule[: index + 1])))
        raise


def divergences(name: str, shape: Shape, naive: type[NaiveProcess]) -> Iterator[bool]:
    """Yield for each seed whether the naive rule differs from ``name`` on its schedule."""
    for seed in range(shape.schedules):
        try:
            run(name, shape.processes, shape.draw(seed), naive, seed)
        except Divergence:
            yield True
        else:
            yield False


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CONSERVATIVE)
def test_does_at_every_step_what_the_naive_rule_says(name: str, shape: Shape) -> None:
    for seed in range(shape.schedules):
        try:
            run(name, shape.processes, shape.draw(seed), settle=seed)
        except Exception as error:
            error.add_note(f"shape {shape}, seed {seed}")
            raise


PROCESSES_MAX = 4
PLACES = st.integers(0, PROCESSES_MAX - 1)
STEPS = st.one_of(
    st.builds(Step, st.just("arrive"), st.integers(0, 20)),
    st.builds(Step, st.just("send"), PLACES, st.lists(PLACES, min_size=1).map(tuple)),
    st.builds(Step, st.sampled_from(["lose", "duplicate"]), st.integers(0, 20)),
    st.builds(Step, st.just("wait"), st.integers(1, 6)),
)


@pytest.mark.parametrize("name", CONSERVATIVE)
@settings(max_examples=200, deadline=None)
@given(schedule=st.lists(STEPS, max_size=80))
def test_no_schedule_that_hypothesis_finds_tells_them_apart(
    name: str, schedule: list[Step]
) -> None:
    run(name, PROCESSES_MAX, schedule)


# Broken rules, each by one sentence.


class PermitsOneTooEarly(NaiveProcess):
    def frontier(self, target: ProcessId) -> int:
        return min(super().frontier(target) + 1, len(self.sent))


class CountsWhatHasNotLeftAsAcked(NaiveProcess):
    def is_acked(self, message: Sent, target: ProcessId) -> bool:
        copy = Copy(target, message.number)
        return copy not in self.transmitted_at or super().is_acked(message, target)


class ForgetsTheOtherCopiesOfTheMessageItself(NaiveProcess):
    def is_permitted(self, copy: Copy) -> bool:
        return copy.number - 1 <= self.frontier(copy.target)


class PermitsOnlyWhatTheTargetHasAcked(NaiveProcess):
    def permit_is_due(self, target: ProcessId) -> bool:
        told, frontier = self.told.get(target, 0), self.frontier(target)
        return any(
            told < copy.number <= frontier and copy in self.acked
            for copy in self.released(target)
        )


class ReleasesDespiteOneMissingPermit(NaiveProcess):
    def may_release(self, message: Sent, target: ProcessId) -> bool:
        others = [s for s, _ in self.missing(message.past) if s != target]
        return len(others) <= 1


class ReleasesAllCopiesTogether(NaiveProcess):
    def may_release(self, message: Sent, target: ProcessId) -> bool:
        return all(super(type(self), self).may_release(message, t) for t in message.targets)


class WaitsForPermitsOfLaterDeliveries(NaiveProcess):
    def may_release(self, message: Sent, target: ProcessId) -> bool:
        return super().may_release(message._replace(past=frozenset(self.past)), target)


class RepeatsTheOldPermittedFlag(NaiveProcess):
    def __init__(self, id: ProcessId, *, conservative: bool, timeout_s: float) -> None:
        super().__init__(id, conservative=conservative, timeout_s=timeout_s)
        self.flags: dict[Copy, bool] = {}

    def is_permitted(self, copy: Copy) -> bool:
        return self.flags.setdefault(copy, super().is_permitted(copy))


class RepeatsWhatIsKnownToHaveArrived(NaiveProcess):
    def is_overdue(self, copy: Copy, now: float) -> bool:
        return now - self.transmitted_at[copy] >= self.timeout_s


class ForgetsPermitsThatOvertake(NaiveProcess):
    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        if isinstance(frame, Permit):
            frame = Permit(min(frame.number, self.delivered.get(source, 0)))
        super().receive(source, frame, now)


class ConservativeOnTheContrary(NaiveProcess):
    def __init__(self, id: ProcessId, *, conservative: bool, timeout_s: float) -> None:
        super().__init__(id, conservative=not conservative, timeout_s=timeout_s)


BROKEN = [
    PermitsOneTooEarly,
    CountsWhatHasNotLeftAsAcked,
    ForgetsTheOtherCopiesOfTheMessageItself,
    PermitsOnlyWhatTheTargetHasAcked,
    ReleasesDespiteOneMissingPermit,
    ReleasesAllCopiesTogether,
    WaitsForPermitsOfLaterDeliveries,
    RepeatsTheOldPermittedFlag,
    RepeatsWhatIsKnownToHaveArrived,
    ForgetsPermitsThatOvertake,
    ConservativeOnTheContrary,
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_lockstep_tells_a_broken_rule_apart(broken: type[NaiveProcess]) -> None:
    assert any(divergences("hybrid", MULTICAST_FAULTS, broken))


def test_lockstep_tells_the_optimal_rule_from_the_conservative_one() -> None:
    assert any(divergences("hybrid-basic", MULTICAST_FAULTS, ConservativeOnTheContrary))


def test_a_failure_shows_the_schedule_and_both_lists_of_frames() -> None:
    schedule = [Step("send", 0, (1,)), Step("send", 0, (1, 2)), Step("arrive", 0)]
    with pytest.raises(Divergence) as failure:
        run("hybrid", 3, schedule, PermitsOneTooEarly)
    assert "indexed:" in str(failure.value)
    assert "naive:" in str(failure.value)
    where, steps = failure.value.__notes__
    assert where == "hybrid, 3 processes, settle=0, at step 1"
    assert steps.count("Step") == 2
