"""Cuts are consistent, the least that contain a guess, and divide a run evenly."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from antecede.pipeline.records import cut_refinement, cuts
from antecede.pipeline.records.cut_refinement import LIMIT, FoundCuts
from antecede.pipeline.records.cuts import NOTHING, CutEvents, close_cuts
from antecede.verify.kernels.slot_map import Longs
from tests.pipeline.local_cuts import local_search


class Step(NamedTuple):
    process: int
    message: int
    is_send: bool


@dataclass
class Run:
    """A run; the position of an event is its number in its process."""

    processes: int
    steps: list[Step]

    def buckets(self, count: int) -> list[CutEvents]:
        """Return the events by bucket of their message."""
        position: dict[int, int] = {}
        at: list[int] = []
        for step in self.steps:
            at.append(position.get(step.process, 0))
            position[step.process] = at[-1] + 1
        both = list(zip(self.steps, at, strict=True))
        sent = {s.message: (s.process, t) for s, t in both if s.is_send}
        found = []
        for bucket in range(count):
            rows = sorted(
                (s.process, t, s.is_send, *sent.get(s.message, (s.process, NOTHING)))
                for s, t in both
                if s.message % count == bucket
            )
            columns = list(zip(*rows, strict=True)) or [()] * 5
            found.append(
                CutEvents(
                    process=np.array(columns[0], np.int32),
                    position=np.array(columns[1], np.int64),
                    is_send=np.array(columns[2], np.bool_),
                    source=np.array(columns[3], np.int32),
                    sent=np.array(columns[4], np.int64),
                )
            )
        return found


def random_run(random: Random, processes: int, events: int) -> Run:
    """Return a run whose messages take any time; some are delivered often, or never."""
    steps: list[Step] = []
    in_flight: list[tuple[int, int]] = []
    for message in range(events):
        if in_flight and random.random() < 0.5:
            steps.append(Step(*in_flight.pop(random.randrange(len(in_flight))), False))
            continue
        is_sent = random.random() < 0.95
        if is_sent:
            steps.append(Step(random.randrange(processes), message, True))
        copies = random.choice((0, 1, 1, 1, 3))
        in_flight += [(random.randrange(processes), message) for _ in range(copies)]
    return Run(processes, steps)


def pipeline_run(processes: int, events: int) -> Run:
    """Return a run in which each process waits for the last event of the one before."""
    steps = []
    for p in range(processes):
        steps += [Step(p, p * events + i, True) for i in range(events)]
        if p + 1 < processes:
            steps.append(Step(p + 1, (p + 1) * events - 1, False))
    return Run(processes, steps)


def alternating_run(processes: int, messages: int) -> Run:
    """Return a run in which one message passes from process to process."""
    steps = []
    for message in range(messages):
        steps.append(Step(message % processes, message, True))
        steps.append(Step((message + 1) % processes, message, False))
    return Run(processes, steps)


def knotted_run(before: int, knots: int, after: int) -> Run:
    """Return a run with a cycle of ``4 * knots`` events: each waits for a later one."""
    steps = list(alternating_run(2, before).steps)
    first = before
    for i in range(knots):
        for p in range(2):
            steps.append(Step(p, first + 2 * min(i + 1, knots - 1) + 1 - p, False))
            steps.append(Step(p, first + 2 * i + p, True))
    first += 2 * knots
    steps += [
        step._replace(message=step.message + first)
        for step in alternating_run(2, after).steps
    ]
    return Run(2, steps)


def random_guess(random: Random, run: Run, count: int) -> Longs:
    """Return cuts as clocks without any relation would give them."""
    found = np.zeros((run.processes, count), np.int64)
    for p in range(run.processes):
        events = sum(step.process == p for step in run.steps)
        found[p] = sorted(random.randint(-1, events) for _ in range(count))
    return found


def sizes_of(run: Run, frontier: Longs) -> list[int]:
    """Return the number of events in each slice."""
    found = [0] * (frontier.shape[1] + 1)
    for bucket in run.buckets(1):
        for p, position in zip(bucket.process, bucket.position, strict=True):
            found[int(np.searchsorted(frontier[p], position))] += 1
    return found


def first_inconsistency(run: Run, frontier: Longs) -> tuple[int, int] | None:
    """Return a cut and a process whose delivery in the cut has no send in it, if any."""
    for bucket in run.buckets(1):
        for i in np.flatnonzero(~bucket.is_send).tolist():
            p, source, sent = bucket.process[i], bucket.source[i], bucket.sent[i]
            has_delivery = frontier[p] >= bucket.position[i]
            wrong = np.flatnonzero(has_delivery & (frontier[source] < sent))
            if len(wrong):
                return int(wrong[0]), int(p)
    return None


def least_cuts(run: Run, guess: Longs) -> Longs:
    """Return the least consistent cuts by the definition, one message at a time."""
    found = guess.copy()
    (bucket,) = run.buckets(1)
    is_changed = True
    while is_changed:
        before = found.copy()
        for i in np.flatnonzero(~bucket.is_send).tolist():
            for cut in range(found.shape[1]):
                if found[bucket.process[i], cut] >= bucket.position[i]:
                    source, sent = bucket.source[i], bucket.sent[i]
                    found[source, cut] = max(found[source, cut], sent)
        is_changed = not np.array_equal(before, found)
    return found


def find(run: Run, guess: Longs, slice_events: int, buckets: int) -> FoundCuts:
    units = np.ones(run.processes, np.int64)
    return local_search(run.buckets(buckets), units, slice_events).find(guess)


def first_wrong_closure(count: int) -> int | None:
    """Return the seed of the first run whose closure is not the least, or None."""
    for seed in range(count):
        random = Random(seed)
        run = random_run(random, random.randint(1, 6), random.randint(1, 60))
        guess = random_guess(random, run, random.randint(0, 5))
        search = local_search(
            run.buckets(random.randint(1, 4)), np.ones(run.processes, np.int64), 1
        )
        (found,), (sizes,), _ = close_cuts(guess[None], search.close)
        if not np.array_equal(found, least_cuts(run, guess)):
            return seed
        if sizes.tolist() != np.cumsum(sizes_of(run, found)).tolist():
            return seed
    return None


def test_the_closure_is_the_least_consistent_cuts_that_contain_the_guess() -> None:
    assert first_wrong_closure(60) is None


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a task does not return the last frontier that it raises": lambda patch: patch.setattr(
        "tests.pipeline.local_cuts.raised_frontiers",
        lambda before, after: cuts.raised_frontiers(before, after)[:, :-1],
    ),
    "a delivery at the frontier is outside": lambda patch: patch.setattr(
        "tests.pipeline.local_cuts.close_locally",
        lambda events, units, frontiers: cuts.close_locally(
            replace(events, position=events.position + 1), units, frontiers
        ),
    ),
    "the first round is the last": lambda patch: patch.setattr(
        "antecede.pipeline.records.cuts.rounds_max", lambda processes: 1
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutation_of_the_closure_is_detected(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS[name](monkeypatch)
    assert first_wrong_closure(60) is not None


SHAPES: dict[str, Run] = {
    "each process waits for the last event of the one before": pipeline_run(6, 150),
    "two processes alternate": alternating_run(2, 500),
    "five processes alternate": alternating_run(5, 500),
    "any order": random_run(Random(3), 6, 1000),
    "one process": random_run(Random(4), 1, 800),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clocks", ["none", "without relation", "far apart"])
def test_no_slice_is_too_large_whatever_the_clocks_show(shape: str, clocks: str) -> None:
    run = SHAPES[shape]
    guess = np.zeros((run.processes, 0), np.int64)
    if clocks == "without relation":
        guess = random_guess(Random(1), run, 20)
    elif clocks == "far apart":  # The clock of each process is behind the next by hours.
        guess = np.zeros((run.processes, 30), np.int64)
        for p in range(run.processes):
            guess[p, : 5 * p] = NOTHING
            guess[p, 5 * p :] = np.arange(30 - 5 * p) * 10
    found = find(run, guess, 50, 3)
    assert first_inconsistency(run, found.frontier) is None
    assert np.all(found.frontier[:, 1:] >= found.frontier[:, :-1])
    assert found.sizes.tolist() == sizes_of(run, found.frontier)
    assert found.sizes.max() <= LIMIT * 50
    # Small slices are joined.
    assert np.all(found.sizes[1:] + found.sizes[:-1] > 50)


def test_a_slice_is_divided_with_few_of_its_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cut_refinement, "CHAINS_MAX", 3)
    run = pipeline_run(20, 30)
    found = find(run, np.zeros((20, 0), np.int64), 50, 2)
    assert first_inconsistency(run, found.frontier) is None
    assert found.sizes.max() <= LIMIT * 50


@pytest.mark.parametrize("guesses", [0, 9])
def test_a_cycle_is_in_one_slice_and_the_events_around_it_are_not(guesses: int) -> None:
    run = knotted_run(400, 100, 400)
    guess = random_guess(Random(5), run, guesses)
    found = find(run, guess, 40, 3)
    assert first_inconsistency(run, found.frontier) is None
    assert found.sizes.tolist() == sizes_of(run, found.frontier)
    # The cycle has 398 events: two of the last messages do not wait for others.
    largest = int(found.sizes.max())
    assert 396 <= largest <= 400 + LIMIT * 40
    assert sorted(found.sizes.tolist())[-2] <= LIMIT * 40


def test_frontiers_of_coarse_timestamps_are_ends_of_intervals() -> None:
    run = random_run(Random(6), 4, 400)
    units = np.array([1, 10, 1, 7], np.int64)
    found = local_search(run.buckets(3), units, 20).find(random_guess(Random(7), run, 8))
    assert first_inconsistency(run, found.frontier) is None
    for process, unit in enumerate(units.tolist()):
        ends = found.frontier[process]
        assert np.all((ends == NOTHING) | ((ends + 1) % unit == 0))
