"""Removal of a peer: abandoned copies are refused, and no message overtakes them before."""

import pytest

from antecede.core.process import NEVER
from antecede.engine import Limits
from antecede.engine.datagram import DATA_PREFIX, HEADER
from antecede.engine.peer_session import REMOVED, REMOVING
from antecede.engine.session_layer import TIMESTAMP_RESOLUTION_S
from antecede.errors import ConfigError, LocalError
from antecede.verify import Property
from tests.engine.network import Flight, Network, random_traffic

LEASE_S = 2.0
LIMITS = Limits(lease_s=LEASE_S, clock_drift_max=0.1, keep_alive_s=NEVER)
"""With this lease and drift, a removal takes 2.201 seconds."""


def group(*, lease_s_at_bob: float = LEASE_S) -> Network:
    """Start ann, bob and cid with handshakes; bob may have another lease."""
    network = Network(limits=LIMITS, delay_s=(0.001, 0.001))
    network.start("ann")
    network.start("bob", limits=Limits(lease_s=lease_s_at_bob, keep_alive_s=NEVER))
    network.start("cid")
    for name in ("ann", "bob", "cid"):
        network.add_peers(name, *{"ann", "bob", "cid"} - {name})
    network.run(0.5)
    return network


def lose_all(network: Network, source: str, target: str) -> None:
    network.should_lose = lambda flight: (flight.source, flight.target) == (source, target)


def stall(network: Network) -> Flight:
    """Delay ann's message to bob, so that cid's message to bob is queued for her permit."""
    network.send("ann", "bob", data=b"first")
    (late,) = network.intercept(lambda flight: flight.target == "bob")
    lose_all(network, "ann", "bob")
    network.send("ann", "cid", data=b"second")
    network.run(0.1)
    assert network.data("cid") == [b"second"]
    network.send("cid", "bob", data=b"third")
    network.run(0.2)
    assert network.data("bob") == []
    return late


def test_permits_are_granted_exactly_when_the_lease_has_ended() -> None:
    network = group()
    stall(network)
    ann = network.engines["ann"]
    session = ann.sessions["bob"]
    ends = ann.remove_peer("bob", network.now)
    assert ends == pytest.approx(
        session.handshake.timestamp_echo_at + LEASE_S * 1.1 + TIMESTAMP_RESOLUTION_S
    )
    states = [session.state]
    assert ann.remove_peer("bob", network.now) == ends  # A second call changes nothing.
    network.run(ends - network.now - 0.001)
    states.append(session.state)
    assert ann.backlog == 1
    assert network.data("bob") == []
    network.run(0.001)
    states.append(session.state)
    assert states == [REMOVING, REMOVING, REMOVED]
    assert ann.backlog == 0
    network.run(5.0)
    assert network.data("bob") == [b"third"]
    assert network.verdict(complete=False).held


def test_a_late_copy_within_the_lease_is_delivered_before_its_successors() -> None:
    network = group()
    late = stall(network)
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(0.5)
    network.arrive(late)
    network.run(10.0)
    assert network.data("bob") == [b"first", b"third"]
    assert network.verdict().held


def test_a_copy_older_than_the_lease_is_refused() -> None:
    network = group()
    late = stall(network)
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(10.0)
    network.arrive(late)
    assert network.data("bob") == [b"third"]
    assert network.dropped("bob") == {"expired": 1}
    assert network.verdict(complete=False).held


def test_without_a_lease_at_the_receiver_causal_order_is_violated() -> None:
    network = group(lease_s_at_bob=10_000.0)
    late = stall(network)
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(10.0)
    network.arrive(late)
    assert network.data("bob") == [b"third", b"first"]
    verdict = network.verdict(complete=False)
    assert verdict.violated() == {Property.CAUSAL}


