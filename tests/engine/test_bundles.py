"""Bundles: consecutive messages to the same target travel as one message."""

import pytest

from antecede.core.codec import Frame
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame
from antecede.engine import Engine, Limits
from antecede.engine.bundle import (
    BUNDLE_MAX,
    PendingBundle,
    count_messages,
    observed_frames,
    split,
)
from antecede.errors import PeerError
from antecede.trace import Kind
from tests.engine.network import Network

THREE = b"\x04\x03\x01a\x00\x02bc"
"""The messages ``a``, an empty one, and ``bc``, by hand."""


def pair(protocol: str = "hybrid", limits: Limits | None = None) -> tuple[Network, Engine]:
    """Return a network of ann, bob and cid that have met, and ann's engine."""
    network = Network(limits=limits, protocol=protocol)
    ann, _, _ = network.start_group("ann", "bob", "cid")
    network.run_until_idle()
    network.run(0.1)
    return network, ann


def send_some(network: Network, engine: Engine, target: str, *data: bytes) -> list[int]:
    """Send messages as the application does that never lets the event loop run."""
    return [
        engine.append(target, each) or engine.try_send(target, each, network.now)
        for each in data
    ]


# The format.


def test_a_bundle_is_encoded_as_documented() -> None:
    bundle = PendingBundle()
    bundle.start("bob", b"a", 5, 100, 10)
    assert bundle.append("bob", b"") == 6
    assert bundle.append("bob", b"bc") == 7
    assert (bundle.count, bundle.number) == (3, 7)
    assert bundle.pop() == THREE
    assert bundle.count == 0
    assert bundle.append("bob", b"d") == 0
    assert split(THREE, 7) == [b"a", b"", b"bc"]


@pytest.mark.parametrize("size", [127, 128, 1023, 1024, 16_383, 16_384])
def test_lengths_of_several_bytes(size: int) -> None:
    bundle = PendingBundle()
    bundle.start("bob", b"a", 1, 65_000, 10)
    assert bundle.append("bob", bytes(size)) == 2
    assert split(bundle.pop(), 2) == [b"a", bytes(size)]


@pytest.mark.parametrize(
    "payload",
    [
        b"\x04",
        b"\x04\x00",
        b"\x04\x01",
        b"\x04\x02\x01a",
        b"\x04\x01\x01a\x01b",
        b"\x04\x01\x05a",
        b"\x04\x01\xff\xff\xff\xff\xff\x01",
        b"\x04\x03\x01a\x01b\x01c",
    ],
    ids=["head", "none", "cut", "count", "trailing", "length", "varint", "number"],
)
def test_a_malformed_bundle_is_refused(payload: bytes) -> None:
    with pytest.raises(PeerError, match="invalid bundle"):
        split(payload, 2)


def test_a_bundle_has_room_for_so_many_messages_and_bytes() -> None:
    bundle = PendingBundle()
    bundle.start("bob", b"a", 1, 65_000, 1000)
    numbers = [bundle.append("bob", b"a") for _ in range(BUNDLE_MAX)]
    assert numbers == [*range(2, BUNDLE_MAX + 1), 0]
    bundle.pop()
    bundle.start("bob", b"a", 1, 13, 1000)  # 2 for the head, 2 for the first message.
    assert bundle.append("bob", bytes(7)) == 0  # A length may take 3 bytes.
    assert bundle.append("bob", bytes(6)) == 2
    assert bundle.append("bob", b"") == 0
    assert len(bundle.pop()) <= 13


def test_observers_see_each_message_and_count_the_metadata_once() -> None:
    frame = MessageFrame(7, 4, True, THREE)
    parts = observed_frames(frame)
    assert [part.message_number() for part in parts] == [5, 6, 7]
    assert [part.payload_size() for part in parts] == [1, 0, 2]
    assert sum(part.size() for part in parts) == frame.size()
    assert [part.metadata_size() for part in parts[1:]] == [0, 0]
    others: list[Frame] = [Ack(1, 1), MessageFrame(7, 4, True, b"\x00abc")]
    for other in others:
        assert observed_frames(other) == [other]
        assert count_messages(other) == 1


