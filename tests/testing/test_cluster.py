"""The steps of a cluster, and its history."""

import doctest
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core.codec import Frame
from antecede.core.process import Delivery, ProcessId, Transmit
from antecede.core.protocols.hybrid.basic import make_hybrid_basic
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.core.support.retransmission import RetransmissionPolicy
from antecede.errors import ConfigError, InternalError, LocalError
from antecede.testing import Cluster, Packet, cluster
from antecede.trace import Event, Kind
from antecede.verify import Property, verify_events


def message_events(history: list[Event]) -> list[tuple[int, str, str]]:
    """Return the events of messages in a history, as (process, kind, message)."""
    return [
        (e.process, e.kind.value, f"{e.source}:{e.number}")
        for e in history
        if e.source is not None
    ]


def flights(joined: Cluster) -> list[tuple[int, int, type[Frame]]]:
    return [(p.source, p.target, type(p.frame)) for p in joined.in_flight]


def message_in(packet: Packet) -> MessageFrame:
    assert isinstance(packet.frame, MessageFrame)
    return packet.frame


class Counts:
    """The number of events of a kind at each process."""

    def __init__(self, joined: Cluster, kind: Kind) -> None:
        self.processes = [e.process for e in joined.history if e.kind is kind]

    def at(self, process: int) -> int:
        return self.processes.count(process)


def test_the_example_in_the_documentation_runs() -> None:
    result = doctest.testmod(cluster)
    assert result.attempted >= 4
    assert result.failed == 0


def test_a_new_cluster_is_idle_at_time_zero() -> None:
    joined = Cluster("hybrid", 3)
    assert [process.id for process in joined.processes] == [0, 1, 2]
    assert (joined.in_flight, joined.history, joined.now) == ([], [], 0.0)
    joined.run_until_idle()
    assert (joined.history, joined.now) == ([], 0.0)
    assert joined.verdict().held


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError):
        Cluster("no such protocol", 3)


def test_send_numbers_messages_per_source_and_puts_a_copy_per_target_in_flight() -> None:
    joined = Cluster("hybrid", 3)
    assert joined.send(0, [1, 2], b"a") == 1
    assert joined.send(0, [2], b"b") == 2
    assert joined.send(1, [0], b"c") == 1
    carried = [(p.source, p.target, message_in(p).payload) for p in joined.in_flight]
    assert carried == [(0, 1, b"a"), (0, 2, b"a"), (0, 2, b"b"), (1, 0, b"c")]
    assert message_events(joined.history) == [
        (0, "send", "0:1"),
        (0, "release", "0:1"),
        (0, "release", "0:1"),
        (0, "send", "0:2"),
        (0, "release", "0:2"),
        (1, "send", "1:1"),
        (1, "release", "1:1"),
    ]
    assert joined.history[0].targets == (1, 2)
    assert [event.target for event in joined.history[1:3]] == [1, 2]


def test_a_message_to_the_sender_itself_is_delivered_before_send_returns() -> None:
    joined = Cluster("hybrid", 2)
    joined.send(0, [0])
    assert joined.delivered(0) == [(0, 1)]
    assert joined.in_flight == []
    assert joined.verdict().held


def test_a_refused_send_changes_nothing() -> None:
    joined = Cluster("hybrid", 2)
    with pytest.raises(LocalError):
        joined.send(0, [])
    assert (joined.in_flight, joined.history) == ([], [])
    assert joined.send(0, [1]) == 1


def test_arrive_passes_the_oldest_packet_to_its_target() -> None:
    joined = Cluster("hybrid", 3)
    joined.send(0, [1, 2])
    joined.arrive()
    assert flights(joined) == [(0, 2, MessageFrame), (1, 0, Ack)]
    assert message_events(joined.history[3:]) == [
        (1, "arrive", "0:1"),
        (1, "deliver", "0:1"),
    ]
    assert (joined.delivered(0), joined.delivered(1), joined.delivered(2)) == (
        [],
        [(0, 1)],
        [],
    )


