"""Nobody is believed before it has proven to be there now."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from antecede.core.protocols.hybrid.basic import HybridBasic
from antecede.engine import Engine, Limits
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import DATA, HELLO, VERSION, WELCOME, name_hash, read_header
from antecede.engine.handshake import INTRODUCED_MAX, RETIRED_MAX
from antecede.errors import ConfigError, LocalError
from tests.engine.lossy import Flight, Network

KINDS = {HELLO: "hello", WELCOME: "welcome", DATA: "data"}


def kind_of(flight: Flight) -> int:
    return read_header(flight.datagram)[0]


def is_from(source: str, kind: int) -> Callable[[Flight], bool]:
    return lambda flight: flight.source == source and kind_of(flight) == kind


def kinds(network: Network, source: str) -> list[str]:
    return [
        KINDS[kind_of(flight)] for flight in network.transmitted if flight.source == source
    ]


def test_nothing_but_hellos_and_answers_comes_before_the_handshake() -> None:
    network = Network()
    network.mesh("ann", "bob")
    network.send("ann", "bob", data=b"first")
    network.run_until_quiet()
    assert kinds(network, "ann")[0] == "hello"
    said = [flight for flight in network.transmitted if kind_of(flight) == DATA]
    welcomed = [flight for flight in network.transmitted if kind_of(flight) == WELCOME]
    assert min(f.transmitted_at for f in said) >= min(f.due for f in welcomed)
    assert network.data("bob") == [b"first"]


@pytest.mark.parametrize("lost", [HELLO, WELCOME], ids=["hello", "welcome"])
@pytest.mark.parametrize("times", [1, 4])
def test_a_lost_hello_or_welcome_is_made_up_for_by_the_next_hello(
    lost: int, times: int
) -> None:
    network = Network()
    left = {"ann": times, "bob": times}

    def lose(flight: Flight) -> bool:
        if kind_of(flight) != lost or left[flight.source] == 0:
            return False
        left[flight.source] -= 1
        return True

    network.lost = lose
    network.mesh("ann", "bob")
    network.send("ann", "bob", data=b"x")
    network.run(20.0)
    assert network.data("bob") == [b"x"]
    assert network.verdict().held


def test_only_one_needs_to_know_the_address_of_the_other_in_time() -> None:
    network = Network()
    network.start("ann")
    network.introduce("ann", "bob")
    network.send("ann", "bob", data=b"early")
    network.run(5.0)
    network.start("bob")
    network.run(5.0)
    assert network.dropped("bob")["unknown_sender"] > 0
    assert network.data("bob") == []
    network.introduce("bob", "ann")
    network.run(5.0)
    assert network.data("bob") == [b"early"]


def test_crossing_hellos_lead_to_one_meeting() -> None:
    network = Network(delay_s=(0.01, 0.01))
    ann, bob = network.mesh("ann", "bob")
    network.send("ann", "bob", data=b"a")
    network.send("bob", "ann", data=b"b")
    network.run(5.0)
    assert kinds(network, "ann").count("hello") == 1
    assert kinds(network, "bob").count("hello") == 1
    assert ann.sessions["bob"].handshake.incarnation == bob.incarnation
    assert bob.sessions["ann"].handshake.incarnation == ann.incarnation
    assert network.verdict().held


def test_hellos_to_a_silent_peer_become_rare_but_never_stop() -> None:
    network = Network()
    network.start("ann")
    network.introduce("ann", "bob")
    network.run(600.0)
    at = [f.transmitted_at for f in network.transmitted]
    gaps = [later - earlier for earlier, later in pairwise(at)]
    limits = Limits()
    assert gaps[0] == pytest.approx(limits.hello_timeout_s)
    assert gaps == sorted(gaps)
    assert gaps[-1] == pytest.approx(16 * limits.hello_timeout_s)
    assert at[-1] > network.now - 16 * limits.hello_timeout_s - 1


def test_another_protocol_is_refused_and_named_as_the_reason() -> None:
    network = Network()
    network.start("ann", protocol="hybrid")
    network.start("bob", protocol="cykas")
    network.introduce("ann", "bob")
    network.introduce("bob", "ann")
    network.send("ann", "bob", data=b"x")
    network.run(5.0)
    assert set(network.dropped("ann")) == set(network.dropped("bob")) == {"protocol"}
    assert network.data("bob") == []
    assert all(kind == "hello" for kind in kinds(network, "ann"))


@pytest.mark.parametrize(
    "cipher", [None, AesGcmDatagramCipher(b"k" * 32)], ids=["plain", "sealed"]
)
def test_another_version_is_refused_before_anything_else(
    cipher: AesGcmDatagramCipher | None,
) -> None:
    network = Network(cipher=cipher)
    network.mesh("ann", "bob")
    network.run(1.0)
    network.send("ann", "bob", data=b"x")
    (flight,) = network.hold_back(is_from("ann", DATA))
    newer = bytes([VERSION + 1 << 4 | DATA]) + flight.datagram[1:]
    network.engines["bob"].receive_datagram(newer, "ann", network.now)
    assert network.dropped("bob") == {"malformed": 1}
    network.arrive(flight)
    assert network.data("bob") == [b"x"]


def test_names_with_one_tag_cannot_be_peers_of_one_node() -> None:
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
    ann, _ = network.mesh("ann", "bob")
    network.run(1.0)
    assert ann.process.round_trip_s(ann.sessions["bob"].id) == pytest.approx(0.08, abs=1e-3)


# Incarnations that come in the wrong order.


@pytest.mark.parametrize("late", [WELCOME, DATA], ids=["welcome", "data"])
def test_a_late_word_of_a_former_incarnation_does_not_drive_out_the_present_one(
    late: int,
) -> None:
    """Ann has never met the former bob when its words come, after the present bob's."""
    network = Network(delay_s=(0.01, 0.01))
    network.mesh("ann", "bob")
    network.send("bob", "ann", data=b"former")
    network.lost = lambda flight: (
        flight.target == "ann" and kind_of(flight) in ({WELCOME, DATA} - {late})
    )
    held: list[Flight] = []
    for _ in range(30):
        network.run(0.001)
        held += network.hold_back(
            lambda flight: flight.target == "ann" and kind_of(flight) == late
        )
    assert held
    network.lost = lambda flight: False
    network.start("bob")
    network.introduce("bob", "ann")
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


