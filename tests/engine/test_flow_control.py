"""Flow control: the room in an inbox, and the windows of peers."""

from collections import deque
from random import Random

import pytest

from antecede.core.process import ProcessId
from antecede.engine import Limits
from antecede.engine.datagram import HELLO, WELCOME, read_header
from antecede.engine.flow_control import UNLIMITED, FlowControl
from antecede.engine.peer_session import PeerSession
from tests.engine.network import Flight, Network, random_traffic


def peer(number: int) -> PeerSession:
    session = PeerSession(f"peer{number}", number, ProcessId(number), "")
    session.handshake.incarnation = 1
    return session


class Sender:
    """An honest sender on a FIFO path, which learns windows and acks with a delay."""

    def __init__(self, session: PeerSession) -> None:
        self.session = session
        self.window = 0
        self.sent = 0
        self.acked = 0
        self.delivered = 0
        self.timestamp = -1
        self.to_sender: deque[tuple[int, int, int]] = deque()
        self.to_receiver: deque[int] = deque()
        """The timestamp echo of each message in flight."""

    def learn(self) -> None:
        if self.to_sender:
            self.window, self.acked, self.timestamp = self.to_sender.popleft()

    def send(self) -> None:
        if self.sent - self.acked < self.window:
            self.sent += 1
            self.to_receiver.append(self.timestamp)


@pytest.mark.parametrize("seed", range(20))
def test_honest_senders_never_exceed_the_capacity_by_more_than_one_each(seed: int) -> None:
    random = Random(seed)
    capacity = random.choice([1, 2, 5, 20, 100])
    flow = FlowControl(capacity, is_enabled=True)
    senders: list[Sender] = []
    timestamp = 0
    total = 0
    for step in range(20_000):
        timestamp += random.randrange(2)
        if step % 500 == 0 and len(senders) < 12:
            senders.append(Sender(peer(step)))
        sender = random.choice(senders[-4:] if step % 3 else senders)
        choice = random.randrange(8)
        if choice < 2:
            window = flow.window(sender.session, timestamp)
            if random.random() < 0.8:  # Else the datagram is lost.
                sender.to_sender.append((window, sender.delivered, timestamp))
        elif choice < 4:
            sender.learn()
        elif choice < 6:
            sender.send()
        elif sender.to_receiver:
            flow.record_echo(sender.session, sender.to_receiver.popleft())
            sender.delivered += 1
            flow.record_deliveries(sender.session, 1)
            flow.inbox = range(flow.polled + 1)
            total += 1
        if random.random() < 0.3 and step % 4000 < 2000 and flow.polled:
            flow.inbox = range(flow.polled - 1)
        assert flow.polled <= capacity + len(senders)
    assert total > 100


def test_the_windows_of_all_peers_take_half_of_the_inbox() -> None:
    flow = FlowControl(100, is_enabled=True)
    first, second = peer(1), peer(2)
    assert flow.window(first, 1) == 50
    assert flow.window(second, 2) == 25
    assert flow.window(first, 2) == 25


def test_room_that_was_taken_back_is_free_after_the_echo() -> None:
    flow = FlowControl(100, is_enabled=True)
    first, others = peer(1), [peer(number) for number in range(2, 6)]
    assert flow.window(first, 10) == 50
    flow.inbox = range(40)
    assert [flow.window(other, 10) for other in others] == [10, 1, 1, 1]
    assert flow.overdrafts() == [first]
    assert flow.window(first, 10) == 50  # An echo of 10 would not tell which window.
    assert flow.window(first, 11) == 10
    assert flow.overdrafts() == []
    assert flow.updates() == []
    flow.record_echo(first, 10)
    assert first.credit.reserved == 50
    flow.record_echo(first, 11)
    assert first.credit.reserved == 10
    assert flow.updates() == others[1:]
    assert [flow.window(other, 12) for other in others] == [10] * 4


def test_peers_are_told_of_room_only_if_that_is_worth_a_datagram() -> None:
    flow = FlowControl(80, is_enabled=True)
    first, second = peer(1), peer(2)
    flow.window(first, 1)
    flow.window(second, 1)
    flow.inbox = range(80)
    for session in (first, second):
        while session.credit.reserved:
            flow.record_deliveries(session, 1)
        assert flow.window(session, 2) == 0
    assert flow.is_limiting
    flow.inbox = range(71)
    assert flow.updates() == []
    flow.inbox = range(70)
    assert flow.has_updates
    assert flow.updates() == [first]
    assert flow.window(first, 3) == 10
    flow.inbox = range(60)
    assert flow.updates() == [second]  # The first one has a useful window already.


