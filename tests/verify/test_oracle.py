"""The reference oracle, on small runs worked out by hand and against brute force."""

from collections import Counter
from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.errors import TraceError
from antecede.trace import Event, Kind
from antecede.verify import MessageId, Property, Verdict, Violation, verify_events

CAUSAL, FIFO = Property.CAUSAL, Property.FIFO
NO_DUPLICATION, NO_CREATION = Property.NO_DUPLICATION, Property.NO_CREATION
LIVENESS = Property.LIVENESS


def send(source: int, number: int, *targets: int) -> Event:
    return Event(
        process=source, kind=Kind.SEND, source=source, number=number, targets=targets
    )


def event_at(kind: Kind, process: int, source: int, number: int) -> Event:
    return Event(process=process, kind=kind, source=source, number=number, target=process)


def deliver(process: int, source: int, number: int) -> Event:
    return event_at(Kind.DELIVER, process, source, number)


def message(text: str) -> MessageId:
    source, number = text.split(":")
    return MessageId(int(source), int(number))


def chain(text: str) -> tuple[MessageId, ...]:
    return tuple(message(part) for part in text.split())


def violation(which: Property, process: int, early: str, via: str = "") -> Violation:
    return Violation(
        property=which, process=process, message=message(early), chain=chain(via)
    )


# Figure 1: process 1 delivers a, sends c, delivers b, and only then releases c. The other
# target of all three is process 3.
FIGURE_1 = [
    send(0, 1, 1, 3),  # a
    send(2, 1, 1, 3),  # b
    event_at(Kind.ARRIVE, 1, 0, 1),
    event_at(Kind.ARRIVE, 1, 2, 1),
    deliver(1, 0, 1),
    send(1, 1, 3),  # c
    deliver(1, 2, 1),
    Event(process=1, kind=Kind.RELEASE, source=1, number=1, target=3),
]


def test_a_delivery_between_send_and_release_is_not_in_the_past() -> None:
    c_before_b = [deliver(3, 0, 1), deliver(3, 1, 1), deliver(3, 2, 1)]
    assert verify_events(FIGURE_1 + c_before_b).held


def test_a_delivery_before_the_send_is_in_the_past() -> None:
    c_before_a = [deliver(3, 1, 1), deliver(3, 0, 1), deliver(3, 2, 1)]
    assert verify_events(FIGURE_1 + c_before_a).violations == (
        violation(CAUSAL, 3, "1:1", "0:1 1:1"),
    )


def test_the_same_delivery_just_before_the_send_is_in_the_past() -> None:
    sent, delivered = FIGURE_1[5], FIGURE_1[6]
    run = [*FIGURE_1[:5], delivered, sent, *FIGURE_1[7:]]
    c_before_b = [deliver(3, 0, 1), deliver(3, 1, 1), deliver(3, 2, 1)]
    assert verify_events(run + c_before_b).violations == (
        violation(CAUSAL, 3, "1:1", "2:1 1:1"),
    )


def test_a_fifo_violation_is_a_causal_violation_too() -> None:
    run = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), deliver(1, 0, 1)]
    assert verify_events(run).violations == (
        violation(CAUSAL, 1, "0:2", "0:1 0:2"),
        violation(FIFO, 1, "0:2", "0:1 0:2"),
    )


def test_order_counts_only_at_a_process_that_delivers_both() -> None:
    run = [send(0, 1, 1), send(0, 2, 2), deliver(2, 0, 2), deliver(1, 0, 1)]
    assert verify_events(run).held


def test_order_is_that_of_the_sends_and_not_of_the_numbers() -> None:
    run = [send(0, 2, 1), send(0, 1, 1)]
    assert verify_events([*run, deliver(1, 0, 2), deliver(1, 0, 1)]).held
    wrong = verify_events([*run, deliver(1, 0, 1), deliver(1, 0, 2)])
    assert wrong.violated() == {CAUSAL, FIFO}


