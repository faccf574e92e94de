"""Runs nodes on an event loop, and records their sends and deliveries."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from antecede.engine.message import Message
from antecede.net import Node
from antecede.net.faults import Faults
from antecede.net.proxy import Proxy, open_proxy
from antecede.trace.event import Event, Kind

TIMEOUT_S = 60.0
"""A test that takes longer has hung."""

LOOPS = ("asyncio", "uvloop")


def run(
    main: Callable[[], Awaitable[None]], loop: str = "asyncio", limit_s: float = TIMEOUT_S
) -> None:
    """Run a test on one of the loops; an exception in a callback fails the test."""
    factory = None
    if loop == "uvloop":
        factory = pytest.importorskip("uvloop", reason="optional: uvloop").new_event_loop
    failures: list[object] = []
    finished: list[bool] = []

    async def guarded() -> None:
        task = asyncio.current_task()
        assert task is not None

        def fail(_: object, context: dict[str, object]) -> None:
            failures.append(context)
            task.cancel()

        asyncio.get_running_loop().set_exception_handler(fail)
        async with asyncio.timeout(limit_s):
            await main()
        finished.append(True)

    cancelled = contextlib.suppress(asyncio.CancelledError)
    with asyncio.Runner(loop_factory=factory) as runner, cancelled:
        runner.run(guarded())
    assert failures == []
    assert finished


def connect_all(*nodes: Node) -> None:
    """Add every node as a peer to every other node."""
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.add_peer(other.name, other.address)


@contextlib.asynccontextmanager
async def open_nodes(*names: str, **options: object) -> AsyncIterator[list[Node]]:
    """Open nodes on loopback that are peers of each other."""
    async with contextlib.AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(Node(name, **options))  # type: ignore[arg-type]
            for name in names
        ]
        connect_all(*nodes)
        yield nodes


@contextlib.asynccontextmanager
async def open_network(
    faults: Faults,
    *names: str,
    seed: int = 1,
    traces: Path | None = None,
    **options: object,
) -> AsyncIterator[tuple[Proxy, list[Node]]]:
    """Open nodes that reach each other only through a proxy.

    With ``traces``, each node records a trace in a folder of its name.
    """
    async with contextlib.AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(open_proxy(faults, seed))
        members = dict.fromkeys(names, ("127.0.0.1", 9))
        nodes = []
        for name in names:
            peers = {other: at for other, at in members.items() if other != name}
            trace = traces / name if traces is not None else None
            node = Node(name, peers=peers, trace=trace, **options)  # type: ignore[arg-type]
            nodes.append(await stack.enter_async_context(node))
            await proxy.add(name, node.address)
        for node in nodes:
            for peer, endpoint in proxy.peers_of(node.name).items():
                node.add_peer(peer, endpoint)
        yield proxy, nodes


async def receive_many(node: Node, count: int) -> list[Message]:
    """Receive ``count`` messages."""
    return [await node.receive() for _ in range(count)]


async def wait_until(condition: Callable[[], bool]) -> None:
    """Poll a condition until it holds."""
    while not condition():  # noqa: ASYNC110 (there is no event to wait for)
        await asyncio.sleep(0.005)


async def stays_pending(task: asyncio.Future[Any]) -> bool:
    """Return whether a task is still pending after 0.1 s."""
    for _ in range(20):
        await asyncio.sleep(0.005)
        if task.done():
            return False
    return True


class RecordedRun:
    """The sends and deliveries of all nodes, each node's in its own order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.ids = {name: index for index, name in enumerate(names)}
        self.events: list[Event] = []
        self.sent: dict[tuple[str, int], bytes] = {}
        self.corrupted: list[str] = []
        """Deliveries whose data differs from the data that the source sent."""

    async def send(self, node: Node, targets: Sequence[str], data: bytes) -> None:
        """Send and record; the node must not receive at the same time."""
        if len(targets) == 1:
            number = await node.send(targets[0], data)
        elif set(targets) == set(node.peers):
            number = await node.broadcast(data)
        else:
            number = await node.multicast(targets, data)
        self.sent[node.name, number] = data
        own = self.ids[node.name]
        ids = tuple(self.ids[target] for target in targets)
        self.events.append(
            Event(process=own, kind=Kind.SEND, source=own, number=number, targets=ids)
        )

    def record_delivery(self, node: Node, message: Message) -> None:
        """Record a delivery."""
        if self.sent.get((message.source, message.number), message.data) != message.data:
            self.corrupted.append(f"{node.name} delivered {message!r}")
        own = self.ids[node.name]
        self.events.append(
            Event(
                process=own,
                kind=Kind.DELIVER,
                source=self.ids[message.source],
                number=message.number,
                target=own,
            )
        )


Plan = Mapping[str, Sequence[tuple[str, ...]]]
"""The targets of the messages of each node, in order."""


def make_plan(
    names: Sequence[str], messages: int, random: Random, targets_max: int
) -> Plan:
    """Let every node send ``messages`` messages, each to 1 to ``targets_max`` others."""
    plan: dict[str, list[tuple[str, ...]]] = {}
    for name in names:
        others = [other for other in names if other != name]
        plan[name] = [
            tuple(random.sample(others, random.randint(1, min(targets_max, len(others)))))
            for _ in range(messages)
        ]
    return plan


async def run_application(
    node: Node,
    plan: Plan,
    recorded: RecordedRun,
    random: Random,
    *,
    large: bool = True,
) -> None:
    """Run the application of one node: send the planned messages, and receive.

    One task does both, so that it records events in the order in which they happen. Some
    calls of receive are cancelled by a timeout, which must not lose a message.
    """
    expected = sum(node.name in targets for sends in plan.values() for targets in sends)
    received = 0

    async def receive(timeout_s: float) -> None:
        nonlocal received
        with contextlib.suppress(TimeoutError):
            message = await asyncio.wait_for(node.receive(), timeout_s)
            recorded.record_delivery(node, message)
            received += 1

    for index, targets in enumerate(plan[node.name]):
        data = f"{node.name} {index}".encode() * random.choice((1, 1, 1, 1, 400))
        data = data if large else data[:400]
        await recorded.send(node, targets, data)
        while received < expected and random.random() < 0.5:
            await receive(random.choice((0.0, 0.02, 0.2)))
    while received < expected:
        await receive(1.0)
