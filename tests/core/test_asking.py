"""What a driver may ask a process of hybrid buffering beside the protocol."""

import pytest

from antecede.core import Hybrid, HybridBasic, ProcessId
from antecede.core.process import ProcessBase
from antecede.core.protocols.hybrid.state import HybridState
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.testing import Cluster

A, B, C = ProcessId(0), ProcessId(1), ProcessId(2)


def waiting_for_a_permit(protocol: str) -> tuple[Cluster, HybridState]:
    """Return a cluster in which B has heard from A and waits for its permit."""
    cluster = Cluster(protocol, processes=3)
    cluster.send(0, [2], b"slow")
    cluster.send(0, [1], b"fast")
    flight = [packet.target for packet in cluster.in_flight]
    cluster.arrive(flight.index(1))
    process = cluster.processes[1]
    assert isinstance(process, HybridState)
    return cluster, process


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_a_copy_that_waits_names_the_permit_it_waits_for(protocol: str) -> None:
    cluster, process = waiting_for_a_permit(protocol)
    cluster.send(1, [2], b"after")
    assert process.waiting_copies(10) == [(1, C, [(A, 2)])]
    assert process.waiting_copies(0) == []
    assert [entry[:2] for entry in process.missing_permits(10)] == [(A, 2)]
    assert process.unacked_copies(10) == []
    cluster.settle()
    assert process.waiting_copies(10) == []
    assert process.missing_permits(10) == []


def test_only_the_basic_one_keeps_back_what_goes_to_the_permits_owner() -> None:
    cluster, process = waiting_for_a_permit("hybrid-basic")
    cluster.send(1, [0], b"back")
    assert process.waiting_copies(10) == [(1, A, [(A, 2)])]
    cluster, process = waiting_for_a_permit("hybrid")
    cluster.send(1, [0], b"back")
    assert process.waiting_copies(10) == []
    assert process.unacked_copies(10) == [(1, A)]
    cluster.send(1, [2, 0], b"on")
    assert process.waiting_copies(10) == [(2, C, [(A, 2)])]


def test_a_message_that_came_too_early_names_the_one_before_it() -> None:
    cluster = Cluster("hybrid", processes=2)
    cluster.send(0, [1], b"first")
    cluster.send(0, [1], b"second")
    cluster.arrive(1)
    process = cluster.processes[1]
    assert isinstance(process, HybridState)
    assert process.early_messages(10) == [(A, 2, 1)]
    assert process.early_messages(0) == []
    cluster.settle()
    assert process.early_messages(10) == []


def test_what_a_peer_has_forgotten_is_repeated_again() -> None:
    policy = RetransmissionPolicy(initial_s=1.0)
    a, b = Hybrid(A, policy), Hybrid(B, policy)
    for data in (b"first", b"second", b"third"):
        a.send([B], data, 0.0)
    frames = [transmit.frame for transmit in a.frames_to_transmit()]
    for frame in frames[1:]:
        b.receive(A, frame, 0.1)
    for transmit in b.frames_to_transmit():
        a.receive(B, transmit.frame, 0.2)
    a.handle_timer(1.5)
    assert len(a.frames_to_transmit()) == 1  # The others are there.
    a.forget_arrivals(B)
    a.forget_arrivals(C)
    a.handle_timer(10.0)
    assert len(a.frames_to_transmit()) == 3


def test_a_round_trip_that_the_driver_has_seen_sets_the_first_time_out() -> None:
    process = Hybrid(A)
    assert process.round_trip_s(B) == -1.0
    process.learn_round_trip(B, 0.02, 0.0)
    assert process.round_trip_s(B) == 0.02
    process.send([B], b"", 0.0)
    assert process.round_trip_s(B) == 0.02
    assert process.next_timer() == pytest.approx(0.02 + 4 * 0.01)
    taught, untaught = Hybrid(B), Hybrid(C)
    untaught.send([B], b"", 0.0)
    assert untaught.next_timer() == RetransmissionPolicy().initial_s
    assert taught.numbers(A) == (0, 0, 0, 0)


def test_a_peer_that_is_back_is_not_kept_waiting() -> None:
    process = Hybrid(A)
    process.send([B], b"", 0.0)
    for now in (1.0, 3.0, 7.0):
        process.handle_timer(now)
    assert process.next_timer() == 15.0
    process.learn_round_trip(B, 0.1, 8.0)
    assert process.next_timer() == pytest.approx(8.0 + 0.3)
    cluster, waiting = waiting_for_a_permit("hybrid")
    waiting.learn_round_trip(A, 0.1, cluster.now)
    assert waiting.next_timer() == pytest.approx(cluster.now + 0.3)


def test_a_backlog_is_counted_in_copies_and_in_bytes_until_it_is_acked() -> None:
    cluster = Cluster("hybrid", processes=2)
    process = cluster.processes[0]
    assert isinstance(process, HybridState)
    assert (process.backlog(B), process.backlog_bytes(B)) == (0, 0)
    cluster.send(0, [1], b"four")
    cluster.send(0, [1], b"eleven more")
    assert (process.backlog(B), process.backlog_bytes(B)) == (2, 15)
    cluster.settle()
    assert (process.backlog(B), process.backlog_bytes(B)) == (0, 0)
    process.learn_round_trip(B, 0.1, cluster.now)  # Nothing waits, so nothing is timed.
    assert process.next_timer() is None


def test_numbers_tell_how_far_a_pair_has_come() -> None:
    cluster = Cluster("hybrid-basic", processes=2)
    cluster.send(0, [1], b"")
    cluster.settle()
    one, other = cluster.processes[0], cluster.processes[1]
    assert isinstance(one, HybridBasic)
    assert isinstance(other, HybridBasic)
    assert one.numbers(B) == (1, 1, 0, 0)
    assert other.numbers(A) == (0, 0, 1, 1)


def test_a_process_that_cannot_tell_says_nothing_rather_than_guess() -> None:
    process = ProcessBase(A)
    assert (process.backlog(B), process.backlog_bytes(B), process.retained()) == (0, 0, 0)
    assert process.round_trip_s(B) == -1.0
    process.learn_round_trip(B, 1.0, 0.0)
    process.forget_arrivals(B)
    assert process.round_trip_s(B) == -1.0


def test_the_state_alone_is_no_protocol() -> None:
    state = HybridState(A)
    with pytest.raises(TypeError, match="bare HybridState"):
        state._release(0.0)
    with pytest.raises(TypeError, match="bare HybridState"):
        state._grant()
    with pytest.raises(TypeError, match="bare HybridState"):
        state._advance_unacked()
