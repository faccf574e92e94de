"""The link layer: frames, exactly-once delivery, acks, timeouts, refusals, mutants."""

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


def linked_baseline(fifo: bool = True, id: ProcessId = ZERO) -> ReliableLink:
    return ReliableLink(Baseline(id), fifo, POLICY)


def transmitted(process: Process) -> list[tuple[object, ...]]:
    """Return the frames to transmit, as (target, number, acked) and (target, acks)."""
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
    # Kind 15, one byte for each number, then the inner frame in its own encoding.
    (Segment(1, 0, message(1, b"hi")), "f0 01 00  10 01 02 68 69"),
    (Segment(2, 7, message(1)), "f0 02 07  10 01 00"),
    # Both numbers have the width of the larger one; the inner frame has its own width.
    (Segment(256, 1, message(1)), "f2 01 00 00 01  10 01 00"),
    (Segment(1, 65_536, message(256)), "f4 00 00 01 01 00 00  12 01 00 00"),
    (Segment(255, 255, message(9)), "f0 ff ff  10 09 00"),
    # The flag: the number of the last dropped segment follows.
    (Segment(3, 1, message(1), 2), "f1 03 01 02  10 01 00"),
    (Segment(256, 7, message(1), 255), "f3 01 00 00 07 00 ff  10 01 00"),
    (LinkAck(3, 3), "e0 03"),
    (LinkAck(0, 2), "e1 00 02"),
    (LinkAck(300, 299), "e3 01 2c 01 2b"),
    (LinkAck(255, 256), "e3 00 ff 01 00"),
    (LinkAck(NUMBER_MAX, NUMBER_MAX), "ee 7f ff ff ff ff ff ff ff"),
]


def fields(frame: Frame) -> tuple[object, ...]:
    """Return the fields of a frame: frames compare by identity."""
    if isinstance(frame, Segment):
        return (
            "segment",
            frame.number,
            frame.acked,
            frame.dropped,
            encode([frame.frame]),
        )
    assert isinstance(frame, LinkAck)
    return ("ack", frame.acked, frame.arrived)


def read_linked_baseline(reader: Reader) -> Frame:
    return read_link_frame(reader, read_baseline)


def read_linked_hybrid(reader: Reader) -> Frame:
    return read_link_frame(reader, read_frame)


@pytest.mark.parametrize(("frame", "expected"), KNOWN_BYTES, ids=str)
def test_a_frame_is_encoded_and_decoded_as_documented(frame: Frame, expected: str) -> None:
    datagram = b"\x01" + bytes.fromhex(expected)
    assert encode([frame]) == datagram
    (decoded,) = decode(datagram, read_linked_baseline)
    assert fields(decoded) == fields(frame)


numbers = st.integers(0, 300) | st.integers(0, NUMBER_MAX)


@st.composite
def messages(draw: st.DrawFn) -> MessageFrame:
    number = draw(numbers)
    return MessageFrame(
        number, draw(st.integers(0, number)), draw(st.booleans()), b"payload"
    )


inner_frames: st.SearchStrategy[Frame] = st.one_of(
    messages(),
    st.builds(Ack, numbers, numbers),
    st.builds(Permit, numbers),
    st.builds(PermitRequest, numbers),
)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Segment, numbers, numbers, inner_frames),
    st.builds(
        lambda number, acked, inner: Segment(number, acked, inner, number // 2),
        numbers,
        numbers,
        inner_frames,
    ),
    st.builds(LinkAck, numbers, numbers),
    st.builds(lambda number: LinkAck(number, number), numbers),
)


@given(st.lists(frames, max_size=5))
def test_decoding_inverts_encoding(sent: list[Frame]) -> None:
    received = decode(encode(sent), read_linked_hybrid)
    assert [fields(frame) for frame in received] == [fields(frame) for frame in sent]


