"""Addresses that follow authenticated datagrams, and what does not move a peer."""

from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core.process import ProcessId
from antecede.engine import Limits
from antecede.engine.address_validation import AMPLIFICATION_MAX, AddressValidation
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import CHALLENGE, DATA, RESPONSE, read_header
from antecede.engine.peer_session import PeerSession
from antecede.engine.received_datagram import ReceivedDatagram
from antecede.engine.seeded_random import SeededRandom
from tests.engine.network import Flight, Network

KEY = AesGcmDatagramCipher(b"k" * 32)


class Moving:
    """Engines of which bob may have an address other than his name."""

    def __init__(self, seed: int = 0, cipher: AesGcmDatagramCipher | None = KEY) -> None:
        self.network = Network(seed, cipher=cipher, delay_s=(0.01, 0.01))
        self.network.start_group("ann", "bob")
        self.at = "bob"
        """The address of bob; datagrams to another one are lost."""
        self.to_elsewhere: list[Flight] = []
        """Datagrams of ann to addresses other than the name of bob."""
        self.network.run(1.0)
        carry = self.network.arrive

        def arrive(flight: Flight) -> None:
            if flight.source == "bob":
                self.network.engines["ann"].receive_datagram(
                    flight.datagram, self.at, self.network.now
                )
                self.network.flush("ann")
                return
            if flight.target != "bob":
                self.to_elsewhere.append(flight)
            if flight.target == self.at:
                carry(Flight(*_to_bob(flight)))

        self.network.arrive = arrive  # type: ignore[method-assign]

    def address(self) -> object:
        """The address of bob that ann uses."""
        return self.network.engines["ann"].sessions["bob"].address

    def kinds_elsewhere(self) -> list[int]:
        """Return the kinds of the datagrams that ann transmitted elsewhere."""
        return [read_header(flight.datagram)[0] for flight in self.to_elsewhere]


def _to_bob(flight: Flight) -> tuple[float, int, str, str, bytes, float]:
    at = flight.due, flight.serial
    return *at, flight.source, "bob", flight.datagram, flight.transmitted_at


def test_a_peer_that_moves_is_found() -> None:
    moving = Moving()
    moving.at = "new"
    moving.network.send("bob", "ann", data=b"from elsewhere")
    moving.network.run(0.1)
    assert moving.address() == "new"
    moving.network.send("ann", "bob", data=b"to elsewhere")
    moving.network.run(0.1)
    assert moving.network.data("ann") == [b"from elsewhere"]
    assert moving.network.data("bob") == [b"to elsewhere"]


def test_the_old_address_is_used_until_the_new_one_is_validated() -> None:
    moving = Moving()
    moving.at = "new"
    lost = 0

    def lose(flight: Flight) -> bool:
        nonlocal lost
        is_response = read_header(flight.datagram)[0] == RESPONSE
        lost += is_response
        return is_response

    moving.network.should_lose = lose
    moving.network.send("bob", "ann", data=b"x")
    moving.network.run(0.1)
    assert lost > 0
    assert moving.address() == "bob"
    assert set(moving.kinds_elsewhere()) == {CHALLENGE}
    moving.network.should_lose = lambda flight: False
    moving.network.run(5.0)  # Bob gets no acknowledgement, and transmits again.
    assert moving.address() == "new"


def test_a_new_path_begins_with_the_initial_window() -> None:
    moving = Moving()
    path = moving.network.engines["ann"].sessions["bob"].path
    initial = path.window
    for _ in range(30):
        for _ in range(60):
            moving.network.send("ann", "bob", data=bytes(1000))
        moving.network.run(0.1)
    assert path.window > 2 * initial
    moving.at = "new"
    moving.network.send("bob", "ann", data=b"x")
    moving.network.run(0.035)
    assert moving.address() == "new"
    assert path.window <= initial


def test_a_peer_that_moves_after_a_silence_gets_at_once_what_it_missed() -> None:
    moving = Moving()
    network = moving.network
    network.should_lose = lambda flight: True
    network.send("ann", "bob", data=b"missed")
    network.run(3.0)
    session = network.engines["ann"].sessions["bob"]
    assert session.path.losses.deadline > network.now + 0.5  # After several doublings.
    network.should_lose = lambda flight: False
    moving.at = "new"
    network.send("bob", "ann", data=b"from elsewhere")
    network.run(0.08)  # Datagram, challenge, response, and the message.
    assert moving.address() == "new"
    assert network.data("bob") == [b"missed"]


def test_a_peer_that_restarts_at_another_address_is_found() -> None:
    moving = Moving()
    network = moving.network
    network.stop("bob")
    network.run(1.0)
    moving.at = "new"
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(1.0)
    network.send("ann", "bob", data=b"welcome back")
    network.run(2.0)
    assert moving.address() == "new"
    assert network.data("bob") == [b"welcome back"]


def test_without_a_key_an_address_does_not_follow() -> None:
    moving = Moving(cipher=None)
    moving.at = "new"
    moving.network.send("bob", "ann", data=b"x")
    moving.network.run(1.0)
    assert moving.address() == "bob"
    assert CHALLENGE not in moving.kinds_elsewhere()


