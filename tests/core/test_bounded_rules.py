"""The rules of ``bounded``, one by one, with frames made by hand."""

import pytest

from antecede.core.process import UNBOUNDED, ProcessId
from antecede.core.protocols.hybrid.bounded import make_bounded
from antecede.core.protocols.hybrid.dependency_frames import (
    DependentMessage,
    Notes,
    Query,
    Settled,
    SettledAck,
)
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.protocols.hybrid.process import HybridProcess
from tests.core.bounded_runs import POLICY, ledger_of, left_over
from tests.core.test_bounded_frames import message, own

ZERO, ONE, TWO, THREE, FOUR, FIVE = (ProcessId(index) for index in range(6))


def make(budget: int = UNBOUNDED, id: ProcessId = ZERO) -> HybridProcess:
    return make_bounded(id, POLICY, budget_bytes=budget)


def sent(process: HybridProcess) -> list[str]:
    """Drain the frames to transmit, and describe them."""
    return [f"{t.target}: {describe(t.frame)}" for t in process.frames_to_transmit()]


def describe(frame: object) -> str:
    """Describe a frame by its content; name entries as source:number>target."""
    if isinstance(frame, DependentMessage):
        parts = [f"own {e.number}>{e.target}" for e in frame.own]
        parts += [f"{e.source}:{e.number}>{e.target}" for e in frame.inherited]
        parts += [f"*>{target}" for target in frame.wildcards]
        if frame.is_opaque or frame.permitted:
            parts.append("opaque" if frame.is_opaque else "permitted")
        return f"{frame.number} [{', '.join(parts)}]"
    if isinstance(frame, MessageFrame):
        return f"{frame.number}{' permitted' if frame.permitted else ' opaque'}"
    if isinstance(frame, SettledAck):
        return f"ack {frame.delivered} {listed(frame.notes)}"
    if isinstance(frame, Ack):
        return f"ack {frame.delivered}"
    if isinstance(frame, Permit):
        return f"permit {frame.number}"
    assert isinstance(frame, Settled | Query)
    return f"{type(frame).__name__.lower()} {listed(frame.notes)}"


def listed(notes: Notes) -> str:
    parts = [f"permit {notes.number}"] * (notes.number > 0)
    parts += [f"own {e.number}>{e.target}" for e in notes.targets]
    parts += [f"{e.source}:{e.number}>{e.target}" for e in notes.entries]
    parts += [f"*{e.number}>{e.target}" for e in notes.wildcards]
    return f"[{', '.join(parts)}]"


def settled(*entries: Entry) -> Settled:
    return Settled(Notes(0, [], list(entries), []))


def cleared(target: int, number: int) -> Settled:
    return Settled(Notes(0, [], [], [own(target, number)]))


# Release.


def test_a_copy_lists_the_unacked_copies_to_other_targets() -> None:
    process = make()
    for targets in ([ONE], [ONE, TWO], [THREE]):
        process.send(targets, b"", 0.0)
    assert sent(process) == [
        "1: 1 permitted",
        "1: 2 [own 2>2]",
        "2: 2 [own 2>1]",
        "3: 3 [own 2>1, own 2>2]",
    ]
    process.receive(ONE, Ack(2, 2), 0.0)
    sent(process)
    process.send([FOUR], b"", 0.0)
    assert sent(process) == ["4: 4 [own 2>2, own 3>3]"]


def test_own_entries_that_do_not_fit_make_a_copy_opaque() -> None:
    process = make(5)
    for target in (ONE, TWO, THREE):
        process.send([target], b"", 0.0)
    assert sent(process) == ["1: 1 permitted", "2: 2 [own 1>1]", "3: 3 opaque"]


def test_inherited_entries_follow_until_they_are_settled() -> None:
    process = make()
    process.receive(ONE, message(1, own=[own(3, 1)], inherited=[Entry(2, 4, 7)]), 0.0)
    sent(process)
    process.send([FIVE], b"", 0.0)
    assert sent(process) == ["5: 1 [1:1>3, 2:7>4, permitted]"]
    process.receive(FIVE, Ack(1, 1), 0.0)
    process.receive(ONE, settled(Entry(2, 4, 7)), 0.0)
    sent(process)
    process.send([FIVE], b"", 0.0)
    assert sent(process) == ["5: 2 [1:1>3, permitted]"]


