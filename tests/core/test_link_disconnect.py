"""The link layer stops retransmitting to a peer that is disconnected and silent."""

import pytest

from antecede.check.snapshot import snapshot
from antecede.core.link import TIMEOUTS_MAX, ReliableLink
from antecede.core.link_frames import LinkAck, Segment
from antecede.core.process import ProcessBase, ProcessId
from antecede.core.protocols.flood import Flood, RelayedMessage
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import PeerError
from tests.core.link_runs import disconnected_run
from tests.core.link_variants import DISCONNECT_MUTANTS, Variant, copied

ZERO, ONE = ProcessId(0), ProcessId(1)
POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)

either = pytest.mark.parametrize("fifo", [True, False], ids=["fifo", "unordered"])


def flood(fifo: bool, id: ProcessId = ZERO, peer: ProcessId = ONE) -> ReliableLink:
    return ReliableLink(Flood(id, [peer]), fifo, POLICY)


def message(number: int) -> RelayedMessage:
    return RelayedMessage(ONE, number, b"")


def segments(process: ProcessBase) -> list[tuple[int, int]]:
    """Return number and last dropped number of the segments to transmit."""
    return [
        (transmit.frame.number, transmit.frame.dropped)
        for transmit in process.frames_to_transmit()
        if isinstance(transmit.frame, Segment)
    ]


def expire(process: ProcessBase) -> list[tuple[int, int]]:
    """Let the next timer expire, and return the segments that are retransmitted."""
    due = process.next_timer()
    assert due is not None
    process.handle_timer(due)
    return segments(process)


def delivered(process: ProcessBase) -> list[int]:
    return [delivery.number for delivery in process.messages_to_deliver()]


def silent(fifo: bool, count: int = 2) -> ReliableLink:
    """Return a process that has dropped all segments to a silent, disconnected peer."""
    process = flood(fifo)
    for _ in range(count):
        process.broadcast(b"", 0.0)
    segments(process)
    process.disconnect(ONE, 0.0)
    while process.next_timer() is not None:
        expire(process)
    return process


@either
def test_retransmission_to_a_silent_peer_ends_after_several_timeouts(fifo: bool) -> None:
    process = flood(fifo)
    process.broadcast(b"", 0.0)
    process.broadcast(b"", 0.0)
    assert segments(process) == [(1, 0), (2, 0)]
    process.disconnect(ONE, 0.0)
    for _ in range(TIMEOUTS_MAX - 1):
        assert expire(process) == [(1, 0), (2, 0)]
    assert process.backlog(ONE) == 2
    assert expire(process) == []
    assert process.next_timer() is None
    assert process.backlog(ONE) == 0


@either
def test_retransmission_to_a_connected_peer_never_ends(fifo: bool) -> None:
    process = flood(fifo)
    process.broadcast(b"", 0.0)
    segments(process)
    process.disconnect(ONE, 0.0)
    process.connect(ONE, 0.0)
    for _ in range(5 * TIMEOUTS_MAX):
        assert expire(process) == [(1, 0)]


@either
def test_timeouts_before_the_disconnection_do_not_count(fifo: bool) -> None:
    process = flood(fifo)
    process.broadcast(b"", 0.0)
    segments(process)
    for _ in range(TIMEOUTS_MAX):
        expire(process)
    process.disconnect(ONE, process.next_timer() or 0.0)
    for _ in range(TIMEOUTS_MAX - 1):
        assert expire(process) == [(1, 0)]
    assert expire(process) == []


@either
def test_an_ack_starts_the_count_again(fifo: bool) -> None:
    process = flood(fifo)
    for _ in range(3):
        process.broadcast(b"", 0.0)
    segments(process)
    process.disconnect(ONE, 0.0)
    now = 0.0
    for ack in (LinkAck(0, 2), LinkAck(1, 1), LinkAck(2, 2)):
        for _ in range(TIMEOUTS_MAX - 1):
            now = process.next_timer() or 0.0
            assert expire(process) != []
        process.receive(ONE, ack, now)
    assert expire(process) == [(3, 0)]
    process.receive(ONE, LinkAck(3, 3), now)
    assert process.next_timer() is None


@either
def test_segments_after_dropped_ones_say_so_until_an_ack_covers_these(fifo: bool) -> None:
    process = silent(fifo)
    process.connect(ONE, 100.0)
    process.broadcast(b"", 100.0)
    process.broadcast(b"", 100.0)
    assert segments(process) == [(3, 2), (4, 2)]
    assert expire(process) == [(3, 2), (4, 2)]
    now = process.next_timer() or 0.0
    process.receive(ONE, LinkAck(1, 1), now)  # A late ack of a dropped segment.
    assert expire(process) == [(3, 2), (4, 2)]
    process.receive(ONE, LinkAck(2, 4), now)  # The peer waits for 3 only.
    process.broadcast(b"", now)
    assert segments(process) == [(5, 0)]
    assert expire(process)[0] == (3, 0)


@either
def test_a_channel_works_again_after_its_segments_were_dropped(fifo: bool) -> None:
    process = silent(fifo)
    other = flood(fifo, ONE, ZERO)
    process.connect(ONE, 100.0)
    process.broadcast(b"", 100.0)
    process.broadcast(b"", 100.0)
    for transmit in process.frames_to_transmit():
        other.receive(ZERO, transmit.frame, 100.0)
    assert delivered(other) == [3, 4]
    for transmit in other.frames_to_transmit():
        process.receive(ONE, transmit.frame, 100.0)
    assert process.backlog(ONE) == 0
    assert process.next_timer() is None


