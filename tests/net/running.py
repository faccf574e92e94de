"""Nodes on an event loop, and what is recorded of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from antecede.engine.message import Message
from antecede.net import Node
from antecede.net.proxy import Faults, Proxy, open_proxy
from antecede.trace.event import Event, Kind

LONG_S = 60.0
"""After this a test has hung. Nothing is expected to take that long."""

LOOPS = ("asyncio", "uvloop")


def run(
    main: Callable[[], Awaitable[None]], loop: str = "asyncio", limit_s: float = LONG_S
) -> None:
    """Run a test on one of the loops; an exception in a callback fails it, too."""
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


def meet(*nodes: Node) -> None:
    """Let every node know all others."""
    for node in nodes:
        for other in nodes:
            if other is not node:
                node.add_peer(other.name, other.address)


@contextlib.asynccontextmanager
async def open_nodes(*names: str, **options: object) -> AsyncIterator[list[Node]]:
    """Open nodes on loopback that know each other."""
    async with contextlib.AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(Node(name, **options))  # type: ignore[arg-type]
            for name in names
        ]
        meet(*nodes)
        yield nodes


@contextlib.asynccontextmanager
async def open_network(
    faults: Faults, *names: str, seed: int = 1, **options: object
) -> AsyncIterator[tuple[Proxy, list[Node]]]:
    """Open nodes that reach each other through a proxy only."""
    async with contextlib.AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(open_proxy(faults, seed))
        members = dict.fromkeys(names, ("127.0.0.1", 9))
        nodes = []
        for name in names:
            peers = {other: at for other, at in members.items() if other != name}
            node = Node(name, peers=peers, **options)  # type: ignore[arg-type]
            nodes.append(await stack.enter_async_context(node))
            await proxy.add(name, node.address)
        for node in nodes:
            for other, front in proxy.others(node.name).items():
                node.add_peer(other, front)
        yield proxy, nodes


async def take(node: Node, count: int) -> list[Message]:
    """Receive so many messages."""
    return [await node.receive() for _ in range(count)]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nobody tells."""
    while not condition():  # noqa: ASYNC110 (there is no event to wait for)
        await asyncio.sleep(0.005)


async def is_waiting(task: asyncio.Future[Any]) -> bool:
    """Tell whether a task still waits once everything else has had its turn."""
    for _ in range(20):
        await asyncio.sleep(0.005)
        if task.done():
            return False
    return True


class History:
    """What the applications of a run have sent and got, each in its own order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.ids = {name: place for place, name in enumerate(names)}
        self.events: list[Event] = []
        self.sent: dict[tuple[str, int], bytes] = {}
        self.wrong: list[str] = []
        """Messages whose data is not what their source sent under that number."""

    async def send(self, node: Node, targets: Sequence[str], data: bytes) -> None:
        """Send; nothing may be received by the same application meanwhile."""
        if len(targets) == 1:
            number = await node.send(targets[0], data)
        elif set(targets) == set(node.peers):
            number = await node.broadcast(data)
        else:
            number = await node.multicast(targets, data)
        self.sent[node.name, number] = data
        who = self.ids[node.name]
        whom = tuple(self.ids[target] for target in targets)
        self.events.append(
            Event(process=who, kind=Kind.SEND, source=who, number=number, targets=whom)
        )

    def got(self, node: Node, message: Message) -> None:
        """Note that a message was handed over."""
        if self.sent.get((message.source, message.number), message.data) != message.data:
            self.wrong.append(f"{node.name} got {message!r}")
        who = self.ids[node.name]
        source = self.ids[message.source]
        self.events.append(
            Event(
                process=who,
                kind=Kind.DELIVER,
                source=source,
                number=message.number,
                target=who,
            )
        )


Plan = Mapping[str, Sequence[tuple[str, ...]]]
"""The targets of what each node sends, in turn."""


def make_plan(names: Sequence[str], messages: int, random: Random, most: int) -> Plan:
    """Let every node send so many messages to some others, ``most`` at most at a time."""
    plan: dict[str, list[tuple[str, ...]]] = {}
    for name in names:
        others = [other for other in names if other != name]
        plan[name] = [
            tuple(random.sample(others, random.randint(1, min(most, len(others)))))
            for _ in range(messages)
        ]
    return plan


async def play(
    node: Node,
    plan: Plan,
    history: History,
    random: Random,
    *,
    large: bool = True,
) -> None:
    """Be the application of one node: send what is planned, and take what comes.

    One task does both, so that what it records is in the order in which it happened.
    Waiting for a message is given up at times, which must not lose one.
    """
    due = sum(node.name in targets for sends in plan.values() for targets in sends)
    got = 0

    async def receive(patience_s: float) -> None:
        nonlocal got
        with contextlib.suppress(TimeoutError):
            history.got(node, await asyncio.wait_for(node.receive(), patience_s))
            got += 1

    for place, targets in enumerate(plan[node.name]):
        data = f"{node.name} {place}".encode() * random.choice((1, 1, 1, 1, 400))
        data = data if large else data[:400]
        await history.send(node, targets, data)
        while got < due and random.random() < 0.5:
            await receive(random.choice((0.0, 0.02, 0.2)))
    while got < due:
        await receive(1.0)
