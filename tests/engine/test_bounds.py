"""The memory and the datagrams of an engine are bounded, whatever its peers do."""

import gc
import tracemalloc
import weakref
from collections.abc import Awaitable
from dataclasses import replace
from itertools import pairwise

import pytest

import antecede
from antecede.core import protocols
from antecede.core.codec import NUMBER_MAX, Frame, Reader
from antecede.core.link_frames import LinkAck
from antecede.core.protocols.hybrid.frames import Ack, MessageFrame, Permit
from antecede.core.registry import protocol
from antecede.engine import Engine, Limits
from antecede.engine.acknowledgements import ACK_BLOCK_BYTES_MAX, read_ack_block
from antecede.engine.crypto import AesGcmDatagramCipher
from antecede.engine.datagram import DATA, DATA_PREFIX, HEADER, HELLO, read_header
from antecede.engine.message import JournaledMessage, Message
from antecede.engine.outbox import Outbox
from antecede.engine.process_driver import UNREADY_FRAMES_MAX
from antecede.engine.sealer import DatagramCipher
from antecede.errors import ConfigError, LocalError
from tests.engine.network import Flight, Network, random_traffic

UNICAST = [info for info in protocols() if info.capabilities.unicast]
CONSTANT = ["hybrid", "hybrid-basic", "buffer", "buffer-fifo", "cykas", "tree", "fifo"]
"""Protocols whose metadata does not grow with the group."""


def frames_of(flight: Flight, protocol_name: str = "hybrid") -> list[Frame]:
    """Return the frames of an unencrypted datagram."""
    if read_header(flight.datagram)[0] != DATA:
        return []
    acks = read_ack_block(flight.datagram, HEADER.size + DATA_PREFIX.size)
    assert acks is not None
    reader = Reader(flight.datagram, acks.end)
    frames = []
    while reader.position < len(flight.datagram):
        frames.append(protocol(protocol_name).read_frame(reader))
    return frames


def pair(limits: Limits | None = None, protocol_name: str = "hybrid") -> Network:
    network = Network(limits=limits, protocol=protocol_name, delay_s=(0.001, 0.001))
    network.start_group("ann", "bob")
    network.run(1.0)
    return network


# Windows.


def test_the_window_counts_copies_until_they_are_acked() -> None:
    network = pair(Limits(window_copies_max=10))
    ann = network.engines["ann"]
    for _ in range(10):
        assert ann.has_room(["bob"])
        network.send("ann", "bob", data=b"x")
    assert not ann.has_room(["bob"])
    assert ann.has_room([])
    network.run(1.0)
    assert ann.has_room(["bob"])


def test_the_window_counts_bytes() -> None:
    network = pair(Limits(window_bytes_max=5000))
    ann = network.engines["ann"]
    for _ in range(5):
        assert ann.has_room(["bob"])
        network.send("ann", "bob", data=bytes(999))
    assert not ann.has_room(["bob"])


def test_one_full_window_among_the_targets_stops_a_multicast() -> None:
    network = Network(limits=Limits(window_copies_max=1))
    network.start_group("ann", "bob", "cid")
    network.run(1.0)
    ann = network.engines["ann"]
    network.send("ann", "bob", data=b"x")
    assert ann.has_room(["cid"])
    assert not ann.has_room(["cid", "bob"])


@pytest.mark.parametrize("info", UNICAST, ids=lambda info: info.name)
def test_every_protocol_has_a_window_that_reopens(info: object) -> None:
    name = info.name  # type: ignore[attr-defined]
    network = pair(Limits(window_copies_max=8), name)
    ann = network.engines["ann"]
    sent = 0
    while ann.has_room(["bob"]):
        network.send("ann", "bob", data=b"x")
        sent += 1
        assert sent <= 8
    network.run_until_idle()
    assert ann.has_room(["bob"])
    assert network.data("bob") == [b"x"] * sent


# Arriving messages.


