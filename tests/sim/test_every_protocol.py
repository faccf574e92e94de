"""Every protocol of the registry on every workload that it supports."""

from dataclasses import replace

import pytest

from antecede.core import ProcessConfig, ProtocolInfo, protocols
from antecede.core.overlay.graphs import random_graph, ring
from antecede.core.registry import protocol
from antecede.errors import ConfigError
from antecede.sim import Scenario, SimulationResult, simulate
from antecede.sim.delay import Everywhere
from antecede.sim.distribution import Exponential
from antecede.sim.network import Network
from antecede.sim.runner import run
from antecede.sim.workloads.program import Program, ProgramSend
from antecede.sim.workloads.services import RequestReply
from antecede.sim.workloads.synthetic import Pace, Uniform
from antecede.sim.workloads.workload import Workload
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder
from antecede.verify.oracle import Property, Verdict
from tests.sim.arrivals import PATIENT, Copy, flight_times

NEEDS = {
    "uniform": "unicast",
    "uniform:peers=2": "unicast",
    "uniform:fan_out=3": "multicast",
    "hotspot:hot=0.3": "unicast",
    "groups:group=2": "unicast",  # A group of two is a pair.
    "groups:group=3": "multicast",
    "broadcast": "broadcast",
    "pipeline": "unicast",
    "request-reply:servers=0.3": "unicast",
    "conversation:reply_share=0.8": "unicast",
    "microservices": "unicast",
}
"""The workloads, and the capability that each needs."""
SEEDS = range(3)
WILD = Scenario(
    processes=6,
    messages=6,
    payload_bytes="uniform:0,200",
    gap="exponential:0.03",
    delay="exponential:0.1",
    bandwidth=20_000,
    loss=0.1,
    duplicate=0.1,
    reorder=0.1,
)
JOBS = replace(WILD, service_time="exponential:0.02", service_share=0.5)
TIDY = replace(WILD, loss=0.0, duplicate=0.0)
"""The faults that a reliable network may have."""


def supports(info: ProtocolInfo, need: str) -> bool:
    """Return whether a protocol supports a need; a multicast can replace a broadcast."""
    capabilities = info.capabilities
    return {
        "unicast": capabilities.unicast,
        "multicast": capabilities.multicast,
        "broadcast": capabilities.broadcast or capabilities.multicast,
    }[need]


PAIRS = [(info.name, words) for info in protocols() for words in NEEDS]
SUPPORTED = [(n, words) for n, words in PAIRS if supports(protocol(n), NEEDS[words])]
REFUSED = [pair for pair in PAIRS if pair not in SUPPORTED]
CAUSAL = [(n, words) for n, words in SUPPORTED if protocol(n).capabilities.causal]
ANY = [info.name for info in protocols()]


def workload_for(name: str) -> str:
    """Return a workload that the protocol supports."""
    unicast = protocol(name).capabilities.unicast
    return "conversation:reply_share=0.8" if unicast else "broadcast"


def check_complete(run: SimulationResult) -> None:
    """Check that every message was delivered."""
    assert run.summary.complete
    assert run.verdict.messages >= 30
    assert run.verdict.deliveries >= run.summary.copies >= 30
    assert run.summary.sender_wait_s is not None


def test_every_workload_is_supported_by_some_and_every_need_refused_by_some() -> None:
    assert {words for _, words in CAUSAL} == set(NEEDS)
    assert {NEEDS[words] for _, words in REFUSED} == set(NEEDS.values())
    assert {name for name, _ in SUPPORTED} == set(ANY)


@pytest.mark.parametrize(("name", "words"), CAUSAL)
def test_causal_order_holds_on_a_faulty_network(name: str, words: str) -> None:
    for seed in SEEDS:
        scenario = JOBS if seed == 1 else WILD
        run = simulate(replace(scenario, protocol=name, workload=words, seed=seed))
        assert run.verdict.held, (seed, run.verdict.violations[:3])
        check_complete(run)
        assert run.summary.dropped_frames > 0