@given(numbers, numbers, inner_frames, st.booleans())
def test_the_metadata_of_a_segment_includes_that_of_its_frame(
    number: int, acked: int, inner: Frame, drops: bool
) -> None:
    dropped = number // 2 if drops else 0
    segment = Segment(number, acked, inner, dropped)
    assert len(encode([segment])) == 1 + segment.size()
    assert segment.size() == segment.metadata_size() + segment.payload_size()
    assert segment.payload_size() == inner.payload_size()
    width = max(1, (max(number, acked).bit_length() + 7) // 8)
    count = 3 if dropped else 2
    assert segment.metadata_size() == inner.metadata_size() + 1 + count * width
    assert segment.message_number() == inner.message_number()
    assert segment.message_source() == inner.message_source()


@given(numbers, numbers)
def test_the_size_of_an_ack_is_the_length_of_its_encoding(acked: int, arrived: int) -> None:
    for frame in (LinkAck(acked, arrived), LinkAck(acked, acked)):
        assert len(encode([frame])) == 1 + frame.size() == 1 + frame.metadata_size()
        assert frame.payload_size() == frame.message_number() == 0


def test_a_segment_has_the_source_of_its_relayed_message() -> None:
    flood = ReliableLink(Flood(ZERO, [ONE]), True)
    flood.broadcast(b"", 0.0)
    (transmit,) = flood.frames_to_transmit()
    assert transmit.frame.message_source() == 0
    assert Segment(1, 0, message(1)).message_source() == -1


def test_the_link_layer_uses_the_last_two_kinds() -> None:
    assert Segment(1, 0, message(1)).kind() == 15
    assert LinkAck(1, 1).kind() == 14


@pytest.mark.parametrize(
    "datagram",
    [
        "f1 02 00 10 01 00",  # the flag requires a third number
        "10 01 00",  # a frame of the protocol, outside a segment
        "d0 01",
        "f0 01 00",  # a segment without a frame
        "f0 01 00 f0 01 00 10 01 00",  # a segment within a segment
        "f0 01 00 e0 01",  # an ack within a segment
        "f0 01",
        "e1 01",  # the flag requires a second number
        "ee ff ff ff ff ff ff ff ff",  # a number out of range
    ],
)
def test_an_invalid_frame_is_refused(datagram: str) -> None:
    with pytest.raises(PeerError):
        decode(b"\x01" + bytes.fromhex(datagram), read_linked_baseline)


def test_frames_show_their_fields() -> None:
    assert str(Segment(3, 2, message(1, b"abc"))) == (
        "Segment(acked=2, dropped=0, frame=BaselineMessage(number=1, payload=3 B),"
        " number=3)"
    )
    assert str(LinkAck(2, 5)) == "LinkAck(acked=2, arrived=5)"


# Order and duplicates.


def test_segments_are_numbered_for_each_pair_independently_of_messages() -> None:
    process = linked_baseline()
    process.send([ONE, TWO], b"", 0.0)
    process.send([TWO], b"", 0.0)
    process.send([ONE], b"", 0.0)
    assert transmitted(process) == [
        (1, "segment", 1, 0),
        (2, "segment", 1, 0),
        (2, "segment", 2, 0),
        (1, "segment", 2, 0),
    ]


def test_a_fifo_link_passes_segments_on_in_the_order_of_their_numbers() -> None:
    process = linked_baseline(fifo=True)
    for number, due in ((3, []), (2, []), (5, []), (1, [10, 20, 30]), (4, [40, 50])):
        process.receive(ONE, Segment(number, 0, message(10 * number)), 0.0)
        assert delivered(process) == due


def test_an_unordered_link_passes_segments_on_as_they_arrive() -> None:
    process = linked_baseline(fifo=False)
    for number in (3, 1, 5, 2, 4):
        process.receive(ONE, Segment(number, 0, message(10 * number)), 0.0)
        assert delivered(process) == [10 * number]


@pytest.mark.parametrize("fifo", [True, False])
def test_a_duplicate_is_not_passed_on_but_acked(fifo: bool) -> None:
    process = linked_baseline(fifo)
    for number in (1, 3, 4):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
    process.messages_to_deliver()
    transmitted(process)
    for number in (1, 4, 3, 1):  # Passed on, or held by a FIFO link.
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
        assert transmitted(process) == [(1, "ack", 1, number)]
    assert delivered(process) == []
    process.receive(ONE, Segment(2, 0, message(2)), 0.0)
    assert delivered(process) == ([2, 3, 4] if fifo else [2])
    assert transmitted(process) == [(1, "ack", 4, 2)]


def test_each_pair_has_its_own_order() -> None:
    process = linked_baseline(fifo=True)
    process.receive(ONE, Segment(2, 0, message(2)), 0.0)
    process.receive(TWO, Segment(1, 0, message(1)), 0.0)
    (delivery,) = process.messages_to_deliver()
    assert delivery.source == 2
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert delivered(process) == [1, 2]


# Acks.


def test_a_segment_is_acked_at_once_cumulatively_and_by_its_number() -> None:
    process = linked_baseline()
    for number, ack in ((1, (1, 1)), (4, (1, 4)), (3, (1, 3)), (2, (4, 2)), (5, (5, 5))):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
        assert transmitted(process) == [(1, "ack", *ack)]


def test_an_ack_is_not_acked() -> None:
    process = linked_baseline()
    process.send([ONE], b"", 0.0)
    transmitted(process)
    process.receive(ONE, LinkAck(1, 1), 0.5)
    assert transmitted(process) == []


def test_a_segment_transmitted_in_the_same_step_carries_the_ack() -> None:
    process = ReliableLink(Buffer(ZERO), True, POLICY)  # It answers every message.
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert transmitted(process) == [(1, "segment", 1, 1)]
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)  # A duplicate is not answered.
    assert transmitted(process) == [(1, "ack", 1, 1)]