def test_a_slow_clock_within_the_drift_is_tolerated() -> None:
    """The lease of 2 seconds by bob's clock takes 2.19 seconds by ann's."""
    slow = 0.91
    network = group()
    late = stall(network)
    ann, bob = network.engines["ann"], network.engines["bob"]
    met = ann.sessions["bob"].handshake.timestamp_echo_at
    ends = ann.remove_peer("bob", network.now)
    # The last time at which bob accepts ann's datagram, by his own clock.
    accepted_until = met + LEASE_S / slow
    assert met + LEASE_S < accepted_until < ends
    bob.receive_datagram(late.datagram, "ann", met + (accepted_until - met) * slow - 0.01)
    assert [message.data for message in bob.poll_messages()] == [b"first"]


def test_removed_peers_get_no_datagrams_and_their_messages_are_refused() -> None:
    network = group()
    ann = network.engines["ann"]
    ann.remove_peer("bob", network.now)
    network.send("bob", "ann", data=b"too late")
    network.run(10.0)
    assert network.data("ann") == []
    assert network.dropped("ann")["removed"] > 0
    assert ann.peers() == ["cid"]
    with pytest.raises(LocalError, match="bob is not a peer of ann"):
        ann.send(["bob"], b"x", network.now)
    with pytest.raises(LocalError, match="bob is not a peer"):
        ann.remove_peer("bob", network.now)


def test_a_removed_peer_can_be_added_again() -> None:
    network = group()
    stall(network)
    ann = network.engines["ann"]
    ann.remove_peer("bob", network.now)
    with pytest.raises(ConfigError, match="wait until its lease has ended"):
        ann.add_peer("bob", "bob", network.now)
    network.send("bob", "ann", data=b"meanwhile")
    network.run(5.0)
    network.should_lose = lambda flight: False
    network.add_peers("ann", "bob")
    epoch = ann.sessions["bob"].epoch_out
    assert epoch == network.engines["bob"].sessions["ann"].epoch_in + 1
    network.send("ann", "bob", data=b"anew")
    network.run(5.0)
    network.send("bob", "ann", data=b"and back")
    network.run(5.0)
    assert network.engines["bob"].sessions["ann"].epoch_in == epoch
    assert network.data("bob") == [b"third", b"anew"]
    assert network.data("ann") == [b"meanwhile", b"and back"]
    assert all(engine.backlog == 0 for engine in network.engines.values())
    assert network.verdict(complete=False).held


def test_a_copy_of_an_earlier_epoch_is_refused_whatever_the_lease() -> None:
    """By the epoch bob knows that ann has removed and added him."""
    network = group(lease_s_at_bob=10_000.0)
    network.send("ann", "bob", data=b"abandoned")
    (late,) = network.intercept(lambda flight: flight.target == "bob")
    lose_all(network, "ann", "bob")
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(5.0)
    network.should_lose = lambda flight: False
    network.add_peers("ann", "bob")
    network.send("ann", "bob", data=b"anew")
    network.run(5.0)
    network.arrive(late)
    assert network.data("bob") == [b"anew"]
    assert network.dropped("bob") == {"incarnation": 1}


def test_a_protocol_without_removal_refuses_a_raised_epoch() -> None:
    """No node with this protocol raises it, but without a key a datagram may be forged."""
    network = Network(protocol="cykas")
    network.start_group("ann", "bob")
    network.run(1.0)
    network.send("ann", "bob", data=b"x")
    (flight,) = network.intercept(lambda flight: flight.target == "bob")
    raised = bytearray(flight.datagram)
    epoch_at = HEADER.size + DATA_PREFIX.size - 9
    raised[epoch_at] += 1
    bob = network.engines["bob"]
    bob.receive_datagram(bytes(raised), "ann", network.now)
    assert network.dropped("bob") == {"protocol": 1}
    assert bob.poll_messages() == []


def test_fragments_of_an_abandoned_message_do_not_reach_the_next() -> None:
    network = group()
    ann = network.engines["ann"]
    ann.send_fragment(["bob"], ann.fragment(b"o" * 3000)[0], network.now)
    network.run(0.2)
    assert network.engines["bob"].sessions["ann"].reassembly.size_bytes > 0
    ann.remove_peer("bob", network.now)
    network.run(5.0)
    network.add_peers("ann", "bob")
    network.send("ann", "bob", data=b"n" * 3000)
    network.run(5.0)
    assert network.data("bob") == [b"n" * 3000]
    assert network.engines["bob"].sessions["ann"].reassembly.size_bytes == 0


