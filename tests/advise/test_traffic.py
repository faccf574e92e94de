"""Recorded traffic as a workload: dependencies are preserved, skipped events counted."""

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from antecede.advise import traffic as reasons
from antecede.advise.network import find_delays
from antecede.advise.traffic import extract_traffic, with_pauses, write_traffic
from antecede.errors import ConfigError
from antecede.sim.simulate import Scenario, simulate
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.program import Program, replay
from antecede.sim.workloads.synthetic import Pace
from antecede.trace.event import Event, Kind
from antecede.trace.reader import Trace, read_trace
from tests.advise.recorded import (
    deliver,
    lost_pairs,
    pasts,
    program_steps,
    recorded_steps,
    send,
    trace_of,
)
from tests.ingest.foreign_samples import (
    SHOP_SPANS,
    as_tracechecker,
    ingest_file,
    random_log,
    span_csv,
    write_sample,
)

DATA = Path(__file__).parents[3] / "shared" / "data"


def ingested(path: Path, directory: Path) -> Trace:
    return read_trace(ingest_file(path, directory).directory)


@pytest.fixture(params=["spans", "tokens 1", "tokens 2"])
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    """A foreign trace; in some of them, messages overtake each other."""
    kind, _, seed = request.param.partition(" ")
    if kind == "spans":
        path = write_sample(tmp_path / "spans.csv", span_csv(SHOP_SPANS))
    else:
        log = as_tracechecker(random_log(int(seed), processes=5, steps=200))
        path = write_sample(tmp_path / "trace.log", log)
    return ingested(path, tmp_path / "trace")


def test_the_program_has_the_recorded_sends_each_after_the_same_deliveries(
    trace: Trace, tmp_path: Path
) -> None:
    """Equal per process: the sends in order, their targets, and the deliveries before."""
    traffic = extract_traffic(trace, messages_max=1000)
    write_traffic(traffic, tmp_path / "workload")
    program = make_workload(f"replay:{tmp_path / 'workload'}", 2, 1, Pace())
    assert isinstance(program, Program)
    wanted = recorded_steps(traffic.events)
    assert sum(len(own) for own in wanted.values()) == traffic.messages > 3
    assert program_steps(program) == wanted
    # Together with the skipped messages, these are all messages of the trace.
    assert traffic.messages + traffic.skipped.get(reasons.NO_TARGET, 0) == sum(
        event.kind is Kind.SEND for event in trace.events()
    )


@pytest.mark.parametrize("protocol", ["hybrid", "optimal", "cykas", "unordered"])
def test_every_replay_preserves_happened_before(trace: Trace, protocol: str) -> None:
    traffic = extract_traffic(trace, messages_max=1000)
    recorded = pasts(traffic.events)
    again = simulate(
        Scenario(protocol=protocol, delay="exponential:0.02", loss=0.05, seed=3),
        workload=replay(traffic.events, traffic.processes),
    )
    assert again.summary.complete
    assert lost_pairs(recorded, pasts(again.history)) == []
    assert again.verdict.held or protocol == "unordered"


def test_a_replay_without_dependencies_is_detected(tmp_path: Path) -> None:
    log = as_tracechecker(random_log(1, processes=5, steps=200))
    trace = ingested(write_sample(tmp_path / "trace.log", log), tmp_path / "trace")
    traffic = extract_traffic(trace, messages_max=1000)
    whole = replay(traffic.events, traffic.processes)
    hasty = Program(
        traffic.processes,
        [replace(each, after=()) for own in whole.sends for each in own],
    )
    assert program_steps(hasty) != recorded_steps(traffic.events)
    again = simulate(Scenario(protocol="hybrid", seed=3), workload=hasty)
    assert lost_pairs(pasts(traffic.events), pasts(again.history)) != []


