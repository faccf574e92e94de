"""With a group key nothing of an outsider gets in, and nothing changes by trying."""

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antecede.check.snapshot import snapshot
from antecede.core.codec import Frame
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit, PermitRequest
from antecede.engine import Engine, Limits
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import (
    AEAD_TAG_BYTES,
    BYE,
    BYE_ACK,
    DATA,
    DATA_PREFIX,
    HEADER,
    HELLO,
    VERSION,
    WELCOME,
    name_hash,
    read_header,
    timestamp_ms,
)
from antecede.engine.handshake import AeadCipher
from antecede.engine.peer_session import PeerSession
from antecede.engine.replay_window import REPLAY_WINDOW, ReplayWindow
from antecede.engine.sealer import DatagramCipher
from antecede.errors import ConfigError, PeerError
from tests.engine.lossy import Flight, Network, chatter

KEY = bytes(range(32))
KIND_NAMES = {
    HELLO: "hello",
    WELCOME: "welcome",
    DATA: "data",
    BYE: "bye",
    BYE_ACK: "fare",
}

every_kind = pytest.mark.parametrize("kind", KIND_NAMES, ids=list(KIND_NAMES.values()))


def state(engine: Engine) -> object:
    """Return everything an engine knows, the counters of what was dropped aside."""
    return snapshot((engine.process, engine.sessions), without=(AESGCM,))


def fate(engine: Engine, datagram: bytes, now: float) -> str:
    """Feed a datagram and return why it was dropped, or nothing if it was not."""
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


def on_its_way(kind: int) -> tuple[Network, Flight]:
    """Return a network, and a sealed datagram of bob's that is about to reach ann."""
    network = Network(cipher=AesGcmDatagramCipher(KEY))
    if kind in (HELLO, WELCOME):
        network.mesh("ann", "bob")
        if kind == HELLO:
            network.settle("bob")
        else:
            network.run(0.0)
            (hello,) = network.hold_back(is_of(HELLO, "ann", "bob"))
            network.arrive(hello)
    else:
        network.mesh("ann", "bob")
        network.run(1.0)
        if kind == DATA:
            network.send("bob", "ann", data=b"secret")
        else:
            leaver = "bob" if kind == BYE else "ann"
            for address, datagram in network.engines[leaver].bye_datagrams(network.now):
                network.transmit(leaver, str(address), datagram)
            if kind == BYE_ACK:
                (bye,) = network.hold_back(is_of(BYE, "ann", "bob"))
                network.arrive(bye)
    (flight,) = network.hold_back(is_of(kind, "bob", "ann"))
    network.engines["ann"].flush(network.now)
    return network, flight


@every_kind
def test_a_flipped_bit_anywhere_is_noticed(kind: int) -> None:
    network, flight = on_its_way(kind)
    ann = network.engines["ann"]
    before = state(ann)
    genuine = flight.datagram
    for position in range(8 * len(genuine)):
        place = position // 8
        forged = bytearray(genuine)
        forged[place] ^= 1 << position % 8
        reason = fate(ann, bytes(forged), network.now)
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
    assert fate(ann, genuine, network.now) == ""  # It was as good as any.
    assert state(ann) != before


@every_kind
def test_a_datagram_cut_short_or_made_longer_is_noticed(kind: int) -> None:
    network, flight = on_its_way(kind)
    ann = network.engines["ann"]
    before = state(ann)
    genuine = flight.datagram
    for length in range(len(genuine)):
        reason = fate(ann, genuine[:length], network.now)
        assert reason == ("malformed" if length < HEADER.size else "authentication")
    for more in (b"\0", genuine, bytes(1000)):
        assert fate(ann, genuine + more, network.now) == "authentication"
    assert state(ann) == before
    assert ann.flush(network.now) == []
    assert fate(ann, genuine, network.now) == ""


@every_kind
def test_a_datagram_for_somebody_else_is_not_for_us(kind: int) -> None:
    """Cid knows bob and has the key, but the datagram was made for ann."""
    network, flight = on_its_way(kind)
    network.start("cid")
    network.introduce("cid", "bob")
    network.introduce("bob", "cid")
    network.run(1.0)
    cid = network.engines["cid"]
    before = state(cid)
    assert fate(cid, flight.datagram, network.now) == "authentication"
    assert state(cid) == before


