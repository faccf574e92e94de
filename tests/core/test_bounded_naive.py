"""Lockstep: ``bounded`` does what the naive rules of docs/explanation/bounded.md demand.

Each process exists twice, as ``bounded`` and as the naive rules, and both get the same
inputs. After every step they must have released the same copies with the same entries and
wildcards, delivered the same messages, and have the same copies and messages waiting. The
rules must allow the notes, queries and retransmissions. At the end, nothing may be left.
"""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from antecede.core.codec import encode
from antecede.core.config import ProcessConfig
from antecede.core.process import UNBOUNDED, ProcessId, Transmit
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.registry import protocol
from tests.core.bounded_runs import POLICY, hybrid_process, kinds_of, left_over
from tests.core.lockstep_runs import Lockstep, Packet, Shape, Step, Steppable
from tests.core.naive_bounded import NaiveBounded
from tests.core.naive_bounded_outputs import Outputs
from tests.core.naive_bounded_records import (
    EMPTY,
    Content,
    Copy,
    Entry,
    Listing,
    SentWildcard,
    size_of,
)
from tests.core.naive_bounded_rules import Choice

BUDGETS = (5, 8, 16, 32)
IS_MUTANT = "ANTECEDE_MUTANT" in os.environ
SCHEDULES = 40
SCHEDULES_SLOW = SCHEDULES if IS_MUTANT else 500
"""For each shape and budget."""
SHAPES = [
    Shape(name="unicast", processes=4, steps=80, targets_max=1, to_itself=False),
    Shape(name="multicast", processes=5, steps=70, targets_max=3),
    Shape(name="unicast-faults", processes=6, steps=120, targets_max=1, faults=1),
    Shape(name="multicast-faults", processes=5, steps=100, targets_max=3, faults=1),
    Shape(name="outage", processes=3, steps=80, targets_max=2, faults=3),
]
MULTICAST_FAULTS = SHAPES[3]
FIRST_IDS = (0, 126)
"""Ids from 128 have two bytes."""


class Rules(Lockstep):
    """Pairs of a process of ``bounded`` and one of the naive rules."""

    def __init__(
        self,
        processes: int,
        budget: int,
        naive: type[NaiveBounded] = NaiveBounded,
        first_id: int = 0,
        slow: int = -1,
    ) -> None:
        config = ProcessConfig(policy=POLICY, budget_bytes=budget)
        ids = [ProcessId(first_id + index) for index in range(processes)]
        self.indexed = {
            each: hybrid_process(protocol("bounded").make(each, config)) for each in ids
        }
        self.naive = {each: naive(each, budget) for each in ids}
        super().__init__({each: (self.indexed[each], self.naive[each]) for each in ids})
        self.slow = slow
        """The id of a process at which seven of ten arrivals are left out."""
        self.kinds: Counter[str] = Counter()
        self.undelivered: Counter[tuple[int, int, int]] = Counter()
        """The number of undelivered copies for each (target, source, number)."""
        self.transmits: list[Transmit] = []

    def apply(self, step: Step) -> None:
        if step.action == "arrive" and self.in_flight and step.pick // 100 < 7:
            packet = self.in_flight[step.pick % len(self.in_flight)]
            if packet.target == self.slow:
                return
        super().apply(step)

    def send(self, source: ProcessId, targets: list[ProcessId]) -> None:
        number = self.naive[source].last_number + 1
        others = {target for target in targets if target != source}
        self.undelivered.update((target, source, number) for target in others)
        super().send(source, targets)

    def input(self, id: ProcessId, call: Callable[[Steppable], object]) -> None:
        indexed, naive = self.indexed[id], self.naive[id]
        call(indexed)
        self.transmits = indexed.frames_to_transmit()
        naive.choice = Choice()
        for delivery in indexed.messages_to_deliver():
            if delivery.source != id:
                naive.choice.deliveries.append((delivery.source, delivery.number))
                self.undelivered[id, delivery.source, delivery.number] -= 1
        for transmit in self.transmits:
            if isinstance(transmit.frame, MessageFrame) and not transmit.is_retransmission:
                content = Content.of(id, transmit.frame)
                naive.choice.listings[transmit.target, content.number] = content.listing
        call(naive)
        self.compare(id)

    def compare(self, id: ProcessId) -> None:
        naive = self.naive[id]
        Outputs(naive, self.now).check(self.transmits)
        pending = self.indexed[id].pending
        assert sorted((n, t) for n, t, _ in pending.queued_copies(UNBOUNDED)) == sorted(
            (copy.number, copy.target) for copy in naive.copies if copy.is_queued
        )
        assert sorted(pending.in_flight_copies(UNBOUNDED)) == sorted(
            (copy.number, copy.target)
            for copy in naive.copies
            if not copy.is_queued and not copy.is_acked
        )
        assert sorted((s, n) for s, n, _ in pending.held_messages(UNBOUNDED)) == sorted(
            (source, message.number) for source, message in naive.held()
        )
        missing = [(s, n) for s, n, _ in pending.missing_permits(UNBOUNDED)]
        assert sorted(missing) == sorted(naive.missing)
        for transmit in self.transmits:
            check_size(id, transmit)
            self.kinds.update(kinds_of(transmit.frame))
            self.in_flight.append(Packet(id, transmit.target, transmit.frame))

    def run_until_idle(self, random: Random) -> None:
        """Run without faults until idle; nothing may be left over."""
        self.slow = -1
        super().run_until_idle(random)
        assert set(self.undelivered.values()) <= {0}, "lost, or delivered twice"
        for each in self.ids:
            naive = self.naive[each]
            assert left_over(self.indexed[each]) == []
            assert not any((naive.entries, naive.wildcards, naive.missing, naive.held()))
            assert not any((naive.reported, naive.sent_wildcards, naive.owed_clears))
            assert all(copy.is_acked for copy in naive.copies)


