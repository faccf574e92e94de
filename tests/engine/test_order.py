"""Engines deliver every message once and in causal order on a faulty network."""

from dataclasses import replace

import pytest

from antecede.core import protocols
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.sealer import DatagramCipher
from antecede.trace import Kind
from antecede.verify import Property
from tests.engine.network import NAMES, Flight, Network, random_traffic

UNICAST = [info for info in protocols() if info.capabilities.unicast]
CAUSAL = [info.name for info in UNICAST if info.capabilities.causal]
BASELINES = [info.name for info in UNICAST if not info.capabilities.causal]
CIPHERS: dict[str, DatagramCipher | None] = {
    "plain": None,
    "encrypted": AesGcmDatagramCipher(b"k" * 32),
}

with_and_without_key = pytest.mark.parametrize("cipher", CIPHERS)


def lossy_run(protocol: str, cipher: str, seed: int, *, messages: int = 40) -> Network:
    """Run a group over a network that loses, duplicates and reorders."""
    network = Network(
        seed,
        loss=0.15,
        duplication=0.1,
        delay_s=(0.001, 0.06),
        cipher=CIPHERS[cipher],
        protocol=protocol,
    )
    network.start_group(*NAMES[:4])
    random_traffic(network, messages=messages)
    return network


@pytest.mark.long
@with_and_without_key
@pytest.mark.parametrize("protocol", CAUSAL)
def test_every_causal_protocol_satisfies_every_property_on_a_faulty_network(
    protocol: str, cipher: str
) -> None:
    for seed in range(4):
        network = lossy_run(protocol, cipher, seed)
        verdict = network.verdict()
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert verdict.deliveries > 100
        assert any(engine.stats().dropped["replay"] for engine in network.engines.values())


@pytest.mark.long
@with_and_without_key
@pytest.mark.parametrize("protocol", BASELINES)
def test_baselines_violate_the_order_and_nothing_else(protocol: str, cipher: str) -> None:
    broken = [lossy_run(protocol, cipher, seed).verdict().violated() for seed in range(3)]
    assert any(Property.CAUSAL in each for each in broken)
    may_break = {Property.CAUSAL, Property.FIFO}
    if protocol == "fifo":
        may_break = {Property.CAUSAL}
    assert all(each <= may_break for each in broken)


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic", "cykas", "matrix"])
def test_a_partition_that_heals_only_delays_messages(protocol: str) -> None:
    network = Network(5, loss=0.05, delay_s=(0.001, 0.03), protocol=protocol)
    network.start_group(*NAMES[:4])
    network.run(1.0)
    started = network.now

    def is_partitioned(flight: Flight) -> bool:
        within = started < network.now < started + 10
        return within and (flight.source < "c") != (flight.target < "c")

    network.should_lose = is_partitioned
    random_traffic(network, messages=60, every_s=0.05)
    assert network.now > started + 10
    assert network.verdict().held


def test_the_same_seed_gives_the_same_datagrams() -> None:
    runs = [lossy_run("hybrid", "plain", 3, messages=15) for _ in range(2)]
    first, second = ([flight.datagram for flight in run.transmitted] for run in runs)
    assert first == second
    other = lossy_run("hybrid", "plain", 4, messages=15)
    assert [flight.datagram for flight in other.transmitted] != first


def test_applications_receive_the_data_that_was_sent() -> None:
    network = lossy_run("hybrid", "encrypted", 7)
    sizes = {len(data) for name in network.received for data in network.data(name)}
    assert sizes == {8, 3000}
    for name, messages in network.received.items():
        assert all(len(set(message.data)) == 1 for message in messages), name
        seen = [(message.source, message.number) for message in messages]
        assert len(seen) == len(set(seen))


@pytest.mark.parametrize("name", ["hybrid", "fifo"])
def test_a_node_records_a_delivery_before_the_ack_that_it_causes(name: str) -> None:
    network = Network(protocol=name)
    network.start_group("ann", "bob")
    network.send("ann", "bob", data=b"x")
    network.run_until_idle()
    recorded = [event.kind for event in network.starts["bob"][-1].recorder.events]
    assert recorded == [Kind.ARRIVE, Kind.DELIVER, Kind.CONTROL]


@pytest.mark.parametrize("name", ["fifo", "unordered"])
def test_a_frame_that_the_protocol_refuses_is_counted_and_blocks_no_other(
    name: str,
) -> None:
    """Message 1 gets the number 0 on its way, whenever it is transmitted."""
    network = Network(protocol=name)
    network.start_group("ann", "bob")
    network.run(1.0)
    arrive = network.arrive

    def falsify(flight: Flight) -> None:
        datagram = flight.datagram.replace(b"\x10\x01\x02\x00?", b"\x10\x00\x02\x00?")
        arrive(replace(flight, datagram=datagram))

    network.arrive = falsify  # type: ignore[method-assign]
    for data in (b"?", b"x", b"y"):
        network.send("ann", "bob", data=data)
    network.run_until_idle()
    assert sorted(network.data("bob")) == [b"x", b"y"]
    assert network.engines["ann"].backlog == 0
    assert network.dropped("bob") == {"frame": 1}
