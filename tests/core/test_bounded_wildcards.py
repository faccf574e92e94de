"""Wildcards, queries and notes of ``bounded`` in less common situations."""

from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.dependency_frames import Notes, Query
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from tests.core.bounded_runs import ledger_of, left_over
from tests.core.test_bounded_frames import message, own
from tests.core.test_bounded_rules import (
    FIVE,
    FOUR,
    ONE,
    THREE,
    TWO,
    cleared,
    make,
    old_entries,
    sent,
    settled,
)

SIX, SEVEN = ProcessId(6), ProcessId(7)


def queries(lines: list[str]) -> list[str]:
    return [line for line in lines if "query" in line]


def test_a_wildcard_after_the_send_does_not_hold_up_a_queued_copy() -> None:
    process = make(8)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    process.send([FOUR], b"", 0.0)
    process.receive(TWO, message(1, wildcards=[4]), 0.0)
    sent(process)
    process.receive(ONE, Permit(1), 0.0)
    assert sent(process) == ["4: 1 permitted"]


def test_received_wildcards_take_room_beside_those_that_are_drawn() -> None:
    process = make(8)
    process.receive(ONE, message(1, wildcards=[9]), 0.0)
    old_entries(process)
    process.send([SIX], b"", 10.0)
    assert "6: 2 [*>9, *>4, permitted]" in sent(process)


def test_young_entries_do_not_become_a_wildcard() -> None:
    process = make(8)
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 1)]), 0.0)
    process.send([ONE], b"", 0.0)
    process.receive(ONE, Ack(1, 1), 1.0)  # A round trip of one second.
    process.send([FOUR], b"", 1.0)
    process.send([SEVEN], b"", 1.0)
    process.receive(SEVEN, Ack(3, 3), 2.0)
    inherited = [Entry(source, 4, 1) for source in (2, 3)]
    process.receive(FIVE, message(1, inherited=inherited), 8.0)
    sent(process)
    process.send([SIX], b"", 8.0)
    assert sent(process) == []
    process.handle_timer(11.9)
    assert not any(line.startswith("6: 4") for line in sent(process))
    process.handle_timer(12.0)
    assert "6: 4 [2:1>3, *>4]" in sent(process)


def test_wildcards_are_asked_about_in_the_order_of_their_messages() -> None:
    process = make()
    process.receive(ONE, message(1, wildcards=[4]), 0.0)
    process.receive(ONE, message(2, 1, wildcards=[4, 5]), 0.0)
    process.receive(ONE, message(3, 2, wildcards=[4, 5, 6]), 1.8)
    sent(process)
    process.handle_timer(2.0)
    assert sent(process) == ["1: query [*1>4, *2>5]"]
    process.handle_timer(2.5)
    assert sent(process) == []
    process.receive(ONE, cleared(4, 1), 2.5)
    sent(process)
    process.handle_timer(3.8)
    assert queries(sent(process)) == ["1: query [*2>4, *3>6]"]
    for target in (4, 5, 6):
        process.receive(ONE, cleared(target, 3), 5.0)
    assert left_over(process) == []
    assert process.next_timer() is None


def test_a_timer_without_questions_that_are_due_sends_no_query() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 1)]), 0.0)
    inherited = [Entry(2, 3, 1), Entry(2, 4, 1)]
    process.receive(ONE, message(2, 1, inherited=inherited), 0.5)
    process.receive(ONE, settled(Entry(2, 3, 1)), 0.6)
    sent(process)
    process.handle_timer(2.0)
    assert sent(process) == []
    timer = process.next_timer()
    assert timer is not None
    process.handle_timer(timer)
    assert queries(sent(process)) == ["1: query [2:1>4]"]


def test_a_wildcard_stays_while_a_later_message_has_an_entry_for_its_target() -> None:
    process = make()
    process.receive(ONE, message(1, wildcards=[4, 5]), 0.0)
    process.receive(ONE, message(2, 1, inherited=[Entry(2, 4, 1)]), 0.0)
    assert list(ledger_of(process).wildcards.received) == [4]


