"""The simulated links: bursts of losses, and a bottleneck with a queue."""

from itertools import pairwise

import pytest

from antecede.net.faults import FaultInjector, Faults

LINK = ("ann", "bob")


def outcomes(injector: FaultInjector, datagrams: int) -> list[bool]:
    """Return for each datagram whether it has arrived."""
    return [bool(injector.delays(*LINK, 100, float(i))) for i in range(datagrams)]


def test_losses_come_in_bursts_of_the_mean_length() -> None:
    injector = FaultInjector(Faults(loss=0.01, burst=8.0), seed=1)
    arrived = outcomes(injector, 50_000)
    bursts = sum(1 for before, now in pairwise(arrived) if before and not now)
    lost = arrived.count(False)
    assert lost / bursts == pytest.approx(8.0, rel=0.15)
    assert bursts / arrived.count(True) == pytest.approx(0.01, rel=0.15)


def test_a_queue_drops_what_would_wait_too_long() -> None:
    faults = Faults(delay_s=0.01, bytes_per_s=1000.0, queue_s=0.5)
    injector = FaultInjector(faults, seed=1)
    delays = [injector.delays(*LINK, 100, 0.0) for _ in range(10)]
    # Each datagram takes 0.1 s; the seventh would wait 0.6 s for the link.
    assert [round(each[0], 6) for each in delays[:6]] == [
        0.11,
        0.21,
        0.31,
        0.41,
        0.51,
        0.61,
    ]
    assert delays[6:] == [[]] * 4
    assert injector.counts["overflowed"] == 4
    assert injector.delays(*LINK, 100, 0.25) != []  # The queue has drained meanwhile.


def test_a_queue_marks_what_would_wait_too_long() -> None:
    faults = Faults(bytes_per_s=1000.0, queue_s=0.5, mark_s=0.25)
    injector = FaultInjector(faults, seed=1)
    marked = []
    for _ in range(8):
        marked.append(injector.marks(*LINK, 0.0))
        injector.delays(*LINK, 100, 0.0)
    assert marked == [False] * 3 + [True] * 5  # The fourth waits 0.3 s.
    assert not injector.marks("bob", "ann", 0.0)
    assert injector.counts["marked"] == 5
    injector.faults = Faults(bytes_per_s=1000.0)
    assert not injector.marks(*LINK, 0.0)


def test_links_with_the_same_bottleneck_share_its_bandwidth() -> None:
    injector = FaultInjector(Faults(bytes_per_s=1000.0, bottleneck="link"), seed=1)
    assert injector.delays("ann", "bob", 100, 0.0) == pytest.approx([0.1])
    assert injector.delays("cid", "dan", 100, 0.0) == pytest.approx([0.2])
    injector.faults_of["cid", "dan"] = Faults(bytes_per_s=1000.0)
    assert injector.delays("cid", "dan", 100, 0.0) == pytest.approx([0.1])
