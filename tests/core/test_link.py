"""The link layer: frames, exactly-once hand-over, acks, time-outs, refusals, mutants."""

from contextlib import suppress
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.check.snapshot import snapshot
from antecede.core.codec import NUMBER_MAX, Frame, Reader, decode, encode
from antecede.core.link import ReliableLink
from antecede.core.link_frames import LinkAck, Segment, read_link_frame
from antecede.core.process import Process, ProcessId
from antecede.core.protocols.baseline import Baseline, BaselineMessage, read_baseline
from antecede.core.protocols.buffer import Buffer
from antecede.core.protocols.flood import Flood
from antecede.core.protocols.hybrid.frames import (
    Ack,
    MessageFrame,
    Permit,
    PermitRequest,
    read_frame,
)
from antecede.core.protocols.hybrid.hybrid import make_hybrid
from antecede.core.protocols.newtop import Newtop, NewtopMessage, NewtopNull
from antecede.core.protocols.pc_broadcast.frames import Newcomer
from antecede.core.protocols.pc_broadcast.pc_broadcast import PcBroadcast
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import LocalError, PeerError
from tests.core.link_runs import LinkRun, random_run
from tests.core.link_variants import MUTANTS, ORIGINAL, Variant, copied

ZERO, ONE, TWO = ProcessId(0), ProcessId(1), ProcessId(2)
POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)


def message(number: int, payload: bytes = b"") -> BaselineMessage:
    return BaselineMessage(number, payload)


def plain(fifo: bool = True, id: ProcessId = ZERO) -> ReliableLink:
    return ReliableLink(Baseline(id), fifo, POLICY)


def taken(process: Process) -> list[tuple[object, ...]]:
    """Take the frames to transmit, as (target, number, acked) and (target, acks)."""
    taken: list[tuple[object, ...]] = []
    for transmit in process.frames_to_transmit():
        frame = transmit.frame
        what: tuple[object, ...]
        if isinstance(frame, Segment):
            what = ("segment", frame.number, frame.acked)
        else:
            assert isinstance(frame, LinkAck)
            what = ("ack", frame.acked, frame.arrived)
        again = ("again",) if transmit.is_retransmission else ()
        taken.append((transmit.target, *what, *again))
    return taken


def delivered(process: Process) -> list[int]:
    return [delivery.number for delivery in process.messages_to_deliver()]


# Frames.

KNOWN_BYTES: list[tuple[Frame, str]] = [
    # Kind 15, one byte for each number, and the frame within as it is on its own.
    (Segment(1, 0, message(1, b"hi")), "f0 01 00  10 01 02 68 69"),
    (Segment(2, 7, message(1)), "f0 02 07  10 01 00"),
    # The wider of the two numbers counts for both, and not for the frame within.
    (Segment(256, 1, message(1)), "f2 01 00 00 01  10 01 00"),
    (Segment(1, 65_536, message(256)), "f4 00 00 01 01 00 00  12 01 00 00"),
    (Segment(255, 255, message(9)), "f0 ff ff  10 09 00"),
    (LinkAck(3, 3), "e0 03"),
    (LinkAck(0, 2), "e1 00 02"),
    (LinkAck(300, 299), "e3 01 2c 01 2b"),
    (LinkAck(255, 256), "e3 00 ff 01 00"),
    (LinkAck(NUMBER_MAX, NUMBER_MAX), "ee 7f ff ff ff ff ff ff ff"),
]


def fields(frame: Frame) -> tuple[object, ...]:
    """Frames compare by identity: take one apart for comparison."""
    if isinstance(frame, Segment):
        return ("segment", frame.number, frame.acked, encode([frame.frame]))
    assert isinstance(frame, LinkAck)
    return ("ack", frame.acked, frame.arrived)


def read_linked_plain(reader: Reader) -> Frame:
    return read_link_frame(reader, read_baseline)


def read_linked_hybrid(reader: Reader) -> Frame:
    return read_link_frame(reader, read_frame)