def test_a_segment_to_another_peer_does_not_carry_the_ack() -> None:
    process = ReliableLink(Flood(ZERO, [ONE, TWO]), True, POLICY)
    other = ReliableLink(Flood(ONE, [ZERO]), True, POLICY)
    other.broadcast(b"", 0.0)
    (transmit,) = other.frames_to_transmit()
    process.receive(ONE, transmit.frame, 0.0)
    assert transmitted(process) == [(1, "segment", 1, 1), (2, "segment", 1, 0)]
    third = ReliableLink(Flood(ZERO, [TWO]), True, POLICY)
    third.receive(ONE, transmit.frame, 0.0)
    assert transmitted(third) == [(2, "segment", 1, 0), (1, "ack", 1, 1)]


def test_an_out_of_order_arrival_is_acked_separately_from_a_segment() -> None:
    """The segment acks only up to the first gap, so 2 would be retransmitted."""
    process = ReliableLink(Buffer(ZERO), False, POLICY)
    process.receive(ONE, Segment(2, 0, message(2)), 0.0)
    assert transmitted(process) == [(1, "segment", 1, 0), (1, "ack", 0, 2)]
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert transmitted(process) == [(1, "segment", 2, 2)]


def test_a_later_segment_acks_all_arrivals_until_then() -> None:
    process = linked_baseline()
    for number in (1, 2, 4):
        process.receive(ONE, Segment(number, 0, message(number)), 0.0)
    transmitted(process)
    process.send([ONE], b"", 0.0)
    assert transmitted(process) == [(1, "segment", 1, 2)]
    process.receive(ONE, Segment(3, 0, message(3)), 0.5)
    transmitted(process)
    process.handle_timer(1.0)
    assert transmitted(process) == [(1, "segment", 1, 4, "again")]


def test_the_ack_in_a_segment_counts_like_an_ack_frame() -> None:
    process = linked_baseline()
    process.send([ONE], b"", 0.0)
    process.send([ONE], b"", 0.0)
    process.receive(ONE, Segment(1, 1, message(1)), 0.25)
    assert process.next_timer() == 1.0  # 0.25 and three quarters: one is left.
    process.receive(ONE, Segment(2, 2, message(2)), 0.5)
    assert process.next_timer() is None


# Retransmission.


def test_unacked_segments_are_retransmitted_with_doubling_time_outs() -> None:
    process = linked_baseline()
    process.send([ONE], b"", 0.0)
    process.send([ONE], b"", 0.0)
    transmitted(process)
    for now in (1.0, 3.0, 7.0, 15.0, 23.0, 31.0):
        assert process.next_timer() == now
        process.handle_timer(now - 0.125)
        assert transmitted(process) == []
        process.handle_timer(now)
        assert transmitted(process) == [
            (1, "segment", 1, 0, "again"),
            (1, "segment", 2, 0, "again"),
        ]


