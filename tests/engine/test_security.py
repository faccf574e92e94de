"""With a group key, datagrams of outsiders are refused and change no state."""

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antecede.check.snapshot import snapshot
from antecede.core.codec import Frame
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.engine import Engine, Limits
from antecede.engine.acknowledgements import NO_ACKS
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import (
    AEAD_TAG_BYTES,
    BYE,
    BYE_ACK,
    DATA,
    DATA_PREFIX,
    HEADER,
    HELLO,
    INTRODUCTION,
    VERSION,
    WELCOME,
    WELCOME_TIMES,
    name_hash,
    read_header,
    timestamp_ms,
)
from antecede.engine.handshake import AeadCipher
from antecede.engine.peer_session import PeerSession
from antecede.engine.sealer import DatagramCipher
from antecede.errors import ConfigError, PeerError
from tests.engine.network import Flight, Network, random_traffic

KEY = bytes(range(32))
KIND_NAMES = {
    HELLO: "hello",
    WELCOME: "welcome",
    DATA: "data",
    BYE: "bye",
    BYE_ACK: "bye_ack",
}

every_kind = pytest.mark.parametrize("kind", KIND_NAMES, ids=list(KIND_NAMES.values()))


def state(engine: Engine) -> object:
    """Return the state of an engine without its counters."""
    return snapshot((engine.process, engine.sessions), without=(AESGCM,))


def drop_reason(engine: Engine, datagram: bytes, now: float) -> str:
    """Pass a datagram to an engine; return why it was dropped, or "" if it was not."""
    before = engine.stats().dropped
    engine.receive_datagram(datagram, "from anywhere", now)
    after = engine.stats().dropped
    reasons = [reason for reason in after if after[reason] != before[reason]]
    assert sum(after.values()) - sum(before.values()) == len(reasons) <= 1
    return reasons[0] if reasons else ""


def is_of(kind: int, source: str, target: str) -> Callable[[Flight], bool]:
    def matches(flight: Flight) -> bool:
        return (read_header(flight.datagram)[0], flight.source, flight.target) == (
            kind,
            source,
            target,
        )

    return matches


def intercepted(kind: int) -> tuple[Network, Flight]:
    """Return a network, and an encrypted datagram from bob to ann taken out of it."""
    network = Network(cipher=AesGcmDatagramCipher(KEY))
    if kind in (HELLO, WELCOME):
        network.start_group("ann", "bob")
        if kind == HELLO:
            network.flush("bob")
        else:
            network.run(0.0)
            (hello,) = network.intercept(is_of(HELLO, "ann", "bob"))
            network.arrive(hello)
    else:
        network.start_group("ann", "bob")
        network.run(1.0)
        if kind == DATA:
            network.send("bob", "ann", data=b"secret")
        else:
            leaver = "bob" if kind == BYE else "ann"
            for address, datagram in network.engines[leaver].bye_datagrams(network.now):
                network.transmit(leaver, str(address), datagram)
            if kind == BYE_ACK:
                (bye,) = network.intercept(is_of(BYE, "ann", "bob"))
                network.arrive(bye)
    (flight,) = network.intercept(is_of(kind, "bob", "ann"))
    network.engines["ann"].flush(network.now)
    return network, flight


@every_kind
def test_a_flipped_bit_is_detected(kind: int) -> None:
    network, flight = intercepted(kind)
    ann = network.engines["ann"]
    before = state(ann)
    genuine = flight.datagram
    for position in range(8 * len(genuine)):
        place = position // 8
        forged = bytearray(genuine)
        forged[place] ^= 1 << position % 8
        reason = drop_reason(ann, bytes(forged), network.now)
        if place == 0:
            assert reason in ("malformed", "authentication", "replay")
        elif place < 9:
            assert reason == "unknown_sender"
        else:
            assert reason in (
                ("authentication", "replay")
                if 25 <= place < HEADER.size
                else ("authentication",)
            )
    assert state(ann) == before
    assert ann.flush(network.now) == []
    assert drop_reason(ann, genuine, network.now) == ""  # The original is still accepted.
    assert state(ann) != before