@pytest.mark.parametrize("name", ["hybrid", "hybrid-basic", "fifo", "matrix"])
def test_messages_above_the_reorder_buffer_are_dropped_and_retransmitted(name: str) -> None:
    network = pair(Limits(reorder_buffer_max=5), name)
    network.send("ann", "bob", data=b"0")
    lost = network.intercept(lambda flight: True)
    assert lost
    network.should_lose = lambda flight: flight.target == "ann"  # Or its loss is detected.
    for index in range(1, 20):
        network.send("ann", "bob", data=b"%d" % index)
    network.run(0.006)
    network.should_lose = lambda flight: False
    assert network.data("bob") == []
    assert network.dropped("bob") == {"frame": 14}
    network.run(30.0)
    assert network.data("bob") == [b"%d" % index for index in range(20)]
    assert network.verdict().held


@pytest.mark.parametrize("name", ["hybrid", "cykas", "matrix", "tree"])
def test_a_full_inbox_withholds_acks_and_messages_are_retransmitted(name: str) -> None:
    network = pair(protocol_name=name)
    ann, bob = network.engines["ann"], network.engines["bob"]
    # Under hybrid, ann would transmit nothing to an inbox that is full but not closed.
    if name == "hybrid":
        bob.flow.is_closed = True
    else:
        bob.flow.inbox = range(network.limits.inbox_messages_max)
    for index in range(5):
        network.send("ann", "bob", data=b"%d" % index)
    network.run(10.0)
    assert network.data("bob") == []
    assert ann.backlog > 0
    assert network.dropped("bob")["inbox"] > 0
    network.send("bob", "ann", data=b"acks and sends go on")
    network.run(1.0)
    assert network.data("ann") == [b"acks and sends go on"]
    assert bob.backlog == 0
    bob.flow.is_closed = False
    bob.flow.inbox = range(0)
    network.run(30.0)
    assert network.data("bob") == [b"%d" % index for index in range(5)]
    assert network.verdict().held


# Fragments.


@pytest.mark.parametrize("size", [0, 1, 1080, 1089, 1090, 1097, 1098, 5000, 100_000])
@pytest.mark.parametrize(
    "cipher", [None, AesGcmDatagramCipher(b"k" * 32)], ids=["plain", "sealed"]
)
def test_messages_of_any_size_are_reassembled(
    size: int, cipher: DatagramCipher | None
) -> None:
    network = Network(cipher=cipher, loss=0.1, delay_s=(0.001, 0.02))
    network.start_group("ann", "bob")
    data = network.random.randbytes(size)
    network.send("ann", "bob", "ann", data=data)
    network.send("ann", "bob", data=b"after")
    network.run(60.0)
    assert network.data("bob") == [data, b"after"]
    assert network.data("ann") == [data]
    assert max(len(flight.datagram) for flight in network.transmitted) <= 1472


def test_a_message_at_the_limit_is_sent_and_one_above_changes_nothing() -> None:
    network = pair(Limits(message_bytes_max=100_000))
    ann = network.engines["ann"]
    with pytest.raises(LocalError, match="100001 bytes is above the limit of 100000"):
        ann.send(["bob"], bytes(100_001), network.now)
    assert ann.stats().sent == 0
    network.send("ann", "bob", data=bytes(100_000))
    network.run(5.0)
    assert network.data("bob") == [bytes(100_000)]


def test_a_message_above_the_receivers_limit_is_dropped_and_the_next_delivered() -> None:
    network = Network()
    network.start("ann")
    network.start("bob", limits=Limits(message_bytes_max=100_000))
    network.add_peers("ann", "bob")
    network.add_peers("bob", "ann")
    network.send("ann", "bob", data=bytes(300_000))
    network.send("ann", "bob", data=bytes(50_000))
    network.send("ann", "bob", data=bytes(90_000))
    network.run(20.0)
    assert [len(data) for data in network.data("bob")] == [50_000, 90_000]
    assert network.dropped("bob")["frame"] > 0
    assert network.engines["bob"].sessions["ann"].reassembly.size_bytes == 0


def test_whole_messages_between_fragments_are_delivered_unchanged() -> None:
    network = pair()
    ann = network.engines["ann"]
    large = network.random.randbytes(6000)
    for index, part in enumerate(ann.fragment(large)):
        ann.send_fragment(["bob"], part, network.now)
        network.send("ann", "bob", data=b"%d" % index)
    network.run(5.0)
    small = [data for data in network.data("bob") if data != large]
    assert len(network.data("bob")) == len(small) + 1
    assert small == [b"%d" % index for index in range(len(small))]
    assert network.data("bob")[-2] == large  # In the order of its last fragment.


