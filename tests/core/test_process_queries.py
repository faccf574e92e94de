"""The queries and the recovery operations that a driver uses besides the protocol."""

from collections import Counter
from random import Random

import pytest

from antecede.core import HybridProcess, ProcessId, make_hybrid
from antecede.core.process import ProcessBase
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.testing import Cluster

A, B, C, D = (ProcessId(index) for index in range(4))


def hybrid_process(cluster: Cluster, index: int) -> HybridProcess:
    process = cluster.processes[index]
    assert isinstance(process, HybridProcess)
    return process


def missing_permit(protocol: str) -> tuple[Cluster, HybridProcess]:
    """Return a cluster, and its process B, which waits for a permit of A."""
    cluster = Cluster(protocol, processes=3)
    cluster.send(0, [2], b"slow")
    cluster.send(0, [1], b"fast")
    targets = [packet.target for packet in cluster.in_flight]
    cluster.arrive(targets.index(1))
    return cluster, hybrid_process(cluster, 1)


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_queued_copy_is_listed_with_its_missing_permit(protocol: str) -> None:
    cluster, process = missing_permit(protocol)
    pending = process.pending
    cluster.send(1, [2], b"after")
    assert pending.queued_copies(10) == [(1, C, [(A, 2)])]
    assert pending.queued_copies(0) == []
    assert [entry[:2] for entry in pending.missing_permits(10)] == [(A, 2)]
    assert pending.in_flight_copies(10) == []
    cluster.run_until_idle()
    assert pending.queued_copies(10) == []
    assert pending.missing_permits(10) == []


def test_only_hybrid_basic_queues_a_copy_for_the_process_that_owes_the_permit() -> None:
    cluster, process = missing_permit("hybrid-basic")
    cluster.send(1, [0], b"back")
    assert process.pending.queued_copies(10) == [(1, A, [(A, 2)])]
    cluster, process = missing_permit("hybrid")
    cluster.send(1, [0], b"back")
    assert process.pending.queued_copies(10) == []
    assert process.pending.in_flight_copies(10) == [(1, A)]
    cluster.send(1, [2, 0], b"on")
    assert process.pending.queued_copies(10) == [(2, C, [(A, 2)])]


def test_unacked_copies_are_found_by_number_and_target() -> None:
    process = make_hybrid(A)
    for target in (B, C, B):
        process.send([target], b"", 0.0)
    pending = process.pending
    assert pending.unacked_copies(B) == [(1, True), (3, True)]
    assert pending.oldest_unacked(3, C) == (1, B)
    assert pending.oldest_unacked(3, B) == (2, C)
    assert pending.oldest_unacked(1, B) is None
    assert pending.oldest_unacked(0, C) is None
    process.receive(C, Ack(2, 2), 1.0)
    assert pending.oldest_unacked(9, B) is None


def test_the_oldest_message_of_each_stage_is_listed_with_the_process_it_waits_for() -> None:
    process = make_hybrid(A)
    assert process.pending.oldest_messages() == []
    process.send([B], b"", 0.0)
    process.send([B], b"", 0.0)
    process.receive(C, MessageFrame(7, 6, False, b"too early"), 0.0)
    process.receive(C, MessageFrame(9, 7, False, b"too early"), 0.0)
    process.receive(D, MessageFrame(2, 0, False, b"delivered"), 0.0)
    process.send([C], b"after it", 0.0)
    assert sorted(process.pending.oldest_messages()) == [
        (B, "in_flight", A, 1),
        (C, "held", C, 7),
        (D, "delivered", D, 2),
        (D, "queued", A, 3),
    ]


def test_missing_permits_of_a_queued_copy_are_listed_in_order_of_delivery() -> None:
    cluster = Cluster("hybrid", processes=4)
    for source in (0, 1):
        cluster.send(source, [3], b"slow")
    for source in (1, 0):
        cluster.send(source, [2], b"fast")
    for source in (1, 0):
        pairs = [(packet.source, packet.target) for packet in cluster.in_flight]
        cluster.arrive(pairs.index((source, 2)))
    cluster.send(2, [3], b"after")
    queued = hybrid_process(cluster, 2).pending.queued_copies(10)
    assert queued == [(1, ProcessId(3), [(B, 2), (A, 2)])]
    # The later one of the two permits arrives first: B's frames stay in flight.
    while True:
        without_b = [
            index
            for index, packet in enumerate(cluster.in_flight)
            if B not in (packet.source, packet.target)
        ]
        if not without_b:
            break
        cluster.arrive(without_b[0])
    queued = hybrid_process(cluster, 2).pending.queued_copies(10)
    assert queued == [(1, ProcessId(3), [(B, 2)])]


