"""Networks and faults, compared with closed forms.

Times are sums of few binary fractions wherever a test asks for equality.
"""

from collections import Counter
from itertools import pairwise
from math import inf, nan, sqrt
from typing import Any

import pytest

from antecede.core import RetransmissionPolicy
from antecede.core.config import ProcessConfig
from antecede.errors import ConfigError
from antecede.sim.delay import Delay, Everywhere, Matrix
from antecede.sim.distribution import Constant, Exponential
from antecede.sim.network import Network, Partition, Pause
from antecede.sim.runner import RunSummary, run
from antecede.sim.workloads.program import Program, ProgramSend
from antecede.sim.workloads.synthetic import Pace, Uniform
from antecede.sim.workloads.workload import Workload
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder
from antecede.verify.oracle import Property, verify_events

PATIENT = RetransmissionPolicy(initial_s=1000, minimum_s=1000, maximum_s=1000)
"""Only lost frames are retransmitted, much later."""
ON_THE_WIRE = (Kind.RELEASE, Kind.TRANSMIT, Kind.CONTROL)


def record(
    workload: Workload,
    network: Network,
    *,
    protocol: str = "hybrid",
    policy: RetransmissionPolicy | None = None,
    seed: int = 0,
) -> tuple[RunSummary, list[Event]]:
    recorder = MemoryRecorder()
    summary = run(
        protocol,
        workload,
        network,
        EventCounter(recorder),
        seed=seed,
        config=ProcessConfig(policy=policy or RetransmissionPolicy()),
    )
    return summary, recorder.events


def constant(seconds: float) -> Delay:
    return Everywhere(Constant(seconds))


def burst(count: int, payload_bytes: int, processes: int = 2) -> Program:
    """Let process 0 send ``count`` messages to process 1 at time 0."""
    send = ProgramSend(process=0, targets=(1,), payload_bytes=payload_bytes)
    return Program(processes, [send] * count)


def times(events: list[Event], kind: Kind, process: int | None = None) -> list[float]:
    return [
        event.time
        for event in events
        if event.kind is kind and process in (None, event.process)
    ]


def transmissions(events: list[Event]) -> list[tuple[Event, bool]]:
    """Return every transmission, and whether the network lost it."""
    return [
        (event, after is not None and after.kind is Kind.DROP)
        for event, after in pairwise([*events, None])
        if event is not None and event.kind in ON_THE_WIRE
    ]


def is_about(share: float, count: int, total: int) -> bool:
    """Return whether a binomial count is within five deviations of its mean."""
    return abs(count - share * total) < 5 * sqrt(share * (1 - share) * total)


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_a_burst_takes_its_bytes_over_the_bandwidth_plus_the_delay(protocol: str) -> None:
    """Head, number, predecessor, length: 4 bytes around each payload of 100."""
    network = Network(delay=constant(0.5), bandwidth=1024)
    _, events = record(burst(5, 100), network, protocol=protocol, policy=PATIENT)
    assert times(events, Kind.RELEASE) == [0.0] * 5
    assert times(events, Kind.ARRIVE) == [n * 104 / 1024 + 0.5 for n in range(1, 6)]


def test_numbers_and_lengths_take_more_bytes_when_they_grow() -> None:
    """A length of 200 takes two bytes; from message 256 on, so do the two numbers."""
    network = Network(delay=constant(0.25), bandwidth=4096)
    _, events = record(burst(300, 200), network, policy=PATIENT)
    bytes_sent = 255 * (1 + 1 + 1 + 2 + 200) + 45 * (1 + 2 + 2 + 2 + 200)
    assert times(events, Kind.ARRIVE)[-1] == bytes_sent / 4096 + 0.25
    assert sum(e.metadata_bytes or 0 for e in events if e.kind is Kind.RELEASE) == (
        bytes_sent - 300 * 200
    )


def test_an_idle_process_saves_no_bandwidth_for_later() -> None:
    sends = [
        ProgramSend(process=0, targets=(1,), payload_bytes=124),
        ProgramSend(process=0, targets=(1,), payload_bytes=124, wait_s=8.0),
        ProgramSend(process=0, targets=(1,), payload_bytes=124),
    ]
    network = Network(delay=constant(0), bandwidth=128)
    _, events = record(Program(2, sends), network, policy=PATIENT)
    assert times(events, Kind.ARRIVE) == [1.0, 9.0, 10.0]


