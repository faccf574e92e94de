"""Metrics of a node for Prometheus, through its client library.

The collector reads :meth:`antecede.Node.stats` when it is scraped. Only the histograms cost
time while the node runs, and only if the node serves its metrics.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
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

LABELS: Final = ("node", "room")
"""The labels of all metrics. The room is empty for the node outside of rooms, which means
to Prometheus that the label is missing."""

Scope = tuple[str, str, NodeStats]
"""The name of the node, the name of the room or an empty text, and the statistics."""

NODE_COUNTERS: Final[tuple[tuple[str, str, Callable[[NodeStats], int]], ...]] = (
    ("sent", "Messages sent by the application.", lambda node: node.engine.sent),
    (
        "released",
        "Copies transmitted for the first time.",
        lambda node: node.engine.released,
    ),
    ("retransmitted", "Copies retransmitted.", lambda node: node.engine.retransmitted),
    ("lost", "Datagrams taken for lost.", lambda node: node.engine.lost),
    ("probes", "Probe timeouts.", lambda node: node.engine.probes),
    ("marks", "Reports of congestion marks by peers.", lambda node: node.engine.marks),
    (
        "delivered",
        "Messages delivered to the application.",
        lambda node: node.engine.delivered,
    ),
    (
        "control_frames",
        "Frames without a message.",
        lambda node: node.engine.control_frames,
    ),
    ("datagrams_in", "Datagrams received.", lambda node: node.engine.datagrams_in),
    ("datagrams_out", "Datagrams transmitted.", lambda node: node.engine.datagrams_out),
    ("events_dropped", "Events not read in time.", lambda node: node.events_dropped),
)
REASON_COUNTERS: Final[
    tuple[tuple[str, str, Callable[[NodeStats], Mapping[str, int]]], ...]
] = (
    ("dropped", "Datagrams and frames dropped.", lambda node: node.engine.dropped),
    ("transmit_lost", "Datagrams lost at the socket.", lambda node: node.transmit_lost),
)
NODE_GAUGES: Final[tuple[tuple[str, str, Callable[[NodeStats], int]], ...]] = (
    ("inbox", "Messages that the application has not received.", lambda node: node.inbox),
    ("queued", "Copies that wait for permits.", lambda node: node.queued),
    ("in_flight", "Copies that are not acked.", lambda node: node.in_flight),
)
PEER_COUNTERS: Final[tuple[tuple[str, str, Callable[[PeerStats], int]], ...]] = (
    ("bytes_in", "Bytes received.", lambda peer: peer.bytes_in),
    ("bytes_out", "Bytes transmitted.", lambda peer: peer.bytes_out),
    ("peer_dropped", "Datagrams of a peer dropped.", lambda peer: peer.dropped),
)
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
        scopes = [(stats.name, "", stats)]
        scopes += [(stats.name, room, each) for room, each in stats.rooms.items()]
        info = InfoMetricFamily("antecede_node", "The node.", labels=LABELS)
        for node, room, each in scopes:
            info.add_metric([node, room], {"protocol": each.protocol})
        yield info
        yield from _counters(scopes)
        for name, description, value_of in NODE_GAUGES:
            gauge = GaugeMetricFamily(f"antecede_{name}", description, labels=LABELS)
            for node, room, each in scopes:
                gauge.add_metric([node, room], value_of(each))
            yield gauge
        yield from _peers(scopes)


def _counters(scopes: list[Scope]) -> Iterator[Metric]:
    for name, description, value_of in NODE_COUNTERS:
        counter = CounterMetricFamily(f"antecede_{name}", description, labels=LABELS)
        for node, room, stats in scopes:
            counter.add_metric([node, room], value_of(stats))
        yield counter
    for name, description, counts_of in REASON_COUNTERS:
        labels = [*LABELS, "reason"]
        counter = CounterMetricFamily(f"antecede_{name}", description, labels=labels)
        for node, room, stats in scopes:
            for reason, count in counts_of(stats).items():
                counter.add_metric([node, room, reason], count)
        yield counter


def _peers(scopes: list[Scope]) -> Iterator[Metric]:
    labels = [*LABELS, "peer"]
    waiting = GaugeMetricFamily(
        "antecede_waiting_for", "Messages that wait for a peer.", labels=labels
    )
    for node, room, stats in scopes:
        for name, count in stats.waiting_for.items():
            waiting.add_metric([node, room, name], count)
    yield waiting
    for metric, description, value_of in PEER_GAUGES:
        gauge = GaugeMetricFamily(f"antecede_{metric}", description, labels=labels)
        for node, room, stats in scopes:
            for name, peer in stats.peers.items():
                value = value_of(peer)
                if value is not None:
                    gauge.add_metric([node, room, name], value)
        yield gauge
    for metric, description, count_of in PEER_COUNTERS:
        counter = CounterMetricFamily(f"antecede_{metric}", description, labels=labels)
        for node, room, stats in scopes:
            for name, peer in stats.peers.items():
                counter.add_metric([node, room, name], count_of(peer))
        yield counter
    state = GaugeMetricFamily(
        "antecede_peer_state", "State of a peer.", labels=[*labels, "state"]
    )
    for node, room, stats in scopes:
        for name, peer in stats.peers.items():
            state.add_metric([node, room, name, peer.state], 1)
    yield state


class Metrics:
    """The registry of one node, and the endpoint that serves it.

    Args:
        name: the name of the node.
        stats: returns the statistics of the node.
    """

    def __init__(self, name: str, stats: Callable[[], NodeStats]) -> None:
        self._name = name
        self._registry = CollectorRegistry()
        self._registry.register(NodeCollector(stats))
        self._server: asyncio.Server | None = None
        self._inbox_wait_s = self._histogram(
            "inbox_wait_seconds", "Time from delivery until the application receives."
        )
        self._send_wait_s = self._histogram(
            "send_wait_seconds", "Time for which send waits, if it waits."
        )

    def _histogram(self, name: str, description: str) -> Histogram:
        """Return a histogram with a label for the room, empty for the node itself."""
        histogram = Histogram(
            f"antecede_{name}",
            description,
            LABELS,
            registry=self._registry,
            buckets=BUCKETS,
        )
        histogram.labels(self._name, "")
        return histogram

    def observe_inbox_s(self, room: str) -> Callable[[float], object]:
        """Return the function that takes the time of each message in the inbox."""
        return self._inbox_wait_s.labels(self._name, room).observe

    def observe_send_s(self, room: str) -> Callable[[float], object]:
        """Return the function that takes the time that each blocked send has waited."""
        return self._send_wait_s.labels(self._name, room).observe

    def forget_room(self, room: str) -> None:
        """Drop the histograms of a room."""
        for histogram in (self._inbox_wait_s, self._send_wait_s):
            histogram.labels(
                self._name, room
            )  # prometheus_client 0.20 removes no missing one.
            histogram.remove(self._name, room)

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
