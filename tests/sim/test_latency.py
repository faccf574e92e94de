"""The mean waiting times equal those computed from the events of each copy."""

from dataclasses import replace
from itertools import pairwise

import pytest

from antecede.core import protocols
from antecede.core.process import NO_PROCESS
from antecede.core.registry import protocol
from antecede.sim.delay import Everywhere, Geographic
from antecede.sim.distribution import Constant, Exponential
from antecede.sim.latency import LatencySums
from antecede.sim.network import Network, NetworkState, Partition, Pause
from antecede.sim.runner import RunSummary, run
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.program import Program, ProgramSend
from antecede.sim.workloads.synthetic import Pace
from antecede.sim.workloads.workload import Workload
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder

PROCESSES = 6
Copy = tuple[int, int, int]
"""The source, the number and a target other than the source."""

ORDERLY = Network(delay=Everywhere(Constant(0.0625)))
NETWORKS = {
    "constant": ORDERLY,
    "bandwidth-limited": Network(delay=Everywhere(Constant(0.0625)), bandwidth=2000),
    "paused": replace(
        ORDERLY,
        pauses=(Pause(process=1, start_s=0.1, end_s=0.4),),
        processing_s=((2, 0.01),),
    ),
    "geographic": Network(delay=Geographic(0.2, jitter=0.0)),
    "cut": replace(
        ORDERLY, partitions=(Partition(start_s=0.1, end_s=0.3, groups=((0, 1),)),)
    ),
    "random": Network(delay=Everywhere(Exponential(0.1))),
    "wild": Network(
        delay=Everywhere(Exponential(0.1)),
        bandwidth=20_000,
        loss=0.1,
        duplicate=0.2,
        reorder=0.1,
    ),
}


def mean_waits(events: list[Event], *, relayed: bool) -> tuple[list[Copy], list[float]]:
    """Return all copies, and the mean waits at the sender, on the wire, at the receiver.

    For relayed messages, the time on the wire ends with the delivery.
    """
    times: dict[Kind, dict[Copy, float]] = {kind: {} for kind in Kind}
    for event in events:
        if event.source is None or event.number is None:
            continue
        targets: tuple[int, ...] = (-1 if event.target is None else event.target,)
        if event.kind is Kind.SEND:
            targets = event.targets or tuple(range(PROCESSES))
        elif event.kind is Kind.RELEASE and relayed:
            targets = tuple(range(PROCESSES))  # The first frame is for all copies.
        for target in targets:
            if target != event.source:
                copy = (event.source, event.number, target)
                times[event.kind].setdefault(copy, event.time)
    arrival = Kind.DELIVER if relayed else Kind.ARRIVE
    stages = (Kind.SEND, Kind.RELEASE, arrival, Kind.DELIVER)
    copies = list(times[Kind.SEND])
    return copies, [
        sum(times[later][copy] - times[earlier][copy] for copy in copies) / len(copies)
        for earlier, later in pairwise(stages)
    ]


def check(name: str, workload: Workload, network: Network, seed: int = 3) -> RunSummary:
    recorder = MemoryRecorder()
    summary = run(name, workload, network, EventCounter(recorder), seed=seed)
    relayed = protocol(name).capabilities.relays
    copies, means = mean_waits(recorder.events, relayed=relayed)
    assert summary.complete
    assert summary.copies == len(copies) > 0
    found = [summary.sender_wait_s, summary.wire_s, summary.receiver_wait_s]
    assert found == pytest.approx(means, abs=1e-9)
    return summary


def workload_of(words: str, service_share: float = 0.0) -> Workload:
    pace = Pace(
        gap=Exponential(0.05),
        service_time=Constant(0.02),
        service_share=service_share,
        seed=1,
    )
    return make_workload(words, PROCESSES, 10, pace)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", [info.name for info in protocols()])
def test_the_means_are_those_of_the_events(name: str, network: str) -> None:
    unicast = protocol(name).capabilities.unicast
    check(name, workload_of("uniform" if unicast else "broadcast"), NETWORKS[network])


@pytest.mark.parametrize("words", ["groups:group=3", "broadcast", "microservices"])
@pytest.mark.parametrize("name", ["hybrid", "matrix", "tree"])
def test_the_means_are_those_of_the_events_with_jobs_and_many_targets(
    name: str, words: str
) -> None:
    """A job may end with several sends at once, before any of them is transmitted."""
    for network in (ORDERLY, NETWORKS["wild"]):
        check(name, workload_of(words, service_share=0.5), network)