def test_each_process_has_a_bandwidth_of_its_own() -> None:
    sends = [
        ProgramSend(process=process, targets=(2,), payload_bytes=124) for process in (0, 1)
    ]
    network = Network(delay=constant(0), bandwidth=128)
    _, events = record(Program(3, sends), network, policy=PATIENT)
    assert times(events, Kind.ARRIVE) == [1.0, 1.0]


def test_an_ack_queues_behind_earlier_frames_of_its_process() -> None:
    """Message c waits for a permit, that for an ack, and that behind 1005 bytes.

    Process 0 sends a to 2 and b to 1; b needs a permit, since a is not acked. Process 2
    has begun to transmit 1000 bytes with 5 around them when a arrives, so its ack, of 2
    bytes, leaves after 1007. The permit, of 2 bytes, leaves process 0 when the ack of
    those 1000 has left, which is the moment at which the ack of a arrives.
    """
    sends = [
        ProgramSend(process=0, targets=(2,)),
        ProgramSend(process=0, targets=(1,)),
        ProgramSend(process=1, targets=(2,), after=((0, 2),)),
        ProgramSend(process=2, targets=(0,), payload_bytes=1000),
    ]
    network = Network(delay=constant(0.5), bandwidth=1024)
    _, events = record(Program(3, sends), network, policy=PATIENT)
    assert times(events, Kind.SEND, 1) == [8 / 1024 + 0.5]
    assert times(events, Kind.RELEASE, 1) == [1007 / 1024 + 0.5 + 2 / 1024 + 0.5]


def test_a_matrix_delays_each_direction_by_its_own_entry() -> None:
    rows = [[0, 0.25, 0.5], [0.75, 0, 1], [1.25, 1.5, 0]]
    sends = [
        ProgramSend(process=source, targets=(target,))
        for source in range(3)
        for target in range(3)
        if source != target
    ]
    _, events = record(Program(3, sends), Network(delay=Matrix(rows)), policy=PATIENT)
    arrivals = [event for event in events if event.kind is Kind.ARRIVE]
    assert len(arrivals) == 6
    for event in arrivals:
        assert event.source is not None
        assert event.time == rows[event.source][event.process]


@pytest.mark.long
@pytest.mark.parametrize("loss", [0.0, 0.05, 0.5])
def test_the_share_of_lost_frames_is_the_loss(loss: float) -> None:
    workload = Uniform(5, 400, Pace())
    summary, events = record(workload, Network(loss=loss), seed=3)
    found = transmissions(events)
    messages = [lost for event, lost in found if event.kind is not Kind.CONTROL]
    controls = [lost for event, lost in found if event.kind is Kind.CONTROL]
    for sample in (messages, controls):
        assert len(sample) >= 2000
        if loss:
            assert is_about(loss, sum(sample), len(sample))
        else:
            assert not any(sample)
    assert summary.complete
    assert verify_events(events).held
    drops = [event for event in events if event.kind is Kind.DROP]
    assert len(drops) == sum(messages) + sum(controls)
    # A drop names the message, if there is one, and the target.
    assert sum(drop.number is not None for drop in drops) == sum(messages)
    assert all(drop.target not in (None, drop.process) for drop in drops)


def test_with_certain_duplication_every_frame_arrives_twice() -> None:
    network = Network(delay=Everywhere(Exponential(0.1)), duplicate=1.0)
    _, events = record(Uniform(3, 30, Pace()), network, policy=PATIENT)
    arrivals = Counter(
        (e.source, e.number, e.process) for e in events if e.kind is Kind.ARRIVE
    )
    assert len(arrivals) == 90
    assert set(arrivals.values()) == {2}
    assert len(times(events, Kind.DELIVER)) == 90
    assert verify_events(events).held


def test_the_share_of_duplicated_frames_is_as_asked_and_their_delay_is_their_own() -> None:
    network = Network(delay=Everywhere(Exponential(0.1)), duplicate=0.3)
    _, events = record(Uniform(4, 500, Pace()), network, policy=PATIENT, seed=1)
    arrivals: dict[tuple[int | None, int | None], list[float]] = {}
    for event in events:
        if event.kind is Kind.ARRIVE:
            arrivals.setdefault((event.source, event.number), []).append(event.time)
    twice = [times_ for times_ in arrivals.values() if len(times_) == 2]
    assert is_about(0.3, len(twice), 2000)
    assert all(first != second for first, second in twice)


