"""``vector``: causal order, liveness, and delivery as early as causal order allows."""

from math import inf, nan
from random import Random
from typing import cast

import pytest

from antecede.check.snapshot import snapshot
from antecede.core import Delivery, Frame, ProcessId, RetransmissionPolicy, Transmit
from antecede.core.codec import decode, encode, varint_width
from antecede.core.link import ReliableLink
from antecede.core.protocols.baseline import BaselineMessage
from antecede.core.protocols.vector import Vector, VectorMessage, read_vector
from antecede.errors import ConfigError, LocalError, PeerError
from antecede.testing import Cluster
from antecede.verify import Property
from tests.core.broadcasts import (
    Outputs,
    assert_correct,
    cluster_of,
    run_randomly,
    run_until_idle,
)

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)


def bare(processes: int) -> Cluster:
    return Cluster("vector", processes, make=lambda index: Vector(index, processes))


def linked(processes: int) -> Cluster:
    return Cluster(
        "vector",
        processes,
        make=lambda index: ReliableLink(
            Vector(index, processes), fifo=False, policy=POLICY
        ),
    )


class NaiveVector(Outputs):
    """A naive implementation, which searches all held messages at every step."""

    def __init__(self, id: ProcessId, processes: int) -> None:
        super().__init__()
        self.id = id
        self.clock = dict.fromkeys(range(processes), 0)
        self.held: list[tuple[ProcessId, VectorMessage]] = []

    def broadcast(self, payload: bytes, now: float) -> int:
        self.clock[self.id] += 1
        number = self.clock[self.id]
        others = [count for member, count in self.clock.items() if member != self.id]
        self.transmits += [
            Transmit(ProcessId(member), VectorMessage(number, others, payload))
            for member in self.clock
            if member != self.id
        ]
        self.deliveries.append(Delivery(self.id, number, payload))
        return number

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        assert isinstance(frame, VectorMessage)
        self.held.append((source, frame))
        while self.deliver_one():
            pass

    def deliver_one(self) -> bool:
        for source, message in self.held:
            if self.ready(source, message):
                self.held.remove((source, message))
                self.clock[source] = max(self.clock[source], message.number)
                self.deliveries.append(Delivery(source, message.number, message.payload))
                return True
        return False

    def ready(self, source: int, message: VectorMessage) -> bool:
        return self.is_next(source, message) and self.are_dependencies_delivered(
            source, message
        )

    def is_next(self, source: int, message: VectorMessage) -> bool:
        return message.number == self.clock[source] + 1

    def are_dependencies_delivered(self, source: int, message: VectorMessage) -> bool:
        others = [member for member in self.clock if member != source]
        return all(
            entry <= self.clock[member] + self.tolerance()
            for member, entry in zip(others, message.others, strict=True)
        )

    def tolerance(self) -> int:
        return 0

    def handle_timer(self, now: float) -> None:
        pass

    def next_timer(self) -> float | None:
        return None


@pytest.mark.long
@pytest.mark.parametrize("faults", [0.0, 0.2])
def test_random_runs_are_causal_and_live(faults: float) -> None:
    for seed in range(400):
        random = Random(seed)
        processes = random.randint(1, 6)
        cluster = linked(processes) if faults else bare(processes)
        seconds = (0.25, 1.0, 4.0) if faults else ()
        steps = random.choice((30, 100))
        run_randomly(cluster, random, steps=steps, faults=faults, seconds=seconds)
        try:
            assert_correct(cluster, random, fifo=False)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        state = str([snapshot(process) for process in cluster.processes])
        assert "'_Held'" not in state, f"seed {seed}"


@pytest.mark.long
def test_delivers_at_the_same_steps_as_the_naive_implementation() -> None:
    for seed in range(150):
        random = Random(seed)
        processes = random.randint(2, 6)
        ours = [Vector(ProcessId(index), processes) for index in range(processes)]
        naive = [NaiveVector(ProcessId(index), processes) for index in range(processes)]
        cluster = cluster_of(ours)
        model = cluster_of(naive)
        for step in range(120):
            for either in (cluster, model):
                run_randomly(either, Random(f"{seed}:{step}"), steps=1)
            assert [process.delivered for process in ours] == [
                list(process.clock.values()) for process in naive
            ], f"seed {seed}, step {step}"
            assert [process.held for process in ours] == [
                len(process.held) for process in naive
            ]


def test_the_same_choices_give_the_same_history() -> None:
    histories = []
    for _ in range(2):
        cluster = linked(4)
        run_randomly(cluster, Random(7), steps=300, faults=0.1, seconds=(1.0,))
        cluster.run_until_idle()
        histories.append(cluster.history)
    assert histories[0] == histories[1]


# Mutants: each breaks the rule, and must violate the expected properties.


class FifoOnly(NaiveVector):
    def are_dependencies_delivered(self, source: int, message: VectorMessage) -> bool:
        return True


class IgnoresFifo(NaiveVector):
    def is_next(self, source: int, message: VectorMessage) -> bool:
        return True


