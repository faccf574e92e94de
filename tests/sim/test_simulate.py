"""Runs in virtual time."""

from itertools import pairwise

import pytest

from antecede.core import RetransmissionPolicy
from antecede.errors import ConfigError
from antecede.sim import Network, simulate, summarise
from antecede.trace import Event, Kind

PROTOCOLS = ("hybrid", "hybrid-basic")


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("fan_out", [1, 3])
def test_a_run_holds_on_a_network_that_loses_duplicates_and_reorders(
    name: str, fan_out: int
) -> None:
    run = simulate(
        name,
        processes=8,
        messages=25,
        fan_out=fan_out,
        network=Network(delay_s=0.02, loss=0.1, duplicate=0.1),
        seed=5,
    )
    assert run.verdict.held
    assert run.verdict.messages == 200
    assert run.verdict.deliveries == 200 * fan_out
    kinds = {event.kind for event in run.history}
    assert kinds == set(Kind)  # Faults and all were really there.


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    network = Network(loss=0.1, duplicate=0.1)
    runs = [
        simulate("hybrid", processes=5, messages=10, network=network, seed=seed)
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0].history != runs[2].history


def test_time_never_runs_backwards() -> None:
    run = simulate("hybrid", processes=5, messages=20, network=Network(loss=0.2), seed=1)
    assert all(a.time <= b.time for a, b in pairwise(run.history))


def test_without_faults_nothing_is_lost_or_transmitted_again() -> None:
    """The first time-out is far beyond any delay here, and learned ones follow it."""
    policy = RetransmissionPolicy(initial_s=10, minimum_s=10, maximum_s=10)
    run = simulate(
        "hybrid", processes=5, messages=20, network=Network(delay_s=0.01), policy=policy
    )
    summary = summarise(run.history)
    assert run.verdict.held
    assert summary.retransmissions == 0
    assert Kind.DROP not in {event.kind for event in run.history}


def test_on_a_network_without_delay_nothing_waits() -> None:
    run = simulate("hybrid", processes=4, messages=10, network=Network(delay_s=0))
    summary = summarise(run.history)
    assert run.verdict.held
    assert (summary.sender_wait_s, summary.wire_s, summary.receiver_wait_s) == (0, 0, 0)


def test_a_run_without_messages_is_empty_and_holds() -> None:
    run = simulate("hybrid", processes=2, messages=0)
    assert run.history == ()
    assert run.verdict.held
    assert summarise(run.history).copies == 0


def test_a_negative_gap_is_refused() -> None:
    with pytest.raises(ConfigError, match="gap"):
        simulate("hybrid", processes=2, messages=1, gap_s=-1)


def test_with_no_gap_everything_is_sent_at_the_start() -> None:
    run = simulate("hybrid", processes=3, messages=4, gap_s=0)
    sends = [event.time for event in run.history if event.kind is Kind.SEND]
    assert sends == [0.0] * 12


def test_a_summary_tells_the_three_waits_apart() -> None:
    def event(kind: Kind, process: int, time: float) -> Event:
        return Event(
            process=process,
            kind=kind,
            time=time,
            source=0,
            number=1,
            target=None if kind is Kind.SEND else 1,
            targets=(1,) if kind is Kind.SEND else None,
            metadata_bytes=3 if kind in (Kind.RELEASE, Kind.TRANSMIT) else None,
        )

    control = Event(process=1, kind=Kind.CONTROL, time=9.0, target=0, metadata_bytes=2)
    summary = summarise(
        [
            event(Kind.SEND, 0, 1.0),
            event(Kind.RELEASE, 0, 1.5),
            event(Kind.TRANSMIT, 0, 3.0),
            event(Kind.ARRIVE, 1, 4.0),
            event(Kind.ARRIVE, 1, 5.0),
            event(Kind.DELIVER, 1, 8.0),
            control,
        ]
    )
    assert summary.sender_wait_s == 0.5
    assert summary.wire_s == 2.5
    assert summary.receiver_wait_s == 4.0
    assert (summary.messages, summary.copies) == (1, 1)
    assert (summary.retransmissions, summary.control_frames) == (1, 1)
    assert summary.metadata_bytes_per_copy == 8
    assert summary.duration_s == 9.0
