"""Lockstep: the indexed protocols have the same outputs as the naive rule at every step.

Each process of a network exists twice, indexed and naive, and both get the same inputs.
After every step they must have transmitted the same frames, delivered the same messages in
the same order, and have the same deadline.

A failure prints the schedule, and ``run`` replays it.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core.codec import Frame
from antecede.core.config import ProcessConfig
from antecede.core.process import Process, ProcessId
from antecede.core.protocols.hybrid.frames import Permit
from antecede.core.registry import protocol
from antecede.core.support.retransmission import RetransmissionPolicy
from tests.core.lockstep_runs import (
    SHAPES,
    Divergence,
    FrameValue,
    Lockstep,
    Packet,
    Shape,
    Step,
    as_tuple,
)
from tests.core.naive_sps import Copy, NaiveProcess, Sent

TIMEOUT_S = 1.0
"""Exact in binary, so deadlines can be compared with ``==``."""
POLICY = RetransmissionPolicy(initial_s=TIMEOUT_S, minimum_s=TIMEOUT_S, maximum_s=TIMEOUT_S)
"""The timeout neither adapts nor doubles: the rule does not cover that."""
CONSERVATIVE = {"hybrid": False, "hybrid-basic": True}
MULTICAST_FAULTS = SHAPES[3]


class Network(Lockstep):
    """Pairs of an indexed and a naive process."""

    def __init__(self, name: str, processes: int, naive: type[NaiveProcess]) -> None:
        info = protocol(name)
        conservative = CONSERVATIVE[name]
        ids = [ProcessId(index) for index in range(processes)]
        self.indexed: list[Process] = [
            info.make(each, ProcessConfig(policy=POLICY)) for each in ids
        ]
        self.naive = [
            naive(each, conservative=conservative, timeout_s=TIMEOUT_S) for each in ids
        ]
        pairs = zip(self.indexed, self.naive, strict=True)
        super().__init__(dict(zip(ids, pairs, strict=True)))
        self.undelivered: Counter[tuple[int, int, int]] = Counter()
        """The number of undelivered copies for each (target, source, number)."""

    def run_until_idle(self, random: Random) -> None:
        """Run without faults until idle; every message must be delivered once."""
        super().run_until_idle(random)
        assert not +self.undelivered, f"sent and never delivered: {+self.undelivered}"

    def send(self, source: ProcessId, targets: list[ProcessId]) -> None:
        number = len(self.naive[source].sent) + 1
        payload = b"%d:%d" % (source, number)
        self.undelivered.update((target, source, number) for target in set(targets))
        for process in (self.indexed[source], self.naive[source]):
            assert process.send(targets, payload, self.now) == number
        self.compare(source)

    def compare(self, id: ProcessId) -> None:
        indexed, naive = self.indexed[id], self.naive[id]
        transmits = [(FrameValue.of(t), t.frame) for t in indexed.frames_to_transmit()]
        transmits.sort(key=lambda pair: pair[0])
        lines = [line for line, _ in transmits]
        lines_naive = sorted(map(FrameValue.of, naive.frames_to_transmit()))
        deliveries = [as_tuple(d) for d in indexed.messages_to_deliver()]
        deliveries_naive = [as_tuple(d) for d in naive.messages_to_deliver()]
        timer, timer_naive = indexed.next_timer(), naive.next_timer()
        if (lines, deliveries, timer) != (lines_naive, deliveries_naive, timer_naive):
            raise Divergence(
                f"process {id} at {self.now} s\n"
                f"  indexed: {describe(lines)}, delivers {deliveries}, timer {timer}\n"
                f"  naive:   {describe(lines_naive)}, delivers {deliveries_naive},"
                f" timer {timer_naive}"
            )
        for source, number, _ in deliveries:
            self.undelivered[id, source, number] -= 1
            assert self.undelivered[id, source, number] == 0, (
                "delivered twice, or to a wrong process"
            )
        for line, frame in transmits:
            self.in_flight.append(Packet(id, ProcessId(line.target), frame))


def describe(lines: list[FrameValue]) -> str:
    return "".join(f"\n    {line}" for line in lines) or "nothing"


def run(
    name: str,
    processes: int,
    schedule: list[Step],
    naive: type[NaiveProcess] = NaiveProcess,
    order: int = 0,
) -> None:
    """Run ``schedule`` in lockstep, then until idle; ``order`` seeds these arrivals."""
    network = Network(name, processes, naive)
    index = 0
    try:
        for index, step in enumerate(schedule):  # noqa: B007 (named in the failure)
            network.apply(step)
        index = len(schedule)
        network.run_until_idle(Random(order))
    except Exception as error:
        error.add_note(f"{name}, {processes} processes, order={order}, at step {index}")
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
def test_outputs_equal_those_of_the_naive_rule_at_every_step(
    name: str, shape: Shape
) -> None:
    for seed in range(shape.schedules):
        try:
            run(name, shape.processes, shape.draw(seed), order=seed)
        except Exception as error:
            error.add_note(f"shape {shape}, seed {seed}")
            raise


PROCESSES_MAX = 4
MEMBERS = st.integers(0, PROCESSES_MAX - 1)
STEPS = st.one_of(
    st.builds(Step, st.just("arrive"), st.integers(0, 20)),
    st.builds(Step, st.just("send"), MEMBERS, st.lists(MEMBERS, min_size=1).map(tuple)),
    st.builds(Step, st.sampled_from(["drop", "duplicate"]), st.integers(0, 20)),
    st.builds(Step, st.just("wait"), st.integers(1, 6)),
)


@pytest.mark.long
@pytest.mark.parametrize("name", CONSERVATIVE)
@settings(max_examples=200, deadline=None)
@given(schedule=st.lists(STEPS, max_size=80))
def test_hypothesis_finds_no_schedule_with_different_outputs(
    name: str, schedule: list[Step]
) -> None:
    run(name, PROCESSES_MAX, schedule)


# Broken rules.


class PermitsOneTooEarly(NaiveProcess):
    def frontier(self, target: ProcessId) -> int:
        return min(super().frontier(target) + 1, len(self.sent))


class CountsUnreleasedAsAcked(NaiveProcess):
    def is_acked(self, message: Sent, target: ProcessId) -> bool:
        copy = Copy(target, message.number)
        return copy not in self.transmitted_at or super().is_acked(message, target)


class IgnoresOtherCopiesOfTheMessage(NaiveProcess):
    def is_permitted(self, copy: Copy) -> bool:
        return copy.number - 1 <= self.frontier(copy.target)


class PermitsOnlyAckedCopies(NaiveProcess):
    def permit_is_due(self, target: ProcessId) -> bool:
        granted, frontier = self.granted.get(target, 0), self.frontier(target)
        return any(
            granted < copy.number <= frontier and copy in self.acked
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


class RetransmitsTheOldFlag(NaiveProcess):
    def __init__(self, id: ProcessId, *, conservative: bool, timeout_s: float) -> None:
        super().__init__(id, conservative=conservative, timeout_s=timeout_s)
        self.flags: dict[Copy, bool] = {}

    def is_permitted(self, copy: Copy) -> bool:
        return self.flags.setdefault(copy, super().is_permitted(copy))


class RetransmitsArrivedCopies(NaiveProcess):
    def is_overdue(self, copy: Copy, now: float) -> bool:
        return now - self.transmitted_at[copy] >= self.timeout_s


class ForgetsPermitsThatOvertake(NaiveProcess):
    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        if isinstance(frame, Permit):
            frame = Permit(min(frame.number, self.delivered.get(source, 0)))
        super().receive(source, frame, now)


class SwapsTheRules(NaiveProcess):
    def __init__(self, id: ProcessId, *, conservative: bool, timeout_s: float) -> None:
        super().__init__(id, conservative=not conservative, timeout_s=timeout_s)


BROKEN = [
    PermitsOneTooEarly,
    CountsUnreleasedAsAcked,
    IgnoresOtherCopiesOfTheMessage,
    PermitsOnlyAckedCopies,
    ReleasesDespiteOneMissingPermit,
    ReleasesAllCopiesTogether,
    WaitsForPermitsOfLaterDeliveries,
    RetransmitsTheOldFlag,
    RetransmitsArrivedCopies,
    ForgetsPermitsThatOvertake,
    SwapsTheRules,
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_lockstep_detects_a_broken_rule(broken: type[NaiveProcess]) -> None:
    assert any(divergences("hybrid", MULTICAST_FAULTS, broken))


def test_lockstep_distinguishes_the_optimal_from_the_conservative_rule() -> None:
    assert any(divergences("hybrid-basic", MULTICAST_FAULTS, SwapsTheRules))


def test_failure_prints_the_schedule_and_both_lists_of_frames() -> None:
    schedule = [Step("send", 0, (1,)), Step("send", 0, (1, 2)), Step("arrive", 0)]
    with pytest.raises(Divergence) as failure:
        run("hybrid", 3, schedule, PermitsOneTooEarly)
    assert "indexed:" in str(failure.value)
    assert "naive:" in str(failure.value)
    where, steps = failure.value.__notes__
    assert where == "hybrid, 3 processes, order=0, at step 1"
    assert steps.count("Step") == 2
