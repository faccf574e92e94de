"""The buffer protocol: its paper's figures, every schedule, random ones, and mutants."""

from collections.abc import Callable
from math import nan
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.check.snapshot import snapshot
from antecede.core import Frame, Process, ProcessId, codec
from antecede.core.codec import VERSION, encode
from antecede.core.link import Linked
from antecede.core.protocols.baseline import Plain, PlainMessage
from antecede.core.protocols.buffer import Buffer, BufferAck, BufferFifo, read_buffer
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, Step, play, random_schedule
from antecede.testing.strategies import schedules
from antecede.trace import Kind
from antecede.verify import Property, Verdict
from tests.core.crowns import (
    FIGURE_4,
    FIGURE_5_AND_6,
    FIGURE_7,
    FIGURE_8,
    FIRST_PROGRAM,
    SECOND_PROGRAM,
    Pattern,
    Receive,
    Send,
    crowns,
    histories,
    history_of,
    nested_crowns,
    overlapping_crowns,
    reachable,
)
from tests.core.naive_buffer import Naive

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)

PROTOCOLS: list[tuple[type[Buffer], bool]] = [(Buffer, False), (BufferFifo, True)]
"""The process class, and whether it relies on FIFO channels."""
on_its_network = pytest.mark.parametrize(
    ("make", "fifo"), PROTOCOLS, ids=["buffer", "buffer-fifo"]
)

RUN_PROGRAM: Pattern = (
    (Send("m", 2), Send("n", 2), Send("y", 1)),
    (Receive(), Send("z", 2)),
    (Receive(), Receive(), Receive()),
)
"""The first program with two messages in place of x: what footnote 4 is about."""


def arrivable(cluster: Cluster, fifo: bool) -> list[int]:
    """Return which packets may be next to arrive on a reliable network."""
    if not fifo:
        return list(range(len(cluster.in_flight)))
    first: dict[tuple[int, int], int] = {}
    for index, packet in enumerate(cluster.in_flight):
        first.setdefault((packet.source, packet.target), index)
    return list(first.values())


def drive(
    cluster: Cluster,
    random: Random,
    *,
    fifo: bool,
    sends: int = 25,
    watch: Callable[[Cluster], None] = lambda cluster: None,
) -> Verdict:
    """Send at random and let frames arrive at random until none is left; judge that.

    Few targets at a time make runs of messages to the same one.
    """
    processes = len(cluster.processes)
    while sends > 0 or cluster.in_flight:
        if sends > 0 and (not cluster.in_flight or random.random() < 0.35):
            source = random.randrange(processes)
            target = random.randrange(processes)
            for _ in range(min(sends, random.randint(1, 3))):
                cluster.send(source, [target])
                sends -= 1
        else:
            cluster.arrive(random.choice(arrivable(cluster, fifo)))
        watch(cluster)
    return cluster.verdict()


def arrive(cluster: Cluster, what: bytes | type[BufferAck], target: int) -> None:
    """Let the message with this payload, or an ack, arrive at ``target``."""
    for index, packet in enumerate(cluster.in_flight):
        frame = packet.frame
        found = frame.payload if isinstance(frame, PlainMessage) else type(frame)
        if packet.target == target and found == what:
            cluster.arrive(index)
            return
    raise AssertionError(f"no {what!r} to {target} in flight")


def payloads_in_flight(cluster: Cluster) -> list[bytes]:
    frames = [packet.frame for packet in cluster.in_flight]
    return [frame.payload for frame in frames if isinstance(frame, PlainMessage)]


# The paper's figures. Its processes 1 to 3 are 0 to 2 here.


@on_its_network
def test_figures_1_and_3_crossing_sends_do_not_deadlock(
    make: type[Buffer], fifo: bool
) -> None:
    cluster = Cluster("", 2, make=make)
    for _ in range(3):
        cluster.send(0, [1])
        cluster.send(1, [0])
    drive(cluster, Random(1), fifo=fifo, sends=0)
    assert cluster.verdict().held
    assert cluster.delivered(0) == [(1, 1), (1, 2), (1, 3)]


@on_its_network
def test_figure_3_crossing_sends_end_well_in_every_schedule(
    make: type[Buffer], fifo: bool
) -> None:
    crossing: Pattern = (
        (Send("a", 1), Receive(), Send("b", 1), Receive()),
        (Send("c", 0), Receive(), Send("d", 0), Receive()),
    )
    assert set(histories(make, crossing, fifo=fifo)) == {history_of(crossing, ["cd", "ab"])}


