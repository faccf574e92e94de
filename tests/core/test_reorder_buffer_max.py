"""At most reorder_buffer_max messages of a peer are held; the next one never is."""

from contextlib import suppress
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core.config import ProcessConfig
from antecede.core.link import ReliableLink
from antecede.core.link_frames import LinkAck, Segment
from antecede.core.process import Process, ProcessBase, ProcessId
from antecede.core.protocols.baseline import Baseline, BaselineMessage
from antecede.core.protocols.hybrid.frames import MessageFrame
from antecede.core.registry import protocol
from antecede.errors import PeerError
from antecede.testing import Cluster, random_schedule, run_schedule
from tests.core.hybrids import MakeHybrid, both_hybrids

ZERO, ONE = ProcessId(0), ProcessId(1)
RUNS = 40

either = pytest.mark.parametrize("fifo", [True, False], ids=["fifo", "unordered"])


def message(number: int) -> MessageFrame:
    return MessageFrame(number, number - 1, True, b"")


def segment(number: int) -> Segment:
    return Segment(number, 0, BaselineMessage(number, b""))


def delivered(process: Process) -> list[int]:
    return [delivery.number for delivery in process.messages_to_deliver()]


def refuses(process: ProcessBase, frame: MessageFrame | Segment) -> bool:
    """Return whether a process refuses a frame, and check that this changes nothing."""
    before = snapshot(process)
    try:
        process.receive(ONE, frame, 0.0)
    except PeerError:
        assert snapshot(process) == before
        return True
    return False


@both_hybrids
@pytest.mark.parametrize("reorder_buffer_max", [0, 1, 3])
def test_at_most_that_many_messages_are_held(
    make: MakeHybrid, reorder_buffer_max: int
) -> None:
    process = make(ZERO, reorder_buffer_max=reorder_buffer_max)
    refused = [number for number in range(2, 8) if refuses(process, message(number))]
    assert refused == list(range(2 + reorder_buffer_max, 8))
    assert not refuses(process, message(1))
    assert delivered(process) == list(range(1, 2 + reorder_buffer_max))


@both_hybrids
def test_the_bound_applies_after_a_delivery_too(make: MakeHybrid) -> None:
    process = make(ZERO, reorder_buffer_max=1)
    assert not refuses(process, message(1))
    assert not refuses(process, message(3))
    assert refuses(process, message(4))
    assert refuses(process, message(5))
    assert not refuses(process, message(2))
    assert delivered(process) == [1, 2, 3]
    assert not refuses(process, message(5))
    assert not refuses(process, message(4))
    assert delivered(process) == [4, 5]


@both_hybrids
def test_a_held_message_is_acked_again_when_the_buffer_is_full(
    make: MakeHybrid,
) -> None:
    process = make(ZERO, reorder_buffer_max=1)
    process.receive(ONE, message(3), 0.0)
    process.frames_to_transmit()
    assert not refuses(process, message(3))
    assert len(process.frames_to_transmit()) == 1


@both_hybrids
def test_each_peer_has_its_own_buffer(make: MakeHybrid) -> None:
    process = make(ZERO, reorder_buffer_max=1)
    for peer in range(1, 5):
        process.receive(ProcessId(peer), message(3), 0.0)
    for peer in range(1, 5):
        with pytest.raises(PeerError, match="reorder buffer is full"):
            process.receive(ProcessId(peer), message(4), 0.0)


@either
@pytest.mark.parametrize("reorder_buffer_max", [0, 1, 3])
def test_at_most_that_many_segments_are_held(fifo: bool, reorder_buffer_max: int) -> None:
    process = ReliableLink(Baseline(ZERO), fifo, reorder_buffer_max=reorder_buffer_max)
    refused = [number for number in range(2, 8) if refuses(process, segment(number))]
    assert refused == list(range(2 + reorder_buffer_max, 8))
    assert not refuses(process, segment(1))
    assert sorted(delivered(process)) == list(range(1, 2 + reorder_buffer_max))
    assert not refuses(process, segment(2 + reorder_buffer_max))


@either
def test_a_held_segment_is_acked_again_when_the_buffer_is_full(
    fifo: bool,
) -> None:
    process = ReliableLink(Baseline(ZERO), fifo, reorder_buffer_max=1)
    process.receive(ONE, segment(3), 0.0)
    process.frames_to_transmit()
    assert not refuses(process, segment(3))
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, LinkAck)
    assert (transmit.frame.acked, transmit.frame.arrived) == (0, 3)


def test_the_config_reaches_hybrid_processes_and_links() -> None:
    config = ProcessConfig(processes=2, reorder_buffer_max=1)
    for name in ("hybrid", "hybrid-basic"):
        process = protocol(name).make(ZERO, config)
        assert not refuses(process, message(3))
        assert refuses(process, message(4))
    for name in ("fifo", "unordered"):
        linked = protocol(name).make(ZERO, config)
        assert not refuses(linked, segment(3))
        assert refuses(linked, segment(4))


@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic", "buffer", "cykas", "matrix"])
@pytest.mark.parametrize("reorder_buffer_max", [0, 1, 2])
def test_all_messages_are_delivered_eventually(name: str, reorder_buffer_max: int) -> None:
    refused = 0
    for seed in range(RUNS):
        random = Random(seed)
        config = ProcessConfig(processes=3, reorder_buffer_max=reorder_buffer_max)
        cluster = Cluster(name, 3, config=config)
        schedule = random_schedule(
            random, processes=3, steps=100, loss=0.2, duplicate=0.1, seconds=(1.0,)
        )
        for step in schedule:
            try:
                run_schedule(cluster, [step])
            except PeerError:
                refused += 1
        for _ in range(10_000):
            with suppress(PeerError):
                cluster.run_until_idle(random)
                break
            refused += 1
        else:
            raise AssertionError("it does not come to rest")
        assert cluster.verdict().held, seed
    assert refused > 0
