"""``bounded`` without a budget is ``hybrid``; with an unlimited one it is optimal.

Without a budget, each process exists twice, as ``hybrid`` and as ``bounded``, and both get
the same inputs. After every step they must have transmitted the same frames, delivered the
same messages in the same order, and have the same deadline.

With an unlimited budget, two clusters get the same sends, and each copy arrives in both at
the same step. Then each copy must be delivered at the same step as by ``optimal``, which
delivers as early as causal order allows.
"""

import os
from collections.abc import Iterator
from random import Random

import pytest

from antecede.core.config import ProcessConfig
from antecede.core.process import UNBOUNDED, Process, ProcessId
from antecede.core.protocols.hybrid.dependency_frames import DependentMessage
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.protocols.optimal.optimal import Optimal
from antecede.core.registry import protocol
from antecede.testing import Cluster
from tests.core.bounded_runs import POLICY, bounded_cluster, kinds_of
from tests.core.lockstep_runs import (
    SHAPES,
    Divergence,
    FrameValue,
    Lockstep,
    Packet,
    Shape,
    as_tuple,
)

IS_MUTANT = "ANTECEDE_MUTANT" in os.environ
SCHEDULES = 30 if IS_MUTANT else 100
SCHEDULES_SLOW = SCHEDULES if IS_MUTANT else 2000
"""For each of five shapes."""


class Twins(Lockstep):
    """Pairs of a process of ``hybrid`` and one of ``bounded`` without a budget."""

    def __init__(self, processes: int, budget: int = 0) -> None:
        config = ProcessConfig(policy=POLICY, budget_bytes=budget)
        makers = protocol("hybrid").make, protocol("bounded").make
        self.members: dict[ProcessId, tuple[Process, Process]] = {
            each: (makers[0](each, config), makers[1](each, config))
            for each in map(ProcessId, range(processes))
        }
        super().__init__(self.members)

    def compare(self, id: ProcessId) -> None:
        outputs: list[object] = []
        for process in self.members[id]:
            transmits = process.frames_to_transmit()
            by_target: dict[int, list[FrameValue]] = {}
            for transmit in transmits:
                assert not isinstance(transmit.frame, DependentMessage)
                by_target.setdefault(transmit.target, []).append(FrameValue.of(transmit))
            deliveries = [as_tuple(each) for each in process.messages_to_deliver()]
            outputs.append((by_target, deliveries, process.next_timer()))
        if outputs[0] != outputs[1]:
            raise Divergence(f"{id}: hybrid {outputs[0]}\nbounded {outputs[1]}")
        self.in_flight += [Packet(id, each.target, each.frame) for each in transmits]


def run_twins(shape: Shape, seeds: range, budget: int = 0) -> Iterator[Divergence | None]:
    """Yield for each seed the first difference, or None."""
    for seed in seeds:
        twins = Twins(shape.processes, budget)
        try:
            for step in shape.draw(seed):
                twins.apply(step)
            twins.run_until_idle(Random(seed))
        except Divergence as difference:
            difference.add_note(f"shape {shape}, seed {seed}")
            yield difference
        else:
            yield None


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_without_a_budget_the_outputs_equal_those_of_hybrid(shape: Shape) -> None:
    for difference in run_twins(shape, range(min(SCHEDULES, shape.schedules))):
        assert difference is None


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES[:5], ids=str)
def test_many_schedules_without_a_budget_equal_those_of_hybrid(shape: Shape) -> None:
    for difference in run_twins(shape, range(SCHEDULES_SLOW)):
        assert difference is None


def test_with_a_budget_the_outputs_differ() -> None:
    """The comparison above detects entries."""
    with pytest.raises(AssertionError):
        list(run_twins(SHAPES[1], range(20), budget=32))


