"""Marks of congestion: their validation, and the reaction to marks of queues."""

import pytest

from antecede.engine import Limits
from antecede.engine.acknowledgements import AckHistory, read_ack_block
from antecede.engine.congestion import NewReno
from antecede.engine.cubic import Cubic
from antecede.engine.datagram import DATA, HELLO, read_header
from antecede.engine.ecn import CE, ECT, NOT_ECT, RETRY_S, UNANSWERED_MAX
from antecede.engine.path import Path
from tests.engine.network import Flight, Network

SIZE = 1000


class Run:
    """Ann, who sends to bob on a path of 20 ms."""

    def __init__(self, seed: int = 1, limits: Limits | None = None) -> None:
        self.network = Network(seed, delay_s=(0.01, 0.01), limits=limits)
        self.network.start_group("ann", "bob")
        self.sent = 0

    @property
    def path(self) -> Path:
        return self.network.engines["ann"].sessions["bob"].path

    def send(self, messages: int) -> None:
        """Send messages of 1,000 bytes, and wait until they are acked."""
        for _ in range(messages):
            self.network.send("ann", "bob", data=b"%05d" % self.sent + bytes(SIZE))
            self.sent += 1
        self.network.run_until_idle()
        received = self.network.data("bob")
        assert [int(each[:5]) for each in received] == list(range(self.sent))

    def marks(self) -> list[int]:
        """Return the marks of the DATA datagrams that ann has transmitted."""
        return [flight.mark for flight in self.data()]

    def data(self) -> list[Flight]:
        return [
            flight
            for flight in self.network.transmitted
            if flight.source == "ann" and read_header(flight.datagram)[0] == DATA
        ]


def test_the_datagrams_of_a_session_are_marked_and_the_first_handshake_is_not() -> None:
    run = Run()
    run.send(50)
    hellos = [
        flight.mark
        for flight in run.network.transmitted
        if read_header(flight.datagram)[0] == HELLO
    ]
    assert set(hellos) == {NOT_ECT}
    assert set(run.marks()) == {ECT}
    assert run.path.ecn.is_validated
    assert run.network.engines["ann"].stats().marks == 0


@pytest.mark.parametrize("control", ["cubic", "newreno"])
def test_a_mark_reduces_the_window_once_in_a_round_trip_and_costs_no_datagram(
    control: str,
) -> None:
    run = Run(limits=Limits(congestion_control=control))
    run.send(40)
    before = run.path.window
    count = len(run.data())
    run.network.change_mark = lambda flight: CE if flight.mark == ECT else flight.mark
    run.send(8)  # All in one round trip.
    factor = 0.5 if control == "newreno" else 0.7
    assert run.path.window == pytest.approx(factor * before, rel=0.01)
    stats = run.network.engines["ann"].stats()
    assert stats.marks > 0
    assert stats.lost == stats.retransmitted == 0
    assert len(run.data()) <= count + 10


def test_a_late_datagram_does_not_undo_the_reduction_for_a_mark() -> None:
    for make in (NewReno, Cubic):
        controller = make(SIZE)
        controller.on_lost(0.9, 1.0)
        controller.on_spurious_loss()
        before = controller.window
        controller.on_marked(1.9, 2.0)
        reduced = controller.window
        assert reduced < before
        controller.on_spurious_loss()
        assert controller.window == reduced


def test_marks_that_the_path_clears_end_the_marking() -> None:
    run = Run()
    run.network.change_mark = lambda flight: NOT_ECT
    run.send(50)
    assert not run.path.ecn.is_marking
    run.send(50)
    assert set(run.marks()[-40:]) == {NOT_ECT}
    # The path is validated again later.
    run.network.change_mark = lambda flight: flight.mark
    run.network.run(RETRY_S + 20.0)  # A keep-alive shows that the path carries marks.
    run.send(50)
    assert run.path.ecn.is_validated
    assert set(run.marks()[-40:]) == {ECT}


def test_marks_that_the_path_clears_later_end_the_marking() -> None:
    run = Run()
    run.send(50)
    assert run.path.ecn.is_validated
    run.network.change_mark = lambda flight: NOT_ECT
    run.send(50)
    assert not run.path.ecn.is_marking
    assert run.path.ecn.is_enabled


def test_a_path_that_drops_marked_datagrams_gets_others() -> None:
    run = Run()
    run.network.should_lose = lambda flight: flight.mark != NOT_ECT
    run.send(50)
    assert not run.path.ecn.is_marking
    assert set(run.marks()[-40:]) == {NOT_ECT}
    assert run.network.engines["ann"].stats().probes >= UNANSWERED_MAX


def test_a_validated_path_is_marked_again_after_an_interruption() -> None:
    run = Run()
    run.send(50)
    network = run.network
    network.should_lose = lambda flight: True
    network.send("ann", "bob", data=b"%05d" % run.sent)
    run.sent += 1
    network.run(2.0)
    assert run.path.losses.probes >= UNANSWERED_MAX
    assert not run.path.ecn.is_marking
    network.should_lose = lambda flight: False
    run.send(20)
    assert run.path.ecn.is_validated
    assert run.marks()[-1] == ECT


@pytest.mark.parametrize(
    "limits", [Limits(ecn=False), Limits(congestion_control="fixed")], ids=["off", "fixed"]
)
def test_a_node_that_does_not_react_marks_nothing(limits: Limits) -> None:
    run = Run(limits=limits)
    run.send(50)
    assert set(run.marks()) == {NOT_ECT}
    # A peer that marks gets its counts all the same.
    run.network.start("bob", members=["ann", "bob"], limits=Limits())
    run.network.add_peers("bob", "ann")
    for index in range(20):
        run.network.send("bob", "ann", data=b"%d" % index)
    run.network.run_until_idle()
    assert run.network.engines["bob"].sessions["ann"].path.ecn.is_validated


def test_a_peer_that_restarts_counts_anew() -> None:
    run = Run()
    run.send(50)
    network = run.network
    network.start("bob", members=["ann", "bob"])
    network.add_peers("bob", "ann")
    network.run(1.0)
    network.received["bob"].clear()
    run.sent = 0
    run.send(50)
    assert run.path.ecn.is_validated
    assert set(run.marks()) == {ECT}


def test_the_address_of_a_peer_that_is_gone_is_not_marked() -> None:
    run = Run()
    run.send(5)
    ann = run.network.engines["ann"]
    assert ann.paths.marked == {"bob"}
    ann.remove_peer("bob", run.network.now)
    run.network.run(1000.0)
    assert ann.paths.marked == set()


def test_an_ack_block_has_the_counts_of_marks_after_its_ranges() -> None:
    for ranges in (1, 2, 5):
        history = AckHistory()
        for number in range(ranges):
            history.record(3 * number + 1, True, 1.0)
        without = history.encode(1.0, False, 32)
        for _ in range(300):
            history.record_mark(False)
        history.record_mark(True)
        encoded = history.encode(1.0, True, 32)
        assert len(encoded) == len(without) + 8
        block = read_ack_block(encoded + b"frames", 0)
        assert block is not None
        assert (block.ect, block.ce, block.asks) == (300, 1, True)
        assert block.end == len(encoded)
        assert len(block.ranges) == ranges
        for size in range(len(encoded)):
            assert read_ack_block(encoded[:size], 0) is None