def test_held_message_is_listed_with_its_predecessor() -> None:
    cluster = Cluster("hybrid", processes=2)
    cluster.send(0, [1], b"first")
    cluster.send(0, [1], b"second")
    cluster.arrive(1)
    pending = hybrid_process(cluster, 1).pending
    assert pending.held_messages(10) == [(A, 2, 1)]
    assert pending.held_messages(0) == []
    cluster.run_until_idle()
    assert pending.held_messages(10) == []


def counts_of_lists(process: HybridProcess) -> tuple[int, int, dict[ProcessId, int]]:
    """Return the counts of the queued copies, those in flight, and those that wait."""
    pending = process.pending
    queued = pending.queued_copies(10**6)
    in_flight = pending.in_flight_copies(10**6)
    waiting: Counter[ProcessId] = Counter()
    for _, _, permits in queued:
        waiting.update({peer for peer, _ in permits})
    waiting.update(target for _, target in in_flight)
    waiting.update(source for source, _, _ in pending.held_messages(10**6))
    waiting.update(source for source, _, _ in pending.missing_permits(10**6))
    return len(queued), len(in_flight), dict(waiting)


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_the_counts_of_messages_that_wait_are_those_of_the_lists(protocol: str) -> None:
    stages: Counter[str] = Counter()
    for seed in range(10):
        random = Random(seed)
        cluster = Cluster(protocol, processes=5)
        for _ in range(100):
            draw = random.random()
            if draw < 0.5:
                source, *targets = random.sample(range(5), random.choice((2, 2, 3)))
                cluster.send(source, targets, b"x")
            elif draw < 0.95 and cluster.in_flight:
                cluster.arrive(random.randrange(len(cluster.in_flight)))
            elif draw < 0.97:
                source, peer = random.sample(range(5), 2)
                cluster.in_flight = [
                    packet
                    for packet in cluster.in_flight
                    if {packet.source, packet.target} != {source, peer}
                ]
                cluster.abandon(source, peer)
                cluster.reset_channel(peer, source)
            process = hybrid_process(cluster, random.randrange(5))
            pending = process.pending
            counts = (pending.count_queued(), pending.count_in_flight())
            assert (*counts, pending.count_waiting()) == counts_of_lists(process)
            stages["queued for two"] += any(
                len({peer for peer, _ in permits}) > 1
                for _, _, permits in pending.queued_copies(100)
            )
            stages["queued"] += counts[0]
            stages["held"] += len(pending.held_messages(100))
    assert min(stages.values()) > 100
    assert len(stages) == 3


def test_copies_are_retransmitted_to_a_peer_that_lost_its_held_messages() -> None:
    policy = RetransmissionPolicy(initial_s=1.0)
    a, b = make_hybrid(A, policy), make_hybrid(B, policy)
    for data in (b"first", b"second", b"third"):
        a.send([B], data, 0.0)
    frames = [transmit.frame for transmit in a.frames_to_transmit()]
    for frame in frames[1:]:
        b.receive(A, frame, 0.1)
    for transmit in b.frames_to_transmit():
        a.receive(B, transmit.frame, 0.2)
    a.handle_timer(1.5)
    assert len(a.frames_to_transmit()) == 1  # The others have arrived.
    a.recovery.peer_restored(B)
    a.recovery.peer_restored(C)
    a.handle_timer(10.0)
    assert len(a.frames_to_transmit()) == 3


def test_round_trip_measured_by_the_driver_sets_the_first_timeout() -> None:
    process = make_hybrid(A)
    assert process.round_trip_s(B) == -1.0
    process.learn_round_trip(B, 0.02, 0.0)
    assert process.round_trip_s(B) == 0.02
    process.send([B], b"", 0.0)
    assert process.round_trip_s(B) == 0.02
    assert process.next_timer() == pytest.approx(0.02 + 4 * 0.01)
    without_sample = make_hybrid(C)
    without_sample.send([B], b"", 0.0)
    assert without_sample.next_timer() == RetransmissionPolicy().initial_s


