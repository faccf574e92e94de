"""Letting go of a peer: what is abandoned is refused, and until then nothing overtakes."""

import pytest

from antecede.engine import Limits
from antecede.engine.datagram import DATA_PREFIX, HEADER
from antecede.engine.peer_session import REMOVED, REMOVING
from antecede.engine.session_layer import TIMESTAMP_RESOLUTION_S
from antecede.errors import ConfigError, LocalError
from antecede.verify import Property
from tests.engine.lossy import Flight, Network, chatter

LEASE_S = 2.0
LIMITS = Limits(lease_s=LEASE_S, clock_drift_max=0.1)
"""A lease and its drift, so that letting go takes 2.201 seconds."""


def group(*, lease_s_at_bob: float = LEASE_S) -> Network:
    """Start ann, bob and cid, and let them meet; bob may think of leases as he likes."""
    network = Network(limits=LIMITS, delay_s=(0.001, 0.001))
    network.start("ann")
    network.start("bob", limits=Limits(lease_s=lease_s_at_bob))
    network.start("cid")
    for name in ("ann", "bob", "cid"):
        network.introduce(name, *{"ann", "bob", "cid"} - {name})
    network.run(0.5)
    return network


def cut_off(network: Network, source: str, target: str) -> None:
    network.lost = lambda flight: (flight.source, flight.target) == (source, target)


def stalled(network: Network) -> Flight:
    """Ann's message to bob is late, so what cid sends to bob waits for ann's permit."""
    network.send("ann", "bob", data=b"first")
    (late,) = network.hold_back(lambda flight: flight.target == "bob")
    cut_off(network, "ann", "bob")
    network.send("ann", "cid", data=b"second")
    network.run(0.1)
    assert network.data("cid") == [b"second"]
    network.send("cid", "bob", data=b"third")
    network.run(0.2)
    assert network.data("bob") == []
    return late


def test_permits_flow_exactly_when_the_lease_has_run_out() -> None:
    network = group()
    stalled(network)
    ann = network.engines["ann"]
    session = ann.sessions["bob"]
    ends = ann.remove_peer("bob", network.now)
    assert ends == pytest.approx(
        session.handshake.timestamp_echo_at + LEASE_S * 1.1 + TIMESTAMP_RESOLUTION_S
    )
    assert session.state == REMOVING
    assert ann.remove_peer("bob", network.now) == ends  # Saying it twice changes nothing.
    network.run(ends - network.now - 0.001)
    assert session.state == REMOVING
    assert ann.backlog == 1
    assert network.data("bob") == []
    network.run(0.001)
    assert session.state == REMOVED
    assert ann.backlog == 0
    network.run(5.0)
    assert network.data("bob") == [b"third"]
    assert network.verdict(complete=False).held


def test_a_late_copy_within_the_lease_comes_before_what_waits_for_it() -> None:
    network = group()
    late = stalled(network)
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(0.5)
    network.arrive(late)
    network.run(10.0)
    assert network.data("bob") == [b"first", b"third"]
    assert network.verdict().held


def test_a_copy_older_than_the_lease_is_refused() -> None:
    network = group()
    late = stalled(network)
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(10.0)
    network.arrive(late)
    assert network.data("bob") == [b"third"]
    assert network.dropped("bob") == {"expired": 1}
    assert network.verdict(complete=False).held


def test_without_a_lease_at_the_receiver_the_oracle_sees_the_overtaking() -> None:
    network = group(lease_s_at_bob=10_000.0)
    late = stalled(network)
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(10.0)
    network.arrive(late)
    assert network.data("bob") == [b"third", b"first"]
    verdict = network.verdict(complete=False)
    assert verdict.violated() == {Property.CAUSAL}


def test_a_clock_that_runs_slow_within_the_drift_is_allowed_for() -> None:
    """By bob's clock the lease is longer: 2 of his seconds are 2.19 of ann's."""
    slow = 0.91
    network = group()
    late = stalled(network)
    ann, bob = network.engines["ann"], network.engines["bob"]
    met = ann.sessions["bob"].handshake.timestamp_echo_at
    ends = ann.remove_peer("bob", network.now)
    # The last moment at which bob takes what ann sent, by his own clock.
    accepted_until = met + LEASE_S / slow
    assert met + LEASE_S < accepted_until < ends
    bob.receive_datagram(late.datagram, "ann", met + (accepted_until - met) * slow - 0.01)
    assert [message.data for message in bob.poll_messages()] == [b"first"]


