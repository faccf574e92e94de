"""The reference oracle, on runs worked out by hand and against brute force."""

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
NO_DUPLICATION, NO_CREATION, LIVENESS = (
    Property.NO_DUPLICATION,
    Property.NO_CREATION,
    Property.LIVENESS,
)


def send(source: int, number: int, *targets: int) -> Event:
    return Event(
        process=source, kind=Kind.SEND, source=source, number=number, targets=targets
    )


def happen(kind: Kind, process: int, source: int, number: int) -> Event:
    return Event(process=process, kind=kind, source=source, number=number, target=process)


def deliver(process: int, source: int, number: int) -> Event:
    return happen(Kind.DELIVER, process, source, number)


def message(text: str) -> MessageId:
    source, number = text.split(":")
    return MessageId(int(source), int(number))


def chain(text: str) -> tuple[MessageId, ...]:
    return tuple(message(part) for part in text.split())


def violation(which: Property, process: int, early: str, because: str = "") -> Violation:
    return Violation(
        property=which, process=process, message=message(early), chain=chain(because)
    )


# Figure 1: process 1 delivers a, sends c, delivers b, and only then releases c. The other
# target of all three is process 3.
FIGURE_1 = [
    send(0, 1, 1, 3),  # a
    send(2, 1, 1, 3),  # b
    happen(Kind.ARRIVE, 1, 0, 1),
    happen(Kind.ARRIVE, 1, 2, 1),
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


def test_a_chain_with_one_link_turned_round_is_none() -> None:
    # As before, but process 1 sends before it delivers: nothing relates 0:1 to 2:1.
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


def test_an_own_message_and_a_concurrent_one_may_come_in_any_order() -> None:
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


SOUND = [
    send(0, 1, 1, 2),
    deliver(1, 0, 1),
    send(1, 1, 2),
    deliver(2, 0, 1),
    deliver(2, 1, 1),
]


def test_a_sound_run_holds_and_is_counted() -> None:
    assert verify_events(SOUND) == Verdict(messages=2, deliveries=3, violations=())
    assert verify_events([]) == Verdict(messages=0, deliveries=0, violations=())


def test_two_swapped_deliveries_break_causal_order_and_nothing_else() -> None:
    swapped = [*SOUND[:3], SOUND[4], SOUND[3]]
    assert verify_events(swapped).violations == (violation(CAUSAL, 2, "1:1", "0:1 1:1"),)


@pytest.mark.parametrize("repeat_at", [4, 5])
def test_a_duplicated_delivery_breaks_once_and_nothing_else(repeat_at: int) -> None:
    # Even after a later message: only the first delivery counts for the order.
    run = [*SOUND[:repeat_at], SOUND[3], *SOUND[repeat_at:]]
    verdict = verify_events(run)
    assert verdict.violations == (violation(NO_DUPLICATION, 2, "0:1"),)
    assert verdict.deliveries == 4


def test_every_further_duplicate_is_reported() -> None:
    verdict = verify_events([*SOUND, SOUND[3], SOUND[3]])
    assert verdict.violations == (violation(NO_DUPLICATION, 2, "0:1"),) * 2


def test_a_removed_delivery_breaks_liveness_and_nothing_else() -> None:
    assert verify_events(SOUND[:4]).violations == (violation(LIVENESS, 2, "1:1"),)


def test_a_message_delivered_at_one_target_is_still_missing_at_the_other() -> None:
    run = [send(0, 1, 1, 2), deliver(2, 0, 1)]
    assert verify_events(run).violations == (violation(LIVENESS, 1, "0:1"),)


def test_a_missing_own_delivery_breaks_liveness() -> None:
    assert verify_events([send(0, 1, 0)]).violations == (violation(LIVENESS, 0, "0:1"),)


def test_an_incomplete_run_may_lack_deliveries() -> None:
    assert verify_events(SOUND[:1], complete=False).held
    assert verify_events(SOUND[:4], complete=False).held


def test_an_incomplete_run_may_not_break_the_order() -> None:
    run = [send(0, 1, 1), send(0, 2, 1), send(0, 3, 1), deliver(1, 0, 3)]
    assert verify_events(run, complete=False).held
    verdict = verify_events([*run, deliver(1, 0, 1)], complete=False)
    assert verdict.violations == (
        violation(CAUSAL, 1, "0:3", "0:1 0:3"),
        violation(FIFO, 1, "0:3", "0:1 0:3"),
    )


@pytest.mark.parametrize("source", [0, 7])
def test_an_invented_delivery_is_from_nowhere(source: int) -> None:
    verdict = verify_events([*SOUND, deliver(2, source, 9)])
    assert verdict.violations == (violation(NO_CREATION, 2, f"{source}:9"),)
    assert (verdict.messages, verdict.deliveries) == (2, 4)


def test_a_delivery_at_no_target_is_not_genuine() -> None:
    verdict = verify_events([*SOUND, deliver(0, 1, 1)])
    assert verdict.violations == (violation(NO_CREATION, 0, "1:1"),)


def test_a_delivery_at_no_target_does_not_make_up_for_the_missing_one() -> None:
    run = [send(0, 1, 1), deliver(2, 0, 1)]
    assert Counter(verify_events(run).violations) == Counter(
        [violation(NO_CREATION, 2, "0:1"), violation(LIVENESS, 1, "0:1")]
    )


def test_what_a_process_wrongly_learned_is_in_its_past_all_the_same() -> None:
    # 1 is no target of 0:1, but delivers it and then sends: 0:1 happened before 1:1.
    run = [send(0, 1, 2), deliver(1, 0, 1), send(1, 1, 2)]
    verdict = verify_events([*run, deliver(2, 1, 1), deliver(2, 0, 1)])
    assert Counter(verdict.violations) == Counter(
        [violation(NO_CREATION, 1, "0:1"), violation(CAUSAL, 2, "1:1", "0:1 1:1")]
    )


def test_events_other_than_send_and_deliver_are_no_evidence() -> None:
    others = [Kind.RELEASE, Kind.ARRIVE, Kind.CONTROL, Kind.TRANSMIT, Kind.DROP]
    before = [happen(kind, 2, 1, 1) for kind in others]
    bare = [Event(process=2, kind=Kind.CONTROL), Event(process=9, kind=Kind.DROP)]
    assert verify_events([*before, *bare, *SOUND]) == verify_events(SOUND)


def test_time_is_no_evidence() -> None:
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
            id="each the cause of the other",
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
            id="a ring of causes",
        ),
    ],
)
def test_what_cannot_have_happened_is_refused(run: list[Event]) -> None:
    with pytest.raises(TraceError):
        verify_events(run)
    with pytest.raises(TraceError):
        verify_events(run, complete=False)