@pytest.mark.parametrize(("frame", "expected"), KNOWN_BYTES, ids=str)
def test_a_frame_is_encoded_and_decoded_as_its_documentation_says(
    frame: Frame, expected: str
) -> None:
    datagram = b"\x01" + bytes.fromhex(expected)
    assert encode([frame]) == datagram
    (decoded,) = decode(datagram, read_linked_plain)
    assert fields(decoded) == fields(frame)


numbers = st.integers(0, 300) | st.integers(0, NUMBER_MAX)


@st.composite
def messages(draw: st.DrawFn) -> MessageFrame:
    number = draw(numbers)
    return MessageFrame(number, draw(st.integers(0, number)), draw(st.booleans()), b"payload")


inner_frames: st.SearchStrategy[Frame] = st.one_of(
    messages(),
    st.builds(Ack, numbers, numbers),
    st.builds(Permit, numbers),
    st.builds(PermitRequest, numbers),
)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Segment, numbers, numbers, inner_frames),
    st.builds(LinkAck, numbers, numbers),
    st.builds(lambda number: LinkAck(number, number), numbers),
)


@given(st.lists(frames, max_size=5))
def test_decoding_gives_back_what_was_encoded(sent: list[Frame]) -> None:
    received = decode(encode(sent), read_linked_hybrid)
    assert [fields(frame) for frame in received] == [fields(frame) for frame in sent]


@given(numbers, numbers, inner_frames)
def test_a_segment_adds_its_own_bytes_to_the_metadata_and_passes_the_rest_on(
    number: int, acked: int, inner: Frame
) -> None:
    segment = Segment(number, acked, inner)
    assert len(encode([segment])) == 1 + segment.size()
    assert segment.size() == segment.metadata_size() + segment.payload_size()
    assert segment.payload_size() == inner.payload_size()
    width = max(1, (max(number, acked).bit_length() + 7) // 8)
    assert segment.metadata_size() == inner.metadata_size() + 1 + 2 * width
    assert segment.message_number() == inner.message_number()
    assert segment.message_source() == inner.message_source()


@given(numbers, numbers)
def test_the_size_of_an_ack_is_that_of_its_bytes(acked: int, arrived: int) -> None:
    for frame in (LinkAck(acked, arrived), LinkAck(acked, acked)):
        assert len(encode([frame])) == 1 + frame.size() == 1 + frame.metadata_size()
        assert frame.payload_size() == frame.message_number() == 0


def test_the_source_of_a_relayed_message_shows_through_a_segment() -> None:
    flood = ReliableLink(Flood(ZERO, [ONE]), True)
    flood.broadcast(b"", 0.0)
    (transmit,) = flood.frames_to_transmit()
    assert transmit.frame.message_source() == 0
    assert Segment(1, 0, message(1)).message_source() == -1


def test_the_kinds_are_those_that_protocols_leave_to_the_link() -> None:
    assert Segment(1, 0, message(1)).kind() == 15
    assert LinkAck(1, 1).kind() == 14


@pytest.mark.parametrize(
    "datagram",
    [
        "f1 01 00 10 01 00",  # a flag on a segment
        "10 01 00",  # a frame of the protocol, outside a segment
        "d0 01",
        "f0 01 00",  # a segment of nothing
        "f0 01 00 f0 01 00 10 01 00",  # a segment within a segment
        "f0 01 00 e0 01",  # an ack within a segment
        "f0 01",
        "e1 01",  # the flag promises a second number
        "ee ff ff ff ff ff ff ff ff",  # a number out of range
    ],
)
def test_what_is_no_frame_of_the_link_is_refused(datagram: str) -> None:
    with pytest.raises(PeerError):
        decode(b"\x01" + bytes.fromhex(datagram), read_linked_plain)


def test_frames_show_their_fields() -> None:
    assert str(Segment(3, 2, message(1, b"abc"))) == (
        "Segment(acked=2, frame=BaselineMessage(number=1, payload=3 B), number=3)"
    )
    assert str(LinkAck(2, 5)) == "LinkAck(acked=2, arrived=5)"


# Hand-over.


def test_segments_are_numbered_for_each_pair_whatever_the_messages_are_numbered() -> None:
    process = plain()
    process.send([ONE, TWO], b"", 0.0)
    process.send([TWO], b"", 0.0)
    process.send([ONE], b"", 0.0)
    assert taken(process) == [
        (1, "segment", 1, 0),
        (2, "segment", 1, 0),
        (2, "segment", 2, 0),
        (1, "segment", 2, 0),
    ]


def test_a_fifo_link_hands_over_in_the_order_of_numbers() -> None:
    process = plain(fifo=True)
    for number, due in ((3, []), (2, []), (5, []), (1, [10, 20, 30]), (4, [40, 50])):
        process.receive(ONE, Segment(number, 0, message(10 * number)), 0.0)
        assert delivered(process) == due


def test_an_unordered_link_hands_over_as_segments_arrive() -> None:
    process = plain(fifo=False)
    for number in (3, 1, 5, 2, 4):
        process.receive(ONE, Segment(number, 0, message(10 * number)), 0.0)
        assert delivered(process) == [10 * number]


@pytest.mark.parametrize("fifo", [True, False])
def test_what_arrives_again_is_not_handed_over_again_but_acked_again(fifo: bool) -> None:
    process = plain(fifo)
    for number in (1, 3, 4):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
    process.messages_to_deliver()
    taken(process)
    for number in (1, 4, 3, 1):  # Handed over, and waiting for its turn if it is FIFO.
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
        assert taken(process) == [(1, "ack", 1, number)]
    assert delivered(process) == []
    process.receive(ONE, Segment(2, 0, message(2)), 0.0)
    assert delivered(process) == ([2, 3, 4] if fifo else [2])
    assert taken(process) == [(1, "ack", 4, 2)]


def test_the_order_is_that_of_each_pair_alone() -> None:
    process = plain(fifo=True)
    process.receive(ONE, Segment(2, 0, message(2)), 0.0)
    process.receive(TWO, Segment(1, 0, message(1)), 0.0)
    (delivery,) = process.messages_to_deliver()
    assert delivery.source == 2
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert delivered(process) == [1, 2]


# Acks.


def test_a_segment_is_acked_at_once_with_what_is_there_and_what_came() -> None:
    process = plain()
    for number, ack in ((1, (1, 1)), (4, (1, 4)), (3, (1, 3)), (2, (4, 2)), (5, (5, 5))):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
        assert taken(process) == [(1, "ack", *ack)]


def test_an_ack_is_not_acked() -> None:
    process = plain()
    process.send([ONE], b"", 0.0)
    taken(process)
    process.receive(ONE, LinkAck(1, 1), 0.5)
    assert taken(process) == []


def test_an_ack_rides_on_a_segment_that_goes_back_at_the_same_moment() -> None:
    process = ReliableLink(Buffer(ZERO), True, POLICY)  # It answers every message.
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert taken(process) == [(1, "segment", 1, 1)]
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)  # A duplicate is not answered.
    assert taken(process) == [(1, "ack", 1, 1)]