def test_the_room_of_a_peer_that_leaves_is_free() -> None:
    flow = FlowControl(10, is_enabled=True)
    first, second = peer(1), peer(2)
    assert flow.window(first, 1) == 5
    flow.free(first)
    assert first.credit.reserved == 0
    assert flow.window(second, 1) == 5


def test_a_node_without_flow_control_grants_everything() -> None:
    flow = FlowControl(10, is_enabled=False)
    assert flow.window(peer(1), 1) == UNLIMITED
    flow.inbox = range(10)
    assert flow.refuses(peer(1))
    assert flow.drops_duplicates


def test_a_peer_that_ignores_the_window_fills_no_more_than_one_datagram() -> None:
    network = Network(limits=Limits(inbox_messages_max=4))
    ann, bob = network.start_group("ann", "bob")
    network.run(1.0)
    windows = ann.process.windows
    assert windows is not None
    for index in range(20):
        bob.flow.inbox = network.received["bob"]
        windows.set_window(ann.sessions["bob"].id, 1000, network.now)
        network.send("ann", "bob", data=b"%d" % index)
        network.run(0.1)
    assert len(network.data("bob")) == 4
    assert network.dropped("bob")["inbox"] > 0
    bob.flow.inbox = range(0)
    network.run(100.0)
    assert network.data("bob") == [b"%d" % index for index in range(20)]


def test_duplicates_are_acked_while_the_inbox_is_full() -> None:
    network = Network(limits=Limits(inbox_messages_max=1))
    ann, bob = network.start_group("ann", "bob")
    network.run(1.0)
    network.should_lose = lambda flight: flight.source == "bob"
    network.send("ann", "bob", data=b"x")
    network.run(0.01)
    bob.flow.inbox = range(1)
    network.should_lose = lambda flight: False
    network.run(5.0)
    assert ann.backlog == 0
    assert network.dropped("bob") == {}


def test_a_sender_asks_for_a_window_less_and_less_often() -> None:
    network = Network(limits=Limits(inbox_messages_max=1))
    _, bob = network.start_group("ann", "bob")
    network.run(1.0)
    bob.flow.inbox = range(1)
    for _ in range(5):
        network.send("ann", "bob", data=b"x")
    network.run(10.0)
    begun = network.now
    network.run(1000.0)
    hellos = [
        flight
        for flight in network.transmitted
        if flight.source == "ann"
        and flight.transmitted_at > begun
        and read_header(flight.datagram)[0] == HELLO
    ]
    assert 200 <= len(hellos) <= 260  # One in 16 times hello_timeout_s.
    assert len(network.data("bob")) == 1
    bob.flow.inbox = range(0)
    network.run(10.0)
    assert len(network.data("bob")) == 5


def test_a_sender_asks_again_after_an_answer_that_was_overtaken() -> None:
    """The answer to its HELLO arrives after a later datagram, and tells no window then."""
    network = Network(limits=Limits(inbox_messages_max=1))
    _, bob = network.start_group("ann", "bob")
    network.run(1.0)
    bob.flow.inbox = range(1)
    for _ in range(2):
        network.send("ann", "bob", data=b"x")
    welcomes: list[Flight] = []
    while not welcomes:
        network.run(0.01)
        welcomes = network.intercept(
            lambda flight: read_header(flight.datagram)[0] == WELCOME
        )
    network.send("bob", "ann", data=b"later")
    network.should_lose = lambda flight: flight.source == "bob"
    network.run(0.05)
    for welcome in welcomes:
        network.arrive(welcome)
    bob.flow.inbox = range(0)
    network.run(1.0)  # Bob's update of the window is lost.
    network.should_lose = lambda _: False
    network.run(30.0)
    assert network.data("bob") == [b"x", b"x"]


@pytest.mark.parametrize("seed", range(5))
def test_random_traffic_through_small_inboxes_keeps_causal_order(seed: int) -> None:
    limits = Limits(inbox_messages_max=2, datagram_bytes_max=300)
    network = Network(seed, loss=0.1, duplication=0.1, limits=limits)
    network.start_group("ann", "bob", "cid", "dan")
    random_traffic(network, messages=60)
    assert network.verdict().held
    for name in network.engines:
        assert "inbox" not in network.dropped(name)
