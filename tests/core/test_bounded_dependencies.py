"""Entries of ``bounded`` for drivers that name processes, and that keep a journal."""

import pytest

from antecede.core import ProcessConfig, protocol
from antecede.core.codec import Reader
from antecede.core.dependencies import PeerDependencies
from antecede.core.process import NO_PROCESS, PeerRecovery, ProcessId
from antecede.core.protocols.hybrid.dependency_frames import (
    Notes,
    Query,
    Settled,
    SettledAck,
)
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame
from antecede.core.protocols.hybrid.hybrid import make_hybrid
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.errors import PeerError
from tests.core.bounded_runs import ledger_of
from tests.core.test_bounded_frames import message, own
from tests.core.test_bounded_rules import (
    FOUR,
    ONE,
    THREE,
    TWO,
    ZERO,
    cleared,
    make,
    old_entries,
    sent,
)
from tests.engine.test_name_exchange import EVE, Ends

GONE = ProcessId(NO_PROCESS)


def entries_of(process: HybridProcess) -> PeerDependencies:
    dependencies = process.dependencies
    assert dependencies is not None
    return dependencies


def recovery_of(process: HybridProcess) -> PeerRecovery:
    return process.recovery


def test_only_bounded_has_entries() -> None:
    assert make_hybrid(ZERO).dependencies is None
    assert protocol("fifo").make(ZERO, ProcessConfig()).dependencies is None


# Names.


def test_entries_may_use_other_ids_than_the_process_ids_of_peers() -> None:
    """Peer 1 is the source 11 and the target 12, and peer 2 the source 21 and target 22."""
    process = make()
    entries_of(process).identify(ONE, 11, 12)
    entries_of(process).identify(TWO, NO_PROCESS, 22)
    process.send([TWO], b"", 0.0)
    process.send([ONE], b"", 0.0)
    assert sent(process) == ["2: 1 permitted", "1: 2 [own 1>22]"]
    entries_of(process).identify(TWO, 21, 22)
    process.receive(ONE, message(1, own=[own(22, 1)], inherited=[Entry(21, 33, 5)]), 0.0)
    assert sorted(entries_of(process).unsettled()) == [(11, 22), (21, 33)]
    sent(process)
    process.send([TWO], b"", 0.0)  # It is the source of an entry, and gets the other.
    assert sent(process) == ["2: 3 [own 2>12, 11:1>22]"]
    assert entries_of(process).awaited_targets() == [TWO]
    used = entries_of(process).used_ids()
    assert used >= {11, 12, 21, 22, 33}


def test_a_held_message_uses_the_ids_of_its_entries() -> None:
    process = make()
    entries_of(process).identify(ONE, 11, 12)
    entries_of(process).identify(TWO, 21, 22)
    held = message(1, own=[own(44, 1)], inherited=[Entry(21, 0, 1)], wildcards=[55])
    process.receive(ONE, held, 0.0)
    process.receive(ONE, MessageFrame(3, 2, True, b""), 0.0)  # Without entries.
    assert process.messages_to_deliver() == []
    assert entries_of(process).used_ids() >= {44, 55, 21}
    process.receive(TWO, MessageFrame(1, 0, True, b""), 0.0)
    assert [d.source for d in process.messages_to_deliver()] == [TWO, ONE]


def test_the_ids_in_frames_are_listed_and_translated() -> None:
    ends = Ends()
    source, target = ends.ann_names.source(EVE, 5), ends.ann_names.target(EVE)
    ends.bob_names.target(99)  # So bob has other ids.
    ends.bob.read(Reader(ends.datagram({source, target})))
    dependencies = entries_of(make())
    for make_frame in (Settled, Query, lambda notes: SettledAck(1, 1, notes)):
        notes = Notes(0, [own(target, 1)], [Entry(source, target, 1)], [own(target, 1)])
        frame = make_frame(notes)
        assert dependencies.named_ids(frame) == [target, source, target, target]
        dependencies.translate(frame, ends.bob)
        here, there = ends.bob_names.source(EVE, 5), ends.bob_names.target(EVE)
        assert dependencies.named_ids(frame) == [there, here, there, there]
        assert (here, there) != (source, target)
    listed = [Entry(source, target, 1)]
    dependent = message(9, own=[own(target, 1)], inherited=listed, wildcards=[target])
    assert dependencies.named_ids(dependent) == [target, target, source, target]
    dependencies.translate(dependent, ends.bob)
    assert dependencies.named_ids(dependent) == [there, there, here, there]
    assert dependencies.named_ids(Ack(1, 1)) == []
    dependencies.translate(Ack(1, 1), ends.bob)