def test_removed_peers_are_not_spoken_to_and_their_messages_are_refused() -> None:
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


def test_who_comes_back_begins_anew_and_both_sides_go_on() -> None:
    network = group()
    stalled(network)
    ann = network.engines["ann"]
    ann.remove_peer("bob", network.now)
    with pytest.raises(ConfigError, match="wait until its lease has ended"):
        ann.add_peer("bob", "bob", network.now)
    network.send("bob", "ann", data=b"meanwhile")
    network.run(5.0)
    network.lost = lambda flight: False
    network.introduce("ann", "bob")
    assert ann.sessions["bob"].epoch_out == 1
    network.send("ann", "bob", data=b"anew")
    network.run(5.0)
    network.send("bob", "ann", data=b"and back")
    network.run(5.0)
    assert network.engines["bob"].sessions["ann"].epoch_in == 1
    assert network.data("bob") == [b"third", b"anew"]
    assert network.data("ann") == [b"meanwhile", b"and back"]
    assert all(engine.backlog == 0 for engine in network.engines.values())
    assert network.verdict(complete=False).held


def test_a_copy_of_an_abandoned_epoch_is_refused_however_long_the_lease() -> None:
    """The epoch is a second line: bob knows by it that ann has begun anew."""
    network = group(lease_s_at_bob=10_000.0)
    network.send("ann", "bob", data=b"abandoned")
    (late,) = network.hold_back(lambda flight: flight.target == "bob")
    cut_off(network, "ann", "bob")
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(5.0)
    network.lost = lambda flight: False
    network.introduce("ann", "bob")
    network.send("ann", "bob", data=b"anew")
    network.run(5.0)
    network.arrive(late)
    assert network.data("bob") == [b"anew"]
    assert network.dropped("bob") == {"incarnation": 1}


def test_a_protocol_without_epochs_refuses_a_raised_one() -> None:
    """No node of the protocol raises it, but what comes without a key may say anything."""
    network = Network(protocol="cykas")
    network.mesh("ann", "bob")
    network.run(1.0)
    network.send("ann", "bob", data=b"x")
    (flight,) = network.hold_back(lambda flight: flight.target == "bob")
    raised = bytearray(flight.datagram)
    epoch_at = HEADER.size + DATA_PREFIX.size - 1
    raised[epoch_at] += 1
    bob = network.engines["bob"]
    bob.receive_datagram(bytes(raised), "ann", network.now)
    assert network.dropped("bob") == {"protocol": 1}
    assert bob.poll_messages() == []


def test_parts_of_an_abandoned_message_do_not_reach_the_next() -> None:
    network = group()
    ann = network.engines["ann"]
    ann.send_fragment(["bob"], ann.fragment(b"o" * 3000)[0], network.now)
    network.run(0.2)
    assert network.engines["bob"].sessions["ann"].reassembly.size_bytes > 0
    ann.remove_peer("bob", network.now)
    network.run(5.0)
    network.introduce("ann", "bob")
    network.send("ann", "bob", data=b"n" * 3000)
    network.run(5.0)
    assert network.data("bob") == [b"n" * 3000]
    assert network.engines["bob"].sessions["ann"].reassembly.size_bytes == 0


def test_parts_of_a_removed_peer_are_dropped() -> None:
    network = group()
    bob = network.engines["bob"]
    bob.send_fragment(["ann"], bob.fragment(b"o" * 3000)[0], network.now)
    network.run(0.2)
    session = network.engines["ann"].sessions["bob"]
    assert session.reassembly.size_bytes > 0
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(5.0)
    assert (session.reassembly.fragments, session.reassembly.size_bytes) == ([], 0)


def test_a_peer_that_was_never_met_can_be_let_go_of_at_once() -> None:
    network = Network(limits=LIMITS)
    ann = network.start("ann")
    network.introduce("ann", "bob")
    network.send("ann", "bob", data=b"x")
    assert ann.remove_peer("bob", network.now) == network.now
    ann.handle_timer(network.now)
    assert ann.backlog == 0


