"""Removal of a peer under ``bounded``: abandon, reset_channel, permits and forget."""

import os
from collections.abc import Callable

import pytest

from antecede.core.process import NO_PROCESS, UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.bounded import make_bounded
from antecede.core.protocols.hybrid.dependency_frames import (
    DependentMessage,
    Notes,
    Query,
    Settled,
)
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.verify import Property
from tests.core.bounded_runs import bounded_cluster, ledger_of, left_over
from tests.core.test_bounded_frames import message, own
from tests.core.test_peer_removal import Run, delivered

ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX = (ProcessId(index) for index in range(7))
RUNS = 30 if "ANTECEDE_MUTANT" in os.environ else 100
BUDGETS = (0, 5, 8, 16, UNBOUNDED)
BUDGETS_OF_STOPS = (0, 16, 32, UNBOUNDED)
"""Without 5 and 8: nobody can clear the wildcards of a process that has stopped, so copies
to their targets wait forever. With these budgets, no run of this test has such a wildcard;
others may."""


def removal_run(seed: int, budget: int, *, lease: bool = True) -> Run:
    run = Run("bounded", seed, lease=lease)
    run.cluster = bounded_cluster(run.processes, budget)
    return run


@pytest.mark.long
@pytest.mark.parametrize(
    ("budget", "stop"),
    [(budget, False) for budget in BUDGETS]
    + [(budget, True) for budget in BUDGETS_OF_STOPS],
)
def test_deliveries_are_causal_and_only_abandoned_copies_are_missing(
    budget: int, stop: bool
) -> None:
    abandoned = 0
    for seed in range(RUNS):
        run = removal_run(seed, budget)
        run.run(removal_rate=0.05, stop=stop)
        assert run.unexpected() == [], seed
        abandoned += len(run.abandoned)
    assert abandoned > 0


@pytest.mark.long
@pytest.mark.parametrize("budget", BUDGETS)
def test_without_the_lease_causal_order_breaks(budget: int) -> None:
    """The test above fails if late copies are not refused."""
    for seed in range(300):
        run = removal_run(seed, budget, lease=False)
        run.run(removal_rate=0.05)
        if any(each.property is Property.CAUSAL for each in run.unexpected()):
            return
    raise AssertionError("causal order was kept in all runs")


# The operations, one by one.


def make(budget: int = UNBOUNDED) -> HybridProcess:
    return make_bounded(ZERO, budget_bytes=budget)


def sent_messages(process: HybridProcess) -> list[tuple[int, MessageFrame]]:
    """Drain the frames to transmit, and return the messages with their targets."""
    return [
        (each.target, each.frame)
        for each in process.frames_to_transmit()
        if isinstance(each.frame, MessageFrame)
    ]


def test_entries_for_an_abandoned_peer_are_settled() -> None:
    process = make()
    process.send([ONE], b"", 0.0)
    process.send([TWO], b"", 0.0)
    (_, (_, second)) = sent_messages(process)
    assert isinstance(second, DependentMessage)
    process.receive(TWO, Ack(2, 2), 0.0)
    process.recovery.abandon(ONE, 0.0)
    process.handle_timer(0.0)
    frames = [each.frame for each in process.frames_to_transmit()]
    assert any(isinstance(frame, Permit | Settled) for frame in frames)
    process.send([TWO], b"", 0.0)
    ((_, third),) = sent_messages(process)
    assert not isinstance(third, DependentMessage)


def test_abandoned_copy_in_a_queue_is_never_released() -> None:
    process = make(0)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    process.send([TWO], b"", 0.0)
    process.recovery.abandon(TWO, 0.0)
    process.send([TWO], b"", 0.0)
    process.frames_to_transmit()
    process.receive(ONE, Permit(1), 0.0)
    assert [(target, frame.number) for target, frame in sent_messages(process)] == [(2, 2)]
    process.receive(TWO, Ack(2, 2), 0.0)
    assert left_over(process) == []


def test_reset_channel_forgets_the_held_messages() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 1)]), 0.0)
    assert ledger_of(process).waiting
    process.recovery.reset_channel(ONE, 0.0)
    assert not ledger_of(process).waiting
    process.recovery.forgo_permits(TWO, 0.0)
    process.receive(TWO, MessageFrame(1, 0, True, b""), 0.0)
    assert delivered(process) == [(2, 1)]


