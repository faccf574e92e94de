"""Requests of ``bounded`` for copies that held messages wait for."""

import pytest

from antecede.core.process import ProcessId
from antecede.core.protocols.hybrid.dependency_frames import Notes, Query
from antecede.core.protocols.hybrid.entry import Entry
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.errors import PeerError
from tests.core.bounded_runs import ledger_of
from tests.core.test_bounded_frames import message
from tests.core.test_bounded_rules import ONE, THREE, TWO, make, sent

ROUND_TRIP_S = 0.25


def with_round_trip() -> HybridProcess:
    """Return a process that has measured a round trip to process 3."""
    process = make()
    process.send([THREE], b"", 0.0)
    process.receive(THREE, Ack(1, 1), ROUND_TRIP_S)
    sent(process)
    return process


def requests(process: HybridProcess, now: float) -> list[tuple[ProcessId, int]]:
    """Let the timer of a process fire, and return whom it asks for copies up to which."""
    process.handle_timer(now)
    return [
        (transmit.target, transmit.frame.notes.number)
        for transmit in process.frames_to_transmit()
        if isinstance(transmit.frame, Query) and transmit.frame.notes.number > 0
    ]


def asked_for(number: int) -> Query:
    return Query(Notes(number, [], [], []))


def test_the_sender_of_a_missing_copy_is_asked_after_a_round_trip() -> None:
    process = with_round_trip()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 4)]), 1.0)
    assert process.messages_to_deliver() == []
    assert process.next_timer() == 1.0 + ROUND_TRIP_S
    assert requests(process, 1.0 + ROUND_TRIP_S) == [(TWO, 4)]


def test_the_sender_is_asked_for_a_gap_in_its_own_messages() -> None:
    process = with_round_trip()
    process.receive(TWO, MessageFrame(5, 3, True, b""), 1.0)
    assert requests(process, 1.0 + ROUND_TRIP_S) == [(TWO, 3)]


def test_nobody_is_asked_for_a_copy_that_arrives_in_time() -> None:
    process = with_round_trip()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 4)]), 1.0)
    process.receive(TWO, MessageFrame(4, 0, True, b""), 1.1)
    assert len(process.messages_to_deliver()) == 2
    assert requests(process, 2.0) == []
    assert ledger_of(process).repairs.missing == {}


def test_requests_end_after_some_repetitions() -> None:
    process = with_round_trip()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 4)]), 1.0)
    times = []
    for step in range(1, 100):
        now = 1.0 + step * ROUND_TRIP_S
        if requests(process, now):
            times.append(step)
    assert times == [1, 3, 7, 15]
    assert ledger_of(process).repairs.missing == {}


def test_without_a_round_trip_the_first_timeout_passes() -> None:
    process = make()
    process.receive(ONE, message(1, inherited=[Entry(2, 0, 4)]), 0.0)
    assert requests(process, 0.9) == []
    assert requests(process, 1.0) == [(TWO, 4)]


def test_a_request_brings_the_copies_that_have_not_arrived() -> None:
    process = with_round_trip()
    for number in (2, 3, 4):
        process.send([ONE], b"", 1.0 + number / 1000)
    sent(process)
    process.receive(ONE, Ack(0, 3), 1.1)
    sent(process)
    process.receive(ONE, asked_for(3), 2.0)
    assert sent(process) == ["1: 2 permitted"]
    process.receive(ONE, asked_for(4), 2.0 + ROUND_TRIP_S)
    assert sent(process) == ["1: 2 permitted", "1: 4 permitted"]


def test_a_request_does_not_repeat_a_copy_that_may_still_arrive() -> None:
    process = with_round_trip()
    process.send([ONE], b"", 1.0)
    sent(process)
    process.receive(ONE, asked_for(2), 1.0 + 0.9 * ROUND_TRIP_S)
    assert sent(process) == []
    process.receive(ONE, asked_for(2), 1.0 + ROUND_TRIP_S)
    assert sent(process) == ["1: 2 permitted"]


def test_a_request_for_a_copy_that_was_not_sent_is_refused() -> None:
    process = with_round_trip()
    with pytest.raises(PeerError, match="message 2 was not sent"):
        process.receive(ONE, asked_for(2), 1.0)
    process.receive(ONE, asked_for(1), 1.0)  # It went to another target.
    assert sent(process) == []


def test_what_was_dropped_is_not_asked_for() -> None:
    process = with_round_trip()
    process.receive(TWO, MessageFrame(5, 3, True, b""), 1.0)
    process.recovery.drop_held(TWO)
    assert requests(process, 2.0) == []
    assert ledger_of(process).repairs.missing == {}


def test_without_room_for_an_entry_nobody_is_asked() -> None:
    """A budget of 0 is ``hybrid``, which has no requests."""
    process = make(0)
    process.receive(TWO, MessageFrame(5, 3, True, b""), 0.0)
    assert requests(process, 10.0) == []
