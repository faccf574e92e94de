"""A bundle is one message that takes several numbers."""

import pytest

from antecede.core import ProcessId, make_hybrid, make_hybrid_basic
from antecede.core.config import ProcessConfig
from antecede.core.protocols.hybrid.bounded import make_bounded
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.core.registry import protocols
from antecede.errors import ConfigError, LocalError

ANN, BOB, CID = ProcessId(0), ProcessId(1), ProcessId(2)
MAKERS = [make_hybrid, make_hybrid_basic, make_bounded]


@pytest.fixture(params=MAKERS, ids=["hybrid", "hybrid-basic", "bounded"])
def ann(request: pytest.FixtureRequest) -> HybridProcess:
    made = request.param(ANN)
    assert isinstance(made, HybridProcess)
    return made


def messages(process: HybridProcess) -> list[tuple[int, int]]:
    """Return number and predecessor of the messages to transmit now."""
    return [
        (transmit.frame.number, transmit.frame.predecessor)
        for transmit in process.frames_to_transmit()
        if isinstance(transmit.frame, MessageFrame)
    ]


def test_a_bundle_takes_consecutive_numbers(ann: HybridProcess) -> None:
    assert ann.send([BOB], b"x", 0.0) == 1
    assert ann.send_bundle([BOB], b"abc", 3, 0.0) == 4
    assert ann.send([BOB], b"x", 0.0) == 5
    assert messages(ann) == [(1, 0), (4, 1), (5, 4)]
    assert ann.backlog(BOB) == 5
    assert ann.backlog_bytes(BOB) == 5
    assert ann.pending.count_in_flight() == 5
    assert [number for number, _ in ann.pending.in_flight_copies(9)] == [1, 2, 3, 4, 5]
    ann.receive(BOB, Ack(1, 4), 1.0)
    assert (ann.backlog(BOB), ann.early_copies(BOB)) == (4, 3)
    ann.receive(BOB, Ack(4, 4), 1.0)
    assert (ann.backlog(BOB), ann.early_copies(BOB)) == (1, 0)
    ann.receive(BOB, Ack(5, 5), 1.0)
    assert ann.backlog(BOB) == 0


def test_a_target_delivers_a_bundle_as_one_message_and_waits_for_one_permit() -> None:
    bob = make_hybrid(BOB)
    bob.receive(ANN, MessageFrame(9, 1, False, b"after"), 0.0)
    assert bob.messages_to_deliver() == []
    bob.receive(ANN, MessageFrame(1, 0, False, b"first"), 0.0)
    assert [each.number for each in bob.messages_to_deliver()] == [1, 9]
    bob.send([CID], b"x", 0.0)
    assert messages(bob) == []
    bob.receive(ANN, Permit(8), 0.0)  # It covers all messages before the bundle.
    assert messages(bob) == []
    bob.receive(ANN, Permit(9), 0.0)
    assert messages(bob) == [(1, 0)]


def test_a_permit_before_a_bundle_does_not_cover_it() -> None:
    ann = make_hybrid(ANN)
    ann.send([BOB], b"x", 0.0)
    ann.send_bundle([CID], b"abc", 3, 0.0)
    ann.send([BOB], b"y", 0.0)
    ann.frames_to_transmit()
    ann.receive(BOB, Ack(5, 5), 1.0)
    permits = {
        transmit.target: transmit.frame.number
        for transmit in ann.frames_to_transmit()
        if isinstance(transmit.frame, Permit)
    }
    # Bob must wait until cid has delivered the bundle, which has the number 4.
    assert permits.get(BOB, 0) <= 3
    assert permits[CID] == 5
    ann.receive(CID, Ack(4, 4), 2.0)
    (transmit,) = ann.frames_to_transmit()
    assert transmit.target == BOB
    assert isinstance(transmit.frame, Permit)
    assert transmit.frame.number == 5


def test_windows_count_the_messages_of_a_bundle(ann: HybridProcess) -> None:
    ann.windows.enable()
    ann.windows.set_window(BOB, 4, 0.0)
    ann.send_bundle([BOB], b"abc", 3, 0.0)
    ann.send_bundle([BOB], b"de", 2, 0.0)  # One message is within the window.
    ann.send([BOB], b"f", 0.0)
    assert messages(ann) == [(3, 0), (5, 3)]
    assert ann.windows.allows(BOB, 5, False)
    assert not ann.windows.allows(BOB, 6, False)
    ann.windows.set_window(BOB, 3, 0.0)
    assert not ann.windows.allows(BOB, 5, False)
    ann.receive(BOB, Ack(3, 3), 1.0)
    assert messages(ann) == [(6, 5)]


def test_only_bundles_within_the_window_are_retransmitted(ann: HybridProcess) -> None:
    ann.windows.enable()
    ann.windows.set_window(BOB, 9, 0.0)
    ann.send_bundle([BOB], b"abc", 3, 0.0)
    ann.send([BOB], b"d", 0.0)
    ann.frames_to_transmit()
    ann.windows.set_window(BOB, 2, 0.0)
    ann.handle_timer(100.0)
    assert messages(ann) == [(3, 0)]


def test_abandoned_bundles_leave_nothing_behind(ann: HybridProcess) -> None:
    for count in (3, 1, 5):
        ann.send_bundle([BOB], b"x", count, 0.0)
    ann.send([CID], b"x", 0.0)
    ann.recovery.abandon(BOB, 1.0)
    assert (ann.backlog(BOB), ann.backlog(CID)) == (0, 1)
    ledger = ann._algorithm.ledger
    if ledger is not None:
        assert ledger.unacked_copies == 1
    assert ann.send_bundle([BOB], b"x", 2, 2.0) == 12


@pytest.mark.parametrize("count", [0, -1])
def test_a_bundle_without_messages_is_refused(ann: HybridProcess, count: int) -> None:
    with pytest.raises(LocalError, match="a bundle must have at least 1 message"):
        ann.send_bundle([BOB], b"x", count, 0.0)
    assert ann.send([BOB], b"x", 0.0) == 1


def test_only_protocols_with_the_capability_bundle() -> None:
    able = []
    for info in protocols():
        try:
            process = info.make(ANN, ProcessConfig(processes=3))
        except ConfigError:
            continue
        if info.capabilities.bundles:
            assert process.send_bundle([BOB], b"x", 2, 0.0) == 2
            able.append(info.name)
        else:
            with pytest.raises(LocalError, match="this protocol has no bundles"):
                process.send_bundle([BOB], b"x", 2, 0.0)
    assert able == ["hybrid", "hybrid-basic", "bounded"]