def test_reset_channel_keeps_the_waiting_messages_of_others() -> None:
    process = make()
    for source in (ONE, THREE):
        process.receive(source, message(1, inherited=[Entry(2, 0, 1)]), 0.0)
    process.recovery.reset_channel(ONE, 0.0)
    process.receive(TWO, MessageFrame(1, 0, True, b""), 0.0)
    assert delivered(process) == [(2, 1), (3, 1)]


def test_deliveries_before_a_reset_count() -> None:
    process = make()
    process.receive(TWO, MessageFrame(5, 0, True, b""), 0.0)
    process.recovery.reset_channel(TWO, 0.0)
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 5)]), 0.0)
    assert delivered(process) == [(2, 5), (1, 1)]


def test_held_messages_of_a_stopped_process_are_not_delivered() -> None:
    process = make()
    process.send([ONE], b"", 0.0)
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 1)]), 0.0)
    process.recovery.forgo_permits(ONE, 0.0)
    process.receive(TWO, MessageFrame(1, 0, True, b""), 0.0)
    assert delivered(process) == [(2, 1)]


def test_messages_that_wait_for_a_stopped_process_are_delivered() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 1)]), 0.0)
    assert delivered(process) == []
    process.recovery.forgo_permits(TWO, 0.0)
    assert delivered(process) == [(1, 1)]
    acks = [each.frame for each in process.frames_to_transmit() if each.target == ONE]
    assert [ack.delivered for ack in acks if isinstance(ack, Ack)] == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda process: process.recovery.forgo_permits(ONE, 0.0),
        lambda process: process.recovery.assume_permits(ONE, 0.0),
    ],
    ids=["forgo", "assume"],
)
def test_entries_of_a_stopped_source_are_settled(
    change: Callable[[HybridProcess], None],
) -> None:
    process = make()
    process.receive(ONE, message(1, own=[own(3, 1)]), 0.0)
    process.receive(TWO, message(1, inherited=[Entry(1, 4, 6)]), 0.0)
    process.send([TWO], b"", 0.0)
    assert len(ledger_of(process).open) == 2
    change(process)
    assert not ledger_of(process).open
    process.handle_timer(0.0)
    frames = [each.frame for each in process.frames_to_transmit() if each.target == TWO]
    assert any(isinstance(frame, Settled) for frame in frames)
    process.receive(TWO, Ack(1, 1), 0.0)
    assert left_over(process) == []


def test_forgoing_permits_releases_copies_that_waited_for_them() -> None:
    process = make(0)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    process.send([TWO], b"", 0.0)
    assert sent_messages(process) == []
    process.recovery.forgo_permits(ONE, 0.0)
    assert [target for target, _ in sent_messages(process)] == [TWO]


def ask_about(process: HybridProcess) -> list[tuple[int, Query]]:
    """Let the query timers expire, and return the queries."""
    process.frames_to_transmit()
    process.handle_timer(1000.0)
    return [
        (each.target, each.frame)
        for each in process.frames_to_transmit()
        if isinstance(each.frame, Query)
    ]


def test_the_source_is_asked_instead_of_a_reporter_that_is_gone() -> None:
    process = make()
    process.receive(TWO, MessageFrame(1, 0, True, b""), 0.0)
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 6)]), 0.0)
    process.recovery.forgo_permits(ONE, 0.0)
    ((target, query),) = ask_about(process)
    assert target == TWO
    assert [(each.target, each.number) for each in query.notes.targets] == [(3, 6)]
    process.receive(TWO, Settled(Notes(0, [own(3, 6)], [], [])), 1000.0)
    assert left_over(process) == []
    assert process.next_timer() is None


def test_the_target_is_asked_if_the_source_is_unknown() -> None:
    process = make()
    process.receive(THREE, MessageFrame(1, 0, True, b""), 0.0)
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 6)]), 0.0)
    process.recovery.forgo_permits(ONE, 0.0)
    ((target, query),) = ask_about(process)
    assert target == THREE
    assert [str(each) for each in query.notes.entries] == ["Entry(2:6 to 3)"]


def test_nobody_is_asked_if_source_and_target_are_unknown() -> None:
    process = make(5)
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 6)]), 0.0)
    process.recovery.forgo_permits(ONE, 0.0)
    assert ask_about(process) == []
    unsettled = next(iter(ledger_of(process).open)).unsettled[0]
    assert unsettled.answerer == NO_PROCESS
    assert unsettled.is_reporter_gone
    process.send([FOUR], b"", 0.0)  # It may exceed the budget, rather than wait forever.
    ((_, frame),) = sent_messages(process)
    assert isinstance(frame, DependentMessage)
    assert [str(each) for each in frame.inherited] == ["Entry(2:6 to 3)"]
    process.receive(FOUR, Settled(Notes(0, [], [Entry(2, 3, 6)], [])), 0.0)
    process.receive(FOUR, Ack(1, 1), 0.0)
    assert left_over(process) == []