@pytest.mark.parametrize("first", [b"", b"\x01part", b"\x02last", b"\x07unknown"])
def test_invalid_payloads_are_dropped(first: bytes) -> None:
    network = pair()
    network.engines["ann"].send_fragment(["bob"], first, network.now)
    network.send("ann", "bob", data=b"good")
    network.run(5.0)
    assert network.data("bob") == [b"good"]
    assert network.dropped("bob") == {"frame": 1}
    assert network.engines["bob"].sessions["ann"].reassembly.fragments == []


def test_an_unordered_protocol_sends_only_messages_that_fit_into_a_datagram() -> None:
    network = pair(protocol_name="unordered")
    ann = network.engines["ann"]
    with pytest.raises(LocalError, match=r"must fit into a datagram: send at most 1097"):
        ann.send(["bob"], bytes(1098), network.now)
    assert ann.stats().sent == 0
    network.send("ann", "bob", data=bytes(1097))
    network.run(1.0)
    assert network.data("bob") == [bytes(1097)]


def test_try_send_returns_0_and_changes_nothing_if_it_cannot_send() -> None:
    network = pair(Limits(window_copies_max=3))
    ann = network.engines["ann"]
    for target, data in (
        ("eve", b"x"),
        ("ann", b"x"),
        (("bob",), b"x"),
        ("bob", "text"),
        ("bob", bytes(5000)),
    ):
        assert ann.try_send(target, data, network.now) == 0
    assert ann.stats().sent == 0
    assert [ann.try_send("bob", b"x", network.now) for _ in range(5)] == [1, 2, 3, 0, 0]
    network.run(1.0)
    assert network.data("bob") == [b"x"] * 3
    assert network.verdict().held
    ann.remove_peer("bob", network.now)
    assert ann.try_send("bob", b"x", network.now) == 0


def test_a_message_that_waits_for_no_other_should_leave_at_once() -> None:
    network = pair()
    ann = network.engines["ann"]
    due = []
    for _ in range(3):
        assert ann.try_send("bob", b"x", network.now)
        due.append((ann.sent_alone, ann.is_flush_due))
    assert due == [(True, True), (False, False), (False, False)]
    network.run(1.0)  # All are acked.
    assert ann.try_send("bob", b"x", network.now)
    assert ann.sent_alone


def test_many_messages_should_leave_together() -> None:
    network = pair()
    ann = network.engines["ann"]
    numbers = [ann.try_send("bob", b"x", network.now)]
    while not ann.is_flush_due or ann.sent_alone:
        numbers.append(ann.try_send("bob", b"x", network.now))
    assert ann.should_flush
    assert numbers == list(range(1, 322))  # One alone, and 320 in bundles.
    ann.flush(network.now)
    assert not ann.is_flush_due


def test_messages_of_a_node_with_a_journal_do_not_keep_it_in_memory() -> None:
    class Owner:
        inbox: list[Message]

        def commit(self, source: str, history: int, number: int) -> Awaitable[None]:
            raise NotImplementedError

    owner = Owner()
    owner.inbox = [JournaledMessage("ann", 1, b"x", 0.0, 1, owner.commit)]
    freed = weakref.ref(owner)
    del owner
    gc.collect()
    assert freed() is None


def test_messages_of_other_nodes_are_not_tracked_if_compiled() -> None:
    assert gc.is_tracked(Message("ann", 1, b"x", 0.0)) == (not antecede.compiled)


def test_only_bytes_can_be_sent() -> None:
    with pytest.raises(LocalError, match="data must be bytes, not str"):
        Engine("ann", 1).fragment("text")


# Datagrams.


@pytest.mark.long
@pytest.mark.parametrize("datagram", [256, 1232, 9000])
@pytest.mark.parametrize(
    "cipher", [None, AesGcmDatagramCipher(b"k" * 32)], ids=["plain", "sealed"]
)
@pytest.mark.parametrize("name", CONSTANT)
def test_no_datagram_is_larger_than_the_limit(
    name: str, cipher: DatagramCipher | None, datagram: int
) -> None:
    limits = Limits(datagram_bytes_base=datagram, datagram_bytes_max=datagram)
    network = Network(loss=0.1, cipher=cipher, limits=limits, protocol=name)
    network.start_group("ann", "bob", "cid")
    random_traffic(network, messages=10)
    network.on_message = None
    for size in range(datagram - 130, datagram + 5):
        network.send("ann", "bob", data=bytes(size))
    network.run(20.0)
    largest = max(len(flight.datagram) for flight in network.transmitted)
    assert datagram - 60 < largest <= datagram


