"""What engines do on paths that lose datagrams or carry little: properties of runs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core.process import NEVER
from antecede.engine import Message
from tests.engine.network import Flight, Network
from tests.engine.path_run import Run

PROTOCOLS = ("bounded", "hybrid", "fifo")
CONTROLS = ("cubic", "newreno")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    loss=st.floats(0.0, 0.4),
    duplication=st.floats(0.0, 0.2),
    jitter_s=st.floats(0.0, 0.05),
    control=st.sampled_from(CONTROLS),
)
def test_nothing_is_lost_and_nothing_is_sent_beyond_the_window(
    protocol: str, seed: int, loss: float, duplication: float, jitter_s: float, control: str
) -> None:
    run = Run(seed, control, protocol)
    network = run.network
    network.loss = loss
    network.duplication = duplication
    network.delay_s = (0.01, 0.01 + jitter_s)
    for _ in range(3):
        run.send(20)
        network.run(0.05)
    network.loss = 0.0
    network.run_until_idle()
    assert len(network.data("bob")) == 60
    assert network.verdict().held
    assert run.excess == []
    network.run(5.0)
    assert run.path.in_flight == 0
    assert not run.path.losses.sent


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 30), lost=st.sets(st.integers(0, 40), max_size=15))
def test_a_loss_costs_no_timeout_of_a_message_and_few_datagrams(
    seed: int, lost: set[int]
) -> None:
    run = Run(seed)
    network = run.network
    count = 0

    def lose(flight: Flight) -> bool:
        nonlocal count
        is_data = flight.source == "ann" and len(flight.datagram) > 400
        count += is_data
        return is_data and count - 1 in lost

    network.should_lose = lose
    before = len(run.data_of("ann"))
    for index in range(60):
        network.send("ann", "bob", data=b"%05d" % index + bytes(400))
        network.run(0.002)
    network.run_until_idle()
    assert len(network.data("bob")) == 60
    large = [f for f in run.data_of("ann")[before:] if len(f.datagram) > 400]
    # Each lost datagram is transmitted again, some by a probe or a false alarm twice.
    assert len(large) <= 60 + len(lost) + 4
    assert network.engines["ann"].stats().probes <= 2


def test_one_lost_datagram_is_recovered_within_two_and_a_half_round_trips() -> None:
    run = Run(1)
    network = run.network
    arrivals: dict[int, float] = {}

    def note(name: str, message: Message) -> None:
        arrivals[int(message.data)] = network.now

    network.on_message = note
    sent_at: dict[int, float] = {}
    for index in range(20):
        if index == 5:
            network.should_lose = lambda flight: True
        sent_at[index] = network.now
        network.send("ann", "bob", data=b"%05d" % index)
        network.should_lose = lambda flight: False
        network.run(0.001)
    network.run(1.0)
    assert 0.02 < arrivals[5] - sent_at[5] <= 2.5 * 0.02
    assert network.engines["ann"].stats().retransmitted == 1


def test_a_silent_peer_is_probed_ever_less_often() -> None:
    run = Run(3)
    network = run.network
    run.send(200)
    network.should_lose = lambda flight: True
    before = len(run.data_of("ann"))
    network.run(8.0)
    # Timeouts double from about 50 ms to 4 s: eight of them, two datagrams each.
    assert len(run.data_of("ann")) - before <= 40
    network.should_lose = lambda flight: False
    network.run_until_idle()
    assert len(network.data("bob")) == 200


def test_messages_wait_for_room_and_acks_do_not() -> None:
    run = Run(4)
    network = run.network
    run.send(100)
    outbox = network.engines["ann"].sessions["bob"].outbox
    assert outbox.is_holding
    assert outbox.size > 80
    network.send("bob", "ann", data=b"00000")
    network.run(0.0101)
    assert network.data("ann") == [b"00000"]
    in_flight = run.path.in_flight
    assert in_flight > run.path.window - 600
    network.run(0.01)  # bob has the ack of its message, although ann still holds its own.
    assert network.engines["bob"].backlog == 0
    network.run_until_idle()
    assert len(network.data("bob")) == 100


def test_a_held_message_is_not_transmitted_beyond_a_window_that_has_shrunk() -> None:
    run = Run(5)
    network = run.network
    ann, bob = network.engines["ann"], network.engines["bob"]
    run.send(100)
    bob.flow.inbox = range(network.limits.inbox_messages_max)
    network.run(30.0)
    assert network.dropped("bob").get("inbox", 0) <= 1
    bob.flow.inbox = range(0)
    network.flush("bob")
    network.run(30.0)
    assert len(network.data("bob")) == 100
    assert ann.backlog == 0


def test_a_datagram_with_a_dropped_message_is_not_acknowledged() -> None:
    run = Run(9, protocol="fifo")
    network = run.network
    bob = network.engines["bob"]
    bob.flow.inbox = range(network.limits.inbox_messages_max)
    run.send(1)
    network.run(0.1)
    assert network.dropped("bob")["inbox"] > 0
    assert run.path.in_flight > 0
    bob.flow.inbox = range(0)
    network.run_until_idle()
    assert len(network.data("bob")) == 1
    assert run.path.in_flight == 0


def test_an_acknowledgement_of_a_packet_that_was_never_transmitted_is_refused() -> None:
    run = Run(6)
    network = run.network
    bob = network.engines["bob"]
    bob.sessions["ann"].path.arrived.record(1 << 40, False, network.now)
    window = run.path.window
    network.send("bob", "ann", data=b"00000")
    network.run(1.0)
    assert network.dropped("ann")["false_ack"] > 0
    assert run.path.window <= window


def test_an_idle_pair_without_keep_alives_transmits_nothing() -> None:
    run = Run(7, keep_alive_s=NEVER)
    network = run.network
    run.send(5)
    network.run(10.0)
    before = len(network.transmitted)
    network.run(3600.0)
    assert len(network.transmitted) == before
    for engine in network.engines.values():
        assert engine.next_timer() in (None, NEVER)


def test_permits_and_notes_that_were_lost_are_transmitted_again() -> None:
    for protocol in ("hybrid", "bounded"):
        network = Network(8, delay_s=(0.01, 0.01), protocol=protocol)
        network.start_group("ann", "bob", "cid")
        network.run(1.0)
        lost = 0

        def lose(flight: Flight, network: Network = network) -> bool:
            nonlocal lost
            is_next = flight.source == "ann" and network.random.random() < 0.5
            lost += is_next
            return is_next

        for index in range(30):
            network.should_lose = lose
            network.send("ann", "cid", data=b"x%d" % index)
            network.send("ann", "bob", data=b"y%d" % index)
            network.run(0.013)
            network.send("bob", "cid", data=b"z%d" % index)
        network.should_lose = lambda flight: False
        network.run(3.0)
        assert lost > 20
        assert len(network.data("cid")) == 60
        assert network.verdict().held
        pending = network.engines["bob"].process.pending
        assert pending is not None
        assert pending.missing_permits(10) == []
