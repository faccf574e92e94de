"""Statistics, metrics and blocked messages of a node."""

import pytest

from antecede.engine.limits import Limits
from antecede.net.faults import Faults
from antecede.net.statistics import find_blocked_messages, make_stats
from tests.engine.network import Network
from tests.net.harness import open_network, open_nodes, run, wait_until
from tests.net.limits import quick_limits


@pytest.mark.long
def test_blocked_messages_name_their_stage_and_the_process_they_wait_for() -> None:
    """While a cannot reach c, b's message to c waits for a's permit under ``hybrid``."""

    async def main() -> None:
        network = open_network(
            Faults(), "a", "b", "c", limits=quick_limits(), protocol="hybrid"
        )
        async with network as (proxy, (a, b, c)):
            proxy.injector.partition("a", "c")
            await a.send("c", b"1")
            await a.send("b", b"2")
            await b.receive()
            await b.send("c", b"3")
            (in_flight,) = a.blocked_messages("a", 1)
            assert (in_flight.stage, in_flight.waiting_for) == ("in_flight", ("c",))
            assert in_flight.explanation == "a:1 to c is in flight: c has not acked it"
            (queued,) = b.blocked_messages("b")
            assert (queued.stage, queued.waiting_for) == ("queued", ("a",))
            assert queued.explanation == (
                "b:1 to c is queued: the permits for a:2 are missing"
            )
            (delivered,) = b.blocked_messages("a", 2)
            assert (delivered.stage, delivered.waiting_for) == ("delivered", ("a",))
            assert a.blocked_messages("a", 7) == []
            await wait_until(lambda: a.stats().in_flight == 1)
            stats = b.stats()
            assert (stats.queued, stats.waiting_for) == (1, {"a": 2})
            proxy.injector.heal()
            assert [(await c.receive()).data for _ in range(2)] == [b"1", b"3"]
            await b.flush()
            assert b.stats().queued == 0

    run(main)


def test_metrics_are_openmetrics_text() -> None:
    async def main() -> None:
        async with open_network(Faults(), "a", 'b"', limits=quick_limits()) as (
            _,
            (a, b),
        ):
            await a.send(b.name, b"1")
            await a.flush()
            peer = a.stats().peers[b.name]
            assert (peer.state, peer.handshake_done, peer.backlog) == ("active", True, 0)
            lines = a.metrics().splitlines()
            assert "# TYPE antecede_sent counter" in lines
            assert 'antecede_sent_total{node="a",room=""} 1.0' in lines
            assert 'antecede_queued{node="a",room=""} 0.0' in lines
            assert 'antecede_backlog{node="a",peer="b\\"",room=""} 0.0' in lines
            assert lines[-1] == "# EOF"
            assert b.stats().inbox == 1

    run(main)


def test_datagrams_that_the_socket_has_lost_are_counted_by_reason() -> None:
    async def main() -> None:
        async with open_nodes("a", "b", limits=quick_limits()) as (a, b):
            assert a.stats().transmit_lost == {"queue_full": 0, "too_large": 0, "error": 0}
            a._runtime.opened_socket().transmit([(b.address, bytes(70_000))] * 2)
            a._runtime.opened_socket().transmit([(("127.0.0.1", 0), b"")])
            assert a.stats().transmit_lost == {"queue_full": 0, "too_large": 2, "error": 1}
            lines = a.metrics().splitlines()
            assert "# TYPE antecede_transmit_lost counter" in lines
            assert (
                'antecede_transmit_lost_total{node="a",reason="too_large",room=""} 2.0'
                in lines
            )
            assert (
                'antecede_transmit_lost_total{node="a",reason="queue_full",room=""} 0.0'
                in lines
            )
        assert a.stats().transmit_lost["error"] == 1  # The counters outlive the socket.

    run(main)


@pytest.mark.long
def test_protocols_without_permits_report_no_blocked_messages() -> None:
    async def main() -> None:
        network = open_network(Faults(), "a", "b", limits=quick_limits(), protocol="fifo")
        async with network as (proxy, (a, b)):
            proxy.injector.partition("a", "b")
            await a.send("b", b"1")
            assert a.blocked_messages() == []
            proxy.injector.heal()
            assert (await b.receive()).data == b"1"

    run(main)


def test_counters_are_exact_above_the_limit_of_the_list() -> None:
    """Cid never acks; bob waits for ann's permits; dan has a gap before many messages."""
    network = Network(
        limits=Limits(window_copies_max=5000, lease_s=1e6, congestion_control="fixed"),
        delay_s=(0.001, 0.001),
    )
    network.start_group("ann", "bob", "cid", "dan")
    network.run(1.0)
    network.should_lose = lambda flight: flight.target == "cid"
    ann, bob, dan = (network.engines[name] for name in ("ann", "bob", "dan"))
    for _ in range(1300):
        network.send("ann", "cid")
    for _ in range(1500):
        network.send("ann", "bob")
    network.run(0.0015)
    for _ in range(1700):
        network.send("bob", "cid")
    network.run(0.1)
    network.should_lose = lambda flight: flight.target in ("cid", "dan")
    network.send("ann", "dan")
    network.should_lose = lambda flight: flight.target == "cid"
    for _ in range(1100):
        network.send("ann", "dan")
    network.run(0.0015)
    stats = make_stats(ann, 0, ({}, 0), network.now)
    assert (stats.queued, stats.in_flight) == (0, 1300 + 1101)
    assert stats.waiting_for == {"cid": 1300, "dan": 1101}
    stats = make_stats(bob, 0, ({}, 0), network.now)
    assert (stats.queued, stats.in_flight) == (1700, 0)
    assert stats.waiting_for == {"ann": 1500 + 1700}
    stats = make_stats(dan, 0, ({}, 0), network.now)
    assert (stats.queued, stats.in_flight, stats.waiting_for) == (0, 0, {"ann": 1100})
    stages = [message.stage for message in find_blocked_messages(bob, limit=10)]
    assert stages == ["queued"] * 10 + ["delivered"] * 10
