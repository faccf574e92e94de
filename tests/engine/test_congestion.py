"""Congestion windows, pacing, and the path that joins them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.core.process import UNBOUNDED, ProcessId
from antecede.engine import Limits
from antecede.engine.acknowledgements import AckBlock
from antecede.engine.congestion import CongestionController, FixedWindow, NewReno
from antecede.engine.cubic import Cubic
from antecede.engine.pacer import Pacer
from antecede.engine.path import Path
from antecede.errors import ConfigError

SIZE = 1000
BOB = ProcessId(1)
CONTROLLERS = (NewReno, Cubic)

every_controller = pytest.mark.parametrize("make", CONTROLLERS)


def acknowledge_window(controller: CongestionController, now: float) -> None:
    """Acknowledge a window of datagrams, each transmitted a round trip ago."""
    for _ in range(controller.window // SIZE):
        controller.on_acked(SIZE, now - 0.1, 0.1, True, now)


@every_controller
def test_the_window_doubles_each_round_trip_until_a_loss(
    make: type[NewReno] | type[Cubic],
) -> None:
    controller = make(SIZE)
    first = controller.window
    assert first == 10 * SIZE
    acknowledge_window(controller, 1.0)
    assert controller.window == 2 * first
    controller.on_lost(0.95, 1.05)
    reduced = controller.window
    assert first <= reduced < 2 * first
    acknowledge_window(controller, 2.0)
    assert reduced < controller.window <= reduced + 2 * SIZE


@every_controller
def test_the_losses_of_one_round_trip_reduce_the_window_once(
    make: type[NewReno] | type[Cubic],
) -> None:
    controller = make(SIZE)
    controller.on_lost(0.9, 1.0)
    reduced = controller.window
    controller.on_lost(0.95, 1.01)  # It was transmitted before the reduction.
    assert controller.window == reduced
    controller.on_lost(1.02, 1.1)
    assert controller.window < reduced


@every_controller
def test_the_window_does_not_grow_while_it_is_not_used(
    make: type[NewReno] | type[Cubic],
) -> None:
    controller = make(SIZE)
    first = controller.window
    for index in range(100):
        controller.on_acked(SIZE, index, 0.1, False, index + 0.1)
    assert controller.window == first


@every_controller
def test_a_spurious_loss_is_undone_and_persistent_congestion_collapses_the_window(
    make: type[NewReno] | type[Cubic],
) -> None:
    controller = make(SIZE)
    acknowledge_window(controller, 1.0)
    before = controller.window
    controller.on_lost(1.0, 1.1)
    controller.on_spurious_loss()
    assert controller.window == before
    controller.on_spurious_loss()
    assert controller.window == before
    controller.on_idle()
    assert controller.window == 10 * SIZE
    controller.on_persistent_congestion()
    assert controller.window == 2 * SIZE


def test_cubic_grows_as_a_fair_newreno_up_to_the_window_before_the_last_reduction() -> None:
    controller = Cubic(SIZE)
    while controller.window < 100 * SIZE:
        acknowledge_window(controller, 1.0)
    controller.on_lost(1.0, 1.1)
    before = controller.window
    controller.on_lost(1.2, 1.3)  # Fast convergence: the peak is below that window.
    now = 2.0
    gains: list[tuple[int, int]] = []
    while controller.window < before + 2 * SIZE:
        now += 0.001  # So short a round trip that NewReno is faster than the cubic.
        window = controller.window
        for _ in range(10):
            controller.on_acked(window // 10, now, 0.001, True, now)
        gains.append((window, controller.window - window))
    slow = [gain for window, gain in gains if window < before - SIZE]
    fast = [gain for window, gain in gains if window > before]
    assert len(slow) > 20
    # RFC 9438, section 4.3: 3 * 0.3 / 1.7 datagrams in each round trip, then one.
    assert max(slow) < 0.55 * SIZE
    assert min(fast) > 0.9 * SIZE


def test_cubic_returns_to_the_window_of_the_last_loss_and_goes_beyond_it() -> None:
    controller = Cubic(SIZE)
    while controller.window < 200 * SIZE:
        acknowledge_window(controller, 1.0)
    peak = controller.window
    controller.on_lost(1.0, 1.0)
    assert controller.window == pytest.approx(0.7 * peak, rel=0.01)
    sizes = []
    for step in range(100):
        acknowledge_window(controller, 1.2 + 0.1 * step)
        sizes.append(controller.window)
    # K of RFC 9438: the cube root of the missing datagrams over C.
    to_peak_s = (0.3 * peak / SIZE / 0.4) ** (1 / 3)
    at_peak = sizes[int(to_peak_s / 0.1)]
    assert at_peak == pytest.approx(peak, rel=0.05)
    beyond_s = 0.1 * len(sizes) - to_peak_s
    assert sizes[-1] == pytest.approx(peak + 0.4 * beyond_s**3 * SIZE, rel=0.02)
    assert sizes == sorted(sizes)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 0.3)), max_size=200))
def test_no_sequence_of_events_makes_a_window_smaller_than_two_datagrams(
    events: list[tuple[bool, float]],
) -> None:
    for make in CONTROLLERS:
        controller: CongestionController = make(SIZE)
        now = 1.0
        for is_loss, wait_s in events:
            sent_at = now
            now += wait_s
            if is_loss:
                controller.on_lost(sent_at, now)
            else:
                controller.on_acked(SIZE, sent_at, 0.1, True, now)
            assert controller.window >= 2 * SIZE


def test_a_pacer_lets_a_burst_and_then_its_rate_pass() -> None:
    pacer = Pacer(SIZE)
    window, round_trip_s = 100 * SIZE, 0.1
    sent = 0
    now = 0.0
    while now <= 1.0:
        if pacer.tokens(window, round_trip_s, now) >= SIZE:
            pacer.spend(SIZE)
            sent += SIZE
        else:
            now = pacer.ready_at(now)
    rate = 1.25 * window / round_trip_s
    assert 0.98 * rate <= sent <= rate + 10 * SIZE + SIZE


# Paths.


def make_path(control: str = "newreno") -> Path:
    return Path(Limits(congestion_control=control, datagram_bytes_max=SIZE))


def acks(*ranges: tuple[int, int]) -> AckBlock:
    made = AckBlock(False, 0)
    made.largest = ranges[0][1]
    made.ranges = list(ranges)
    return made


def send_all(path: Path, first: int, now: float, most: int = 1000) -> int:
    """Transmit datagrams while the path has room; return the number of the next one."""
    while most > 0 and path.has_room(now):
        path.record_sent(first, BOB, [], SIZE, True, now)
        first += 1
        most -= 1
    return first


def test_a_path_holds_messages_back_beyond_its_window_but_not_control_frames() -> None:
    path = make_path()
    following = send_all(path, 1, 1.0)
    assert following == 11
    assert path.in_flight == 10 * SIZE == path.window
    path.record_sent(following, BOB, [], 50, False, 1.0)
    assert path.in_flight == 10 * SIZE
    path.receive_acks(acks((1, 2)), 1.1)
    assert path.in_flight == 8 * SIZE
    assert path.has_room(1.1)


def test_a_probe_may_exceed_the_window() -> None:
    path = make_path()
    following = send_all(path, 1, 1.0)
    assert not path.has_room(1.5)
    lost, _ = path.handle_timer(path.deadline)
    assert lost == []
    assert send_all(path, following, 1.5) == following + 2


def test_a_loss_on_a_path_reduces_its_window() -> None:
    path = make_path()
    send_all(path, 1, 1.0)
    before = path.window
    lost = path.receive_acks(acks((5, 10)), 1.1)
    assert [packet.number for packet in lost] == [1, 2, 3, 4]
    assert path.window == before // 2
    assert path.in_flight == 0
    path.receive_acks(acks((1, 10)), 1.2)  # They were only late.
    assert path.window == before


def test_a_late_packet_among_lost_ones_does_not_undo_the_reduction() -> None:
    path = make_path()
    send_all(path, 1, 1.0)
    before = path.window
    path.receive_acks(acks((5, 10)), 1.1)
    path.receive_acks(acks((4, 10)), 1.15)
    path.receive_acks(acks((3, 10), (1, 1)), 1.16)
    assert path.losses.spurious == 3
    assert path.window == before // 2  # Packet 2 was lost.
    path.receive_acks(acks((1, 10)), 1.2)
    assert path.window == before


def test_a_reduction_for_later_losses_is_another_one() -> None:
    path = make_path()
    send_all(path, 1, 1.0)
    before = path.window
    path.receive_acks(acks((5, 10)), 1.1)
    send_all(path, 11, 1.3)
    path.receive_acks(acks((14, 15)), 1.4)  # Packets 11 and 12 are lost.
    path.receive_acks(acks((11, 15)), 1.41)
    assert path.window == before // 2


def test_packets_of_a_former_path_do_not_change_the_window_of_the_new_one() -> None:
    path = make_path()
    path.learn_round_trip(0.1)
    send_all(path, 1, 1.0)
    path.move(1.05)
    initial = path.window
    path.receive_acks(acks((8, 10)), 1.1)  # The others are lost.
    assert path.in_flight == 0
    assert path.window == initial
    send_all(path, 11, 1.2)
    path.receive_acks(acks((14, 20)), 1.3)
    assert path.window == initial // 2


def test_losses_over_several_probe_timeouts_collapse_the_window() -> None:
    path = make_path()
    path.learn_round_trip(0.05)
    following = send_all(path, 1, 1.0, 2)
    path.record_sent(following, BOB, [], SIZE, True, 4.0)
    path.record_sent(following + 1, BOB, [], SIZE, True, 5.0)
    lost = path.receive_acks(acks((following + 1, following + 1)), 5.1)
    assert [packet.number for packet in lost] == [1, 2, 3]
    assert path.window == 2 * SIZE
    assert path.in_flight == 0
    assert path.losses.round_trip.shortest_s == pytest.approx(0.1)  # Not 0.05 any more.


def test_a_datagram_that_has_arrived_between_lost_ones_prevents_the_collapse() -> None:
    path = make_path()
    path.learn_round_trip(0.1)
    for number, sent_at in enumerate((0.5, 1.0, 3.0, 5.0, 5.0, 5.0, 5.0), start=1):
        path.record_sent(number, BOB, [], SIZE, True, sent_at)
    lost = path.receive_acks(acks((5, 7), (3, 3), (1, 1)), 5.1)
    assert [packet.number for packet in lost] == [2, 4]
    assert path.window == 5 * SIZE


def test_a_peer_that_acknowledges_nothing_takes_a_bounded_amount_of_memory() -> None:
    path = make_path()
    for number in range(1, 10_000):
        path.record_sent(number, BOB, [], 50, False, 0.001 * number)
    assert len(path.losses.sent) == 4096
    path.record_sent(10_000, BOB, [], SIZE, True, 10.0)
    assert 10_000 in path.losses.sent


def test_an_idle_path_begins_with_the_initial_window() -> None:
    path = make_path()
    now = 1.0
    following = 1
    for _ in range(6):
        after = send_all(path, following, now)
        while path.paced_at < now + 0.1:
            now = path.paced_at
            path.unblock()
            after = send_all(path, after, now)
        path.receive_acks(acks((1, after - 1)), now + 0.1)
        following = after
        now += 0.1
    assert path.window > 20 * SIZE
    path.record_sent(following, BOB, [], SIZE, True, now + 60.0)
    assert path.window == 10 * SIZE


def test_a_window_that_only_the_pacer_keeps_from_being_used_does_not_grow() -> None:
    path = make_path()
    path.learn_round_trip(0.1)
    now = 1.0
    following = 1
    for _ in range(6):
        after = send_all(path, following, now)
        while path.paced_at < now + 0.1:
            now = path.paced_at
            path.unblock()
            after = send_all(path, after, now)
        now += 0.1
        path.receive_acks(acks((1, after - 1)), now)
        following = after
    window = path.window
    assert window > 40 * SIZE
    for _ in range(20):  # Bursts that the pacer delays, of less than half of the window.
        path.unblock()
        after = send_all(path, following, now, 20)
        assert path.is_blocked
        assert after - following < 20
        now += 0.1
        path.receive_acks(acks((1, after - 1)), now)
        following = after
    assert path.window == window


def test_without_congestion_control_nothing_is_held_back() -> None:
    path = make_path("fixed")
    assert isinstance(path.controller, FixedWindow)
    assert send_all(path, 1, 1.0, 10_000) == 10_001
    assert path.window == UNBOUNDED


def test_an_unknown_congestion_control_is_refused() -> None:
    with pytest.raises(ConfigError, match="congestion_control must be one of cubic"):
        Limits(congestion_control="vegas")
