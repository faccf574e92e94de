"""The online verifier finds what the oracle finds, and nothing that is false."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from antecede.errors import TraceError
from antecede.trace import Event, Kind
from antecede.trace.table import events_to_table
from antecede.verify import MessageId, Property, verify_events
from antecede.verify.online.state import load_state, save_state
from antecede.verify.online.status import (
    ONLINE_PROPERTIES,
    OnlineViolation,
    determine_online_statuses,
)
from antecede.verify.online.verifier import OnlineVerifier
from antecede.verify.verdict import Status
from tests.verify.test_verifier import (
    CAUSAL,
    FIFO,
    NO_CREATION,
    NO_DUPLICATION,
    ViolationKey,
    arbitrary_run,
    broadcast,
    cluster_run,
    corrupt,
    deliver,
    keys,
    message_of,
    send,
)

LONG = 1e9
"""A delay within which nothing is given up."""


def random_run(random: Random, steps_max: int = 120) -> list[Event]:
    """Return a run with unicasts, multicasts and broadcasts, and some corruptions."""
    make = random.choice([arbitrary_run, arbitrary_run, cluster_run])
    run: list[Event] = make(
        random,
        random.randint(2, 11),
        random.randint(1, steps_max),
        random.choice([1, 1, 2, 4]),
    )
    if random.random() < 0.3:
        run = [
            replace(event, targets=None)
            if event.kind is Kind.SEND and random.random() < 0.5
            else event
            for event in run
        ]
    for _ in range(random.choice([0, 0, 1, 2, 5])):
        corrupt(random, run)
    return run


def rows(run: list[Event], order: list[int] | None = None) -> pa.Table:
    """Return rows of a run, in this order of their positions in the run."""
    table = events_to_table(run, "r")
    if order is not None:
        table = table.take(pa.array(order, pa.int64()))
    kinds = table.column("kind").combine_chunks().dictionary_encode()
    return table.set_column(table.schema.get_field_index("kind"), "kind", kinds)


def batches(table: pa.Table, random: Random, rows_max: int) -> Iterator[pa.Table]:
    start = 0
    while start < table.num_rows:
        count = random.randint(1, rows_max)
        yield table.slice(start, count).combine_chunks()
        start += count


def expected(run: list[Event]) -> Counter[ViolationKey]:
    """Return the violations of the oracle; an early delivery counts once."""
    found = keys(verify_events(run, complete=False).violations)
    return Counter({key: 1 if key[0] in (CAUSAL, FIFO) else n for key, n in found.items()})


def found_keys(found: list[OnlineViolation]) -> Counter[ViolationKey]:
    return Counter((each.property, each.process, each.message) for each in found)


def check_pairs(run: list[Event], found: list[OnlineViolation]) -> None:
    """Check that the oracle finds the same pairs, and that the chains are true."""
    pairs = {
        (each.property, each.process, each.message, each.chain[0])
        for each in verify_events(run, complete=False).violations
        if each.chain
    }
    known: dict[int, set[MessageId]] = {}
    before: dict[MessageId, set[MessageId]] = {}
    for event in run:
        if event.kind in (Kind.SEND, Kind.DELIVER):
            own = known.setdefault(event.process, set())
            if event.kind is Kind.SEND:
                before[message_of(event)] = set(own)
            own.add(message_of(event))
    for each in found:
        if each.earlier is not None:
            assert (each.property, each.process, each.message, each.earlier) in pairs
            assert (each.chain[0], each.chain[-1]) == (each.earlier, each.message)
            for one, next_one in pairwise(each.chain):
                assert one in before[next_one]


def test_the_online_verifier_agrees_with_the_oracle_in_any_order_of_arrival() -> None:
    violated: Counter[Property] = Counter()
    invalid = 0
    for seed in range(200):
        random = Random(seed)
        run = random_run(random)
        order = random.sample(range(len(run)), len(run))
        verifier = OnlineVerifier(LONG)
        found: list[OnlineViolation] = []
        try:
            for batch in batches(rows(run, order), random, len(run)):
                found += verifier.add(batch.to_batches(), 0.0)
                if random.random() < 0.5:
                    found += verifier.advance(0.0)
                if random.random() < 0.5:
                    verifier = load_state(save_state(verifier))
            found += verifier.finish()
        except TraceError:
            invalid += 1
            with pytest.raises(TraceError):
                verify_events(run)
            continue
        assert found_keys(found) == expected(run), seed
        check_pairs(run, found)
        counters = verifier.counters
        assert (counters.events, counters.late, counters.repeated) == (len(run), 0, 0)
        for which in ONLINE_PROPERTIES:
            count = sum(each.property is which for each in found)
            assert counters.violated[which.value] == count
        if not any(counters.unknown.values()):
            statuses = determine_online_statuses(counters, has_ended=True)
            for which, status in statuses.items():
                assert (status is Status.HELD) == (not counters.violated[which.value])
        violated.update(each.property for each in found)
    # The agreement means little unless there are runs of all kinds.
    assert invalid
    assert set(violated) == set(ONLINE_PROPERTIES)
    assert min(violated.values()) > 20


def lossy_order(random: Random, run: list[Event]) -> list[int]:
    """Return the positions of the events in the order of arrival, some never or twice."""
    spread = random.choice([0, 5, 30, 200])
    loss = random.choice([0, 0.02, 0.1, 0.3])
    order = sorted(range(len(run)), key=lambda i: i + random.random() * spread)
    arrived = [i for i in order if random.random() >= loss]
    return [i for i in arrived for _ in range(random.choice([1, 1, 1, 2]))]


def ended_at_last_arrival(run: list[Event], order: list[int]) -> list[Event]:
    """Return the run without the events of a process after its last one that arrived."""
    last = {run[i].process: i for i in sorted(set(order))}
    return [event for i, event in enumerate(run) if i <= last.get(event.process, -1)]


def test_no_violation_is_false_and_none_is_held_where_events_are_lost() -> None:
    counts: Counter[str] = Counter()
    for seed in range(250):
        random = Random(seed)
        run = random_run(random)
        try:
            true = expected(run)
        except TraceError:
            continue
        order = lossy_order(random, run)
        delay = random.choice([3.0, 10.0, 50.0])
        verifier = OnlineVerifier(delay)
        found: list[OnlineViolation] = []
        now = 0.0
        for batch in batches(rows(run, order), random, 10):
            found += verifier.add(batch.to_batches(), now)
            now += batch.num_rows
            found += verifier.advance(now)
            if random.random() < 0.3:
                verifier = load_state(save_state(verifier))
        for _ in range(12):
            now += delay / 2
            found += verifier.advance(now)
        checker = verifier.checker
        assert not verifier.waiting
        assert (checker.undelivered, checker.pending, len(checker.retained)) == (0, 0, 0)
        assert not found_keys(found) - true, seed
        try:
            missed = expected(ended_at_last_arrival(run, order)) - found_keys(found)
        except TraceError:
            continue
        statuses = determine_online_statuses(verifier.counters, has_ended=True)
        for which in {key[0] for key in missed}:
            assert statuses[which] is not Status.HELD, (seed, which)
        counts["found"] += len(found)
        counts["missed"] += missed.total()
    assert min(counts.values()) > 100


def feed(
    verifier: OnlineVerifier, run: list[Event], order: list[int], now: float
) -> list[OnlineViolation]:
    """Let some events of a run arrive, and the time pass."""
    found = verifier.add(rows(run, order).to_batches(), now)
    return found + verifier.advance(now)


EARLY = [send(0, 1, 2), send(0, 2, 1), deliver(1, 0, 2), send(1, 1, 2), deliver(2, 1, 1),
    deliver(2, 0, 1)]  # fmt: skip
"""Process 2 delivers 1:1 before 0:1, which happened before it."""


def test_a_violation_is_reported_once_when_the_late_message_is_delivered() -> None:
    verifier = OnlineVerifier(10.0)
    assert not feed(verifier, EARLY, [0, 1, 2, 3, 4], 0.0)
    assert verifier.checker.pending == 1
    (found,) = feed(verifier, EARLY, [5, 5, 4], 1.0)
    assert (found.property, found.process) == (CAUSAL, 2)
    assert (found.message, found.earlier) == (MessageId(1, 1), MessageId(0, 1))
    assert found.format({2: "cat", 0: "ann"}) == (
        "causal: cat delivered 1:1 before ann:1, which happened before it:"
        " ann:1 -> ann:2 -> 1:1"
    )
    assert verifier.checker.pending == 0
    assert verifier.counters.repeated == 2
    assert not verifier.finish()
    statuses = determine_online_statuses(verifier.counters, has_ended=True)
    assert statuses[FIFO] is Status.HELD
    assert statuses[CAUSAL] is Status.VIOLATED


def test_a_copy_that_is_given_up_leaves_the_delivery_unknown() -> None:
    verifier = OnlineVerifier(10.0)
    feed(verifier, EARLY, [0, 1, 2, 3, 4], 0.0)
    assert not verifier.advance(20.0)
    assert verifier.checker.pending == 1
    assert not verifier.advance(20.5)
    counters = verifier.counters
    assert (verifier.checker.pending, counters.lost_copies) == (0, 1)
    assert (counters.unknown["causal"], counters.unknown["fifo"]) == (1, 0)
    # The delivery arrives after all: it cannot be judged any more.
    assert not feed(verifier, EARLY, [5], 21.0)
    assert (counters.unsent, counters.unknown["causal"]) == (1, 2)
    assert counters.violated["causal"] == 0


def test_an_event_in_a_gap_that_was_given_up_is_late() -> None:
    run = [send(0, number, 1) for number in range(1, 5)]
    verifier = OnlineVerifier(10.0)
    feed(verifier, run, [0, 3], 0.0)
    assert (verifier.waiting, verifier.counters.messages) == (1, 1)
    verifier.advance(10.5)
    counters = verifier.counters
    assert (verifier.waiting, counters.messages, counters.missing) == (0, 2, 2)
    feed(verifier, run, [0, 1], 11.0)
    assert (counters.late, counters.repeated) == (1, 1)
    assert determine_online_statuses(counters, has_ended=True)[FIFO] is Status.UNKNOWN


def test_a_first_delivery_in_a_gap_does_not_make_a_second_one_too_late() -> None:
    # Process 2 delivers 0:1 in the gap, then 1:1, then 0:1 again.
    run = [*EARLY[:4], deliver(2, 0, 1), deliver(2, 1, 1), deliver(2, 0, 1)]
    assert {key[0] for key in expected(run)} == {NO_DUPLICATION}
    verifier = OnlineVerifier(10.0)
    found = feed(verifier, run, [0, 1, 2, 3, 5, 6], 0.0)
    assert not found
    assert not verifier.advance(10.5)
    unknown = verifier.counters.unknown
    assert unknown["no-duplication"] == 2
    assert not verifier.advance(100.0)
    assert unknown["causal"] == 1


def test_a_delivery_that_was_given_up_before_its_send_arrived_was_the_first_one() -> None:
    run = [send(0, 1, 2), send(0, 2, 1), deliver(2, 0, 1), deliver(1, 0, 2), send(1, 1, 2),
        deliver(2, 1, 1), deliver(2, 0, 1)]  # fmt: skip
    verifier = OnlineVerifier(10.0)
    feed(verifier, run, [2], 0.0)
    feed(verifier, run, [], 10.5)
    assert verifier.counters.unsent == 1
    assert not feed(verifier, run, [0, 1, 3, 4, 5, 6], 11.0)
    assert not verifier.advance(100.0)


def test_a_process_is_trusted_again_after_a_message_that_follows_the_gap() -> None:
    # The messages 1:1 and 1:2 to process 0 answer 0:2, which it sent after the gap.
    run = [
        send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), send(1, 1, 0), send(1, 2, 0),
        deliver(0, 1, 2), deliver(0, 1, 1),
    ]  # fmt: skip
    verifier = OnlineVerifier(10.0)
    feed(verifier, run, [1, 2, 3, 4, 5, 6], 0.0)
    found = verifier.advance(10.5)
    assert {each.property for each in found} == {CAUSAL, FIFO}
    assert found_keys(found) == expected(run)


def test_a_delivery_without_a_send_is_a_violation_at_the_end_of_a_complete_run() -> None:
    run = [send(0, 1, 1), deliver(1, 0, 1), deliver(1, 0, 9)]
    verifier = OnlineVerifier(10.0)
    assert not feed(verifier, run, [0, 1, 2], 0.0)
    (found,) = verifier.finish()
    assert (found.property, found.message) == (NO_CREATION, MessageId(0, 9))
    assert str(found.format({})).endswith(
        "process 1 delivered 0:9, which was never sent to it"
    )
    verifier = OnlineVerifier(10.0)
    feed(verifier, run, [0, 1, 2], 0.0)
    verifier.advance(10.5)
    assert not verifier.finish()
    assert verifier.counters.unknown["no-creation"] == 1


def test_settled_messages_are_recognized_when_they_are_delivered_again() -> None:
    run = [
        send(0, 1, 1), deliver(1, 0, 1), broadcast(0, 2), deliver(0, 0, 2),
        deliver(1, 0, 2), deliver(1, 0, 1), deliver(2, 0, 1), deliver(1, 0, 2),
    ]  # fmt: skip
    verifier = OnlineVerifier(10.0)
    found = feed(verifier, run, [0, 1, 2, 3, 4], 0.0)
    found += verifier.advance(10.5)
    assert not verifier.checker.retained
    verifier = load_state(save_state(verifier))
    found += feed(verifier, run, [5, 6, 7], 11.0)
    assert found_keys(found) == expected(run)
    with pytest.raises(TraceError, match="message 0:1 is sent twice"):
        feed(verifier, [*run[:1], *run[2:4], send(0, 1, 2)], [3], 12.0)


def test_the_state_of_a_long_run_is_bounded() -> None:
    random = Random(1)
    numbers = dict.fromkeys(range(5), 0)
    in_flight: list[tuple[int, int, int]] = []
    next_seq: dict[int, int] = {}
    verifier = OnlineVerifier(60.0)
    sizes = []
    for minute in range(240):
        run: list[Event] = []
        for _ in range(60):
            source = random.randrange(5)
            numbers[source] += 1
            targets = random.sample(range(5), random.randint(1, 3))
            run.append(send(source, numbers[source], *targets))
            in_flight += [(target, source, numbers[source]) for target in targets]
            for _ in range(min(len(in_flight), random.randint(1, 4))):
                copy = in_flight.pop(random.randrange(len(in_flight)))
                if random.random() < 0.99:
                    run.append(deliver(*copy))
        table = events_to_table(run, "r", next_seq=next_seq)
        kept = [i for i in range(len(run)) if random.random() < 0.99]
        kinds = table.column("kind").combine_chunks().dictionary_encode()
        table = table.set_column(table.schema.get_field_index("kind"), "kind", kinds)
        verifier.add(
            table.take(pa.array(kept)).combine_chunks().to_batches(), 60.0 * minute
        )
        verifier.advance(60.0 * minute)
        sizes.append(len(save_state(verifier)))
    assert verifier.counters.missing > 100
    assert verifier.counters.lost_copies > 100
    assert max(sizes[120:]) < 1.2 * max(sizes[20:120])


def test_the_state_of_another_version_is_refused() -> None:
    data = save_state(OnlineVerifier(1.0))
    for wrong in (b"", b"online-0" + data[8:], data[:4]):
        with pytest.raises(TraceError, match="another version of antecede"):
            load_state(wrong)