def test_a_delivery_may_be_listed_before_its_send_at_another_process() -> None:
    assert verify_events(SOUND[3:] + SOUND[:3]).held
    assert verify_events([deliver(1, 0, 1), send(0, 1, 1)]).held


def test_a_verdict_says_in_one_line_what_is_wrong() -> None:
    assert str(MessageId(2, 7)) == "2:7"
    causal = str(violation(CAUSAL, 3, "2:1", "0:1 0:2 1:1 2:1"))
    assert causal.startswith("causal: process 3 delivered 2:1 before 0:1")
    assert causal.endswith("0:1 -> 0:2 -> 1:1 -> 2:1")
    for which, word in (
        (NO_DUPLICATION, "twice"),
        (NO_CREATION, "never sent"),
        (LIVENESS, "never"),
    ):
        line = str(violation(which, 4, "5:6"))
        assert line.startswith(f"{which.value}: ")
        assert all(part in line for part in ("4", "5:6", word))
        assert "\n" not in line


def test_broken_names_each_property_once() -> None:
    run = [send(0, 1, 1), send(0, 2, 1), deliver(1, 0, 2), deliver(1, 0, 1)]
    verdict = verify_events([*run, deliver(1, 0, 1), deliver(2, 0, 1)])
    assert not verdict.held
    assert verdict.violated() == {CAUSAL, FIFO, NO_DUPLICATION, NO_CREATION}


# Random runs. A step lets a process send to a set of targets, written as bits, or, if that
# is empty, deliver any of the messages on their way to it: in causal order or not. Harm is
# then done to what it recorded.

Step = tuple[int, int, int]
Harm = tuple[str, int, int]

