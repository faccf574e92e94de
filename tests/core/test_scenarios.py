"""The runs that the paper draws or describes, step by step."""

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import (
    Ack,
    Frame,
    MessageFrame,
    Permit,
    PermitRequest,
    ProcessId,
    Transmit,
    encode,
    protocol,
)
from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessBase
from antecede.errors import LocalError
from antecede.testing import Cluster
from antecede.trace import Kind

PROTOCOLS = ("hybrid", "hybrid-basic")


def arrive(cluster: Cluster, kind: type[Frame], *, source: int, target: int) -> Frame:
    """Let the oldest frame of this kind from ``source`` to ``target`` arrive."""
    for index, packet in enumerate(cluster.in_flight):
        if (packet.source, packet.target) == (source, target) and isinstance(
            packet.frame, kind
        ):
            cluster.arrive(index)
            return packet.frame
    raise AssertionError(f"no {kind.__name__} from {source} to {target} in flight")


def in_flight(cluster: Cluster, kind: type[Frame], *, source: int, target: int) -> int:
    """Return the number of frames of this kind in flight on a channel."""
    between = [p for p in cluster.in_flight if (p.source, p.target) == (source, target)]
    return sum(isinstance(packet.frame, kind) for packet in between)


def permitted(cluster: Cluster, *, source: int, target: int) -> list[bool]:
    """Return the permitted flags of the messages in flight on a channel."""
    return [
        packet.frame.permitted
        for packet in cluster.in_flight
        if (packet.source, packet.target) == (source, target)
        and isinstance(packet.frame, MessageFrame)
    ]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_figure_1_a_delivery_after_the_send_does_not_block_the_message(
    name: str,
) -> None:
    """a happened before c, but b did not: only deliveries before the *send* of c count."""
    i, j, k, other = range(4)
    cluster = Cluster(name, 4)
    cluster.send(j, [other])
    cluster.send(j, [i], b"a")
    cluster.send(k, [other])
    cluster.send(k, [i], b"before b")
    cluster.send(k, [i], b"b")
    arrive(cluster, MessageFrame, source=j, target=i)  # a arrives and is delivered
    index = [
        p.frame.payload for p in cluster.in_flight if isinstance(p.frame, MessageFrame)
    ]
    cluster.arrive(index.index(b"b"))  # b arrives and is held
    cluster.send(i, [other], b"c")
    assert in_flight(cluster, MessageFrame, source=i, target=other) == 0
    arrive(cluster, MessageFrame, source=k, target=i)  # b is delivered, c is queued
    assert cluster.delivered(i) == [(j, 2), (k, 2), (k, 3)]
    assert in_flight(cluster, MessageFrame, source=i, target=other) == 0
    arrive(cluster, MessageFrame, source=j, target=other)
    arrive(cluster, Ack, source=other, target=j)
    arrive(
        cluster, Permit, source=j, target=i
    )  # the permit of a suffices; that of b is missing
    assert in_flight(cluster, MessageFrame, source=i, target=other) == 1
    cluster.run_until_idle()
    assert cluster.verdict().held


@pytest.mark.parametrize("name", PROTOCOLS)
def test_figure_2_a_message_leaves_with_the_last_permit_it_depends_on(name: str) -> None:
    """m waits for the permits of a and b, but not of c, delivered after its send."""
    i, j, k, x, y, z = range(6)
    cluster = Cluster(name, 6)
    cluster.send(k, [y])
    cluster.send(k, [i], b"b")
    cluster.send(j, [x])
    cluster.send(j, [i], b"a")
    arrive(cluster, MessageFrame, source=k, target=i)
    arrive(cluster, MessageFrame, source=j, target=i)
    cluster.send(i, [z], b"m")
    arrive(cluster, MessageFrame, source=k, target=y)
    arrive(cluster, Ack, source=y, target=k)  # S^b
    arrive(cluster, Permit, source=k, target=i)  # R^b
    assert in_flight(cluster, MessageFrame, source=i, target=z) == 0
    cluster.send(k, [z])
    cluster.send(k, [i], b"c")
    arrive(cluster, MessageFrame, source=j, target=x)  # O^a
    arrive(cluster, Ack, source=x, target=j)  # S^a
    arrive(cluster, MessageFrame, source=k, target=i)  # c needs a permit, which is missing
    assert cluster.delivered(i) == [(k, 2), (j, 2), (k, 4)]
    assert in_flight(cluster, MessageFrame, source=i, target=z) == 0
    arrive(cluster, Permit, source=j, target=i)  # R^a
    assert in_flight(cluster, MessageFrame, source=i, target=z) == 1
    cluster.run_until_idle()
    assert cluster.verdict().held