def test_a_segment_that_goes_elsewhere_carries_no_ack() -> None:
    process = ReliableLink(Flood(ZERO, [ONE, TWO]), True, POLICY)
    other = ReliableLink(Flood(ONE, [ZERO]), True, POLICY)
    other.broadcast(b"", 0.0)
    (transmit,) = other.frames_to_transmit()
    process.receive(ONE, transmit.frame, 0.0)
    assert taken(process) == [(1, "segment", 1, 1), (2, "segment", 1, 0)]
    third = ReliableLink(Flood(ZERO, [TWO]), True, POLICY)
    third.receive(ONE, transmit.frame, 0.0)
    assert taken(third) == [(2, "segment", 1, 0), (1, "ack", 1, 1)]


def test_an_early_arrival_is_told_by_an_ack_of_its_own_beside_a_segment() -> None:
    """The segment only says what came without a gap, so 2 would be transmitted again."""
    process = ReliableLink(Buffer(ZERO), False, POLICY)
    process.receive(ONE, Segment(2, 0, message(2)), 0.0)
    assert taken(process) == [(1, "segment", 1, 0), (1, "ack", 0, 2)]
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert taken(process) == [(1, "segment", 2, 2)]


def test_a_later_segment_says_all_that_has_arrived_by_then() -> None:
    process = plain()
    for number in (1, 2, 4):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
    taken(process)
    process.send([ONE], b"", 0.0)
    assert taken(process) == [(1, "segment", 1, 2)]
    process.receive(ONE, Segment(3, 0, message(3)), 0.5)
    taken(process)
    process.handle_timer(1.0)
    assert taken(process) == [(1, "segment", 1, 4, "again")]


