"""The simulator: the same run for the same seed, and the same network for all protocols."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf, sqrt
from struct import Struct

import pytest

from antecede.core import RetransmissionPolicy, protocol
from antecede.core.config import ProcessConfig
from antecede.core.process import ProcessId
from antecede.sim.delay import Everywhere
from antecede.sim.distribution import Constant, Exponential
from antecede.sim.network import Network, Pause
from antecede.sim.runner import RunSummary, run
from antecede.sim.simulator import Simulator
from antecede.sim.workloads.services import Conversation, RequestReply
from antecede.sim.workloads.synthetic import Pace, Uniform
from antecede.sim.workloads.workload import Workload
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import KINDS, BufferedRecorder, EventCounter, MemoryRecorder
from antecede.verify.oracle import verify_events
from tests.sim.arrivals import PATIENT, Copy, flight_times

WILD = Network(
    delay=Everywhere(Exponential(0.1)),
    bandwidth=20_000,
    loss=0.1,
    duplicate=0.1,
    reorder=0.1,
    pauses=(Pause(process=1, start_s=0.2, end_s=0.4),),
)


def conversation() -> Workload:
    pace = Pace(
        gap=Exponential(0.05),
        payload_bytes=Constant(40),
        service_time=Exponential(0.05),
        service_share=0.3,
    )
    return Conversation(6, 15, pace)


def record(
    workload: Workload,
    network: Network = WILD,
    *,
    name: str = "hybrid",
    seed: int = 0,
    policy: RetransmissionPolicy | None = None,
    until_s: float = inf,
) -> tuple[RunSummary, list[Event]]:
    recorder = MemoryRecorder()
    summary = run(
        name,
        workload,
        network,
        EventCounter(recorder),
        seed=seed,
        config=ProcessConfig(policy=policy or RetransmissionPolicy()),
        until_s=until_s,
    )
    return summary, recorder.events


def packed(
    seed: int, rows_max: int
) -> tuple[list[tuple[bytes, int]], list[Sequence[int] | None]]:
    """Return the batches of a run, and the targets of all its sends."""
    batches: list[tuple[bytes, int]] = []
    targets: list[Sequence[int] | None] = []

    def write(rows: bytearray, count: int, sends: list[Sequence[int] | None]) -> None:
        batches.append((bytes(rows[: count * 37]), count))
        targets.extend(sends)

    recorder = BufferedRecorder(write, rows_max)
    run("hybrid", conversation(), WILD, EventCounter(recorder), seed=seed)
    recorder.flush()
    return batches, targets


def test_the_same_seed_gives_a_byte_equal_history_and_another_another() -> None:
    first, again, other = (packed(seed, 1 << 17) for seed in (1, 1, 2))
    assert first == again
    assert first[0] != other[0]
    assert record(conversation(), seed=1) == record(conversation(), seed=1)


def test_packed_rows_equal_events() -> None:
    """Little-endian: process, time, kind, source, number, target, two sizes."""
    row = Struct("<idBiqiii")
    batches, targets = packed(3, 100)
    rows = [fields for rows, _ in batches for fields in row.iter_unpack(rows)]
    sends = iter(targets)
    _, events = record(conversation(), seed=3)
    assert len(rows) == len(events) > 1000
    for fields, event in zip(rows, events, strict=True):
        optional = (
            event.source,
            event.number,
            event.target,
            event.payload_bytes,
            event.metadata_bytes,
        )
        assert fields == (
            event.process,
            event.time,
            list(Kind).index(event.kind),
            *(-1 if value is None else value for value in optional),
        )
        if event.kind is Kind.SEND:
            named = next(sends)
            assert named is not None
            assert tuple(named) == event.targets
        else:
            assert event.targets is None
    assert next(sends, None) is None
    assert tuple(Kind) == KINDS


@pytest.mark.parametrize("rows_max", [1, 7, 1 << 17])
def test_rows_are_written_in_batches_of_rows_max(rows_max: int) -> None:
    batches, _ = packed(3, rows_max)
    counts = [count for _, count in batches]
    total = len(record(conversation(), seed=3)[1])
    full, rest = divmod(total, rows_max)
    assert counts == [rows_max] * full + [rest] * (rest > 0)
    assert all(len(rows) == count * 37 for rows, count in batches)


def test_counts_match_the_events_with_any_recorder_and_without() -> None:
    keeping, packing = MemoryRecorder(), BufferedRecorder(lambda rows, count, sends: None)
    counters = [EventCounter(keeping), EventCounter(packing), EventCounter()]
    for counter in counters:
        run("hybrid", conversation(), WILD, counter, seed=3)
    kinds = [event.kind for event in keeping.events]
    wanted = (
        kinds.count(Kind.CONTROL),
        kinds.count(Kind.TRANSMIT),
        kinds.count(Kind.DROP),
        sum(event.payload_bytes or 0 for event in keeping.events),
        sum(event.metadata_bytes or 0 for event in keeping.events),
    )
    assert min(wanted[:3]) > 0
    for counter in counters:
        assert wanted == (
            counter.control_frames,
            counter.retransmissions,
            counter.dropped_frames,
            counter.payload_bytes,
            counter.metadata_bytes,
        )


def test_a_recorder_without_rows_writes_nothing() -> None:
    batches: list[int] = []
    BufferedRecorder(lambda rows, count, sends: batches.append(count)).flush()
    assert batches == []


def test_events_are_in_the_order_of_time_and_of_happened_before() -> None:
    _, events = record(conversation(), seed=1)
    assert all(before.time <= after.time for before, after in pairwise(events))
    sent: set[tuple[int | None, int | None]] = set()
    released: set[tuple[int | None, int | None, int | None]] = set()
    arrived: set[tuple[int | None, int | None, int | None]] = set()
    for event in events:
        message = (event.source, event.number)
        copy = (*message, event.target)
        if event.kind is Kind.SEND:
            sent.add(message)
        elif event.kind is Kind.RELEASE:
            assert message in sent
            assert copy not in released
            released.add(copy)
        elif event.kind is Kind.TRANSMIT:
            assert copy in released
        elif event.kind is Kind.ARRIVE:
            assert copy in released
            arrived.add(copy)
        elif event.kind is Kind.DELIVER:
            assert copy in arrived
    assert released == arrived


@pytest.mark.parametrize("until_s", [0.0, 0.2, 0.75])
def test_a_run_with_a_time_limit_is_a_prefix_of_the_complete_run(
    until_s: float,
) -> None:
    whole, history = record(conversation(), seed=1)
    part, events = record(conversation(), seed=1, until_s=until_s)
    assert whole.complete
    assert whole.duration_s > 0.75
    assert not part.complete
    assert part.duration_s <= until_s
    assert part.sender_wait_s is part.wire_s is part.receiver_wait_s is None
    # Events at the limit itself, such as the fault at 0.2, are included.
    assert events == [event for event in history if event.time <= until_s]


def test_a_run_in_slices_is_the_same_run() -> None:
    recorder = MemoryRecorder()
    members = [protocol("hybrid").make(ProcessId(i), ProcessConfig()) for i in range(6)]
    simulator = Simulator(members, WILD, conversation(), EventCounter(recorder), 1)
    events, slices = 0, 0
    while simulator.run(events_max=10):
        events += 10
        slices += 1
        assert simulator.events == events
    summary, history = record(conversation(), seed=1)
    assert recorder.events == history
    assert simulator.events == summary.events
    assert slices == (summary.events - 1) // 10


@pytest.mark.long
def test_progress_is_reported_on_a_long_run() -> None:
    seen: list[tuple[int, float]] = []

    def report(simulator: Simulator) -> None:
        seen.append((simulator.events, simulator.now))

    workload = Uniform(2, 10_000, Pace(gap=Constant(0.01)))
    summary = run("hybrid", workload, Network(), EventCounter(), on_progress=report)
    assert seen
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(seen))
    assert seen[-1][0] < summary.events
    assert seen[-1][1] <= summary.duration_s


def test_the_three_waits_are_the_means_over_all_copies() -> None:
    workload = Uniform(6, 20, Pace(gap=Exponential(0.05)), fan_out=3)
    summary, events = record(workload, seed=2)
    times: dict[Kind, dict[tuple[int | None, int | None, int | None], float]] = {}
    for event in events:
        copies = event.targets if event.kind is Kind.SEND else (event.target,)
        for target in copies or ():
            copy = (event.source, event.number, target)
            times.setdefault(event.kind, {}).setdefault(copy, event.time)

    def mean(later: Kind, earlier: Kind) -> float:
        copies = times[Kind.SEND]
        return sum(times[later][c] - times[earlier][c] for c in copies) / len(copies)

    assert summary.copies == 6 * 20 * 3
    assert summary.sender_wait_s == pytest.approx(mean(Kind.RELEASE, Kind.SEND))
    assert summary.wire_s == pytest.approx(mean(Kind.ARRIVE, Kind.RELEASE))
    assert summary.receiver_wait_s == pytest.approx(mean(Kind.DELIVER, Kind.ARRIVE))


# Comparable runs.


def losses_of(events: list[Event]) -> dict[Copy, list[bool]]:
    """Return for each copy whether each of its transmissions was lost, in order."""
    result: dict[Copy, list[bool]] = {}
    for event, after in zip(events, [*events[1:], None], strict=True):
        if event.kind in (Kind.RELEASE, Kind.TRANSMIT):
            assert event.target is not None
            key = (event.process, event.target, event.number or 0)
            lost = after is not None and after.kind is Kind.DROP
            result.setdefault(key, []).append(lost)
    return result


LOSSY = Network(delay=Everywhere(Exponential(0.2)), loss=0.3)


def busy(seed: int) -> Workload:
    return Uniform(6, 40, Pace(gap=Exponential(0.05), seed=seed))


def test_every_first_transmission_has_the_same_flight_time_under_both_protocols() -> None:
    runs = [
        record(busy(1), LOSSY, name=name, seed=4, policy=PATIENT)[1]
        for name in ("hybrid", "hybrid-basic")
    ]
    releases = [
        [(e.process, e.number, e.time) for e in events if e.kind is Kind.RELEASE]
        for events in runs
    ]
    assert sorted(releases[0]) != sorted(releases[1])  # The protocols do differ.
    optimal, basic = (flight_times(events) for events in runs)
    assert len(optimal) == 240
    assert optimal.keys() == basic.keys()
    for key, flight in optimal.items():
        other = basic[key]
        assert flight == (other if other is None else pytest.approx(other, abs=1e-9))
    lost = sum(flight is None for flight in optimal.values())
    assert abs(lost - 72) < 5 * sqrt(240 * 0.3 * 0.7)


def test_every_retransmission_is_lost_or_not_under_both_protocols() -> None:
    optimal, basic = (
        losses_of(record(busy(1), LOSSY, name=name, seed=4)[1])
        for name in ("hybrid", "hybrid-basic")
    )
    assert optimal.keys() == basic.keys()
    compared = 0
    for key, losses in optimal.items():
        others = basic[key]
        both = min(len(losses), len(others))
        assert losses[:both] == others[:both]
        compared += both - 1
    assert compared > 50  # Retransmissions that both protocols make.


def test_a_reply_has_the_same_flight_time_under_another_number() -> None:
    """The j-th reply of a server to a client is the same one under every protocol."""
    runs: list[dict[Copy, float | None]] = []
    numbers: list[dict[Copy, int]] = []
    for name in ("hybrid", "hybrid-basic"):
        workload = RequestReply(8, 20, Pace(gap=Exponential(0.2)), servers=0.25)
        _, events = record(workload, LOSSY, name=name, seed=4, policy=PATIENT)
        own: dict[Copy, int] = {}
        counts: dict[tuple[int, int], int] = {}
        for event in events:
            if event.kind is Kind.SEND and event.process < 2:
                assert event.targets is not None
                pair = (event.process, event.targets[0])
                counts[pair] = counts.get(pair, 0) + 1
                own[*pair, counts[pair]] = event.number or 0
        taken = flight_times(events)
        runs.append({key: taken[key[0], key[1], number] for key, number in own.items()})
        numbers.append(own)
    assert numbers[0].keys() == numbers[1].keys()
    assert numbers[0] != numbers[1]
    assert len(runs[0]) == 120
    for key, flight in runs[0].items():
        other = runs[1][key]
        assert flight == (other if other is None else pytest.approx(other, abs=1e-9))


def test_another_seed_changes_the_network_and_not_the_work() -> None:
    one, other = (
        flight_times(record(busy(1), LOSSY, seed=seed, policy=PATIENT)[1])
        for seed in (4, 5)
    )
    assert one.keys() == other.keys()
    lost = [{key for key, flight in run.items() if flight is None} for run in (one, other)]
    # Two independent networks lose 0.3 * 0.3 of the copies in common.
    assert abs(len(lost[0] & lost[1]) - 240 * 0.09) < 5 * sqrt(240 * 0.09)
    assert not any(
        flight is not None and flight == other[key] for key, flight in one.items()
    )


# Jobs.

JOBS: dict[str, Callable[[Pace], Workload]] = {
    "uniform": lambda pace: Uniform(5, 20, pace),
    "request-reply": lambda pace: RequestReply(5, 20, pace),
    "conversation": lambda pace: Conversation(5, 20, pace),
}


@pytest.mark.parametrize("name", JOBS)
def test_jobs_run_in_sequence_and_delay_sends(name: str) -> None:
    pace = Pace(gap=Exponential(0.1), service_time=Constant(0.125), service_share=1.0)
    _, events = record(JOBS[name](pace), Network(loss=0.1), seed=3)
    working: dict[int, Event] = {}
    jobs: list[tuple[int, int | None, int | None]] = []
    for event in events:
        if event.kind is Kind.JOB_START:
            assert event.process not in working
            working[event.process] = event
        elif event.kind is Kind.JOB_END:
            start = working.pop(event.process)
            assert (start.source, start.number) == (event.source, event.number)
            assert event.time - start.time == pytest.approx(0.125)
            jobs.append((event.process, event.source, event.number))
        elif event.kind is Kind.SEND:
            assert event.process not in working
    assert not working
    delivered = [(e.process, e.source, e.number) for e in events if e.kind is Kind.DELIVER]
    assert sorted(jobs) == sorted(delivered)  # Every delivery asked for one.
    assert verify_events(events).held


def test_a_server_replies_at_the_end_of_each_job_though_more_are_waiting() -> None:
    """Requests arrive at 0.25 and 0.5; the second job starts when the first ends."""
    pace = Pace(gap=Constant(0.25), service_time=Constant(1.0), service_share=1.0)
    network = Network(delay=Everywhere(Constant(0)))
    _, events = record(RequestReply(2, 2, pace, servers=0.5), network)

    def times(kind: Kind) -> list[float]:
        return [e.time for e in events if e.process == 0 and e.kind is kind]

    assert times(Kind.DELIVER) == [0.25, 0.5]
    assert times(Kind.JOB_START) == [0.25, 1.25]
    assert times(Kind.JOB_END) == [1.25, 2.25]
    assert times(Kind.SEND) == [1.25, 2.25]