@pytest.mark.parametrize("name", ANY)
def test_the_same_seed_gives_the_same_history_and_another_another(name: str) -> None:
    scenario = replace(JOBS, protocol=name, workload=workload_for(name))
    first, again, other = (simulate(replace(scenario, seed=seed)) for seed in (5, 5, 6))
    assert first == again
    assert first.history != other.history


@pytest.mark.parametrize(("name", "words"), REFUSED)
def test_an_unsupported_workload_is_refused_in_one_line(name: str, words: str) -> None:
    scenario = replace(WILD, protocol=name, workload=words)
    recorder = MemoryRecorder()
    workload, network = scenario.make_workload(), scenario.make_network()
    with pytest.raises(ConfigError) as refusal:
        run(name, workload, network, EventCounter(recorder))
    assert str(refusal.value) == (
        f"{name} has no {NEEDS[words]}, which this workload needs"
    )
    assert recorder.events == []


OVERLAYS = {
    "ring": ring(6),
    "one way round": ring(6, both_ways=False),
    "random": random_graph(6, 2, seed=1),
}


@pytest.mark.parametrize("links", OVERLAYS)
@pytest.mark.parametrize(
    "name", [info.name for info in protocols() if info.capabilities.overlay]
)
def test_broadcast_on_an_overlay_holds_over_its_links_alone(name: str, links: str) -> None:
    for seed in SEEDS:
        found = simulate(
            replace(WILD, protocol=name, workload="broadcast", seed=seed),
            config=ProcessConfig(links=OVERLAYS[links]),
        )
        assert found.verdict.held
        check_complete(found)
        assert found.summary.relays > 0
        for event in found.history:
            if event.kind in (Kind.RELEASE, Kind.TRANSMIT):
                assert event.target in OVERLAYS[links][event.process]


# Baselines.


def verdicts(name: str, words: str, scenario: Scenario = WILD) -> list[Verdict]:
    runs = [
        simulate(replace(scenario, protocol=name, workload=words, seed=seed))
        for seed in range(6)
    ]
    for each in runs:
        check_complete(each)
    return [each.verdict for each in runs]


WITHOUT_ORDER = [(n, words) for n, words in SUPPORTED if (n, words) not in CAUSAL]
NEVER_VIOLATED = {
    ("fifo", "pipeline"),  # There is one path to each process only,
    ("fifo", "groups:group=2"),  # and here as well.
}


@pytest.mark.long
@pytest.mark.parametrize(("name", "words"), WITHOUT_ORDER)
def test_a_baseline_violates_order_in_some_run(name: str, words: str) -> None:
    found = verdicts(name, words)
    assert all(verdict.held for verdict in found) == ((name, words) in NEVER_VIOLATED)
    violated = frozenset[Property]().union(*(verdict.violated() for verdict in found))
    expected = {Property.CAUSAL} if name == "fifo" else {Property.CAUSAL, Property.FIFO}
    assert violated <= expected
    if name == "unordered":
        assert violated == expected


# Without the link layer.


@pytest.mark.parametrize(("name", "words"), SUPPORTED)
def test_on_a_reliable_network_the_link_layer_is_left_out(name: str, words: str) -> None:
    info = protocol(name)
    scenario = replace(TIDY, protocol=name, workload=words, seed=4)
    linked = simulate(scenario)
    bare = simulate(replace(scenario, reliable=True))
    check_complete(bare)
    if info.capabilities.causal:
        assert bare.verdict.held
    if info.capabilities.loss:
        assert bare.history == linked.history  # It has no link layer.
        return
    assert bare.summary.retransmissions == 0
    assert bare.summary.control_frames < linked.summary.control_frames
    if not info.capabilities.control_frames:
        assert bare.summary.control_frames == 0
    least = [
        min(e.metadata_bytes or 0 for e in run.history if e.kind is Kind.RELEASE)
        for run in (bare, linked)
    ]
    assert least[0] + 3 == least[1]  # A head and two numbers, of a byte each at first.


# The same network for all.

LOSSY = Network(delay=Everywhere(Exponential(0.2)), loss=0.3)
UNICAST = [info.name for info in protocols() if info.capabilities.unicast]


