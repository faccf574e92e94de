"""``vector``: causal, live, and never later than causal order asks for."""

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
from tests.core.broadcasts import Outputs, assert_right, joined, play, rest

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)


def bare(processes: int) -> Cluster:
    return Cluster("vector", processes, make=lambda place: Vector(place, processes))


def linked(processes: int) -> Cluster:
    return Cluster(
        "vector",
        processes,
        make=lambda place: ReliableLink(
            Vector(place, processes), fifo=False, policy=POLICY
        ),
    )


class NaiveVector(Outputs):
    """The rule as it is written, with a search of everything held at every step."""

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
        return self.in_turn(source, message) and self.depends_on_delivered(source, message)

    def in_turn(self, source: int, message: VectorMessage) -> bool:
        return message.number == self.clock[source] + 1

    def depends_on_delivered(self, source: int, message: VectorMessage) -> bool:
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
        play(cluster, random, steps=steps, faults=faults, seconds=seconds)
        try:
            assert_right(cluster, random, fifo=False)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        state = str([snapshot(process) for process in cluster.processes])
        assert "'_Held'" not in state, f"seed {seed}"


def test_delivers_exactly_when_the_naive_rule_does() -> None:
    """In lockstep: after every step, both have delivered the same messages."""
    for seed in range(150):
        random = Random(seed)
        processes = random.randint(2, 6)
        ours = [Vector(ProcessId(place), processes) for place in range(processes)]
        naive = [NaiveVector(ProcessId(place), processes) for place in range(processes)]
        cluster = joined(ours)
        model = joined(naive)
        for step in range(120):
            for either in (cluster, model):
                play(either, Random(f"{seed}:{step}"), steps=1)
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
        play(cluster, Random(7), steps=300, faults=0.1, seconds=(1.0,))
        cluster.run_until_idle()
        histories.append(cluster.history)
    assert histories[0] == histories[1]


# Mutants: the rule with a part broken. Each must be caught, and for the right reason.


class FifoOnly(NaiveVector):
    def depends_on_delivered(self, source: int, message: VectorMessage) -> bool:
        return True


class OutOfTurn(NaiveVector):
    def in_turn(self, source: int, message: VectorMessage) -> bool:
        return True


class OneOff(NaiveVector):
    def tolerance(self) -> int:
        return 1


class LooksOnce(NaiveVector):
    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        assert isinstance(frame, VectorMessage)
        self.held.append((source, frame))
        self.deliver_one()


@pytest.mark.parametrize(
    ("mutant", "broken"),
    [
        (NaiveVector, set()),
        (FifoOnly, {Property.CAUSAL}),
        (OutOfTurn, {Property.CAUSAL, Property.FIFO}),
        (OneOff, {Property.CAUSAL}),
        (LooksOnce, {Property.LIVENESS}),
    ],
)
def test_random_runs_catch_a_broken_rule(
    mutant: type[NaiveVector], broken: set[Property]
) -> None:
    found: set[Property] = set()
    for seed in range(60):
        random = Random(seed)
        cluster = Cluster("vector", 4, make=lambda place: mutant(place, 4))
        play(cluster, random, steps=60)
        assert rest(cluster, random, fifo=False)
        found |= cluster.verdict().violated()
    assert found == broken


# By hand.


def arrive(cluster: Cluster, *, source: int, target: int, number: int) -> None:
    """Let that copy arrive."""
    for index, packet in enumerate(cluster.in_flight):
        if (packet.source, packet.target, packet.frame.message_number()) == (
            source,
            target,
            number,
        ):
            cluster.arrive(index)
            return
    raise AssertionError(f"no {source}:{number} for {target} in flight")


def test_the_papers_example_an_answer_waits_for_its_question() -> None:
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


def test_one_arrival_frees_a_whole_chain() -> None:
    """Messages of one source in reverse, and the answers to each before all of them."""
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


def test_ones_own_message_is_delivered_inside_broadcast() -> None:
    process = Vector(ProcessId(1), 3)
    assert process.broadcast(b"x", 0.0) == 1
    assert process.broadcast(b"y", 0.0) == 2
    delivered = [(d.source, d.number, d.payload) for d in process.messages_to_deliver()]
    assert delivered == [(1, 1, b"x"), (1, 2, b"y")]
    targets = [transmit.target for transmit in process.frames_to_transmit()]
    assert targets == [0, 2, 0, 2]
    assert process.messages_to_deliver() == []
    assert process.next_timer() is None


def test_a_group_of_one_talks_to_itself() -> None:
    cluster = bare(1)
    cluster.broadcast(0)
    cluster.broadcast(0)
    assert cluster.in_flight == []
    assert cluster.verdict().held


# Frames.


def test_frames_survive_the_wire_and_their_size_is_exact() -> None:
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
    ("data", "words"),
    [
        (b"\x01\x20\x01\x01\x00", "kind 2"),
        (b"\x01\x11\x01\x01\x00", "flag"),
        (b"\x01\x10\x01\x00\x00", "without an entry"),
        (b"\x01\x10\x01\x03\x01", "cut short"),
        (b"\x01\x10\x01\xff\xff\xff\xff\x0f\x00", "cut short"),
        (b"\x01\x10\x01\x80\x80\x80\x80\x80\x01", "out of range"),
    ],
)
def test_bytes_that_are_no_frame_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(PeerError, match=words):
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
    ("source", "frame", "words"),
    [
        (0, BaselineMessage(1, b""), "not a frame of this protocol"),
        (3, VectorMessage(1, [0, 0], b""), "not in the group"),
        (-1, VectorMessage(1, [0, 0], b""), "not in the group"),
        (0, VectorMessage(0, [0, 0], b""), "cannot be"),
        (0, VectorMessage(2, [0], b""), "cannot be"),
        (0, VectorMessage(2, [0, 0, 0], b""), "cannot be"),
        (0, VectorMessage(2, [0, -1], b""), "cannot be"),
        (0, VectorMessage(2, [3, 0], b""), "message 3, which was not sent"),
        (2, VectorMessage(2, [0, 3], b""), "message 3, which was not sent"),
        (0, VectorMessage(1, [1, 0], b""), "arrived before"),
        (0, VectorMessage(3, [2, 0], b""), "arrived before"),
    ],
)
def test_a_frame_that_cannot_be_is_the_peers_fault_and_changes_nothing(
    source: int, frame: Frame, words: str
) -> None:
    process = busy_process()
    before = snapshot(process)
    with pytest.raises(PeerError, match=words):
        process.receive(ProcessId(source), frame, 1.0)
    assert snapshot(process) == before
    process.receive(ProcessId(0), VectorMessage(2, [2, 0], b""), 1.0)
    delivered = [(d.source, d.number) for d in process.messages_to_deliver()]
    assert sorted(delivered) == [(0, 2), (0, 3), (2, 1)]


def test_what_the_caller_does_wrong_is_refused_and_changes_nothing() -> None:
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
def test_a_process_outside_the_group_cannot_be_made(id: int, processes: int) -> None:
    with pytest.raises(ConfigError, match="no process"):
        Vector(ProcessId(id), processes)