@either
def test_frames_of_the_protocol_to_a_disconnected_peer_are_tried_again(fifo: bool) -> None:
    """The protocol may answer a peer that it has no link to."""
    process = silent(fifo)
    process.connect(ONE, 100.0)
    process.broadcast(b"", 100.0)
    process.disconnect(ONE, 100.0)
    assert segments(process) == [(3, 2)]
    for _ in range(TIMEOUTS_MAX - 1):
        assert expire(process) == [(3, 2)]
    assert expire(process) == []
    process.connect(ONE, 1000.0)
    process.broadcast(b"", 1000.0)
    assert segments(process) == [(4, 3)]


# Receiving.


def receiver(fifo: bool) -> ReliableLink:
    """Return a process that forwards nothing, so that it transmits only acks."""
    return ReliableLink(Flood(ZERO), fifo, POLICY)


def test_a_fifo_link_discards_held_segments_before_a_dropped_one() -> None:
    """The protocol sees the start of what the peer transmitted, never a gap in it."""
    process = receiver(True)
    for number in (1, 3, 4):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
    assert delivered(process) == [1]
    process.frames_to_transmit()
    process.receive(ONE, Segment(7, 0, message(7), 5), 1.0)  # Up to 5 are dropped.
    assert delivered(process) == []
    process.receive(ONE, Segment(2, 0, message(2)), 1.0)  # Late.
    process.receive(ONE, Segment(6, 0, message(6), 5), 1.0)
    assert delivered(process) == [6, 7]
    acks = [transmit.frame for transmit in process.frames_to_transmit()]
    assert [(ack.acked, ack.arrived) for ack in acks if isinstance(ack, LinkAck)] == [
        (5, 7),
        (5, 2),
        (7, 6),
    ]


def test_an_unordered_link_does_not_wait_for_dropped_segments() -> None:
    process = receiver(False)
    for number in (1, 3, 5):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
    assert delivered(process) == [1, 3, 5]
    process.receive(ONE, Segment(8, 0, message(8), 6), 1.0)
    for number in (2, 5, 6, 8):  # Late, or again.
        process.receive(ONE, Segment(number, 0, message(number)), 1.0)
    assert delivered(process) == [8]
    process.receive(ONE, Segment(7, 0, message(7), 6), 1.0)
    assert delivered(process) == [7]
    *_, ack = [transmit.frame for transmit in process.frames_to_transmit()]
    assert isinstance(ack, LinkAck)
    assert (ack.acked, ack.arrived) == (8, 7)


@either
def test_dropped_numbers_that_have_arrived_change_nothing(fifo: bool) -> None:
    process, expected = receiver(fifo), receiver(fifo)
    for number in (1, 2, 4):
        for each in (process, expected):
            each.receive(ONE, Segment(number, 0, message(number)), 0.0)
    process.receive(ONE, Segment(3, 0, message(3), 2), 0.0)
    expected.receive(ONE, Segment(3, 0, message(3)), 0.0)
    assert snapshot(process) == snapshot(expected)


@either
def test_the_reorder_buffer_has_room_for_what_comes_after_dropped_segments(
    fifo: bool,
) -> None:
    process = ReliableLink(Flood(ZERO, [ONE]), fifo, POLICY, reorder_buffer_max=2)
    for number in (3, 4):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
    before = snapshot(process)
    with pytest.raises(PeerError, match="reorder buffer is full"):
        process.receive(ONE, Segment(8, 0, message(8)), 0.0)
    assert snapshot(process) == before
    process.receive(ONE, Segment(8, 0, message(8), 5), 0.0)
    process.receive(ONE, Segment(9, 0, message(9), 5), 0.0)
    with pytest.raises(PeerError, match="reorder buffer is full"):
        process.receive(ONE, Segment(10, 0, message(10), 5), 0.0)
    without_buffer = ReliableLink(Flood(ZERO), fifo, POLICY, reorder_buffer_max=0)
    with pytest.raises(PeerError, match="reorder buffer is full"):
        without_buffer.receive(ONE, Segment(8, 0, message(8), 5), 0.0)


@either
@pytest.mark.parametrize("dropped", [-1, 2, 3, 1 << 62])
def test_dropped_numbers_must_be_below_that_of_the_segment(
    fifo: bool, dropped: int
) -> None:
    process = receiver(fifo)
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    before = snapshot(process)
    with pytest.raises(PeerError, match="invalid Segment"):
        process.receive(ONE, Segment(2, 0, message(2), dropped), 0.0)
    assert snapshot(process) == before


# Random runs and mutants.


def check(variant: Variant) -> None:
    """Check links that are disconnected and connected again in many runs."""
    for seed in range(150):
        disconnected_run(variant, seed)


def test_a_channel_that_is_disconnected_at_times_delivers_nothing_twice() -> None:
    check(copied())


@pytest.mark.parametrize("name", DISCONNECT_MUTANTS)
def test_a_mutant_of_the_link_layer_fails(name: str) -> None:
    variant = copied([DISCONNECT_MUTANTS[name]])
    with pytest.raises((AssertionError, variant.refusal)):
        check(variant)