def test_the_space_for_metadata_suffices_for_the_largest_numbers() -> None:
    engine = Engine("ann", 1)
    part = engine.fragment(bytes(5000))[0]
    frame = MessageFrame(NUMBER_MAX, NUMBER_MAX - 1, True, part)
    before = HEADER.size + DATA_PREFIX.size + ACK_BLOCK_BYTES_MAX
    assert before + frame.size() <= Limits().datagram_bytes_base


def test_many_frames_share_a_datagram_and_one_ack_answers_them() -> None:
    network = pair(Limits(datagram_bytes_max=1232))
    ann = network.engines["ann"]
    before = len(network.transmitted)
    for _ in range(100):
        ann.send(["bob"], b"x" * 20, network.now)
    network.run(0.0015)
    outward = [f for f in network.transmitted[before:] if f.source == "ann"]
    frames = [frame for flight in outward for frame in frames_of(flight)]
    assert len(frames) == 100
    assert len(outward) <= 3
    network.run(1.0)
    back = [flight for flight in network.transmitted if flight.source == "bob"]
    acks = [f for flight in back for f in frames_of(flight) if isinstance(f, Ack)]
    assert len(acks) <= len(outward)
    assert acks[-1].delivered == 100


def test_acks_and_permits_that_later_ones_cover_are_left_out() -> None:
    outbox = Outbox()
    for number in range(1, 50):
        outbox.add(Ack(number, number))
        outbox.add(Permit(number))
    assert [frame.size() for frame in outbox.frames] == [2, 2]
    assert [repr(frame) for frame in outbox.pop_frames()] == [
        "Ack(arrived=49, delivered=49)",
        "Permit(number=49)",
    ]
    outbox.add(Ack(3, 7))  # 7 is held, so its ack must stay.
    outbox.add(Ack(3, 9))
    outbox.add(Ack(9, 4))
    assert [repr(frame) for frame in outbox.pop_frames()] == [
        "Ack(arrived=7, delivered=3)",
        "Ack(arrived=4, delivered=9)",
    ]
    for number in range(1, 50):
        outbox.add(LinkAck(number, number))
    assert [repr(frame) for frame in outbox.pop_frames()] == [
        "LinkAck(acked=49, arrived=49)"
    ]


# A silent peer.


def stored_objects(engine: Engine) -> int:
    """Count the objects that the engine stores for its peers."""
    return sum(
        len(session.outbox.frames)
        + len(session.handshake.hellos)
        + len(session.reassembly.fragments)
        + len(session.handshake.introduced)
        for session in engine.sessions.values()
    )


@pytest.mark.long
@pytest.mark.parametrize("met", [True, False], ids=["met", "never met"])
def test_an_hour_of_silence_needs_no_memory_and_few_datagrams(met: bool) -> None:
    """Ann sends to bob, who has stopped, and to cid, whenever her windows are open."""
    network = Network(limits=Limits(window_copies_max=64, retained_copies_max=100))
    network.start_group("ann", "bob", "cid")
    if met:
        network.run(1.0)
    network.stop("bob")
    ann = network.engines["ann"]

    def quarter_of_an_hour() -> None:
        for _ in range(90):
            while ann.has_room(["bob"]):
                network.send("ann", "bob", data=bytes(100))
            if ann.has_room(["cid"]):
                network.send("ann", "cid", data=bytes(100))
            network.run(10.0)
            network.transmitted.clear()
            for starts in network.starts.values():
                starts[-1].recorder.events.clear()
            for messages in network.received.values():
                messages.clear()

    quarter_of_an_hour()
    stored = stored_objects(ann)
    gc.collect()
    tracemalloc.start()
    quarter_of_an_hour()
    gc.collect()
    begun, _ = tracemalloc.get_traced_memory()
    quarter_of_an_hour()
    quarter_of_an_hour()
    gc.collect()
    ended, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ann.backlog == 64
    assert ann.process.retained() == 100
    assert stored_objects(ann) <= stored + 2
    assert ended - begun < 10_000
    network.run(100.0)
    to_bob = [
        flight
        for flight in network.transmitted
        if (flight.source, flight.target) == ("ann", "bob")
    ]
    assert 20 <= len(to_bob) <= 30
    assert all(read_header(flight.datagram)[0] == HELLO for flight in to_bob)


