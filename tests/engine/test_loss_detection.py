"""Acknowledgements, round trips, loss detection, and what is done about a loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core.process import NEVER, ProcessId
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.engine.acknowledgements import (
    ACK_BLOCK_BYTES_MAX,
    ACK_DELAY_MAX_S,
    NO_ACKS,
    RANGES_MAX,
    RANGES_WITH_MESSAGES_MAX,
    AckBlock,
    AckHistory,
    read_ack_block,
)
from antecede.engine.loss_detection import PACKET_THRESHOLD, LossDetector, SentPacket
from antecede.engine.round_trip import RoundTrip

BOB = ProcessId(1)
POLICY = RetransmissionPolicy(initial_s=0.5, minimum_s=0.03, maximum_s=4.0)


def packet(number: int, sent_at: float = 0.0, *, is_counted: bool = True) -> SentPacket:
    return SentPacket(number, BOB, [], 100, is_counted, False, 0, sent_at)


def block(*ranges: tuple[int, int], delay_s: float = 0.0) -> AckBlock:
    """Return a block that acknowledges some ranges, the highest first."""
    made = AckBlock(False, 0)
    made.largest = ranges[0][1]
    made.delay_s = delay_s
    made.ranges = list(ranges)
    return made


def detector(packets: int, interval_s: float = 0.001) -> LossDetector:
    """Return a detector of packets 1, 2, ... that were transmitted at regular times."""
    made = LossDetector(POLICY)
    for number in range(1, packets + 1):
        made.record(packet(number, interval_s * number))
    return made


def numbers(packets: list[SentPacket]) -> list[int]:
    return [each.number for each in packets]


# Ack blocks.


@given(st.sets(st.integers(1, 200), max_size=120), st.integers(1, RANGES_MAX))
def test_an_ack_block_names_the_highest_packets_that_have_arrived(
    packets: set[int], most: int
) -> None:
    history = AckHistory()
    for number in sorted(packets, key=lambda number: number * 7919 % 211):
        history.record(number, False, 1.0)
    read = read_ack_block(b"before" + history.encode(1.0, True, most) + b"after", 6)
    assert read is not None
    assert read.asks
    named = {number for low, high in read.ranges for number in range(low, high + 1)}
    assert named <= packets
    assert len(read.ranges) <= most
    if packets:
        assert read.largest == max(packets)
        lowest = min(named)
        missed = {number for number in packets - named if number > lowest}
        assert missed == set()
        if len(read.ranges) < min(most, 64):
            assert named == packets


@given(st.binary(max_size=60))
def test_any_bytes_are_a_block_of_positive_packets_or_malformed(data: bytes) -> None:
    read = read_ack_block(data, 0)
    if read is not None:
        assert read.end <= len(data)
        assert all(1 <= low <= high for low, high in read.ranges)
        assert all(
            upper[0] > lower[1] + 1
            for upper, lower in zip(read.ranges, read.ranges[1:], strict=False)
        )


def test_a_block_beside_messages_has_a_bounded_size() -> None:
    history = AckHistory()
    for number in range(1, 200, 2):
        history.record(number, False, 0.0)
    history.record_mark(False)
    size = len(history.encode(0.0, True, RANGES_WITH_MESSAGES_MAX))
    assert size == ACK_BLOCK_BYTES_MAX
    assert AckHistory().encode(0.0, False, RANGES_MAX) == NO_ACKS


def test_the_delay_of_an_acknowledgement_is_reported() -> None:
    history = AckHistory()
    history.record(5, True, 10.0)
    assert history.due == 10.0 + ACK_DELAY_MAX_S
    read = read_ack_block(history.encode(10.25, False, 1), 0)
    assert read is not None
    assert read.delay_s == pytest.approx(0.25, abs=1e-4)
    assert history.due == NEVER


def test_packets_that_the_peer_knows_to_have_arrived_are_left_out() -> None:
    history = AckHistory()
    for number in (1, 2, 5, 6, 9):
        history.record(number, False, 0.0)
    history.forget(5)
    read = read_ack_block(history.encode(0.0, False, RANGES_MAX), 0)
    assert read is not None
    assert read.ranges == [(9, 9), (6, 6)]


# Round trips.


def test_the_delay_of_the_peer_is_no_part_of_the_round_trip() -> None:
    round_trip = RoundTrip()
    for _ in range(100):
        round_trip.sample(0.1, 0.0)
    for _ in range(100):
        round_trip.sample(0.15, 0.04)
    assert round_trip.smoothed_s == pytest.approx(0.11)


def test_a_false_delay_does_not_make_the_round_trip_shorter_than_the_shortest() -> None:
    round_trip = RoundTrip()
    for _ in range(100):
        round_trip.sample(0.1, 0.09)
    assert round_trip.smoothed_s == pytest.approx(0.1)


def test_a_delay_beyond_the_one_that_nodes_keep_to_counts_as_a_round_trip() -> None:
    losses = detector(2, interval_s=0.0)
    losses.acknowledge(block((1, 1)), 0.1)
    losses.acknowledge(block((2, 2), delay_s=0.9), 1.0)
    # RFC 9002, section 5.3: 7/8 of 0.1 and 1/8 of what is left without 10 ms.
    assert losses.round_trip.smoothed_s == pytest.approx(7 / 8 * 0.1 + 0.99 / 8)


def test_the_shortest_round_trip_begins_anew() -> None:
    round_trip = RoundTrip()
    round_trip.sample(0.1, 0.0)
    round_trip.sample(0.3, 0.0)
    round_trip.forget_shortest()
    assert round_trip.shortest_s == 0.3


# Losses.


def test_a_packet_is_lost_when_three_later_ones_were_transmitted() -> None:
    losses = detector(4)
    assert numbers(losses.acknowledge(block((2, 3)), 0.02)) == [2, 3]
    assert losses.detect(0.02) == []
    assert numbers(losses.acknowledge(block((2, 4)), 0.021)) == [4]
    assert numbers(losses.detect(0.021)) == [1]
    assert losses.sent == {}


def test_a_packet_is_lost_after_nine_eighths_of_a_round_trip() -> None:
    losses = detector(2, interval_s=0.0)
    losses.acknowledge(block((2, 2)), 0.08)
    assert losses.detect(0.08) == []
    assert losses.deadline == pytest.approx(0.09)
    assert numbers(losses.detect(losses.deadline)) == [1]


def test_a_late_packet_raises_the_thresholds() -> None:
    losses = detector(9, interval_s=0.0001)
    losses.acknowledge(block((9, 9)), 0.02)
    assert numbers(losses.detect(0.02)) == [1, 2, 3, 4, 5, 6]
    losses.acknowledge(block((9, 9), (2, 2)), 0.021)
    assert losses.spurious == 1
    assert losses.packet_threshold == 8 > PACKET_THRESHOLD
    for number in range(10, 18):
        losses.record(packet(number, 0.03))
    losses.acknowledge(block((17, 17)), 0.05)
    assert numbers(losses.detect(0.05)) == [7, 8]  # 10 was overtaken by seven only.


def test_probe_timeouts_double_and_an_acknowledgement_ends_the_doubling() -> None:
    losses = detector(1, interval_s=0.0)
    losses.acknowledge(block((1, 1)), 0.1)
    losses.record(packet(2, 1.0))
    waits = []
    for _ in range(4):
        started, at = losses._last_sent_at, losses.deadline
        waits.append(at - started)
        assert numbers(losses.probe(at)) == []  # It has no frames to transmit again.
    assert waits == pytest.approx([waits[0] * 2**index for index in range(4)])
    losses.acknowledge(block((2, 2)), 9.0)
    assert losses.probes == 0
    assert losses.deadline == NEVER


def test_packets_of_a_former_path_are_no_sample_and_not_lost_too_early() -> None:
    losses = detector(3, interval_s=0.0)
    losses.move(1.0)
    assert numbers(losses.acknowledge(block((3, 3)), 1.1)) == [3]
    assert losses.round_trip.smoothed_s == -1
    # Without a sample, the time threshold is 9/8 of the initial timeout.
    losses.record(packet(4, 1.1))
    losses.record(packet(5, 1.1))
    losses.acknowledge(block((5, 5)), 1.2)
    assert losses.round_trip.smoothed_s == pytest.approx(0.1)


def test_a_path_without_a_sample_waits_for_the_initial_timeout() -> None:
    losses = detector(3, interval_s=0.0)
    losses.move(0.0)
    losses.acknowledge(block((3, 3)), 0.1)
    assert losses.detect(0.1) == []
    assert losses.deadline == pytest.approx(9 / 8 * POLICY.initial_s)


def test_a_peer_that_moves_after_a_silence_is_probed_at_once() -> None:
    losses = detector(1)
    for _ in range(3):
        losses.probe(losses.deadline)
    now = losses._last_sent_at + 0.1
    assert losses.deadline > now
    losses.move(now)
    assert losses.deadline <= now
    losses.probe(now)
    assert losses.deadline > now


def test_a_peer_that_moves_while_it_answers_is_not_probed() -> None:
    losses = detector(1)
    before = losses.deadline
    losses.move(0.1)
    assert losses.deadline == before > 0.1


def test_a_peer_that_never_answers_is_not_probed_for_control_frames_for_ever() -> None:
    losses = LossDetector(POLICY)
    losses.record(packet(1, 0.0, is_counted=False))
    probes = 0
    while not losses.is_probing_in_vain:
        losses.probe(losses.deadline)
        probes += 1
    assert probes < 10
    losses.record(packet(2, 100.0))
    assert not losses.is_probing_in_vain
