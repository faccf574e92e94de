"""Engines deliver in causal order, once, and everything, whatever the network does."""

import pytest

from antecede.core import protocols
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.sealer import DatagramCipher
from antecede.verify import Property
from tests.engine.lossy import NAMES, Flight, Network, chatter

UNICAST = [info for info in protocols() if info.capabilities.unicast]
CAUSAL = [info.name for info in UNICAST if info.capabilities.causal]
BASELINES = [info.name for info in UNICAST if not info.capabilities.causal]
CIPHERS: dict[str, DatagramCipher | None] = {
    "plain": None,
    "sealed": AesGcmDatagramCipher(b"k" * 32),
}

sealed_or_not = pytest.mark.parametrize("cipher", CIPHERS)


def lossy_run(protocol: str, cipher: str, seed: int, *, messages: int = 40) -> Network:
    """Run a group over a network that does everything that networks do."""
    network = Network(
        seed,
        loss=0.15,
        duplication=0.1,
        delay_s=(0.001, 0.06),
        cipher=CIPHERS[cipher],
        protocol=protocol,
    )
    network.mesh(*NAMES[:4])
    chatter(network, messages=messages)
    return network


@sealed_or_not
@pytest.mark.parametrize("protocol", CAUSAL)
def test_every_causal_protocol_keeps_every_property_on_a_bad_network(
    protocol: str, cipher: str
) -> None:
    for seed in range(4):
        network = lossy_run(protocol, cipher, seed)
        verdict = network.verdict()
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert verdict.deliveries > 100
        assert any(engine.stats().dropped["replay"] for engine in network.engines.values())


@sealed_or_not
@pytest.mark.parametrize("protocol", BASELINES)
def test_baselines_are_caught_breaking_causal_order_and_nothing_worse(
    protocol: str, cipher: str
) -> None:
    broken = [lossy_run(protocol, cipher, seed).verdict().violated() for seed in range(3)]
    assert any(Property.CAUSAL in each for each in broken)
    may_break = {Property.CAUSAL, Property.FIFO}
    if protocol == "fifo":
        may_break = {Property.CAUSAL}
    assert all(each <= may_break for each in broken)


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic", "cykas", "matrix"])
def test_a_partition_that_heals_costs_time_only(protocol: str) -> None:
    network = Network(5, loss=0.05, delay_s=(0.001, 0.03), protocol=protocol)
    network.mesh(*NAMES[:4])
    network.run(1.0)
    begun = network.now

    def parted(flight: Flight) -> bool:
        within = begun < network.now < begun + 10
        return within and (flight.source < "c") != (flight.target < "c")

    network.lost = parted
    chatter(network, messages=60, every_s=0.05)
    assert network.now > begun + 10
    assert network.verdict().held


def test_the_same_seed_gives_the_same_datagrams() -> None:
    runs = [lossy_run("hybrid", "plain", 3, messages=15) for _ in range(2)]
    first, second = ([flight.datagram for flight in run.transmitted] for run in runs)
    assert first == second
    other = lossy_run("hybrid", "plain", 4, messages=15)
    assert [flight.datagram for flight in other.transmitted] != first


def test_what_applications_get_is_what_was_sent_fragments_put_together() -> None:
    network = lossy_run("hybrid", "sealed", 7)
    sizes = {len(data) for name in network.taken for data in network.data(name)}
    assert sizes == {8, 3000}
    for name, messages in network.taken.items():
        assert all(len(set(message.data)) == 1 for message in messages), name
        seen = [(message.source, message.number) for message in messages]
        assert len(seen) == len(set(seen))
