"""Links: sessions that carry the datagrams of rooms, and the datagrams of strangers."""

import re
from pathlib import Path

import pytest

from antecede.engine import Engine, Limits, joining
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import CARRY, HEADER, JOIN, VERSION, name_hash
from antecede.engine.joining import (
    JoinAnswer,
    JoinRequest,
    open_stranger,
    seal_stranger,
)
from antecede.engine.wait_step import Reason, WaitStep, read_steps, write_steps
from antecede.errors import LocalError, PeerError

KEY = bytes(range(32))
ROOM = 4711


class Pair:
    """Two engines with a link, on a network that loses nothing."""

    def __init__(self, *, keyed: bool = True, protocol: str = "bounded") -> None:
        self.now = 1.0
        cipher = AesGcmDatagramCipher(KEY) if keyed else None
        self.engines = {
            name: Engine(
                name, number, cipher=cipher, limits=Limits(), protocol_name=protocol
            )
            for number, name in enumerate(("ann", "bob"), start=11)
        }
        self.ann = self.engines["ann"]
        self.bob = self.engines["bob"]
        self.transmitted: list[bytes] = []
        self.ann.links.add("bob", "bob", self.now)
        self.bob.links.add("ann", "ann", self.now)

    def run(self, rounds: int = 8) -> None:
        """Exchange datagrams."""
        for _ in range(rounds):
            self.now += 0.001
            for name, engine in self.engines.items():
                for address, datagram in engine.flush(self.now):
                    self.transmitted.append(datagram)
                    target = self.engines[str(address)]
                    target.receive_datagram(datagram, name, self.now)

    def carried(self) -> list[bytes]:
        """Return the datagrams of the kind CARRY so far."""
        return [each for each in self.transmitted if each[0] & 15 == CARRY]


def inner(sender: str, size: int = 60) -> bytes:
    """Return a datagram of a room."""
    header = HEADER.pack(VERSION << 4 | 3, name_hash(sender), 5, 6, 7)
    return header + bytes(max(size - HEADER.size, 0))


def test_datagrams_of_rooms_wait_for_the_handshake_and_share_a_datagram() -> None:
    pair = Pair()
    for room in range(5):
        pair.ann.links.send("bob", room, inner("ann"))
    pair.run()
    arrived = pair.bob.links.take_arrived()
    assert arrived == [("ann", room, inner("ann")) for room in range(5)]
    assert len(pair.carried()) == 1
    assert pair.bob.links.take_arrived() == []


def test_large_parts_are_spread_over_datagrams_that_the_path_carries() -> None:
    pair = Pair()
    pair.run()
    parts = [inner("ann", 700) for _ in range(5)]
    for part in parts:
        pair.ann.links.send("bob", ROOM, part)
    pair.run()
    assert [each[2] for each in pair.bob.links.take_arrived()] == parts
    assert len(pair.carried()) == 5
    assert max(map(len, pair.carried())) <= Limits().datagram_bytes_max


def test_a_node_cannot_speak_for_another_one_in_a_room() -> None:
    pair = Pair()
    pair.ann.links.send("bob", ROOM, inner("cid"))
    pair.ann.links.send("bob", ROOM, inner("ann"))
    pair.run()
    assert pair.bob.links.take_arrived() == [("ann", ROOM, inner("ann"))]


def test_a_replayed_datagram_is_dropped_with_its_parts() -> None:
    pair = Pair()
    pair.ann.links.send("bob", ROOM, inner("ann"))
    pair.run()
    pair.bob.links.take_arrived()
    (datagram,) = pair.carried()
    pair.bob.receive_datagram(datagram, "ann", pair.now)
    assert pair.bob.links.take_arrived() == []
    assert pair.bob.stats().dropped["replay"] == 1


def test_a_part_that_is_cut_off_is_dropped() -> None:
    pair = Pair(keyed=False)
    pair.ann.links.send("bob", ROOM, inner("ann"))
    pair.run()
    pair.bob.links.take_arrived()
    (datagram,) = pair.carried()
    for end in range(len(datagram) - 60, len(datagram)):
        packet = (1000 + end).to_bytes(8, "big")
        shorter = datagram[: HEADER.size - 8] + packet + datagram[HEADER.size : end]
        pair.bob.receive_datagram(shorter, "ann", pair.now)
        assert pair.bob.links.take_arrived() == []


def test_a_link_is_no_peer_until_the_application_adds_it() -> None:
    pair = Pair()
    pair.run()
    assert pair.ann.peers() == []
    assert pair.ann.links.names() == ["bob"]
    with pytest.raises(LocalError, match="bob is not a peer"):
        pair.ann.send(["bob"], b"hello", pair.now)
    assert pair.ann.try_send("bob", b"hello", pair.now) == 0
    pair.ann.add_peer("bob", "bob", pair.now)
    pair.ann.send(["bob"], b"hello", pair.now)
    pair.run()
    assert pair.bob.poll_messages() == []  # Bob has not added Ann.
    pair.bob.add_peer("ann", "ann", pair.now)
    for _ in range(3000):
        pair.now += 0.01
        for engine in pair.engines.values():
            engine.handle_timer(pair.now)
        pair.run(1)
    assert [message.data for message in pair.bob.poll_messages()] == [b"hello"]
    pair.ann.links.add("bob", "elsewhere", pair.now)
    assert pair.ann.peers() == ["bob"]
    assert pair.ann.links.address("bob") == "bob"