@pytest.mark.long
def test_on_a_constant_delay_only_reordering_lets_frames_overtake() -> None:
    def arrivals(reorder: float) -> tuple[list[int], list[float]]:
        sends = [ProgramSend(process=0, targets=(1,), wait_s=0.125)] * 1000
        network = Network(delay=constant(0.5), reorder=reorder)
        _, events = record(Program(2, sends), network, policy=PATIENT)
        released = {e.number: e.time for e in events if e.kind is Kind.RELEASE}
        arrived = [e for e in events if e.kind is Kind.ARRIVE]
        assert verify_events(events).held
        return [e.number or 0 for e in arrived], [
            e.time - released[e.number] for e in arrived
        ]

    order, delays = arrivals(0.0)
    assert order == sorted(order)
    assert set(delays) == {0.5}
    order, delays = arrivals(0.25)
    assert order != sorted(order) == list(range(1, 1001))
    assert set(delays) == {0.5, 1.0}
    assert is_about(0.25, delays.count(1.0), 1000)


def test_a_partition_drops_exactly_the_frames_between_groups_that_depart_during_it() -> (
    None
):
    cut = Partition(start_s=0.5, end_s=1.0, groups=((0, 1), (2,)))
    sides = {0: 0, 1: 0, 2: 1, 3: 2, 4: 2}  # Processes in no group form another group.
    workload = Uniform(5, 60, Pace(gap=Constant(0.025)))
    summary, events = record(workload, Network(partitions=(cut,)), seed=2)
    crossings: set[tuple[int, int]] = set()
    for event, lost in transmissions(events):
        assert event.target is not None
        cut_off = sides[event.process] != sides[event.target]
        assert lost == (cut_off and 0.5 <= event.time < 1.0), event
        if lost:
            crossings.add((sides[event.process], sides[event.target]))
    assert crossings == {(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)}
    assert summary.complete
    assert verify_events(events).held  # The partition has ended.


def test_a_partition_records_a_fault_at_its_start_and_end() -> None:
    """At every process of its groups, unless it has crashed."""
    cut = Partition(start_s=0.5, end_s=1.0, groups=((0, 1), (2,)))
    network = Network(delay=constant(0.125), partitions=(cut,), crashes=((2, 0.75),))
    _, events = record(Uniform(4, 60, Pace(gap=Constant(0.025))), network, seed=2)
    faults = [(e.time, e.process) for e in events if e.kind is Kind.FAULT]
    assert faults == [(0.5, 0), (0.5, 1), (0.5, 2), (1.0, 0), (1.0, 1)]


def test_a_paused_process_records_the_fault_of_a_partition_in_time() -> None:
    pause = Pause(process=1, start_s=0.5, end_s=2.0)
    cut = Partition(start_s=0.75, end_s=1.0, groups=((1,),))
    network = Network(delay=constant(0.25), partitions=(cut,), pauses=(pause,))
    sends = [ProgramSend(process=0, targets=(1,), wait_s=0.375)]
    _, events = record(Program(2, sends), network, policy=PATIENT)
    assert times(events, Kind.FAULT) == [0.5, 0.75, 1.0]
    assert times(events, Kind.ARRIVE) == [2.0]  # The length of the pause does not change.


def test_faults_after_the_last_message_do_not_extend_a_run() -> None:
    cut = Partition(start_s=0.0, end_s=1000.0, groups=((2,),))
    pause = Pause(process=1, start_s=900.0, end_s=1000.0)
    network = Network(delay=constant(0.5), partitions=(cut,), pauses=(pause,))
    summary, events = record(burst(3, 0, processes=3), network)
    assert summary.complete
    assert summary.duration_s < 10
    assert times(events, Kind.FAULT) == [0.0, 900.0, 1000.0]