def test_a_chain_through_three_processes_is_found_and_shown() -> None:
    run = [
        send(0, 1, 2),
        send(0, 2, 1),
        deliver(1, 0, 2),
        send(1, 1, 2),
    ]
    right = [deliver(2, 0, 1), deliver(2, 1, 1)]
    assert verify_events(run + right).held
    assert verify_events(run + right[::-1]).violations == (
        violation(CAUSAL, 2, "1:1", "0:1 0:2 1:1"),
    )


def test_a_chain_through_four_processes_is_found_and_shown() -> None:
    run = [
        send(0, 1, 3),
        send(0, 2, 1),
        deliver(1, 0, 2),
        send(1, 1, 2),
        deliver(2, 1, 1),
        send(2, 1, 3),
    ]
    right = [deliver(3, 0, 1), deliver(3, 2, 1)]
    assert verify_events(run + right).held
    assert verify_events(run + right[::-1]).violations == (
        violation(CAUSAL, 3, "2:1", "0:1 0:2 1:1 2:1"),
    )


def test_a_chain_with_one_link_reversed_is_not_a_chain() -> None:
    # As before, but process 1 sends before it delivers: 0:1 and 2:1 are concurrent.
    run = [
        send(0, 1, 3),
        send(0, 2, 1),
        send(1, 1, 2),
        deliver(1, 0, 2),
        deliver(2, 1, 1),
        send(2, 1, 3),
    ]
    assert verify_events([*run, deliver(3, 2, 1), deliver(3, 0, 1)]).held


def test_every_overtaken_message_is_reported() -> None:
    run = [send(0, 1, 1), send(0, 2, 1), send(0, 3, 1)]
    verdict = verify_events([*run, deliver(1, 0, 3), deliver(1, 0, 1), deliver(1, 0, 2)])
    assert verdict.violations == (
        violation(CAUSAL, 1, "0:3", "0:1 0:3"),
        violation(FIFO, 1, "0:3", "0:1 0:3"),
        violation(CAUSAL, 1, "0:3", "0:2 0:3"),
        violation(FIFO, 1, "0:3", "0:2 0:3"),
    )


def test_a_multicast_is_ordered_at_every_target_including_its_sender() -> None:
    # 1 answers 0's multicast with one of its own: 0 must deliver its own message first.
    run = [send(0, 1, 0, 1), deliver(1, 0, 1), send(1, 1, 0, 1), deliver(1, 1, 1)]
    assert verify_events([*run, deliver(0, 0, 1), deliver(0, 1, 1)]).held
    assert verify_events([*run, deliver(0, 1, 1), deliver(0, 0, 1)]).violations == (
        violation(CAUSAL, 0, "1:1", "0:1 1:1"),
    )


def test_an_own_message_and_a_concurrent_one_may_be_delivered_in_any_order() -> None:
    run = [send(0, 1, 0, 1), send(1, 1, 0, 1), deliver(1, 1, 1), deliver(1, 0, 1)]
    assert verify_events([*run, deliver(0, 1, 1), deliver(0, 0, 1)]).held
    assert verify_events([*run, deliver(0, 0, 1), deliver(0, 1, 1)]).held


def test_a_send_precedes_the_next_even_before_its_own_delivery() -> None:
    run = [send(0, 1, 0, 1), send(0, 2, 1), deliver(0, 0, 1)]
    assert verify_events([*run, deliver(1, 0, 1), deliver(1, 0, 2)]).held
    wrong = verify_events([*run, deliver(1, 0, 2), deliver(1, 0, 1)])
    assert wrong.violated() == {CAUSAL, FIFO}


def test_own_messages_delivered_in_the_wrong_order_are_a_violation() -> None:
    run = [send(0, 1, 0), send(0, 2, 0), deliver(0, 0, 2), deliver(0, 0, 1)]
    assert verify_events(run).violations == (
        violation(CAUSAL, 0, "0:2", "0:1 0:2"),
        violation(FIFO, 0, "0:2", "0:1 0:2"),
    )


def test_concurrent_messages_may_be_delivered_in_different_orders() -> None:
    verdict = verify_events(
        [
            send(0, 1, 2, 3),
            send(1, 1, 2, 3),
            deliver(2, 0, 1),
            deliver(2, 1, 1),
            deliver(3, 1, 1),
            deliver(3, 0, 1),
        ]
    )
    assert (verdict.held, verdict.messages, verdict.deliveries) == (True, 2, 4)