def check_size(id: ProcessId, transmit: Transmit) -> None:
    """Check that the naive size of the entries is the number of encoded bytes."""
    frame = transmit.frame
    if isinstance(frame, MessageFrame):
        listing = Content.of(id, frame).listing
        plain = MessageFrame(frame.number, frame.predecessor, False, frame.payload)
        added = len(encode([frame])) - len(encode([plain]))
        assert size_of(listing, frame.number) == added, frame


def follow(rules: Rules, schedule: Sequence[Step], seed: int, name: str) -> None:
    """Apply a schedule, and run until idle; note in a failure where it happened."""
    index = 0
    try:
        for index, step in enumerate(schedule):  # noqa: B007 (named in the failure)
            rules.apply(step)
        index = len(schedule)
        rules.run_until_idle(Random(seed))
    except Exception as error:
        error.add_note(f"{name}, seed {seed}, at step {index}")
        raise


def run(
    budget: int, shape: Shape, seed: int, naive: type[NaiveBounded] = NaiveBounded
) -> Counter[str]:
    """Run a schedule in lockstep, then until idle, and return the kinds of frames."""
    first_id = FIRST_IDS[seed % 2]
    slow = first_id if seed % 3 == 0 else -1
    rules = Rules(shape.processes, budget, naive, first_id, slow)
    schedule = shape.draw(seed)
    follow(rules, schedule, seed, f"budget {budget}, shape {shape}")
    return rules.kinds


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_step_follows_the_naive_rules(budget: int, shape: Shape) -> None:
    for seed in range(SCHEDULES):
        run(budget, shape, seed)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_step_of_many_schedules_follows_the_naive_rules(
    budget: int, shape: Shape
) -> None:
    for seed in range(SCHEDULES, SCHEDULES + SCHEDULES_SLOW):
        run(budget, shape, seed)


def test_the_schedules_use_every_rule() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        kinds += run(8, MULTICAST_FAULTS, seed) + run(5, MULTICAST_FAULTS, seed)
    for kind in ("own", "inherited", "wildcard", "opaque", "Permit", "PermitRequest"):
        assert kinds[kind] > SCHEDULES, kind
    for kind in ("Settled", "Query", "SettledAck"):
        assert kinds[kind] > SCHEDULES // 4, kind