def test_a_peer_that_is_forgotten_has_no_ids() -> None:
    process = make()
    entries_of(process).identify(ONE, 11, 12)
    process.send([ONE], b"", 0.0)
    process.receive(ONE, Ack(1, 1), 0.0)
    assert recovery_of(process).forget(ONE)
    assert ledger_of(process).channels.find(12) == NO_PROCESS


def test_entries_of_a_source_that_has_ended_are_settled_now_and_later() -> None:
    process = make()
    for peer, source, target in ((ONE, 11, 12), (TWO, 21, 22), (THREE, 31, 32)):
        entries_of(process).identify(peer, source, target)
    process.receive(ONE, message(1, inherited=[Entry(99, 22, 1)]), 0.0)
    process.receive(TWO, message(1, inherited=[Entry(99, 0, 4)]), 0.0)
    assert [d.source for d in process.messages_to_deliver()] == [ONE]
    entries_of(process).end_source(99, 0.0)
    assert [d.source for d in process.messages_to_deliver()] == [TWO]
    assert entries_of(process).unsettled() == []
    sent(process)
    process.receive(THREE, message(1, inherited=[Entry(99, 22, 7), Entry(99, 0, 7)]), 9.0)
    assert [d.source for d in process.messages_to_deliver()] == [THREE]
    # The peer may have nobody else to ask.
    assert "3: ack 1 [99:7>22]" in sent(process)
    assert 99 in entries_of(process).used_ids()


def test_sources_that_have_ended_are_forgotten_in_the_end() -> None:
    process = make()
    entries_of(process).identify(ONE, 1, 2)
    for source in range(10, 10 + 4097):
        entries_of(process).end_source(source, 0.0)
    assert len(ledger_of(process).channels.ended) == 4096
    assert 10 not in ledger_of(process).channels.ended


def test_the_copy_that_a_message_waits_for_is_named_with_its_source() -> None:
    process = make()
    assert entries_of(process).awaited(ONE) is None
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 4)]), 0.0)
    assert entries_of(process).awaited(ONE) == (TWO, 4)
    assert entries_of(process).awaited(TWO) is None
    process.receive(TWO, MessageFrame(4, 0, True, b""), 0.0)
    assert entries_of(process).awaited(ONE) is None


def test_nobody_is_named_if_the_source_of_the_copy_is_unknown() -> None:
    process = make()
    entries_of(process).identify(ONE, 11, 12)
    process.receive(ONE, message(1, inherited=[Entry(99, 0, 4)]), 0.0)
    assert process.messages_to_deliver() == []
    assert entries_of(process).awaited(ONE) is None


# Silence of a sender.


def test_a_held_message_waits_while_its_sender_is_silent() -> None:
    process = make()
    entries_of(process).enable(5.0)
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 1)]), 0.0)
    process.receive(TWO, MessageFrame(1, 0, True, b""), 6.0)
    assert [d.source for d in process.messages_to_deliver()] == [TWO]
    process.receive(ONE, Settled(Notes(0, [], [], [])), 7.0)
    assert [d.source for d in process.messages_to_deliver()] == [ONE]


def test_held_messages_can_be_dropped() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 1)]), 0.0)
    recovery_of(process).drop_held(ONE)
    recovery_of(process).drop_held(THREE)
    process.receive(TWO, MessageFrame(1, 0, True, b""), 0.0)
    assert [d.source for d in process.messages_to_deliver()] == [TWO]
    hybrid = make_hybrid(ZERO)
    hybrid.receive(ONE, MessageFrame(2, 1, False, b""), 0.0)
    recovery_of(hybrid).drop_held(ONE)
    assert hybrid.pending.held_messages(1) == []