@on_its_network
def test_figure_4_is_avoided_in_every_schedule(make: type[Buffer], fifo: bool) -> None:
    """x is never overtaken by y and z, as it is without a causal protocol."""
    assert not reachable(make, FIRST_PROGRAM, lambda h: h == FIGURE_4, fifo=fifo)
    assert reachable(Plain, FIRST_PROGRAM, lambda h: h == FIGURE_4, fifo=True)


@on_its_network
def test_figure_5_is_the_only_computation_of_the_first_program(
    make: type[Buffer], fifo: bool
) -> None:
    """The computation that the matrix protocol generates, but z never arrives early."""
    assert set(histories(make, FIRST_PROGRAM, fifo=fifo)) == {FIGURE_5_AND_6}
    for seed in range(50):
        random = Random(seed)
        cluster = Cluster("", 3, make=make)
        cluster.send(0, [2], b"x")
        cluster.send(0, [1], b"y")
        asked = False
        while cluster.in_flight:
            cluster.arrive(random.choice(arrivable(cluster, fifo)))
            if not asked and cluster.delivered(1):
                cluster.send(1, [2], b"z")
                asked = True
            assert not {b"x", b"z"} <= set(payloads_in_flight(cluster))
        arrivals = [
            (event.source, event.number)
            for event in cluster.history
            if event.kind is Kind.ARRIVE and event.process == 2
        ]
        assert arrivals == cluster.delivered(2) == [(0, 1), (1, 1)]


@on_its_network
def test_figure_6_y_waits_at_its_sender_until_x_is_acked(
    make: type[Buffer], fifo: bool
) -> None:
    cluster = Cluster("", 3, make=make)
    cluster.send(0, [2], b"x")
    cluster.send(0, [1], b"y")
    assert payloads_in_flight(cluster) == [b"x"]
    arrive(cluster, b"x", 2)
    assert cluster.delivered(2) == [(0, 1)]
    assert payloads_in_flight(cluster) == []  # x is delivered, its ack still under way.
    arrive(cluster, BufferAck, 0)
    assert payloads_in_flight(cluster) == [b"y"]
    arrive(cluster, b"y", 1)
    cluster.send(1, [2], b"z")
    assert payloads_in_flight(cluster) == [b"z"]  # Nothing keeps the last one waiting.
    cluster.settle()
    assert cluster.delivered(2) == [(0, 1), (1, 1)]
    assert cluster.verdict().held


@on_its_network
def test_figure_7_overlapping_crowns_come_about_as_the_paper_says(
    make: type[Buffer], fifo: bool
) -> None:
    cluster = Cluster("", 3, make=make)
    firsts = [(b"e", 0, 1), (b"c", 1, 2), (b"a", 2, 0)]
    seconds = [(b"d", 0, 2), (b"b", 1, 0), (b"f", 2, 1)]
    for payload, source, target in firsts + seconds:
        cluster.send(source, [target], payload)
    assert payloads_in_flight(cluster) == [b"e", b"c", b"a"]  # All at the same time.
    for payload, _, target in firsts:
        arrive(cluster, payload, target)
    assert payloads_in_flight(cluster) == []
    for source in range(3):
        arrive(cluster, BufferAck, source)
    assert payloads_in_flight(cluster) == [b"d", b"b", b"f"]
    cluster.settle()
    assert [cluster.delivered(process) for process in range(3)] == [
        [(2, 1), (1, 2)],  # a, b
        [(0, 1), (2, 2)],  # e, f
        [(1, 1), (0, 2)],  # c, d
    ]
    assert reachable(make, SECOND_PROGRAM, overlapping_crowns, fifo=fifo)


@on_its_network
def test_figure_8_nested_crowns_come_about_in_no_schedule(
    make: type[Buffer], fifo: bool
) -> None:
    """All computations of the second program are causal; this one alone is missing."""
    assert not reachable(make, SECOND_PROGRAM, nested_crowns, fifo=fifo)
    reached = set(histories(make, SECOND_PROGRAM, fifo=fifo))
    everything = set(histories(Plain, SECOND_PROGRAM, fifo=fifo))
    assert len(everything) == 8
    assert everything - reached == {FIGURE_8}


def test_figure_8_nested_crowns_come_about_without_the_protocol() -> None:
    assert reachable(Plain, SECOND_PROGRAM, nested_crowns, fifo=True)