processes_max = 4
steps_of_runs = st.lists(
    st.tuples(
        st.integers(0, processes_max - 1),
        st.just(0) | st.integers(1, 2**processes_max - 1),
        st.integers(0, 5),
    ),
    max_size=28,
)
harms_of_runs = st.lists(
    st.tuples(
        st.sampled_from(["swap", "swap", "drop", "repeat", "misplace", "invent"]),
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    max_size=3,
)


def play(steps: list[Step]) -> list[Event]:
    run: list[Event] = []
    numbers: Counter[int] = Counter()
    on_the_way: list[tuple[int, int, int]] = []
    for process, bits, choice in steps:
        if bits:
            targets = [target for target in range(processes_max) if bits >> target & 1]
            numbers[process] += 1
            run.append(send(process, numbers[process], *targets))
            on_the_way += [(target, process, numbers[process]) for target in targets]
        else:
            mine = [item for item in on_the_way if item[0] == process]
            if mine:
                chosen = mine[choice % len(mine)]
                on_the_way.remove(chosen)
                run.append(deliver(*chosen))
    return run


def corrupt(run: list[Event], harm: Harm) -> None:
    what, one, two = harm
    deliveries = [i for i, event in enumerate(run) if event.kind is Kind.DELIVER]
    if not deliveries:
        return
    place = deliveries[one % len(deliveries)]
    event = run[place]
    assert event.source is not None
    assert event.number is not None
    if what == "swap":
        same = [i for i, other in enumerate(run) if other.process == event.process]
        other_place = same[two % len(same)]
        run[place], run[other_place] = run[other_place], run[place]
    elif what == "drop":
        del run[place]
    elif what == "repeat":
        run.insert(two % (len(run) + 1), event)
    elif what == "misplace":
        run[place] = deliver(two % processes_max, event.source, event.number)
    else:
        run.insert(two % (len(run) + 1), deliver(event.process, event.source, 1000 + two))


Finding = tuple[Property, int, MessageId, MessageId | None]


def message_of(event: Event) -> MessageId:
    assert event.source is not None
    assert event.number is not None
    return MessageId(event.source, event.number)


def close(run: list[Event]) -> list[list[bool]]:
    """Lamport's relation between events: their order per process, and send to deliver.

    Closed by Warshall's algorithm; between sends it is happened-before of the messages.
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


def judge_by_force(run: list[Event]) -> Counter[Finding] | None:
    """Find every violation, as a property, a place and the messages; None if no run."""
    reach = close(run)
    if any(reach[i][i] for i in range(len(run))):
        return None
    sends = {message_of(e): i for i, e in enumerate(run) if e.kind is Kind.SEND}
    found: Counter[Finding] = Counter()
    first: dict[tuple[int, MessageId], int] = {}
    for place, event in enumerate(run):
        if event.kind is not Kind.DELIVER:
            continue
        what = message_of(event)
        targets = run[sends[what]].targets if what in sends else None
        if targets is None or event.process not in targets:
            found[(NO_CREATION, event.process, what, None)] += 1
        elif (event.process, what) in first:
            found[(NO_DUPLICATION, event.process, what, None)] += 1
        else:
            first[event.process, what] = place
    for (process, a), (other_process, b) in combinations(first, 2):
        if process != other_process:
            continue
        early, late = (a, b) if first[process, a] < first[process, b] else (b, a)
        if reach[sends[late]][sends[early]]:
            found[(CAUSAL, process, early, late)] += 1
            if early.source == late.source:
                found[(FIFO, process, early, late)] += 1
    for what, place in sends.items():
        for target in set(run[place].targets or ()):
            if (target, what) not in first:
                found[(LIVENESS, target, what, None)] += 1
    return found


def check_chain(run: list[Event], shown: Violation) -> None:
    """Every link: sent or delivered at a process before that process sent the next."""
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
    """Judge a run in both ways, which must agree; None if it is none."""
    expected = judge_by_force(run)
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
    unfinished = verify_events(run, complete=False).violations
    assert unfinished == tuple(v for v in verdict.violations if v.property is not LIVENESS)
    return verdict


@settings(max_examples=500)
@given(steps_of_runs, harms_of_runs)
def test_the_oracle_agrees_with_brute_force(steps: list[Step], harms: list[Harm]) -> None:
    run = play(steps)
    for harm in harms:
        corrupt(run, harm)
    verdict = compare(run)
    note("impossible" if verdict is None else f"held: {verdict.held}")


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
        run = play(steps)
        for _ in range(random.choice([0, 1, 2])):
            corrupt(run, ("swap", random.randrange(99), random.randrange(99)))
        verdict = compare(run)
        verdicts.append(verdict)
        if verdict is not None:
            longest = max([longest, *(len(v.chain) for v in verdict.violations)])
    # The runs are of all sorts, or the agreement would mean little.
    assert longest >= 4
    assert None in verdicts
    broken = [
        verdict.violated() - {LIVENESS} for verdict in verdicts if verdict is not None
    ]
    assert {frozenset(), frozenset({CAUSAL}), frozenset({CAUSAL, FIFO})} <= set(broken)


@settings(max_examples=200)
@given(steps_of_runs, harms_of_runs, st.randoms(use_true_random=False))
def test_the_order_across_processes_is_irrelevant(
    steps: list[Step], harms: list[Harm], random: Random
) -> None:
    run = play(steps)
    for harm in harms:
        corrupt(run, harm)
    histories = [[e for e in run if e.process == p] for p in range(processes_max)]
    shuffled: list[Event] = []
    while any(histories):
        shuffled.append(random.choice([h for h in histories if h]).pop(0))
    if judge_by_force(run) is None:
        with pytest.raises(TraceError):
            verify_events(shuffled)
        return
    before, after = verify_events(run), verify_events(shuffled)
    assert Counter(after.violations) == Counter(before.violations)
    assert (after.messages, after.deliveries) == (before.messages, before.deliveries)