def test_only_segments_unanswered_for_a_time_out_are_retransmitted() -> None:
    process = linked_baseline()
    for now in (0.0, 0.0, 0.0, 0.75):
        process.send([ONE], b"", now)
    process.receive(ONE, LinkAck(0, 2), 0.5)  # A timeout is 0.5 + 4 · 0.25 from now on.
    transmitted(process)
    assert process.next_timer() == 1.0
    process.handle_timer(1.0)  # The first one always; 3 was transmitted less than 1.5 ago.
    assert transmitted(process) == [(1, "segment", 1, 0, "again")]
    assert process.next_timer() == 4.0
    process.handle_timer(4.0)  # The doubled timeout has passed for 3 and 4; 2 has arrived.
    assert transmitted(process) == [
        (1, "segment", 1, 0, "again"),
        (1, "segment", 3, 0, "again"),
        (1, "segment", 4, 0, "again"),
    ]


def test_an_acked_segment_is_not_retransmitted() -> None:
    process = linked_baseline()
    for _ in range(4):
        process.send([ONE], b"", 0.0)
    process.receive(ONE, LinkAck(2, 2), 0.5)
    transmitted(process)
    assert process.next_timer() == 2.0  # Progress restarts the timeout of 1.5.
    process.handle_timer(2.0)
    assert transmitted(process) == [
        (1, "segment", 3, 0, "again"),
        (1, "segment", 4, 0, "again"),
    ]


def test_each_peer_has_its_own_time_out() -> None:
    process = linked_baseline()
    process.send([ONE], b"", 0.0)
    process.send([TWO], b"", 0.25)
    transmitted(process)
    process.handle_timer(1.0)
    assert transmitted(process) == [(1, "segment", 1, 0, "again")]
    assert process.next_timer() == 1.25
    process.handle_timer(4.0)  # Both are due.
    assert transmitted(process) == [
        (2, "segment", 1, 0, "again"),
        (1, "segment", 1, 0, "again"),
    ]
    process.receive(TWO, LinkAck(1, 1), 4.0)
    assert process.next_timer() == 8.0


def test_an_old_ack_changes_nothing() -> None:
    process = linked_baseline()
    process.send([ONE], b"", 0.0)
    process.send([ONE], b"", 0.0)
    process.receive(ONE, LinkAck(1, 1), 0.5)
    transmitted(process)
    before = snapshot(process)
    process.receive(ONE, LinkAck(1, 1), 0.75)
    assert snapshot(process) == before


def test_an_idle_link_has_no_timer() -> None:
    process = linked_baseline()
    assert process.next_timer() is None
    process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert process.next_timer() is None  # An ack is never retransmitted.
    process.send([ONE], b"", 0.0)
    assert process.next_timer() == 1.0
    process.receive(ONE, LinkAck(1, 1), 0.0)
    assert process.next_timer() is None
    transmitted(process)
    process.handle_timer(100.0)
    assert transmitted(process) == []
    process.send([ONE], b"", 200.0)
    assert process.next_timer() == 200.5  # The round trip was short: the minimum timeout.


def timeout_after(variant: Variant, acks: list[tuple[float, int, int]]) -> float:
    """Return the timeout of a segment sent at 100, after two segments sent at 0.

    Each ack is its time, the acked number and the arrived number; timers that are due are
    handled before it.
    """
    policy = variant.policy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
    process = variant.linked(variant.baseline(0), True, policy)
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
    # A sample r sets the timeout to r + 4 · r / 2; two samples r to r + 4 · 3 r / 8.
    assert timeout_after(variant, [(0.25, 2, 2)]) == 0.75
    assert timeout_after(variant, [(0.25, 1, 1), (0.25, 2, 2)]) == 0.625
    assert timeout_after(variant, [(0.5, 0, 2), (0.5, 2, 1)]) == 1.25
    # A segment known to have arrived is not a sample when it is acked.
    assert timeout_after(variant, [(0.25, 0, 2), (0.25, 0, 2), (0.5, 2, 2)]) == 0.75
    # A retransmitted one is never a sample: the doubled timeout stays (Karn).
    assert timeout_after(variant, [(1.25, 2, 2)]) == 2.0
    assert timeout_after(variant, [(1.25, 1, 1), (1.5, 2, 2)]) == 2.0
    # 2 was answered before 1 was retransmitted; the answer to 1 is not a sample.
    assert timeout_after(variant, [(0.5, 0, 2), (1.0, 2, 1)]) == 3.0


