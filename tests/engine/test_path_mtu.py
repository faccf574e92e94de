"""Path-MTU discovery: the search, and what it means for the datagrams of a path."""

from hypothesis import given, settings
from hypothesis import strategies as st

from antecede.core.process import NEVER
from antecede.engine import Limits
from antecede.engine.datagram import PROBE, read_header
from antecede.engine.events import PeerSilent
from antecede.engine.path_events import DatagramsTooLarge
from antecede.engine.path_mtu import PROBES_MAX, RAISE_S, RESOLUTION_BYTES, PathMtu
from tests.engine.network import Flight, Network

BASE = 1232


def search(mtu: PathMtu, carried: int) -> int:
    """Answer the probes of a path that carries so many bytes; return their number."""
    probes = 0
    mtu.start(0.0)
    while mtu.is_due:
        probes += 1
        mtu.probe_transmitted(probes)
        if mtu.candidate <= carried:
            mtu.probe_acknowledged(1.0)
        else:
            mtu.probe_lost(1.0)
    return probes


@given(carried=st.integers(BASE, 9000), maximum=st.integers(BASE, 9000))
def test_the_search_finds_the_size_with_few_probes(carried: int, maximum: int) -> None:
    mtu = PathMtu(BASE, maximum)
    probes = search(mtu, carried)
    largest = min(carried, maximum)
    assert largest - RESOLUTION_BYTES <= mtu.size <= largest
    # At most 13 sizes: the maximum, four common ones, and a binary search in 8,000 bytes.
    assert probes <= 14 * PROBES_MAX
    assert (mtu.raise_at < NEVER) == (carried < maximum)


def test_the_sizes_of_ethernet_are_found_exactly() -> None:
    for carried in (1452, 1472, 8952, 8972):
        mtu = PathMtu(BASE, 65_507)
        search(mtu, carried)
        assert mtu.size == carried


def test_the_first_probe_of_an_ethernet_path_suffices() -> None:
    mtu = PathMtu(BASE, 1472)
    assert search(mtu, 1500) == 1
    assert mtu.size == 1472
    assert mtu.raise_at == NEVER


def test_a_lost_probe_is_repeated_before_its_size_has_failed() -> None:
    mtu = PathMtu(BASE, 1472)
    mtu.start(0.0)
    for number in range(1, PROBES_MAX):
        mtu.probe_transmitted(number)
        mtu.probe_lost(0.0)
        assert mtu.candidate == 1472
        assert mtu.is_due
    mtu.probe_transmitted(9)
    mtu.probe_acknowledged(0.0)
    assert mtu.size == 1472


def test_three_large_datagrams_lost_after_the_last_that_arrived_are_a_black_hole() -> None:
    mtu = PathMtu(BASE, 1472)
    search(mtu, 1472)
    mtu.datagram_acknowledged(1472, 5.0)
    for _ in range(5):
        mtu.datagram_lost(1472, 4.0, 6.0)  # Before one that has arrived: congestion.
    assert mtu.size == 1472
    for _ in range(2):
        mtu.datagram_lost(1472, 5.5, 6.0)
    assert mtu.size == 1472
    mtu.datagram_lost(1472, 5.6, 6.0)
    assert mtu.size == BASE
    assert mtu.is_due
    assert mtu.candidate < 1472


def test_smaller_datagrams_that_arrive_do_not_hide_a_black_hole() -> None:
    mtu = PathMtu(BASE, 1472)
    search(mtu, 1472)
    mtu.datagram_acknowledged(1472, 5.0)
    for sent_at in (6.0, 7.0, 8.0):
        assert mtu.size == 1472
        mtu.datagram_acknowledged(1300, sent_at)
        mtu.datagram_lost(1472, sent_at, 9.0)
    assert mtu.size == BASE


@given(
    st.lists(st.tuples(st.booleans(), st.integers(BASE + 1, 1472)), max_size=40),
)
def test_a_black_hole_is_three_losses_and_nothing_of_their_size_after_them(
    datagrams: list[tuple[bool, int]],
) -> None:
    mtu = PathMtu(BASE, 1472)
    search(mtu, 1472)
    lost: list[int] = []
    for sent_at, (has_arrived, size) in enumerate(datagrams):
        if has_arrived:
            mtu.datagram_acknowledged(size, float(sent_at))
            if lost and size >= min(lost):
                lost = []
        else:
            mtu.datagram_lost(size, float(sent_at), float(sent_at))
            lost.append(size)
        assert (mtu.size == BASE) == (len(lost) == 3)
        if len(lost) == 3:
            break