@every_kind
def test_a_truncated_or_extended_datagram_is_detected(kind: int) -> None:
    network, flight = intercepted(kind)
    ann = network.engines["ann"]
    before = state(ann)
    genuine = flight.datagram
    for length in range(len(genuine)):
        reason = drop_reason(ann, genuine[:length], network.now)
        assert reason == ("malformed" if length < HEADER.size else "authentication")
    for more in (b"\0", genuine, bytes(1000)):
        assert drop_reason(ann, genuine + more, network.now) == "authentication"
    assert state(ann) == before
    assert ann.flush(network.now) == []
    assert drop_reason(ann, genuine, network.now) == ""


@every_kind
def test_a_datagram_to_another_node_is_refused(kind: int) -> None:
    """Cid has bob as a peer and the key, but the datagram is addressed to ann."""
    network, flight = intercepted(kind)
    network.start("cid")
    network.add_peers("cid", "bob")
    network.add_peers("bob", "cid")
    network.run(1.0)
    cid = network.engines["cid"]
    before = state(cid)
    assert drop_reason(cid, flight.datagram, network.now) == "authentication"
    assert state(cid) == before


@every_kind
def test_a_datagram_reflected_to_its_sender_is_refused(kind: int) -> None:
    network, flight = intercepted(kind)
    bob = network.engines["bob"]
    bob.flush(network.now)
    before = state(bob)
    assert (
        drop_reason(bob, flight.datagram, network.now) == "unknown_sender"
    )  # Its own name.
    renamed = (
        flight.datagram[:1] + name_hash("ann").to_bytes(8, "big") + flight.datagram[9:]
    )
    assert drop_reason(bob, renamed, network.now) == "authentication"
    ann, own = network.engines["ann"].incarnation, bob.incarnation
    _, _, _, _, packet = read_header(flight.datagram)
    head = HEADER.pack(VERSION << 4 | kind, name_hash("ann"), ann, own, packet + 1000)
    expected = "malformed" if kind == HELLO else "authentication"
    assert drop_reason(bob, head + flight.datagram[HEADER.size :], network.now) in (
        "authentication",
        expected,
    )
    assert state(bob) == before


def test_random_bytes_are_refused() -> None:
    network, _ = intercepted(DATA)
    ann = network.engines["ann"]
    before = state(ann)
    for length in range(300):
        assert drop_reason(ann, network.random.randbytes(length), network.now) in (
            "malformed",
            "unknown_sender",
        )
    assert state(ann) == before
    assert ann.flush(network.now) == []


def test_a_node_with_another_key_is_refused() -> None:
    network = Network()
    network.start("ann", cipher=AesGcmDatagramCipher(KEY))
    network.start("bob", cipher=AesGcmDatagramCipher(KEY[::-1]))
    network.add_peers("ann", "bob")
    network.add_peers("bob", "ann")
    network.send("bob", "ann", data=b"x")
    network.run(10.0)
    assert network.data("ann") == []
    assert set(network.dropped("ann")) == set(network.dropped("bob")) == {"authentication"}
    assert network.engines["ann"].sessions["bob"].handshake.incarnation == 0


@pytest.mark.parametrize("keyed", ["ann", "bob"])
def test_a_node_with_a_key_and_one_without_have_no_handshake(keyed: str) -> None:
    network = Network()
    for name in ("ann", "bob"):
        network.start(name, cipher=AesGcmDatagramCipher(KEY) if name == keyed else None)
    network.add_peers("ann", "bob")
    network.add_peers("bob", "ann")
    network.send("bob", "ann", data=b"x")
    network.run(10.0)
    assert network.data("ann") == []
    assert network.engines["ann"].sessions["bob"].handshake.incarnation == 0
    assert network.engines["bob"].sessions["ann"].handshake.incarnation == 0


