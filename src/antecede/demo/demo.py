"""``antecede demo``: nodes as OS processes on a faulty network, with recorded traces.

Each node is a Python process with its own socket. A proxy in the parent process forwards
their datagrams, and loses, delays, duplicates and reorders them.

Parent and nodes exchange lines of JSON over standard input and output. A node writes a
report with its current phase; the parent answers when all nodes have reached the phase.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from antecede.core.config import DEFAULT_PROTOCOL
from antecede.errors import ConfigError
from antecede.net.faults import Faults
from antecede.net.proxy import Proxy, open_proxy
from antecede.net.udp import Address

__all__ = ["NODE_NAMES", "DemoConfig", "NodeStatus", "run_demo"]

NODE_NAMES: Final = (
    "ann", "bob", "cat", "dan", "eve", "fay", "gil", "hal", "ida", "jon",
)  # fmt: skip
START_TIMEOUT_S: Final = 30.0
PHASE_TIMEOUT_S: Final = 60.0
"""Time for a phase in addition to the time for sending the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoConfig:
    """The parameters of a demonstration."""

    nodes: int = 4
    messages: int = 50
    """Messages that each node sends, without its answers."""
    gap_s: float = 0.05
    """Mean time between two of these messages."""
    protocol: str = DEFAULT_PROTOCOL
    faults: Faults
    seed: int = 0
    metrics_port: int | None = None
    """The first of consecutive ports at which the nodes serve metrics; None for none."""

    @property
    def metrics_ports(self) -> list[int]:
        """The ports of the metrics of the nodes."""
        first = self.metrics_port
        return list(range(first, first + self.nodes)) if first is not None else []

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= len(NODE_NAMES):
            raise ConfigError(f"nodes must be 2 to {len(NODE_NAMES)}, not {self.nodes}")
        if self.messages < 1:
            raise ConfigError(f"messages must be at least 1, not {self.messages}")
        if self.gap_s <= 0:
            raise ConfigError(f"gap_s must be above 0, not {self.gap_s}")
        ports = self.metrics_ports
        if ports and not 0 < ports[0] <= ports[-1] < 65_536:
            raise ConfigError(f"there are no ports {ports[0]} to {ports[-1]} for metrics")


@dataclass(slots=True, kw_only=True)
class NodeStatus:
    """The last report of one node."""

    sent: int = 0
    released: int = 0
    retransmitted: int = 0
    delivered: int = 0
    queued: int = 0
    in_flight: int = 0
    waiting_for: dict[str, int]


class _NodeProcess:
    """The process of one node, seen from the parent."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.status = NodeStatus(waiting_for={})

    def write(self, value: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value).encode() + b"\n")

    async def wait_for_phase(self, phase: str, on_status: Callable[[], None]) -> None:
        """Read reports until the node has reached ``phase``."""
        assert self.process.stdout is not None
        while True:
            line = await self.process.stdout.readline()
            if not line:
                raise ConfigError(
                    f"the demo node {self.name} stopped before the phase {phase!r}; its"
                    " error output is above"
                )
            report: dict[str, Any] = json.loads(line)
            reached = report.pop("phase")
            if report:
                self.status = NodeStatus(**report)
                on_status()
            if reached == phase:
                return


async def run_demo(
    config: DemoConfig, out: Path, on_status: Callable[[dict[str, NodeStatus], Proxy], None]
) -> dict[str, NodeStatus]:
    """Run a demonstration and return the final status of each node.

    Args:
        config: the parameters.
        out: directory for the traces, one directory for each node.
        on_status: called with the status of all nodes after each report.
    """
    names = NODE_NAMES[: config.nodes]
    ports = _free_ports(len(names))
    nodes: list[_NodeProcess] = []

    def report_status() -> None:
        on_status({node.name: node.status for node in nodes}, proxy)

    async with open_proxy(config.faults, config.seed) as proxy:
        for name, port in zip(names, ports, strict=True):
            await proxy.add(name, ("127.0.0.1", port))
        try:
            for index, (name, port) in enumerate(zip(names, ports, strict=True)):
                peers = proxy.peers_of(name)
                nodes.append(await _start(config, name, port, index, peers, out))
            for phase, timeout_s in (
                ("ready", START_TIMEOUT_S),
                ("sent", PHASE_TIMEOUT_S + config.messages * config.gap_s * 4),
                ("flushed", PHASE_TIMEOUT_S),
            ):
                async with asyncio.timeout(timeout_s):
                    await asyncio.gather(
                        *(node.wait_for_phase(phase, report_status) for node in nodes)
                    )
                for node in nodes:
                    node.write("continue")
            async with asyncio.timeout(PHASE_TIMEOUT_S):
                await asyncio.gather(*(node.process.wait() for node in nodes))
        except TimeoutError:
            raise ConfigError(
                "the demo timed out before all messages were delivered; reduce the loss or"
                " the delay"
            ) from None
        finally:
            for node in nodes:
                if node.process.returncode is None:
                    node.process.kill()
                    await node.process.wait()
    return {node.name: node.status for node in nodes}


async def _start(
    config: DemoConfig,
    name: str,
    port: int,
    index: int,
    peers: dict[str, Address],
    out: Path,
) -> _NodeProcess:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "antecede.demo.node",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    node = _NodeProcess(name, process)
    node.write(
        {
            "name": name,
            "port": port,
            "peers": peers,
            "protocol": config.protocol,
            "trace": str(out / name),
            "messages": config.messages,
            "gap_s": config.gap_s,
            "seed": config.seed * len(NODE_NAMES) + index,
            "metrics": config.metrics_ports[index] if config.metrics_ports else None,
        }
    )
    return node


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now; the system does not reassign them soon."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for udp in sockets:
        udp.bind(("127.0.0.1", 0))
    ports = [int(udp.getsockname()[1]) for udp in sockets]
    for udp in sockets:
        udp.close()
    return ports
