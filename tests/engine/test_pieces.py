"""Frames that are larger than a datagram: they travel in pieces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.engine import Limits
from antecede.engine.datagram import DATA, PIECE, read_header
from antecede.engine.pieces import FRAME_BYTES_MAX, PieceBuffer, PieceWriter
from antecede.engine.process_factory import MEMBERS_MAX
from antecede.errors import ConfigError
from tests.engine.network import Flight, Network

SIZE = 600
LIMITS = Limits(datagram_bytes_base=SIZE, datagram_bytes_max=SIZE)
MEMBERS = [f"member {number:03}" for number in range(60)]
"""A matrix of 62 times 62 bytes."""
COUNT = 8
"""The pieces of each message."""


def start_pair(seed: int = 1, limits: Limits = LIMITS) -> Network:
    """Start two members of the group; the others are down."""
    network = Network(seed, delay_s=(0.01, 0.01), protocol="matrix", limits=limits)
    for name in ("ann", "bob"):
        network.start(name, members=["ann", "bob", *MEMBERS])
    network.add_peers("ann", "bob")
    network.add_peers("bob", "ann")
    network.run(1.0)
    return network


def pieces(network: Network) -> list[Flight]:
    """Return the pieces that ann has transmitted."""
    return [
        flight
        for flight in network.transmitted
        if flight.source == "ann" and read_header(flight.datagram)[0] == PIECE
    ]


def test_no_datagram_is_larger_than_the_path_carries() -> None:
    network = start_pair()
    for number in range(5):
        network.send("ann", "bob", data=b"%d" % number)
    network.run_until_idle()
    assert network.data("bob") == [b"%d" % number for number in range(5)]
    assert max(len(flight.datagram) for flight in network.transmitted) <= SIZE
    assert len(pieces(network)) == 5 * COUNT
    assert network.engines["ann"].stats().retransmitted == 0
    assert network.engines["ann"].sessions["bob"].path.in_flight == 0


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    loss=st.floats(0.0, 0.2),
    duplication=st.floats(0.0, 0.2),
    jitter_s=st.floats(0.0, 0.02),
    control=st.sampled_from(["cubic", "fixed"]),
)
def test_frames_in_pieces_arrive_in_spite_of_losses(
    seed: int, loss: float, duplication: float, jitter_s: float, control: str
) -> None:
    limits = Limits(
        datagram_bytes_base=SIZE, datagram_bytes_max=SIZE, congestion_control=control
    )
    network = start_pair(seed, limits)
    network.loss = loss
    network.duplication = duplication
    network.delay_s = (0.01, 0.01 + jitter_s)
    for number in range(12):
        network.send("ann", "bob", data=b"%d" % number)
        network.run(0.02)
    network.run(1.0)
    network.loss = 0.0
    network.run_until_idle()
    assert network.data("bob") == [b"%d" % number for number in range(12)]
    assert len(network.engines["bob"].sessions["ann"].path.pieces) <= 4


def test_a_lost_piece_costs_the_pieces_of_one_frame() -> None:
    network = start_pair()
    lost: list[Flight] = []

    def lose(flight: Flight) -> bool:
        is_lost = not lost and read_header(flight.datagram)[0] == PIECE
        if is_lost:
            lost.append(flight)
        return is_lost

    network.should_lose = lose
    for number in range(3):
        network.send("ann", "bob", data=b"%d" % number)
        network.run(0.005)
    network.run(0.5)
    assert network.data("bob") == [b"0", b"1", b"2"]
    assert len(pieces(network)) == 4 * COUNT
    assert network.engines["ann"].stats().retransmitted == 1


def test_pieces_exceed_the_window_only_if_it_is_smaller_than_a_frame() -> None:
    network = start_pair()
    path = network.engines["ann"].sessions["bob"].path
    frame_bytes = COUNT * SIZE
    alone = 0
    before: set[int] = set()

    def check(name: str) -> None:
        nonlocal alone, before
        sent = set(path.losses.sent)
        if name == "ann" and sent - before and path.losses.probes == 0:
            assert path.in_flight <= max(path.window, frame_bytes)
            alone += path.in_flight > path.window
        before = sent

    network.on_flush = check
    network.loss = 0.1
    for number in range(50):
        network.engines["ann"].send(["bob"], b"%d" % number, network.now)
    network.flush("ann")
    network.run_until_idle()
    assert len(network.data("bob")) == 50
    assert alone > 0


def test_small_frames_travel_beside_large_ones() -> None:
    """bob sends at the same time: his acks are control frames."""
    network = start_pair()
    for number in range(20):
        network.send("ann", "bob", data=b"%d" % number)
        network.send("bob", "ann", data=b"%d" % number)
        network.run(0.003)
    network.run_until_idle()
    assert len(network.data("bob")) == len(network.data("ann")) == 20
    assert network.verdict().held
    kinds = {read_header(flight.datagram)[0] for flight in network.transmitted}
    assert {DATA, PIECE} <= kinds


@pytest.mark.parametrize("protocol", ["bounded", "hybrid", "fifo"])
def test_the_fragments_of_a_message_need_no_pieces(protocol: str) -> None:
    limits = Limits(datagram_bytes_max=8972)
    network = Network(delay_s=(0.01, 0.01), protocol=protocol, limits=limits)
    network.start_group("ann", "bob")
    network.run(1.0)
    network.send("ann", "bob", data=bytes(50_000))
    data = [each for each in network.transmitted if read_header(each.datagram)[0] == DATA]
    assert max(len(flight.datagram) for flight in data) <= 1232  # Others are probes.
    network.run_until_idle()
    assert network.data("bob") == [bytes(50_000)]
    assert pieces(network) == []


@given(frame=st.binary(min_size=1, max_size=3000), room=st.integers(9, 700), data=st.data())
def test_pieces_are_joined_in_any_order(
    frame: bytes, room: int, data: st.DataObject
) -> None:
    writer = PieceWriter()
    buffer = PieceBuffer()
    writer.split(b"another frame", room)
    parts = writer.split(frame, room)
    assert all(len(part) <= room for part in parts)
    order = data.draw(st.permutations(range(len(parts))))
    for place, index in enumerate(order):
        waiting = buffer.add(b"prefix" + parts[index], 6, index + 1)
        assert waiting is not None
        assert (waiting.frame is not None) == (place == len(order) - 1)
        if waiting.frame is not None:
            assert waiting.frame == frame
            assert sorted(waiting.packets) == [number + 1 for number in range(len(parts))]
    assert len(buffer) == 0


@given(bodies=st.lists(st.binary(max_size=40), max_size=30))
def test_hostile_pieces_take_a_bounded_amount_of_memory(bodies: list[bytes]) -> None:
    buffer = PieceBuffer()
    for number, body in enumerate(bodies):
        buffer.add(body, 0, number)
        assert len(buffer) <= 4


def test_a_frame_that_grows_beyond_the_limit_is_dropped() -> None:
    buffer = PieceBuffer()
    head = bytes([0, 0, 0, 1])
    taken = 0
    for index in range(FRAME_BYTES_MAX // 60_000 + 2):
        part = head + index.to_bytes(2, "big") + (100).to_bytes(2, "big") + bytes(60_000)
        taken += buffer.add(part, 0, index) is not None
    assert taken <= FRAME_BYTES_MAX // 60_000 + 1
    assert buffer.add(head + bytes([0, 5, 0, 5]) + b"x", 0, 1) is None  # No such piece.
    assert buffer.add(head + bytes([0, 0, 0, 5]) + b"x", 0, 1) is not None
    assert buffer.add(head + bytes([0, 1, 0, 6]) + b"x", 0, 1) is None  # Another count.


@pytest.mark.parametrize("protocol", ["matrix", "optimal", "tree"])
def test_a_group_whose_frames_would_be_too_large_is_refused(protocol: str) -> None:
    network = Network(protocol=protocol)
    members = [f"member {number}" for number in range(MEMBERS_MAX)]
    with pytest.raises(ConfigError, match=rf"cannot have {MEMBERS_MAX + 1} members"):
        network.start("ann", members=members)
    network.start("ann", members=members[1:])