def test_what_the_target_reported_or_is_the_source_of_is_left_off() -> None:
    process = make()
    process.receive(ONE, message(1, own=[own(3, 1)], inherited=[Entry(2, 4, 7)]), 0.0)
    process.receive(FIVE, message(1, inherited=[Entry(2, 4, 7)]), 0.0)
    sent(process)
    process.send([ONE, TWO, FIVE], b"", 0.0)
    assert sent(process) == [
        "1: 1 [own 1>2, own 1>5]",
        "2: 1 [own 1>1, own 1>5, 1:1>3]",
        "5: 1 [own 1>1, own 1>2, 1:1>3]",
    ]


def test_a_queued_copy_leaves_when_the_target_reports_its_entries_too() -> None:
    # Of the entries (2, 4, 1) and (2, 5, 1), a budget of 5 has room for one.
    process = make(5)
    process.receive(ONE, message(1, inherited=[Entry(2, 4, 1), Entry(2, 5, 1)]), 0.0)
    process.send([THREE], b"", 0.0)
    assert sent(process) == ["1: ack 1"]
    process.receive(THREE, message(1, inherited=[Entry(2, 4, 1)]), 0.0)
    assert sent(process) == ["3: 1 [2:1>5, permitted]", "3: ack 1"]


def test_a_queued_copy_leaves_off_what_the_target_reported_before_a_higher_entry() -> None:
    # 0:1 is queued between the deliveries of (2, 4, 1) and (2, 4, 2), so both are kept.
    process = make(5)
    process.receive(ONE, message(1, inherited=[Entry(2, 4, 1), Entry(2, 5, 1)]), 0.0)
    process.send([THREE], b"", 0.0)
    process.receive(ONE, message(2, 1, inherited=[Entry(2, 4, 2), Entry(2, 5, 1)]), 0.0)
    assert sent(process) == ["1: ack 1", "1: ack 2"]
    process.receive(THREE, message(1, inherited=[Entry(2, 4, 1)]), 0.0)
    assert sent(process) == ["3: 1 [2:1>5, permitted]", "3: ack 1"]


def test_a_copy_whose_inherited_entries_do_not_fit_waits() -> None:
    process = make(8)
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 1), Entry(2, 4, 1)]), 0.0)
    process.receive(ONE, message(2, 1, inherited=[Entry(2, 3, 1), Entry(2, 4, 1)]), 0.0)
    process.send([FIVE], b"", 0.0)
    assert "5: 1 [2:1>3, 2:1>4, permitted]" in sent(process)  # Two entries fit exactly.
    process.receive(THREE, message(1, inherited=[Entry(1, 6, 1)]), 0.0)
    process.send([FIVE], b"", 0.0)
    assert sent(process) == ["3: ack 1"]
    process.receive(ONE, settled(Entry(2, 3, 1)), 0.0)
    assert "5: 2 [2:1>4, 1:1>6, permitted]" in sent(process)


def test_a_queued_copy_lists_what_was_delivered_before_its_send() -> None:
    process = make()
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)  # It needs a permit.
    process.receive(TWO, message(1, inherited=[Entry(3, 4, 1)]), 0.0)
    process.send([FIVE], b"", 0.0)
    process.receive(TWO, message(2, 1, inherited=[Entry(3, 4, 9)]), 0.0)
    process.send([FIVE], b"", 0.0)
    sent(process)
    process.receive(ONE, Permit(1), 0.0)
    assert sent(process) == ["5: 1 [3:1>4, permitted]", "5: 2 [3:9>4, permitted]"]
    process.receive(FIVE, Ack(2, 2), 0.0)
    process.receive(TWO, settled(Entry(3, 4, 1)), 0.0)
    assert sent(process) == ["5: settled [3:1>4]"]
    process.receive(TWO, settled(Entry(3, 4, 9)), 0.0)
    assert left_over(process) == []


def test_later_entries_of_a_pair_replace_earlier_ones() -> None:
    process = make()
    for number in (1, 2, 3):
        inherited = [Entry(2, 3, 10 * number)]
        process.receive(ONE, message(number, number - 1, inherited=inherited), 0.0)
    (pair,) = ledger_of(process).open
    assert [each.entry.number for each in pair.unsettled] == [30]
    process.receive(FOUR, message(1, inherited=[Entry(2, 3, 20)]), 0.0)
    assert [each.entry.number for each in pair.unsettled] == [30]
    process.receive(ONE, settled(Entry(2, 3, 29)), 0.0)
    assert [each.entry.number for each in pair.unsettled] == [30]
    process.receive(ONE, settled(Entry(2, 3, 30)), 0.0)
    assert left_over(process) == []