@every_kind
def test_a_datagram_sent_back_to_its_sender_is_nothing_to_it(kind: int) -> None:
    network, flight = on_its_way(kind)
    bob = network.engines["bob"]
    bob.flush(network.now)
    before = state(bob)
    assert fate(bob, flight.datagram, network.now) == "unknown_sender"  # It is its own tag.
    renamed = (
        flight.datagram[:1] + name_hash("ann").to_bytes(8, "big") + flight.datagram[9:]
    )
    assert fate(bob, renamed, network.now) == "authentication"
    ann, own = network.engines["ann"].incarnation, bob.incarnation
    _, _, _, _, packet = read_header(flight.datagram)
    head = HEADER.pack(VERSION << 4 | kind, name_hash("ann"), ann, own, packet + 1000)
    expected = "malformed" if kind == HELLO else "authentication"
    assert fate(bob, head + flight.datagram[HEADER.size :], network.now) in (
        "authentication",
        expected,
    )
    assert state(bob) == before


def test_random_bytes_are_nothing() -> None:
    network, _ = on_its_way(DATA)
    ann = network.engines["ann"]
    before = state(ann)
    for length in range(300):
        assert fate(ann, network.random.randbytes(length), network.now) in (
            "malformed",
            "unknown_sender",
        )
    assert state(ann) == before
    assert ann.flush(network.now) == []


def test_who_has_another_key_stays_outside() -> None:
    network = Network()
    network.start("ann", cipher=AesGcmDatagramCipher(KEY))
    network.start("bob", cipher=AesGcmDatagramCipher(KEY[::-1]))
    network.introduce("ann", "bob")
    network.introduce("bob", "ann")
    network.send("bob", "ann", data=b"x")
    network.run(10.0)
    assert network.data("ann") == []
    assert set(network.dropped("ann")) == set(network.dropped("bob")) == {"authentication"}
    assert network.engines["ann"].sessions["bob"].handshake.incarnation == 0


@pytest.mark.parametrize("keyed", ["ann", "bob"])
def test_a_key_on_one_side_only_joins_nobody(keyed: str) -> None:
    network = Network()
    for name in ("ann", "bob"):
        network.start(name, cipher=AesGcmDatagramCipher(KEY) if name == keyed else None)
    network.introduce("ann", "bob")
    network.introduce("bob", "ann")
    network.send("bob", "ann", data=b"x")
    network.run(10.0)
    assert network.data("ann") == []
    assert network.engines["ann"].sessions["bob"].handshake.incarnation == 0
    assert network.engines["bob"].sessions["ann"].handshake.incarnation == 0


# Forgers who know everything but the key.


def forged(network: Network, kind: int, *frames: Frame, number: int = 10_000) -> bytes:
    """Make what bob would have made for ann, all of it right but the seal."""
    ann, bob = network.engines["ann"], network.engines["bob"]
    body = bytearray(
        DATA_PREFIX.pack(timestamp_ms(network.now), timestamp_ms(network.now), 0)
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
    "farewell": (BYE_ACK, None),
}


def before_a_forgery(cipher: DatagramCipher | None) -> Network:
    """Ann has something unacked, and waits for a permit of bob's."""
    network = Network(cipher=cipher)
    network.mesh("ann", "bob", "cid")
    network.run(1.0)
    network.lost = lambda flight: {flight.source, flight.target} == {"bob", "cid"}
    network.send("bob", "cid", data=b"never acked")
    network.send("bob", "ann", data=b"needs a permit")
    network.run(0.1)
    network.lost = lambda flight: True
    network.send("ann", "bob", data=b"not acked")
    network.send("ann", "cid", data=b"waits")
    return network


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_frames_are_dropped_with_a_key(forgery: str) -> None:
    network = before_a_forgery(AesGcmDatagramCipher(KEY))
    ann = network.engines["ann"]
    before = state(ann)
    kind, frame = FORGERIES[forgery]
    datagram = forged(network, kind, *([frame] if frame is not None else []))
    assert fate(ann, datagram, network.now) == "authentication"
    assert state(ann) == before
    assert ann.flush(network.now) == []
    assert ann.poll_messages() == []
    assert ann.backlog == 2


