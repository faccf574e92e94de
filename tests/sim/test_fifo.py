"""FIFO networks, which keep the order of the frames of each pair of processes."""

from dataclasses import replace
from itertools import pairwise
from math import inf
from random import Random

import pytest

from antecede.core import ProcessConfig
from antecede.core.registry import protocol
from antecede.core.support.keyed_random import fold_in, key
from antecede.errors import ConfigError
from antecede.sim.delay import Everywhere, Geographic
from antecede.sim.distribution import Exponential
from antecede.sim.network import Network, NetworkState, Partition, Pause
from antecede.sim.runner import run
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.synthetic import Pace
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import EventCounter, MemoryRecorder
from antecede.verify.oracle import verify_events
from tests.sim.arrivals import PATIENT

RANDOM = Everywhere(Exponential(1.0))
NETWORKS = {
    "delay": Network(delay=RANDOM),
    "reorder": Network(delay=RANDOM, reorder=0.5),
    "loss": Network(delay=RANDOM, loss=0.3),
    "bandwidth-limited": Network(delay=RANDOM, bandwidth=100.0),
    "geographic": Network(delay=Geographic(1.0, jitter=2.0)),
    "cut": Network(
        delay=RANDOM, partitions=(Partition(start_s=5.0, end_s=9.0, groups=((0,),)),)
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_frame_waits_only_for_earlier_frames_of_its_pair(name: str) -> None:
    """It arrives as without FIFO, or with the last frame of its pair if that is later."""
    random = Random(1)
    free, kept = (
        NetworkState(NETWORKS[name]),
        NetworkState(replace(NETWORKS[name], fifo=True)),
    )
    last: dict[tuple[int, int], float] = {}
    now, delayed, lost = 0.0, 0, 0
    for count in range(3000):
        now += random.choice((0.0, 0.01))
        source, target = random.sample(range(4), 2)
        size = random.randrange(4)
        random_key = fold_in(key(7), count)
        alone = free.transmit(source, target, size, random_key, now)
        found = kept.transmit(source, target, size, random_key, now)
        assert kept.duplicate_arrival == inf
        if alone == inf:
            assert found == inf  # A lost frame delays no other.
            lost += 1
            continue
        pair = (source, target)
        assert found == max(alone, last.get(pair, 0.0))
        delayed += found > alone
        last[pair] = found
    assert delayed > 200
    assert (lost > 0) == (name in ("loss", "cut"))


def test_a_fifo_network_cannot_duplicate() -> None:
    with pytest.raises(ConfigError, match="cannot duplicate"):
        Network(fifo=True, duplicate=0.1)
    assert Network(fifo=True, loss=0.5, reorder=1.0).fifo


def arrivals(events: list[Event]) -> dict[tuple[int, int], list[int]]:
    """Return the numbers that arrived for each pair, in order."""
    found: dict[tuple[int, int], list[int]] = {}
    for event in events:
        if event.kind is Kind.ARRIVE:
            assert event.source is not None
            assert event.number is not None
            found.setdefault((event.source, event.process), []).append(event.number)
    return found


def record(name: str, network: Network, *, reliable: bool = True) -> list[Event]:
    recorder = MemoryRecorder()
    broadcast = not protocol(name).capabilities.unicast
    pace = Pace(gap=Exponential(0.05), seed=2)
    workload = make_workload("broadcast" if broadcast else "uniform", 5, 30, pace)
    config = ProcessConfig(reliable=reliable, policy=PATIENT)
    summary = run(name, workload, network, EventCounter(recorder), seed=2, config=config)
    assert summary.complete
    return recorder.events


IMPAIRED = {
    "none": Network(delay=RANDOM, reorder=0.2),
    "paused": Network(delay=RANDOM, pauses=(Pause(process=1, start_s=0.5, end_s=3.0),)),
    "slow": Network(delay=RANDOM, processing_s=((1, 0.125),)),
}


def in_order(events: list[Event]) -> list[bool]:
    """Return for each pair whether its messages arrived in the order of their numbers."""
    found = [all(a < b for a, b in pairwise(own)) for own in arrivals(events).values()]
    assert len(found) == 20  # Every pair.
    return found


@pytest.mark.parametrize("impairment", IMPAIRED)
@pytest.mark.parametrize("name", ["buffer-fifo", "newtop", "fifo"])
def test_a_protocol_that_assumes_fifo_gets_it_without_the_link_layer(
    name: str, impairment: str
) -> None:
    events = record(name, IMPAIRED[impairment])
    assert all(in_order(events))
    assert verify_events(events).held or name == "fifo"


@pytest.mark.parametrize("impairment", IMPAIRED)
@pytest.mark.parametrize("name", ["hybrid", "matrix", "optimal", "vector", "unordered"])
def test_a_protocol_that_does_not_assume_fifo_does_not_get_it(
    name: str, impairment: str
) -> None:
    events = record(name, IMPAIRED[impairment])
    assert not all(in_order(events))
    assert verify_events(events).held or name == "unordered"


def test_the_link_layer_does_not_get_fifo() -> None:
    """The link layer restores the order itself."""
    assert not all(in_order(record("buffer-fifo", IMPAIRED["none"], reliable=False)))


@pytest.mark.parametrize(
    "network",
    [
        Network(loss=0.1),
        Network(duplicate=0.1),
        Network(partitions=(Partition(start_s=0, end_s=1, groups=((0,),)),)),
        Network(crashes=((0, 1.0),)),
    ],
)
@pytest.mark.parametrize("name", ["hybrid", "matrix", "fifo"])
def test_a_reliable_network_cannot_have_faults(name: str, network: Network) -> None:
    recorder = MemoryRecorder()
    workload = make_workload("uniform", 3, 1, Pace())
    with pytest.raises(ConfigError, match="a reliable network") as refusal:
        run(
            name,
            workload,
            network,
            EventCounter(recorder),
            config=ProcessConfig(reliable=True),
        )
    assert "\n" not in str(refusal.value)
    assert recorder.events == []
