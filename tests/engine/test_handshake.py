"""A node accepts frames of a peer only after a handshake with its running incarnation."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from antecede.core.protocols.hybrid.process import HybridProcess
from antecede.engine import Engine, Limits
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import DATA, HELLO, VERSION, WELCOME, name_hash, read_header
from antecede.engine.handshake import INTRODUCED_MAX, RETIRED_MAX
from antecede.errors import ConfigError, LocalError
from tests.engine.network import Flight, Network

KINDS = {HELLO: "hello", WELCOME: "welcome", DATA: "data"}


def kind_of(flight: Flight) -> int:
    return read_header(flight.datagram)[0]


def is_from(source: str, kind: int) -> Callable[[Flight], bool]:
    return lambda flight: flight.source == source and kind_of(flight) == kind


def kinds(network: Network, source: str) -> list[str]:
    return [
        KINDS[kind_of(flight)] for flight in network.transmitted if flight.source == source
    ]


def test_only_hello_and_welcome_are_transmitted_before_the_handshake() -> None:
    network = Network()
    network.start_group("ann", "bob")
    network.send("ann", "bob", data=b"first")
    network.run_until_idle()
    assert kinds(network, "ann")[0] == "hello"
    data = [flight for flight in network.transmitted if kind_of(flight) == DATA]
    welcomed = [flight for flight in network.transmitted if kind_of(flight) == WELCOME]
    assert min(f.transmitted_at for f in data) >= min(f.due for f in welcomed)
    assert network.data("bob") == [b"first"]


@pytest.mark.parametrize("lost", [HELLO, WELCOME], ids=["hello", "welcome"])
@pytest.mark.parametrize("times", [1, 4])
def test_the_next_hello_replaces_a_lost_hello_or_welcome(lost: int, times: int) -> None:
    network = Network()
    left = {"ann": times, "bob": times}

    def lose(flight: Flight) -> bool:
        if kind_of(flight) != lost or left[flight.source] == 0:
            return False
        left[flight.source] -= 1
        return True

    network.should_lose = lose
    network.start_group("ann", "bob")
    network.send("ann", "bob", data=b"x")
    network.run(20.0)
    assert network.data("bob") == [b"x"]
    assert network.verdict().held


def test_one_of_two_peers_may_be_added_late() -> None:
    network = Network()
    network.start("ann")
    network.add_peers("ann", "bob")
    network.send("ann", "bob", data=b"early")
    network.run(5.0)
    network.start("bob")
    network.run(5.0)
    assert network.dropped("bob")["unknown_sender"] > 0
    assert network.data("bob") == []
    network.add_peers("bob", "ann")
    network.run(5.0)
    assert network.data("bob") == [b"early"]


def test_crossing_hellos_lead_to_one_handshake() -> None:
    network = Network(delay_s=(0.01, 0.01))
    ann, bob = network.start_group("ann", "bob")
    network.send("ann", "bob", data=b"a")
    network.send("bob", "ann", data=b"b")
    network.run(5.0)
    assert kinds(network, "ann").count("hello") == 1
    assert kinds(network, "bob").count("hello") == 1
    assert ann.sessions["bob"].handshake.incarnation == bob.incarnation
    assert bob.sessions["ann"].handshake.incarnation == ann.incarnation
    assert network.verdict().held


def test_hellos_to_a_silent_peer_back_off_but_never_stop() -> None:
    network = Network()
    network.start("ann")
    network.add_peers("ann", "bob")
    network.run(600.0)
    at = [f.transmitted_at for f in network.transmitted]
    gaps = [later - earlier for earlier, later in pairwise(at)]
    limits = Limits()
    assert gaps[0] == pytest.approx(limits.hello_timeout_s)
    assert gaps == sorted(gaps)
    assert gaps[-1] == pytest.approx(16 * limits.hello_timeout_s)
    assert at[-1] > network.now - 16 * limits.hello_timeout_s - 1


def test_another_protocol_is_refused_and_counted_as_the_reason() -> None:
    network = Network()
    network.start("ann", protocol="hybrid")
    network.start("bob", protocol="cykas")
    network.add_peers("ann", "bob")
    network.add_peers("bob", "ann")
    network.send("ann", "bob", data=b"x")
    network.run(5.0)
    assert set(network.dropped("ann")) == set(network.dropped("bob")) == {"protocol"}
    assert network.data("bob") == []
    assert all(kind == "hello" for kind in kinds(network, "ann"))


@pytest.mark.parametrize(
    "cipher", [None, AesGcmDatagramCipher(b"k" * 32)], ids=["plain", "sealed"]
)
def test_another_version_is_refused(
    cipher: AesGcmDatagramCipher | None,
) -> None:
    network = Network(cipher=cipher)
    network.start_group("ann", "bob")
    network.run(1.0)
    network.send("ann", "bob", data=b"x")
    (flight,) = network.intercept(is_from("ann", DATA))
    newer = bytes([VERSION + 1 << 4 | DATA]) + flight.datagram[1:]
    network.engines["bob"].receive_datagram(newer, "ann", network.now)
    assert network.dropped("bob") == {"malformed": 1}
    network.arrive(flight)
    assert network.data("bob") == [b"x"]


def test_a_node_cannot_add_itself_or_send_to_an_unknown_peer() -> None:
    assert name_hash("ann") != name_hash("bob")
    assert name_hash("ann") == name_hash("ann") < 1 << 64
    engine = Engine("ann", 1)
    engine.add_peer("bob", "bob", 0.0)
    with pytest.raises(ConfigError, match="itself"):
        engine.add_peer("ann", "ann", 0.0)
    with pytest.raises(LocalError, match="eve is not a peer of ann"):
        engine.send(["eve"], b"", 0.0)


def test_the_first_round_trip_is_learned_from_the_handshake() -> None:
    network = Network(delay_s=(0.04, 0.04))
    ann, _ = network.start_group("ann", "bob")
    network.run(1.0)
    assert ann.process.round_trip_s(ann.sessions["bob"].id) == pytest.approx(0.08, abs=1e-3)


# Datagrams of former incarnations.


@pytest.mark.parametrize("late", [WELCOME, DATA], ids=["welcome", "data"])
def test_a_late_datagram_of_a_former_incarnation_does_not_replace_the_current_one(
    late: int,
) -> None:
    """Ann had no handshake with the former bob before the current one."""
    network = Network(delay_s=(0.01, 0.01))
    network.start_group("ann", "bob")
    network.send("bob", "ann", data=b"former")
    network.should_lose = lambda flight: (
        flight.target == "ann" and kind_of(flight) in ({WELCOME, DATA} - {late})
    )
    held: list[Flight] = []
    for _ in range(30):
        network.run(0.001)
        held += network.intercept(
            lambda flight: flight.target == "ann" and kind_of(flight) == late
        )
    assert held
    network.should_lose = lambda flight: False
    network.start("bob")
    network.add_peers("bob", "ann")
    network.send("bob", "ann", data=b"present")
    network.run(1.0)
    assert network.data("ann") == [b"present"]
    for flight in held:
        network.arrive(flight)
    network.run(1.0)
    network.send("bob", "ann", data=b"again")
    network.send("ann", "bob", data=b"and back")
    network.run(5.0)
    assert network.data("ann") == [b"present", b"again"]
    assert network.data("bob") == [b"and back"]
    assert network.dropped("ann")["incarnation"] == len(held)


def test_the_hello_of_a_retired_incarnation_is_not_answered() -> None:
    network = Network()
    network.start_group("ann", "bob")
    network.run(1.0)
    (hello,) = (flight for flight in network.transmitted if is_from("bob", HELLO)(flight))
    ann = network.engines["ann"]
    ann.receive_datagram(hello.datagram, "bob", network.now)
    assert len(ann.flush(network.now)) == 1  # The current incarnation may repeat its HELLO.
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(1.0)
    ann.receive_datagram(hello.datagram, "bob", network.now)
    assert ann.flush(network.now) == []
    assert network.dropped("ann") == {"incarnation": 1}


def test_data_of_an_unknown_incarnation_is_answered_with_hello() -> None:
    """The incarnation sent DATA without a HELLO before it."""
    network = Network()
    network.start_group("ann", "bob")
    network.run(1.0)
    network.send("ann", "bob", data=b"so that bob has a timestamp to echo")
    network.run(1.0)
    network.send("bob", "ann", data=b"x")
    (flight,) = network.intercept(is_from("bob", DATA))
    ann = network.engines["ann"]
    known = ann.sessions["bob"].handshake.incarnation
    unknown = flight.datagram[:9] + (known ^ 1).to_bytes(8, "big") + flight.datagram[17:]
    ann.receive_datagram(unknown, "bob", network.now)
    assert network.dropped("ann") == {"incarnation": 1}
    assert ann.sessions["bob"].handshake.incarnation == known
    assert [read_header(datagram)[0] for _, datagram in ann.flush(network.now)] == [HELLO]
    network.arrive(flight)
    assert network.data("ann") == [b"x"]


def test_the_running_incarnation_replaces_a_stale_one_that_was_bound_first() -> None:
    """Both sent HELLO before any DATA arrived, and the stale DATA arrives first."""
    network = Network(delay_s=(0.01, 0.01))
    network.start_group("ann", "bob")
    network.send("bob", "ann", data=b"former")
    network.should_lose = lambda flight: (
        flight.target == "ann" and kind_of(flight) == WELCOME
    )
    network.run(0.025)
    stale = network.intercept(is_from("bob", DATA))
    assert stale
    network.start("bob")
    network.add_peers("bob", "ann")
    network.send("bob", "ann", data=b"present")
    network.run(0.025)
    fresh = network.intercept(is_from("bob", DATA))
    assert fresh
    network.should_lose = lambda flight: False
    for flight in (*stale, *fresh):
        network.arrive(flight)
    network.run(10.0)
    assert network.data("ann")[-1] == b"present"
    assert network.engines["ann"].sessions["bob"].handshake.incarnation == (
        network.engines["bob"].incarnation
    )
    assert network.verdict(complete=False).held


@pytest.mark.parametrize("speaker", ["ann", "bob", "nobody"])
def test_the_memory_for_a_peer_that_keeps_restarting_is_bounded(speaker: str) -> None:
    network = Network(limits=Limits(lease_s=2.0))
    network.start_group("ann", "bob")
    network.run(0.1)
    for _ in range(200):
        network.start("bob")
        network.add_peers("bob", "ann")
        network.run(0.05)
        if speaker != "nobody":
            network.send(speaker, "bob" if speaker == "ann" else "ann", data=b"x")
        network.run(0.05)
    assert len(network.data("ann")) == (200 if speaker == "bob" else 0)
    assert len(network.data("bob")) == (200 if speaker == "ann" else 0)
    network.run(10.0)
    session = network.engines["ann"].sessions["bob"]
    assert len(session.handshake.introduced) <= INTRODUCED_MAX
    assert len(session.handshake.retired) <= RETIRED_MAX
    process = network.engines["ann"].process
    assert isinstance(process, HybridProcess)
    assert len(process._algorithm.state.peers) <= 2
    assert network.verdict(complete=False).held


def test_a_datagram_of_an_earlier_epoch_changes_nothing() -> None:
    """It is refused before the session is bound to the incarnation that sent it."""
    network = Network()
    network.start_group("ann", "bob")
    network.run(1.0)
    ann = network.engines["ann"]
    session = ann.sessions["bob"]
    network.start("bob", history=session.history)
    network.add_peers("bob", "ann")
    session.epoch_in += 1_000_000  # As if bob had removed ann, and forgotten it since.
    incarnation = session.handshake.incarnation
    ann.receive_datagram(
        network.engines["bob"].flush(network.now)[0][1], "bob", network.now
    )
    network.intercept(lambda flight: True)
    bob = network.engines["bob"]
    for _, welcome in ann.flush(network.now):
        bob.receive_datagram(welcome, "ann", network.now)
    for _, answer in bob.flush(network.now):
        ann.receive_datagram(answer, "bob", network.now)
    assert session.handshake.incarnation == incarnation
    assert ann.stats().dropped["incarnation"] > 0


def test_a_late_welcome_does_not_end_the_search_for_a_new_incarnation() -> None:
    """The WELCOME of bob's former incarnation arrives after the HELLO of the new one."""
    network = Network(delay_s=(0.1, 0.1))
    ann, _ = network.start_group("ann", "bob")
    network.run(10.0)
    network.add_peers("ann", "bob")  # Ann asks again who is running.
    network.run(0.15)
    bob = network.start("bob")  # The former incarnation has just answered.
    network.delay_s = (0.01, 0.01)
    network.add_peers("bob", "ann")
    network.run(10.0)
    assert ann.sessions["bob"].handshake.incarnation == bob.incarnation


def test_a_peer_with_another_address_is_contacted_at_once() -> None:
    """The HELLO to the former address is not answered, so the next one would be late."""
    network = Network(delay_s=(0.001, 0.001))
    ann = network.start("ann")
    ann.add_peer("bob", "nowhere", network.now)
    network.run(20.0)
    path = ann.sessions["bob"].path
    path.controller.on_persistent_congestion()
    ann.add_peer("bob", "bob", network.now)
    network.flush("ann")
    hello = network.transmitted[-1]
    assert (hello.target, hello.transmitted_at) == ("bob", network.now)
    assert path.window > 2 * path.datagram_bytes  # It begins anew, too.