def test_answers_distinguish_the_peers() -> None:
    process = make()
    process.receive(ONE, message(1, wildcards=[4]), 0.0)
    process.send([FIVE], b"", 0.0)
    process.send([SIX], b"", 0.0)
    process.receive(FIVE, Ack(1, 1), 0.0)
    process.receive(SIX, Ack(2, 2), 0.0)
    sent(process)
    question = Query(Notes(0, [], [], [own(4, 1)]))
    process.receive(SEVEN, question, 0.0)
    assert sent(process) == ["7: settled [*1>4]"]  # No message to it has a wildcard.
    assert process.recovery.forget(FIVE)
    process.receive(SIX, Query(Notes(0, [], [], [own(4, 2)])), 0.0)
    assert sent(process) == []
    process.receive(ONE, cleared(4, 1), 0.0)
    assert sent(process) == ["6: settled [*2>4]"]
    assert left_over(process) == []


def test_a_forgotten_peer_is_not_told_that_its_wildcard_is_cleared_too_early() -> None:
    process = make()
    process.receive(ONE, message(1, wildcards=[4]), 0.0)
    process.send([FIVE], b"", 0.0)
    process.receive(FIVE, Ack(1, 1), 0.0)
    sent(process)
    assert process.recovery.forget(FIVE)
    process.receive(FIVE, Query(Notes(0, [], [], [own(4, 1)])), 0.0)
    assert sent(process) == []
    process.receive(ONE, cleared(4, 1), 0.0)
    assert sent(process) == []
    process.receive(FIVE, Query(Notes(0, [], [], [own(4, 1)])), 0.0)
    assert sent(process) == ["5: settled [*1>4]"]


def test_a_wildcard_of_one_peer_is_removed_and_that_of_another_stays() -> None:
    process = make()
    for source in (ONE, TWO):
        process.receive(source, message(1, wildcards=[4]), 0.0)
    process.receive(ONE, cleared(4, 1), 0.0)
    process.send([FOUR], b"", 0.0)
    process.send([TWO], b"", 0.0)
    assert [line for line in sent(process) if "ack" not in line] == ["2: 2 [own 1>4]"]


def test_a_note_that_a_permit_covers_is_not_sent() -> None:
    process = make(5)
    for target in (TWO, ONE, THREE, ONE):
        process.send([target], b"", 0.0)
    assert sent(process)[1:] == ["1: 2 [own 1>2]", "3: 3 opaque", "1: 4 opaque"]
    process.receive(THREE, Ack(3, 3), 0.0)
    process.recovery.abandon(TWO, 0.0)
    assert "1: permit 4" in sent(process)
    process.receive(ONE, MessageFrame(1, 0, True, b""), 0.0)
    assert sent(process) == ["1: ack 1"]


def test_queued_copies_show_the_permits_that_they_wait_for() -> None:
    process = make(0)
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    process.send([TWO], b"", 0.0)
    assert process.pending.count_waiting() == {ONE: 2}  # The permit and the copy.
    assert process.pending.queued_copies(10) == [(1, TWO, [(ONE, 1)])]


def test_the_notes_to_a_peer_leave_together() -> None:
    process = make()
    process.send([SEVEN], b"", 0.0)
    process.receive(SEVEN, Ack(1, 1), 1.0)  # A round trip of one second.
    inherited = [Entry(2, 3, 1)]
    process.receive(ONE, message(1, inherited=inherited), 1.0)
    process.send([FOUR], b"", 1.0)
    process.receive(FOUR, Ack(2, 2), 1.0)
    inherited.append(Entry(2, 6, 1))
    process.receive(ONE, message(2, 1, inherited=inherited), 1.0)
    process.send([FIVE], b"", 1.0)
    process.receive(FIVE, Ack(3, 3), 1.0)
    process.receive(ONE, settled(Entry(2, 3, 1)), 2.0)
    process.receive(ONE, settled(Entry(2, 6, 1)), 2.1)
    sent(process)
    due = process.next_timer()
    assert due is not None
    assert 2.1 < due < 3.0
    process.handle_timer(due)
    assert sent(process) == ["4: settled [2:1>3]", "5: settled [2:1>3, 2:1>6]"]
    assert process.next_timer() is None


def test_a_copy_does_not_list_an_abandoned_copy_that_was_queued() -> None:
    process = make(8)
    inherited = [Entry(2, target, 1) for target in (5, 6, 7)]
    process.receive(ONE, message(1, inherited=inherited), 0.0)
    process.send([FOUR], b"", 0.0)
    process.recovery.abandon(FOUR, 0.0)
    process.send([THREE], b"", 0.0)
    process.send([FOUR], b"", 0.0)
    sent(process)
    process.receive(ONE, settled(*inherited), 0.0)
    assert sent(process) == ["3: 2 permitted", "4: 3 [own 2>3]"]