def record(name: str, workload: Workload) -> list[Event]:
    recorder = MemoryRecorder()
    run(
        name,
        workload,
        LOSSY,
        EventCounter(recorder),
        seed=4,
        config=ProcessConfig(policy=PATIENT),
    )
    return recorder.events


def are_equal(
    name: str, one: dict[Copy, float | None], other: dict[Copy, float | None]
) -> bool:
    """Return whether the copies of a run have the flight times of a reference.

    A process of ``bounded`` asks for missing copies, so that some of them arrive earlier.
    """
    pairs = [(flight, other[key]) for key, flight in one.items() if key in other]
    same = [
        found is None if flight is None else found == pytest.approx(flight, abs=1e-8)
        for flight, found in pairs
    ]
    if name != "bounded":
        return all(same)
    early = [
        found is not None and (flight is None or found < flight) for flight, found in pairs
    ]
    assert sum(same) > len(same) / 2
    return all(one or other for one, other in zip(same, early, strict=True))


def test_every_first_transmission_has_the_same_flight_time_under_every_protocol() -> None:
    runs = {
        name: flight_times(
            record(name, Uniform(6, 20, Pace(gap=Exponential(0.05), seed=1)))
        )
        for name in UNICAST
    }
    reference = runs["hybrid"]
    assert len(reference) == 120
    assert 20 < sum(flight is None for flight in reference.values()) < 55
    for name, found in runs.items():
        if protocol(name).capabilities.relays:
            assert len(found.keys() & reference.keys()) > 20  # Where there is one hop.
        else:
            assert found.keys() == reference.keys()
        assert are_equal(name, reference, found), name


def answers(name: str) -> tuple[dict[Copy, float | None], dict[Copy, int]]:
    """Return the flights of the replies, the j-th of each pair, and their numbers."""
    workload = RequestReply(8, 12, Pace(gap=Exponential(0.2), seed=1), servers=0.25)
    events = record(name, workload)
    counts: dict[tuple[int, int], int] = {}
    numbers: dict[Copy, int] = {}
    for event in events:
        if event.kind is Kind.SEND and event.process < 2:
            assert event.targets is not None
            assert event.number is not None
            pair = (event.process, event.targets[0])
            counts[pair] = counts.get(pair, 0) + 1
            numbers[*pair, counts[pair]] = event.number
    taken = flight_times(events)
    return {
        key: taken[key[0], key[1], number]
        for key, number in numbers.items()
        if (key[0], key[1], number) in taken
    }, numbers


def test_every_reply_has_the_same_flight_time_under_every_protocol() -> None:
    """Its number may differ, because requests are delivered in different orders."""
    reference, numbers = answers("hybrid")
    assert len(reference) == 72
    renumbered = 0
    for name in UNICAST:
        if name != "unordered":  # There the j-th reply answers another request.
            found, others = answers(name)
            assert others.keys() == numbers.keys()
            assert are_equal(name, reference, found), name
            renumbered += others != numbers
    assert renumbered > 3


def test_a_hop_of_a_relay_has_its_own_flight_time() -> None:
    """It differs from that of the relay's own message with the same number."""
    sends = [
        ProgramSend(process=source, targets=(2,), wait_s=0.01)
        for source in (0, 1)
        for _ in range(30)
    ]
    recorder = MemoryRecorder()
    config = ProcessConfig(policy=PATIENT, parents=[1, 1, 1])
    run("tree", Program(3, sends), LOSSY, EventCounter(recorder), seed=4, config=config)
    left = {
        (event.source, event.number): event.time
        for event in reversed(recorder.events)
        if event.process == 1 and event.kind in (Kind.RELEASE, Kind.TRANSMIT)
    }
    taken = {
        (event.source, event.number): event.time - left[event.source, event.number]
        for event in reversed(recorder.events)
        if event.process == 2 and event.kind is Kind.ARRIVE
    }
    assert len(taken) == 60
    same = [n for n in range(1, 31) if abs(taken[0, n] - taken[1, n]) < 1e-6]
    assert same == []
