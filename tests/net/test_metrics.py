"""Metrics for Prometheus: the endpoint of a node, and a collector for any registry."""

import asyncio
import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from antecede import Limits, Node
from antecede.errors import ConfigError
from antecede.net.metrics import NodeCollector
from tests.net.harness import connect_all, run


async def request(address: tuple[str, int] | None, text: str) -> tuple[str, str]:
    """Return head and body of the answer of an endpoint."""
    assert address is not None
    reader, writer = await asyncio.open_connection(*address)
    writer.write(text.encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return head, body


GET = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def samples(text: str, room: str = "") -> dict[tuple[str, str], float]:
    """Return the values by name and by the peer or the reason, if there is one.

    Without a room, they are those of the node outside of rooms.
    """
    return {
        (each.name, each.labels.get("peer", each.labels.get("reason", ""))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if "le" not in each.labels and each.labels["room"] == room
    }


def test_the_endpoint_serves_counters_peers_and_histograms() -> None:
    """Ann sends three messages to bob, who receives two; then nobody owes anything."""

    async def main() -> None:
        async with Node("ann", metrics=0) as ann, Node("bob", metrics=0) as bob:
            connect_all(ann, bob)
            for _ in range(3):
                await ann.send("bob", b"x")
            await ann.flush()
            await bob.receive()
            await bob.receive_many(1)
            assert ann.metrics_address is not None
            address = ann.metrics_address
            assert address[0] == "127.0.0.1"
            head, body = await request(ann.metrics_address, GET)
            assert head.startswith("HTTP/1.1 200 OK\r\nContent-Type: text/plain")
            found = samples(body)
            assert found["antecede_sent_total", ""] == 3
            assert found["antecede_backlog", "bob"] == 0
            assert found["antecede_met", "bob"] == 1
            assert found["antecede_silent", "bob"] == 0
            assert found["antecede_congestion_window_bytes", "bob"] > 0
            assert found["antecede_round_trip_seconds", "bob"] > 0
            assert found["antecede_dropped_total", "authentication"] == 0
            assert found["antecede_events_dropped_total", ""] == 0
            _, body = await request(bob.metrics_address, GET)
            found = samples(body)
            assert found["antecede_inbox", ""] == 1
            assert found["antecede_inbox_wait_seconds_count", ""] == 2
            openmetrics = GET.replace(
                "Host: x", "Accept: application/openmetrics-text; version=1.0.0"
            )
            head, body = await request(bob.metrics_address, openmetrics)
            assert "openmetrics-text" in head
            assert body.endswith("# EOF\n")
            head, _ = await request(bob.metrics_address, GET.replace("GET", "POST"))
            assert head.startswith("HTTP/1.1 405")
        with pytest.raises(OSError, match=r"."):
            await request(address, GET)

    run(main)


def test_the_time_that_send_waits_is_observed() -> None:
    async def main() -> None:
        limits = Limits(window_copies_max=1)
        async with Node("ann", metrics=0, limits=limits) as ann, Node("bob") as bob:
            connect_all(ann, bob)
            await asyncio.gather(*(ann.send("bob", b"x") for _ in range(5)))
            found = samples(ann.metrics())
            assert found["antecede_send_wait_seconds_count", ""] >= 1

    run(main)


def test_each_room_has_metrics_of_its_own() -> None:
    """Ann sends three messages to bob in a room, who receives two; the node sends none."""

    async def main() -> None:
        limits = Limits(window_copies_max=1)
        async with (
            Node("ann", metrics=0, limits=limits) as ann,
            Node("bob", metrics=0) as bob,
        ):
            members = {"ann": ann.address, "bob": bob.address}
            for_ann, for_bob = [
                await node.join("design", members=members) for node in (ann, bob)
            ]
            lobby = await ann.join("lobby", found=True)
            await asyncio.gather(*(for_ann.broadcast(b"x") for _ in range(3)))
            await for_ann.flush()
            await for_bob.receive()
            await for_bob.receive()
            rooms = {name: each.engine for name, each in ann.stats().rooms.items()}
            own = {room.name: room.stats().engine for room in (for_ann, lobby)}
            assert rooms == own
            _, text = await request(ann.metrics_address, GET)
            found = samples(text, "design")
            assert found["antecede_node_info", ""] == 1
            assert found["antecede_sent_total", ""] == 3
            assert found["antecede_peer_state", "bob"] == 1
            assert found["antecede_silent", "bob"] == 0
            assert found["antecede_peer_dropped_total", "bob"] == 0
            assert found["antecede_round_trip_seconds", "bob"] > 0
            assert found["antecede_congestion_window_bytes", "bob"] > 0
            assert found["antecede_send_wait_seconds_count", ""] >= 1
            assert samples(text)["antecede_sent_total", ""] == 0
            assert samples(text)["antecede_send_wait_seconds_count", ""] == 0
            assert samples(text, "lobby")["antecede_sent_total", ""] == 0
            _, text = await request(bob.metrics_address, GET)
            found = samples(text, "design")
            assert found["antecede_delivered_total", ""] == 3
            assert found["antecede_inbox", ""] == 1
            assert found["antecede_inbox_wait_seconds_count", ""] == 2
            assert samples(text)["antecede_inbox_wait_seconds_count", ""] == 0
            await for_ann.close()
            assert list(ann.stats().rooms) == ["lobby"]
            _, text = await request(ann.metrics_address, GET)
            assert samples(text, "design") == {}  # Rooms of the past have no metrics.

    run(main)


def test_the_collector_works_with_the_registry_of_an_application() -> None:
    async def main() -> None:
        async with Node("ann") as ann:
            registry = CollectorRegistry()
            registry.register(NodeCollector(ann.stats))
            assert (
                registry.get_sample_value("antecede_inbox", {"node": "ann", "room": ""})
                == 0
            )
            assert ann.metrics_address is None

    run(main)


def test_an_address_in_use_is_refused_and_the_node_is_closed() -> None:
    async def main() -> None:
        async with Node("ann", metrics=0) as ann:
            assert ann.metrics_address is not None
            other = Node("bob", metrics=ann.metrics_address)
            with pytest.raises(ConfigError, match="cannot serve metrics at 127"):
                await other.open()
            with pytest.raises(Exception, match="is closed"):
                _ = other.address

    run(main)


def test_without_the_extra_the_error_names_it() -> None:
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from antecede import Node\n"
        "try:\n    Node('ann', metrics=0)\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ConfigError metrics need the package prometheus_client")
    assert "antecede[metrics]" in done.stdout
