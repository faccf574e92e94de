"""``optimal``: delivers as early as ``matrix``, and carries the minimal dependencies."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.check.snapshot import snapshot
from antecede.core import Process, ProcessId, RetransmissionPolicy, decode, encode
from antecede.core.codec import NUMBER_MAX, VERSION, Frame
from antecede.core.link import ReliableLink
from antecede.core.protocols.baseline import BaselineMessage
from antecede.core.protocols.matrix import Matrix, MatrixMessage
from antecede.core.protocols.optimal.log import Entry
from antecede.core.protocols.optimal.optimal import Optimal, OptimalMessage, read_optimal
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, Packet, Step, random_schedule, run_schedule
from antecede.testing.strategies import schedules
from antecede.trace import Kind
from antecede.verify import Property
from tests.core.crowns import (
    FIGURE_5_AND_6,
    FIRST_PROGRAM,
    SECOND_PROGRAM,
    histories,
    nested_crowns,
    reachable,
)
from tests.core.receiver_side import (
    WASTEFUL,
    CausalObserver,
    Dependencies,
    Make,
    OptimalFlaw,
    OptimalListing,
    carried_by,
    run_lockstep,
)

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
GROUP_MAX = 6


def bare(id: ProcessId) -> Process:
    return Optimal(id)


def matrix(id: ProcessId) -> Process:
    return Matrix(id, GROUP_MAX)


def linked(id: ProcessId) -> Process:
    return ReliableLink(Optimal(id), fifo=False, policy=POLICY)


def listing(flaw: OptimalFlaw) -> Make:
    return lambda index: OptimalListing(index, flaw)


def process_at(cluster: Cluster, index: int) -> Optimal:
    process = cluster.processes[index]
    assert isinstance(process, Optimal)
    return process


def arrive(cluster: Cluster, *, source: int, target: int) -> Dependencies:
    """Let the oldest message of a channel arrive, and return its dependencies."""
    between = [(packet.source, packet.target) for packet in cluster.in_flight]
    index = between.index((source, target))
    carried = carried_by(cluster.in_flight[index].frame)
    cluster.arrive(index)
    return carried


# Any network.


@pytest.mark.long
@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_delivers_at_the_same_earliest_steps_as_matrix(fan_out_max: int) -> None:
    for seed in range(1500):
        cluster, _ = run_lockstep([bare, matrix], seed, fan_out_max=fan_out_max)
        assert cluster.verdict().held, f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_is_causal_and_live_on_links_despite_all_faults(fan_out_max: int) -> None:
    for seed in range(150):
        random = Random(seed)
        processes = random.randint(2, GROUP_MAX)
        cluster = Cluster("", processes, make=linked)
        run_schedule(
            cluster,
            random_schedule(
                random,
                processes=processes,
                steps=random.choice((30, 120)),
                fan_out_max=fan_out_max,
                loss=0.2,
                duplicate=0.2,
                seconds=(0.25, 1.0, 4.0),
            ),
        )
        assert cluster.verdict(complete=False).held, f"seed {seed}"
        cluster.run_until_idle(random)
        assert cluster.verdict().held, f"seed {seed}"


@given(schedule=schedules(4, fan_out_max=4, faults=False))
def test_multicast_is_causal_when_frames_overtake(schedule: list[Step]) -> None:
    cluster = Cluster("", 4, make=bare)
    run_schedule(cluster, schedule)
    cluster.run_until_idle()
    assert cluster.verdict().held


def new_packets(cluster: Cluster) -> list[Packet]:
    """Return the packets of the last step: only releases follow the event of a send."""
    released = 0
    for event in reversed(cluster.history):
        if event.kind is Kind.SEND:
            break
        if event.kind is Kind.ARRIVE:
            return []
        released += event.kind is Kind.RELEASE
    return cluster.in_flight[len(cluster.in_flight) - released :]


def check_minimal(clusters: list[Cluster], observer: CausalObserver) -> None:
    for packet in new_packets(clusters[0]):
        message = (packet.source, packet.frame.message_number())
        minimal = observer.dependencies(message, packet.target)
        assert carried_by(packet.frame) == minimal


@pytest.mark.long
@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_carries_exactly_the_necessary_dependencies(fan_out_max: int) -> None:
    """Neither (I) nor (II) holds for these, and one of them for all others."""
    for seed in range(250):
        run_lockstep([bare], seed, fan_out_max=fan_out_max, after_step=check_minimal)


def check_fewer(clusters: list[Cluster], observer: CausalObserver) -> None:
    optimal, matrix = clusters
    packets = zip(new_packets(optimal), new_packets(matrix), strict=True)
    for packet, other in packets:
        frame = other.frame
        assert isinstance(frame, MatrixMessage)
        carried = carried_by(packet.frame)
        by_pair = [
            (source, target)
            for (source, _), targets in carried.items()
            for target in targets
        ]
        assert len(by_pair) == len(set(by_pair))
        assert all(frame.rows[source].counts[target] > 0 for source, target in by_pair)
        messages = sum(sum(row.counts) for row in frame.rows)
        assert sum(bool(targets) for targets in carried.values()) <= messages


@pytest.mark.long
@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_never_carries_more_dependencies_than_matrix(fan_out_max: int) -> None:
    """At most one for each count of the matrix above 0."""
    for seed in range(250):
        run_lockstep([bare, matrix], seed, fan_out_max=fan_out_max, after_step=check_fewer)


def sparse_bytes(make: Make, processes: int) -> int:
    """Return the metadata bytes of a run in which each process has four targets."""
    random = Random(processes)
    cluster = Cluster("", processes, make=make)
    for _ in range(10 * processes):
        source = random.randrange(processes)
        cluster.send(source, [(source + random.choice((1, 2, 5, 11))) % processes])
        while len(cluster.in_flight) > processes // 4:
            cluster.arrive(random.randrange(len(cluster.in_flight)))
    cluster.run_until_idle(random)
    metadata = 0
    for event in cluster.history:
        metadata += event.metadata_bytes or 0
    return metadata


def test_takes_fewer_bytes_than_matrix_on_sparse_traffic() -> None:
    processes = 100
    optimal = sparse_bytes(bare, processes)
    matrix = sparse_bytes(lambda index: Matrix(index, processes), processes)
    messages = 10 * processes
    assert matrix > messages * processes * processes
    assert optimal * 10 < matrix


def test_idle_process_holds_no_message() -> None:
    for seed in range(50):
        (cluster,) = run_lockstep([bare], seed, fan_out_max=3)
        for process in cluster.processes:
            assert isinstance(process, Optimal)
            assert process.held == 0
            assert "OptimalMessage" not in str(snapshot(process))


def test_the_same_schedule_gives_the_same_history() -> None:
    runs = [run_lockstep([bare], 7, fan_out_max=4)[0].history for _ in range(2)]
    assert runs[0] == runs[1]


# The listing, and its flaws.


@pytest.mark.long
@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_delivers_like_the_listing(fan_out_max: int) -> None:
    makes = [listing(OptimalFlaw.NONE), bare]
    for seed in range(150):
        run_lockstep(makes, seed, fan_out_max=fan_out_max, after_step=check_same_log)


def check_same_log(clusters: list[Cluster], observer: CausalObserver) -> None:
    """The listing also carries the settled last message of the source itself."""
    for listed, ours in zip(
        new_packets(clusters[0]), new_packets(clusters[1]), strict=True
    ):
        expected = {
            message: targets
            for message, targets in carried_by(listed.frame).items()
            if targets or message[0] != listed.source
        }
        assert carried_by(ours.frame) == expected


def find_violations(make: Make) -> set[Property]:
    """Return the violated properties of random runs."""
    found: set[Property] = set()
    for seed in range(100):
        random = Random(seed)
        processes = random.randint(3, GROUP_MAX)
        cluster = Cluster("", processes, make=make)
        schedule = random_schedule(random, processes=processes, steps=150, fan_out_max=3)
        run_schedule(cluster, schedule)
        cluster.run_until_idle(random)
        found |= cluster.verdict().violated()
    return found


@pytest.mark.long
@pytest.mark.parametrize("flaw", [f for f in OptimalFlaw if f not in WASTEFUL])
def test_flaw_breaks_causal_order(flaw: OptimalFlaw) -> None:
    expected = set() if flaw is OptimalFlaw.NONE else {Property.CAUSAL}
    assert find_violations(listing(flaw)) & {Property.CAUSAL} == expected


@pytest.mark.long
@pytest.mark.parametrize("flaw", WASTEFUL)
def test_wasteful_flaw_keeps_causal_order_but_carries_too_much(flaw: OptimalFlaw) -> None:
    assert find_violations(listing(flaw)) == set()
    surplus = 0

    def count_surplus(clusters: list[Cluster], observer: CausalObserver) -> None:
        nonlocal surplus
        for packet in new_packets(clusters[0]):
            message = (packet.source, packet.frame.message_number())
            minimal = observer.dependencies(message, packet.target)
            for before, targets in carried_by(packet.frame).items():
                assert targets >= minimal.get(before, frozenset())
                surplus += len(targets - minimal.get(before, frozenset()))

    for seed in range(60):
        run_lockstep([listing(flaw)], seed, fan_out_max=4, after_step=count_surplus)
    assert surplus > 0


# The rules, one by one.


def test_message_depends_on_the_previous_one_of_its_channel() -> None:
    """Channels need not be FIFO."""
    cluster = Cluster("", 2, make=bare)
    for _ in range(3):
        cluster.send(0, [1])
    carried = [carried_by(packet.frame) for packet in cluster.in_flight]
    assert carried == [{}, {(0, 1): {1}}, {(0, 2): {1}}]
    cluster.arrive(2)
    cluster.arrive(1)
    assert (cluster.delivered(1), process_at(cluster, 1).held) == ([], 2)
    cluster.arrive(0)
    assert cluster.delivered(1) == [(0, 1), (0, 2), (0, 3)]
    assert process_at(cluster, 1).delivered == {0: 3}


def test_known_delivery_ends_a_dependency() -> None:
    """Condition (I)."""
    cluster = Cluster("", 3, make=bare)
    cluster.send(0, [1])
    cluster.send(0, [2])
    assert arrive(cluster, source=0, target=2) == {(0, 1): {1}}
    cluster.send(2, [0])
    arrive(cluster, source=0, target=1)
    cluster.send(1, [2])
    assert arrive(cluster, source=1, target=2) == {(0, 1): set()}
    cluster.send(2, [1])  # It knows the deliveries of 0:1 and 0:2.
    assert [
        carried_by(packet.frame) for packet in cluster.in_flight if packet.source == 2
    ] == [
        {(0, 1): {1}, (0, 2): set()},
        {(0, 2): set(), (1, 1): set(), (2, 1): {0}},
    ]


def test_later_message_to_the_same_target_ends_a_dependency() -> None:
    """Condition (II): after the message of 1 to 2, 0:1 is no longer carried to others."""
    cluster = Cluster("", 4, make=bare)
    cluster.send(0, [1, 2])
    arrive(cluster, source=0, target=1)
    cluster.send(1, [2])
    cluster.send(1, [3])
    assert arrive(cluster, source=1, target=3) == {(0, 1): set(), (1, 1): {2}}
    cluster.send(3, [2])
    assert arrive(cluster, source=3, target=2) == {
        (0, 1): set(),
        (1, 1): {2},
        (1, 2): set(),
    }
    assert cluster.delivered(2) == []
    assert arrive(cluster, source=1, target=2) == {(0, 1): {2}}
    assert cluster.delivered(2) == []
    assert arrive(cluster, source=0, target=2) == {}
    assert cluster.delivered(2) == [(0, 1), (1, 1), (3, 1)]


def test_missing_entry_is_settled_only_with_a_later_entry_of_the_source() -> None:
    cluster = Cluster("", 4, make=bare)
    cluster.send(0, [3])
    cluster.send(0, [1])
    arrive(cluster, source=0, target=1)
    cluster.send(2, [1])  # Its log has no message of 0, which does not settle 0:1.
    arrive(cluster, source=2, target=1)
    log = process_at(cluster, 1).log
    assert [(e.source, e.number, e.targets) for e in log] == [
        (0, 1, (3,)),
        (0, 2, ()),
        (2, 1, ()),
    ]


def test_each_copy_of_a_multicast_carries_the_dependencies_for_its_target() -> None:
    cluster = Cluster("", 4, make=bare)
    cluster.send(0, [1, 2, 3])
    cluster.send(0, [2, 1])
    carried = {p.target: carried_by(p.frame) for p in cluster.in_flight[3:]}
    assert carried == {2: {(0, 1): {2, 3}}, 1: {(0, 1): {1, 3}}}
    others = [
        p.frame.others for p in cluster.in_flight if isinstance(p.frame, OptimalMessage)
    ]
    assert others == [(2, 3), (1, 3), (1, 2), (1,), (2,)]


def test_message_to_itself_is_delivered_at_once_and_is_no_dependency() -> None:
    cluster = Cluster("", 2, make=bare)
    assert cluster.send(0, [0]) == 1
    assert cluster.send(0, [1, 0, 1]) == 2
    assert cluster.send(0, [0]) == 3
    assert cluster.delivered(0) == [(0, 1), (0, 2), (0, 3)]
    assert arrive(cluster, source=0, target=1) == {}
    assert cluster.in_flight == []
    cluster.send(1, [0])
    assert arrive(cluster, source=1, target=0) == {(0, 2): set()}
    assert cluster.verdict().held


def test_one_arrival_unblocks_a_whole_chain() -> None:
    cluster = Cluster("", 4, make=bare)
    cluster.send(0, [1, 3])
    arrive(cluster, source=0, target=1)
    cluster.send(1, [2, 3])
    arrive(cluster, source=1, target=2)
    cluster.send(2, [3])
    for _ in range(2):
        cluster.arrive(len(cluster.in_flight) - 1)
    assert cluster.delivered(3) == []
    cluster.arrive()
    assert cluster.delivered(3) == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.long
def test_runs_the_programs_of_mattern_and_fuenfrocken_as_matrix_does() -> None:
    assert set(histories(bare, FIRST_PROGRAM)) == {FIGURE_5_AND_6}
    assert reachable(bare, SECOND_PROGRAM, nested_crowns)


# Frames.

KNOWN_BYTES = [
    (OptimalMessage(1, (), [], b"hi"), "10 01 00 00 02 68 69"),
    (OptimalMessage(2, (3, 200), [], b""), "10 02 02 03 c8 01 00 00"),
    (
        OptimalMessage(300, (), [Entry(0, 5, ()), Entry(7, 128, (1, 2))], b"x"),
        "12 01 2c 00 02 00 05 00 07 80 01 02 01 02 01 78",
    ),
]


@pytest.mark.parametrize(("frame", "expected"), KNOWN_BYTES)
def test_frames_have_the_documented_bytes(frame: OptimalMessage, expected: str) -> None:
    assert encode([frame]) == bytes([VERSION]) + bytes.fromhex(expected)
    assert (frame.kind(), frame.message_source()) == (1, -1)


numbers = st.integers(1, NUMBER_MAX) | st.integers(1, 300)
targets = st.lists(st.integers(0, NUMBER_MAX) | st.integers(0, 200), max_size=5).map(tuple)
messages = st.builds(
    OptimalMessage,
    numbers,
    targets,
    st.lists(st.builds(Entry, st.integers(0, 300), numbers, targets), max_size=6),
    st.binary(max_size=200),
)


@pytest.mark.long
@given(frame=messages)
def test_frames_are_decoded_as_they_were_encoded(frame: OptimalMessage) -> None:
    datagram = encode([frame, frame])
    assert len(datagram) == 1 + 2 * frame.size()
    assert frame.payload_size() == len(frame.payload)
    assert frame.message_number() == frame.number
    for again in decode(datagram, read_optimal):
        assert snapshot(again) == snapshot(frame)
        assert repr(again) == repr(frame)


@pytest.mark.long
@given(frame=messages, data=st.data())
def test_a_frame_cut_short_is_refused(frame: OptimalMessage, data: st.DataObject) -> None:
    datagram = encode([frame])
    length = data.draw(st.integers(2, len(datagram) - 1))
    with pytest.raises(PeerError):
        decode(datagram[:length], read_optimal)


@pytest.mark.parametrize("head", ["11", "20", "00", "f0"])
def test_an_unknown_head_is_refused(head: str) -> None:
    with pytest.raises(PeerError, match="unknown frame"):
        decode(bytes([VERSION]) + bytes.fromhex(head + "01 00 00 00"), read_optimal)


# Bad input.


def message(
    number: int, *log: tuple[int, int, tuple[int, ...]], others: tuple[int, ...] = ()
) -> Frame:
    return OptimalMessage(number, others, [Entry(*entry) for entry in log], b"")


BAD_FRAMES: list[tuple[Frame, str]] = [
    (BaselineMessage(9, b""), "not a frame"),
    (Frame(), "not a frame"),
    (message(0), "out of order"),
    (message(9, others=(3, 2)), "out of order"),
    (message(9, others=(2, 2)), "out of order"),
    (message(9, others=(-1,)), "out of order"),
    (message(9, others=(1, 2)), "out of order"),  # The source must not be listed.
    (message(9, others=(0, 2)), "is listed in others"),
    (message(9, (3, 1, ()), (2, 1, ())), "out of order"),
    (message(9, (2, 2, ()), (2, 1, ())), "out of order"),
    (message(9, (2, 1, ()), (2, 1, ())), "out of order"),
    (message(9, (-1, 1, ())), "out of order"),
    (message(9, (2, 0, ())), "out of order"),
    (message(9, (2, 1, (3, 0))), "out of order"),
    (message(9, (2, 1, (2,))), "out of order"),
    (message(9, (0, 1, (0,))), "out of order"),
    (message(9, (1, 9, ())), "was not sent"),
    (message(9, (0, 2, ())), "was not sent"),
    (message(1), "duplicate"),
    (message(3), "duplicate"),
]


@pytest.mark.parametrize(("frame", "match"), BAD_FRAMES)
def test_invalid_frame_is_refused_and_changes_nothing(frame: Frame, match: str) -> None:
    process = Optimal(ProcessId(0))
    process.send([ProcessId(1)], b"", 0.0)
    process.receive(ProcessId(1), message(1), 0.0)
    process.receive(ProcessId(1), message(3, (1, 2, (0,))), 0.0)
    assert (process.held, len(process.messages_to_deliver())) == (1, 1)
    before = snapshot(process)
    with pytest.raises(PeerError, match=match):
        process.receive(ProcessId(1), frame, 0.0)
    assert snapshot(process) == before


def test_own_id_as_source_is_refused() -> None:
    process = Optimal(ProcessId(0))
    before = snapshot(process)
    with pytest.raises(LocalError, match="source 0 is this process itself"):
        process.receive(ProcessId(0), message(1), 0.0)
    with pytest.raises(LocalError, match="finite"):
        process.receive(ProcessId(1), message(1), float("nan"))
    assert snapshot(process) == before


@pytest.mark.parametrize(
    ("targets", "payload", "now"),
    [
        ([], b"", 0.0),
        ([-1], b"", 0.0),
        ([1, True], b"", 0.0),
        ([1], "text", 0.0),
        ([1], b"", float("inf")),
    ],
)
def test_invalid_send_is_refused_and_changes_nothing(
    targets: list[ProcessId], payload: object, now: float
) -> None:
    process = Optimal(ProcessId(0))
    before = snapshot(process)
    with pytest.raises(LocalError):
        process.send(targets, payload, now)
    assert snapshot(process) == before


def test_unsupported_operations_are_refused() -> None:
    process = Optimal(ProcessId(0))
    with pytest.raises(LocalError):
        process.broadcast(b"", 0.0)
    with pytest.raises(LocalError):
        process.connect(ProcessId(1), 0.0)
    assert process.next_timer() is None