@pytest.mark.parametrize("stopped", [False, True])
def test_fragments_of_a_removed_peer_are_kept_until_it_is_forgotten(stopped: bool) -> None:
    """The peer sends the rest if it is added again before."""
    network = group()
    bob = network.engines["bob"]
    bob.send_fragment(["ann"], bob.fragment(b"o" * 3000)[0], network.now)
    network.run(0.2)
    session = network.engines["ann"].sessions["bob"]
    assert session.reassembly.size_bytes > 0
    network.engines["ann"].remove_peer("bob", network.now, stopped=stopped)
    network.run(5.0)
    assert ("bob" in network.engines["ann"].sessions) == (not stopped)
    if not stopped:
        network.add_peers("ann", "bob")
        for payload in bob.fragment(b"o" * 3000)[1:]:
            bob.send_fragment(["ann"], payload, network.now)
        network.run(5.0)
        assert network.data("ann") == [b"o" * 3000]


def test_a_peer_without_handshake_is_removed_at_once() -> None:
    network = Network(limits=LIMITS)
    ann = network.start("ann")
    network.add_peers("ann", "bob")
    network.send("ann", "bob", data=b"x")
    assert ann.remove_peer("bob", network.now) == network.now
    ann.handle_timer(network.now)
    assert ann.backlog == 0


def test_permits_of_a_stopped_peer_are_forgone_after_a_lease() -> None:
    network = group()
    network.send("bob", "cid", data=b"first")
    (late,) = network.intercept(lambda flight: flight.target == "cid")
    lose_all(network, "bob", "cid")
    network.send("bob", "ann", data=b"second")
    network.run(0.1)
    network.send("ann", "cid", data=b"third")
    network.stop("bob")
    ann = network.engines["ann"]
    begun = network.now
    ends = ann.remove_peer("bob", begun)
    stopped = ann.remove_peer("bob", begun, stopped=True)
    assert ends < stopped == pytest.approx(begun + LEASE_S * 1.1 + TIMESTAMP_RESOLUTION_S)
    network.run(1.2)
    network.arrive(late)
    network.run(0.9)
    assert network.data("cid") == [b"first"]
    network.run(1.0)
    assert network.data("cid") == [b"first", b"third"]
    assert network.verdict().held


def test_a_peer_that_is_silent_beyond_the_timeout_is_removed() -> None:
    limits = Limits(lease_s=LEASE_S, peer_timeout_s=30.0)
    network = Network(limits=limits)
    network.start_group("ann", "bob", "cid", "dan")
    network.run(1.0)
    network.stop("bob")
    network.stop("dan")  # No copy to dan is in flight, so he is not removed.
    network.send("ann", "bob", data=b"first")
    network.send("ann", "cid", data=b"second")
    begun = network.now
    network.run(25.0)
    ann = network.engines["ann"]
    assert ann.peers() == ["bob", "cid", "dan"]
    network.run(20.0)
    assert ann.peers() == ["cid", "dan"]
    assert ann.backlog == 0
    assert network.now < begun + 2 * limits.peer_timeout_s
    network.run(500.0)
    assert ann.peers() == ["cid", "dan"]
    assert network.engines["cid"].peers() == ["ann", "bob", "dan"]


def test_a_slow_peer_that_is_heard_is_not_removed() -> None:
    """Bob's inbox is closed, so he acks nothing, but he sends messages."""
    network = Network(limits=Limits(lease_s=LEASE_S, peer_timeout_s=30.0))
    network.start_group("ann", "bob")
    network.run(1.0)
    network.engines["bob"].flow.is_closed = True
    network.send("ann", "bob", data=b"x")
    for _ in range(40):
        network.run(10.0)
        network.send("bob", "ann", data=b"I am here")
    assert network.engines["ann"].peers() == ["bob"]


