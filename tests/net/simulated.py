"""Nodes in a simulation that a test drives step by step."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from antecede import Limits, Node
from antecede.core.process import NEVER
from antecede.engine.message import Message
from antecede.net.faults import Faults
from antecede.testing import Simulation

SHORT_LEASE = Limits(lease_s=2.0, keep_alive_s=NEVER)
"""Without keep-alives, so that idle weeks take no time."""
PORT = 9000


class Group:
    """A simulation with one node per process; each node is open until it is killed."""

    def __init__(self, seed: int = 0, faults: Faults | None = None) -> None:
        self.simulation = Simulation(seed, *([faults] if faults is not None else []))
        self.nodes: dict[str, Node] = {}
        self.received: dict[str, list[bytes]] = {}
        self.messages: dict[str, Callable[[Message], object]] = {}
        """Called with each message of a node."""
        self._tasks: list[asyncio.Future[None]] = []

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *error: object) -> None:
        self.simulation.close()

    def open(self, name: str, *peers: str, **options: Any) -> Node:  # noqa: ANN401
        """Start a process with a node, and return the node when it is open."""
        self.start(name, *peers, **options)
        self.run(0)
        return self.nodes[name]

    def start(
        self,
        name: str,
        *peers: str,
        journal: bool = False,
        receive: bool = True,
        limits: Limits = SHORT_LEASE,
        **options: Any,  # noqa: ANN401 (options of Node)
    ) -> None:
        """Start a process with a node, or start it again after it was killed.

        Its protocol is ``hybrid`` unless the options name another one.
        """
        options = {"protocol": "hybrid"} | options
        node = Node(
            name,
            bind=f"{name}:{PORT}",
            peers={peer: f"{peer}:{PORT}" for peer in peers},
            journal=f"{name}.db" if journal else None,
            insecure=True,
            limits=limits,
            **options,
        )
        received = self.received.setdefault(name, [])

        async def main() -> None:
            await node.open()
            self.nodes[name] = node
            if receive:
                async for message in node:
                    received.append(message.data)
                    if name in self.messages:
                        self.messages[name](message)
                    await message.commit()
            await asyncio.Event().wait()

        self.nodes.pop(name, None)
        self.simulation.start(name, main, daemon=True)

    def open_all(self, *names: str, **options: Any) -> None:  # noqa: ANN401
        """Open nodes that are all peers of each other."""
        for name in names:
            self.open(name, *(peer for peer in names if peer != name), **options)

    def run(self, seconds: float) -> None:
        """Run for some seconds of the simulation."""
        self.simulation.run_for(seconds)

    def call(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
        """Run a coroutine in a process until it ends."""
        return self.simulation.call(name, coroutine)

    def send(self, source: str, target: str, data: bytes) -> int:
        number = self.call(source, self.nodes[source].send(target, data))
        assert isinstance(number, int)
        return number

    def broadcast(self, source: str, data: bytes) -> int:
        number = self.call(source, self.nodes[source].broadcast(data))
        assert isinstance(number, int)
        return number

    def do(self, name: str, function: Callable[[Node], object]) -> None:
        """Call a function with the node of a process, on its event loop."""

        async def call() -> None:
            function(self.nodes[name])

        self.call(name, call())

    def start_task(self, name: str, main: Callable[[Node], Awaitable[None]]) -> None:
        """Start a task in a process, and do not wait for it."""
        self.do(name, lambda node: self._tasks.append(asyncio.ensure_future(main(node))))

    def add_peer(self, name: str, peer: str) -> None:
        self.do(name, lambda node: node.add_peer(peer, f"{peer}:{PORT}"))

    def kill(self, name: str) -> None:
        self.simulation.kill(name)

    def held(self) -> bool:
        """Return whether the run so far was correct."""
        return self.simulation.verdict().held


__all__ = ["PORT", "SHORT_LEASE", "Group"]