def test_an_entry_that_nobody_settles_does_not_delay_a_multicast() -> None:
    # Each copy has two own entries of two bytes, for which a budget of 5 has no room.
    process = make(5)
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 6)]), 0.0)
    process.recovery.forgo_permits(ONE, 0.0)
    process.send([FOUR, FIVE, SIX], b"", 0.0)
    copies = sent_messages(process)
    assert [target for target, _ in copies] == [FOUR, FIVE, SIX]
    for _, frame in copies:
        assert isinstance(frame, DependentMessage)
        assert frame.is_opaque
        assert [str(each) for each in frame.inherited] == ["Entry(2:6 to 3)"]
    process.receive(FOUR, Ack(1, 1), 0.0)
    process.receive(FIVE, Ack(1, 1), 0.0)
    process.receive(SIX, Ack(1, 1), 0.0)
    permits = [
        (each.target, each.frame.number)
        for each in process.frames_to_transmit()
        if isinstance(each.frame, Permit)
    ]
    assert sorted(permits) == [(FOUR, 1), (FIVE, 1), (SIX, 1)]


def test_a_wildcard_makes_no_room_for_entries_that_do_not_count() -> None:
    # Of the entries for process 3, two do not count against the budget. A wildcard for it
    # has 2 bytes, as each of two own entries, and a budget of 7 has room for 5 bytes.
    process = make(7)
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 6), Entry(7, 3, 6)]), 0.0)
    process.recovery.forgo_permits(ONE, 0.0)
    process.receive(FOUR, message(1, inherited=[Entry(8, 3, 6)]), 0.0)
    process.send([FIVE, SIX, TWO], b"", 0.0)
    assert sent_messages(process) == []


def test_the_target_of_an_entry_answers_what_it_has_delivered() -> None:
    process = make()
    process.receive(TWO, MessageFrame(4, 0, True, b""), 0.0)
    process.frames_to_transmit()
    asked = [Entry(2, 0, 4), Entry(2, 0, 5)]
    process.receive(ONE, Query(Notes(0, [], asked, [])), 0.0)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Settled)
    assert [each.number for each in transmit.frame.notes.entries] == [4]


def test_a_later_message_does_not_settle_what_a_former_reporter_told() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 6)]), 0.0)
    process.receive(TWO, MessageFrame(1, 0, True, b""), 0.0)
    process.recovery.assume_permits(ONE, 0.0)
    process.receive(TWO, MessageFrame(2, 1, True, b""), 0.0)
    assert ledger_of(process).open


# Forget.


def test_a_peer_that_reported_an_entry_is_needed() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 6)]), 0.0)
    assert not process.recovery.forget(ONE)
    process.receive(ONE, Settled(Notes(0, [], [Entry(2, 3, 6)], [])), 0.0)
    assert process.recovery.forget(ONE)
    assert process.recovery.forget(ONE)
    assert process.known_peers() == 0
    assert ONE not in ledger_of(process).peers


def test_a_peer_without_entries_is_forgotten() -> None:
    process = make()
    process.receive(ONE, MessageFrame(1, 0, True, b""), 0.0)
    assert process.recovery.forget(ONE)
    assert process.known_peers() == 0


def test_what_was_reported_to_a_forgotten_peer_is_forgotten() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 6)], wildcards=[4]), 0.0)
    process.send([THREE], b"", 0.0)
    process.send([FOUR], b"", 0.0)
    process.frames_to_transmit()
    process.send([TWO], b"", 0.0)
    process.receive(TWO, Ack(3, 3), 0.0)
    assert ledger_of(process).wildcards.sent
    assert process.recovery.forget(TWO)
    pairs = ledger_of(process).table.sources
    assert all(TWO not in pair.reported for own in pairs.values() for pair in own.values())
    cleared = Notes(0, [], [Entry(2, 3, 6)], [own(4, 1)])
    process.receive(ONE, Settled(cleared), 0.0)
    process.receive(THREE, Ack(1, 1), 0.0)
    process.receive(FOUR, Ack(2, 2), 0.0)
    assert left_over(process) == []