VALID = [
    send(0, 1, 1, 2),
    deliver(1, 0, 1),
    send(1, 1, 2),
    deliver(2, 0, 1),
    deliver(2, 1, 1),
]


def test_a_valid_run_has_all_properties_and_is_counted() -> None:
    assert verify_events(VALID) == Verdict(messages=2, deliveries=3, violations=())
    assert verify_events([]) == Verdict(messages=0, deliveries=0, violations=())


def test_two_swapped_deliveries_violate_only_causal_order() -> None:
    swapped = [*VALID[:3], VALID[4], VALID[3]]
    assert verify_events(swapped).violations == (violation(CAUSAL, 2, "1:1", "0:1 1:1"),)


@pytest.mark.parametrize("repeat_at", [4, 5])
def test_a_duplicated_delivery_violates_only_no_duplication(repeat_at: int) -> None:
    # Even after a later message: only the first delivery counts for the order.
    run = [*VALID[:repeat_at], VALID[3], *VALID[repeat_at:]]
    verdict = verify_events(run)
    assert verdict.violations == (violation(NO_DUPLICATION, 2, "0:1"),)
    assert verdict.deliveries == 4


def test_every_further_duplicate_is_reported() -> None:
    verdict = verify_events([*VALID, VALID[3], VALID[3]])
    assert verdict.violations == (violation(NO_DUPLICATION, 2, "0:1"),) * 2


def test_a_removed_delivery_violates_only_liveness() -> None:
    assert verify_events(VALID[:4]).violations == (violation(LIVENESS, 2, "1:1"),)


def test_a_message_delivered_at_one_target_is_still_missing_at_the_other() -> None:
    run = [send(0, 1, 1, 2), deliver(2, 0, 1)]
    assert verify_events(run).violations == (violation(LIVENESS, 1, "0:1"),)


def test_a_missing_own_delivery_violates_liveness() -> None:
    assert verify_events([send(0, 1, 0)]).violations == (violation(LIVENESS, 0, "0:1"),)


def test_an_incomplete_run_may_lack_deliveries() -> None:
    assert verify_events(VALID[:1], complete=False).held
    assert verify_events(VALID[:4], complete=False).held


def test_an_incomplete_run_must_not_violate_the_order() -> None:
    run = [send(0, 1, 1), send(0, 2, 1), send(0, 3, 1), deliver(1, 0, 3)]
    assert verify_events(run, complete=False).held
    verdict = verify_events([*run, deliver(1, 0, 1)], complete=False)
    assert verdict.violations == (
        violation(CAUSAL, 1, "0:3", "0:1 0:3"),
        violation(FIFO, 1, "0:3", "0:1 0:3"),
    )


@pytest.mark.parametrize("source", [0, 7])
def test_a_delivery_of_a_message_that_was_not_sent_violates_no_creation(
    source: int,
) -> None:
    verdict = verify_events([*VALID, deliver(2, source, 9)])
    assert verdict.violations == (violation(NO_CREATION, 2, f"{source}:9"),)
    assert (verdict.messages, verdict.deliveries) == (2, 4)


def test_a_delivery_at_another_process_violates_no_creation() -> None:
    verdict = verify_events([*VALID, deliver(0, 1, 1)])
    assert verdict.violations == (violation(NO_CREATION, 0, "1:1"),)


def test_a_delivery_at_another_process_does_not_replace_the_missing_one() -> None:
    run = [send(0, 1, 1), deliver(2, 0, 1)]
    assert Counter(verify_events(run).violations) == Counter(
        [violation(NO_CREATION, 2, "0:1"), violation(LIVENESS, 1, "0:1")]
    )


def test_a_message_delivered_by_mistake_is_in_the_causal_past() -> None:
    # 1 is not a target of 0:1, but delivers it and then sends: 0:1 happened before 1:1.
    run = [send(0, 1, 2), deliver(1, 0, 1), send(1, 1, 2)]
    verdict = verify_events([*run, deliver(2, 1, 1), deliver(2, 0, 1)])
    assert Counter(verdict.violations) == Counter(
        [violation(NO_CREATION, 1, "0:1"), violation(CAUSAL, 2, "1:1", "0:1 1:1")]
    )


