"""The windows of peers, under hybrid buffering."""

import pytest

from antecede.core import ProcessId, make_hybrid, make_hybrid_basic
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame
from antecede.core.protocols.hybrid.process import HybridProcess

ANN, BOB = ProcessId(0), ProcessId(1)


@pytest.fixture(params=[make_hybrid, make_hybrid_basic], ids=["hybrid", "hybrid-basic"])
def process(request: pytest.FixtureRequest) -> HybridProcess:
    made = request.param(ANN)
    assert isinstance(made, HybridProcess)
    made.windows.enable()
    return made


def transmitted(process: HybridProcess) -> list[int]:
    """Return the numbers of the messages to transmit now."""
    return [
        transmit.frame.number
        for transmit in process.frames_to_transmit()
        if isinstance(transmit.frame, MessageFrame)
    ]


def send(process: HybridProcess, count: int) -> None:
    for _ in range(count):
        process.send([BOB], b"x", 0.0)


def test_nothing_is_transmitted_before_the_window_is_known(process: HybridProcess) -> None:
    send(process, 3)
    assert transmitted(process) == []
    assert process.next_timer() is None
    assert process.backlog(BOB) == 3
    windows = process.windows
    assert (windows.has_blocked_peers, windows.blocked_peers()) == (True, [BOB])
    assert (windows.has_blocked_peers, windows.blocked_peers()) == (False, [])
    process.windows.set_window(BOB, 2, 5.0)
    assert transmitted(process) == [1, 2]
    assert process.windows.blocked_peers() == []


def test_acks_make_room_in_the_window(process: HybridProcess) -> None:
    process.windows.set_window(BOB, 2, 0.0)
    send(process, 5)
    assert transmitted(process) == [1, 2]
    process.receive(BOB, Ack(1, 2), 1.0)
    assert transmitted(process) == [3]
    process.receive(BOB, Ack(3, 3), 2.0)
    assert transmitted(process) == [4, 5]
    process.receive(BOB, Ack(5, 5), 3.0)
    assert process.backlog(BOB) == 0
    assert process.next_timer() is None


def test_only_copies_within_the_window_are_retransmitted(process: HybridProcess) -> None:
    process.windows.set_window(BOB, 3, 0.0)
    send(process, 5)
    assert transmitted(process) == [1, 2, 3]
    process.windows.set_window(BOB, 2, 0.0)
    process.handle_timer(100.0)
    assert transmitted(process) == [1, 2]
    process.windows.set_window(BOB, 0, 100.0)
    process.handle_timer(300.0)
    assert transmitted(process) == [1]  # Its ack may be lost.
    assert process.windows.blocked_peers() == []


def test_a_copy_that_waited_is_a_sample_from_its_transmission(
    process: HybridProcess,
) -> None:
    process.windows.set_window(BOB, 0, 0.0)
    send(process, 1)
    process.windows.set_window(BOB, 1, 50.0)
    assert transmitted(process) == [1]
    process.receive(BOB, Ack(1, 1), 50.25)
    assert process.round_trip_s(BOB) == pytest.approx(0.25)


def test_the_timer_of_a_used_up_window_stops(process: HybridProcess) -> None:
    process.windows.set_window(BOB, 1, 0.0)
    send(process, 2)
    process.windows.set_window(BOB, 0, 0.0)
    process.receive(BOB, Ack(1, 1), 1.0)
    assert transmitted(process) == [1]
    assert process.next_timer() is None
    assert process.windows.blocked_peers() == [BOB]
    process.learn_round_trip(BOB, 0.1, 2.0)
    assert process.next_timer() is None


def test_an_ack_may_cover_copies_that_wait(process: HybridProcess) -> None:
    """A process restored from a journal does not know what its peer has delivered."""
    process.recovery.restore(
        3, [(BOB, 3, 0, 0)], [], [(BOB, n, n - 1, 0, b"x") for n in (1, 2, 3)], 0.0
    )
    process.windows.set_window(BOB, 1, 0.0)
    assert transmitted(process) == [1]
    process.receive(BOB, Ack(3, 3), 1.0)
    assert process.backlog(BOB) == 0
    send(process, 2)
    assert transmitted(process) == [4]


def test_abandoned_copies_do_not_wait(process: HybridProcess) -> None:
    process.windows.set_window(BOB, 1, 0.0)
    send(process, 3)
    assert transmitted(process) == [1]
    process.recovery.abandon(BOB, 1.0)
    process.windows.set_window(BOB, 5, 1.0)
    assert transmitted(process) == []
    send(process, 1)
    assert transmitted(process) == [4]


def test_windows_are_unbounded_unless_they_are_enabled() -> None:
    process = make_hybrid(ANN)
    send(process, 2000)
    assert len(transmitted(process)) == 2000
