"""Keep-alives: what an idle pair of engines transmits."""

from itertools import pairwise

from antecede.core.process import NEVER
from antecede.engine import Limits
from antecede.engine.datagram import DATA, HELLO, read_header
from antecede.engine.keep_alive import JITTER
from tests.engine.network import Flight, Network

INTERVAL_S = 8.0


def pair(**limits: float) -> Network:
    network = Network(limits=Limits(**limits))  # type: ignore[arg-type]
    network.start_group("ann", "bob")
    network.run(1.0)
    return network


def kind_of(flight: Flight) -> int:
    return read_header(flight.datagram)[0]


def test_an_idle_pair_exchanges_two_datagrams_for_each_interval() -> None:
    network = pair()
    network.run(20.0)
    before = len(network.transmitted)
    network.run(1000.0)
    idle = network.transmitted[before:]
    assert {kind_of(flight) for flight in idle} == {DATA}
    # A question and its answer, in each interval or in three quarters of it.
    assert 2 * 1000 / INTERVAL_S - 4 <= len(idle) <= 2 * 1000 / INTERVAL_S / (1 - JITTER)
    for name in ("ann", "bob"):
        times = [flight.transmitted_at for flight in idle if flight.source == name]
        longest = max(later - earlier for earlier, later in pairwise(times))
        assert longest <= INTERVAL_S + 0.1


def test_an_idle_pair_needs_no_handshake() -> None:
    network = pair()
    network.run(3600.0)
    before = len(network.transmitted)
    network.send("ann", "bob", data=b"x")
    network.run(1.0)
    assert network.data("bob") == [b"x"]
    assert HELLO not in {kind_of(flight) for flight in network.transmitted[before:]}


def test_without_keep_alives_it_needs_one() -> None:
    network = pair(keep_alive_s=NEVER)
    network.run(3600.0)
    before = len(network.transmitted)
    network.send("ann", "bob", data=b"x")
    network.run(1.0)
    assert HELLO in {kind_of(flight) for flight in network.transmitted[before:]}


def test_a_pair_that_exchanges_messages_transmits_no_keep_alive() -> None:
    kept, never = pair(), pair(keep_alive_s=NEVER)
    for network in (kept, never):
        for index in range(20):
            network.send("ann", "bob", data=b"%d" % index)
            network.run(5.0)
    assert len(kept.transmitted) == len(never.transmitted)


def test_keep_alives_end_with_the_membership() -> None:
    network = pair(lease_s=2.0, forget_after_s=1.0)
    ann, bob = network.engines["ann"], network.engines["bob"]
    ann.remove_peer("bob", network.now)
    bob.remove_peer("ann", network.now)
    network.run(60.0)
    before = len(network.transmitted)
    network.run(600.0)
    assert len(network.transmitted) == before
    assert ann.next_timer() is None
    assert bob.next_timer() is None


def test_a_silent_peer_costs_few_datagrams_and_is_found_when_it_answers() -> None:
    network = pair()
    network.run(20.0)
    network.should_lose = lambda flight: True
    before = len(network.transmitted)
    network.run(1000.0)
    lost = [f for f in network.transmitted[before:] if f.source == "ann"]
    assert len(lost) <= 1000 / 4 + 20  # A HELLO every four seconds.
    network.should_lose = lambda flight: False
    network.run(5.0)
    heard_at = network.engines["ann"].sessions["bob"].heard_at
    assert network.now - heard_at < 5.0


def test_many_idle_peers_cost_few_datagrams() -> None:
    network = Network()
    names = [f"n{index}" for index in range(40)]
    network.start("hub")
    for name in names:
        network.start(name)
        network.add_peers(name, "hub")
    network.add_peers("hub", *names)
    network.run(10.0)
    before = len(network.transmitted)
    network.run(40.0)
    own = [f for f in network.transmitted[before:] if f.source == "hub"]
    assert len(own) / 40 <= len(names) / (INTERVAL_S * (1 - JITTER))
    flushes = {flight.transmitted_at for flight in own}
    assert len(flushes) > len(names)  # They do not act in step.
