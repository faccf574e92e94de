"""``buffer`` and ``buffer-fifo``: the figures of the paper, random runs, and mutants."""

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
from antecede.core.link import ReliableLink
from antecede.core.protocols.baseline import Baseline, BaselineMessage
from antecede.core.protocols.buffer import Buffer, BufferAck, BufferFifo, read_buffer
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, Step, random_schedule, run_schedule
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
from tests.core.naive_buffer import NaiveBuffer

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)

PROTOCOLS: list[tuple[type[Buffer], bool]] = [(Buffer, False), (BufferFifo, True)]
"""The process class, and whether it needs FIFO channels."""
both_protocols = pytest.mark.parametrize(
    ("make", "fifo"), PROTOCOLS, ids=["buffer", "buffer-fifo"]
)

RUN_PROGRAM: Pattern = (
    (Send("m", 2), Send("n", 2), Send("y", 1)),
    (Receive(), Send("z", 2)),
    (Receive(), Receive(), Receive()),
)
"""The first program with two messages in place of x, for footnote 4."""


def arrivable(cluster: Cluster, fifo: bool) -> list[int]:
    """Return the indexes of the packets that may arrive next on a reliable network."""
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
    """Run random sends and arrivals until no frame is in flight; return the verdict.

    Each random choice of a target is used for up to three messages.
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


def arrive(cluster: Cluster, wanted: bytes | type[BufferAck], target: int) -> None:
    """Let the message with this payload, or an ack, arrive at ``target``."""
    for index, packet in enumerate(cluster.in_flight):
        frame = packet.frame
        found = frame.payload if isinstance(frame, BaselineMessage) else type(frame)
        if packet.target == target and found == wanted:
            cluster.arrive(index)
            return
    raise AssertionError(f"no {wanted!r} to {target} in flight")


def payloads_in_flight(cluster: Cluster) -> list[bytes]:
    frames = [packet.frame for packet in cluster.in_flight]
    return [frame.payload for frame in frames if isinstance(frame, BaselineMessage)]


# The paper's figures. Its processes 1 to 3 are 0 to 2 here.


@both_protocols
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


@both_protocols
def test_figure_3_crossing_sends_are_delivered_in_every_schedule(
    make: type[Buffer], fifo: bool
) -> None:
    crossing: Pattern = (
        (Send("a", 1), Receive(), Send("b", 1), Receive()),
        (Send("c", 0), Receive(), Send("d", 0), Receive()),
    )
    assert set(histories(make, crossing, fifo=fifo)) == {history_of(crossing, ["cd", "ab"])}


@both_protocols
def test_figure_4_is_avoided_in_every_schedule(make: type[Buffer], fifo: bool) -> None:
    """The chain of y and z never overtakes x; without a causal protocol it does."""
    assert not reachable(make, FIRST_PROGRAM, lambda h: h == FIGURE_4, fifo=fifo)
    assert reachable(Baseline, FIRST_PROGRAM, lambda h: h == FIGURE_4, fifo=True)


@both_protocols
def test_figure_5_is_the_only_computation_of_the_first_program(
    make: type[Buffer], fifo: bool
) -> None:
    """The same computation as with the matrix protocol, but z never arrives early."""
    assert set(histories(make, FIRST_PROGRAM, fifo=fifo)) == {FIGURE_5_AND_6}
    for seed in range(50):
        random = Random(seed)
        cluster = Cluster("", 3, make=make)
        cluster.send(0, [2], b"x")
        cluster.send(0, [1], b"y")
        answered = False
        while cluster.in_flight:
            cluster.arrive(random.choice(arrivable(cluster, fifo)))
            if not answered and cluster.delivered(1):
                cluster.send(1, [2], b"z")
                answered = True
            assert not {b"x", b"z"} <= set(payloads_in_flight(cluster))
        arrivals = [
            (event.source, event.number)
            for event in cluster.history
            if event.kind is Kind.ARRIVE and event.process == 2
        ]
        assert arrivals == cluster.delivered(2) == [(0, 1), (1, 1)]


@both_protocols
def test_figure_6_y_waits_at_its_sender_until_x_is_acked(
    make: type[Buffer], fifo: bool
) -> None:
    cluster = Cluster("", 3, make=make)
    cluster.send(0, [2], b"x")
    cluster.send(0, [1], b"y")
    assert payloads_in_flight(cluster) == [b"x"]
    arrive(cluster, b"x", 2)
    assert cluster.delivered(2) == [(0, 1)]
    assert payloads_in_flight(cluster) == []  # x is delivered, its ack is in flight.
    arrive(cluster, BufferAck, 0)
    assert payloads_in_flight(cluster) == [b"y"]
    arrive(cluster, b"y", 1)
    cluster.send(1, [2], b"z")
    assert payloads_in_flight(cluster) == [b"z"]  # z need not wait.
    cluster.run_until_idle()
    assert cluster.delivered(2) == [(0, 1), (1, 1)]
    assert cluster.verdict().held


@both_protocols
def test_figure_7_overlapping_crowns_are_reached_as_in_the_paper(
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
    cluster.run_until_idle()
    assert [cluster.delivered(process) for process in range(3)] == [
        [(2, 1), (1, 2)],  # a, b
        [(0, 1), (2, 2)],  # e, f
        [(1, 1), (0, 2)],  # c, d
    ]
    assert reachable(make, SECOND_PROGRAM, overlapping_crowns, fifo=fifo)


@pytest.mark.long
@both_protocols
def test_figure_8_nested_crowns_are_reached_in_no_schedule(
    make: type[Buffer], fifo: bool
) -> None:
    """All 8 computations of the second program are causal; only this one is missing."""
    assert not reachable(make, SECOND_PROGRAM, nested_crowns, fifo=fifo)
    reached = set(histories(make, SECOND_PROGRAM, fifo=fifo))
    everything = set(histories(Baseline, SECOND_PROGRAM, fifo=fifo))
    assert len(everything) == 8
    assert everything - reached == {FIGURE_8}


def test_figure_8_nested_crowns_are_reached_without_the_protocol() -> None:
    assert reachable(Baseline, SECOND_PROGRAM, nested_crowns, fifo=True)


def test_only_figures_7_and_8_have_overlapping_and_nested_crowns() -> None:
    everything = list(histories(Baseline, SECOND_PROGRAM))
    assert [h for h in everything if overlapping_crowns(h)] == [FIGURE_7]
    assert [h for h in everything if nested_crowns(h)] == [FIGURE_8]
    for history in (FIGURE_7, FIGURE_8):
        assert {frozenset("ace"), frozenset("bdf")} <= set(crowns(history))
    assert crowns(FIGURE_5_AND_6) == []  # It is possible with synchronous communication.


def test_footnote_4_messages_to_one_target_are_in_flight_together() -> None:
    cluster = Cluster("", 3, make=BufferFifo)
    for payload, target in [(b"1", 1), (b"2", 1), (b"3", 2), (b"4", 1)]:
        cluster.send(0, [target], payload)
    assert payloads_in_flight(cluster) == [b"1", b"2"]
    arrive(cluster, b"1", 1)
    arrive(cluster, BufferAck, 0)
    assert payloads_in_flight(cluster) == [b"2"]  # One ack of two is not enough.
    arrive(cluster, b"2", 1)
    arrive(cluster, BufferAck, 0)
    assert payloads_in_flight(cluster) == [b"3"]  # Message 4 does not overtake it.
    cluster.run_until_idle()
    assert cluster.verdict().held


def test_footnote_4_holds_in_every_schedule_with_fifo_channels() -> None:
    right = history_of(RUN_PROGRAM, ["", "y", "mnz"])
    overtaken = history_of(RUN_PROGRAM, ["", "y", "nmz"])
    assert set(histories(BufferFifo, RUN_PROGRAM, fifo=True)) == {right}
    assert set(histories(BufferFifo, RUN_PROGRAM, fifo=False)) == {right, overtaken}
    assert set(histories(Buffer, RUN_PROGRAM, fifo=False)) == {right}


# The rules.


@both_protocols
def test_a_message_is_acked_on_arrival_before_the_application_takes_it(
    make: type[Buffer], fifo: bool
) -> None:
    process = make(ProcessId(0))
    for number in (1, 2):
        process.receive(ProcessId(number), BaselineMessage(number, b""), 0.0)
        (transmit,) = process.frames_to_transmit()
        assert (type(transmit.frame), transmit.target) == (BufferAck, number)
    deliveries = process.messages_to_deliver()
    assert [(d.source, d.number) for d in deliveries] == [(1, 1), (2, 2)]


def test_sends_return_while_the_output_buffer_waits() -> None:
    process = Buffer(ProcessId(0))
    assert [process.send([ProcessId(n % 3)], b"", 0.0) for n in range(6)] == [*range(1, 7)]
    assert (process.in_flight, process.queued) == (1, 3)
    assert len(process.frames_to_transmit()) == 1
    assert [d.number for d in process.messages_to_deliver()] == [1, 4]  # Those to itself.
    process.receive(ProcessId(1), BufferAck(), 0.0)
    assert (process.in_flight, process.queued) == (1, 2)


@both_protocols
def test_messages_in_flight_have_the_same_target(make: type[Buffer], fifo: bool) -> None:
    in_flight_max = 0

    def watch(cluster: Cluster) -> None:
        nonlocal in_flight_max
        for source, process in enumerate(cluster.processes):
            assert isinstance(process, Buffer)
            # Either a message of `source` or its ack is in flight.
            receivers = [
                packet.target if packet.source == source else packet.source
                for packet in cluster.in_flight
                if (isinstance(packet.frame, BaselineMessage) and packet.source == source)
                or (isinstance(packet.frame, BufferAck) and packet.target == source)
            ]
            assert len(receivers) == process.in_flight
            assert len(set(receivers)) <= 1
            assert process.in_flight > 0 or process.queued == 0
            in_flight_max = max(in_flight_max, len(receivers))

    for seed in range(40):
        cluster = Cluster("", 4, make=make)
        assert drive(cluster, Random(seed), fifo=fifo, watch=watch).held
    assert (in_flight_max > 1) is fifo


@pytest.mark.long
@both_protocols
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
@both_protocols
def test_bare_random_runs_are_causal_and_live(make: type[Buffer], fifo: bool) -> None:
    for seed in range(1500):
        random = Random(seed)
        cluster = Cluster("", random.randint(2, 5), make=make)
        verdict = drive(cluster, random, fifo=fifo)
        assert verdict.held, f"seed {seed}: {verdict.violations}"
        assert all(process.next_timer() is None for process in cluster.processes)


@pytest.mark.long
@both_protocols
@given(schedule=schedules(4), order=st.randoms(use_true_random=False))
def test_linked_runs_are_causal_despite_loss_duplication_and_pauses(
    make: type[Buffer], fifo: bool, schedule: list[Step], order: Random
) -> None:
    cluster = Cluster("", 4, make=lambda index: ReliableLink(make(index), fifo, POLICY))
    run_schedule(cluster, schedule)
    assert cluster.verdict(complete=False).held
    cluster.run_until_idle(order)
    assert cluster.verdict().held


@pytest.mark.long
@both_protocols
def test_linked_long_random_runs_are_causal_and_live(
    make: type[Buffer], fifo: bool
) -> None:
    for seed in range(600):
        random = Random(seed)
        processes = random.randint(2, 6)
        cluster = Cluster(
            "", processes, make=lambda index: ReliableLink(make(index), fifo, POLICY)
        )
        faults = random.choice((0.0, 0.2))
        run_schedule(
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
        cluster.run_until_idle(random)
        verdict = cluster.verdict()
        assert verdict.held, f"seed {seed}: {verdict.violations}"
        for process in cluster.processes:
            assert isinstance(process, ReliableLink)
            inner = process.inner
            assert isinstance(inner, Buffer)
            assert (inner.in_flight, inner.queued) == (0, 0)


# Mutants.


@both_protocols
def test_naive_implementation_has_the_same_history(make: type[Buffer], fifo: bool) -> None:
    for seed in range(100):
        real = Cluster("", 4, make=make)
        naive = Cluster("", 4, make=lambda index: NaiveBuffer(index, fifo))
        drive(real, Random(seed), fifo=fifo)
        drive(naive, Random(seed), fifo=fifo)
        assert real.history == naive.history, f"seed {seed}"


@pytest.mark.parametrize(
    ("fault", "fifo", "broken"),
    [
        ("two in flight", False, {Property.CAUSAL, Property.FIFO}),
        ("one in flight to each", False, {Property.CAUSAL}),
        ("last in, first out", False, {Property.CAUSAL, Property.FIFO}),
        ("an ack releases nothing", False, {Property.LIVENESS}),
        ("acks wait for acks", False, {Property.LIVENESS}),
        ("the first ack is enough", True, {Property.CAUSAL}),
        ("two in flight", True, {Property.CAUSAL}),
        ("last in, first out", True, {Property.CAUSAL, Property.FIFO}),
    ],
)
def test_random_runs_catch_a_mutant(fault: str, fifo: bool, broken: set[Property]) -> None:
    found: set[Property] = set()
    for seed in range(200):
        cluster = Cluster("", 3, make=lambda index: NaiveBuffer(index, fifo, fault))
        found |= drive(cluster, Random(seed), fifo=fifo).violated()
    assert found == broken


@pytest.mark.long
@pytest.mark.parametrize("fault", ["two in flight", "one in flight to each"])
def test_every_schedule_of_the_figures_catches_a_mutant(fault: str) -> None:
    def make(id: ProcessId) -> Process:
        return NaiveBuffer(id, False, fault)

    assert reachable(make, FIRST_PROGRAM, lambda h: h == FIGURE_4)
    assert reachable(make, SECOND_PROGRAM, nested_crowns)


def test_every_schedule_of_crossing_sends_catches_acks_that_wait() -> None:
    """If acks wait for acks, crossing sends deadlock as in Figure 1."""
    crossing: Pattern = ((Send("a", 1), Send("b", 1)), (Send("c", 0), Send("d", 0)))
    whole = tuple((*program, Receive(), Receive()) for program in crossing)
    ends = histories(lambda index: NaiveBuffer(index, False, "acks wait for acks"), whole)
    assert {len(history[0]) for history in ends} == {3, 4}
    assert set(histories(Buffer, whole)) == {history_of(whole, ["cd", "ab"])}


def test_buffer_fifo_needs_fifo_channels() -> None:
    """Unlike ``buffer``, it is not causal on channels that reorder."""
    found: set[Property] = set()
    for seed in range(50):
        cluster = Cluster("", 3, make=BufferFifo)
        found |= drive(cluster, Random(seed), fifo=False).violated()
    assert Property.FIFO in found


# Bad input.


def busy(make: type[Buffer]) -> Buffer:
    """Process 0: a message to 1 is in flight, one to 2 is queued, one has arrived."""
    process = make(ProcessId(0))
    process.send([ProcessId(1)], b"x", 0.0)
    process.send([ProcessId(2)], b"y", 0.0)
    process.receive(ProcessId(2), BaselineMessage(1, b"z"), 0.0)
    process.frames_to_transmit()
    return process


@both_protocols
def test_invalid_send_changes_nothing(make: type[Buffer], fifo: bool) -> None:
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


@both_protocols
def test_a_target_named_twice_counts_once(make: type[Buffer], fifo: bool) -> None:
    process = make(ProcessId(0))
    assert process.send([ProcessId(1), ProcessId(1)], b"", 0.0) == 1
    assert process.send([ProcessId(0), ProcessId(0)], b"", 0.0) == 2
    assert [t.target for t in process.frames_to_transmit()] == [1]
    assert [d.number for d in process.messages_to_deliver()] == [2]


@both_protocols
def test_invalid_frame_changes_nothing(make: type[Buffer], fifo: bool) -> None:
    process = busy(make)
    before = snapshot(process)
    for source, frame in [
        (1, BaselineMessage(0, b"")),
        (1, BaselineMessage(-1, b"")),
        (2, BufferAck()),  # The message to it is queued.
        (3, BufferAck()),
        (1, Frame()),
    ]:
        with pytest.raises(PeerError):
            process.receive(ProcessId(source), frame, 0.0)
        assert snapshot(process) == before
    with pytest.raises(LocalError):
        process.receive(ProcessId(0), BaselineMessage(1, b""), 0.0)
    with pytest.raises(LocalError):
        process.receive(ProcessId(1), BufferAck(), nan)
    assert snapshot(process) == before
    process.receive(ProcessId(1), BufferAck(), 0.0)
    process.receive(ProcessId(2), BufferAck(), 0.0)
    with pytest.raises(PeerError):
        process.receive(ProcessId(2), BufferAck(), 0.0)  # No further message is in flight.


# Frames.


@given(number=st.integers(1, 2**63 - 1), payload=st.binary(max_size=300))
def test_frames_are_decoded_as_they_were_encoded(number: int, payload: bytes) -> None:
    frames: list[Frame] = [BaselineMessage(number, payload), BufferAck()]
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
def test_invalid_bytes_are_refused(frame: str) -> None:
    with pytest.raises(PeerError):
        codec.decode(bytes([VERSION]) + bytes.fromhex(frame), read_buffer)