def test_messages_wait_where_the_protocol_holds_them() -> None:
    """At senders for buffer, at receivers for matrix, on the wire for tree."""
    wild = NETWORKS["wild"]
    buffer, matrix, tree = (
        check(name, workload_of("uniform"), wild) for name in ("buffer", "matrix", "tree")
    )
    assert buffer.receiver_wait_s == matrix.sender_wait_s == 0
    assert buffer.sender_wait_s is not None
    assert matrix.receiver_wait_s is not None
    assert min(buffer.sender_wait_s, matrix.receiver_wait_s) > 0.001
    assert (tree.sender_wait_s, tree.receiver_wait_s) == (0, 0)
    assert tree.wire_s is not None
    assert matrix.wire_s is not None
    assert tree.wire_s > matrix.wire_s


@pytest.mark.parametrize("name", ["hybrid", "matrix", "tree"])
def test_a_message_to_the_sender_itself_is_not_a_copy(name: str) -> None:
    sends = [
        ProgramSend(process=0, targets=(0,)),
        ProgramSend(process=0, targets=(0, 1), wait_s=0.5),
        ProgramSend(process=1, targets=(0, 1, 2), wait_s=0.25),
    ]
    summary = check(name, Program(PROCESSES, sends), ORDERLY)
    assert summary.copies == 3


# The sums alone.


@pytest.mark.parametrize("preserves_order", [True, False])
def test_sums_grow_by_the_time_of_each_copy(preserves_order: bool) -> None:
    sums = LatencySums(preserves_order, relays=False)
    complete = [sums.is_complete]  # Nothing was sent.
    sums.sent(0, 1, 2, 1.0)
    for target, released, arrived, delivered in ((1, 1.5, 2.0, 8.0), (2, 3.0, 5.0, 7.0)):
        sums.released(0, target, 1, NO_PROCESS, released)
        sums.arrived(0, target, 1, False, arrived)
        sums.arrived(0, target, 1, True, arrived + 0.25)
        complete.append(sums.is_complete)
        sums.delivered(delivered)
    assert [*complete, sums.is_complete] == [True, False, False, True]
    assert sums.copies == sums.delivered_copies == 2
    assert (sums.sent_s, sums.released_s) == (2.0, 4.5)
    assert (sums.arrived_s, sums.delivered_s) == (7.0, 15.0)


def test_on_a_random_network_a_retransmission_may_arrive_first() -> None:
    sums = LatencySums(preserves_order=False, relays=False)
    sums.sent(0, 1, 1, 0.0)
    sums.released(0, 1, 1, NO_PROCESS, 0.0)
    sums.arrived(0, 1, 1, True, 1.5)
    sums.arrived(0, 1, 1, False, 4.0)
    assert sums.arrived_s == 1.5


def test_a_relayed_message_is_released_by_its_source_alone_and_once() -> None:
    """Two messages numbered 1 are in flight; process 1 forwards that of process 0."""
    sums = LatencySums(preserves_order=False, relays=True)
    sums.sent(0, 1, 3, 0.0)
    sums.sent(1, 1, 2, 0.0)
    sums.released(0, 1, 1, 0, 0.25)
    sums.released(1, 2, 1, 0, 0.5)
    assert sums.released_s == 3 * 0.25
    sums.released(1, 2, 1, 1, 1.0)
    sums.released(1, 3, 1, 1, 2.0)
    assert sums.released_s == 3 * 0.25 + 2 * 1.0
    sums.arrived(1, 2, 1, False, 3.0)
    assert sums.arrived_s == 0.0
    sums.delivered(4.0)
    assert sums.arrived_s == sums.delivered_s == 4.0


def test_a_network_preserves_order_if_no_frame_overtakes_or_is_lost() -> None:
    preserving = {
        name for name, network in NETWORKS.items() if NetworkState(network).preserves_order
    }
    assert preserving == {
        "constant",
        "bandwidth-limited",
        "paused",
        "geographic",
    }


@pytest.mark.parametrize("crash_s", [0.1, 0.5])
def test_without_all_deliveries_there_are_no_means(crash_s: float) -> None:
    network = replace(ORDERLY, crashes=((1, crash_s),))
    summary = run("hybrid", workload_of("uniform"), network, EventCounter())
    assert summary.copies > 0
    assert summary.sender_wait_s is summary.wire_s is summary.receiver_wait_s is None
