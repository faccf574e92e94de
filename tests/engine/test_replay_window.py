"""The replay window agrees with a set of the packet numbers that were accepted."""

from random import Random

from antecede.engine.replay_window import REPLAY_WINDOW, ReplayWindow


def test_late_packets_are_accepted_within_the_replay_window() -> None:
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
    random = Random(9)
    for _ in range(5000):
        ahead = 2 * REPLAY_WINDOW if random.random() < 0.02 else 5
        packet = max(seen) + random.randrange(-2 * REPLAY_WINDOW, ahead)
        expected = packet not in seen and packet > max(seen) - REPLAY_WINDOW
        if packet > 6:
            assert window.is_new(packet) == expected
            if expected:
                window.record(packet)
                seen.add(packet)