@pytest.mark.parametrize(("name", "flags"), [("hybrid", [1, 1]), ("hybrid-basic", [1, 0])])
def test_point_1_after_unacked_messages_to_the_same_target_no_permit_is_needed(
    name: str, flags: list[bool]
) -> None:
    cluster = Cluster(name, 2)
    cluster.send(0, [1])
    cluster.send(0, [1])
    assert permitted(cluster, source=0, target=1) == [bool(flag) for flag in flags]


@pytest.mark.parametrize(("name", "permits"), [("hybrid", 1), ("hybrid-basic", 0)])
def test_point_2_a_permit_waits_only_for_acks_of_others(name: str, permits: int) -> None:
    j, k = 1, 2
    cluster = Cluster(name, 3)
    cluster.send(0, [j])
    cluster.send(0, [k])
    cluster.send(0, [j])
    assert permitted(cluster, source=0, target=j)[1] is False
    arrive(cluster, MessageFrame, source=0, target=k)
    arrive(cluster, Ack, source=k, target=0)
    assert in_flight(cluster, Permit, source=0, target=j) == permits
    arrive(cluster, MessageFrame, source=0, target=j)
    arrive(cluster, Ack, source=j, target=0)
    assert in_flight(cluster, Permit, source=0, target=j) == 1  # now with both protocols
    cluster.run_until_idle()
    assert cluster.verdict().held


@pytest.mark.parametrize(("name", "released"), [("hybrid", 1), ("hybrid-basic", 0)])
def test_point_3_a_message_to_j_does_not_wait_for_permits_of_j(
    name: str, released: int
) -> None:
    i, j, k = range(3)
    cluster = Cluster(name, 3)
    cluster.send(j, [k])
    cluster.send(j, [i])
    arrive(cluster, MessageFrame, source=j, target=i)
    cluster.send(i, [k])
    cluster.send(i, [j])
    assert in_flight(cluster, MessageFrame, source=i, target=k) == 0
    assert in_flight(cluster, MessageFrame, source=i, target=j) == released
    cluster.run_until_idle()
    assert cluster.verdict().held


def test_messages_to_different_targets_may_leave_in_another_order_than_sent() -> None:
    """§5.6: m2 leaves before m1, has the higher number, and needs a permit."""
    i, j, k = range(3)
    cluster = Cluster("hybrid", 3)
    cluster.send(j, [k])
    cluster.send(j, [i])
    arrive(cluster, MessageFrame, source=j, target=i)
    assert cluster.send(i, [k]) == 1
    assert cluster.send(i, [j]) == 2
    frame = arrive(cluster, MessageFrame, source=i, target=j)
    assert isinstance(frame, MessageFrame)
    assert (frame.number, frame.permitted) == (2, False)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_multicast_is_not_a_series_of_unicasts(name: str) -> None:
    """§5.7: a common target delivers a multicast before the answer to it."""
    i, j, k = range(3)
    series = Cluster(name, 3)
    series.send(i, [j])
    series.send(i, [k])
    arrive(series, MessageFrame, source=i, target=j)
    series.send(j, [k], b"answer")
    arrive(series, MessageFrame, source=j, target=k)
    assert series.delivered(k) == [
        (j, 1)
    ]  # before the second message of i: they are concurrent

    multicast = Cluster(name, 3)
    multicast.send(i, [j, k])
    arrive(multicast, MessageFrame, source=i, target=j)
    multicast.send(j, [k], b"answer")
    assert in_flight(multicast, MessageFrame, source=j, target=k) == 0  # it is queued
    multicast.run_until_idle()
    assert multicast.delivered(k) == [(i, 1), (j, 1)]
    assert multicast.verdict().held