def test_figures_7_and_8_alone_have_the_crowns_they_are_drawn_for() -> None:
    everything = list(histories(Plain, SECOND_PROGRAM))
    assert [h for h in everything if overlapping_crowns(h)] == [FIGURE_7]
    assert [h for h in everything if nested_crowns(h)] == [FIGURE_8]
    for history in (FIGURE_7, FIGURE_8):
        assert {frozenset("ace"), frozenset("bdf")} <= set(crowns(history))
    assert crowns(FIGURE_5_AND_6) == []  # Synchronous communication can have that one.


def test_footnote_4_messages_to_one_receiver_share_the_transit() -> None:
    cluster = Cluster("", 3, make=BufferFifo)
    for payload, target in [(b"1", 1), (b"2", 1), (b"3", 2), (b"4", 1)]:
        cluster.send(0, [target], payload)
    assert payloads_in_flight(cluster) == [b"1", b"2"]
    arrive(cluster, b"1", 1)
    arrive(cluster, BufferAck, 0)
    assert payloads_in_flight(cluster) == [b"2"]  # One ack of two is not enough.
    arrive(cluster, b"2", 1)
    arrive(cluster, BufferAck, 0)
    assert payloads_in_flight(cluster) == [b"3"]  # And 4 does not pass it.
    cluster.settle()
    assert cluster.verdict().held


def test_footnote_4_holds_in_every_schedule_that_keeps_the_order_of_pairs() -> None:
    right = history_of(RUN_PROGRAM, ["", "y", "mnz"])
    overtaken = history_of(RUN_PROGRAM, ["", "y", "nmz"])
    assert set(histories(BufferFifo, RUN_PROGRAM, fifo=True)) == {right}
    assert set(histories(BufferFifo, RUN_PROGRAM, fifo=False)) == {right, overtaken}
    assert set(histories(Buffer, RUN_PROGRAM, fifo=False)) == {right}


# What the rules say.


@on_its_network
def test_a_message_is_acked_on_arrival_before_the_application_takes_it(
    make: type[Buffer], fifo: bool
) -> None:
    process = make(ProcessId(0))
    for number in (1, 2):
        process.receive(ProcessId(number), PlainMessage(number, b""), 0.0)
        (transmit,) = process.frames_to_transmit()
        assert (type(transmit.frame), transmit.target) == (BufferAck, number)
    deliveries = process.messages_to_deliver()
    assert [(d.source, d.number) for d in deliveries] == [(1, 1), (2, 2)]


def test_sends_return_while_the_output_buffer_waits() -> None:
    process = Buffer(ProcessId(0))
    assert [process.send([ProcessId(n % 3)], b"", 0.0) for n in range(6)] == [*range(1, 7)]
    assert (process.unacked, process.waiting) == (1, 3)
    assert len(process.frames_to_transmit()) == 1
    assert [d.number for d in process.messages_to_deliver()] == [1, 4]  # Those to itself.
    process.receive(ProcessId(1), BufferAck(), 0.0)
    assert (process.unacked, process.waiting) == (1, 2)


@on_its_network
def test_what_is_in_transit_is_one_message_or_to_one_receiver(
    make: type[Buffer], fifo: bool
) -> None:
    most = 0

    def watch(cluster: Cluster) -> None:
        nonlocal most
        for source, process in enumerate(cluster.processes):
            assert isinstance(process, Buffer)
            # A message of `source` is on its way out, or its ack on the way back.
            receivers = [
                packet.target if packet.source == source else packet.source
                for packet in cluster.in_flight
                if (isinstance(packet.frame, PlainMessage) and packet.source == source)
                or (isinstance(packet.frame, BufferAck) and packet.target == source)
            ]
            assert len(receivers) == process.unacked
            assert len(set(receivers)) <= 1
            assert process.unacked > 0 or process.waiting == 0
            most = max(most, len(receivers))

    for seed in range(40):
        cluster = Cluster("", 4, make=make)
        assert drive(cluster, Random(seed), fifo=fifo, watch=watch).held
    assert (most > 1) is fifo


@on_its_network
@pytest.mark.parametrize("processes", [2, 12])
def test_metadata_is_the_same_however_many_processes_there_are(
    make: type[Buffer], fifo: bool, processes: int
) -> None:
    cluster = Cluster("", processes, make=make)
    drive(cluster, Random(3), fifo=fifo, sends=100)
    sizes = {
        kind: {event.metadata_bytes for event in cluster.history if event.kind is kind}
        for kind in (Kind.RELEASE, Kind.CONTROL)
    }
    assert sizes == {Kind.RELEASE: {3}, Kind.CONTROL: {1}}


