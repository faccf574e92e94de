"""A sample of a long trace represents all of it."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from antecede.advise.network import find_delays
from antecede.advise.sampling import GAP_S, WINDOWS, sample_events
from antecede.advise.traffic import NO_SEND, NOT_SAMPLED, extract_traffic, with_pauses
from antecede.sim import Scenario, simulate
from antecede.sim.workloads.program import replay
from antecede.trace.event import Event, Kind
from antecede.trace.reader import read_trace
from tests.advise.recorded import deliver, pasts, send, trace_of
from tests.verify.test_verifier import cluster_run


def exchange(
    client: int, server: int, number: int, start: float, delay: float
) -> list[Event]:
    """Return a request and its reply, each of which takes ``delay``."""
    return [
        replace(send(client, number, server), time=start),
        replace(deliver(server, client, number), time=start + delay),
        replace(send(server, number, client), time=start + delay),
        replace(deliver(client, server, number), time=start + 2 * delay),
    ]


def changing_run() -> list[Event]:
    """Return 100 quick exchanges of 0 and 1, then 500 slow ones of 2 and 3."""
    events: list[Event] = []
    for number in range(1, 101):
        events += exchange(0, 1, number, number, 1 / 1024)
    for number in range(1, 501):
        events += exchange(2, 3, number, 200 + number, 1 / 8)
    return events


def test_a_sample_reflects_traffic_that_changes_after_its_beginning(tmp_path: Path) -> None:
    trace = trace_of(changing_run(), tmp_path / "t", 4)
    traffic = extract_traffic(trace, messages_max=120)
    assert (traffic.sampled_messages, traffic.recorded_messages) == (120, 1200)
    assert len(traffic.window_starts) == WINDOWS
    sources = Counter(e.source for e in traffic.events if e.kind is Kind.SEND)
    # Windows of 12 messages begin at every 132nd: two of ten are in the first phase.
    assert sources == {0: 12, 1: 12, 2: 48, 3: 48}
    assert find_delays(traffic.events).delay == "lognormal:0.125,0"
    # The first 120 messages show another network.
    assert find_delays(changing_run()[:240]).delay == "lognormal:0.000977,0"


def test_windows_are_as_far_apart_as_recorded_up_to_a_limit(tmp_path: Path) -> None:
    events: list[Event] = []
    for number in range(1, 101):
        events += [
            replace(send(0, number, 1), time=1000.0 * number),
            replace(deliver(1, 0, number), time=1000.0 * number + 1),
        ]
    sample = sample_events(trace_of(events, tmp_path / "t", 2), 10, windows=5)
    sends = [event for event in sample.events if event.kind is Kind.SEND]
    # Windows of two messages begin with these of the 100 messages.
    assert [e.number for e in sends] == [1, 2, 25, 26, 50, 51, 74, 75, 99, 100]
    times = [event.time for event in sends]
    assert [b - a for a, b in pairwise(times)] == [
        1000,
        61,
        1000,
        61,
        1000,
        61,
        1000,
        61,
        1000,
    ]
    assert GAP_S == 60


def test_short_gaps_are_kept(tmp_path: Path) -> None:
    events = [replace(send(0, n, 1), time=n / 4) for n in range(1, 101)]
    sample = sample_events(trace_of(events, tmp_path / "t", 2), 10, windows=5)
    assert [e.time for e in sample.events] == [(e.number or 0) / 4 for e in sample.events]


def test_a_window_keeps_what_happened_before_among_its_messages(tmp_path: Path) -> None:
    ordered = 0
    for seed in range(20):
        run = cluster_run(Random(seed), 4, 120, 2)
        recorded = pasts(e for e in run if e.kind in (Kind.SEND, Kind.DELIVER))
        if len(recorded) < 12:
            continue
        trace = trace_of(run, tmp_path / str(seed), 4)
        sample = sample_events(trace, 12, windows=3)
        bounds = [*sample.window_starts, len(sample.events)]
        for first, end in pairwise(bounds):
            window = sample.events[first:end]
            own = {(e.source, e.number) for e in window if e.kind is Kind.SEND}
            kept = pasts(
                e
                for e in window
                if e.kind is Kind.SEND
                or (e.kind is Kind.DELIVER and (e.source, e.number) in own)
            )
            assert kept == {message: recorded[message] & own for message in kept}
            ordered += sum(map(len, kept.values()))
        replay(extract_traffic(trace, messages_max=12, windows=3).events, 4)
    assert ordered > 100


def test_windows_of_a_trace_without_times_are_apart(tmp_path: Path) -> None:
    events = [event for n in range(1, 41) for event in (send(0, n, 1), deliver(1, 0, n))]
    traffic = extract_traffic(
        trace_of(events, tmp_path / "t", 2), messages_max=12, windows=3
    )
    assert not traffic.has_times
    paced = with_pauses(traffic, 0.5)
    parts = [*traffic.window_starts, len(paced.events)]
    times = [[e.time for e in paced.events[a:b]] for a, b in pairwise(parts)]
    # Four messages in each window; the next begins 1000 pauses later.
    assert times == [
        [0.5, 0.5, 1.0, 1.0, 1.5, 1.5, 2.0, 2.0],
        [t + 502.0 for t in times[0]],
        [t + 1004.0 for t in times[0]],
    ]


def test_deliveries_of_messages_before_a_window_are_counted_as_such(tmp_path: Path) -> None:
    events = [send(0, n, 1) for n in range(1, 11)]
    events += [deliver(1, 0, n) for n in range(1, 11)]
    trace = trace_of(events, tmp_path / "t", 2)
    traffic = extract_traffic(trace, messages_max=2, windows=2)
    # The last window has the send of 0:10 and all deliveries; 0:1 is in the first window.
    assert traffic.skipped == {NOT_SAMPLED: 8}
    assert NO_SEND not in extract_traffic(trace, messages_max=10).skipped


@pytest.mark.parametrize(
    ("messages_max", "windows"), [(1, 10), (3, 10), (7, 2), (1199, 10)]
)
def test_windows_do_not_overlap(messages_max: int, windows: int, tmp_path: Path) -> None:
    trace = trace_of(changing_run(), tmp_path / "t", 4)
    sample = sample_events(trace, messages_max, windows)
    sends = [(e.source, e.number) for e in sample.events if e.kind is Kind.SEND]
    assert len(sends) == len(set(sends)) == sample.sampled_messages <= messages_max
    assert sample.sampled_messages > messages_max - windows


def test_a_sample_is_replayed_like_any_traffic(tmp_path: Path) -> None:
    trace = trace_of(changing_run(), tmp_path / "t", 4)
    traffic = extract_traffic(read_trace(trace.path), messages_max=120)
    program = replay(traffic.events, traffic.processes)
    done = simulate(Scenario(protocol="hybrid", delay="0.01"), workload=program)
    assert done.verdict.held
    assert done.verdict.messages == 120