def test_a_multicast_leaves_for_one_target_before_another() -> None:
    """The copy to the source of the missing permit need not wait (multicast.md)."""
    i, j, k = range(3)
    cluster = Cluster("hybrid", 3)
    cluster.send(j, [i, k])
    arrive(cluster, MessageFrame, source=j, target=i)
    cluster.send(i, [j, k])
    assert in_flight(cluster, MessageFrame, source=i, target=j) == 1
    assert in_flight(cluster, MessageFrame, source=i, target=k) == 0
    frame = arrive(cluster, MessageFrame, source=i, target=j)
    assert isinstance(frame, MessageFrame)
    assert not frame.permitted  # the copy to k is queued
    cluster.send(j, [k])  # depends on the message of i, whose permit is missing
    assert in_flight(cluster, MessageFrame, source=j, target=k) == 1  # the earlier message
    cluster.run_until_idle()
    assert cluster.delivered(k) == [(j, 1), (i, 1), (j, 2)]
    assert cluster.verdict().held


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_last_target_to_ack_a_multicast_gets_its_permit_early(name: str) -> None:
    """The optimisation that §5.7 names: no ack of another target is missing."""
    cluster = Cluster(name, 3)
    cluster.send(0, [1, 2])
    arrive(cluster, MessageFrame, source=0, target=1)
    arrive(cluster, Ack, source=1, target=0)
    assert in_flight(cluster, Permit, source=0, target=2) == 1
    assert in_flight(cluster, Permit, source=0, target=1) == 0
    cluster.run_until_idle()
    assert cluster.verdict().held


@pytest.mark.parametrize("name", PROTOCOLS)
def test_message_to_itself_is_delivered_inside_send(name: str) -> None:
    cluster = Cluster(name, 2)
    assert cluster.send(0, [0], b"note") == 1
    assert cluster.delivered(0) == [(0, 1)]
    assert not cluster.in_flight
    assert cluster.send(0, [1, 0]) == 2
    assert cluster.delivered(0) == [(0, 1), (0, 2)]
    assert permitted(cluster, source=0, target=1) == [True]
    cluster.run_until_idle()
    assert cluster.verdict().held


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_target_named_twice_gets_the_message_once(name: str) -> None:
    cluster = Cluster(name, 3)
    cluster.send(0, [1, 2, 1])
    cluster.run_until_idle()
    assert cluster.delivered(1) == [(0, 1)]
    assert cluster.verdict().held


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_permit_that_overtakes_its_message_is_remembered(name: str) -> None:
    i, j, k = range(3)
    cluster = Cluster(name, 3)
    cluster.send(j, [k])
    cluster.send(j, [i])
    arrive(cluster, MessageFrame, source=j, target=k)
    arrive(cluster, Ack, source=k, target=j)
    arrive(cluster, Permit, source=j, target=i)  # the first frame from this peer
    arrive(cluster, MessageFrame, source=j, target=i)
    cluster.send(i, [k])
    assert in_flight(cluster, MessageFrame, source=i, target=k) == 1


@pytest.mark.parametrize("name", PROTOCOLS)
def test_retransmission_has_an_updated_permitted_flag(name: str) -> None:
    """A copy that needed a permit at its release may be permitted when retransmitted."""
    cluster = Cluster(name, 3)
    cluster.send(0, [1])
    cluster.send(0, [2])
    assert permitted(cluster, source=0, target=2) == [False]
    arrive(cluster, MessageFrame, source=0, target=1)
    arrive(cluster, Ack, source=1, target=0)
    cluster.in_flight.clear()  # the message to 2 and its permit are lost
    cluster.pass_time(1.0)
    assert permitted(cluster, source=0, target=2) == [True]
    arrive(cluster, MessageFrame, source=0, target=2)
    cluster.send(2, [1])
    assert in_flight(cluster, MessageFrame, source=2, target=1) == 1


@pytest.mark.parametrize("name", PROTOCOLS)
def test_arrived_copy_is_not_retransmitted(name: str) -> None:
    """An ack also reports the arrival of a message that is held."""
    cluster = Cluster(name, 2)
    for _ in range(4):
        cluster.send(0, [1])
    cluster.drop(0)
    for _ in range(3):
        arrive(cluster, MessageFrame, source=0, target=1)
    for _ in range(3):
        arrive(cluster, Ack, source=1, target=0)
    cluster.pass_time(1.0)
    numbers = [
        p.frame.number for p in cluster.in_flight if isinstance(p.frame, MessageFrame)
    ]
    assert numbers == [1]
    cluster.run_until_idle()
    retransmissions = [event for event in cluster.history if event.kind is Kind.TRANSMIT]
    assert len(retransmissions) == 1
    assert cluster.verdict().held