def test_arrive_takes_the_packet_at_an_index() -> None:
    joined = Cluster("hybrid", 2)
    joined.send(0, [1])
    joined.send(0, [1])
    joined.arrive(1)
    assert joined.delivered(1) == []  # Its predecessor has not arrived.
    joined.arrive(0)
    assert joined.delivered(1) == [(0, 1), (0, 2)]
    arrivals = [e.number for e in joined.history if e.kind is Kind.ARRIVE]
    assert arrivals == [2, 1]


def test_the_history_counts_the_bytes_of_every_frame_on_the_wire() -> None:
    joined = Cluster("hybrid", 2)
    joined.send(0, [1], b"hello")
    joined.run_until_idle()
    wire = [
        (e.process, e.kind, e.target, e.payload_bytes, e.metadata_bytes)
        for e in joined.history
        if e.metadata_bytes is not None
    ]
    # Head, number, predecessor and length around five bytes; head and number of the ack.
    assert wire == [(0, Kind.RELEASE, 1, 5, 4), (1, Kind.CONTROL, 0, 0, 2)]


def test_the_arrival_of_a_control_frame_is_not_an_event() -> None:
    joined = Cluster("hybrid", 2)
    joined.send(0, [1])
    joined.arrive()
    before = len(joined.history)
    joined.arrive()  # The ack, after which the cluster is idle.
    assert len(joined.history) == before
    assert joined.in_flight == []
    assert joined.processes[0].next_timer() is None


def test_drop_removes_one_packet_and_records_it() -> None:
    joined = Cluster("hybrid", 3)
    joined.send(0, [1, 2])
    history = list(joined.history)
    joined.drop(1)
    assert flights(joined) == [(0, 1, MessageFrame)]
    joined.drop()
    assert joined.in_flight == []
    assert joined.history[:-2] == history
    lost = [(event.kind, event.process, event.target) for event in joined.history[-2:]]
    assert lost == [(Kind.DROP, 0, 2), (Kind.DROP, 0, 1)]


def test_a_lost_message_is_retransmitted_after_its_time_out() -> None:
    joined = Cluster("hybrid", 2)
    joined.send(0, [1], b"again")
    joined.drop()
    joined.pass_time(0.75)
    assert (joined.now, joined.in_flight) == (0.75, [])
    joined.pass_time(0.25)  # The timeout before any round trip is one second.
    assert joined.now == 1.0
    (packet,) = joined.in_flight
    assert message_in(packet).payload == b"again"
    assert message_events(joined.history) == [
        (0, "send", "0:1"),
        (0, "release", "0:1"),
        (0, "drop", "0:1"),
        (0, "transmit", "0:1"),
    ]
    assert [event.time for event in joined.history] == [0.0, 0.0, 0.0, 1.0]


def test_a_timer_that_becomes_due_fires_at_the_end() -> None:
    joined = Cluster("hybrid", 2)
    joined.send(0, [1])
    joined.pass_time(10.0)
    repeats = [event.time for event in joined.history if event.kind is Kind.TRANSMIT]
    assert repeats == [10.0]
    assert joined.processes[0].next_timer() == 12.0  # Doubled once, from that time.


def test_the_timers_of_a_paused_process_do_not_fire_until_run_until_idle() -> None:
    joined = Cluster("hybrid", 3)
    joined.send(0, [2])
    joined.send(1, [2])
    joined.drop()
    joined.drop()
    joined.paused.add(0)
    joined.pass_time(5.0)
    assert flights(joined) == [(1, 2, MessageFrame)]
    joined.run_until_idle()
    assert joined.paused == set()
    assert sorted(joined.delivered(2)) == [(0, 1), (1, 1)]


def test_the_policy_reaches_every_process() -> None:
    policy = RetransmissionPolicy(initial_s=0.25)
    joined = Cluster("hybrid", 2, policy=policy)
    for source in (0, 1):
        joined.send(source, [1 - source])
    assert [process.next_timer() for process in joined.processes] == [0.25, 0.25]