def test_events_other_than_send_and_deliver_are_ignored() -> None:
    others = [Kind.RELEASE, Kind.ARRIVE, Kind.CONTROL, Kind.TRANSMIT, Kind.DROP]
    before = [event_at(kind, 2, 1, 1) for kind in others]
    bare = [Event(process=2, kind=Kind.CONTROL), Event(process=9, kind=Kind.DROP)]
    assert verify_events([*before, *bare, *VALID]) == verify_events(VALID)


def test_time_is_ignored() -> None:
    run = [
        Event(process=0, kind=Kind.SEND, time=9.0, source=0, number=1, targets=(1,)),
        Event(process=1, kind=Kind.DELIVER, time=1.0, source=0, number=1, target=1),
    ]
    assert verify_events(run).held


@pytest.mark.parametrize(
    "run",
    [
        pytest.param([send(0, 1, 1), send(0, 1, 1)], id="sent twice"),
        pytest.param([send(0, 1, 1), send(0, 1, 2)], id="sent twice, elsewhere"),
        pytest.param(
            [Event(process=1, kind=Kind.SEND, source=0, number=1, targets=(1,))],
            id="sent by another",
        ),
        pytest.param(
            [Event(process=0, kind=Kind.SEND, source=0, targets=(1,))], id="no number"
        ),
        pytest.param([Event(process=1, kind=Kind.DELIVER, number=1)], id="no source"),
        pytest.param([deliver(0, 0, 1), send(0, 1, 0)], id="own, before its send"),
        pytest.param(
            [
                deliver(0, 1, 1),
                send(0, 1, 1),
                deliver(1, 0, 1),
                send(1, 1, 0),
            ],
            id="a cycle of two",
        ),
        pytest.param(
            [
                deliver(0, 2, 1),
                send(0, 1, 1),
                deliver(1, 0, 1),
                send(1, 1, 2),
                deliver(2, 1, 1),
                send(2, 1, 0),
            ],
            id="a cycle of three",
        ),
    ],
)
def test_impossible_runs_are_refused(run: list[Event]) -> None:
    with pytest.raises(TraceError):
        verify_events(run)
    with pytest.raises(TraceError):
        verify_events(run, complete=False)


def test_a_delivery_may_be_listed_before_its_send_at_another_process() -> None:
    assert verify_events(VALID[3:] + VALID[:3]).held
    assert verify_events([deliver(1, 0, 1), send(0, 1, 1)]).held


def test_a_violation_is_formatted_as_one_line() -> None:
    assert str(MessageId(2, 7)) == "2:7"
    causal = str(violation(CAUSAL, 3, "2:1", "0:1 0:2 1:1 2:1"))
    assert causal.startswith("causal: process 3 delivered 2:1 before 0:1")
    assert causal.endswith("0:1 -> 0:2 -> 1:1 -> 2:1")
    lines = {
        NO_DUPLICATION: "no-duplication: process 4 delivered 5:6 twice",
        NO_CREATION: "no-creation: process 4 delivered 5:6, which was never sent to it",
        LIVENESS: "liveness: process 4 never delivered 5:6",
    }
    for which, line in lines.items():
        assert str(violation(which, 4, "5:6")) == line
    named = violation(LIVENESS, 4, "5:6").format({4: "shop", 5: "bank"})
    assert named == "liveness: shop never delivered bank:6"


def test_the_column_of_a_property_is_an_identifier() -> None:
    columns = ["causal", "fifo", "no_duplication", "no_creation", "liveness"]
    assert [which.column for which in Property] == columns


def test_violated_returns_each_property_once() -> None:
    run = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), deliver(1, 0, 1)]
    verdict = verify_events([*run, deliver(1, 0, 1), deliver(2, 0, 1)])
    assert not verdict.held
    assert verdict.violated() == {CAUSAL, FIFO, NO_DUPLICATION, NO_CREATION}