@pytest.mark.parametrize("protocol", ["bounded", "fifo"])
def test_messages_of_a_node_that_is_only_linked_are_not_delivered(protocol: str) -> None:
    pair = Pair(protocol=protocol)
    pair.run()
    pair.ann.add_peer("bob", "bob", pair.now)
    pair.ann.send(["bob"], b"hello", pair.now)
    pair.run()
    assert pair.bob.poll_messages() == []


def test_a_link_that_is_in_use_keeps_its_address() -> None:
    pair = Pair()
    pair.ann.links.add("bob", "elsewhere", pair.now)
    assert pair.ann.links.address("bob") == "elsewhere"  # It was never met.
    pair.ann.links.add("bob", "bob", pair.now)
    pair.run()
    pair.ann.links.add("bob", "elsewhere", pair.now)
    assert pair.ann.links.address("bob") == "bob"


# Strangers.


def random_bits(bits: int) -> int:
    return (1 << bits) - 12345


def test_a_join_opens_with_the_group_key_only() -> None:
    cipher = AesGcmDatagramCipher(KEY)
    request = JoinRequest(99, "ann", 11, 22, 20_000)
    datagram = seal_stranger(request, cipher, random_bits, 1232)
    assert len(datagram) == 1232
    assert b"ann" not in datagram
    opened = open_stranger(datagram, cipher)
    assert isinstance(opened, JoinRequest)
    assert (opened.nonce, opened.name, opened.incarnation) == (99, "ann", 11)
    assert (opened.protocol, opened.lease_ms) == (22, 20_000)
    with pytest.raises(PeerError):
        open_stranger(datagram, AesGcmDatagramCipher(bytes(32)))
    for index in range(0, len(datagram), 7):
        changed = bytearray(datagram)
        changed[index] ^= 1
        with pytest.raises(PeerError):
            open_stranger(bytes(changed), cipher)


def test_joins_have_the_bytes_of_the_reference() -> None:
    """The examples in the docstring of the module, which the wire format shows."""
    assert joining.__doc__ is not None
    examples = {
        line.split()[0]: bytes.fromhex("".join(line.split()[1:]))
        for line in joining.__doc__.splitlines()
        if line.startswith("    JOIN") and "nonce" not in line
    }
    request = JoinRequest(5, "bob", 300, 7, 2000)
    answer = JoinAnswer(5, 9, "al", "h:1", "")
    assert examples == {"JOIN": request.encode(), "JOIN_ANSWER": answer.encode()}
    datagram = seal_stranger(request, None, lambda bits: 0, 1232)
    fields = examples["JOIN"]
    padding = bytes(1232 - 17 - len(fields))
    assert datagram == bytes([VERSION << 4 | JOIN]) + bytes(16) + fields + padding


def test_a_part_has_the_hash_of_its_room_and_its_length() -> None:
    pair = Pair(keyed=False)
    pair.run()
    pair.transmitted.clear()
    datagram = inner("ann", 60)
    pair.ann.links.send("bob", ROOM, datagram)
    pair.run()
    part = (4711).to_bytes(8, "big") + (60).to_bytes(2, "big") + datagram
    (carried,) = [each for each in pair.transmitted if each[0] & 15 == CARRY]
    assert carried.endswith(part)


def test_a_step_of_an_answer_has_the_bytes_of_the_reference() -> None:
    """The example on the page about the wire format."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "wire-format.md"
    (example,) = re.findall(r"```text\n([0-9a-f ]+)\n```", page.read_text("utf-8"))
    step = WaitStep(waiter="al", reason=Reason.ACK, name="b", number=7, silent_s=0.3)
    assert write_steps([step], 1000) == bytes.fromhex(example)
    assert read_steps(bytes.fromhex(example)) == [step]


def test_two_joins_have_different_keys_because_their_nonces_are_equal() -> None:
    cipher = AesGcmDatagramCipher(KEY)
    request = JoinRequest(99, "ann", 11, 22, 20_000)
    first, second = (
        seal_stranger(request, cipher, lambda bits, salt=salt: salt, 1232)  # type: ignore[misc]
        for salt in (1, 2)
    )
    assert first[:16] == second[:16]  # Only the last byte of the salt differs.
    same = sum(a == b for a, b in zip(first[17:], second[17:], strict=True))
    assert same < 30  # Of 1215 bytes, 5 are equal by chance.


def test_an_answer_has_at_most_three_texts_of_255_bytes() -> None:
    cipher = AesGcmDatagramCipher(KEY)
    long = "x" * 1000
    answer = JoinAnswer(1 << 62, 1 << 62, long, long, long)
    assert len(seal_stranger(answer, cipher, random_bits, 0)) < 1232
    opened = open_stranger(seal_stranger(answer, cipher, random_bits, 0), cipher)
    assert isinstance(opened, JoinAnswer)
    assert (opened.nonce, opened.name, opened.reason) == (1 << 62, long[:255], long[:255])


def test_strangers_are_kept_only_by_a_node_with_rooms() -> None:
    pair = Pair()
    datagram = seal_stranger(JoinRequest(1, "cid", 1, 1, 1), None, random_bits, 1232)
    pair.bob.receive_datagram(datagram, "cid", pair.now)
    assert pair.bob.links.take_strangers() == []
    assert pair.bob.stats().dropped["unknown_sender"] == 1
    pair.bob.links.open()
    for _ in range(1000):
        pair.bob.receive_datagram(datagram, "cid", pair.now)
    assert 1 <= len(pair.bob.links.take_strangers()) <= 256