# Random schedules.


@pytest.mark.long
@on_its_network
def test_bare_random_runs_are_causal_and_live(make: type[Buffer], fifo: bool) -> None:
    for seed in range(1500):
        random = Random(seed)
        cluster = Cluster("", random.randint(2, 5), make=make)
        verdict = drive(cluster, random, fifo=fifo)
        assert verdict.held, f"seed {seed}: {verdict.violations}"
        assert all(process.next_timer() is None for process in cluster.processes)


@on_its_network
@given(schedule=schedules(4), order=st.randoms(use_true_random=False))
def test_linked_runs_are_causal_despite_loss_duplication_and_pauses(
    make: type[Buffer], fifo: bool, schedule: list[Step], order: Random
) -> None:
    cluster = Cluster("", 4, make=lambda place: Linked(make(place), fifo, POLICY))
    play(cluster, schedule)
    assert cluster.verdict(complete=False).held
    cluster.settle(order)
    assert cluster.verdict().held


@pytest.mark.long
@on_its_network
def test_linked_long_random_runs_are_causal_and_live(
    make: type[Buffer], fifo: bool
) -> None:
    for seed in range(600):
        random = Random(seed)
        processes = random.randint(2, 6)
        cluster = Cluster(
            "", processes, make=lambda place: Linked(make(place), fifo, POLICY)
        )
        faults = random.choice((0.0, 0.2))
        play(
            cluster,
            random_schedule(
                random,
                processes=processes,
                steps=random.choice((30, 120)),
                loss=faults,
                duplicate=faults,
                seconds=(0.25, 1.0, 4.0),
            ),
        )
        assert cluster.verdict(complete=False).held, f"seed {seed}"
        cluster.settle(random)
        verdict = cluster.verdict()
        assert verdict.held, f"seed {seed}: {verdict.violations}"
        for process in cluster.processes:
            assert isinstance(process, Linked)
            inner = process.inner
            assert isinstance(inner, Buffer)
            assert (inner.unacked, inner.waiting) == (0, 0)


# Mutants.


@on_its_network
def test_the_naive_implementation_does_the_same_step_by_step(
    make: type[Buffer], fifo: bool
) -> None:
    for seed in range(100):
        real = Cluster("", 4, make=make)
        naive = Cluster("", 4, make=lambda place: Naive(place, fifo))
        drive(real, Random(seed), fifo=fifo)
        drive(naive, Random(seed), fifo=fifo)
        assert real.history == naive.history, f"seed {seed}"


@pytest.mark.parametrize(
    ("fault", "fifo", "broken"),
    [
        ("two in transit", False, {Property.CAUSAL, Property.FIFO}),
        ("one in transit to each", False, {Property.CAUSAL}),
        ("last in, first out", False, {Property.CAUSAL, Property.FIFO}),
        ("an ack releases nothing", False, {Property.LIVE}),
        ("acks wait for acks", False, {Property.LIVE}),
        ("the first ack is enough", True, {Property.CAUSAL}),
        ("two in transit", True, {Property.CAUSAL}),
        ("last in, first out", True, {Property.CAUSAL, Property.FIFO}),
    ],
)
def test_random_runs_catch_a_mutant(fault: str, fifo: bool, broken: set[Property]) -> None:
    found: set[Property] = set()
    for seed in range(200):
        cluster = Cluster("", 3, make=lambda place: Naive(place, fifo, fault))
        found |= drive(cluster, Random(seed), fifo=fifo).broken()
    assert found == broken


@pytest.mark.parametrize("fault", ["two in transit", "one in transit to each"])
def test_every_schedule_of_the_figures_catches_a_mutant(fault: str) -> None:
    def make(id: ProcessId) -> Process:
        return Naive(id, False, fault)

    assert reachable(make, FIRST_PROGRAM, lambda h: h == FIGURE_4)
    assert reachable(make, SECOND_PROGRAM, nested_crowns)


def test_every_schedule_of_crossing_sends_catches_acks_that_wait() -> None:
    """With acks that wait for acks, crossing sends deadlock as in Figure 1."""
    crossing: Pattern = ((Send("a", 1), Send("b", 1)), (Send("c", 0), Send("d", 0)))
    whole = tuple((*program, Receive(), Receive()) for program in crossing)
    ends = histories(lambda place: Naive(place, False, "acks wait for acks"), whole)
    assert {len(history[0]) for history in ends} == {3, 4}
    assert set(histories(Buffer, whole)) == {history_of(whole, ["cd", "ab"])}