def test_the_socket_refuses_a_size_once() -> None:
    mtu = PathMtu(BASE, 65_507)
    mtu.start(0.0)
    mtu.probe_transmitted(1)
    assert mtu.refused(65_507, 0.0)
    assert mtu.candidate == 8972
    assert not mtu.refused(BASE, 0.0)
    assert not mtu.refused(20_000, 0.0)  # Of a datagram from before.


def test_no_search_if_the_maximum_is_the_base() -> None:
    mtu = PathMtu(16_384, 16_384)
    assert not mtu.is_waiting


# Engines.


class Carrier:
    """A pair of engines on a path that carries datagrams up to a size."""

    def __init__(self, carried: int, seed: int = 0, maximum: int = 8972) -> None:
        self.carried = carried
        limits = Limits(datagram_bytes_max=maximum)
        self.network = Network(seed, delay_s=(0.01, 0.01), limits=limits)
        self.network.should_lose = lambda flight: len(flight.datagram) > self.carried
        self.network.start_group("ann", "bob")
        self.network.run(1.0)
        self.path = self.network.engines["ann"].sessions["bob"].path
        self.sent = 0

    def send(self, messages: int, size: int = 200) -> None:
        """Let ann send at once."""
        ann = self.network.engines["ann"]
        for _ in range(messages):
            ann.send(["bob"], b"%06d" % self.sent + bytes(size), self.network.now)
            self.sent += 1
        self.network.flush("ann")

    def check_delivered(self) -> None:
        """Check that all messages are delivered, in order, and causally."""
        numbers = [int(data[:6]) for data in self.network.data("bob")]
        assert numbers == list(range(self.sent))
        assert self.network.verdict().held

    def probes(self) -> list[Flight]:
        """Return the probes of ann."""
        return [
            flight
            for flight in self.network.transmitted
            if flight.source == "ann" and read_header(flight.datagram)[0] == PROBE
        ]


def test_messages_share_larger_datagrams_after_the_search() -> None:
    carrier = Carrier(9000)
    carrier.send(50)
    carrier.network.run(1.0)
    assert carrier.path.datagram_bytes == 8972
    assert len(carrier.probes()) == 1
    before = len(carrier.network.transmitted)
    carrier.send(80)
    carrier.network.run_until_idle()
    outward = [
        f.datagram for f in carrier.network.transmitted[before:] if f.source == "ann"
    ]
    assert len(outward) <= 4  # 80 times 206 bytes, which take 16 of the base size.
    carrier.check_delivered()


def test_few_messages_cause_no_probe() -> None:
    carrier = Carrier(9000)
    for _ in range(20):
        carrier.send(1)
        carrier.network.run(0.1)
    assert carrier.probes() == []


def test_lost_probes_do_not_reduce_the_congestion_window() -> None:
    carrier = Carrier(1300)
    window = carrier.path.window
    for _ in range(40):
        carrier.send(8)
        carrier.network.run(0.1)
    assert 1300 - RESOLUTION_BYTES <= carrier.path.datagram_bytes <= 1300
    assert carrier.path.lost_packets == 0
    assert carrier.path.window >= window
    assert len(carrier.probes()) <= 14 * PROBES_MAX


def test_a_probe_to_a_peer_that_did_not_answer_proves_nothing() -> None:
    carrier = Carrier(BASE, maximum=1472)
    network, path = carrier.network, carrier.path
    network.should_lose = lambda flight: len(flight.datagram) > carrier.carried
    carrier.send(50)
    while not path.mtu.probe_number or path.in_flight:
        network.run(0.002)
    carrier.carried = 0  # The peer is out of reach until nobody waits for the probe.
    while path.losses.sent:
        network.run(0.1)
    carrier.carried = BASE
    carrier.send(1)
    network.run(0.5)
    assert path.datagram_bytes == BASE
    carrier.check_delivered()