def test_replayed_and_overtaken_datagrams_do_not_move_a_peer() -> None:
    moving = Moving()
    network = moving.network
    ann = network.engines["ann"]
    network.send("bob", "ann", data=b"1")
    (early,) = network.intercept(lambda flight: flight.source == "bob")
    network.send("bob", "ann", data=b"2")
    network.run(0.1)
    recorded = [flight.datagram for flight in network.transmitted if flight.source == "bob"]
    for datagram in [*recorded, early.datagram]:
        for changed in (datagram, datagram[:-1] + bytes([datagram[-1] ^ 1])):
            ann.receive_datagram(changed, "evil", network.now)
    assert b"1" in network.data("ann") or ann.poll_messages()
    network.run(1.0)
    assert moving.address() == "bob"
    assert CHALLENGE not in moving.kinds_elsewhere()


def test_a_reflected_challenge_does_not_validate_an_address() -> None:
    moving = Moving()
    network = moving.network
    moving.at = "evil"
    network.send("bob", "ann", data=b"x")
    network.run(0.011)
    moving.at = "bob"
    network.run(0.011)
    (challenge,) = [
        flight
        for flight in moving.to_elsewhere
        if read_header(flight.datagram)[0] == CHALLENGE
    ]
    before = network.dropped("ann").get("unknown_sender", 0)
    network.engines["ann"].receive_datagram(challenge.datagram, "evil", network.now)
    assert network.dropped("ann")["unknown_sender"] == before + 1
    network.run(1.0)
    assert moving.address() == "bob"


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1 << 20),
    sizes=st.lists(st.integers(0, 600), min_size=1, max_size=20),
    pauses=st.lists(st.floats(0.0, 0.5), min_size=20, max_size=20),
)
def test_at_most_three_times_the_bytes_that_arrived_leave_to_a_candidate(
    seed: int, sizes: list[int], pauses: list[float]
) -> None:
    moving = Moving(seed)
    network = moving.network
    moving.at = "victim"
    arrived = 0
    network.should_lose = lambda flight: flight.target == "victim"
    before = len(network.transmitted)
    for size, pause_s in zip(sizes, pauses, strict=False):
        network.send("bob", "ann", data=bytes(size))
        network.run(pause_s)
    network.run(20.0)
    for flight in network.transmitted[before:]:
        arrived += len(flight.datagram) if flight.source == "bob" else 0
    outward = [f for f in network.transmitted[before:] if f.target == "victim"]
    assert outward
    left = sum(len(flight.datagram) for flight in outward)
    assert left <= AMPLIFICATION_MAX * arrived
    assert moving.address() == "bob"


def test_a_replayed_hello_is_not_amplified_beyond_the_limit() -> None:
    moving = Moving()
    network = moving.network
    hello = next(flight for flight in network.transmitted if flight.source == "bob")
    network.stop("bob")
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(1.0)
    ann = network.engines["ann"]
    ann.flush(network.now)
    out: list[bytes] = []
    for _ in range(50):
        ann.receive_datagram(hello.datagram, "victim", network.now)
        out += [data for at, data in ann.flush(network.now) if at == "victim"]
    assert sum(map(len, out)) <= AMPLIFICATION_MAX * 50 * len(hello.datagram)


def test_nothing_is_lost_while_a_peer_moves_again_and_again() -> None:
    moving = Moving(3)
    network = moving.network
    network.loss = 0.1
    for step in range(6):
        moving.at = f"at{step}"
        for index in range(5):
            network.send("bob", "ann", data=b"b%d.%d" % (step, index))
            network.send("ann", "bob", data=b"a%d.%d" % (step, index))
            network.run(0.05)
        network.run(2.0)
    network.loss = 0.0
    network.run(20.0)
    assert moving.address() == "at5"
    assert len(network.data("ann")) == len(network.data("bob")) == 30
    assert network.verdict().held


def test_the_answer_to_another_challenge_does_not_validate_an_address() -> None:
    moving = Moving()
    network = moving.network
    ann = network.engines["ann"]
    moving.at = "one"
    network.send("bob", "ann", data=b"1")
    network.run(0.021)
    (response,) = network.intercept(
        lambda flight: read_header(flight.datagram)[0] == RESPONSE
    )
    moving.at = "two"
    network.should_lose = lambda flight: flight.target == "two"
    network.send("bob", "ann", data=b"2")
    network.run(0.015)
    assert moving.kinds_elsewhere() == [CHALLENGE]
    ann.receive_datagram(response.datagram, "two", network.now)
    assert moving.address() == "bob"


def test_a_challenge_waits_until_enough_bytes_have_arrived() -> None:
    session = PeerSession("bob", 1, ProcessId(1), "bob")
    session.handshake.record_timestamp(1, 10.0)
    session.replay_window.record(5)
    received = ReceivedDatagram(session, DATA, 1, 1, 5)
    addresses = AddressValidation(
        lambda kind, session, body: bytes(100),
        lambda session, now: b"",
        SeededRandom(1).bits,
        Limits(),
        has_key=True,
    )
    responses: list[tuple[object, bytes]] = []
    addresses.check(received, "elsewhere", 33, responses, 10.0)
    assert responses == []  # 100 bytes are more than three times 33.
    addresses.check(received, "elsewhere", 1, responses, 10.0)
    assert responses == [("elsewhere", bytes(100))]
    addresses.check(received, "elsewhere", 32, responses, 11.0)
    assert len(responses) == 1
    addresses.check(received, "elsewhere", 1, responses, 11.0)
    assert len(responses) == 2
