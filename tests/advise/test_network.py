"""Delays from round trips are exact for any offset between clocks."""

import random

import pytest

from antecede.advise.network import (
    Delays,
    find_delays,
    round_trips,
    scaled,
    typical_delay,
)
from antecede.errors import ConfigError
from antecede.sim.delay import parse_delay
from antecede.trace.event import Event
from tests.advise.recorded import deliver, send


def calls(count: int, *, ahead: float = 0.0) -> tuple[list[Event], list[float]]:
    """Return calls from 0 to 1, whose clock is ahead, and the round trips."""
    rng = random.Random(1)
    events: list[Event] = []
    trips: list[float] = []
    now = 0.0
    for number in range(1, count + 1):
        forth, back = rng.uniform(0.01, 0.03), rng.uniform(0.01, 0.05)
        work = rng.uniform(0.1, 2.0)
        events += [
            send(0, number, 1, time=now),
            deliver(1, 0, number, time=now + forth + ahead),
            send(1, number, 0, time=now + forth + work + ahead),
            deliver(0, 1, number, time=now + forth + work + back),
        ]
        now += forth + work + back + 1
        trips.append(forth + back)
    return events, trips


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -0.5])
def test_round_trips_depend_neither_on_clocks_nor_on_service_times(ahead: float) -> None:
    events, trips = calls(50, ahead=ahead)
    assert round_trips(events) == pytest.approx(trips, abs=1e-6)
    found = find_delays(events)
    assert (found.origin, found.samples) == ("trace", 50)
    median = sorted(trips)[25]
    assert typical_delay(found.delay) == pytest.approx(median / 2, rel=0.1)
    assert "50" in str(found)


def test_replies_that_overtake_each_other_have_the_same_sum_of_round_trips() -> None:
    """Two concurrent calls: the sum does not depend on the pairing."""
    events = [
        send(0, 1, 1, time=0.0),
        send(0, 2, 1, time=0.0),
        deliver(1, 0, 1, time=101.0),  # Its clock is 100 s ahead, and the delay 1 s.
        deliver(1, 0, 2, time=102.0),
        send(1, 1, 0, time=103.0),
        send(1, 2, 0, time=103.0),
        deliver(0, 1, 2, time=7.0),
        deliver(0, 1, 1, time=8.0),
    ]
    assert sum(round_trips(events)) == pytest.approx((1 + 2) + (4 + 5))


def test_no_message_is_in_two_round_trips() -> None:
    events = [send(0, 1, 1), deliver(1, 0, 1, time=1.0)]
    for number in range(1, 4):
        events += [send(1, number, 0, time=2.0), deliver(0, 1, number, time=3.0)]
    assert round_trips(events) == [2.0]


def test_the_option_has_priority_over_the_trace_and_the_trace_over_the_default() -> None:
    events, _ = calls(50)
    assert find_delays(events, "0.2") == Delays(delay="0.2", origin="option")
    few = find_delays(events[: 4 * 19])
    assert (few.delay, few.origin, few.samples) == ("exponential:0.05", "default", 19)
    assert find_delays([]).samples == 0
    with pytest.raises(ConfigError, match="is not a valid distribution"):
        find_delays(events, "soon")


def test_a_trace_without_times_has_no_round_trips() -> None:
    events = [send(0, 1, 1), deliver(1, 0, 1), send(1, 1, 0), deliver(0, 1, 1)] * 30
    assert find_delays(events) == Delays(delay="exponential:0.05", origin="default")


@pytest.mark.parametrize(
    ("delay", "ten_times"),
    [
        ("0.002", "0.02"),
        ("constant:0.002", "constant:0.02"),
        ("uniform:0.001,0.003", "uniform:0.01,0.03"),
        ("exponential:0.05,0.01", "exponential:0.5,0.1"),
        ("lognormal:0.05,0.5", "lognormal:0.5,0.5"),
        ("normal:0.05,0.01", "normal:0.5,0.1"),
        ("geographic:0.05,0.01,0.2", "geographic:0.5,0.1,0.2"),
    ],
)
def test_a_delay_can_be_scaled(delay: str, ten_times: str) -> None:
    assert scaled(delay, 10) == ten_times
    parse_delay(ten_times)
    assert typical_delay(ten_times) == pytest.approx(10 * typical_delay(delay))
