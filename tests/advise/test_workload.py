"""Recorded traffic as a workload: its dependencies stay, what cannot is counted."""

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from antecede.advise import traffic as made
from antecede.advise.network import find_delays
from antecede.advise.traffic import paced, take_traffic, write_traffic
from antecede.errors import ConfigError
from antecede.sim.simulate import Scenario, simulate
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.program import Program, replay
from antecede.sim.workloads.synthetic import Pace
from antecede.trace.event import Event, Kind
from antecede.trace.reader import Trace, read_trace
from tests.advise.recorded import (
    deliver,
    lost,
    pasts,
    program_steps,
    recorded_steps,
    send,
    trace_of,
)
from tests.ingest.story import STORY, as_tracechecker, random_log, read, span_csv, write

DATA = Path(__file__).parents[3] / "shared" / "data"


def ingested(path: Path, directory: Path) -> Trace:
    return read_trace(read(path, directory).directory)


@pytest.fixture(params=["spans", "tokens 1", "tokens 2"])
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    """A foreign trace; in that of spans, and in some others, messages overtake."""
    kind, _, seed = request.param.partition(" ")
    if kind == "spans":
        path = write(tmp_path / "spans.csv", span_csv(STORY))
    else:
        log = as_tracechecker(random_log(int(seed), processes=5, steps=200))
        path = write(tmp_path / "trace.log", log)
    return ingested(path, tmp_path / "trace")


def test_the_program_has_the_recorded_sends_each_after_the_same_deliveries(
    trace: Trace, tmp_path: Path
) -> None:
    """Equal: by process, its sends in their order, their targets, and what it heard."""
    traffic = take_traffic(trace, messages_max=1000)
    write_traffic(traffic, tmp_path / "workload")
    program = make_workload(f"replay:{tmp_path / 'workload'}", 2, 1, Pace())
    assert isinstance(program, Program)
    wanted = recorded_steps(traffic.events)
    assert sum(len(own) for own in wanted.values()) == traffic.messages > 3
    assert program_steps(program) == wanted
    # Of the trace itself, before anything was left out, the messages with targets.
    assert traffic.messages + traffic.left_out.get(made.NOWHERE, 0) == sum(
        event.kind is Kind.SEND for event in trace.events()
    )


@pytest.mark.parametrize("protocol", ["hybrid", "optimal", "cykas", "unordered"])
def test_whatever_happened_before_a_message_does_so_in_every_replay(
    trace: Trace, protocol: str
) -> None:
    traffic = take_traffic(trace, messages_max=1000)
    recorded = pasts(traffic.events)
    again = simulate(
        Scenario(protocol=protocol, delay="exponential:0.02", loss=0.05, seed=3),
        workload=replay(traffic.events, traffic.processes),
    )
    assert again.outcome.complete
    assert lost(recorded, pasts(again.history)) == []
    assert again.verdict.held or protocol == "unordered"


def test_a_replay_that_forgets_a_dependency_is_noticed(tmp_path: Path) -> None:
    log = as_tracechecker(random_log(1, processes=5, steps=200))
    trace = ingested(write(tmp_path / "trace.log", log), tmp_path / "trace")
    traffic = take_traffic(trace, messages_max=1000)
    whole = replay(traffic.events, traffic.processes)
    hasty = Program(
        traffic.processes,
        [replace(each, after=()) for own in whole.sends for each in own],
    )
    assert program_steps(hasty) != recorded_steps(traffic.events)
    again = simulate(Scenario(protocol="hybrid", seed=3), workload=hasty)
    assert lost(pasts(traffic.events), pasts(again.history)) != []


def test_pauses_are_those_of_a_processs_own_clock(tmp_path: Path) -> None:
    """The clock of process 1 is an hour ahead, which changes nothing."""
    events = [
        send(0, 1, 1, time=5.0),
        deliver(1, 0, 1, time=3605.5),
        send(1, 1, 0, time=3607.5),
        deliver(0, 1, 1, time=7.75),
        send(0, 2, 1, time=8.0),
    ]
    traffic = take_traffic(trace_of(events, tmp_path / "t", 2), messages_max=9)
    (first, second), (answer,) = replay(traffic.events, 2).sends
    assert (first.wait_s, second.wait_s, answer.wait_s) == (5.0, 0.25, 2.0)


def test_a_message_that_nobody_received_does_not_become_a_broadcast(tmp_path: Path) -> None:
    log = random_log(1, processes=4, steps=60)
    got = {event.token for event in log if event.is_receive}
    unheard = [event for event in log if event.token is not None and event.token not in got]
    trace = ingested(write(tmp_path / "t.log", as_tracechecker(log)), tmp_path / "trace")
    traffic = take_traffic(trace, messages_max=1000)
    assert unheard
    assert traffic.left_out == {made.NOWHERE: len(unheard)}
    assert not traffic.broadcast
    assert all(event.targets for event in traffic.events if event.kind is Kind.SEND)


def test_what_cannot_be_replayed_is_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
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
    traffic = take_traffic(
        trace_of(events, tmp_path / "t", 3, foreign=True), messages_max=9
    )
    assert traffic.left_out == {
        made.TO_ITSELF: 1, made.UNSENT: 1, made.TWICE: 1, made.ASTRAY: 1,
    }  # fmt: skip
    assert (traffic.messages, traffic.copies) == (2, 2)
    sends = replay(traffic.events, 3).sends
    assert [each.targets for each in sends[0]] == [(1,)]
    assert [each.after for each in sends[1]] == [((0, 1),)]


