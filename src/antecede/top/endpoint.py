"""Reads the metrics of nodes from the endpoints that ``Node(metrics=...)`` serves."""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from antecede.errors import ConfigError

__all__ = [
    "EndpointReading",
    "NodeReading",
    "PeerReading",
    "in_room",
    "nodes_of",
    "parse_metrics",
    "parse_url",
    "read_endpoints",
]

PREFIX: Final = "antecede_"
ANSWER_BYTES_MAX: Final = 16 << 20
THREADS_MAX: Final = 32
HOST: Final = re.compile(r"\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]]+")

opener = build_opener(ProxyHandler({}))  # Endpoints are local: no proxy of the environment.


@dataclass(slots=True, kw_only=True)
class PeerReading:
    """One peer, as a node sees it."""

    state: str = ""
    """``active``, ``silent``, ``removing``, ``removed`` or ``left``."""
    values: dict[str, float] = field(default_factory=dict)
    """The metrics of the peer, without the prefix ``antecede_``."""


@dataclass(slots=True, kw_only=True)
class NodeReading:
    """The metrics of one node, or of one node in a room."""

    name: str
    protocol: str = ""
    values: dict[str, float] = field(default_factory=dict)
    """The metrics of the node, without the prefix ``antecede_``. A metric that has a reason
    is the sum over the reasons."""
    waiting_for: dict[str, float] = field(default_factory=dict)
    """By process, the number of messages that wait for it."""
    peers: dict[str, PeerReading] = field(default_factory=dict)
    rooms: "dict[str, NodeReading]" = field(default_factory=dict)
    """The metrics of the node in each of its rooms, whose members are the peers."""

    def peer(self, name: str) -> PeerReading:
        """Return a peer; add it if it is new."""
        return self.peers.setdefault(name, PeerReading())


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReading:
    """The answer of one endpoint."""

    url: str
    read_at: float
    """The time at which the answer arrived, in seconds of the monotonic clock."""
    nodes: dict[str, NodeReading]
    """The nodes by name; usually one."""
    error: str = ""
    """The reason for a missing answer; empty if there is an answer."""


def parse_url(text: str) -> str:
    """Return the URL for a URL, an address ``host:port``, or a port of this machine."""
    if text.startswith(("http://", "https://")):
        return text
    host, separator, port = text.rpartition(":")
    if not separator:
        host = "127.0.0.1"
    if not HOST.fullmatch(host) or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigError(
            f"{text!r} is not the address of an endpoint: give a URL, host:port, or a port"
        )
    return f"http://{host}:{port}/metrics"


def read_endpoints(urls: Sequence[str], timeout_s: float) -> list[EndpointReading]:
    """Return the answers of all endpoints, which are read at the same time."""
    with ThreadPoolExecutor(min(len(urls), THREADS_MAX)) as threads:
        return list(threads.map(lambda url: _read(url, timeout_s), urls))


def _read(url: str, timeout_s: float) -> EndpointReading:
    error = ""
    nodes: dict[str, NodeReading] = {}
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            text = answer.read(ANSWER_BYTES_MAX).decode(errors="replace")
        nodes = parse_metrics(text)
        if not nodes:
            error = "not the metrics of a node"
    except URLError as failure:
        reason = failure.reason
        error = getattr(reason, "strerror", None) or str(reason) or str(failure)
    except TimeoutError:
        error = "timed out"
    except OSError as failure:
        error = failure.strerror or str(failure)
    except ValueError:
        error = "not the metrics of a node"
    return EndpointReading(url=url, read_at=monotonic(), nodes=nodes, error=error)


def parse_metrics(text: str) -> dict[str, NodeReading]:
    """Return the nodes by name; raise ValueError if the text has another format."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        raise ConfigError(
            "antecede top needs the package prometheus_client:"
            " run pip install 'antecede[metrics]'"
        ) from None
    nodes: dict[str, NodeReading] = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith(PREFIX):
            for sample in family.samples:
                if "node" in sample.labels and "le" not in sample.labels:
                    name, room = sample.labels["node"], sample.labels.get("room", "")
                    node = nodes.setdefault(name, NodeReading(name=name))
                    if room:
                        node = node.rooms.setdefault(room, NodeReading(name=name))
                    _add(node, sample.name[len(PREFIX) :], sample.labels, sample.value)
    return nodes


def _add(node: NodeReading, metric: str, labels: dict[str, str], value: float) -> None:
    """Add one sample to a reading."""
    name = metric.removesuffix("_total")
    peer = labels.get("peer")
    if name == "node_info":
        node.protocol = labels.get("protocol", "")
    elif peer is None:
        node.values[name] = node.values.get(name, 0.0) + value
    elif name == "waiting_for":
        node.waiting_for[peer] = value
    elif name == "peer_state":
        node.peer(peer).state = labels.get("state", "")
    else:
        node.peer(peer).values[name] = value


def in_room(reading: EndpointReading, room: str) -> EndpointReading:
    """Return the part of an answer that is about a room."""
    nodes = {
        name: node.rooms[room] for name, node in reading.nodes.items() if room in node.rooms
    }
    return replace(reading, nodes=nodes)


def nodes_of(readings: Iterable[EndpointReading]) -> dict[str, NodeReading]:
    """Return all nodes by name."""
    return {name: node for each in readings for name, node in each.nodes.items()}
