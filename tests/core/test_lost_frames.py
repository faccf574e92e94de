"""What processes transmit in place of frames that their driver reports as lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core import ProcessId, make_hybrid
from antecede.core.codec import Frame
from antecede.core.link import ReliableLink
from antecede.core.link_frames import LinkAck, Segment
from antecede.core.process import ProcessBase
from antecede.core.protocols.baseline import Baseline
from antecede.core.protocols.buffer import Buffer
from antecede.core.protocols.hybrid.bounded import make_bounded
from antecede.core.protocols.hybrid.dependency_frames import (
    Notes,
    Query,
    Settled,
    SettledAck,
)
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.support.interval_set import IntervalSet
from antecede.core.support.retransmission import (
    RetransmissionPolicy,
    RetransmissionTimer,
    SharedRttEstimate,
)
from antecede.errors import ConfigError

ANN, BOB, CID = ProcessId(0), ProcessId(1), ProcessId(2)


def frames(process: ProcessBase) -> list[Frame]:
    """Remove and return the frames to transmit."""
    return [transmit.frame for transmit in process.frames_to_transmit()]


def lose(process: ProcessBase, frame: Frame, sent_at: float = 0.0) -> list[Frame]:
    """Report a frame to bob as lost, and return the frames in its place."""
    process.frame_lost(BOB, frame, sent_at, 1.0)
    return frames(process)


def sent(count: int = 2) -> tuple[ProcessBase, list[Frame]]:
    """Return a process that has transmitted some messages to bob, and the frames."""
    process = make_hybrid(ANN)
    for _ in range(count):
        process.send([BOB], b"x", 0.0)
    return process, frames(process)


# Messages.


def test_a_lost_copy_is_transmitted_again_as_it_is_now() -> None:
    process = make_hybrid(ANN)
    process.send([CID], b"", 0.0)
    process.send([BOB], b"x", 0.0)
    _, lost = frames(process)
    assert isinstance(lost, MessageFrame)
    assert not lost.permitted
    process.receive(CID, Ack(1, 1), 0.5)
    frames(process)
    (again,) = lose(process, lost)
    assert isinstance(again, MessageFrame)
    assert (again.number, again.permitted) == (2, True)


def test_a_copy_that_arrived_or_was_transmitted_since_is_not_transmitted_again() -> None:
    process, (first, second) = sent()
    process.receive(BOB, Ack(0, 2), 0.5)
    assert lose(process, second) == []
    assert len(lose(process, first)) == 1
    assert lose(process, first) == []  # It was lost once more, in an older datagram.
    assert len(lose(process, first, sent_at=2.0)) == 1
    process.receive(BOB, Ack(2, 2), 2.5)
    frames(process)
    assert [type(frame) for frame in lose(process, first, sent_at=3.0)] == [Permit]


def test_frames_to_an_unknown_peer_and_of_unknown_messages_are_ignored() -> None:
    process = make_hybrid(ANN)
    lost = MessageFrame(1, 0, False, b"")
    assert lose(process, lost) == []
    process.send([BOB], b"x", 0.0)
    frames(process)
    assert lose(process, MessageFrame(7, 6, False, b"")) == []
    process.receive(BOB, Ack(1, 1), 0.5)
    frames(process)
    assert lose(process, lost) == []


def test_a_lost_copy_beyond_a_window_that_has_shrunk_waits() -> None:
    process = make_hybrid(ANN)
    process.windows.enable()
    process.windows.set_window(BOB, 2, 0.0)
    for _ in range(2):
        process.send([BOB], b"x", 0.0)
    first, second = frames(process)
    process.windows.set_window(BOB, 0, 0.5)
    assert lose(process, second) == []
    assert len(lose(process, first)) == 1
    assert process.windows.allows(CID, 1, False)
    assert not process.windows.allows(BOB, 1, False)
    assert process.windows.allows(BOB, 1, True)
    assert not process.windows.allows(BOB, 2, True)
    process.windows.set_window(CID, 0, 0.5)
    assert process.windows.allows(CID, 1, False)  # Nothing was sent to cid.


# Control frames.


def test_lost_acks_permits_and_requests_are_replaced_by_current_ones() -> None:
    process = make_hybrid(ANN)
    process.receive(BOB, MessageFrame(1, 0, False, b""), 0.0)
    process.receive(BOB, MessageFrame(2, 1, False, b""), 0.0)
    frames(process)
    (ack,) = lose(process, Ack(1, 1))
    assert isinstance(ack, Ack)
    assert (ack.delivered, ack.arrived) == (2, 2)
    (request,) = lose(process, PermitRequest(1))
    assert isinstance(request, PermitRequest)
    assert request.number == 1
    process.receive(BOB, Permit(2), 0.5)
    assert lose(process, PermitRequest(1)) == []
    for _ in range(3):
        process.send([CID], b"", 0.5)
    process.receive(CID, Ack(3, 3), 0.6)
    frames(process)
    (permit,) = lose(process, Permit(1))
    assert isinstance(permit, Permit)
    assert permit.number == 3


def test_an_ack_of_nothing_is_not_repeated() -> None:
    process = make_hybrid(ANN)
    process.receive(BOB, MessageFrame(2, 1, False, b""), 0.0)
    frames(process)
    assert lose(process, Ack(0, 2)) == []


def test_lost_notes_and_queries_are_repeated() -> None:
    process = make_bounded(ANN)
    process.send([BOB], b"", 0.0)
    frames(process)
    notes = Notes(1, [], [], [])
    for lost in (Settled(notes), Query(notes)):
        assert lose(process, lost) == [lost]
    (repeated,) = lose(process, SettledAck(0, 1, notes))
    assert isinstance(repeated, Settled)
    assert repeated.notes is notes
    assert lose(process, LinkAck(1, 1)) == []


# The link layer.


def test_a_lost_segment_is_transmitted_again_once() -> None:
    process = ReliableLink(Baseline(ANN), True)
    assert lose(process, Segment(1, 0, Ack(1, 1))) == []
    for _ in range(3):
        process.send([BOB], b"x", 0.0)
    first, second, _ = frames(process)
    process.receive(BOB, LinkAck(0, 2), 0.5)
    process.receive(BOB, LinkAck(0, 2), 0.5)
    assert process.early_copies(BOB) == 1
    assert process.early_copies(CID) == 0
    assert lose(process, second) == []
    (again,) = lose(process, first)
    assert isinstance(again, Segment)
    assert again.number == 1
    assert lose(process, first) == []
    process.receive(BOB, LinkAck(3, 3), 2.0)
    assert process.early_copies(BOB) == 0
    assert lose(process, first, sent_at=3.0) == []
    assert lose(process, LinkAck(1, 1)) == []  # Nothing has arrived from bob.


def test_a_lost_ack_of_segments_is_replaced_by_the_current_one() -> None:
    bob = ReliableLink(Buffer(BOB), False)
    ann = ReliableLink(Baseline(ANN), True)
    ann.send([BOB], b"x", 0.0)
    (segment,) = frames(ann)
    target = ReliableLink(Baseline(BOB), True)
    target.receive(ANN, segment, 0.1)
    frames(target)
    target.frame_lost(ANN, LinkAck(0, 2), 0.1, 0.2)
    (ack,) = frames(target)
    assert isinstance(ack, LinkAck)
    assert (ack.acked, ack.arrived) == (1, 1)
    assert bob.early_bytes(ANN) == 0


# Windows of copies, and timers.


def test_copies_that_arrived_early_are_counted_until_they_are_acked() -> None:
    process, _ = sent(4)
    assert (process.early_copies(CID), process.early_bytes(CID)) == (0, 0)
    for arrived in (2, 3, 3):
        process.receive(BOB, Ack(0, arrived), 0.5)
    assert (process.early_copies(BOB), process.early_bytes(BOB)) == (2, 2)
    process.receive(BOB, Ack(3, 1), 0.6)
    assert (process.early_copies(BOB), process.early_bytes(BOB)) == (0, 0)
    process.receive(BOB, Ack(4, 4), 0.7)
    assert (process.early_copies(BOB), process.backlog(BOB)) == (0, 0)


def test_early_copies_end_with_their_channel() -> None:
    for end in ("abandon", "peer_restored"):
        process = make_hybrid(ANN)
        for _ in range(3):
            process.send([BOB], b"x", 0.0)
        process.receive(BOB, Ack(0, 2), 0.5)
        assert process.early_copies(BOB) == 1
        if end == "abandon":
            process.recovery.abandon(BOB, 1.0)
        else:
            process.recovery.peer_restored(BOB)
        assert (process.early_copies(BOB), process.early_bytes(BOB)) == (0, 0)


def test_a_protocol_without_loss_recovery_ignores_reports() -> None:
    process = Baseline(ANN)
    process.send([BOB], b"x", 0.0)
    (frame,) = frames(process)
    assert lose(process, frame) == []
    assert (process.early_copies(BOB), process.early_bytes(BOB)) == (0, 0)


def test_a_patient_timer_waits_several_timeouts_up_to_the_maximum() -> None:
    policy = RetransmissionPolicy(initial_s=1.0, minimum_s=0.1, maximum_s=4.0, patience=3.0)
    timer = RetransmissionTimer(SharedRttEstimate(policy), 1)
    timer.restart(10.0)
    assert timer.deadline == 13.0
    timer.expire(20.0)
    assert timer.timeout_s == 2.0
    assert timer.deadline == 24.0
    with pytest.raises(ConfigError, match="patience must be at least 1"):
        RetransmissionPolicy(patience=0.5)


# Interval sets.


@given(
    st.lists(st.integers(0, 15), max_size=40),
    st.integers(0, 6),
    st.integers(-1, 16),
    st.booleans(),
)
def test_intervals_are_those_of_a_set(
    numbers: list[int], count: int, up_to: int, discards_first: bool
) -> None:
    intervals = IntervalSet()
    expected: set[int] = set()
    for number in numbers:
        intervals.add(number)
        expected.add(number)
    intervals.discard_up_to(up_to)
    expected = {number for number in expected if number > up_to}
    if discards_first:
        intervals.discard_first()
        while expected:
            lowest = min(expected)
            expected.remove(lowest)
            if lowest + 1 not in expected:
                break
    assert {number for number in range(42) if number in intervals} == expected
    listed = intervals.last(count) if count else []
    tops = sorted(
        (number for number in expected if number + 1 not in expected), reverse=True
    )
    assert [high for _, high in listed] == tops[:count]
    assert len(intervals) == len(tops)
    for low, high in listed:
        assert low - 1 not in expected
        assert all(number in expected for number in range(low, high + 1))
