"""``antecede demo``: nodes as separate OS processes, a bad network, and a verdict.

Each node is a Python process of its own with its own socket; between them stands a proxy
that loses, delays and reorders. What each node recorded is merged and judged at the end.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antecede.errors import ConfigError
from antecede.net.proxy import Faults, Proxy, open_proxy
from antecede.net.udp import Address

__all__ = ["NAMES", "Demo", "Stand", "play"]

NAMES = ("ann", "bob", "cat", "dan", "eve", "fay", "gil", "hal", "ida", "jon")
START_S = 30.0
"""How long the nodes may take to start."""
END_S = 60.0
"""How long they may take to deliver everything once the last message is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What to demonstrate."""

    nodes: int = 4
    messages: int = 50
    """How many each node sends of its own; it answers others beyond that."""
    gap_s: float = 0.05
    """The mean time between them."""
    protocol: str = "hybrid"
    faults: Faults
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError if it cannot be done."""
        if not 2 <= self.nodes <= len(NAMES):
            raise ConfigError(f"demo takes 2 to {len(NAMES)} nodes, not {self.nodes}")
        if self.messages < 1 or self.gap_s <= 0:
            raise ConfigError("demo needs at least one message, and a gap above 0")


@dataclass(slots=True, kw_only=True)
class Stand:
    """How a node stands."""

    sent: int = 0
    released: int = 0
    retransmitted: int = 0
    delivered: int = 0
    waiting: int = 0
    unacked: int = 0
    waits_on: dict[str, int]


class _Child:
    """A node in a process of its own, as the parent sees it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.stand = Stand(waits_on={})

    def say(self, words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")

    async def wait_for(self, what: str, show: Callable[[], None]) -> None:
        """Take in its reports until it says ``what``."""
        assert self.process.stdout is not None
        while True:
            line = await self.process.stdout.readline()
            if not line:
                raise ConfigError(f"{self.name} has stopped; see what it says above")
            said: dict[str, Any] = json.loads(line)
            word = said.pop("what")
            if said:
                self.stand = Stand(**said)
                show()
            if word == what:
                return


async def play(
    demo: Demo, out: Path, show: Callable[[dict[str, Stand], Proxy], None]
) -> dict[str, Stand]:
    """Run a demonstration; the nodes' traces are in ``out`` afterwards.

    ``show`` is called with how all nodes stand whenever one of them has reported.
    """
    names = NAMES[: demo.nodes]
    ports = _free_ports(len(names))
    children: list[_Child] = []
    async with open_proxy(demo.faults, demo.seed) as proxy:
        for name, port in zip(names, ports, strict=True):
            await proxy.add(name, ("127.0.0.1", port))
        try:
            for place, (name, port) in enumerate(zip(names, ports, strict=True)):
                child = await _start(demo, name, port, place, proxy.others(name), out)
                children.append(child)

            def shown() -> None:
                show({child.name: child.stand for child in children}, proxy)

            for what, limit_s in (
                ("ready", START_S),
                ("sent", END_S + demo.messages * demo.gap_s * 4),
                ("flushed", END_S),
            ):
                async with asyncio.timeout(limit_s):
                    await asyncio.gather(*(c.wait_for(what, shown) for c in children))
                for child in children:
                    child.say("go on")
            async with asyncio.timeout(END_S):
                await asyncio.gather(*(child.process.wait() for child in children))
        except TimeoutError:
            raise ConfigError("the nodes have not come to an end; try less loss") from None
        finally:
            for child in children:
                if child.process.returncode is None:
                    child.process.kill()
                    await child.process.wait()
    return {child.name: child.stand for child in children}


async def _start(
    demo: Demo,
    name: str,
    port: int,
    place: int,
    peers: dict[str, Address],
    out: Path,
) -> _Child:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "antecede.demo.node",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    child = _Child(name, process)
    child.say(
        {
            "name": name,
            "port": port,
            "peers": peers,
            "protocol": demo.protocol,
            "trace": str(out / name),
            "messages": demo.messages,
            "gap_s": demo.gap_s,
            "seed": demo.seed * len(NAMES) + place,
        }
    )
    return child


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now; the system hands them out in turn, not at once."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for udp in sockets:
        udp.bind(("127.0.0.1", 0))
    ports = [int(udp.getsockname()[1]) for udp in sockets]
    for udp in sockets:
        udp.close()
    return ports
