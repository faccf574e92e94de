"""``matrix``: earliest delivery in causal order, with a count for every pair."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.check.snapshot import snapshot
from antecede.core import Process, ProcessId, RetransmissionPolicy, decode, encode
from antecede.core.codec import NUMBER_MAX, VERSION, Frame
from antecede.core.link import ReliableLink
from antecede.core.protocols.baseline import BaselineMessage
from antecede.core.protocols.matrix import Matrix, MatrixMessage, Row, read_matrix
from antecede.errors import LocalError, PeerError
from antecede.testing import Cluster, Step, random_schedule, run_schedule
from antecede.testing.strategies import schedules
from antecede.verify import Property
from tests.core.crowns import (
    FIGURE_5_AND_6,
    FIGURE_8,
    FIRST_PROGRAM,
    SECOND_PROGRAM,
    Send,
    histories,
    history_of,
    nested_crowns,
    reachable,
)
from tests.core.receiver_side import (
    CausalObserver,
    Make,
    MatrixFlaw,
    MatrixListing,
    run_lockstep,
)

POLICY = RetransmissionPolicy(initial_s=1.0, minimum_s=0.5, maximum_s=8.0)
GROUP_MAX = 6


def bare(id: ProcessId) -> Process:
    return Matrix(id, GROUP_MAX)


def linked(id: ProcessId) -> Process:
    return ReliableLink(Matrix(id, GROUP_MAX), fifo=False, policy=POLICY)


def trio(id: ProcessId) -> Process:
    return Matrix(id, 3)


def matrices(processes: int) -> Cluster:
    return Cluster("", processes, make=lambda index: Matrix(index, processes))


def listing(flaw: MatrixFlaw) -> Make:
    return lambda index: MatrixListing(index, GROUP_MAX, flaw)


def process_at(cluster: Cluster, index: int) -> Matrix:
    process = cluster.processes[index]
    assert isinstance(process, Matrix)
    return process


def arrive(cluster: Cluster, *, source: int, target: int) -> None:
    """Let the oldest message from ``source`` to ``target`` arrive."""
    between = [(packet.source, packet.target) for packet in cluster.in_flight]
    cluster.arrive(between.index((source, target)))


# Any network.


@pytest.mark.long
@pytest.mark.parametrize("fan_out_max", [1, 4])
def test_delivers_at_the_earliest_step_that_causal_order_allows(fan_out_max: int) -> None:
    for seed in range(1000):
        (cluster,) = run_lockstep([bare], seed, fan_out_max=fan_out_max)
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
    cluster = matrices(4)
    run_schedule(cluster, schedule)
    cluster.run_until_idle()
    assert cluster.verdict().held


def test_matrix_counts_exactly_the_messages_that_happened_before() -> None:
    """Rule 1; it also shows that the maximum of two rows is the larger row."""
    for seed in range(150):
        run_lockstep([bare], seed, fan_out_max=3, after_step=check_counts)


def check_counts(clusters: list[Cluster], observer: CausalObserver) -> None:
    for index, past in enumerate(observer.past_at):
        counts = [[0] * GROUP_MAX for _ in range(GROUP_MAX)]
        for source, number in past:
            for target in observer.targets[source, number] - {source}:
                counts[source][target] += 1
        assert process_at(clusters[0], index).sent == [tuple(row) for row in counts]


def test_idle_process_holds_no_message() -> None:
    for seed in range(50):
        (cluster,) = run_lockstep([bare], seed, fan_out_max=3)
        for process in cluster.processes:
            assert isinstance(process, Matrix)
            assert process.held == 0
            assert "MatrixMessage" not in str(snapshot(process))


def test_the_same_schedule_gives_the_same_history() -> None:
    runs = [run_lockstep([bare], 7, fan_out_max=4)[0].history for _ in range(2)]
    assert runs[0] == runs[1]


# The listing.


def test_delivers_like_the_listing_without_messages_to_itself() -> None:
    for seed in range(300):
        run_lockstep([bare, listing(MatrixFlaw.NONE)], seed, to_itself=False)


@pytest.mark.parametrize("flaw", [flaw for flaw in MatrixFlaw if flaw.value != "none"])
def test_every_flaw_breaks_causal_order(flaw: MatrixFlaw) -> None:
    assert Property.CAUSAL in find_violations(listing(flaw), fan_out_max=1)


def test_listing_without_a_flaw_is_causal_on_the_same_runs() -> None:
    assert find_violations(listing(MatrixFlaw.NONE), fan_out_max=1) == set()


@pytest.mark.long
def test_sending_the_listing_to_each_target_is_not_a_causal_multicast() -> None:
    """A target that does not know of the other copies answers before they arrive."""
    assert Property.CAUSAL in find_violations(listing(MatrixFlaw.NONE), fan_out_max=3)
    assert find_violations(bare, fan_out_max=3) == set()


def find_violations(make: Make, *, fan_out_max: int) -> set[Property]:
    """Return the violated properties of random runs without messages to oneself."""
    found: set[Property] = set()
    for seed in range(60):
        random = Random(seed)
        cluster = Cluster("", GROUP_MAX, make=make)
        for _ in range(60):
            source = random.randrange(GROUP_MAX)
            others = [member for member in range(GROUP_MAX) if member != source]
            cluster.send(source, random.sample(others, random.randint(1, fan_out_max)))
            while cluster.in_flight and random.random() < 0.6:
                cluster.arrive(random.randrange(len(cluster.in_flight)))
        cluster.run_until_idle(random)
        found |= cluster.verdict().violated()
    return found


def test_message_to_itself_blocks_the_listing_forever() -> None:
    """It is counted twice, so later messages wait for a message that does not exist."""
    blocked = Cluster("", 2, make=lambda index: MatrixListing(index, 2))
    for cluster in (blocked, matrices(2)):
        cluster.send(0, [0])
        cluster.run_until_idle()
        assert cluster.delivered(0) == [(0, 1)]
        cluster.send(0, [0])
        cluster.send(0, [1])
        cluster.run_until_idle()
        cluster.send(1, [0])  # Its matrix counts two messages to 0, or three.
        cluster.run_until_idle()
        if cluster is blocked:
            assert cluster.delivered(0) == [(0, 1)]
            assert cluster.verdict().violated() == {Property.LIVENESS}
        else:
            assert cluster.delivered(0) == [(0, 1), (0, 2), (1, 1)]
            assert cluster.verdict().held


# The papers' examples.


def test_message_that_overtakes_indirectly_is_held() -> None:
    """Mattern and Fünfrocken, Fig. 5: z is held until x arrives."""
    cluster = matrices(3)
    cluster.send(0, [2], b"x")
    cluster.send(0, [1], b"y")
    arrive(cluster, source=0, target=1)
    cluster.send(1, [2], b"z")
    arrive(cluster, source=1, target=2)
    assert cluster.delivered(2) == []
    assert process_at(cluster, 2).held == 1
    assert process_at(cluster, 2).delivered == [0, 0, 0]
    arrive(cluster, source=0, target=2)
    assert cluster.delivered(2) == [(0, 1), (1, 1)]
    assert process_at(cluster, 2).delivered == [1, 1, 0]


def test_figure_5_is_the_only_run_of_its_program() -> None:
    assert set(histories(trio, FIRST_PROGRAM)) == {FIGURE_5_AND_6}


def test_figure_8_nested_crowns_are_possible() -> None:
    """No schedule of the buffer protocol has them: first sent, last received."""
    cluster = matrices(3)
    for number in (1, 2):
        for source, program in enumerate(SECOND_PROGRAM):
            send = program[number - 1]
            assert isinstance(send, Send)
            assert cluster.send(source, [send.target], send.label.encode()) == number
    for source, target in ((1, 0), (2, 0), (2, 1), (0, 1), (0, 2), (1, 2)):
        arrive(cluster, source=source, target=target)  # b, a, f, e, d, c
    labels = {
        (source, number): send.label
        for source, program in enumerate(SECOND_PROGRAM)
        for number, send in enumerate(program, start=1)
        if isinstance(send, Send)
    }
    received = [
        "".join(labels[message] for message in cluster.delivered(index))
        for index in range(3)
    ]
    assert history_of(SECOND_PROGRAM, received) == FIGURE_8
    assert nested_crowns(history_of(SECOND_PROGRAM, received))
    assert cluster.verdict().held


def test_figure_8_is_found_among_all_schedules() -> None:
    assert reachable(trio, SECOND_PROGRAM, nested_crowns)


def test_a_multicast_counts_for_each_target_and_all_copies_are_the_same() -> None:
    cluster = matrices(4)
    cluster.send(0, [1, 0, 2, 1])
    frames = [packet.frame for packet in cluster.in_flight]
    assert [packet.target for packet in cluster.in_flight] == [1, 2]
    assert cluster.delivered(0) == [(0, 1)]
    for frame in frames:
        assert isinstance(frame, MatrixMessage)
        assert [row.counts for row in frame.rows] == [(0, 1, 1, 0)] + [(0, 0, 0, 0)] * 3
    arrive(cluster, source=0, target=1)
    cluster.send(1, [2])
    arrive(cluster, source=1, target=2)
    assert cluster.delivered(2) == []  # The other copy happened before.
    arrive(cluster, source=0, target=2)
    assert cluster.delivered(2) == [(0, 1), (1, 1)]


def test_one_arrival_unblocks_a_whole_chain() -> None:
    cluster = matrices(4)
    cluster.send(0, [3])
    for source in (0, 1, 2):
        target = source + 1
        cluster.send(source, [target])
        if target < 3:
            arrive(cluster, source=source, target=target)
            cluster.send(target, [3])
    while len(cluster.in_flight) > 1:
        cluster.arrive(len(cluster.in_flight) - 1)
    assert cluster.delivered(3) == []
    cluster.arrive()
    assert cluster.delivered(3) == [(0, 1), (1, 1), (2, 1), (2, 2)]
    assert cluster.verdict().held


# Frames.

KNOWN_BYTES = [
    (MatrixMessage(1, [Row((0,))], b"hi"), "10 01 01 00 02 68 69"),
    (MatrixMessage(3, [Row((0, 2)), Row((1, 0))], b""), "10 03 02 00 02 01 00 00"),
    (
        MatrixMessage(300, [Row((0, 300)), Row((127, 0))], b"x"),
        "12 01 2c 02 00 ac 02 7f 00 01 78",
    ),
]


@pytest.mark.parametrize(("frame", "expected"), KNOWN_BYTES)
def test_frames_have_the_documented_bytes(frame: MatrixMessage, expected: str) -> None:
    assert encode([frame]) == bytes([VERSION]) + bytes.fromhex(expected)
    assert (frame.kind(), frame.message_source()) == (1, -1)


counts = st.integers(0, NUMBER_MAX) | st.integers(0, 200)


@st.composite
def messages(draw: st.DrawFn) -> MatrixMessage:
    size = draw(st.integers(0, 5))
    rows = [
        Row(tuple(draw(st.lists(counts, min_size=size, max_size=size))))
        for _ in range(size)
    ]
    number = draw(st.integers(1, NUMBER_MAX) | st.integers(1, 300))
    return MatrixMessage(number, rows, draw(st.binary(max_size=200)))


@given(frame=messages())
def test_frames_are_decoded_as_they_were_encoded(frame: MatrixMessage) -> None:
    datagram = encode([frame, frame])
    assert len(datagram) == 1 + 2 * frame.size()
    assert frame.payload_size() == len(frame.payload)
    assert frame.message_number() == frame.number
    for again in decode(datagram, read_matrix):
        assert snapshot(again) == snapshot(frame)
        assert repr(again) == repr(frame)


@given(frame=messages(), data=st.data())
def test_a_frame_cut_short_is_refused(frame: MatrixMessage, data: st.DataObject) -> None:
    datagram = encode([frame])
    length = data.draw(st.integers(2, len(datagram) - 1))
    with pytest.raises(PeerError):
        decode(datagram[:length], read_matrix)


@pytest.mark.parametrize("head", ["11", "20", "00", "f0"])
def test_an_unknown_head_is_refused(head: str) -> None:
    with pytest.raises(PeerError, match="unknown frame"):
        decode(bytes([VERSION]) + bytes.fromhex(head + "01 00 00"), read_matrix)


def test_every_message_carries_every_count() -> None:
    cluster = matrices(30)
    cluster.send(3, [4])
    (packet,) = cluster.in_flight
    assert packet.frame.metadata_size() == 1 + 1 + 1 + 30 * 30 + 1


# Bad input.


def with_rows(*rows: tuple[int, ...], number: int = 1) -> Frame:
    return MatrixMessage(number, [Row(row) for row in rows], b"")


NOTHING = (0, 0, 0)

BAD_FRAMES: list[tuple[Frame, str]] = [
    (BaselineMessage(1, b""), "not a frame"),
    (Frame(), "not a frame"),
    (with_rows((0, 1), (0, 0)), "expected n = 3"),
    (with_rows(NOTHING, (0, 0), NOTHING), "row 1"),
    (with_rows(NOTHING, (1, 0), (0, 0, 0, 0)), "row 1"),
    (with_rows(NOTHING, (1, 1, 0), NOTHING), "row 1"),
    (with_rows((0, 2, 0), (1, 0, 0), NOTHING), "were not sent"),
    (with_rows(NOTHING, NOTHING, NOTHING), "message 0"),
    (with_rows(NOTHING, (2, 0, 0), NOTHING, number=1), "message 2"),
    (with_rows(NOTHING, (1, 0, 0), NOTHING, number=0), "message 1"),
    (with_rows(NOTHING, (-1, 0, 0), NOTHING), "message -1"),
    (with_rows(NOTHING, (1, 0, 0), NOTHING), "duplicate"),
    (with_rows(NOTHING, (3, 0, 0), NOTHING, number=9), "duplicate"),
]


@pytest.mark.parametrize(("frame", "match"), BAD_FRAMES)
def test_invalid_frame_is_refused_and_changes_nothing(frame: Frame, match: str) -> None:
    process = Matrix(ProcessId(0), 3)
    process.send([ProcessId(1)], b"", 0.0)
    process.receive(ProcessId(1), with_rows((0, 1, 0), (1, 0, 0), NOTHING), 0.0)
    process.receive(ProcessId(1), with_rows((0, 1, 0), (3, 0, 0), NOTHING, number=3), 0.0)
    assert (process.held, len(process.messages_to_deliver())) == (1, 1)
    before = snapshot(process)
    with pytest.raises(PeerError, match=match):
        process.receive(ProcessId(1), frame, 0.0)
    assert snapshot(process) == before


def test_invalid_sources_are_refused() -> None:
    process = Matrix(ProcessId(0), 3)
    frame = with_rows(NOTHING, (1, 0, 0), NOTHING)
    before = snapshot(process)
    for source in (3, -1):
        with pytest.raises(PeerError, match="expected n = 3"):
            process.receive(ProcessId(source), frame, 0.0)
    with pytest.raises(LocalError, match="source 0 is this process itself"):
        process.receive(ProcessId(0), frame, 0.0)
    with pytest.raises(LocalError, match="finite"):
        process.receive(ProcessId(1), frame, float("nan"))
    assert snapshot(process) == before


@pytest.mark.parametrize(
    ("targets", "payload", "now"),
    [
        ([], b"", 0.0),
        ([3], b"", 0.0),
        ([0, 1, 3], b"", 0.0),
        ([-1], b"", 0.0),
        ([True], b"", 0.0),
        ([1], "text", 0.0),
        ([1], b"", float("inf")),
    ],
)
def test_invalid_send_is_refused_and_changes_nothing(
    targets: list[ProcessId], payload: object, now: float
) -> None:
    process = Matrix(ProcessId(0), 3)
    before = snapshot(process)
    with pytest.raises(LocalError):
        process.send(targets, payload, now)
    assert snapshot(process) == before


def test_unsupported_operations_are_refused() -> None:
    process = Matrix(ProcessId(0), 3)
    with pytest.raises(LocalError):
        process.broadcast(b"", 0.0)
    with pytest.raises(LocalError):
        process.connect(ProcessId(1), 0.0)
    assert process.next_timer() is None


@pytest.mark.parametrize(("id", "processes"), [(0, 0), (3, 3), (-1, 3)])
def test_a_process_outside_its_group_is_refused(id: int, processes: int) -> None:
    with pytest.raises(LocalError, match="is not in a group of"):
        Matrix(ProcessId(id), processes)
