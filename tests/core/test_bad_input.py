"""What makes no sense is refused, blamed on the right side, and changes nothing."""

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
    """Process 0 after some traffic: 2 acked its message 1; 3 and 5 to 1 are out; it has
    delivered 1:1 and holds 1:4 (after 3), whose predecessor has not arrived."""
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
def test_a_bad_send_is_the_callers_fault_and_changes_nothing(
    name: str, targets: object, payload: object, words: str
) -> None:
    process = busy_process(name)
    before = snapshot(process)
    with pytest.raises(LocalError, match=words):
        process.send(cast("list[ProcessId]", targets), cast("bytes", payload), 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("now", [nan, inf, -inf])
def test_a_time_that_is_none_is_the_drivers_fault_and_changes_nothing(
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
def test_targets_may_come_from_anything_that_yields_process_ids(name: str) -> None:
    process = protocol(name).make(ProcessId(0), ProcessConfig())
    process.send((ProcessId(i) for i in (1, 2)), b"", 0.0)
    process.send({ProcessId(1)}, b"", 0.0)
    targets = [transmit.target for transmit in process.frames_to_transmit()]
    assert targets == [1, 2, 1]


NONSENSE = [
    (1, MessageFrame(0, 0, True, b"")),  # numbers start at 1
    (1, MessageFrame(5, 5, True, b"")),  # its own predecessor
    (1, MessageFrame(5, 6, True, b"")),  # a predecessor from the future
    (1, MessageFrame(2, 0, True, b"")),  # 1 was delivered in between
    (1, MessageFrame(6, 3, True, b"")),  # 3 has another successor already, 4
    (9, MessageFrame(2, 2, True, b"")),  # from a peer never heard of
    (9, Ack(1, 1)),  # we never sent it anything
    (1, Ack(1, 1)),  # 1 went to another
    (1, Ack(4, 4)),  # so did 4
    (1, Ack(6, 6)),  # not sent yet
    (1, Ack(3, 4)),  # it delivered 3, but 4 did not go to it
    (1, Ack(4, 3)),
    (1, Ack(3, 6)),
    (1, Ack(0, 0)),  # something must have arrived
    (2, Ack(-1, 1)),
    (1, Permit(0)),
    (9, Permit(-3)),
    (9, PermitRequest(1)),
    (1, PermitRequest(0)),
    (1, PermitRequest(6)),
]


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize(("source", "frame"), NONSENSE, ids=str)
def test_a_frame_that_makes_no_sense_is_the_peers_fault_and_changes_nothing(
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
        (1, Permit(99)),  # a permit for what is still to come
        (2, Ack(1, 1)),  # an old ack
        (2, Ack(0, 4)),  # it arrived, nothing delivered: older than the last ack
        (1, Ack(0, 5)),  # 5 arrived before 3
        (1, Ack(5, 3)),  # 3 came last, and both are delivered
        (1, PermitRequest(3)),
    ],
    ids=str,
)
def test_what_a_bad_network_does_to_good_frames_is_no_error(
    name: str, source: int, frame: Frame
) -> None:
    busy_process(name).receive(ProcessId(source), frame, 1.0)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_frame_from_oneself_is_the_drivers_fault(name: str) -> None:
    process = busy_process(name)
    before = snapshot(process)
    with pytest.raises(LocalError):
        process.receive(process.id, Permit(1), 1.0)
    assert snapshot(process) == before


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_bare_frame_belongs_to_no_protocol(name: str) -> None:
    process = busy_process(name)
    before = snapshot(process)
    with pytest.raises(PeerError, match="not a frame of this protocol"):
        process.receive(ProcessId(1), Frame(), 1.0)
    assert snapshot(process) == before


def test_an_unknown_protocol_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'hybird'.*hybrid, hybrid-basic"):
        protocol("hybird")