def test_a_prefix_holds_all_that_happened_before_it(trace: Trace) -> None:
    whole = pasts(take_traffic(trace, messages_max=1000).events)
    part = take_traffic(trace, messages_max=3)
    assert part.is_cut
    assert part.messages + sum(part.left_out.values()) == 3
    found = pasts(part.events)
    assert all(past <= found.keys() for past in found.values())
    assert len(found) < len(whole)
    replay(part.events, part.processes)  # It can be run.


def test_a_short_trace_is_not_cut(trace: Trace) -> None:
    sends = sum(event.kind is Kind.SEND for event in trace.events())
    assert not take_traffic(trace, messages_max=sends).is_cut
    assert take_traffic(trace, messages_max=sends - 1).is_cut


def broadcast_run() -> tuple[Event, ...]:
    scenario = Scenario(protocol="vector", processes=3, messages=3, workload="broadcast")
    return simulate(scenario).history


def test_broadcasts_of_our_own_stay_broadcasts(tmp_path: Path) -> None:
    traffic = take_traffic(trace_of(broadcast_run(), tmp_path / "t", 3), messages_max=99)
    assert traffic.broadcast
    assert traffic.copies == 2 * traffic.messages
    assert traffic.left_out == {}
    assert replay(traffic.events, 3).broadcast


def test_messages_to_everybody_else_are_broadcasts(tmp_path: Path) -> None:
    events = [send(0, 1, 1, 2), deliver(1, 0, 1), send(1, 1, 0, 2)]
    everybody = take_traffic(trace_of(events, tmp_path / "a", 3), messages_max=9)
    assert everybody.broadcast
    some = take_traffic(
        trace_of([*events, send(2, 1, 0)], tmp_path / "b", 3), messages_max=9
    )
    assert not some.broadcast


def test_broadcasts_among_other_messages_get_the_targets_that_delivered_them(
    tmp_path: Path,
) -> None:
    events = [*broadcast_run(), send(0, 99, 2)]
    traffic = take_traffic(trace_of(events, tmp_path / "t", 3), messages_max=99)
    assert not traffic.broadcast
    assert traffic.left_out == {made.NAMED: traffic.messages - 1}


def test_traffic_without_times_gets_a_pause_before_every_event(tmp_path: Path) -> None:
    events = [send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0), send(1, 2, 0)]
    traffic = take_traffic(trace_of(events, tmp_path / "t", 2), messages_max=9)
    assert not traffic.has_times
    sends = replay(paced(traffic, 0.5).events, 2).sends
    assert [each.wait_s for own in sends for each in own] == [0.5, 0.5, 0.5]


def test_a_directory_keeps_one_traffic_only(tmp_path: Path) -> None:
    events = [send(0, 1, 1), deliver(1, 0, 1)]
    one = take_traffic(trace_of(events, tmp_path / "t", 2), messages_max=9)
    write_traffic(one, tmp_path / "workload")
    write_traffic(one, tmp_path / "workload")
    with pytest.raises(ConfigError, match=r"holds other traffic.*--out"):
        write_traffic(paced(one, 1.0), tmp_path / "workload")


@pytest.mark.parametrize(
    ("events", "processes", "words"),
    [
        ([send(0, 1, 0)], 2, "no message to replay"),
        ([], 1, "nobody to send to"),
    ],
    ids=["no message", "one process"],
)
def test_traffic_of_nothing_is_refused(
    events: list[Event], processes: int, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        take_traffic(trace_of(events, tmp_path / "t", processes), messages_max=9)


def test_no_messages_at_all_are_refused(tmp_path: Path) -> None:
    trace = trace_of([send(0, 1, 1)], tmp_path / "t", 2)
    with pytest.raises(ConfigError, match="--messages-max must be at least 1"):
        take_traffic(trace, messages_max=0)


def test_a_replay_begins_anew_each_time_and_notices_another_trace(tmp_path: Path) -> None:
    """The trace is read once for all cells of a study, but a workload serves one run."""
    words = f"replay:{tmp_path / 'workload'}"
    events = [send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0)]
    traffic = take_traffic(trace_of(events, tmp_path / "t", 2), messages_max=9)
    write_traffic(traffic, tmp_path / "workload")
    for _ in range(2):
        again = simulate(Scenario(protocol="hybrid", processes=2, workload=words))
        assert again.outcome.copies == 2
    rmtree(tmp_path / "workload")
    short = take_traffic(trace_of(events[:2], tmp_path / "s", 2), messages_max=9)
    write_traffic(short, tmp_path / "workload")
    again = simulate(Scenario(protocol="hybrid", processes=2, workload=words))
    assert again.outcome.copies == 1


@pytest.mark.skipif(not DATA.is_dir(), reason="optional: shared data")
@pytest.mark.parametrize(
    ("name", "messages", "origin"),
    [
        ("tracechecker/example1.log", 179, "default"),
        ("nezha/trainticket-08_45_trace.csv.gz", 1613, "trace"),
    ],
    ids=["tokens", "spans"],
)
def test_real_traffic_keeps_its_dependencies(
    name: str, messages: int, origin: str, tmp_path: Path
) -> None:
    trace = ingested(DATA / name, tmp_path / "trace")
    traffic = take_traffic(trace, messages_max=20_000)
    assert (traffic.messages, traffic.copies, traffic.is_cut) == (messages, messages, False)
    assert find_delays(traffic.events).origin == origin
    program = replay(traffic.events, traffic.processes)
    assert program_steps(program) == recorded_steps(trace.events())
    again = simulate(
        Scenario(protocol="hybrid", delay="exponential:0.002"), workload=program
    )
    assert lost(pasts(traffic.events), pasts(again.history)) == []