class OneOff(NaiveVector):
    def tolerance(self) -> int:
        return 1


class DeliversOne(NaiveVector):
    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        assert isinstance(frame, VectorMessage)
        self.held.append((source, frame))
        self.deliver_one()


@pytest.mark.parametrize(
    ("mutant", "violated"),
    [
        (NaiveVector, set()),
        (FifoOnly, {Property.CAUSAL}),
        (IgnoresFifo, {Property.CAUSAL, Property.FIFO}),
        (OneOff, {Property.CAUSAL}),
        (DeliversOne, {Property.LIVENESS}),
    ],
)
def test_random_runs_catch_a_broken_rule(
    mutant: type[NaiveVector], violated: set[Property]
) -> None:
    found: set[Property] = set()
    for seed in range(60):
        random = Random(seed)
        cluster = Cluster("vector", 4, make=lambda index: mutant(index, 4))
        run_randomly(cluster, random, steps=60)
        assert run_until_idle(cluster, random, fifo=False)
        found |= cluster.verdict().violated()
    assert found == violated


# Scenarios.


def arrive(cluster: Cluster, *, source: int, target: int, number: int) -> None:
    """Let this copy arrive."""
    for index, packet in enumerate(cluster.in_flight):
        if (packet.source, packet.target, packet.frame.message_number()) == (
            source,
            target,
            number,
        ):
            cluster.arrive(index)
            return
    raise AssertionError(f"no {source}:{number} for {target} in flight")


def test_example_of_the_paper_an_answer_waits_for_its_question() -> None:
    """p1 sends m1; p2 delivers it and sends m2; at p3 m2 arrives first."""
    p1, p2, p3 = range(3)
    cluster = bare(3)
    cluster.broadcast(p1, b"m1")
    arrive(cluster, source=p1, target=p2, number=1)
    cluster.broadcast(p2, b"m2")
    arrive(cluster, source=p2, target=p3, number=1)
    third = cluster.processes[p3]
    assert isinstance(third, Vector)
    assert cluster.delivered(p3) == []
    assert third.held == 1
    arrive(cluster, source=p1, target=p3, number=1)
    assert cluster.delivered(p3) == [(p1, 1), (p2, 1)]
    assert third.delivered == [1, 1, 0]
    assert third.held == 0


def test_concurrent_messages_do_not_wait_for_each_other() -> None:
    cluster = bare(3)
    cluster.broadcast(0)
    cluster.broadcast(1)
    arrive(cluster, source=1, target=2, number=1)
    assert cluster.delivered(2) == [(1, 1)]
    arrive(cluster, source=0, target=2, number=1)
    assert cluster.delivered(2) == [(1, 1), (0, 1)]


def test_one_arrival_unblocks_a_whole_chain() -> None:
    """Messages of one source arrive in reverse, and the answers to them even earlier."""
    cluster = bare(3)
    for number in range(1, 6):
        cluster.broadcast(0)
        arrive(cluster, source=0, target=1, number=number)
        cluster.broadcast(1)
    for number in range(5, 0, -1):
        arrive(cluster, source=1, target=2, number=number)
    for number in range(5, 1, -1):
        arrive(cluster, source=0, target=2, number=number)
    assert cluster.delivered(2) == []
    arrive(cluster, source=0, target=2, number=1)
    assert len(cluster.delivered(2)) == 10
    assert cluster.verdict(complete=False).held


def test_own_message_is_delivered_inside_broadcast() -> None:
    process = Vector(ProcessId(1), 3)
    assert process.broadcast(b"x", 0.0) == 1
    assert process.broadcast(b"y", 0.0) == 2
    delivered = [(d.source, d.number, d.payload) for d in process.messages_to_deliver()]
    assert delivered == [(1, 1, b"x"), (1, 2, b"y")]
    targets = [transmit.target for transmit in process.frames_to_transmit()]
    assert targets == [0, 2, 0, 2]
    assert process.messages_to_deliver() == []
    assert process.next_timer() is None


def test_group_of_one_transmits_no_frame() -> None:
    cluster = bare(1)
    cluster.broadcast(0)
    cluster.broadcast(0)
    assert cluster.in_flight == []
    assert cluster.verdict().held


# Frames.


def test_frames_are_decoded_as_they_were_encoded_and_have_the_given_size() -> None:
    random = Random(1)
    bounds = (1, 127, 128, 255, 256, 16383, 16384, 70000, 2**40, 2**63 - 1)
    for _ in range(300):
        frame = VectorMessage(
            random.randint(1, random.choice(bounds)),
            [
                random.randint(0, random.choice(bounds))
                for _ in range(random.choice((0, 1, 4, 200)))
            ],
            random.randbytes(random.choice((0, 1, 127, 128, 20000))),
        )
        data = encode([frame])
        assert len(data) == 1 + frame.size()
        assert frame.metadata_size() == frame.size() - len(frame.payload)
        assert frame.message_number() == frame.number
        (back,) = decode(data, read_vector)
        assert isinstance(back, VectorMessage)
        assert (back.number, back.others, back.payload) == (
            frame.number,
            frame.others,
            frame.payload,
        )
        assert back.kind() == frame.kind() == 1
        assert len(decode(data + data[1:], read_vector)) == 2
        with pytest.raises(PeerError):
            decode(data[: random.randrange(1, len(data) - 1) + 1], read_vector)


