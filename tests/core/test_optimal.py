"""``optimal``: as early as ``matrix``, telling the least that must be told."""

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
    Dependencies,
    Make,
    Omniscient,
    OptimalFlaw,
    OptimalListing,
    run_lockstep,
    told,
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
    return lambda place: OptimalListing(place, flaw)


def process_at(cluster: Cluster, index: int) -> Optimal:
    process = cluster.processes[index]
    assert isinstance(process, Optimal)
    return process


def arrive(cluster: Cluster, *, source: int, target: int) -> Dependencies:
    """Let the oldest message between the two arrive, and return what it carried."""
    between = [(packet.source, packet.target) for packet in cluster.in_flight]
    index = between.index((source, target))
    carried = told(cluster.in_flight[index].frame)
    cluster.arrive(index)
    return carried


# Any network.


@pytest.mark.long
@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_delivers_at_the_same_earliest_steps_as_matrix(fan_out_max: int) -> None:
    for seed in range(1500):
        cluster, _ = run_lockstep([bare, matrix], seed, fan_out_max=fan_out_max)
        assert cluster.verdict().held, f"seed {seed}"


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
    """Return what the last step released: a send is the last event but its outputs."""
    released = 0
    for event in reversed(cluster.history):
        if event.kind is Kind.SEND:
            break
        if event.kind is Kind.ARRIVE:
            return []
        released += event.kind is Kind.RELEASE
    return cluster.in_flight[len(cluster.in_flight) - released :]


def check_least(clusters: list[Cluster], observer: Omniscient) -> None:
    for packet in new_packets(clusters[0]):
        message = (packet.source, packet.frame.message_number())
        least = observer.dependencies(message, packet.target)
        assert told(packet.frame) == least


@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_tells_exactly_what_must_be_told(fan_out_max: int) -> None:
    """Neither (I) nor (II) holds of what a message tells, and one does of the rest."""
    for seed in range(250):
        run_lockstep([bare], seed, fan_out_max=fan_out_max, after_step=check_least)


def check_fewer(clusters: list[Cluster], observer: Omniscient) -> None:
    optimal, matrix = clusters
    packets = zip(new_packets(optimal), new_packets(matrix), strict=True)
    for packet, other in packets:
        frame = other.frame
        assert isinstance(frame, MatrixMessage)
        tells = told(packet.frame)
        by_pair = [(source, place) for (source, _), to in tells.items() for place in to]
        assert len(by_pair) == len(set(by_pair))
        assert all(frame.rows[source].counts[place] > 0 for source, place in by_pair)
        messages = sum(sum(row.counts) for row in frame.rows)
        assert sum(bool(places) for places in tells.values()) <= messages


@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_never_tells_of_more_dependencies_than_matrix_knows(fan_out_max: int) -> None:
    """At most one for each count of the matrix that is not 0."""
    for seed in range(250):
        run_lockstep([bare, matrix], seed, fan_out_max=fan_out_max, after_step=check_fewer)


def sparse_bytes(make: Make, processes: int) -> int:
    """Count the metadata of a run in which everybody writes to four others only."""
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
    matrix = sparse_bytes(lambda place: Matrix(place, processes), processes)
    messages = 10 * processes
    assert matrix > messages * processes * processes
    assert optimal * 10 < matrix


def test_at_rest_nothing_is_held() -> None:
    for seed in range(50):
        (cluster,) = run_lockstep([bare], seed, fan_out_max=3)
        for process in cluster.processes:
            assert isinstance(process, Optimal)
            assert process.held == 0
            assert "OptimalMessage" not in str(snapshot(process))


def test_the_same_schedule_gives_the_same_history() -> None:
    runs = [run_lockstep([bare], 7, fan_out_max=4)[0].history for _ in range(2)]
    assert runs[0] == runs[1]


# The listing, and what becomes of it with a wrong prune.


@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_does_what_the_listing_does(fan_out_max: int) -> None:
    makes = [listing(OptimalFlaw.NONE), bare]
    for seed in range(150):
        run_lockstep(makes, seed, fan_out_max=fan_out_max, after_step=check_same_log)


