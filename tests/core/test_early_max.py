"""At most so many messages of a peer wait for one before them, which itself never does."""

from contextlib import suppress
from random import Random

import pytest

from antecede.check.snapshot import snapshot
from antecede.core.config import Setting
from antecede.core.link import LinkAck, Linked, Segment
from antecede.core.process import Process, ProcessBase, ProcessId
from antecede.core.protocols.baseline import Plain, PlainMessage
from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.core.protocols.hybrid.frames import Message
from antecede.core.protocols.hybrid.hybrid import Hybrid
from antecede.core.registry import protocol
from antecede.errors import PeerError
from antecede.testing import Cluster, play, random_schedule

ZERO, ONE = ProcessId(0), ProcessId(1)
RUNS = 40

both = pytest.mark.parametrize("kind", [Hybrid, HybridBasic])
either = pytest.mark.parametrize("fifo", [True, False], ids=["fifo", "unordered"])


def message(number: int) -> Message:
    return Message(number, number - 1, True, b"")


def segment(number: int) -> Segment:
    return Segment(number, 0, PlainMessage(number, b""))


def delivered(process: Process) -> list[int]:
    return [delivery.number for delivery in process.messages_to_deliver()]


def refuses(process: ProcessBase, frame: Message | Segment) -> bool:
    """Tell whether a process refuses a frame, and see to it that this changes nothing."""
    before = snapshot(process)
    try:
        process.receive(ONE, frame, 0.0)
    except PeerError:
        assert snapshot(process) == before
        return True
    return False


@both
@pytest.mark.parametrize("early_max", [0, 1, 3])
def test_no_more_than_that_many_messages_wait(
    kind: type[HybridBasic], early_max: int
) -> None:
    process = kind(ZERO, early_max=early_max)
    refused = [number for number in range(2, 8) if refuses(process, message(number))]
    assert refused == list(range(2 + early_max, 8))
    assert not refuses(process, message(1))
    assert delivered(process) == list(range(1, 2 + early_max))


@both
def test_the_bound_holds_after_a_delivery_too(kind: type[HybridBasic]) -> None:
    process = kind(ZERO, early_max=1)
    assert not refuses(process, message(1))
    assert not refuses(process, message(3))
    assert refuses(process, message(4))
    assert refuses(process, message(5))
    assert not refuses(process, message(2))
    assert delivered(process) == [1, 2, 3]
    assert not refuses(process, message(5))
    assert not refuses(process, message(4))
    assert delivered(process) == [4, 5]


@both
def test_what_waits_already_is_acked_again_though_there_is_no_room(
    kind: type[HybridBasic],
) -> None:
    process = kind(ZERO, early_max=1)
    process.receive(ONE, message(3), 0.0)
    process.frames_to_transmit()
    assert not refuses(process, message(3))
    assert len(process.frames_to_transmit()) == 1


@both
def test_each_peer_has_room_of_its_own(kind: type[HybridBasic]) -> None:
    process = kind(ZERO, early_max=1)
    for peer in range(1, 5):
        process.receive(ProcessId(peer), message(3), 0.0)
    for peer in range(1, 5):
        with pytest.raises(PeerError, match="too many"):
            process.receive(ProcessId(peer), message(4), 0.0)


@either
@pytest.mark.parametrize("early_max", [0, 1, 3])
def test_no_more_than_that_many_segments_wait(fifo: bool, early_max: int) -> None:
    process = Linked(Plain(ZERO), fifo, early_max=early_max)
    refused = [number for number in range(2, 8) if refuses(process, segment(number))]
    assert refused == list(range(2 + early_max, 8))
    assert not refuses(process, segment(1))
    assert sorted(delivered(process)) == list(range(1, 2 + early_max))
    assert not refuses(process, segment(2 + early_max))


@either
def test_segment_that_waits_already_is_acked_again_though_there_is_no_room(
    fifo: bool,
) -> None:
    process = Linked(Plain(ZERO), fifo, early_max=1)
    process.receive(ONE, segment(3), 0.0)
    process.frames_to_transmit()
    assert not refuses(process, segment(3))
    (transmit,) = process.frames_to_transmit()
    assert isinstance(transmit.frame, LinkAck)
    assert (transmit.frame.acked, transmit.frame.arrived) == (0, 3)


def test_setting_reaches_the_hybrids_and_the_links() -> None:
    setting = Setting(processes=2, early_max=1)
    for name in ("hybrid", "hybrid-basic"):
        process = protocol(name).make(ZERO, setting)
        assert not refuses(process, message(3))
        assert refuses(process, message(4))
    for name in ("fifo", "unordered"):
        linked = protocol(name).make(ZERO, setting)
        assert not refuses(linked, segment(3))
        assert refuses(linked, segment(4))


@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic", "buffer", "cykas", "matrix"])
@pytest.mark.parametrize("early_max", [0, 1, 2])
def test_everything_is_delivered_in_the_end(name: str, early_max: int) -> None:
    refused = 0
    for seed in range(RUNS):
        random = Random(seed)
        setting = Setting(processes=3, early_max=early_max)
        cluster = Cluster(name, 3, setting=setting)
        schedule = random_schedule(
            random, processes=3, steps=100, loss=0.2, duplicate=0.1, seconds=(1.0,)
        )
        for step in schedule:
            try:
                play(cluster, [step])
            except PeerError:
                refused += 1
        for _ in range(10_000):
            with suppress(PeerError):
                cluster.settle(random)
                break
            refused += 1
        else:
            raise AssertionError("it does not come to rest")
        assert cluster.verdict().held, seed
    assert refused > 0