def test_a_retransmission_lists_what_is_unsettled_now() -> None:
    process = make()
    inherited = [Entry(2, 3, 1), Entry(2, 4, 1)]
    process.receive(ONE, message(1, inherited=inherited, wildcards=[9]), 0.0)
    process.send([THREE], b"", 0.0)
    process.send([FIVE], b"", 0.0)
    assert "5: 2 [own 1>3, 2:1>3, 2:1>4, *>9]" in sent(process)
    process.receive(ONE, settled(Entry(2, 3, 1)), 0.0)
    process.receive(ONE, cleared(9, 1), 0.0)
    process.receive(THREE, Ack(1, 1), 0.0)
    sent(process)
    process.handle_timer(2.0)
    assert "5: 2 [2:1>4, permitted]" in sent(process)


# Delivery.


def test_a_message_waits_for_its_entries_for_the_receiver() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 3), Entry(3, 0, 1)]), 0.0)
    process.receive(ONE, MessageFrame(2, 1, True, b""), 0.0)
    process.receive(THREE, MessageFrame(1, 0, True, b""), 0.0)
    process.receive(TWO, MessageFrame(1, 0, True, b""), 0.0)
    assert sent(process)[-1] == "2: ack 1"
    process.receive(TWO, MessageFrame(3, 1, True, b""), 0.0)
    found = [(each.source, each.number) for each in process.messages_to_deliver()]
    assert found == [(3, 1), (2, 1), (2, 3), (1, 1), (1, 2)]
    assert sent(process) == ["1: ack 2", "2: ack 3"]


# Settling.


def test_the_absence_of_an_entry_on_a_later_message_settles_it() -> None:
    process = make()
    process.receive(ONE, message(1, own=[own(3, 1)], inherited=[Entry(2, 4, 7)]), 0.0)
    process.receive(ONE, message(2, 1, inherited=[Entry(2, 4, 7)]), 0.0)
    assert [(pair.source, pair.target) for pair in ledger_of(process).open] == [(2, 4)]
    process.receive(ONE, MessageFrame(3, 2, False, b""), 0.0)
    assert not ledger_of(process).open


def test_an_opaque_message_settles_no_own_entry_by_absence() -> None:
    process = make()
    process.receive(ONE, message(1, own=[own(3, 1)]), 0.0)
    process.receive(ONE, MessageFrame(2, 1, False, b""), 0.0)
    assert ledger_of(process).open
    opaque = message(3, 2, is_opaque=True, inherited=[Entry(2, 4, 7)])
    process.receive(ONE, opaque, 0.0)
    assert len(ledger_of(process).open) == 2
    process.receive(ONE, Permit(3), 0.0)
    assert [(pair.source, pair.target) for pair in ledger_of(process).open] == [(2, 4)]


def test_absence_does_not_settle_what_this_process_reported_to_the_peer() -> None:
    """The peer leaves it off because this process has it."""
    process = make()
    process.receive(FIVE, message(1, inherited=[Entry(2, 4, 7)]), 0.0)
    process.send([ONE], b"", 0.0)
    assert "1: 1 [2:7>4, permitted]" in sent(process)
    process.receive(ONE, message(1, inherited=[Entry(2, 4, 8)]), 0.0)
    process.receive(ONE, MessageFrame(2, 1, True, b""), 0.0)
    (pair,) = ledger_of(process).open
    assert [each.entry.number for each in pair.unsettled] == [7, 8]


def test_a_wildcard_stands_for_entries_that_are_absent() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 4, 7)]), 0.0)
    process.receive(ONE, message(2, 1, wildcards=[4]), 0.0)
    assert ledger_of(process).open
    assert ledger_of(process).wildcards.received
    process.receive(ONE, MessageFrame(3, 2, True, b""), 0.0)
    assert left_over(process) == []


def test_the_ack_of_a_copy_settles_its_entries_for_the_target() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 5, 7)]), 0.0)
    process.send([FIVE], b"", 0.0)
    assert "5: 1 [2:7>5, permitted]" in sent(process)
    process.receive(FIVE, Ack(0, 1), 0.0)
    assert ledger_of(process).open
    process.receive(FIVE, Ack(1, 1), 0.0)
    assert left_over(process) == []


def test_a_settled_entry_that_arrives_again_is_ignored() -> None:
    process = make()
    process.receive(ONE, settled(Entry(2, 4, 7)), 0.0)
    process.receive(ONE, message(1, inherited=[Entry(2, 4, 7), Entry(2, 0, 0)]), 0.0)
    assert left_over(process) == []
    process.receive(TWO, Permit(9), 0.0)
    process.receive(ONE, message(2, 1, inherited=[Entry(2, 5, 9)]), 0.0)
    assert left_over(process) == []