def test_a_partition_drops_frames_by_the_time_they_leave_their_queue() -> None:
    """Frames of 128 bytes leave every second; those at 3 and 4, not 5, are dropped."""
    cut = Partition(start_s=3.0, end_s=5.0, groups=((1,),))
    network = Network(delay=constant(0.5), bandwidth=128, partitions=(cut,))
    _, events = record(burst(6, 124), network, policy=PATIENT)
    dropped = [e.number for e in events if e.kind is Kind.DROP]
    arrived = [(e.number, e.time) for e in events if e.kind is Kind.ARRIVE]
    assert dropped == [3, 4]
    assert arrived[:4] == [(1, 1.5), (2, 2.5), (5, 5.5), (6, 6.5)]
    assert sorted(number or 0 for number, _ in arrived) == [1, 2, 3, 4, 5, 6]
    assert verify_events(events).held


def test_a_paused_process_does_nothing_until_it_resumes() -> None:
    pause = Pause(process=1, start_s=0.5, end_s=1.5)
    workload = Uniform(3, 60, Pace(gap=Constant(0.05)))
    network = Network(delay=constant(0.125), pauses=(pause,))
    summary, events = record(workload, network, seed=1)
    faults = [event for event in events if event.kind is Kind.FAULT]
    assert [(fault.process, fault.time) for fault in faults] == [(1, 0.5)]
    position = events.index(faults[0])
    own = [event for event in events[position + 1 :] if event.process == 1]
    assert min(event.time for event in own) == 1.5
    others = [e for e in events if e.process != 1 and 0.5 < e.time < 1.5]
    assert others
    # Frames of the pause arrive at its end.
    caught_up = [e for e in own if e.kind is Kind.ARRIVE and e.time == 1.5]
    assert len(caught_up) > 5
    assert summary.complete
    assert verify_events(events).held


def test_pauses_that_overlap_are_one_long_pause() -> None:
    pauses = (
        Pause(process=1, start_s=0.0, end_s=2.0),
        Pause(process=1, start_s=1.0, end_s=1.5),
        Pause(process=1, start_s=1.875, end_s=3.0),
    )
    # Frames arrive at 0.5 and at 1.75, after the end of the pause in between.
    sends = [ProgramSend(process=0, targets=(1,), wait_s=wait_s) for wait_s in (0, 1.25)]
    network = Network(delay=constant(0.5), pauses=pauses)
    _, events = record(Program(2, sends), network, policy=PATIENT)
    assert times(events, Kind.FAULT, 1) == [0.0, 1.0, 1.875]
    assert times(events, Kind.ARRIVE, 1) == [3.0, 3.0]


def test_a_slow_process_takes_its_inputs_one_after_the_other() -> None:
    """Ten frames arrive at 0.5; each keeps the process busy for a quarter second."""
    network = Network(delay=constant(0.5), processing_s=((1, 0.25),))
    _, events = record(burst(10, 0), network, policy=PATIENT)
    assert times(events, Kind.ARRIVE, 1) == [0.5 + 0.25 * n for n in range(10)]
    assert [e.number for e in events if e.kind is Kind.ARRIVE] == list(range(1, 11))
    assert (
        times(events, Kind.SEND, 0) == [0.0] * 10
    )  # The other process is not slowed down.


def test_a_slow_process_is_slow_to_send_as_well() -> None:
    network = Network(delay=constant(0.5), processing_s=((0, 0.25),))
    _, events = record(burst(3, 0), network, policy=PATIENT)
    assert times(events, Kind.SEND, 0) == [0.0, 0.25, 0.5]


def crashing(protocol: str = "hybrid") -> tuple[RunSummary, list[Event]]:
    workload = Uniform(5, 30, Pace(gap=Constant(0.05)))
    return record(workload, Network(crashes=((2, 0.5),)), protocol=protocol, seed=1)


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic"])
def test_a_crashed_process_does_nothing_more_and_order_holds(protocol: str) -> None:
    summary, events = crashing(protocol)
    crashes = [event for event in events if event.kind is Kind.CRASH]
    assert [(crash.process, crash.time) for crash in crashes] == [(2, 0.5)]
    position = events.index(crashes[0])
    assert any(event.process == 2 for event in events[:position])
    assert not any(event.process == 2 for event in events[position + 1 :])
    assert not summary.complete
    assert summary.sender_wait_s is summary.wire_s is summary.receiver_wait_s is None
    assert verify_events(events, complete=False).held
    assert verify_events(events).violated() == {Property.LIVENESS}


