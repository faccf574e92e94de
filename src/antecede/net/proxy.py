"""A faulty network in one process: a UDP proxy between nodes.

The proxy has one *endpoint* for each node: a socket that represents it. Nodes use each
other's endpoints as addresses. The proxy forwards a datagram from a that reaches b's
endpoint to b from a's endpoint, so that the answer takes the same way back.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any, Final, cast

from antecede.net.faults import FaultInjector, Faults
from antecede.net.udp import Address

__all__ = ["Proxy", "open_proxy"]

RECEIVE_BUFFER_BYTES: Final = 4 << 20
"""Requested for each endpoint; the kernel may grant less."""


class _Endpoint(asyncio.DatagramProtocol):
    def __init__(self, proxy: "Proxy", name: str) -> None:
        self.proxy = proxy
        self.name = name
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self.proxy.forward(self.name, data, (addr[0], addr[1]))

    def error_received(self, exc: Exception) -> None:
        """Ignore the error: the node is down, and the datagram is lost."""


class Proxy:
    """Forwards datagrams between nodes with faults; use :func:`open_proxy`."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self.injector = FaultInjector(faults, seed)
        self.endpoints: dict[str, Address] = {}
        """The address that represents each node."""
        self._endpoints: dict[str, _Endpoint] = {}
        self._node_addresses: dict[str, Address] = {}
        self._names: dict[Address, str] = {}

    async def add(self, name: str, address: Address) -> None:
        """Add a node, or change the address of a node that was added before."""
        self._names.pop(self._node_addresses.get(name, ("", 0)), None)
        self._node_addresses[name] = address
        self._names[address] = name
        if name not in self._endpoints:
            await self._open(name)

    async def rebind(self, name: str) -> None:
        """Let another endpoint represent a node from now on, as if it had moved.

        Datagrams to the former endpoint are lost.
        """
        former = self._endpoints[name].transport
        await self._open(name)
        if former is not None:
            former.close()

    async def _open(self, name: str) -> None:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        udp.bind(("127.0.0.1", 0))
        loop = asyncio.get_running_loop()
        _, endpoint = await loop.create_datagram_endpoint(
            lambda: _Endpoint(self, name), sock=udp
        )
        self._endpoints[name] = endpoint
        self.endpoints[name] = udp.getsockname()

    def peers_of(self, name: str) -> dict[str, Address]:
        """Return the endpoints of all other nodes, for the ``peers`` of a node."""
        return {peer: at for peer, at in self.endpoints.items() if peer != name}

    def forward(self, target: str, data: bytes, sender: Address) -> None:
        """Forward a datagram that has reached the endpoint of ``target``."""
        source = self._names.get(sender)
        if source is None:
            return  # The node at this address has been replaced.
        loop = asyncio.get_running_loop()
        for delay in self.injector.delays(source, target, len(data), loop.time()):
            if delay > 0:
                loop.call_later(delay, self._transmit, source, target, data)
            else:
                self._transmit(source, target, data)

    def _transmit(self, source: str, target: str, data: bytes) -> None:
        transport = self._endpoints[source].transport
        if transport is not None and not transport.is_closing():
            transport.sendto(data, self._node_addresses[target])

    def close(self) -> None:
        """Close all endpoints."""
        for endpoint in self._endpoints.values():
            if endpoint.transport is not None:
                endpoint.transport.close()


@contextlib.asynccontextmanager
async def open_proxy(faults: Faults, seed: int = 0) -> AsyncIterator[Proxy]:
    """Open a proxy for the block; call :meth:`Proxy.add` for each node."""
    proxy = Proxy(faults, seed)
    try:
        yield proxy
    finally:
        proxy.close()