def test_absence_says_nothing_of_what_the_process_has_reported_itself() -> None:
    """Random schedules hardly ever do this.

    Process 1 reports the entries (3, 4, 1) and (5, 6, 1) to process 0, which sends 0:1 to 7
    and 8. Each copy needs 3 + 3 + 2 bytes, and there is room for 7: they are queued. Then
    process 2 reports (3, 4, 3) to process 0, which reports it to process 1. So process 1
    does not list the pair on 1:2 to process 0, although (3, 4, 1) is not settled.
    """
    rules = Rules(9, 9)
    for source, targets in (
        (3, [4]),
        (3, [1]),
        (5, [6]),
        (5, [1]),
        (1, [0]),
        (0, [7, 8]),
        (3, [4]),
        (3, [2]),
        (2, [0]),
        (0, [1]),
        (1, [0]),
    ):
        rules.send(ProcessId(source), [ProcessId(target) for target in targets])
        while arrivals := [
            index
            for index, packet in enumerate(rules.in_flight)
            if packet.target not in (4, 6)
        ]:
            rules.apply(Step("arrive", arrivals[0]))
    queued = rules.indexed[ProcessId(0)].pending.queued_copies(UNBOUNDED)
    assert [(number, target) for number, target, _ in queued] == [(1, 7), (1, 8)]
    rules.run_until_idle(Random(0))


# Broken rules.


class IgnoresPositions(NaiveBounded):
    def inherited_entries(self, copy: Copy) -> set[Entry]:
        return super().inherited_entries(replace(copy, sent_at=self.deliveries))


class ListsNoCopiesOfTheSameMessage(NaiveBounded):
    def own_entries(self, copy: Copy) -> set[Entry]:
        return super().own_entries(replace(copy, number=copy.number - 1))


class ListsWhatTheTargetReported(NaiveBounded):
    def add_entry(self, reporter: int, entry: Entry, now: float) -> None:
        super().add_entry(reporter, entry, now)
        for kept in self.entries:
            del kept.reporters[1:]


class HasOneMoreByte(NaiveBounded):
    def fits(self, listing: Listing, copy: Copy) -> bool:
        return size_of(listing, copy.number) <= self.budget_bytes + 1


class SettlesNothingByAbsence(NaiveBounded):
    def use_absence(self, source: int, message: Content) -> None:
        pass


class ClearsWithoutAcks(NaiveBounded):
    def is_cleared(self, sent: SentWildcard) -> bool:
        return super().is_cleared(sent._replace(number=0))


class ClearsAfterLaterEntries(NaiveBounded):
    def is_cleared(self, sent: SentWildcard) -> bool:
        return super().is_cleared(sent._replace(sent_at=self.deliveries))


class WaitsForNoWildcard(NaiveBounded):
    def must_wait(self, copy: Copy) -> bool:
        kept, self.wildcards = self.wildcards, []
        waits = super().must_wait(copy)
        self.wildcards = kept
        return waits


class DeliversBeforeTheEntries(NaiveBounded):
    def may_deliver(self, source: int, message: Content) -> bool:
        return super().may_deliver(source, message._replace(listing=EMPTY))


BROKEN = [
    IgnoresPositions,
    ListsNoCopiesOfTheSameMessage,
    ListsWhatTheTargetReported,
    HasOneMoreByte,
    SettlesNothingByAbsence,
    ClearsWithoutAcks,
    ClearsAfterLaterEntries,
    WaitsForNoWildcard,
    DeliversBeforeTheEntries,
]


def differs(seed: int, broken: type[NaiveBounded]) -> bool:
    """Return whether a broken rule differs from ``bounded`` on a schedule."""
    try:
        run(8, MULTICAST_FAULTS, seed, broken)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_lockstep_detects_a_broken_rule(broken: type[NaiveBounded]) -> None:
    assert any(differs(seed, broken) for seed in range(5 * SCHEDULES))