def test_the_ack_of_a_segment_ends_the_waiting_as_an_ack_frame_does() -> None:
    process = plain()
    process.send([ONE], b"", 0.0)
    process.send([ONE], b"", 0.0)
    process.receive(ONE, Segment(1, 1, message(1)), 0.25)
    assert process.next_timer() == 1.0  # 0.25 and three quarters: one is left.
    process.receive(ONE, Segment(2, 2, message(2)), 0.5)
    assert process.next_timer() is None


# Transmitting again.


def test_without_an_ack_everything_is_transmitted_again_with_doubling_time_outs() -> None:
    process = plain()
    process.send([ONE], b"", 0.0)
    process.send([ONE], b"", 0.0)
    taken(process)
    for now in (1.0, 3.0, 7.0, 15.0, 23.0, 31.0):
        assert process.next_timer() == now
        process.handle_timer(now - 0.125)
        assert taken(process) == []
        process.handle_timer(now)
        assert taken(process) == [
            (1, "segment", 1, 0, "again"),
            (1, "segment", 2, 0, "again"),
        ]


def test_only_what_is_unanswered_for_a_time_out_is_transmitted_again() -> None:
    process = plain()
    for now in (0.0, 0.0, 0.0, 0.75):
        process.send([ONE], b"", now)
    process.receive(ONE, LinkAck(0, 2), 0.5)  # A time-out is 0.5 + 4 · 0.25 from now on.
    taken(process)
    assert process.next_timer() == 1.0
    process.handle_timer(1.0)  # The first in any case; 3 has not waited for 1.5.
    assert taken(process) == [(1, "segment", 1, 0, "again")]
    assert process.next_timer() == 4.0
    process.handle_timer(4.0)  # The doubled time-out has passed for 3 and 4; 2 is there.
    assert taken(process) == [
        (1, "segment", 1, 0, "again"),
        (1, "segment", 3, 0, "again"),
        (1, "segment", 4, 0, "again"),
    ]


def test_what_is_acked_is_not_transmitted_again() -> None:
    process = plain()
    for _ in range(4):
        process.send([ONE], b"", 0.0)
    process.receive(ONE, LinkAck(2, 2), 0.5)
    taken(process)
    assert process.next_timer() == 2.0  # Progress: the time-out of 1.5 begins anew.
    process.handle_timer(2.0)
    assert taken(process) == [(1, "segment", 3, 0, "again"), (1, "segment", 4, 0, "again")]


def test_peers_have_time_outs_of_their_own() -> None:
    process = plain()
    process.send([ONE], b"", 0.0)
    process.send([TWO], b"", 0.25)
    taken(process)
    process.handle_timer(1.0)
    assert taken(process) == [(1, "segment", 1, 0, "again")]
    assert process.next_timer() == 1.25
    process.handle_timer(4.0)  # Both are due.
    assert taken(process) == [(2, "segment", 1, 0, "again"), (1, "segment", 1, 0, "again")]
    process.receive(TWO, LinkAck(1, 1), 4.0)
    assert process.next_timer() == 8.0


def test_an_old_ack_changes_nothing() -> None:
    process = plain()
    process.send([ONE], b"", 0.0)
    process.send([ONE], b"", 0.0)
    process.receive(ONE, LinkAck(1, 1), 0.5)
    taken(process)
    before = snapshot(process)
    process.receive(ONE, LinkAck(1, 1), 0.75)
    assert snapshot(process) == before


def test_a_link_at_rest_has_no_timer() -> None:
    process = plain()
    assert process.next_timer() is None
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert process.next_timer() is None  # An ack is never repeated.
    process.send([ONE], b"", 0.0)
    assert process.next_timer() == 1.0
    process.receive(ONE, LinkAck(1, 1), 0.0)
    assert process.next_timer() is None
    taken(process)
    process.handle_timer(100.0)
    assert taken(process) == []
    process.send([ONE], b"", 200.0)
    assert process.next_timer() == 200.5  # It was quick: the time-out is the shortest.