def test_a_protocol_without_removal_refuses_a_timeout_and_a_removal() -> None:
    with pytest.raises(
        ConfigError, match="cykas cannot remove a peer; leave out peer_timeout"
    ):
        Network(protocol="cykas", limits=Limits(peer_timeout_s=1.0)).start("ann")
    network = Network(protocol="cykas")
    network.start_group("ann", "bob")
    with pytest.raises(LocalError, match="cykas cannot remove a peer; use hybrid"):
        network.engines["ann"].remove_peer("bob", network.now)
    assert network.engines["ann"].peers() == ["bob"]


@pytest.mark.long
def test_random_removals_preserve_causal_order() -> None:
    for seed in range(6):
        network = Network(
            seed,
            loss=0.1,
            duplication=0.1,
            delay_s=(0.001, 0.3),
            limits=Limits(lease_s=1.0),
            protocol=("hybrid", "hybrid-basic")[seed % 2],
        )
        names = ("ann", "bob", "cid", "dan")
        network.start_group(*names)
        network.run(1.0)
        for _ in range(8):
            one, other = network.random.sample(names, 2)
            lose_all(network, one, other)
            for _ in range(15):
                source, target = network.random.sample(names, 2)
                if (source, target) != (one, other):
                    network.send(source, target, data=b"x")
                network.run(network.random.uniform(0.0, 0.02))
            ends = network.engines[one].remove_peer(other, network.now)
            while network.now < ends:
                source, target = network.random.sample(names, 2)
                if target in network.engines[source].peers():
                    network.send(source, target, data=b"y")
                network.run(0.05)
            network.run(0.01)
            network.should_lose = lambda flight: False
            network.add_peers(one, other)
        network.run(300.0)
        verdict = network.verdict(complete=False)
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert all(engine.backlog == 0 for engine in network.engines.values()), seed
        before = verdict.deliveries
        for name in names:
            network.send(name, *[other for other in names if other != name], data=b"z")
        network.run(300.0)
        assert network.verdict(complete=False).deliveries == before + 12


def test_a_peer_that_left_and_is_added_again_is_not_abandoned() -> None:
    """Bob transmits BYE and continues; ann adds him again before his lease ends."""
    network = group()
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.run(0.1)
    ann = network.engines["ann"]
    assert ann.peers() == ["cid"]
    network.add_peers("ann", "bob")
    network.add_peers("bob", "ann")
    network.run(1.0)
    lose_all(network, "ann", "bob")
    network.send("ann", "bob", data=b"on its way")
    network.run(5.0)
    assert ann.backlog == 1
    network.should_lose = lambda flight: False
    network.run(20.0)
    assert network.data("bob") == [b"on its way"]


def test_a_bye_ack_does_not_change_a_peer_that_is_being_removed() -> None:
    network = group()
    ann, bob = network.engines["ann"], network.engines["bob"]
    for address, datagram in ann.bye_datagrams(network.now):
        network.transmit("ann", str(address), datagram)
    network.run(0.0015)
    bye_acks = network.intercept(lambda flight: flight.target == "ann")
    assert bye_acks
    ann.remove_peer("bob", network.now)
    for flight in bye_acks:
        network.arrive(flight)
    assert ann.sessions["bob"].state == REMOVING
    assert bob.peers() == ["cid"]


def test_without_removals_every_message_is_delivered() -> None:
    network = group()
    random_traffic(network, messages=20)
    assert network.verdict().held


def test_a_removed_peer_may_be_removed_again_because_it_has_stopped() -> None:
    """An operator learns later that the peer will never permit what it had sent."""
    network = group()
    ann = network.engines["ann"]
    network.should_lose = lambda flight: flight.target == "cid"
    network.send("bob", "cid", data=b"lost")
    network.send("bob", "ann", data=b"x")
    network.run(0.2)
    network.stop("bob")
    network.should_lose = lambda flight: False
    ann.remove_peer("bob", network.now)
    network.run(20.0)
    network.send("ann", "cid", data=b"y")
    network.run(20.0)
    assert network.data("cid") == []  # The permit of bob is missing.
    with pytest.raises(LocalError, match="bob is not a peer"):
        ann.remove_peer("bob", network.now)
    ann.remove_peer("bob", network.now, stopped=True)
    network.run(20.0)
    assert network.data("cid") == [b"y"]
    assert "bob" not in ann.sessions