def check_same_log(clusters: list[Cluster], observer: Omniscient) -> None:
    """The listing also tells of the settled last message of the source itself."""
    for theirs, ours in zip(
        new_packets(clusters[0]), new_packets(clusters[1]), strict=True
    ):
        expected = {
            message: places
            for message, places in told(theirs.frame).items()
            if places or message[0] != theirs.source
        }
        assert told(ours.frame) == expected


def broken(make: Make) -> set[Property]:
    """Return the properties that some of many runs break."""
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


@pytest.mark.parametrize("flaw", [f for f in OptimalFlaw if f not in WASTEFUL])
def test_a_wrong_prune_breaks_causal_order(flaw: OptimalFlaw) -> None:
    expected = set() if flaw is OptimalFlaw.NONE else {Property.CAUSAL}
    assert broken(listing(flaw)) & {Property.CAUSAL} == expected


@pytest.mark.parametrize("flaw", WASTEFUL)
def test_a_missing_prune_breaks_nothing_but_tells_too_much(flaw: OptimalFlaw) -> None:
    assert broken(listing(flaw)) == set()
    surplus = 0

    def count_surplus(clusters: list[Cluster], observer: Omniscient) -> None:
        nonlocal surplus
        for packet in new_packets(clusters[0]):
            message = (packet.source, packet.frame.message_number())
            least = observer.dependencies(message, packet.target)
            for before, places in told(packet.frame).items():
                assert places >= least.get(before, frozenset())
                surplus += len(places - least.get(before, frozenset()))

    for seed in range(60):
        run_lockstep([listing(flaw)], seed, fan_out_max=4, after_step=count_surplus)
    assert surplus > 0


# The rules, one by one.


def test_a_message_tells_of_the_one_before_it_and_waits_for_it() -> None:
    """No channel need be FIFO."""
    cluster = Cluster("", 2, make=bare)
    for _ in range(3):
        cluster.send(0, [1])
    carried = [told(packet.frame) for packet in cluster.in_flight]
    assert carried == [{}, {(0, 1): {1}}, {(0, 2): {1}}]
    cluster.arrive(2)
    cluster.arrive(1)
    assert (cluster.delivered(1), process_at(cluster, 1).held) == ([], 2)
    cluster.arrive(0)
    assert cluster.delivered(1) == [(0, 1), (0, 2), (0, 3)]
    assert process_at(cluster, 1).delivered == {0: 3}


def test_a_delivery_that_is_known_ends_a_dependency() -> None:
    """Condition (I)."""
    cluster = Cluster("", 3, make=bare)
    cluster.send(0, [1])
    cluster.send(0, [2])
    assert arrive(cluster, source=0, target=2) == {(0, 1): {1}}
    cluster.send(2, [0])
    arrive(cluster, source=0, target=1)
    cluster.send(1, [2])
    assert arrive(cluster, source=1, target=2) == {(0, 1): set()}
    cluster.send(2, [1])  # It knows that 0:1 was delivered, and of 0:2 all is known.
    assert [told(packet.frame) for packet in cluster.in_flight if packet.source == 2] == [
        {(0, 1): {1}, (0, 2): set()},
        {(0, 2): set(), (1, 1): set(), (2, 1): {0}},
    ]


def test_a_later_message_to_the_same_target_ends_a_dependency() -> None:
    """Condition (II): 1 answers to 2, so nobody after it need hear of 0:1."""
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


def test_silence_settles_only_what_happened_before_a_message_that_is_named() -> None:
    cluster = Cluster("", 4, make=bare)
    cluster.send(0, [3])
    cluster.send(0, [1])
    arrive(cluster, source=0, target=1)
    cluster.send(2, [1])  # It has never heard of 0, which is not to say that 0:1 is there.
    arrive(cluster, source=2, target=1)
    log = process_at(cluster, 1).log
    assert [(e.source, e.number, e.targets) for e in log] == [
        (0, 1, (3,)),
        (0, 2, ()),
        (2, 1, ()),
    ]