# Attackers who know everything but the key.


def forge(network: Network, kind: int, *frames: Frame, number: int = 10_000) -> bytes:
    """Return a datagram from bob to ann that is valid but for its authentication tag."""
    ann, bob = network.engines["ann"], network.engines["bob"]
    body = bytearray(
        DATA_PREFIX.pack(timestamp_ms(network.now), timestamp_ms(network.now), 256, 256, 9)
        + NO_ACKS
    )
    for frame in frames:
        frame.write(body)
    head = HEADER.pack(
        VERSION << 4 | kind, name_hash("bob"), bob.incarnation, ann.incarnation, number
    )
    return (
        head + bytes(body) + (bytes(AEAD_TAG_BYTES) if network.cipher is not None else b"")
    )


FORGERIES: dict[str, tuple[int, Frame | None]] = {
    "ack": (DATA, Ack(1, 1)),
    "permit": (DATA, Permit(1)),
    "request": (DATA, PermitRequest(1)),
    "message": (DATA, MessageFrame(2, 1, True, b"\0forged")),
    "bye": (BYE, None),
    "bye_ack": (BYE_ACK, None),
}


def network_to_attack(cipher: DatagramCipher | None) -> Network:
    """Return a network in which ann needs an ack and a permit of bob."""
    network = Network(cipher=cipher)
    network.start_group("ann", "bob", "cid")
    network.run(1.0)
    network.should_lose = lambda flight: {flight.source, flight.target} == {"bob", "cid"}
    network.send("bob", "cid", data=b"never acked")
    network.send("bob", "ann", data=b"needs a permit")
    network.run(0.1)
    network.should_lose = lambda flight: True
    network.send("ann", "bob", data=b"not acked")
    network.send("ann", "cid", data=b"waits")
    return network


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_frames_are_dropped_with_a_key(forgery: str) -> None:
    network = network_to_attack(AesGcmDatagramCipher(KEY))
    ann = network.engines["ann"]
    before = state(ann)
    kind, frame = FORGERIES[forgery]
    datagram = forge(network, kind, *([frame] if frame is not None else []))
    assert drop_reason(ann, datagram, network.now) == "authentication"
    assert state(ann) == before
    assert ann.flush(network.now) == []
    assert ann.poll_messages() == []
    assert ann.backlog == 2


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_frames_are_accepted_without_a_key(forgery: str) -> None:
    network = network_to_attack(None)
    ann = network.engines["ann"]
    before = state(ann)
    kind, frame = FORGERIES[forgery]
    datagram = forge(network, kind, *([frame] if frame is not None else []))
    assert drop_reason(ann, datagram, network.now) == ""
    assert state(ann) != before


def test_every_holder_of_the_key_can_impersonate_every_node() -> None:
    """A group key does not protect against members (docs/explanation/security.md)."""
    network = network_to_attack(AesGcmDatagramCipher(KEY))
    ann, bob = network.engines["ann"], network.engines["bob"]
    plain = forge(network, DATA, MessageFrame(3, 2, True, b"\0by an insider"))
    head, body = plain[: HEADER.size], plain[HEADER.size : -AEAD_TAG_BYTES]
    cipher = AesGcmDatagramCipher(KEY)
    aead = cipher.derive("bob", bob.incarnation, "ann", ann.incarnation)
    assert drop_reason(ann, cipher.seal(aead, 10_000, head, body), network.now) == ""
    assert [message.data for message in ann.poll_messages()] == [b"by an insider"]