def test_pauses_are_measured_by_the_clock_of_the_process(tmp_path: Path) -> None:
    """The clock of process 1 is an hour ahead, which has no effect."""
    events = [
        send(0, 1, 1, time=5.0),
        deliver(1, 0, 1, time=3605.5),
        send(1, 1, 0, time=3607.5),
        deliver(0, 1, 1, time=7.75),
        send(0, 2, 1, time=8.0),
    ]
    traffic = extract_traffic(trace_of(events, tmp_path / "t", 2), messages_max=9)
    (first, second), (answer,) = replay(traffic.events, 2).sends
    assert (first.wait_s, second.wait_s, answer.wait_s) == (5.0, 0.25, 2.0)


def test_a_message_without_a_receiver_does_not_become_a_broadcast(tmp_path: Path) -> None:
    log = random_log(1, processes=4, steps=60)
    got = {event.token for event in log if event.is_receive}
    unheard = [event for event in log if event.token is not None and event.token not in got]
    trace = ingested(
        write_sample(tmp_path / "t.log", as_tracechecker(log)), tmp_path / "trace"
    )
    traffic = extract_traffic(trace, messages_max=1000)
    assert unheard
    assert traffic.skipped == {reasons.NO_TARGET: len(unheard)}
    assert not traffic.broadcast
    assert all(event.targets for event in traffic.events if event.kind is Kind.SEND)


def test_skipped_events_are_counted_and_the_rest_is_replayed(tmp_path: Path) -> None:
    events = [
        deliver(1, 0, 9),  # It is never sent.
        send(0, 1, 0),  # To itself.
        send(0, 2, 1, 0),
        deliver(0, 0, 2),
        deliver(1, 0, 2),
        deliver(1, 0, 2),
        deliver(2, 0, 2),  # It was not for process 2.
        send(1, 1, 2),
    ]
    traffic = extract_traffic(
        trace_of(events, tmp_path / "t", 3, foreign=True), messages_max=9
    )
    assert traffic.skipped == {
        reasons.SELF_ADDRESSED: 1,
        reasons.NO_SEND: 1,
        reasons.DUPLICATE: 1,
        reasons.WRONG_TARGET: 1,
    }
    assert (traffic.messages, traffic.copies) == (2, 2)
    sends = replay(traffic.events, 3).sends
    assert [each.targets for each in sends[0]] == [(1,)]
    assert [each.after for each in sends[1]] == [((0, 1),)]


def test_a_short_trace_is_not_sampled(trace: Trace) -> None:
    sends = sum(event.kind is Kind.SEND for event in trace.events())
    assert not extract_traffic(trace, messages_max=sends).is_sample
    part = extract_traffic(trace, messages_max=sends - 1)
    assert part.is_sample
    assert part.recorded_messages == sends
    replay(part.events, part.processes)  # Does not raise.


def broadcast_run() -> tuple[Event, ...]:
    scenario = Scenario(protocol="vector", processes=3, messages=3, workload="broadcast")
    return simulate(scenario).history


def test_broadcasts_of_an_antecede_trace_stay_broadcasts(tmp_path: Path) -> None:
    traffic = extract_traffic(trace_of(broadcast_run(), tmp_path / "t", 3), messages_max=99)
    assert traffic.broadcast
    assert traffic.copies == 2 * traffic.messages
    assert traffic.skipped == {}
    assert replay(traffic.events, 3).broadcast


def test_messages_to_all_other_processes_are_broadcasts(tmp_path: Path) -> None:
    events = [send(0, 1, 1, 2), deliver(1, 0, 1), send(1, 1, 0, 2)]
    everybody = extract_traffic(trace_of(events, tmp_path / "a", 3), messages_max=9)
    assert everybody.broadcast
    some = extract_traffic(
        trace_of([*events, send(2, 1, 0)], tmp_path / "b", 3), messages_max=9
    )
    assert not some.broadcast