def test_copies_that_are_held_in_vain_are_retransmitted_together() -> None:
    """The target waits for 2:1, which process 2 has abandoned."""
    process = make()
    process.receive(TWO, message(1, own=[own(3, 1)]), 0.0)
    for _ in range(3):
        process.send([THREE], b"", 0.0)
    sent(process)
    for number in (1, 2, 3):
        process.receive(THREE, Ack(0, number), 0.1)
    process.receive(TWO, Settled(Notes(0, [own(3, 1)], [], [])), 0.2)
    sent(process)
    process.handle_timer(100.0)
    lines = [line for line in sent(process) if line.startswith("3: ")]
    assert lines == ["3: 1 permitted", "3: 2 permitted", "3: 3 permitted"]


def test_acked_copies_are_not_kept_for_a_silent_peer() -> None:
    process = make()
    process.send([ONE], b"", 0.0)
    for number in range(2, 402):
        process.send([TWO], b"", 0.0)
        process.receive(TWO, Ack(number, number), 0.0)
    assert process.retained() < 140
    process.receive(ONE, Ack(1, 1), 0.0)
    assert process.retained() == 0


# Journal.


def test_changes_of_entries_are_recorded() -> None:
    process = make(8)
    dependencies = entries_of(process)
    assert dependencies.take_changes() == []
    dependencies.record_changes()
    process.receive(ONE, message(1, inherited=[Entry(2, 3, 1)], wildcards=[4]), 0.0)
    assert dependencies.take_changes() == [
        (True, 2, 3, 1, ONE),
        (True, NO_PROCESS, 4, 1, ONE),
    ]
    process.receive(ONE, cleared(4, 1), 0.0)
    process.receive(ONE, message(2, 1, inherited=[Entry(2, 3, 2)]), 0.0)
    assert dependencies.take_changes() == [
        (False, NO_PROCESS, 4, 1, ONE),
        (False, 2, 3, 1, ONE),
        (True, 2, 3, 2, ONE),
    ]
    process.receive(ONE, Settled(Notes(0, [], [Entry(2, 3, 2)], [])), 0.0)
    assert dependencies.take_changes() == [(False, 2, 3, 2, ONE)]


def test_wildcards_on_messages_are_recorded() -> None:
    process = make(8)
    dependencies = entries_of(process)
    dependencies.record_changes()
    old_entries(process)
    dependencies.take_changes()
    process.send([ProcessId(6)], b"", 10.0)
    number = recovery_of(process).last_number()
    assert (True, ZERO, 4, number, ProcessId(6)) in dependencies.take_changes()


def test_which_messages_need_a_permit_is_known() -> None:
    process = make()
    process.receive(ONE, MessageFrame(1, 0, False, b""), 0.0)
    process.receive(ONE, message(2, 1, own=[own(2, 2)]), 0.0)
    process.receive(ONE, MessageFrame(3, 2, False, b""), 0.0)
    dependencies = entries_of(process)
    assert [dependencies.needs_permit(ONE, number) for number in (1, 2, 3, 4)] == [
        True,
        False,
        True,
        False,
    ]
    assert not dependencies.needs_permit(TWO, 1)


def restored(copies: list[tuple[ProcessId, int, int, int, bytes]]) -> HybridProcess:
    """Return a process with an entry and a wildcard of peer 1, and one of a gone peer."""
    process = make()
    entries = [(2, 3, 1, ONE), (NO_PROCESS, 4, 1, ONE), (2, 5, 1, GONE)]
    entries_of(process).restore(entries, 0.0)
    numbers = {THREE: 6, FOUR: 6, ProcessId(6): 7}
    channels = [(ONE, 0, 2, 0), *((peer, last, 0, 0) for peer, last in numbers.items())]
    recovery_of(process).restore(7, channels, [], copies, 0.0, [0, 3])
    return process


def test_restored_copies_list_the_entries_before_their_send() -> None:
    six = ProcessId(6)
    process = restored([(THREE, 6, 0, 0, b""), (six, 7, 0, 0, b"")])
    assert sent(process) == ["3: 6 permitted", "6: 7 [own 6>3, 2:1>3, 2:1>5, *>4]"]