def timeout_after(variant: Variant, acks: list[tuple[float, int, int]]) -> float:
    """Send two segments at 0, time out whenever that is due, be told the acks, each a
    moment, a number and an arrival; return the time-out of what is sent at 100."""
    policy = variant.policy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
    process = variant.linked(variant.plain(0), True, policy)
    process.send([1], b"", 0.0)
    process.send([1], b"", 0.0)
    for now, acked, arrived in acks:
        due = process.next_timer()
        if due is not None and due <= now:
            process.handle_timer(due)
        process.receive(1, variant.link_ack(acked, arrived), now)
    assert process.next_timer() is None
    process.send([1], b"", 100.0)
    deadline = process.next_timer()
    assert isinstance(deadline, float)
    return deadline - 100.0


def check_round_trips(variant: Variant) -> None:
    # A sample r sets the time-out to r + 4 · r / 2; two samples r to r + 4 · 3 r / 8.
    assert timeout_after(variant, [(0.25, 2, 2)]) == 0.75
    assert timeout_after(variant, [(0.25, 1, 1), (0.25, 2, 2)]) == 0.625
    assert timeout_after(variant, [(0.5, 0, 2), (0.5, 2, 1)]) == 1.25
    # What is known to have arrived is no sample when it is acked.
    assert timeout_after(variant, [(0.25, 0, 2), (0.25, 0, 2), (0.5, 2, 2)]) == 0.75
    # What was transmitted twice is none at all: the doubled time-out stays (Karn).
    assert timeout_after(variant, [(1.25, 2, 2)]) == 2.0
    assert timeout_after(variant, [(1.25, 1, 1), (1.5, 2, 2)]) == 2.0
    # 2 was answered before 1 was repeated; the answer to 1 says nothing.
    assert timeout_after(variant, [(0.5, 0, 2), (1.0, 2, 1)]) == 3.0


def test_a_time_out_follows_the_answers_to_what_was_transmitted_once() -> None:
    check_round_trips(ORIGINAL)


# The process on top.


def test_broadcast_connect_and_disconnect_reach_the_protocol() -> None:
    process = ReliableLink(Flood(ZERO, [ONE]), True, POLICY)
    assert process.broadcast(b"a", 0.0) == 1
    assert delivered(process) == [1]
    assert taken(process) == [(1, "segment", 1, 0)]
    process.connect(TWO, 0.0)
    assert process.broadcast(b"b", 0.0) == 2
    assert taken(process) == [(1, "segment", 2, 0), (2, "segment", 1, 0)]
    process.disconnect(ONE, 0.0)
    assert process.broadcast(b"c", 0.0) == 3
    assert taken(process) == [(2, "segment", 2, 0)]
    process.handle_timer(1.0)  # What was transmitted to 1 before is seen through.
    again = taken(process)
    assert (1, "segment", 1, 0, "again") in again
    assert (1, "segment", 2, 0, "again") in again


def test_what_a_new_link_makes_the_protocol_transmit_goes_out() -> None:
    process = ReliableLink(PcBroadcast(ZERO, newcomer=True), True, POLICY)
    process.connect(ONE, 0.0)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Segment)
    assert isinstance(transmit.frame.frame, Newcomer)
    assert process.next_timer() == 1.0


def test_the_process_on_top_is_at_hand_and_has_the_same_id() -> None:
    inner = Baseline(TWO)
    process = ReliableLink(inner, True)
    assert process.inner is inner
    assert process.id == 2
    process.send([ONE], b"", 0.0)
    assert process.next_timer() == RetransmissionPolicy().initial_s