def test_the_hello_of_an_incarnation_that_was_followed_is_not_answered() -> None:
    network = Network()
    network.mesh("ann", "bob")
    network.run(1.0)
    (hello,) = (flight for flight in network.transmitted if is_from("bob", HELLO)(flight))
    ann = network.engines["ann"]
    ann.receive_datagram(hello.datagram, "bob", network.now)
    assert len(ann.flush(network.now)) == 1  # The present one may ask again.
    network.start("bob")
    network.introduce("bob", "ann")
    network.run(1.0)
    ann.receive_datagram(hello.datagram, "bob", network.now)
    assert ann.flush(network.now) == []
    assert network.dropped("ann") == {"incarnation": 1}


def test_who_has_not_said_hello_is_asked_before_anything_is_believed() -> None:
    """Bob is restarted and, by a fault of his, says something without saying hello."""
    network = Network()
    network.mesh("ann", "bob")
    network.run(1.0)
    network.send("ann", "bob", data=b"so that he knows what her clock reads")
    network.run(1.0)
    network.send("bob", "ann", data=b"x")
    (flight,) = network.hold_back(is_from("bob", DATA))
    ann = network.engines["ann"]
    known = ann.sessions["bob"].handshake.incarnation
    stranger = flight.datagram[:9] + (known ^ 1).to_bytes(8, "big") + flight.datagram[17:]
    ann.receive_datagram(stranger, "bob", network.now)
    assert network.dropped("ann") == {"incarnation": 1}
    assert ann.sessions["bob"].handshake.incarnation == known
    assert [read_header(datagram)[0] for _, datagram in ann.flush(network.now)] == [HELLO]
    network.arrive(flight)
    assert network.data("ann") == [b"x"]


def test_a_stale_incarnation_that_was_met_first_gives_way_to_the_living_one() -> None:
    """Both have said hello before anything else of either comes, the dead one's first."""
    network = Network(delay_s=(0.01, 0.01))
    network.mesh("ann", "bob")
    network.send("bob", "ann", data=b"former")
    network.lost = lambda flight: flight.target == "ann" and kind_of(flight) == WELCOME
    network.run(0.025)
    stale = network.hold_back(is_from("bob", DATA))
    assert stale
    network.start("bob")
    network.introduce("bob", "ann")
    network.send("bob", "ann", data=b"present")
    network.run(0.025)
    fresh = network.hold_back(is_from("bob", DATA))
    assert fresh
    network.lost = lambda flight: False
    for flight in (*stale, *fresh):
        network.arrive(flight)
    network.run(10.0)
    assert network.data("ann")[-1] == b"present"
    assert network.engines["ann"].sessions["bob"].handshake.incarnation == (
        network.engines["bob"].incarnation
    )
    assert network.verdict(complete=False).held


@pytest.mark.parametrize("speaker", ["ann", "bob", "nobody"])
def test_what_is_kept_of_a_peer_that_restarts_for_ever_is_bounded(speaker: str) -> None:
    network = Network(limits=Limits(lease_s=2.0))
    network.mesh("ann", "bob")
    network.run(0.1)
    for _ in range(200):
        network.start("bob")
        network.introduce("bob", "ann")
        network.run(0.05)
        if speaker != "nobody":
            network.send(speaker, "bob" if speaker == "ann" else "ann", data=b"x")
        network.run(0.05)
    assert len(network.data("ann")) == (200 if speaker == "bob" else 0)
    assert len(network.data("bob")) == (200 if speaker == "ann" else 0)
    network.run(10.0)
    session = network.engines["ann"].sessions["bob"]
    assert len(session.handshake.introduced) <= INTRODUCED_MAX, RETIRED_MAX
    assert len(session.handshake.retired) <= RETIRED_MAX
    process = network.engines["ann"].process
    assert isinstance(process, HybridBasic)
    assert len(process._peers) <= 2
    assert network.verdict(complete=False).held