def test_a_path_that_shrinks_delivers_everything_and_is_searched_again() -> None:
    carrier = Carrier(8972)
    for _ in range(10):
        carrier.send(60)
        carrier.network.run(0.2)
    assert carrier.path.datagram_bytes == 8972
    carrier.carried = 1400
    for _ in range(30):
        carrier.send(60)
        carrier.network.run(0.2)
    carrier.network.run_until_idle(60.0)
    carrier.check_delivered()
    assert 1400 - RESOLUTION_BYTES <= carrier.path.datagram_bytes <= 1400


def test_a_large_message_crosses_a_path_that_shrinks_meanwhile() -> None:
    carrier = Carrier(8972)
    carrier.send(60)
    carrier.network.run(0.5)
    assert carrier.path.datagram_bytes == 8972
    carrier.send(1, 200_000)
    carrier.network.run(0.015)
    carrier.carried = BASE
    carrier.network.run_until_idle(60.0)
    carrier.check_delivered()
    assert carrier.path.datagram_bytes == BASE


def test_a_path_that_grows_is_used_after_the_raise_timer() -> None:
    carrier = Carrier(1300)
    for _ in range(30):
        carrier.send(10)
        carrier.network.run(0.2)
    assert carrier.path.datagram_bytes <= 1300
    carrier.carried = 8972
    carrier.send(10)
    carrier.network.run(RAISE_S)
    for _ in range(5):
        carrier.send(10)
        carrier.network.run(0.2)
    assert carrier.path.datagram_bytes == 8972


def test_a_size_that_the_socket_refuses_is_not_used_again() -> None:
    carrier = Carrier(9000)
    carrier.send(50)
    carrier.network.run(1.0)
    ann = carrier.network.engines["ann"]
    ann.paths.refuse_size("bob", 8972, carrier.network.now)
    assert carrier.path.datagram_bytes == BASE
    before = len(carrier.network.transmitted)
    carrier.send(50)
    carrier.network.run(1.0)
    sizes = [
        len(f.datagram) for f in carrier.network.transmitted[before:] if f.source == "ann"
    ]
    assert max(sizes) < 8972
    carrier.check_delivered()


def test_a_refused_datagram_of_the_base_size_is_reported() -> None:
    carrier = Carrier(9000)
    ann = carrier.network.engines["ann"]
    ann.watch.poll_events()
    ann.paths.refuse_size("bob", BASE + 1, carrier.network.now)
    assert ann.watch.poll_events() == []
    for _ in range(3):
        ann.paths.refuse_size("bob", BASE, carrier.network.now)
    (event,) = ann.watch.poll_events()
    assert event == DatagramsTooLarge(peer="bob", address="bob", size=BASE)
    assert "datagrams of 1232 bytes to bob" in str(event)


def test_the_silence_of_a_peer_is_explained_by_datagrams_that_do_not_leave() -> None:
    """A path that carries less than the base size refuses all datagrams with a message."""
    carrier = Carrier(9000)
    network = carrier.network
    ann = network.engines["ann"]
    ann.paths.refuse_size("bob", BASE, network.now)
    ann.watch.poll_events()
    network.stop("bob")
    carrier.send(1)
    network.run(6.0)
    (silent,) = [each for each in ann.watch.poll_events() if isinstance(each, PeerSilent)]
    assert silent.fault == DatagramsTooLarge(peer="bob", address="bob", size=BASE)
    assert str(silent).endswith(f"s: {silent.fault}")
    assert "firewall" not in str(silent)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    loss=st.floats(0.0, 0.3),
    sizes=st.lists(st.sampled_from([1232, 1300, 1452, 4000, 8972]), min_size=1, max_size=4),
)
def test_nothing_is_lost_while_the_path_changes(
    seed: int, loss: float, sizes: list[int]
) -> None:
    carrier = Carrier(9000, seed)
    carrier.network.loss = loss
    for carried in sizes:
        carrier.carried = carried
        for _ in range(5):
            carrier.send(20)
            carrier.network.run(0.1)
    carrier.network.loss = 0.0
    carrier.network.run_until_idle(120.0)
    carrier.check_delivered()
    data = [f for f in carrier.network.transmitted if f.source == "ann"]
    assert len(data) <= 40 * len(sizes) + 300