def test_the_timer_of_the_protocol_counts_beside_that_of_the_link() -> None:
    process = ReliableLink(Newtop(ZERO, 2, 0.25), True, POLICY)
    process.receive(ONE, Segment(1, 0, NewtopMessage(1, 1, b"")), 0.0)
    taken(process)
    assert process.next_timer() == 0.25  # A null is owed; the link waits for nothing.
    process.handle_timer(0.25)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Segment)
    assert isinstance(transmit.frame.frame, NewtopNull)
    assert process.next_timer() == 1.25  # The null is unacked; nothing else is owed.
    process.receive(ONE, Segment(2, 0, NewtopMessage(9, 2, b"")), 1.125)
    assert process.next_timer() == 1.25  # The link's, ahead of the next null.
    process.handle_timer(1.25)
    assert (1, "segment", 1, 2, "again") in taken(process)


def test_a_repetition_of_the_protocols_own_is_a_segment_of_its_own() -> None:
    """Links may carry any protocol, even one that repeats by itself."""
    process = ReliableLink(make_hybrid(ZERO, POLICY), True, POLICY)
    process.send([ONE], b"", 0.0)
    taken(process)
    process.handle_timer(1.0)
    assert taken(process) == [
        (1, "segment", 1, 0, "again"),
        (1, "segment", 2, 0, "again"),
    ]


# Refusals.


def busy(fifo: bool = True) -> ReliableLink:
    """A process that has 2 and 3 to 1 outstanding, and from there 1 and an early 3."""
    process = plain(fifo)
    for _ in range(3):
        process.send([ONE], b"", 0.0)
    process.receive(ONE, LinkAck(1, 1), 0.25)
    process.receive(ONE, Segment(1, 0, message(1)), 0.25)
    process.receive(ONE, Segment(3, 0, message(3)), 0.25)
    process.frames_to_transmit()
    process.messages_to_deliver()
    return process