@pytest.mark.parametrize("name", PROTOCOLS)
def test_state_does_not_depend_on_the_number_of_processes(name: str) -> None:
    """A process has no state for processes that it does not communicate with."""
    states = []
    for processes in (3, 300):
        cluster = Cluster(name, processes)
        cluster.send(0, [1, 2])
        cluster.send(1, [0])
        cluster.arrive()
        cluster.arrive(1)
        states.append([snapshot(process) for process in cluster.processes[:3]])
    assert states[0] == states[1]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_peer_may_appear_at_any_time(name: str) -> None:
    cluster = Cluster(name, 4)
    for _ in range(5):
        cluster.send(0, [1])
        cluster.send(1, [2, 0])
    cluster.run_until_idle()
    cluster.send(3, [0, 2], b"here I am")
    cluster.send(0, [3])
    cluster.run_until_idle()
    assert cluster.delivered(2)[-1] == (3, 1)
    assert cluster.verdict().held


def test_repr_of_outputs() -> None:
    cluster = Cluster("hybrid", 2)
    cluster.send(0, [1], b"abc")
    process = cluster.processes[1]
    process.receive(ProcessId(0), cluster.in_flight[0].frame, 0.0)
    assert repr(process.messages_to_deliver()) == "[Delivery(0:1, 3 B)]"
    (ack,) = process.frames_to_transmit()
    assert repr(ack) == "Transmit(0, Ack(arrived=1, delivered=1))"
    permit = Transmit(ProcessId(1), Permit(4), True)
    assert repr(permit) == "Transmit(1, Permit(number=4), retransmission)"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_lost_burst_is_retransmitted_completely(name: str) -> None:
    """Despite rounding: 0.9 + 1.0 - 1.0 is less than 0.9 in binary."""
    cluster = Cluster(name, 2)
    cluster.pass_time(0.9)
    for _ in range(5):
        cluster.send(0, [1])
    cluster.in_flight.clear()
    due = cluster.processes[0].next_timer()
    assert due is not None
    cluster.processes[0].handle_timer(due)
    frames = [transmit.frame for transmit in cluster.processes[0].frames_to_transmit()]
    assert [frame.number for frame in frames if isinstance(frame, MessageFrame)] == [
        1,
        2,
        3,
        4,
        5,
    ]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_timeout_adapts_to_a_path_slower_than_the_initial_timeout(name: str) -> None:
    """Without loss, later messages are transmitted only once."""
    sender, receiver = (protocol(name).make(ProcessId(i), ProcessConfig()) for i in (0, 1))
    retransmissions = []
    for turn in range(8):
        start = 10.0 * turn
        sender.send([receiver.id], b"", start)
        copies = sender.frames_to_transmit()
        for tick in range(1, 13):  # The ack takes 3 seconds; the first timeout is 1 second.
            now = start + tick / 4
            due = sender.next_timer()
            if due is not None and due <= now:
                sender.handle_timer(now)
                copies += sender.frames_to_transmit()
        retransmissions.append(len(copies) - 1)
        for copy in copies:
            receiver.receive(sender.id, copy.frame, start + 1.5)
        for ack in receiver.frames_to_transmit():
            sender.receive(receiver.id, ack.frame, start + 3.0)
    assert retransmissions == [
        2,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]  # After 1 and 3 seconds; later the timeout is 4 seconds.


@pytest.mark.parametrize("name", PROTOCOLS)
def test_timers_advance_with_a_clock_of_huge_numbers(name: str) -> None:
    process = protocol(name).make(ProcessId(0), ProcessConfig())
    process.send([ProcessId(1)], b"", 1.7e18)
    process.handle_timer(1.7e18)
    due = process.next_timer()
    assert due is not None
    assert due > 1.7e18


def test_encoding_begins_with_the_kind_of_the_frame() -> None:
    for frame in (MessageFrame(1, 0, True, b""), Ack(1, 1), Permit(1), PermitRequest(1)):
        assert frame.kind() == encode([frame])[1] >> 4
    with pytest.raises(TypeError):
        Frame().kind()


def test_process_base_refuses_all_inputs_except_time() -> None:
    bare = ProcessBase(ProcessId(0))
    for refused in (
        lambda: bare.send([ProcessId(1)], b"", 0.0),
        lambda: bare.broadcast(b"", 0.0),
        lambda: bare.connect(ProcessId(1), 0.0),
        lambda: bare.disconnect(ProcessId(1), 0.0),
    ):
        with pytest.raises(LocalError):
            refused()
    with pytest.raises(TypeError):
        bare.receive(ProcessId(1), Permit(1), 0.0)
    bare.handle_timer(0.0)
    assert bare.next_timer() is None