@pytest.mark.parametrize("forgery", FORGERIES)
def test_the_same_forgeries_would_do_harm_without_a_key(forgery: str) -> None:
    network = before_a_forgery(None)
    ann = network.engines["ann"]
    before = state(ann)
    kind, frame = FORGERIES[forgery]
    datagram = forged(network, kind, *([frame] if frame is not None else []))
    assert fate(ann, datagram, network.now) == ""
    assert state(ann) != before


def test_who_has_the_key_can_speak_in_everybodys_name() -> None:
    """What a group key does not protect from; docs/security.md says so."""
    network = before_a_forgery(AesGcmDatagramCipher(KEY))
    ann, bob = network.engines["ann"], network.engines["bob"]
    plain = forged(network, DATA, MessageFrame(3, 2, True, b"\0by an insider"))
    head, body = plain[: HEADER.size], plain[HEADER.size : -AEAD_TAG_BYTES]
    cipher = AesGcmDatagramCipher(KEY)
    aead = cipher.derive("bob", bob.incarnation, "ann", ann.incarnation)
    assert fate(ann, cipher.seal(aead, 10_000, head, body), network.now) == ""
    assert [message.data for message in ann.poll_messages()] == [b"by an insider"]


def test_incarnation_nought_is_nobody() -> None:
    """Before bob is met his incarnation is not known, which is no incarnation."""
    for cipher in (None, AesGcmDatagramCipher(KEY)):
        network = Network(cipher=cipher)
        ann = network.start("ann")
        network.introduce("ann", "bob")
        ann.flush(network.now)
        now = timestamp_ms(network.now)
        body = bytearray(DATA_PREFIX.pack(now, now, 0))
        MessageFrame(1, 0, True, b"\0x").write(body)
        head = HEADER.pack(VERSION << 4 | DATA, name_hash("bob"), 0, ann.incarnation, 1)
        datagram = head + bytes(body)
        if cipher is not None:
            aead = cipher.derive("bob", 0, "ann", ann.incarnation)
            datagram = cipher.seal(aead, 1, head, bytes(body))
        before = state(ann)
        assert fate(ann, datagram, network.now) == "malformed"
        assert state(ann) == before


# Replays.


def test_nothing_that_was_accepted_is_accepted_again() -> None:
    network = Network(
        3, duplication=0.2, cipher=AesGcmDatagramCipher(KEY), delay_s=(0.001, 0.05)
    )
    network.mesh("ann", "bob", "cid")
    chatter(network, messages=30)
    network.on_message = None
    for name, engine in network.engines.items():
        engine.flush(network.now)
        before = state(engine)
        fates = {
            fate(engine, flight.datagram, network.now)
            for flight in network.transmitted
            if read_header(flight.datagram)[0] != HELLO
        }
        # A hello that was doubled has two answers, of which the second is too many.
        assert fates - {"expired"} == {"replay", "authentication", "unknown_sender"}
        assert state(engine) == before, name
        assert engine.poll_messages() == []


def known_of(session: PeerSession) -> object:
    """Return what of a peer decides on what is accepted from it and transmitted to it."""
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


def test_what_former_incarnations_said_gets_nobody_in() -> None:
    """An attacker replays all there ever was, hellos included, to everybody."""
    network = Network(
        4, loss=0.05, cipher=AesGcmDatagramCipher(KEY), limits=Limits(lease_s=2.0)
    )
    names = ("ann", "bob", "cid")
    network.mesh(*names)
    for victim in ("bob", "ann", "bob", "cid", "bob"):
        chatter(network, messages=8)
        network.start(victim)
        network.introduce(victim, *names)
    chatter(network, messages=8)
    network.run(5.0)
    network.on_message = None
    recorded = [flight.datagram for flight in network.transmitted]
    hellos = sum(read_header(datagram)[0] == HELLO for datagram in recorded)
    for engine in network.engines.values():
        engine.flush(network.now)
        process = snapshot(engine.process)
        remotes = [known_of(session) for session in engine.sessions.values()]
        for datagram in recorded:
            engine.receive_datagram(datagram, "from anywhere", network.now)
        assert snapshot(engine.process) == process
        assert [known_of(session) for session in engine.sessions.values()] == remotes
        assert engine.poll_messages() == []
        answers = engine.flush(network.now)
        assert 0 < len(answers) <= hellos + len(names)
        assert all(read_header(answer)[0] in (HELLO, WELCOME) for _, answer in answers)
        largest = max(len(answer) for _, answer in answers)
        assert largest <= HEADER.size + 22 + AEAD_TAG_BYTES  # No use for amplification.
    network.run(5.0)
    network.send("ann", "bob", "cid", data=b"as before")
    network.run(5.0)
    assert network.data("bob")[-1] == network.data("cid")[-1] == b"as before"
    assert network.verdict(complete=False).held