def test_who_has_stopped_for_good_is_not_waited_for_after_a_lease() -> None:
    network = group()
    network.send("bob", "cid", data=b"first")
    (late,) = network.hold_back(lambda flight: flight.target == "cid")
    cut_off(network, "bob", "cid")
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


def test_a_peer_that_is_silent_for_too_long_is_given_up_if_that_is_asked_for() -> None:
    limits = Limits(lease_s=LEASE_S, peer_timeout_s=30.0)
    network = Network(limits=limits)
    network.mesh("ann", "bob", "cid", "dan")
    network.run(1.0)
    network.stop("bob")
    network.stop("dan")  # Nothing is sent to dan, so nobody waits for him.
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


def test_a_peer_that_is_slow_and_heard_is_not_given_up() -> None:
    """Bob's application takes nothing, so he acks nothing, but he is there."""
    network = Network(limits=Limits(lease_s=LEASE_S, peer_timeout_s=30.0))
    network.mesh("ann", "bob")
    network.run(1.0)
    network.engines["bob"].inbox_full = True
    network.send("ann", "bob", data=b"x")
    for _ in range(40):
        network.run(10.0)
        network.send("bob", "ann", data=b"I am here")
    assert network.engines["ann"].peers() == ["bob"]


def test_a_protocol_that_cannot_let_go_says_so() -> None:
    with pytest.raises(
        ConfigError, match="cykas cannot remove a peer; leave out peer_timeout"
    ):
        Network(protocol="cykas", limits=Limits(peer_timeout_s=1.0)).start("ann")
    network = Network(protocol="cykas")
    network.mesh("ann", "bob")
    with pytest.raises(LocalError, match="cykas cannot remove a peer; use hybrid"):
        network.engines["ann"].remove_peer("bob", network.now)
    assert network.engines["ann"].peers() == ["bob"]


def test_removals_at_random_never_break_the_order() -> None:
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
        network.mesh(*names)
        network.run(1.0)
        for _ in range(8):
            one, other = network.random.sample(names, 2)
            cut_off(network, one, other)
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
            network.lost = lambda flight: False
            network.introduce(one, other)
        network.run(300.0)
        verdict = network.verdict(complete=False)
        assert verdict.held, f"seed {seed}: {[str(v) for v in verdict.violations[:3]]}"
        assert all(engine.backlog == 0 for engine in network.engines.values()), seed
        before = verdict.deliveries
        for name in names:
            network.send(name, *[other for other in names if other != name], data=b"z")
        network.run(300.0)
        assert network.verdict(complete=False).deliveries == before + 12


def test_who_left_and_is_added_again_is_not_let_go_of() -> None:
    """Bob says goodbye and stays; ann, told to go on with him, has his lease renewed."""
    network = group()
    for address, datagram in network.engines["bob"].bye_datagrams(network.now):
        network.transmit("bob", str(address), datagram)
    network.run(0.1)
    ann = network.engines["ann"]
    assert ann.peers() == ["cid"]
    network.introduce("ann", "bob")
    network.introduce("bob", "ann")
    network.run(1.0)
    cut_off(network, "ann", "bob")
    network.send("ann", "bob", data=b"on its way")
    network.run(5.0)
    assert ann.backlog == 1
    network.lost = lambda flight: False
    network.run(20.0)
    assert network.data("bob") == [b"on its way"]


def test_farewells_do_not_bring_back_who_was_removed() -> None:
    network = group()
    ann, bob = network.engines["ann"], network.engines["bob"]
    for address, datagram in ann.bye_datagrams(network.now):
        network.transmit("ann", str(address), datagram)
    network.run(0.0015)
    farewells = network.hold_back(lambda flight: flight.target == "ann")
    assert farewells
    ann.remove_peer("bob", network.now)
    for flight in farewells:
        network.arrive(flight)
    assert ann.sessions["bob"].state == REMOVING
    assert bob.peers() == ["cid"]


def test_without_removals_chatter_is_judged_complete() -> None:
    network = group()
    chatter(network, messages=20)
    assert network.verdict().held