# Sending.


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic", "bounded"])
def test_consecutive_messages_are_one_message_of_the_protocol(protocol: str) -> None:
    network, ann = pair(protocol)
    assert send_some(network, ann, "bob", b"1", b"2", b"3", b"4") == [1, 2, 3, 4]
    assert (ann.backlog, ann.stats().sent) == (4, 4)
    network.run_until_idle()
    messages = network.received["bob"]
    assert [(each.number, each.data) for each in messages] == [
        *((1, b"1"), (2, b"2"), (3, b"3"), (4, b"4"))
    ]
    assert ann.stats().released == 4
    assert network.verdict()
    assert ann.backlog == 0


def test_other_protocols_do_not_bundle() -> None:
    network, ann = pair("fifo")
    assert send_some(network, ann, "bob", b"1", b"2", b"3") == [1, 2, 3]
    network.run_until_idle()
    assert network.data("bob") == [b"1", b"2", b"3"]
    assert network.verdict()


def test_a_send_to_another_target_ends_the_bundle() -> None:
    network, ann = pair()
    assert send_some(network, ann, "bob", b"1", b"2") == [1, 2]
    assert send_some(network, ann, "cid", b"3") == [3]
    assert send_some(network, ann, "bob", b"4", b"5") == [4, 5]
    assert ann.send(["bob", "cid"], b"6", network.now) == 6
    assert send_some(network, ann, "bob", b"7") == [7]
    network.run_until_idle()
    assert network.data("bob") == [b"1", b"2", b"4", b"5", b"6", b"7"]
    assert network.data("cid") == [b"3", b"6"]
    assert network.verdict()


def test_the_bundle_is_handed_over_before_a_datagram_is_received() -> None:
    network, ann = pair()
    send_some(network, ann, "bob", b"1", b"2", b"3")
    network.engines["cid"].send(["ann"], b"x", network.now)
    ((_, datagram),) = network.engines["cid"].flush(network.now)
    bob = ann.sessions["bob"].id
    assert ann.process.backlog(bob) == 1  # The others are pending.
    ann.receive_datagram(datagram, "cid", network.now)
    assert ann.process.backlog(bob) == 3
    sends = [event for event in network.events() if event.kind is not Kind.CONTROL]
    order = [(event.kind, event.number) for event in sends if event.process == 0]
    assert order.index((Kind.RELEASE, 3)) < order.index((Kind.DELIVER, 1))


@pytest.mark.parametrize("step", ["timer", "remove", "bye", "add"])
def test_the_bundle_is_handed_over_before_any_other_input(step: str) -> None:
    network, ann = pair()
    send_some(network, ann, "bob", b"1", b"2", b"3")
    bob = ann.sessions["bob"].id
    if step == "timer":
        ann.handle_timer(network.now)
    elif step == "remove":
        ann.remove_peer("cid", network.now)
    elif step == "bye":
        ann.bye_datagrams(network.now)
    else:
        ann.add_peer("dan", "dan", network.now)
    assert ann.process.backlog(bob) == 3
    network.run_until_idle()
    assert network.data("bob") == [b"1", b"2", b"3"]


def test_a_bundle_counts_all_its_messages_in_the_windows() -> None:
    network, ann = pair(limits=Limits(window_copies_max=5, inbox_messages_max=16))
    numbers = send_some(network, ann, "bob", *[b"x"] * 8)
    assert numbers == [1, 2, 3, 4, 5, 0, 0, 0]
    assert not ann.has_room(["bob"])
    assert ann.has_room(["cid"])
    network.run_until_idle()
    assert len(network.received["bob"]) == 5
    assert ann.has_room(["bob"])