def test_incarnation_0_is_refused() -> None:
    """The session of bob has incarnation 0 before the handshake."""
    for cipher in (None, AesGcmDatagramCipher(KEY)):
        network = Network(cipher=cipher)
        ann = network.start("ann")
        network.add_peers("ann", "bob")
        ann.flush(network.now)
        now = timestamp_ms(network.now)
        body = bytearray(DATA_PREFIX.pack(now, now, 256, 256, 9) + NO_ACKS)
        MessageFrame(1, 0, True, b"\0x").write(body)
        head = HEADER.pack(VERSION << 4 | DATA, name_hash("bob"), 0, ann.incarnation, 1)
        datagram = head + bytes(body)
        if cipher is not None:
            aead = cipher.derive("bob", 0, "ann", ann.incarnation)
            datagram = cipher.seal(aead, 1, head, bytes(body))
        before = state(ann)
        assert drop_reason(ann, datagram, network.now) == "malformed"
        assert state(ann) == before


# Replays.


def test_no_datagram_is_accepted_twice() -> None:
    network = Network(
        3, duplication=0.2, cipher=AesGcmDatagramCipher(KEY), delay_s=(0.001, 0.05)
    )
    network.start_group("ann", "bob", "cid")
    random_traffic(network, messages=30)
    network.on_message = None
    for name, engine in network.engines.items():
        engine.flush(network.now)
        before = state(engine)
        reasons = {
            drop_reason(engine, flight.datagram, network.now)
            for flight in network.transmitted
            if read_header(flight.datagram)[0] != HELLO
        }
        # A duplicated HELLO has two answers, and the second one is refused.
        assert reasons - {"expired"} == {"replay", "authentication", "unknown_sender"}
        assert state(engine) == before, name
        assert engine.poll_messages() == []


def accepted_state(session: PeerSession) -> object:
    """Return the state of a session that decides which datagrams are accepted."""
    return (
        session.handshake.incarnation,
        session.history,
        session.state,
        session.epoch_in,
        session.epoch_out,
        session.handshake.timestamp_echo,
        session.handshake.met_at,
        session.id,
        tuple(session.reassembly.fragments),
    )


def test_replayed_datagrams_of_all_incarnations_change_nothing() -> None:
    """An attacker replays every recorded datagram, HELLOs included, to every node."""
    network = Network(
        4, loss=0.05, cipher=AesGcmDatagramCipher(KEY), limits=Limits(lease_s=2.0)
    )
    names = ("ann", "bob", "cid")
    network.start_group(*names)
    for victim in ("bob", "ann", "bob", "cid", "bob"):
        random_traffic(network, messages=8)
        network.start(victim)
        network.add_peers(victim, *names)
    random_traffic(network, messages=8)
    network.run(5.0)
    network.on_message = None
    recorded = [flight.datagram for flight in network.transmitted]
    hellos = sum(read_header(datagram)[0] == HELLO for datagram in recorded)
    for engine in network.engines.values():
        engine.flush(network.now)
        process = snapshot(engine.process)
        sessions = [accepted_state(session) for session in engine.sessions.values()]
        for datagram in recorded:
            engine.receive_datagram(datagram, "from anywhere", network.now)
        assert snapshot(engine.process) == process
        assert [accepted_state(session) for session in engine.sessions.values()] == sessions
        assert engine.poll_messages() == []
        answers = engine.flush(network.now)
        assert 0 < len(answers) <= hellos + len(names)
        assert all(read_header(answer)[0] in (HELLO, WELCOME) for _, answer in answers)
        largest = max(len(answer) for _, answer in answers)
        welcome = HEADER.size + WELCOME_TIMES.size + INTRODUCTION.size
        assert largest <= welcome + AEAD_TAG_BYTES  # No amplification.
    network.run(5.0)
    network.send("ann", "bob", "cid", data=b"as before")
    network.run(5.0)
    assert network.data("bob")[-1] == network.data("cid")[-1] == b"as before"
    assert network.verdict(complete=False).held


# Keys and nonces.


class RecordingCipher:
    """A cipher that records its nonces and the inputs of its key."""

    def __init__(self, inputs: object, cipher: AeadCipher, used: list[object]) -> None:
        self.inputs = inputs
        self.cipher = cipher
        self.used = used

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        self.used.append((self.inputs, nonce))
        return self.cipher.encrypt(nonce, data, associated_data)

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        return self.cipher.decrypt(nonce, data, associated_data)