class Race:
    """``bounded`` with an unlimited budget, and ``optimal``, on the same network."""

    def __init__(self, processes: int, random: Random) -> None:
        self.random = random
        self.optimal = Cluster("", processes, make=Optimal)
        self.bounded = bounded_cluster(processes, UNBOUNDED)
        self.late: dict[tuple[int, int, int], None] = {}
        """Source, number and target of the copies that have not arrived."""

    def run(self, steps: int, fan_out_max: int) -> None:
        """Run a random schedule, and then until every copy has arrived."""
        random = self.random
        everyone = range(len(self.optimal.processes))
        for _ in range(steps):
            draw = random.random()
            if draw < 0.25:
                source = random.choice(everyone)
                others = [peer for peer in everyone if peer != source]
                count = random.randint(1, min(fan_out_max, len(others)))
                self.send(source, random.sample(others, count))
            elif draw < 0.6 and self.late:
                self.arrive(random.choice(list(self.late)))
            elif draw < 0.65:
                self.bounded.pass_time(random.choice((0.02, 0.5, 2.0)))
            else:
                self.pass_control()
            self.compare()
        while self.late:
            self.arrive(random.choice(list(self.late)))
            self.compare()
        self.bounded.run_until_idle(random)
        assert self.bounded.verdict().held

    def send(self, source: int, targets: list[int]) -> None:
        number = self.optimal.send(source, targets)
        assert self.bounded.send(source, targets) == number
        copies = [(source, number, target) for target in targets]
        assert set(copies) <= self.copies_in_flight().keys(), "a copy waits"
        self.late.update(dict.fromkeys(copies))

    def copies_in_flight(self) -> dict[tuple[int, int, int], list[int]]:
        """Return the indexes of the packets of each copy; there may be retransmissions."""
        found: dict[tuple[int, int, int], list[int]] = {}
        for index, packet in enumerate(self.bounded.in_flight):
            if isinstance(packet.frame, MessageFrame):
                copy = (packet.source, packet.frame.number, packet.target)
                found.setdefault(copy, []).append(index)
        return found

    def arrive(self, copy: tuple[int, int, int]) -> None:
        """Let a copy arrive in both clusters."""
        del self.late[copy]
        source, number, target = copy
        for index, packet in enumerate(self.optimal.in_flight):
            found = (packet.source, packet.frame.message_number(), packet.target)
            if found == copy:
                self.optimal.arrive(index)
                break
        else:
            raise AssertionError(f"{source}:{number} to {target} is not in flight")
        self.bounded.arrive(self.random.choice(self.copies_in_flight()[copy]))

    def pass_control(self) -> None:
        """Let a control frame arrive, or a message again."""
        candidates = [
            index
            for index, packet in enumerate(self.bounded.in_flight)
            if not isinstance(packet.frame, MessageFrame)
            or (packet.source, packet.frame.number, packet.target) not in self.late
        ]
        if candidates:
            self.bounded.arrive(self.random.choice(candidates))

    def compare(self) -> None:
        """Compare the deliveries so far."""
        for index in range(len(self.optimal.processes)):
            ours = set(self.bounded.delivered(index))
            assert ours == set(self.optimal.delivered(index)), f"at process {index}"


@pytest.mark.long
@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_with_an_unlimited_budget_copies_are_delivered_as_early_as_by_optimal(
    fan_out_max: int,
) -> None:
    inherited = 0
    for seed in range(SCHEDULES):
        random = Random(seed)
        race = Race(random.randint(3, 5), random)
        try:
            race.run(random.choice((40, 120)), fan_out_max)
        except AssertionError as error:
            error.add_note(f"seed {seed}, fan-out {fan_out_max}")
            raise
        for event in race.bounded.history:
            inherited += (event.metadata_bytes or 0) > 8
    assert inherited > SCHEDULES


def test_an_optimal_delivery_waits_at_the_target_only() -> None:
    """The copy with an entry leaves at once, and waits for the copy that it names."""
    race = Race(3, Random(1))
    race.send(0, [2])
    race.send(0, [1])
    race.arrive((0, 2, 1))
    race.send(1, [2])
    assert "inherited" in kinds_of(race.bounded.in_flight[-1].frame)
    race.arrive((1, 1, 2))
    race.compare()
    assert race.bounded.delivered(2) == []
    race.arrive((0, 1, 2))
    race.compare()
    assert race.bounded.delivered(2) == [(0, 1), (1, 1)]