def test_each_copy_of_a_multicast_tells_of_what_its_own_target_waits_for() -> None:
    cluster = Cluster("", 4, make=bare)
    cluster.send(0, [1, 2, 3])
    cluster.send(0, [2, 1])
    carried = {p.target: told(p.frame) for p in cluster.in_flight[3:]}
    assert carried == {2: {(0, 1): {2, 3}}, 1: {(0, 1): {1, 3}}}
    others = [
        p.frame.others for p in cluster.in_flight if isinstance(p.frame, OptimalMessage)
    ]
    assert others == [(2, 3), (1, 3), (1, 2), (1,), (2,)]


def test_a_message_to_oneself_is_delivered_at_once_and_nobody_waits_for_it() -> None:
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


def test_one_arrival_sets_a_whole_chain_free() -> None:
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
def test_frames_are_these_bytes(frame: OptimalMessage, expected: str) -> None:
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


@given(frame=messages)
def test_frames_survive_the_wire(frame: OptimalMessage) -> None:
    datagram = encode([frame, frame])
    assert len(datagram) == 1 + 2 * frame.size()
    assert frame.payload_size() == len(frame.payload)
    assert frame.message_number() == frame.number
    for again in decode(datagram, read_optimal):
        assert snapshot(again) == snapshot(frame)
        assert repr(again) == repr(frame)


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
    (BaselineMessage(9, b""), "no frame"),
    (Frame(), "no frame"),
    (message(0), "cannot be"),
    (message(9, others=(3, 2)), "cannot be"),
    (message(9, others=(2, 2)), "cannot be"),
    (message(9, others=(-1,)), "cannot be"),
    (message(9, others=(1, 2)), "cannot be"),  # The source is none of the others.
    (message(9, others=(0, 2)), "its own target"),
    (message(9, (3, 1, ()), (2, 1, ())), "cannot be"),
    (message(9, (2, 2, ()), (2, 1, ())), "cannot be"),
    (message(9, (2, 1, ()), (2, 1, ())), "cannot be"),
    (message(9, (-1, 1, ())), "cannot be"),
    (message(9, (2, 0, ())), "cannot be"),
    (message(9, (2, 1, (3, 0))), "cannot be"),
    (message(9, (2, 1, (2,))), "cannot be"),
    (message(9, (0, 1, (0,))), "cannot be"),
    (message(9, (1, 9, ())), "was not sent"),
    (message(9, (0, 2, ())), "was not sent"),
    (message(1), "here already"),
    (message(3), "here already"),
]


@pytest.mark.parametrize(("frame", "why"), BAD_FRAMES)
def test_a_frame_that_cannot_be_is_refused_and_changes_nothing(
    frame: Frame, why: str
) -> None:
    process = Optimal(ProcessId(0))
    process.send([ProcessId(1)], b"", 0.0)
    process.receive(ProcessId(1), message(1), 0.0)
    process.receive(ProcessId(1), message(3, (1, 2, (0,))), 0.0)
    assert (process.held, len(process.messages_to_deliver())) == (1, 1)
    before = snapshot(process)
    with pytest.raises(PeerError, match=why):
        process.receive(ProcessId(1), frame, 0.0)
    assert snapshot(process) == before


def test_oneself_is_no_source() -> None:
    process = Optimal(ProcessId(0))
    before = snapshot(process)
    with pytest.raises(LocalError, match="to itself"):
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
def test_a_bad_send_is_refused_and_changes_nothing(
    targets: list[ProcessId], payload: object, now: float
) -> None:
    process = Optimal(ProcessId(0))
    before = snapshot(process)
    with pytest.raises(LocalError):
        process.send(targets, payload, now)
    assert snapshot(process) == before


def test_what_the_protocol_does_not_have_is_refused() -> None:
    process = Optimal(ProcessId(0))
    with pytest.raises(LocalError):
        process.broadcast(b"", 0.0)
    with pytest.raises(LocalError):
        process.connect(ProcessId(1), 0.0)
    assert process.next_timer() is None