def test_a_duplicate_arrives_too_but_is_delivered_once() -> None:
    joined = Cluster("hybrid", 3)
    joined.send(0, [1, 2])
    joined.duplicate()
    assert flights(joined) == [
        (0, 1, MessageFrame),
        (0, 2, MessageFrame),
        (0, 1, MessageFrame),
    ]
    joined.duplicate(1)
    assert flights(joined)[-1] == (0, 2, MessageFrame)
    joined.run_until_idle()
    arrivals = Counts(joined, Kind.ARRIVE)
    assert (arrivals.at(1), arrivals.at(2)) == (2, 2)
    assert joined.delivered(1) == joined.delivered(2) == [(0, 1)]
    assert joined.verdict().held


def test_run_until_idle_delivers_everything() -> None:
    joined = Cluster("hybrid", 3)
    for source in range(3):
        joined.send(source, [0, 1, 2])
    while joined.in_flight:
        joined.drop()
    joined.run_until_idle()
    assert joined.in_flight == []
    assert [process.next_timer() for process in joined.processes] == [None] * 3
    for process in range(3):
        assert sorted(joined.delivered(process)) == [(0, 1), (1, 1), (2, 1)]
    assert joined.now == 1.0  # Everything was retransmitted after a second.


def test_run_until_idle_advances_no_time_while_packets_are_in_flight() -> None:
    joined = Cluster("hybrid", 3)
    joined.send(0, [1, 2])
    joined.send(1, [0, 2])
    joined.run_until_idle()
    assert joined.now == 0.0


def test_run_until_idle_keeps_the_order_of_transmission() -> None:
    joined = Cluster("hybrid", 3)
    joined.send(0, [1])
    joined.send(2, [1])
    joined.send(0, [1])
    joined.run_until_idle()
    arrivals = [(e.source, e.number) for e in joined.history if e.kind is Kind.ARRIVE]
    assert arrivals == [(0, 1), (2, 1), (0, 2)]


def run_at_random(seed: int) -> Cluster:
    joined = Cluster("hybrid", 3)
    for step in range(12):
        joined.send(step % 3, [(step + 1) % 3, (step + 2) % 3])
    joined.run_until_idle(Random(seed))
    return joined


def test_run_until_idle_draws_the_order_from_its_random_source() -> None:
    first, again = run_at_random(1), run_at_random(1)
    assert first.history == again.history
    orders = {tuple(message_events(run_at_random(seed).history)) for seed in (1, 2, 3)}
    assert len(orders) == 3
    assert first.verdict().held
    assert first.verdict().deliveries == 24


class Restless:
    """A process that always has a timer due."""

    def __init__(self, id: ProcessId) -> None:
        self.id = id

    def send(self, targets: Iterable[ProcessId], payload: bytes, now: float) -> int:
        return 1

    def broadcast(self, payload: bytes, now: float) -> int:
        return 1

    def connect(self, peer: ProcessId, now: float) -> None:
        pass

    def disconnect(self, peer: ProcessId, now: float) -> None:
        pass

    def receive(self, source: ProcessId, frame: Frame, now: float) -> None:
        pass

    def handle_timer(self, now: float) -> None:
        pass

    def next_timer(self) -> float | None:
        return 0.0

    def frames_to_transmit(self) -> list[Transmit]:
        return []

    def messages_to_deliver(self) -> list[Delivery]:
        return []


def test_run_until_idle_raises_for_a_process_that_is_never_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "IDLE_STEPS_MAX", 100)
    joined = Cluster("restless", 2, make=Restless)
    with pytest.raises(InternalError):
        joined.run_until_idle()


def test_processes_outside_the_registry_can_be_joined() -> None:
    joined = Cluster("mine", 2, make=make_hybrid_basic)
    assert all(isinstance(process, HybridProcess) for process in joined.processes)
    joined.send(0, [1])
    joined.run_until_idle()
    assert joined.delivered(1) == [(0, 1)]


def test_undelivered_messages_are_violations_only_in_a_complete_run() -> None:
    joined = Cluster("hybrid", 3)
    joined.send(0, [1, 2])
    joined.arrive()
    assert joined.verdict(complete=False).held
    verdict = joined.verdict()
    assert verdict.violated() == {Property.LIVENESS}
    assert [violation.process for violation in verdict.violations] == [2]
    joined.run_until_idle()
    assert joined.verdict().held