def test_broadcasts_among_other_messages_get_the_targets_that_delivered_them(
    tmp_path: Path,
) -> None:
    events = [*broadcast_run(), send(0, 99, 2)]
    traffic = extract_traffic(trace_of(events, tmp_path / "t", 3), messages_max=99)
    assert not traffic.broadcast
    assert traffic.skipped == {reasons.NARROWED: traffic.messages - 1}


def test_traffic_without_times_has_a_pause_before_every_event(tmp_path: Path) -> None:
    events = [send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0), send(1, 2, 0)]
    traffic = extract_traffic(trace_of(events, tmp_path / "t", 2), messages_max=9)
    assert not traffic.has_times
    sends = replay(with_pauses(traffic, 0.5).events, 2).sends
    assert [each.wait_s for own in sends for each in own] == [0.5, 0.5, 0.5]


def test_a_directory_with_other_traffic_is_refused(tmp_path: Path) -> None:
    events = [send(0, 1, 1), deliver(1, 0, 1)]
    one = extract_traffic(trace_of(events, tmp_path / "t", 2), messages_max=9)
    write_traffic(one, tmp_path / "workload")
    write_traffic(one, tmp_path / "workload")
    with pytest.raises(ConfigError, match=r"contains other traffic.*--out"):
        write_traffic(with_pauses(one, 1.0), tmp_path / "workload")


@pytest.mark.parametrize(
    ("events", "processes", "message"),
    [
        ([send(0, 1, 0)], 2, "no message with known targets"),
        ([], 1, "needs 2 processes"),
    ],
    ids=["no message", "one process"],
)
def test_a_trace_without_traffic_is_refused(
    events: list[Event], processes: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        extract_traffic(trace_of(events, tmp_path / "t", processes), messages_max=9)


def test_a_limit_of_no_messages_is_refused(tmp_path: Path) -> None:
    trace = trace_of([send(0, 1, 1)], tmp_path / "t", 2)
    with pytest.raises(ConfigError, match="--messages-max must be at least 1"):
        extract_traffic(trace, messages_max=0)


def test_every_replay_starts_fresh_and_reads_a_changed_trace(tmp_path: Path) -> None:
    """The trace is read once for all cells of a study, but a workload is for one run."""
    workload = f"replay:{tmp_path / 'workload'}"
    events = [send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0)]
    traffic = extract_traffic(trace_of(events, tmp_path / "t", 2), messages_max=9)
    write_traffic(traffic, tmp_path / "workload")
    for _ in range(2):
        again = simulate(Scenario(protocol="hybrid", processes=2, workload=workload))
        assert again.summary.copies == 2
    rmtree(tmp_path / "workload")
    short = extract_traffic(trace_of(events[:2], tmp_path / "s", 2), messages_max=9)
    write_traffic(short, tmp_path / "workload")
    again = simulate(Scenario(protocol="hybrid", processes=2, workload=workload))
    assert again.summary.copies == 1


@pytest.mark.skipif(not DATA.is_dir(), reason="optional: shared data")
@pytest.mark.parametrize(
    ("name", "messages", "origin"),
    [
        ("tracechecker/example1.log", 179, "default"),
        ("nezha/trainticket-08_45_trace.csv.gz", 1613, "trace"),
    ],
    ids=["tokens", "spans"],
)
def test_the_replay_of_real_traffic_preserves_dependencies(
    name: str, messages: int, origin: str, tmp_path: Path
) -> None:
    trace = ingested(DATA / name, tmp_path / "trace")
    traffic = extract_traffic(trace, messages_max=20_000)
    assert (traffic.messages, traffic.copies) == (messages, messages)
    assert not traffic.is_sample
    assert find_delays(traffic.events).origin == origin
    program = replay(traffic.events, traffic.processes)
    assert program_steps(program) == recorded_steps(trace.events())
    again = simulate(
        Scenario(protocol="hybrid", delay="exponential:0.002"), workload=program
    )
    assert lost_pairs(pasts(traffic.events), pasts(again.history)) == []
