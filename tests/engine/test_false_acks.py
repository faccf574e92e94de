"""Acknowledgements of packets that were not transmitted."""

from antecede.engine import Engine
from antecede.engine.sealer import SKIP_WAIT_BITS, SKIP_WAIT_MIN, SKIPPED_MAX
from tests.engine.network import Network


def pair() -> tuple[Network, Engine, Engine]:
    network = Network(1, delay_s=(0.01, 0.01))
    ann, bob = network.start_group("ann", "bob")
    network.run(1.0)
    return network, ann, bob


def test_packet_numbers_are_left_out_now_and_then() -> None:
    network, ann, _ = pair()
    session = ann.sessions["bob"]
    skipped: set[int] = set()
    for index in range(4000):
        network.send("ann", "bob", data=b"%d" % index)
        skipped.update(session.skipped)
        network.run(0.001)
    longest = SKIP_WAIT_MIN + (1 << SKIP_WAIT_BITS)
    assert session.last_packet // longest - 1 <= len(skipped)
    assert len(skipped) <= session.last_packet // SKIP_WAIT_MIN + 1
    assert len(session.skipped) <= SKIPPED_MAX
    network.run_until_idle()
    assert len(network.data("bob")) == 4000
    assert network.dropped("ann") == {}
    assert ann.stats().lost == 0  # A gap in the numbers is no loss.


def test_a_peer_that_acknowledges_a_number_left_out_gains_nothing() -> None:
    network, ann, bob = pair()
    session = ann.sessions["bob"]
    path = session.path
    while not session.skipped:
        network.send("ann", "bob", data=b"x")
        network.run(0.005)
    minimum = path.window
    bob.sessions["ann"].path.arrived.record(session.skipped[-1], False, network.now)
    network.send("bob", "ann", data=b"y")
    network.run(0.1)
    assert network.dropped("ann")["false_ack"] > 0
    assert path.is_distrusted
    collapsed = path.window
    assert collapsed < minimum
    bob.sessions["ann"].path.arrived.forget(session.skipped[-1])
    for index in range(200):
        for _ in range(4):  # More than the window, so that it would grow.
            network.send("ann", "bob", data=b"%d" % index + bytes(900))
        network.run(0.02)
        assert path.window <= collapsed
    network.run_until_idle()
    assert network.verdict().held


def test_acknowledging_the_future_collapses_the_window() -> None:
    network, ann, bob = pair()
    path = ann.sessions["bob"].path
    window = path.window
    bob.sessions["ann"].path.arrived.record(1 << 40, False, network.now)
    network.send("bob", "ann", data=b"x")
    network.run(1.0)
    assert network.dropped("ann")["false_ack"] > 0
    assert path.window < window


def test_a_restarted_peer_is_trusted_again() -> None:
    network, ann, bob = pair()
    bob.sessions["ann"].path.arrived.record(1 << 40, False, network.now)
    network.send("bob", "ann", data=b"x")
    network.run(1.0)
    path = ann.sessions["bob"].path
    assert path.is_distrusted
    network.stop("bob")
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(5.0)
    assert not path.is_distrusted