def test_several_entries_of_a_pair_are_restored() -> None:
    process = make()
    entries_of(process).restore([(2, 3, 1, ONE), (2, 3, 4, ONE)], 0.0)
    recovery_of(process).restore(1, [(FOUR, 1, 0, 0)], [], [(FOUR, 1, 0, 0, b"")], 0.0, [1])
    assert sent(process) == ["4: 1 [2:1>3, permitted]"]
    process.send([FOUR], b"", 0.0)
    assert sent(process) == ["4: 2 [2:4>3, permitted]"]


def test_absence_does_not_settle_what_was_restored() -> None:
    """The process may have reported an entry of the pair before it was restored."""
    process = restored([])
    process.receive(ONE, message(3, 2, inherited=[Entry(9, 8, 1)]), 0.0)
    assert (2, 3) in entries_of(process).unsettled()
    assert (NO_PROCESS, 4) in entries_of(process).unsettled()
    process.receive(ONE, cleared(4, 1), 0.0)
    process.receive(ONE, Settled(Notes(0, [], [Entry(2, 3, 1)], [])), 0.0)
    assert sorted(entries_of(process).unsettled()) == [(2, 5), (9, 8)]


def test_a_restored_wildcard_on_a_message_is_cleared_later() -> None:
    process = restored([(FOUR, 6, 0, 0, b""), (ProcessId(6), 7, 0, 0, b"")])
    entries_of(process).restore_sent([(0, 4, 6, ONE), (0, 8, 7, TWO)])
    sent(process)
    question = Query(Notes(0, [], [], [own(4, 6)]))
    process.receive(ONE, question, 0.0)
    assert sent(process) == []  # The copy 6 to process 4 is not acked.
    process.receive(FOUR, Ack(6, 6), 0.0)
    process.receive(ONE, question, 0.0)
    assert "1: settled [*6>4]" in sent(process)


def test_wildcards_whose_reporters_are_gone_are_counted() -> None:
    process = make()
    entries_of(process).identify(ONE, 11, 12)
    process.receive(ONE, message(1, wildcards=[44]), 0.0)
    assert entries_of(process).count_lost_wildcards() == 0
    recovery_of(process).forgo_permits(ONE, 0.0)
    assert entries_of(process).count_lost_wildcards() == 1
    other = make()
    entries_of(other).restore([(NO_PROCESS, 4, 1, GONE)], 0.0)
    assert entries_of(other).count_lost_wildcards() == 1


def test_the_ack_of_a_restored_copy_that_does_not_fit_is_ignored() -> None:
    """The copy was transmitted before, when its entries had become a wildcard."""
    process = make(5)
    entries_of(process).restore([(2, 5, 1, ONE), (3, 5, 1, ONE)], 0.0)
    recovery_of(process).restore(7, [(FOUR, 7, 0, 0)], [], [(FOUR, 7, 0, 0, b"")], 0.0, [2])
    assert sent(process) == []
    process.receive(FOUR, Ack(7, 7), 0.0)
    assert process.retained() == 1
    with pytest.raises(PeerError, match="no such message was released to 4"):
        process.receive(FOUR, Ack(8, 8), 0.0)
    process.receive(ONE, Settled(Notes(0, [], [Entry(2, 5, 1), Entry(3, 5, 1)], [])), 0.0)
    assert sent(process) == ["4: 7 permitted"]


def test_a_peer_that_is_identified_is_asked_for_reporters_that_are_gone() -> None:
    process = make()
    entries_of(process).identify(ONE, 11, 12)
    process.receive(ONE, message(1, inherited=[Entry(21, 32, 1)]), 0.0)
    recovery_of(process).forgo_permits(ONE, 0.0)
    assert process.next_timer() is None
    entries_of(process).identify(THREE, 31, 32)
    timer = process.next_timer()
    assert timer is not None
    process.handle_timer(timer)
    assert sent(process) == ["1: ack 1", "3: query [21:1>32]"]
    entries_of(process).identify(TWO, 51, 52)  # Process 3 is still the one to ask.
    recovery_of(process).forgo_permits(THREE, 10.0)  # It was only to answer.
    assert process.next_timer() is None
    entries_of(process).identify(FOUR, 41, 32)
    assert process.next_timer() is not None