def test_a_time_out_follows_the_round_trips_of_segments_transmitted_once() -> None:
    check_round_trips(ORIGINAL)


# The protocol.


def test_broadcast_connect_and_disconnect_reach_the_protocol() -> None:
    process = ReliableLink(Flood(ZERO, [ONE]), True, POLICY)
    assert process.broadcast(b"a", 0.0) == 1
    assert delivered(process) == [1]
    assert transmitted(process) == [(1, "segment", 1, 0)]
    process.connect(TWO, 0.0)
    assert process.broadcast(b"b", 0.0) == 2
    assert transmitted(process) == [(1, "segment", 2, 0), (2, "segment", 1, 0)]
    process.disconnect(ONE, 0.0)
    assert process.broadcast(b"c", 0.0) == 3
    assert transmitted(process) == [(2, "segment", 2, 0)]
    process.handle_timer(1.0)  # The segments in flight to 1 are retransmitted.
    again = transmitted(process)
    assert (1, "segment", 1, 0, "again") in again
    assert (1, "segment", 2, 0, "again") in again


def test_frames_of_the_protocol_after_connect_are_transmitted() -> None:
    process = ReliableLink(PcBroadcast(ZERO, newcomer=True), True, POLICY)
    process.connect(ONE, 0.0)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Segment)
    assert isinstance(transmit.frame.frame, Newcomer)
    assert process.next_timer() == 1.0


def test_inner_is_the_process_of_the_protocol_with_the_same_id() -> None:
    inner = Baseline(TWO)
    process = ReliableLink(inner, True)
    assert process.inner is inner
    assert process.id == 2
    process.send([ONE], b"", 0.0)
    assert process.next_timer() == RetransmissionPolicy().initial_s


def test_the_next_timer_is_the_earlier_one_of_link_and_protocol() -> None:
    process = ReliableLink(Newtop(ZERO, 2, 0.25), True, POLICY)
    process.receive(ONE, Segment(1, 0, NewtopMessage(1, 1, b"")), 0.0)
    transmitted(process)
    assert process.next_timer() == 0.25  # A null is due; no segment is in flight.
    process.handle_timer(0.25)
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, Segment)
    assert isinstance(transmit.frame.frame, NewtopNull)
    assert process.next_timer() == 1.25  # The null is in flight; no other is due.
    process.receive(ONE, Segment(2, 0, NewtopMessage(9, 2, b"")), 1.125)
    assert process.next_timer() == 1.25  # The link's, before the next null.
    process.handle_timer(1.25)
    assert (1, "segment", 1, 2, "again") in transmitted(process)


def test_a_retransmission_by_the_protocol_is_a_new_segment() -> None:
    """A link may carry any protocol, even one that retransmits."""
    process = ReliableLink(make_hybrid(ZERO, POLICY), True, POLICY)
    process.send([ONE], b"", 0.0)
    transmitted(process)
    process.handle_timer(1.0)
    assert transmitted(process) == [
        (1, "segment", 1, 0, "again"),
        (1, "segment", 2, 0, "again"),
    ]


# Refusals.


def busy(fifo: bool = True) -> ReliableLink:
    """A process with segments 2 and 3 in flight to 1, from which it has 1 and holds 3."""
    process = linked_baseline(fifo)
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
        (1, Segment(2, 4, message(2))),  # an ack of a segment that was not transmitted
        (9, Segment(1, 1, message(2))),  # an ack from a peer without segments
        (9, LinkAck(1, 1)),
        (1, LinkAck(4, 4)),
        (1, LinkAck(1, 4)),
        (1, LinkAck(4, 1)),
        (1, LinkAck(-1, 1)),
        (1, LinkAck(1, 0)),  # arrived must be at least 1
        (1, LinkAck(0, 0)),
        (1, LinkAck(1, -1)),
        (1, message(2)),  # not in a segment
        (1, Ack(1, 1)),
        (9, Frame()),
    ],
)
@pytest.mark.parametrize("fifo", [True, False])
def test_an_invalid_frame_raises_peer_error_and_changes_nothing(
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
        (1, LinkAck(0, 1)),  # an old ack
    ],
    ids=str,
)
def test_duplicates_and_reordering_raise_no_error(
    fifo: bool, source: int, frame: Frame
) -> None:
    busy(fifo).receive(ProcessId(source), frame, 1.0)