def test_packets_may_come_late_but_not_later_than_the_window() -> None:
    window = ReplayWindow()
    for packet in (5, 3, 4):
        assert window.is_new(packet)
        window.record(packet)
        assert not window.is_new(packet)
    window.record(REPLAY_WINDOW + 5)
    assert not window.is_new(5)
    assert window.is_new(6)
    assert not window.is_new(0)
    seen = {REPLAY_WINDOW + 5}
    random = Network(9).random
    for _ in range(5000):
        packet = max(seen) + random.randrange(-2 * REPLAY_WINDOW, 5)
        expected = packet not in seen and packet > max(seen) - REPLAY_WINDOW
        if packet > 6:
            assert window.is_new(packet) == expected
            if expected:
                window.record(packet)
                seen.add(packet)


# Keys and nonces.


class WatchedCipher:
    """A cipher that notes its nonces, with what its key was derived from."""

    def __init__(
        self, inputs: tuple[str, int, str, int], cipher: AeadCipher, used: list[object]
    ) -> None:
        self.inputs = inputs
        self.cipher = cipher
        self.used = used

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        self.used.append((self.inputs, nonce))
        return self.cipher.encrypt(nonce, data, associated_data)

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        return self.cipher.decrypt(nonce, data, associated_data)


class WatchedDatagramCipher:
    """A seal that notes every pair of a key and a nonce."""

    def __init__(self) -> None:
        self.cipher = AesGcmDatagramCipher(KEY)
        self.used: list[object] = []

    def derive(
        self, sender: str, incarnation: int, receiver: str, receiver_incarnation: int
    ) -> AeadCipher:
        inputs = (sender, incarnation, receiver, receiver_incarnation)
        return WatchedCipher(inputs, self.cipher.derive(*inputs), self.used)

    def seal(self, cipher: AeadCipher, packet: int, head: bytes, body: bytes) -> bytes:
        return self.cipher.seal(cipher, packet, head, body)

    def open(self, cipher: AeadCipher, packet: int, datagram: bytes) -> bytes:
        return self.cipher.open(cipher, packet, datagram)


def test_no_nonce_is_used_twice_with_one_key_over_restarts_and_removals() -> None:
    cipher = WatchedDatagramCipher()
    network = Network(2, loss=0.1, cipher=cipher, limits=Limits(lease_s=1.0))
    names = ("ann", "bob", "cid")
    network.mesh(*names)
    for round_number in range(6):
        chatter(network, messages=10)
        victim = names[round_number % 3]
        if round_number % 2:
            other = names[(round_number + 1) % 3]
            network.engines[victim].remove_peer(other, network.now)
            network.run(3.0)
            network.introduce(victim, other)
        else:
            network.start(victim)
            network.introduce(victim, *names)
    chatter(network, messages=10)
    for name in names:
        network.engines[name].bye_datagrams(network.now)
    assert len(cipher.used) > 800
    assert len(set(cipher.used)) == len(cipher.used)


def test_a_start_with_a_used_incarnation_would_be_caught() -> None:
    cipher = WatchedDatagramCipher()
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
def test_a_key_of_another_length_is_refused(key: bytes) -> None:
    with pytest.raises(ConfigError, match="32 bytes"):
        AesGcmDatagramCipher(key)


def test_the_payload_is_not_on_the_wire() -> None:
    payload = b"do not read this on the way"
    for cipher, visible in ((AesGcmDatagramCipher(KEY), False), (None, True)):
        network = Network(cipher=cipher)
        network.mesh("ann", "bob")
        network.send("ann", "bob", data=payload)
        network.run(1.0)
        assert network.data("bob") == [payload]
        assert any(payload in flight.datagram for flight in network.transmitted) == visible
