"""Scenarios: from parameters to a verified run."""

from collections import Counter
from math import inf

import pytest

from antecede.core import ProcessConfig, RetransmissionPolicy
from antecede.errors import ConfigError
from antecede.sim import Network, Scenario, SimulationResult, simulate
from antecede.trace import Kind

PROTOCOLS = ("hybrid", "hybrid-basic")


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("fan_out", [1, 3])
def test_a_run_holds_on_a_network_that_loses_duplicates_and_reorders(
    name: str, fan_out: int
) -> None:
    run = simulate(
        Scenario(
            protocol=name,
            processes=8,
            messages=25,
            workload=f"uniform:fan_out={fan_out}",
            delay="exponential:0.02",
            loss=0.1,
            duplicate=0.1,
            reorder=0.1,
            seed=5,
        )
    )
    assert run.verdict.held
    assert run.summary.complete
    assert run.verdict.messages == 200
    assert run.verdict.deliveries == 200 * fan_out
    assert run.summary.dropped_frames > 0
    assert run.summary.retransmissions > 0


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    runs = [simulate(Scenario(loss=0.1, duplicate=0.1, seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0].history != runs[2].history


def test_silent_members_crash_at_their_time_and_send_nothing_afterwards() -> None:
    run = simulate(Scenario(silent_members=2, silent_from_s=0.3, until_s=2.0))
    crashes = [(e.process, e.time) for e in run.history if e.kind is Kind.CRASH]
    assert crashes == [(8, 0.3), (9, 0.3)]
    late = {event.process for event in run.history if event.time > 0.3}
    assert late == set(range(8))
    assert not run.summary.complete
    assert run.verdict.held


def test_without_faults_nothing_is_lost_or_retransmitted() -> None:
    policy = RetransmissionPolicy(initial_s=10, minimum_s=10, maximum_s=10)
    run = simulate(Scenario(delay="exponential:0.01"), config=ProcessConfig(policy=policy))
    assert run.verdict.held
    assert run.summary.retransmissions == 0
    assert run.summary.dropped_frames == 0


def test_on_a_network_without_delay_nothing_waits() -> None:
    summary = simulate(Scenario(delay="0")).summary
    assert (summary.sender_wait_s, summary.wire_s, summary.receiver_wait_s) == (0, 0, 0)


def test_a_run_without_messages_is_empty_and_holds() -> None:
    run = simulate(Scenario(messages=0))
    assert run.history == ()
    assert run.verdict.held
    assert run.summary.sender_wait_s is None
    assert run.summary.metadata_bytes_per_copy == 0


def first_times(run: SimulationResult, kind: Kind) -> dict[tuple[int | None, ...], float]:
    """Return the first time of a kind for each copy, or for each message when sent."""
    times: dict[tuple[int | None, ...], float] = {}
    for event in run.history:
        if event.kind is kind:
            times.setdefault((event.source, event.number, event.target), event.time)
    return times


def test_the_three_waits_equal_those_of_the_events() -> None:
    run = simulate(Scenario(loss=0.1, duplicate=0.2, seed=2))
    sent = first_times(run, Kind.SEND)
    released, arrived, delivered = (
        first_times(run, kind) for kind in (Kind.RELEASE, Kind.ARRIVE, Kind.DELIVER)
    )
    copies = len(released)
    assert run.summary.copies == copies
    waits = (
        sum(released[copy] - sent[(*copy[:2], None)] for copy in released) / copies,
        sum(arrived[copy] - released[copy] for copy in released) / copies,
        sum(delivered[copy] - arrived[copy] for copy in released) / copies,
    )
    summary = run.summary
    assert (
        summary.sender_wait_s,
        summary.wire_s,
        summary.receiver_wait_s,
    ) == pytest.approx(waits)


def test_frames_and_bytes_are_those_of_the_events() -> None:
    run = simulate(Scenario(loss=0.1, payload_bytes="40"))
    kinds = Counter(event.kind for event in run.history)
    summary = run.summary
    assert summary.control_frames == kinds[Kind.CONTROL] > 0
    assert summary.retransmissions == kinds[Kind.TRANSMIT] > 0
    assert summary.dropped_frames == kinds[Kind.DROP] > 0
    assert summary.payload_bytes == 40 * (kinds[Kind.RELEASE] + kinds[Kind.TRANSMIT])
    assert summary.metadata_bytes == sum(e.metadata_bytes or 0 for e in run.history)


def test_a_run_with_a_time_limit_is_verified_up_to_it() -> None:
    run = simulate(Scenario(until_s=0.2))
    assert not run.summary.complete
    assert run.summary.wire_s is None
    assert run.verdict.held
    assert max(event.time for event in run.history) <= 0.2


def test_a_given_network_replaces_that_of_the_scenario() -> None:
    run = simulate(Scenario(processes=3), network=Network(crashes=((2, 0.1),)))
    assert not run.summary.complete
    assert [event.process for event in run.history if event.kind is Kind.CRASH] == [2]


def test_the_command_of_a_scenario_has_the_parameters_that_are_not_defaults() -> None:
    assert Scenario().command() == "antecede simulate"
    scenario = Scenario(
        service_share=0.5, until_s=9.0, delay="geographic:0.1", bandwidth=inf
    )
    assert (
        scenario.command()
        == "antecede simulate --service-share 0.5 --delay geographic:0.1 --until 9.0"
    )


def test_the_first_time_out_determines_the_cost_of_a_loss() -> None:
    def until_the_end(first_timeout_s: float) -> float:
        scenario = Scenario(
            processes=2,
            messages=1,
            delay="0.001",
            loss=0.5,
            first_timeout_s=first_timeout_s,
        )
        assert f"--first-timeout {first_timeout_s}" in scenario.command()
        run = simulate(scenario)
        assert run.verdict.held
        return max(event.time for event in run.history)

    # Both runs lose the same frames, and every wait is twice as long as the last.
    assert until_the_end(2.0) > 10 * until_the_end(0.002)


@pytest.mark.parametrize("first_timeout_s", [0.0, -1.0, inf])
def test_an_invalid_first_time_out_is_refused(first_timeout_s: float) -> None:
    with pytest.raises(ConfigError, match="retransmission"):
        simulate(Scenario(first_timeout_s=first_timeout_s))


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown protocol"):
        simulate(Scenario(protocol="nope"))