def test_a_message_sent_after_a_delivery_waits_for_its_permit() -> None:
    # 0 sends x to 2 and then a to 1; 1 delivers a and sends c to 2. c must not overtake x,
    # so it is released only after 2's ack of x has let 0 give 1 the permit. Meanwhile 1
    # delivers b of 3, which is not in the past of c (Figure 1 of the paper).
    joined = Cluster("hybrid", 4)
    joined.send(0, [2])  # x
    joined.send(0, [1])  # a
    joined.arrive(1)
    joined.send(1, [2])  # c
    assert flights(joined) == [(0, 2, MessageFrame), (1, 0, Ack)]
    joined.send(3, [1])  # b
    joined.arrive(2)
    assert joined.delivered(1) == [(0, 2), (3, 1)]
    assert Counts(joined, Kind.RELEASE).at(1) == 0
    joined.arrive(0)  # x, whose ack goes out last.
    joined.arrive(len(joined.in_flight) - 1)
    assert flights(joined)[-1] == (0, 1, Permit)
    assert Counts(joined, Kind.RELEASE).at(1) == 0
    joined.arrive(len(joined.in_flight) - 1)
    assert Counts(joined, Kind.RELEASE).at(1) == 1
    joined.run_until_idle()
    assert joined.delivered(2) == [(0, 1), (1, 1)]
    assert joined.verdict().held


def test_the_verdict_detects_two_swapped_deliveries() -> None:
    joined = Cluster("hybrid", 2)
    joined.send(0, [1])
    joined.send(0, [1])
    joined.run_until_idle()
    assert joined.verdict().held
    first, second = (
        index for index, e in enumerate(joined.history) if e.kind is Kind.DELIVER
    )
    history = joined.history
    history[first], history[second] = history[second], history[first]
    assert joined.delivered(1) == [(0, 2), (0, 1)]
    assert joined.verdict().violated() == {Property.CAUSAL, Property.FIFO}
    assert joined.verdict() == verify_events(history)


Action = tuple[str, int, int]

actions = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "arrive", "arrive", "drop", "duplicate", "time"]),
        st.integers(0, 99),
        st.integers(1, 15),
    ),
    max_size=60,
)


def apply(joined: Cluster, action: Action) -> None:
    kind, choice, bits = action
    if kind == "send":
        joined.send(choice % 4, [target for target in range(4) if bits >> target & 1])
    elif kind == "time":
        joined.pass_time(bits / 4)
    elif joined.in_flight:
        index = choice % len(joined.in_flight)
        if kind == "arrive":
            joined.arrive(index)
        elif kind == "drop":
            joined.drop(index)
        else:
            joined.duplicate(index)


@settings(max_examples=100)
@given(actions, st.integers(0, 9))
def test_the_history_is_a_linear_extension_on_every_network(
    steps: list[Action], seed: int
) -> None:
    joined = Cluster("hybrid", 4)
    for step in steps:
        apply(joined, step)
    assert joined.verdict(complete=False).held
    joined.run_until_idle(Random(seed))
    assert joined.verdict().held
    times = [event.time for event in joined.history]
    assert times == sorted(times)
    sent: set[tuple[int | None, int | None]] = set()
    released: set[tuple[int | None, int | None, int | None]] = set()
    for event in joined.history:
        if event.kind is Kind.SEND:
            sent.add((event.source, event.number))
        assert event.source is None or (event.source, event.number) in sent
        copy = (event.source, event.number, event.target)
        if event.kind is Kind.RELEASE:
            assert copy not in released
            released.add(copy)
        elif event.kind in (Kind.ARRIVE, Kind.TRANSMIT):
            assert copy in released


def test_a_target_outside_the_cluster_is_refused_and_nothing_is_sent() -> None:
    joined = Cluster("hybrid", 2)
    with pytest.raises(LocalError, match="no process 2 among 2"):
        joined.send(0, [1, 2])
    with pytest.raises(LocalError, match="no process -1 among 2"):
        joined.send(-1, [0])
    assert (joined.history, joined.in_flight) == ([], [])
    assert joined.send(0, [1]) == 1