def test_the_outbox_for_an_unready_peer_is_bounded_and_its_messages_arrive() -> None:
    network = Network(
        protocol="fifo",
        limits=Limits(window_copies_max=3 * UNREADY_FRAMES_MAX, window_bytes_max=1 << 30),
    )
    ann = network.start("ann")
    network.add_peers("ann", "bob")
    for index in range(UNREADY_FRAMES_MAX + 500):
        ann.send(["bob"], b"%d" % index, network.now)
    network.flush("ann")
    assert len(ann.sessions["bob"].outbox.frames) == UNREADY_FRAMES_MAX
    network.start("bob")
    network.add_peers("bob", "ann")
    network.run(60.0)
    assert network.data("bob") == [
        b"%d" % index for index in range(UNREADY_FRAMES_MAX + 500)
    ]


def test_a_silent_peer_closes_all_windows_at_the_limit_of_retained_copies() -> None:
    network = Network(limits=Limits(retained_copies_max=50, lease_s=2.0))
    network.start_group("ann", "bob", "cid")
    network.run(1.0)
    network.stop("bob")
    ann = network.engines["ann"]
    network.send("ann", "bob", data=b"stalls")
    sent = 0
    while ann.has_room(["cid"]):
        network.send("ann", "cid", data=b"x")
        network.run(0.1)
        sent += 1
        assert sent <= 50
    assert len(network.data("cid")) == sent == 49
    network.engines["ann"].remove_peer("bob", network.now)
    network.run(5.0)
    assert ann.has_room(["cid"])


def test_retransmissions_to_a_silent_peer_back_off() -> None:
    network = pair(Limits(lease_s=10_000.0))
    network.stop("bob")
    network.send("ann", "bob", data=b"x")
    network.run(100.0)
    at = [flight.transmitted_at for flight in network.transmitted if flight.source == "ann"]
    gaps = [later - earlier for earlier, later in pairwise(at[-10:])]
    assert gaps[-1] == pytest.approx(Limits().policy.maximum_s)
    assert len(at) < 40


def test_a_hello_of_a_silent_peer_triggers_retransmission() -> None:
    """The engine transmits the suppressed copies after the handshake."""
    network = pair()
    network.should_lose = lambda flight: True
    network.send("ann", "bob", data=b"x")
    network.run(300.0)
    network.should_lose = lambda flight: False
    network.engines["bob"].add_peer("ann", "ann", network.now)
    network.run(0.01)
    network.send("bob", "ann", data=b"here")
    network.run(5.0)
    assert network.data("bob") == [b"x"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("datagram_bytes_max", 100, "datagram_bytes_max must be 256 to 65507, got 100"),
        (
            "datagram_bytes_max",
            70_000,
            "datagram_bytes_max must be 256 to 65507, got 70000",
        ),
        ("message_bytes_max", 0, "message_bytes_max must be 65536 to"),
        ("window_copies_max", 0, "window_copies_max must be at least 1, got 0"),
        ("window_bytes_max", 0, "window_bytes_max must be at least 1"),
        ("retained_copies_max", 0, "retained_copies_max must be at least 1"),
        ("reorder_buffer_max", 0, "reorder_buffer_max must be at least 1"),
        ("inbox_messages_max", -1, "inbox_messages_max must be at least 1, got -1"),
        ("lease_s", 0.0, "lease_s must be above 0, got 0"),
        ("hello_timeout_s", -1.0, "hello_timeout_s must be above 0, got -1"),
        ("clock_drift_max", 1.0, "clock_drift_max must be at least 0 and below 1, got 1"),
        ("lease_s", float("nan"), "lease_s must be above 0, got nan"),
    ],
)
def test_limits_out_of_range_raise(field: str, value: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(Limits(), **{field: value})  # type: ignore[arg-type]