@pytest.mark.parametrize(
    ("source", "frame"),
    [
        (1, Segment(0, 0, message(2))),  # numbers start at 1
        (1, Segment(-1, 0, message(2))),
        (1, Segment(2, -1, message(2))),
        (1, Segment(2, 4, message(2))),  # an ack of what was not transmitted
        (9, Segment(1, 1, message(2))),  # an ack from one who never got anything
        (9, LinkAck(1, 1)),
        (1, LinkAck(4, 4)),
        (1, LinkAck(1, 4)),
        (1, LinkAck(4, 1)),
        (1, LinkAck(-1, 1)),
        (1, LinkAck(1, 0)),  # something must have arrived
        (1, LinkAck(0, 0)),
        (1, LinkAck(1, -1)),
        (1, message(2)),  # not in a segment
        (1, Ack(1, 1)),
        (9, Frame()),
        (
            1,
            Segment(2, 3, message(0)),
        ),  # the protocol refuses it, so its ack is dropped too
        (1, Segment(2, 0, Ack(1, 1))),
        (1, Segment(2, 0, Segment(2, 0, message(2)))),
    ],
)
@pytest.mark.parametrize("fifo", [True, False])
def test_a_frame_that_makes_no_sense_is_the_peers_fault_and_changes_nothing(
    fifo: bool, source: int, frame: Frame
) -> None:
    process = busy(fifo)
    before = snapshot(process)
    with pytest.raises(PeerError):
        process.receive(ProcessId(source), frame, 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("fifo", [True, False])
@pytest.mark.parametrize(
    ("source", "frame"),
    [
        (1, Segment(3, 0, message(3))),  # a duplicate
        (1, Segment(1, 1, message(1))),
        (1, Segment(2, 3, message(2))),
        (1, Segment(9, 2, message(9))),
        (9, Segment(4, 0, message(4))),  # a new peer, not its first segment
        (1, LinkAck(0, 3)),
        (1, LinkAck(1, 1)),
        (1, LinkAck(3, 1)),
        (1, LinkAck(0, 1)),  # an old one
    ],
    ids=str,
)
def test_what_a_bad_network_does_to_good_frames_is_no_error(
    fifo: bool, source: int, frame: Frame
) -> None:
    busy(fifo).receive(ProcessId(source), frame, 1.0)


@pytest.mark.parametrize("frame", [Segment(2, 0, message(2)), LinkAck(1, 1), Frame()])
def test_a_frame_from_oneself_is_the_drivers_fault(frame: Frame) -> None:
    process = busy()
    before = snapshot(process)
    with pytest.raises(LocalError):
        process.receive(ZERO, frame, 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("now", [nan, inf, -inf])
def test_a_time_that_is_none_is_the_drivers_fault_and_changes_nothing(now: float) -> None:
    process = busy()
    before = snapshot(process)
    with pytest.raises(LocalError, match="finite"):
        process.send([ONE], b"", now)
    with pytest.raises(LocalError, match="finite"):
        process.receive(ONE, Segment(2, 0, message(2)), now)
    with pytest.raises(LocalError, match="finite"):
        process.receive(ONE, LinkAck(1, 1), now)
    with pytest.raises(LocalError, match="finite"):
        process.handle_timer(now)
    assert snapshot(process) == before


def test_what_the_protocol_does_not_offer_is_refused_and_changes_nothing() -> None:
    process = busy()
    before = snapshot(process)
    with pytest.raises(LocalError, match="at least one target"):
        process.send([], b"", 1.0)
    with pytest.raises(LocalError, match="no broadcast"):
        process.broadcast(b"", 1.0)
    with pytest.raises(LocalError, match="no overlay"):
        process.connect(ONE, 1.0)
    with pytest.raises(LocalError, match="no overlay"):
        process.disconnect(ONE, 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("fifo", [True, False])
def test_a_number_whose_frame_was_refused_can_still_bring_a_good_one(fifo: bool) -> None:
    process = busy(fifo)
    with pytest.raises(PeerError):
        process.receive(ONE, Segment(2, 0, message(0)), 1.0)
    assert taken(process) == []  # So that it is transmitted again.
    process.receive(ONE, Segment(2, 0, message(2)), 1.0)
    assert delivered(process) == ([2, 3] if fifo else [2])
    assert taken(process) == [(1, "ack", 3, 2)]


@pytest.mark.parametrize("fifo", [True, False])
def test_a_strangers_frame_that_the_protocol_refuses_leaves_nothing_behind(
    fifo: bool,
) -> None:
    process = busy(fifo)
    before = snapshot(process)
    with pytest.raises(PeerError):
        process.receive(TWO, Segment(1, 0, message(0)), 1.0)
    assert snapshot(process) == before


def test_a_refused_frame_that_waited_does_not_stop_those_behind_it() -> None:
    process = plain(fifo=True)
    process.receive(ONE, Segment(3, 0, message(3)), 0.0)
    process.receive(ONE, Segment(2, 0, message(0)), 0.0)  # The protocol will refuse it.
    with suppress(PeerError):
        process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    for number in (3, 4):  # The peer goes on, with what it has got no ack for.
        process.receive(ONE, Segment(number, 0, message(number)), 1.0)
    assert delivered(process) == [1, 3, 4]
    assert taken(process)[-1] == (1, "ack", 4, 4)


# At random, and broken on purpose.


@pytest.mark.long
def test_whatever_the_network_does_all_is_handed_over_once_and_the_link_comes_to_rest() -> (
    None
):
    repetitions = acks = segments = 0
    for seed in range(3000):
        try:
            run = random_run(ORIGINAL, seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        repetitions += run.repetitions
        acks += run.acks
        segments += sum(way.transmitted for way in run.ways.values())
    assert min(repetitions, acks, segments) > 10_000  # There was something to see.


def test_without_loss_nothing_is_repeated_and_half_of_the_acks_ride_on_answers() -> None:
    run = LinkRun(ORIGINAL, processes=2, fifo=True, answering=True)
    for _ in range(50):
        run.send(0, 1)
    while run.in_flight:
        run.arrive(0)
    assert run.repetitions == 0
    # Each message is acked by its answer, and each answer by an ack.
    assert run.acks == 50
    assert run.ways[0, 1].transmitted == run.ways[1, 0].transmitted == 50


def check(variant: Variant) -> None:
    """Everything that is asked of a link layer, in a few hundred runs."""
    check_round_trips(variant)
    for seed in range(400):
        random_run(variant, seed)


def test_an_unchanged_copy_of_the_link_layer_is_not_caught() -> None:
    check(copied())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_link_layer_is_caught(name: str) -> None:
    variant = copied([MUTANTS[name]])
    with pytest.raises((AssertionError, variant.refusal)):
        check(variant)