def test_a_bundle_does_not_exceed_the_receive_window() -> None:
    # Half of bob's inbox of 12 is for ann and cid: a window of 3 for each.
    network, ann = pair(limits=Limits(inbox_messages_max=12))
    held: list[int] = []
    network.engines["bob"].flow.inbox = held
    send_some(network, ann, "bob", *[b"x"] * 6)
    ann.flush(network.now)
    assert ann.sessions["bob"].window == 3
    assert ann.process.pending is not None
    assert ann.process.pending.count_in_flight() == 6
    assert ann.stats().released == 3


def test_a_delivered_bundle_uses_the_room_of_all_its_messages() -> None:
    network, ann = pair()
    bob = network.engines["bob"]
    credit = bob.sessions["ann"].credit
    numbers: list[int] = []
    ann.send_batch("bob", [b"1", b"2", b"3"], numbers, network.now)
    ((_, datagram),) = ann.flush(network.now)
    before = credit.window, credit.reserved
    bob.receive_datagram(datagram, "ann", network.now)
    assert (credit.window, credit.reserved) == (before[0] - 3, before[1] - 3)


def test_messages_to_targets_in_turn_make_no_bundles() -> None:
    network, ann = pair()
    bob, cid = ann.sessions["bob"].id, ann.sessions["cid"].id
    for _ in range(3):
        send_some(network, ann, "bob", b"x")
        send_some(network, ann, "cid", b"x")
    assert ann.process.backlog(bob) == 3
    assert ann.process.backlog(cid) == 3


def test_a_batch_is_bundled_even_if_nothing_is_in_flight() -> None:
    network, ann = pair()
    numbers: list[int] = []
    ann.send_batch("bob", [b"1", b"2", b"3"], numbers, network.now)
    assert numbers == [1, 2, 3]
    assert ann.process.backlog(ann.sessions["bob"].id) == 0
    network.run_until_idle()
    assert network.data("bob") == [b"1", b"2", b"3"]
    assert network.verdict()


def test_a_batch_stops_before_what_it_cannot_send() -> None:
    network, ann = pair(limits=Limits(message_bytes_max=1 << 16))
    numbers: list[int] = []
    ann.send_batch("bob", [b"1", bytes(5000), b"3"], numbers, network.now)
    assert numbers == [1]
    ann.send_batch("eve", [b"1"], numbers[:0], network.now)
    network.run_until_idle()
    assert network.data("bob") == [b"1"]


# Losses, and all of it together.


@pytest.mark.parametrize("protocol", ["hybrid", "hybrid-basic", "bounded"])
@pytest.mark.parametrize("seed", range(4))
def test_random_bursts_keep_causal_order(protocol: str, seed: int) -> None:
    network = Network(seed, protocol=protocol, loss=0.1, duplication=0.05)
    names = ("ann", "bob", "cid", "dan")
    network.start_group(*names)
    network.run_until_idle()
    random = network.random
    expected = dict.fromkeys(names, 0)
    for serial in range(150):
        name = random.choice(names)
        engine = network.engines[name]
        for _ in range(random.choice((1, 2, 5))):
            target = random.choice([each for each in names if each != name])
            for _ in range(random.choice((1, 3, 20))):
                data = serial.to_bytes(2, "big")
                if not engine.append(target, data) and not engine.try_send(
                    target, data, network.now
                ):
                    engine.send([target], data, network.now)
                expected[target] += 1
            for flight in network.intercept(lambda each: random.random() < 0.2):
                network.arrive(flight)
        network.run(random.choice((0.0, 0.002)))
    network.run_until_idle()
    network.run(1.0)
    assert {name: len(network.received[name]) for name in names} == expected
    assert network.verdict()


def test_a_lost_bundle_is_retransmitted_whole() -> None:
    network, ann = pair()
    send_some(network, ann, "bob", b"1", b"2", b"3")
    network.flush("ann")
    lost = network.intercept(lambda flight: flight.source == "ann")
    assert lost
    network.run_until_idle()
    assert network.data("bob") == [b"1", b"2", b"3"]
    assert ann.stats().retransmitted == 3
    assert network.verdict()