# Wildcards.


def test_copies_to_the_target_of_a_wildcard_wait() -> None:
    process = make()
    process.receive(ONE, message(1, wildcards=[4]), 0.0)
    sent(process)
    process.send([FOUR], b"", 0.0)
    process.send([FIVE], b"", 0.0)
    process.send([ONE], b"", 0.0)
    assert sent(process) == ["5: 2 [*>4]", "1: 3 [own 1>4, own 2>5]"]
    process.receive(ONE, cleared(4, 1), 0.0)
    assert "4: 1 permitted" in sent(process)


def test_a_wildcard_is_cleared_with_all_that_it_stands_for() -> None:
    """A received wildcard, an own copy, and an entry for the target."""
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 4, 7)], wildcards=[4]), 0.0)
    process.send([FIVE], b"", 0.0)
    assert "5: 1 [*>4, permitted]" in sent(process)
    question = Query(Notes(0, [], [], [own(4, 1)]))
    for frame in (cleared(4, 1), settled(Entry(2, 4, 7))):
        process.receive(FIVE, question, 0.0)
        assert not any("*" in line for line in sent(process))
        process.receive(ONE, frame, 0.0)
    assert sent(process) == ["5: settled [*1>4]"]
    process.receive(FIVE, question, 0.0)
    assert sent(process) == ["5: settled [*1>4]"]


def test_an_answer_does_not_clear_the_wildcard_of_a_queued_copy() -> None:
    process, peer = make(8), make(8, FIVE)
    process.receive(ONE, message(1, wildcards=[4]), 0.0)
    process.send([FIVE], b"", 0.0)
    (first,) = [t.frame for t in process.frames_to_transmit() if t.target == FIVE]
    process.receive(ONE, cleared(4, 1), 0.0)
    process.frames_to_transmit()  # The note to the peer is lost.
    process.receive(ONE, message(2, 1, wildcards=[4]), 0.0)
    process.receive(TWO, MessageFrame(1, 0, False, b""), 0.0)  # It needs a permit.
    process.send([FIVE], b"", 0.0)
    process.frames_to_transmit()
    process.receive(FIVE, Query(Notes(0, [], [], [own(4, 1)])), 0.0)
    (answer,) = [t.frame for t in process.frames_to_transmit()]
    assert describe(answer) == "settled [*1>4]"
    process.receive(TWO, Permit(1), 0.0)
    (second,) = [t.frame for t in process.frames_to_transmit()]
    assert describe(second).startswith("2 [*>4")
    for frame in (first, answer, second):
        peer.receive(ZERO, frame, 0.0)
    assert list(ledger_of(peer).wildcards.received) == [4]


def test_a_clear_that_overtakes_the_wildcard_is_remembered() -> None:
    process = make()
    process.receive(ONE, cleared(4, 2), 0.0)
    process.receive(ONE, message(1, wildcards=[4]), 0.0)
    process.receive(ONE, message(2, 1, wildcards=[4]), 0.0)
    assert left_over(process) == []
    process.receive(ONE, message(3, 2, wildcards=[4]), 0.0)
    assert list(ledger_of(process).wildcards.received) == [4]


def old_entries(process: HybridProcess) -> None:
    """Let a process deliver three entries for target 4."""
    inherited = [Entry(source, 4, 1) for source in (1, 2, 3)]
    process.receive(FIVE, message(1, inherited=inherited), 0.0)
    process.receive(FOUR, MessageFrame(1, 0, True, b""), 0.0)
    process.send([FIVE], b"", 0.0)
    process.receive(FIVE, Ack(1, 1), 1.0)  # A round trip of one second.
    process.frames_to_transmit()


def test_old_entries_become_a_wildcard() -> None:
    process = make(8)
    old_entries(process)
    process.send([ProcessId(6)], b"", 1.0)
    assert sent(process) == []
    timer = process.next_timer()
    assert timer is not None
    process.handle_timer(3.9)
    assert not any(line.startswith("6:") for line in sent(process))
    process.handle_timer(4.0)
    assert "6: 2 [*>4, permitted]" in sent(process)


@pytest.mark.parametrize("budget", [3, 5, 6])
def test_no_wildcard_without_room_for_it_and_none_for_the_target(budget: int) -> None:
    process = make(budget)
    old_entries(process)
    process.send([FOUR], b"", 1.0)
    if budget == 3:
        process.send([ProcessId(6)], b"", 1.0)
    process.handle_timer(50.0)
    frames = [line for line in sent(process) if "query" not in line]
    assert frames == []