def test_others_go_on_trying_after_a_crash_but_not_for_ever() -> None:
    summary, events = crashing()
    tries = [e for e in events if e.kind is Kind.TRANSMIT and e.target == 2]
    assert tries
    assert 10 < summary.duration_s < 600


def test_a_frame_that_had_left_before_the_crash_arrives_after_it() -> None:
    network = Network(delay=constant(0.5), crashes=((0, 0.25),))
    summary, events = record(burst(1, 0), network)
    assert times(events, Kind.CRASH, 0) == [0.25]
    assert times(events, Kind.ARRIVE, 1) == [0.5]
    assert not summary.complete  # Although every message is delivered.


def test_a_crash_during_a_pause_ends_the_pause_for_good() -> None:
    pause = Pause(process=1, start_s=0.25, end_s=2.0)
    network = Network(delay=constant(0.5), pauses=(pause,), crashes=((1, 1.0),))
    _, events = record(burst(1, 0), network)
    own = [(event.kind, event.time) for event in events if event.process == 1]
    assert own == [(Kind.FAULT, 0.25), (Kind.CRASH, 1.0)]


@pytest.mark.parametrize("process", [3, -1, 1000])
@pytest.mark.parametrize("field", ["partitions", "pauses", "crashes", "processing_s"])
def test_a_network_that_names_an_unknown_process_is_refused(
    field: str, process: int
) -> None:
    values: dict[str, object] = {
        "partitions": Partition(start_s=0, end_s=1, groups=((0,), (process,))),
        "pauses": Pause(process=process, start_s=0, end_s=1),
        "crashes": (process, 1.0),
        "processing_s": (process, 1.0),
    }
    fields: dict[str, Any] = {field: (values[field],)}
    recorder = MemoryRecorder()
    network = Network(**fields)
    with pytest.raises(ConfigError, match=f"process {process} of 3"):
        run("hybrid", Uniform(3, 1, Pace()), network, EventCounter(recorder))
    assert recorder.events == []


@pytest.mark.parametrize("processes", [3, 30])
def test_a_delay_matrix_that_is_too_small_is_refused_before_anything_happens(
    processes: int,
) -> None:
    recorder = MemoryRecorder()
    network = Network(delay=Matrix([[0, 1], [1, 0]]))
    with pytest.raises(ConfigError, match=f"for 2 processes, not {processes}"):
        run("hybrid", Uniform(processes, 1, Pace()), network, EventCounter(recorder))
    assert recorder.events == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("bandwidth", value) for value in (0, -1, nan, -inf)),
        *(("loss", value) for value in (-0.1, 1, 1.5, nan)),
        *(("duplicate", value) for value in (-0.1, 1.1, nan, inf)),
        *(("reorder", value) for value in (-0.1, 1.1, nan, inf)),
        *(("crashes", ((0, value),)) for value in (-1.0, inf, nan)),
        *(("processing_s", ((0, value),)) for value in (-1.0, inf, nan)),
    ],
)
def test_values_out_of_range_are_refused(field: str, value: object) -> None:
    fields: dict[str, Any] = {field: value}
    with pytest.raises(ConfigError) as refusal:
        Network(**fields)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("start_s", "end_s"), [(1.0, 0.5), (-1.0, 1.0), (0.0, inf), (nan, 1.0), (0.0, nan)]
)
def test_a_time_span_that_is_none_is_refused(start_s: float, end_s: float) -> None:
    with pytest.raises(ConfigError, match="a pause needs"):
        Pause(process=0, start_s=start_s, end_s=end_s)
    with pytest.raises(ConfigError, match="a partition needs"):
        Partition(start_s=start_s, end_s=end_s, groups=((0,),))


@pytest.mark.parametrize("groups", [((0, 1), (1, 2)), ((0, 0),)])
def test_a_process_in_two_groups_of_a_partition_is_refused(
    groups: tuple[tuple[int, ...], ...],
) -> None:
    with pytest.raises(ConfigError, match="two groups"):
        Partition(start_s=0, end_s=1, groups=groups)


def test_a_slow_process_needs_few_more_events_than_a_fast_one() -> None:
    """Deferred events are not scheduled again one by one."""
    fast, slow = (
        record(Uniform(2, 400, Pace(gap=Constant(0))), Network(processing_s=service))[0]
        for service in ((), ((1, 0.001),))
    )
    assert slow.events <= 4 * fast.events