@pytest.mark.parametrize("frame", [Segment(2, 0, message(2)), LinkAck(1, 1), Frame()])
def test_a_frame_from_the_process_itself_raises_local_error(frame: Frame) -> None:
    process = busy()
    before = snapshot(process)
    with pytest.raises(LocalError):
        process.receive(ZERO, frame, 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("now", [nan, inf, -inf])
def test_a_time_that_is_not_finite_raises_local_error_and_changes_nothing(
    now: float,
) -> None:
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


def test_an_unsupported_input_raises_local_error_and_changes_nothing() -> None:
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


REFUSED = (
    message(0),
    Ack(1, 1),  # a frame of another protocol
    Segment(2, 0, message(2)),  # a segment within a segment
)


@pytest.mark.parametrize("frame", REFUSED, ids=lambda frame: type(frame).__name__)
@pytest.mark.parametrize("fifo", [True, False])
def test_a_segment_whose_frame_the_protocol_refuses_is_dropped_and_acked(
    fifo: bool, frame: Frame
) -> None:
    """A retransmission would be refused as well, and block the channel for ever."""
    process = busy(fifo)
    with pytest.raises(PeerError):
        process.receive(ONE, Segment(2, 2, frame), 1.0)
    assert delivered(process) == ([3] if fifo else [])
    assert transmitted(process) == [(1, "ack", 3, 2)]
    process.handle_timer(10.0)  # Its ack of segment 2 counts.
    assert transmitted(process) == [(1, "segment", 3, 3, "again")]
    process.receive(ONE, Segment(2, 0, message(2)), 10.0)  # A duplicate, though valid.
    assert delivered(process) == []
    assert transmitted(process) == [(1, "ack", 3, 2)]


@pytest.mark.parametrize("fifo", [True, False])
def test_a_refused_frame_of_an_unknown_peer_is_acked(fifo: bool) -> None:
    process = busy(fifo)
    with pytest.raises(PeerError):
        process.receive(TWO, Segment(1, 0, message(0)), 1.0)
    assert transmitted(process) == [(2, "ack", 1, 1)]
    process.receive(TWO, Segment(2, 0, message(2)), 1.0)
    assert delivered(process) == [2]


def test_a_refused_held_frame_does_not_block_later_ones() -> None:
    process = linked_baseline(fifo=True)
    process.receive(ONE, Segment(3, 0, message(3)), 0.0)
    process.receive(ONE, Segment(2, 0, message(0)), 0.0)  # The protocol will refuse it.
    with pytest.raises(PeerError):
        process.receive(ONE, Segment(1, 0, message(1)), 0.0)
    assert delivered(process) == [1, 3]
    assert transmitted(process)[-1] == (1, "ack", 3, 1)
    process.receive(ONE, Segment(4, 0, message(4)), 1.0)
    assert delivered(process) == [4]


# Random runs and mutants.


@pytest.mark.long
def test_on_any_network_each_segment_is_passed_on_once_and_the_link_becomes_idle() -> None:
    repetitions = acks = segments = 0
    for seed in range(3000):
        try:
            run = random_run(ORIGINAL, seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        repetitions += run.repetitions
        acks += run.acks
        segments += sum(way.transmitted for way in run.ways.values())
    assert min(repetitions, acks, segments) > 10_000  # The runs had retransmissions.


def test_without_loss_nothing_is_retransmitted_and_answers_carry_half_the_acks() -> None:
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
    """Check all requirements on a link layer in a few hundred runs."""
    check_round_trips(variant)
    for seed in range(400):
        random_run(variant, seed)


def test_an_unchanged_copy_of_the_link_layer_passes() -> None:
    check(copied())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_link_layer_fails(name: str) -> None:
    variant = copied([MUTANTS[name]])
    with pytest.raises((AssertionError, variant.refusal)):
        check(variant)
