"""Invalid input raises LocalError or PeerError, and changes nothing."""

from math import inf, nan
from typing import cast

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import (
    Ack,
    Frame,
    MessageFrame,
    Permit,
    PermitRequest,
    Process,
    ProcessId,
    protocol,
)
from antecede.core.config import ProcessConfig
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing import Cluster

PROTOCOLS = ("hybrid", "hybrid-basic")


def busy_process(name: str) -> Process:
    """Return process 0 after some traffic.

    2 acked its message 1; 3 and 5 to 1 are in flight; it has delivered 1:1 and holds 1:4,
    whose predecessor 3 has not arrived.
    """
    cluster = Cluster(name, 3)
    process = cluster.processes[0]
    one, two = ProcessId(1), ProcessId(2)
    process.send([two], b"", 0.0)
    process.receive(two, Ack(1, 1), 0.1)
    process.send([two], b"", 0.2)
    process.send([one], b"", 0.2)
    process.send([two], b"", 0.2)
    process.send([one], b"", 0.2)
    process.receive(one, MessageFrame(1, 0, True, b""), 0.3)
    process.receive(one, MessageFrame(4, 3, False, b""), 0.3)
    process.frames_to_transmit()
    process.messages_to_deliver()
    return process


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize(
    ("targets", "payload", "words"),
    [
        ([], b"", "at least one target"),
        ([-1], b"", "process id"),
        ([1, "2"], b"", "process id"),
        ([1.0], b"", "process id"),
        ([True], b"", "process id"),
        (iter(()), b"", "at least one target"),
        (b"\x01", b"", "collection of process ids"),
        ("1", b"", "collection of process ids"),
        (5, b"", "collection of process ids"),
        ([1], "text", "must be bytes, not str"),
        ([1], bytearray(b"x"), "must be bytes, not bytearray"),
        ([1], None, "must be bytes, not NoneType"),
    ],
)
def test_an_invalid_send_raises_local_error_and_changes_nothing(
    name: str, targets: object, payload: object, words: str
) -> None:
    process = busy_process(name)
    before = snapshot(process)
    with pytest.raises(LocalError, match=words):
        process.send(cast("list[ProcessId]", targets), cast("bytes", payload), 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("now", [nan, inf, -inf])
def test_a_time_that_is_not_finite_raises_local_error_and_changes_nothing(
    name: str, now: float
) -> None:
    process = busy_process(name)
    before = snapshot(process)
    with pytest.raises(LocalError, match="finite"):
        process.send([ProcessId(1)], b"", now)
    with pytest.raises(LocalError, match="finite"):
        process.receive(ProcessId(1), Permit(9), now)
    with pytest.raises(LocalError, match="finite"):
        process.handle_timer(now)
    assert snapshot(process) == before


@pytest.mark.parametrize("name", PROTOCOLS)
def test_targets_may_be_any_iterable_of_process_ids(name: str) -> None:
    process = protocol(name).make(ProcessId(0), ProcessConfig())
    process.send((ProcessId(i) for i in (1, 2)), b"", 0.0)
    process.send({ProcessId(1)}, b"", 0.0)
    targets = [transmit.target for transmit in process.frames_to_transmit()]
    assert targets == [1, 2, 1]


NONSENSE = [
    (1, MessageFrame(0, 0, True, b"")),  # numbers start at 1
    (1, MessageFrame(5, 5, True, b"")),  # its own predecessor
    (1, MessageFrame(5, 6, True, b"")),  # a predecessor after it
    (1, MessageFrame(2, 0, True, b"")),  # 1 was delivered in between
    (1, MessageFrame(6, 3, True, b"")),  # 3 has another successor, 4
    (9, MessageFrame(2, 2, True, b"")),  # from an unknown peer
    (9, Ack(1, 1)),  # no message was sent to it
    (1, Ack(1, 1)),  # 1 was for another target
    (1, Ack(4, 4)),  # so was 4
    (1, Ack(6, 6)),  # not sent yet
    (1, Ack(3, 4)),  # 4 was not sent to it
    (1, Ack(4, 3)),
    (1, Ack(3, 6)),
    (1, Ack(0, 0)),  # arrived must be at least 1
    (2, Ack(-1, 1)),
    (1, Permit(0)),
    (9, Permit(-3)),
    (1, PermitRequest(0)),
    (1, PermitRequest(6)),
]


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize(("source", "frame"), NONSENSE, ids=str)
def test_an_invalid_frame_raises_peer_error_and_changes_nothing(
    name: str, source: int, frame: Frame
) -> None:
    process = busy_process(name)
    before = snapshot(process)
    with pytest.raises(PeerError):
        process.receive(ProcessId(source), frame, 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize(
    ("source", "frame"),
    [
        (1, MessageFrame(1, 0, True, b"")),  # a duplicate, delivered
        (1, MessageFrame(4, 3, False, b"")),  # a duplicate, held
        (1, MessageFrame(7, 4, False, b"")),  # its predecessor is held
        (9, MessageFrame(7, 6, False, b"")),  # a new peer, not its first message
        (9, Permit(1)),  # a permit before the first message of a new peer
        (1, Permit(99)),  # a permit for future messages
        (2, Ack(1, 1)),  # an old ack
        (2, Ack(0, 4)),  # it arrived, nothing delivered: older than the last ack
        (1, Ack(0, 5)),  # 5 arrived before 3
        (1, Ack(5, 3)),  # 3 came last, and both are delivered
        (1, PermitRequest(3)),
        (9, PermitRequest(1)),  # from a peer that was forgotten
    ],
    ids=str,
)
def test_duplicates_and_reordering_raise_no_error(
    name: str, source: int, frame: Frame
) -> None:
    busy_process(name).receive(ProcessId(source), frame, 1.0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_frame_from_the_process_itself_raises_local_error(name: str) -> None:
    process = busy_process(name)
    before = snapshot(process)
    with pytest.raises(LocalError):
        process.receive(process.id, Permit(1), 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("name", PROTOCOLS)
def test_frame_itself_is_refused(name: str) -> None:
    process = busy_process(name)
    before = snapshot(process)
    with pytest.raises(PeerError, match="not a frame of this protocol"):
        process.receive(ProcessId(1), Frame(), 1.0)
    assert snapshot(process) == before


def test_an_unknown_protocol_is_refused_with_the_known_names() -> None:
    with pytest.raises(ConfigError, match=r"'hybird'.*hybrid, hybrid-basic"):
        protocol("hybird")