def test_buffer_fifo_needs_the_order_of_pairs() -> None:
    """It is not causal on channels that reorder, where ``buffer`` is."""
    found: set[Property] = set()
    for seed in range(50):
        cluster = Cluster("", 3, make=BufferFifo)
        found |= drive(cluster, Random(seed), fifo=False).broken()
    assert Property.FIFO in found


# Bad input.


def busy(make: type[Buffer]) -> Buffer:
    """Process 0: its message to 1 is in transit, that to 2 waits, one has arrived."""
    process = make(ProcessId(0))
    process.send([ProcessId(1)], b"x", 0.0)
    process.send([ProcessId(2)], b"y", 0.0)
    process.receive(ProcessId(2), PlainMessage(1, b"z"), 0.0)
    process.frames_to_transmit()
    return process


@on_its_network
def test_a_send_that_makes_no_sense_changes_nothing(make: type[Buffer], fifo: bool) -> None:
    process = busy(make)
    before = snapshot(process)
    attempts: list[tuple[list[object], object, float]] = [
        ([], b"", 0.0),
        ([1, 2], b"", 0.0),
        ([0, 1], b"", 0.0),
        ([1, 1, 0], b"", 0.0),
        ([-1], b"", 0.0),
        ([1], "text", 0.0),
        ([1], b"", nan),
    ]
    for targets, payload, now in attempts:
        with pytest.raises(LocalError):
            process.send(cast("list[ProcessId]", targets), payload, now)
        assert snapshot(process) == before
    with pytest.raises(LocalError, match="no broadcast"):
        process.broadcast(b"", 0.0)
    assert snapshot(process) == before


@on_its_network
def test_a_target_named_twice_counts_once(make: type[Buffer], fifo: bool) -> None:
    process = make(ProcessId(0))
    assert process.send([ProcessId(1), ProcessId(1)], b"", 0.0) == 1
    assert process.send([ProcessId(0), ProcessId(0)], b"", 0.0) == 2
    assert [t.target for t in process.frames_to_transmit()] == [1]
    assert [d.number for d in process.messages_to_deliver()] == [2]


@on_its_network
def test_a_frame_that_cannot_be_changes_nothing(make: type[Buffer], fifo: bool) -> None:
    process = busy(make)
    before = snapshot(process)
    for source, frame in [
        (1, PlainMessage(0, b"")),
        (1, PlainMessage(-1, b"")),
        (2, BufferAck()),  # Its message waits for its release.
        (3, BufferAck()),
        (1, Frame()),
    ]:
        with pytest.raises(PeerError):
            process.receive(ProcessId(source), frame, 0.0)
        assert snapshot(process) == before
    with pytest.raises(LocalError):
        process.receive(ProcessId(0), PlainMessage(1, b""), 0.0)
    with pytest.raises(LocalError):
        process.receive(ProcessId(1), BufferAck(), nan)
    assert snapshot(process) == before
    process.receive(ProcessId(1), BufferAck(), 0.0)
    process.receive(ProcessId(2), BufferAck(), 0.0)
    with pytest.raises(PeerError):
        process.receive(ProcessId(2), BufferAck(), 0.0)  # That was the last.


# Frames.


@given(number=st.integers(1, 2**63 - 1), payload=st.binary(max_size=300))
def test_frames_survive_the_wire(number: int, payload: bytes) -> None:
    frames: list[Frame] = [PlainMessage(number, payload), BufferAck()]
    read = codec.decode(encode([*frames, frames[0]]), read_buffer)
    assert [snapshot(frame) for frame in (read[0], read[2])] == [snapshot(frames[0])] * 2
    assert isinstance(read[1], BufferAck)
    for frame in frames:
        assert len(encode([frame])) == 1 + frame.size()


def test_an_ack_is_one_byte() -> None:
    ack = BufferAck()
    assert encode([ack]) == bytes([VERSION, 0x20])
    assert (ack.kind(), ack.message_number(), repr(ack)) == (2, 0, "BufferAck()")


@pytest.mark.parametrize("frame", ["21", "22", "11 01 00", "30", "00", "10", "10 01 01"])
def test_bytes_that_are_no_frame_are_refused(frame: str) -> None:
    with pytest.raises(PeerError):
        codec.decode(bytes([VERSION]) + bytes.fromhex(frame), read_buffer)
