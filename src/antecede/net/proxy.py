"""A network in one process: a UDP proxy that loses, duplicates, delays, reorders, parts.

Every node has a *front*, a socket of the proxy that stands for it. Nodes are given each
other's fronts as addresses. What reaches the front of b from a is transmitted to b out of
a's front, so answers find their way back.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any, cast

from antecede.net.udp import Address

__all__ = ["Fate", "Faults", "Proxy", "open_proxy"]

BUFFER = 4 << 20
"""Bytes that a front may have waiting; the kernel may give less."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What a network does to what it carries."""

    loss: float = 0.0
    """Probability that a datagram is lost."""
    duplicate: float = 0.0
    """Probability that it arrives twice."""
    delay_s: float = 0.0
    """How long it takes at least."""
    jitter_s: float = 0.0
    """At most this is added to the delay, and so later datagrams overtake."""
    bytes_per_s: float = 0.0
    """How much a link carries; 0 for no limit."""


class Fate:
    """Decides what becomes of each datagram, and counts it."""

    def __init__(self, faults: Faults, seed: int) -> None:
        """Start with no partition; the same seed decides the same."""
        self.faults = faults
        self.counts: Counter[str] = Counter()
        self._random = Random(seed)
        self._parted: set[frozenset[str]] = set()
        self._free_at: dict[tuple[str, str], float] = {}
        self._due: dict[tuple[str, str], float] = {}

    def part(self, *sides: Iterable[str]) -> None:
        """Let nothing through between the sides, until :meth:`heal`."""
        for one, other in combinations([set(side) for side in sides], 2):
            self._parted |= {frozenset((a, b)) for a in one for b in other}

    def heal(self) -> None:
        """End every partition."""
        self._parted.clear()

    def delays(self, source: str, target: str, size: int, now: float) -> list[float]:
        """Return after how long each copy of a datagram is to arrive; empty if none is."""
        faults = self.faults
        self.counts["all"] += 1
        if frozenset((source, target)) in self._parted:
            self.counts["parted"] += 1
            return []
        if self._random.random() < faults.loss:
            self.counts["lost"] += 1
            return []
        copies = 1
        if self._random.random() < faults.duplicate:
            self.counts["duplicated"] += 1
            copies = 2
        link = (source, target)
        queued = 0.0
        if faults.bytes_per_s:
            free_at = max(now, self._free_at.get(link, now)) + size / faults.bytes_per_s
            self._free_at[link] = free_at
            queued = free_at - now
        delays = [
            queued + faults.delay_s + self._random.random() * faults.jitter_s
            for _ in range(copies)
        ]
        if now + delays[0] < self._due.get(link, 0.0):
            self.counts["reordered"] += 1
        self._due[link] = max(self._due.get(link, 0.0), now + max(delays))
        return delays


class _Front(asyncio.DatagramProtocol):
    def __init__(self, proxy: "Proxy", name: str) -> None:
        self.proxy = proxy
        self.name = name
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self.proxy.carry(self.name, data, (addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        """A node that is down: the datagram is lost."""


class Proxy:
    """Stands between nodes; use :func:`open_proxy`."""

    def __init__(self, faults: Faults, seed: int) -> None:
        """Stand between nobody yet."""
        self.fate = Fate(faults, seed)
        self.fronts: dict[str, Address] = {}
        self._fronts: dict[str, _Front] = {}
        self._where: dict[str, Address] = {}
        self._names: dict[Address, str] = {}

    async def add(self, name: str, where: Address) -> None:
        """Let ``name`` be at ``where`` from now on, whether or not it has a front."""
        self._names.pop(self._where.get(name, ("", 0)), None)
        self._where[name] = where
        self._names[where] = name
        if name in self._fronts:
            return
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        udp.bind(("127.0.0.1", 0))
        loop = asyncio.get_running_loop()
        _, front = await loop.create_datagram_endpoint(lambda: _Front(self, name), sock=udp)
        self._fronts[name] = front
        self.fronts[name] = udp.getsockname()

    def others(self, name: str) -> dict[str, Address]:
        """Return the peers of ``name``, with the addresses to give it."""
        return {other: at for other, at in self.fronts.items() if other != name}

    def carry(self, target: str, data: bytes, sender: Address) -> None:
        """Pass a datagram on, as fate will have it."""
        source = self._names.get(sender)
        if source is None:
            return  # It came from a node that has been replaced since.
        loop = asyncio.get_running_loop()
        for delay in self.fate.delays(source, target, len(data), loop.time()):
            if delay > 0:
                loop.call_later(delay, self._pass_on, source, target, data)
            else:
                self._pass_on(source, target, data)

    def _pass_on(self, source: str, target: str, data: bytes) -> None:
        transport = self._fronts[source].transport
        if transport is not None and not transport.is_closing():
            transport.sendto(data, self._where[target])

    def close(self) -> None:
        """Give all sockets back."""
        for front in self._fronts.values():
            if front.transport is not None:
                front.transport.close()


@contextlib.asynccontextmanager
async def open_proxy(faults: Faults, seed: int = 0) -> AsyncIterator[Proxy]:
    """Open a proxy for the block; add the nodes to it, and give them theirs."""
    proxy = Proxy(faults, seed)
    try:
        yield proxy
    finally:
        proxy.close()