class RecordingDatagramCipher:
    """A cipher that records every pair of a key and a nonce."""

    def __init__(self) -> None:
        self.cipher = AesGcmDatagramCipher(KEY)
        self.used: list[object] = []

    def derive(
        self, sender: str, incarnation: int, receiver: str, receiver_incarnation: int
    ) -> AeadCipher:
        inputs = (sender, incarnation, receiver, receiver_incarnation)
        return RecordingCipher(inputs, self.cipher.derive(*inputs), self.used)

    def stranger_cipher(self, salt: bytes) -> AeadCipher:
        return RecordingCipher(salt, self.cipher.stranger_cipher(salt), self.used)

    def seal(self, cipher: AeadCipher, packet: int, head: bytes, body: bytes) -> bytes:
        return self.cipher.seal(cipher, packet, head, body)

    def open(self, cipher: AeadCipher, packet: int, datagram: bytes) -> bytes:
        return self.cipher.open(cipher, packet, datagram)


def test_no_nonce_is_used_twice_with_one_key_over_restarts_and_removals() -> None:
    cipher = RecordingDatagramCipher()
    network = Network(2, loss=0.1, cipher=cipher, limits=Limits(lease_s=1.0))
    names = ("ann", "bob", "cid")
    network.start_group(*names)
    for round_number in range(6):
        random_traffic(network, messages=10)
        victim = names[round_number % 3]
        if round_number % 2:
            other = names[(round_number + 1) % 3]
            network.engines[victim].remove_peer(other, network.now)
            network.run(3.0)
            network.add_peers(victim, other)
        else:
            network.start(victim)
            network.add_peers(victim, *names)
    random_traffic(network, messages=10)
    for name in names:
        network.engines[name].bye_datagrams(network.now)
    assert len(cipher.used) > 800
    assert len(set(cipher.used)) == len(cipher.used)


def test_the_check_of_nonces_detects_a_reused_incarnation() -> None:
    cipher = RecordingDatagramCipher()
    for _ in range(2):
        engine = Engine("ann", 7, cipher=cipher)
        engine.add_peer("bob", "bob", 0.0)
        engine.flush(0.0)
    assert len(set(cipher.used)) < len(cipher.used)


def test_the_key_of_a_datagram_depends_on_both_names_and_both_incarnations() -> None:
    cipher = AesGcmDatagramCipher(KEY)
    inputs = [
        ("ann", 1, "bob", 2),
        ("bob", 2, "ann", 1),
        ("ann", 2, "bob", 1),
        ("ann", 1, "bob", 3),
        ("ann", 3, "bob", 2),
        ("annb", 1, "ob", 2),
        ("ann", 1, "cid", 2),
    ]
    head = bytes(HEADER.size)
    sealed = [cipher.seal(cipher.derive(*each), 1, head, b"body") for each in inputs]
    for index, datagram in enumerate(sealed):
        for other, each in enumerate(inputs):
            if index == other:
                assert cipher.open(cipher.derive(*each), 1, datagram) == b"body"
            else:
                with pytest.raises(PeerError):
                    cipher.open(cipher.derive(*each), 1, datagram)


@pytest.mark.parametrize("key", [b"", b"short", b"k" * 31, b"k" * 33])
def test_a_key_of_another_length_raises(key: bytes) -> None:
    with pytest.raises(ConfigError, match="32 bytes"):
        AesGcmDatagramCipher(key)


def test_the_payload_is_encrypted() -> None:
    payload = b"do not read this on the way"
    for cipher, visible in ((AesGcmDatagramCipher(KEY), False), (None, True)):
        network = Network(cipher=cipher)
        network.start_group("ann", "bob")
        network.send("ann", "bob", data=payload)
        network.run(1.0)
        assert network.data("bob") == [payload]
        assert any(payload in flight.datagram for flight in network.transmitted) == visible
