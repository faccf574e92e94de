"""Metrics of a node for Prometheus, through its client library.

The collector reads :meth:`antecede.Node.stats` when it is scraped. Only the histograms cost
time while the node runs, and only if the node serves its metrics.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from antecede.errors import ConfigError
from antecede.net.statistics import NodeStats, PeerStats
from antecede.net.udp import Address

__all__ = ["Metrics", "NodeCollector"]

REQUEST_S: Final = 10.0
"""The time-out for the request of a client of the endpoint."""
REQUEST_BYTES_MAX: Final = 8192
BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

PEER_GAUGES: Final[tuple[tuple[str, str, Callable[[PeerStats], float | None]], ...]] = (
    ("backlog", "Copies that are queued or in flight.", lambda peer: peer.backlog),
    ("backlog_bytes", "Payload bytes of the backlog.", lambda peer: peer.backlog_bytes),
    ("round_trip_seconds", "Smoothed round trip.", lambda peer: peer.round_trip_s),
    ("silent_seconds", "Time since the last datagram.", lambda peer: peer.silent_s),
    ("silent", "Whether an answer is overdue.", lambda peer: peer.is_silent),
    ("met", "Whether the peer has answered.", lambda peer: peer.handshake_done),
    ("window_full", "Whether send waits.", lambda peer: peer.window_full),
    (
        "congestion_window_bytes",
        "Bytes that may be in flight.",
        lambda peer: peer.congestion_window_bytes,
    ),
    (
        "in_flight_bytes",
        "Bytes of datagrams that are not acknowledged.",
        lambda peer: peer.in_flight_bytes,
    ),
)
"""Name, description and value of each gauge that has a peer."""


class NodeCollector(Collector):
    """Collects the statistics of one node; register it with any registry.

    Args:
        stats: returns the statistics. It is called in the thread that scrapes.
    """

    def __init__(self, stats: Callable[[], NodeStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        stats = self._stats()
        info = InfoMetricFamily("antecede_node", "The node.", labels=["node"])
        info.add_metric([stats.name], {"protocol": stats.protocol})
        yield info
        yield from self._counters(stats)
        for name, description, value in (
            ("inbox", "Messages that the application has not received.", stats.inbox),
            ("queued", "Copies that wait for permits.", stats.queued),
            ("in_flight", "Copies that are not acked.", stats.in_flight),
        ):
            gauge = GaugeMetricFamily(f"antecede_{name}", description, labels=["node"])
            gauge.add_metric([stats.name], value)
            yield gauge
        yield from self._peers(stats)

    def _counters(self, stats: NodeStats) -> Iterator[Metric]:
        engine = stats.engine
        for name, description, value in (
            ("sent", "Messages sent by the application.", engine.sent),
            ("released", "Copies transmitted for the first time.", engine.released),
            ("retransmitted", "Copies retransmitted.", engine.retransmitted),
            ("lost", "Datagrams taken for lost.", engine.lost),
            ("probes", "Probe timeouts.", engine.probes),
            ("marks", "Reports of congestion marks by peers.", engine.marks),
            ("delivered", "Messages delivered to the application.", engine.delivered),
            ("control_frames", "Frames without a message.", engine.control_frames),
            ("datagrams_in", "Datagrams received.", engine.datagrams_in),
            ("datagrams_out", "Datagrams transmitted.", engine.datagrams_out),
            ("events_dropped", "Events not read in time.", stats.events_dropped),
        ):
            counter = CounterMetricFamily(f"antecede_{name}", description, labels=["node"])
            counter.add_metric([stats.name], value)
            yield counter
        for name, description, counts in (
            ("dropped", "Datagrams and frames dropped.", engine.dropped),
            ("transmit_lost", "Datagrams lost at the socket.", stats.transmit_lost),
        ):
            counter = CounterMetricFamily(
                f"antecede_{name}", description, labels=["node", "reason"]
            )
            for reason, count in counts.items():
                counter.add_metric([stats.name, reason], count)
            yield counter

    def _peers(self, stats: NodeStats) -> Iterator[Metric]:
        labels = ["node", "peer"]
        waiting = GaugeMetricFamily(
            "antecede_waiting_for", "Messages that wait for a peer.", labels=labels
        )
        for name, count in stats.waiting_for.items():
            waiting.add_metric([stats.name, name], count)
        yield waiting
        for metric, description, value_of in PEER_GAUGES:
            gauge = GaugeMetricFamily(f"antecede_{metric}", description, labels=labels)
            for name, peer in stats.peers.items():
                value = value_of(peer)
                if value is not None:
                    gauge.add_metric([stats.name, name], value)
            yield gauge
        for metric, description, value_of in (
            ("bytes_in", "Bytes received.", lambda peer: peer.bytes_in),
            ("bytes_out", "Bytes transmitted.", lambda peer: peer.bytes_out),
            ("peer_dropped", "Datagrams of a peer dropped.", lambda peer: peer.dropped),
        ):
            counter = CounterMetricFamily(f"antecede_{metric}", description, labels=labels)
            for name, peer in stats.peers.items():
                counter.add_metric([stats.name, name], value_of(peer))
            yield counter
        state = GaugeMetricFamily(
            "antecede_peer_state", "State of a peer.", labels=[*labels, "state"]
        )
        for name, peer in stats.peers.items():
            state.add_metric([stats.name, name, peer.state], 1)
        yield state


class Metrics:
    """The registry of one node, and the endpoint that serves it.

    Args:
        name: the name of the node.
        stats: returns the statistics of the node.
    """

    def __init__(self, name: str, stats: Callable[[], NodeStats]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(NodeCollector(stats))
        self._server: asyncio.Server | None = None
        self.inbox_wait_s = self._histogram(
            name, "inbox_wait_seconds", "Time from delivery until the application receives."
        )
        self.send_wait_s = self._histogram(
            name, "send_wait_seconds", "Time for which send waits, if it waits."
        )

    def _histogram(self, node: str, name: str, description: str) -> Histogram:
        return Histogram(
            f"antecede_{name}",
            description,
            ["node"],
            registry=self._registry,
            buckets=BUCKETS,
        ).labels(node)

    def text(self) -> str:
        """Return the metrics as OpenMetrics text."""
        data: bytes = generate_latest(self._registry)  # type: ignore[no-untyped-call]
        return data.decode()

    async def serve(self, bind: Address) -> None:
        """Serve the metrics by HTTP; raise ConfigError if the address is not free."""
        host, port = bind
        try:
            self._server = await asyncio.start_server(
                self._handle, host, port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            raise ConfigError(
                f"cannot serve metrics at {host}:{port}: {error.strerror or error}; choose"
                " another address"
            ) from None

    @property
    def address(self) -> Address | None:
        """The address of the endpoint; None if there is none."""
        if self._server is None or not self._server.sockets:
            return None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def _handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request, whatever its path."""
        try:
            async with asyncio.timeout(REQUEST_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(request))
                await writer.drain()
        except (
            OSError,
            TimeoutError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):
            pass  # The client has gone, or this is not a request.
        finally:
            writer.close()

    def _response(self, request: bytes) -> bytes:
        lines = request.decode("latin-1").split("\r\n")
        if not lines[0].startswith(("GET ", "HEAD ")):
            return b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"
        headers = dict(line.lower().split(":", 1) for line in lines[1:] if ":" in line)
        encode, kind = choose_encoder(headers.get("accept", "").strip())
        body = encode(self._registry)
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        ).encode()
        return head if lines[0].startswith("HEAD") else head + body

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.close()