def test_a_vector_costs_an_entry_for_every_member() -> None:
    for processes in (2, 3, 50, 300):
        process = Vector(ProcessId(0), processes)
        process.broadcast(b"", 0.0)
        frame = process.frames_to_transmit()[0].frame
        count = varint_width(processes)
        assert frame.metadata_size() == 1 + processes + count + 1  # Head, payload length.


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"\x01\x20\x01\x01\x00", "kind 2"),
        (b"\x01\x11\x01\x01\x00", "flag"),
        (b"\x01\x10\x01\x00\x00", "has no entry"),
        (b"\x01\x10\x01\x03\x01", "cut short"),
        (b"\x01\x10\x01\xff\xff\xff\xff\x0f\x00", "cut short"),
        (b"\x01\x10\x01\x80\x80\x80\x80\x80\x01", "out of range"),
    ],
)
def test_invalid_bytes_are_refused(data: bytes, match: str) -> None:
    with pytest.raises(PeerError, match=match):
        decode(data, read_vector)


# Bad input.


def busy_process() -> Vector:
    """Process 1 of 3: it has sent two, delivered 0:1 and holds 0:3 and 2:1."""
    process = Vector(ProcessId(1), 3)
    process.broadcast(b"", 0.0)
    process.broadcast(b"", 0.0)
    process.receive(ProcessId(0), VectorMessage(1, [1, 0], b""), 0.1)
    process.receive(ProcessId(0), VectorMessage(3, [2, 0], b""), 0.1)
    process.receive(ProcessId(2), VectorMessage(1, [2, 1], b""), 0.1)
    process.frames_to_transmit()
    assert [(d.source, d.number) for d in process.messages_to_deliver()] == [
        (1, 1),
        (1, 2),
        (0, 1),
    ]
    assert process.held == 2
    return process


@pytest.mark.parametrize(
    ("source", "frame", "match"),
    [
        (0, BaselineMessage(1, b""), "not a frame of this protocol"),
        (3, VectorMessage(1, [0, 0], b""), "not in a group of 3"),
        (-1, VectorMessage(1, [0, 0], b""), "not in a group of 3"),
        (0, VectorMessage(0, [0, 0], b""), "at least 1 and 2 entries"),
        (0, VectorMessage(2, [0], b""), "at least 1 and 2 entries"),
        (0, VectorMessage(2, [0, 0, 0], b""), "at least 1 and 2 entries"),
        (0, VectorMessage(2, [0, -1], b""), "an entry is negative"),
        (0, VectorMessage(2, [3, 0], b""), "depends on unsent message 3"),
        (2, VectorMessage(2, [0, 3], b""), "depends on unsent message 3"),
        (0, VectorMessage(1, [1, 0], b""), "duplicate"),
        (0, VectorMessage(3, [2, 0], b""), "duplicate"),
    ],
)
def test_invalid_frame_raises_peer_error_and_changes_nothing(
    source: int, frame: Frame, match: str
) -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(PeerError, match=match):
        process.receive(ProcessId(source), frame, 1.0)
    assert snapshot(process) == before
    process.receive(ProcessId(0), VectorMessage(2, [2, 0], b""), 1.0)
    delivered = [(d.source, d.number) for d in process.messages_to_deliver()]
    assert sorted(delivered) == [(0, 2), (0, 3), (2, 1)]


def test_invalid_call_raises_local_error_and_changes_nothing() -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(LocalError, match="itself"):
        process.receive(ProcessId(1), VectorMessage(3, [1, 0], b""), 1.0)
    with pytest.raises(LocalError, match="must be bytes, not str"):
        process.broadcast(cast("bytes", "text"), 1.0)
    with pytest.raises(LocalError, match="broadcast only"):
        process.send([ProcessId(0)], b"", 1.0)
    with pytest.raises(LocalError, match="overlay"):
        process.connect(ProcessId(0), 1.0)
    for now in (nan, inf, -inf):
        with pytest.raises(LocalError, match="finite"):
            process.broadcast(b"", now)
        with pytest.raises(LocalError, match="finite"):
            process.receive(ProcessId(0), VectorMessage(2, [1, 0], b""), now)
        with pytest.raises(LocalError, match="finite"):
            process.handle_timer(now)
    assert snapshot(process) == before


@pytest.mark.parametrize(("id", "processes"), [(0, 0), (3, 3), (-1, 3)])
def test_process_outside_the_group_is_refused(id: int, processes: int) -> None:
    with pytest.raises(ConfigError, match="is not in a group of"):
        Vector(ProcessId(id), processes)