def test_measured_round_trip_shortens_a_doubled_timeout() -> None:
    process = make_hybrid(A)
    process.send([B], b"", 0.0)
    for now in (1.0, 3.0, 7.0):
        process.handle_timer(now)
    assert process.next_timer() == 15.0
    process.learn_round_trip(B, 0.1, 8.0)
    assert process.next_timer() == pytest.approx(8.0 + 0.3)
    cluster, waiting = missing_permit("hybrid")
    waiting.learn_round_trip(A, 0.1, cluster.now)
    assert waiting.next_timer() == pytest.approx(cluster.now + 0.3)


def test_backlog_counts_copies_and_bytes_until_they_are_acked() -> None:
    cluster = Cluster("hybrid", processes=2)
    process = hybrid_process(cluster, 0)
    assert (process.backlog(B), process.backlog_bytes(B)) == (0, 0)
    cluster.send(0, [1], b"four")
    cluster.send(0, [1], b"eleven more")
    assert (process.backlog(B), process.backlog_bytes(B)) == (2, 15)
    cluster.run_until_idle()
    assert (process.backlog(B), process.backlog_bytes(B)) == (0, 0)
    process.learn_round_trip(B, 0.1, cluster.now)  # No timer runs.
    assert process.next_timer() is None


def test_channel_numbers_are_those_sent_acked_delivered_and_permitted() -> None:
    cluster = Cluster("hybrid-basic", processes=2)
    cluster.send(0, [1], b"")
    cluster.run_until_idle()
    source, target = (hybrid_process(cluster, index).recovery for index in (0, 1))
    assert source.channel_numbers(B) == (1, 1, 0, 0)
    assert target.channel_numbers(A) == (0, 0, 1, 1)
    assert make_hybrid(B).recovery.channel_numbers(A) == (0, 0, 0, 0)


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_assumed_permits_release_the_queued_copies(protocol: str) -> None:
    cluster, process = missing_permit(protocol)
    cluster.send(1, [2], b"after")
    process.recovery.assume_permits(C, cluster.now)
    assert process.pending.queued_copies(10) == [(1, C, [(A, 2)])]
    process.recovery.assume_permits(A, cluster.now)
    assert process.pending.missing_permits(10) == []
    assert [transmit.target for transmit in process.frames_to_transmit()] == [C]
    assert process.recovery.channel_numbers(A) == (0, 0, 2, 2)


def test_process_without_these_queries_returns_defaults() -> None:
    process = ProcessBase(A)
    assert (process.backlog(B), process.backlog_bytes(B), process.retained()) == (0, 0, 0)
    assert process.round_trip_s(B) == -1.0
    process.learn_round_trip(B, 1.0, 0.0)
    assert process.round_trip_s(B) == -1.0
    assert process.recovery is None
    assert process.pending is None


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_a_peer_is_forgotten_once_nothing_is_unacked_and_no_permit_is_missing(
    protocol: str,
) -> None:
    cluster, target = missing_permit(protocol)
    source = hybrid_process(cluster, 0)
    assert target.recovery.forget(C)  # It was never heard.
    assert not target.recovery.forget(A)  # Its permit is missing.
    assert not source.recovery.forget(C)  # It has not acked.
    assert source.known_peers() == 2
    cluster.run_until_idle()
    assert target.recovery.forget(A)
    assert source.recovery.forget(C)
    assert (target.known_peers(), source.known_peers()) == (0, 1)


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_a_process_that_was_forgotten_gets_the_permits_that_it_requests(
    protocol: str,
) -> None:
    cluster, _ = missing_permit(protocol)
    source = hybrid_process(cluster, 0)
    cluster.run_until_idle()
    assert source.recovery.forget(B)
    source.receive(B, PermitRequest(2), cluster.now)
    (transmit,) = source.frames_to_transmit()
    assert transmit.target == B
    assert isinstance(transmit.frame, Permit)
    assert transmit.frame.number == 2


def test_the_number_of_known_peers_is_0_unless_a_protocol_counts_them() -> None:
    cluster = Cluster("vector", processes=2)
    process = cluster.processes[0]
    assert isinstance(process, ProcessBase)
    cluster.broadcast(0)
    assert process.known_peers() == 1  # Of the link layer.
    assert ProcessBase(A).known_peers() == 0
    assert ProcessBase(A).windows is None