# Random runs. In a step, a process sends to a set of targets, given as bits, or, if the set
# is empty, delivers one of the messages in flight to it, in causal order or not. Then some
# changes corrupt the run.

Step = tuple[int, int, int]
Change = tuple[str, int, int]

processes_max = 4
steps_of_runs = st.lists(
    st.tuples(
        st.integers(0, processes_max - 1),
        st.just(0) | st.integers(1, 2**processes_max - 1),
        st.integers(0, 5),
    ),
    max_size=28,
)
changes_of_runs = st.lists(
    st.tuples(
        st.sampled_from(["swap", "swap", "drop", "repeat", "misplace", "invent"]),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    max_size=3,
)


def run_steps(steps: list[Step]) -> list[Event]:
    run: list[Event] = []
    numbers: Counter[int] = Counter()
    in_flight: list[tuple[int, int, int]] = []
    for process, bits, choice in steps:
        if bits:
            targets = [target for target in range(processes_max) if bits >> target & 1]
            numbers[process] += 1
            run.append(send(process, numbers[process], *targets))
            in_flight += [(target, process, numbers[process]) for target in targets]
        else:
            mine = [item for item in in_flight if item[0] == process]
            if mine:
                chosen = mine[choice % len(mine)]
                in_flight.remove(chosen)
                run.append(deliver(*chosen))
    return run


def corrupt(run: list[Event], change: Change) -> None:
    kind, one, two = change
    deliveries = [i for i, event in enumerate(run) if event.kind is Kind.DELIVER]
    if not deliveries:
        return
    index = deliveries[one % len(deliveries)]
    event = run[index]
    assert event.source is not None
    assert event.number is not None
    if kind == "swap":
        same = [i for i, other in enumerate(run) if other.process == event.process]
        other_index = same[two % len(same)]
        run[index], run[other_index] = run[other_index], run[index]
    elif kind == "drop":
        del run[index]
    elif kind == "repeat":
        run.insert(two % (len(run) + 1), event)
    elif kind == "misplace":
        run[index] = deliver(two % processes_max, event.source, event.number)
    else:
        run.insert(two % (len(run) + 1), deliver(event.process, event.source, 1000 + two))


ViolationKey = tuple[Property, int, MessageId, MessageId | None]


def message_of(event: Event) -> MessageId:
    assert event.source is not None
    assert event.number is not None
    return MessageId(event.source, event.number)


def happened_before(run: list[Event]) -> list[list[bool]]:
    """Return Lamport's relation: the order of each process, and send before deliver.

    Warshall's algorithm closes it; between sends it is happened-before of messages.
    """
    size = len(run)
    reach = [[False] * size for _ in run]
    for i, j in combinations(range(size), 2):
        reach[i][j] = run[i].process == run[j].process
    for i, event in enumerate(run):
        for j, other in enumerate(run):
            if event.kind is Kind.SEND and other.kind is Kind.DELIVER:
                reach[i][j] |= message_of(event) == message_of(other)
    for k in range(size):
        for i in range(size):
            if reach[i][k]:
                reach[i] = [a or b for a, b in zip(reach[i], reach[k], strict=True)]
    return reach


def verify_by_force(run: list[Event]) -> Counter[ViolationKey] | None:
    """Return every violation, or None if the events are not a run."""
    reach = happened_before(run)
    if any(reach[i][i] for i in range(len(run))):
        return None
    sends = {message_of(e): i for i, e in enumerate(run) if e.kind is Kind.SEND}
    found: Counter[ViolationKey] = Counter()
    first: dict[tuple[int, MessageId], int] = {}
    for index, event in enumerate(run):
        if event.kind is not Kind.DELIVER:
            continue
        message = message_of(event)
        targets = run[sends[message]].targets if message in sends else None
        if targets is None or event.process not in targets:
            found[(NO_CREATION, event.process, message, None)] += 1
        elif (event.process, message) in first:
            found[(NO_DUPLICATION, event.process, message, None)] += 1
        else:
            first[event.process, message] = index
    for (process, a), (other_process, b) in combinations(first, 2):
        if process != other_process:
            continue
        early, late = (a, b) if first[process, a] < first[process, b] else (b, a)
        if reach[sends[late]][sends[early]]:
            found[(CAUSAL, process, early, late)] += 1
            if early.source == late.source:
                found[(FIFO, process, early, late)] += 1
    for message, index in sends.items():
        for target in set(run[index].targets or ()):
            if (target, message) not in first:
                found[(LIVENESS, target, message, None)] += 1
    return found


def check_chain(run: list[Event], shown: Violation) -> None:
    """Check that each message was sent or delivered before its process sent the next."""
    assert shown.chain[-1] == shown.message
    for earlier, later in pairwise(shown.chain):
        history = [event for event in run if event.process == later.source]
        known = [message_of(event) for event in history]
        sent = next(
            i
            for i, event in enumerate(history)
            if event.kind is Kind.SEND and message_of(event) == later
        )
        assert earlier in known[:sent]


def compare(run: list[Event]) -> Verdict | None:
    """Check that oracle and brute force agree; return None if the events are not a run."""
    expected = verify_by_force(run)
    if expected is None:
        with pytest.raises(TraceError):
            verify_events(run)
        return None
    verdict = verify_events(run)
    assert expected == Counter(
        (v.property, v.process, v.message, v.chain[0] if v.chain else None)
        for v in verdict.violations
    )
    assert verdict.messages == sum(event.kind is Kind.SEND for event in run)
    assert verdict.deliveries == sum(event.kind is Kind.DELIVER for event in run)
    for shown in verdict.violations:
        assert bool(shown.chain) == (shown.property in (CAUSAL, FIFO))
        if shown.chain:
            check_chain(run, shown)
    incomplete = verify_events(run, complete=False).violations
    assert incomplete == tuple(v for v in verdict.violations if v.property is not LIVENESS)
    return verdict


@pytest.mark.long
@settings(max_examples=500)
@given(steps_of_runs, changes_of_runs)
def test_the_oracle_agrees_with_brute_force(
    steps: list[Step], changes: list[Change]
) -> None:
    run = run_steps(steps)
    for change in changes:
        corrupt(run, change)
    verdict = compare(run)
    note("not a run" if verdict is None else f"held: {verdict.held}")


@pytest.mark.long
def test_the_oracle_agrees_with_brute_force_on_longer_runs() -> None:
    random = Random(1)
    longest = 0
    verdicts = []
    for _ in range(200):
        steps = [
            (
                random.randrange(processes_max),
                random.choice([0, 0, 0, 1, 2, 4, 8, random.randrange(1, 16)]),
                random.choice([0, 0, 0, 0, random.randrange(6)]),
            )
            for _ in range(60)
        ]
        run = run_steps(steps)
        for _ in range(random.choice([0, 1, 2])):
            corrupt(run, ("swap", random.randrange(99), random.randrange(99)))
        verdict = compare(run)
        verdicts.append(verdict)
        if verdict is not None:
            longest = max([longest, *(len(v.chain) for v in verdict.violations)])
    # The agreement means little unless there are runs of all kinds.
    assert longest >= 4
    assert None in verdicts
    violated = [
        verdict.violated() - {LIVENESS} for verdict in verdicts if verdict is not None
    ]
    assert {frozenset(), frozenset({CAUSAL}), frozenset({CAUSAL, FIFO})} <= set(violated)


@pytest.mark.long
@settings(max_examples=200)
@given(steps_of_runs, changes_of_runs, st.randoms(use_true_random=False))
def test_the_order_across_processes_is_ignored(
    steps: list[Step], changes: list[Change], random: Random
) -> None:
    run = run_steps(steps)
    for change in changes:
        corrupt(run, change)
    histories = [[e for e in run if e.process == p] for p in range(processes_max)]
    shuffled: list[Event] = []
    while any(histories):
        shuffled.append(random.choice([h for h in histories if h]).pop(0))
    if verify_by_force(run) is None:
        with pytest.raises(TraceError):
            verify_events(shuffled)
        return
    before, after = verify_events(run), verify_events(shuffled)
    assert Counter(after.violations) == Counter(before.violations)
    assert (after.messages, after.deliveries) == (before.messages, before.deliveries)
