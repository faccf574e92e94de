"""A network that keeps the order of each pair, and what it may still do."""

from dataclasses import replace
from itertools import pairwise
from math import inf
from random import Random

import pytest

from antecede.core import Setting
from antecede.core.registry import protocol
from antecede.core.support.keyed_random import begin, stir
from antecede.errors import ConfigError
from antecede.sim.delay import Everywhere, Geographic
from antecede.sim.distribution import Exponential
from antecede.sim.network import Network, Partition, Pause, Wire
from antecede.sim.runner import run
from antecede.sim.workloads.catalogue import make_workload
from antecede.sim.workloads.synthetic import Pace
from antecede.trace.event import Event, Kind
from antecede.trace.recorders import Recorder
from antecede.verify.oracle import judge
from tests.sim.flights import PATIENT

RANDOM = Everywhere(Exponential(1.0))
NETWORKS = {
    "delay": Network(delay=RANDOM),
    "reorder": Network(delay=RANDOM, reorder=0.5),
    "loss": Network(delay=RANDOM, loss=0.3),
    "narrow": Network(delay=RANDOM, bandwidth=100.0),
    "geographic": Network(delay=Geographic(1.0, jitter=2.0)),
    "cut": Network(
        delay=RANDOM, partitions=(Partition(start_s=5.0, end_s=9.0, groups=((0,),)),)
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_frame_waits_for_those_of_its_pair_and_for_no_others(name: str) -> None:
    """It arrives when it would have, or with the last one of its pair if that is later."""
    random = Random(1)
    free, kept = Wire(NETWORKS[name]), Wire(replace(NETWORKS[name], fifo=True))
    last: dict[tuple[int, int], float] = {}
    now, held_up, lost = 0.0, 0, 0
    for count in range(3000):
        now += random.choice((0.0, 0.01))
        source, target = random.sample(range(4), 2)
        size = random.randrange(4)
        fate = stir(begin(7), count)
        alone = free.carry(source, target, size, fate, now)
        found = kept.carry(source, target, size, fate, now)
        assert kept.again == inf
        if alone == inf:
            assert found == inf  # And holds nobody up.
            lost += 1
            continue
        pair = (source, target)
        assert found == max(alone, last.get(pair, 0.0))
        held_up += found > alone
        last[pair] = found
    assert held_up > 200
    assert (lost > 0) == (name in ("loss", "cut"))


def test_a_network_that_duplicates_keeps_no_order() -> None:
    with pytest.raises(ConfigError, match="keeps no order"):
        Network(fifo=True, duplicate=0.1)
    assert Network(fifo=True, loss=0.5, reorder=1.0).fifo


def arrivals(events: list[Event]) -> dict[tuple[int, int], list[int]]:
    """Return what arrived of each pair, in order."""
    found: dict[tuple[int, int], list[int]] = {}
    for event in events:
        if event.kind is Kind.ARRIVE:
            assert event.source is not None
            assert event.number is not None
            found.setdefault((event.source, event.process), []).append(event.number)
    return found


def record(name: str, network: Network, *, reliable: bool = True) -> list[Event]:
    recorder = Recorder()
    broadcast = not protocol(name).capabilities.unicast
    pace = Pace(gap=Exponential(0.05), seed=2)
    workload = make_workload("broadcast" if broadcast else "uniform", 5, 30, pace)
    setting = Setting(reliable=reliable, policy=PATIENT)
    outcome = run(name, workload, network, recorder, seed=2, setting=setting)
    assert outcome.complete
    return recorder.events


TROUBLED = {
    "none": Network(delay=RANDOM, reorder=0.2),
    "paused": Network(delay=RANDOM, pauses=(Pause(process=1, start_s=0.5, end_s=3.0),)),
    "slow": Network(delay=RANDOM, service_s=((1, 0.125),)),
}


def in_order(events: list[Event]) -> list[bool]:
    """Tell of each pair whether its messages arrived in the order of their numbers."""
    found = [all(a < b for a, b in pairwise(own)) for own in arrivals(events).values()]
    assert len(found) == 20  # Every pair.
    return found


@pytest.mark.parametrize("trouble", TROUBLED)
@pytest.mark.parametrize("name", ["buffer-fifo", "newtop", "fifo"])
def test_a_protocol_that_asks_for_order_gets_it_without_the_link_layer(
    name: str, trouble: str
) -> None:
    events = record(name, TROUBLED[trouble])
    assert all(in_order(events))
    assert judge(events).held or name == "fifo"


@pytest.mark.parametrize("trouble", TROUBLED)
@pytest.mark.parametrize("name", ["hybrid", "matrix", "optimal", "vector", "unordered"])
def test_a_protocol_that_asks_for_no_order_gets_none(name: str, trouble: str) -> None:
    events = record(name, TROUBLED[trouble])
    assert not all(in_order(events))
    assert judge(events).held or name == "unordered"


def test_the_link_layer_gets_no_order_either() -> None:
    """It is what makes order where the network is not declared reliable."""
    assert not all(in_order(record("buffer-fifo", TROUBLED["none"], reliable=False)))


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
def test_a_network_is_reliable_or_it_is_not(name: str, network: Network) -> None:
    recorder = Recorder()
    workload = make_workload("uniform", 3, 1, Pace())
    with pytest.raises(ConfigError, match="declared reliable") as refusal:
        run(name, workload, network, recorder, setting=Setting(reliable=True))
    assert "\n" not in str(refusal.value)
    assert recorder.events == []
