"""Each fault of a group has an event, a line in the log and an answer that names it.

The nodes have real sockets, and a peer that is killed is a process. ``test_events.py`` and
``test_waiting.py`` test the same faults for longer, in the simulation.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from antecede import Limits, Node
from antecede.core.process import NEVER
from antecede.engine.events import (
    DuplicateName,
    Gap,
    InboxFull,
    KeyMismatch,
    LimitsMismatch,
    NodeEvent,
    PeerSilent,
    ReceiveLoopDeadlock,
    UnknownPeer,
)
from antecede.net.wait_reports import JoinReport, WaitReport
from tests.net.harness import connect_all, run, wait_until
from tests.net.limits import quick_limits

NOBODY = ("127.0.0.1", 9)
"""An address at which no node listens."""

CHILD = """
import json, sys
from antecede import sync

name, peer, address = json.loads(sys.argv[1])
with sync.Node(name, peers={peer: tuple(address)}) as node:
    print(node.address[1], flush=True)
    for message in node:
        pass
"""


def limits(**bounds: float) -> Limits:
    """Return limits under which faults are reported soon."""
    return quick_limits(**{"silence_s": 0.5, "lease_s": 2.0, **bounds})


@dataclass
class Scene:
    """A fault that is going on."""

    node: Node
    """Its events and its log name the fault."""
    waiting: Callable[[], Awaitable[list[WaitReport | JoinReport]]]
    """Asks a node what a message waits for that does not arrive because of the fault."""


class Stage:
    """Opens nodes, records their events, and closes all of them in the end."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.events: dict[Node, list[NodeEvent]] = {}
        self.addresses: dict[str, tuple[str, int]] = {}

    async def open(self, name: str, bounds: Limits | None = None, **options: Any) -> Node:  # noqa: ANN401 (those of Node)
        found: list[NodeEvent] = []
        node = Node(name, limits=bounds or limits(), on_event=found.append, **options)
        await node.open()
        self._stack.push_async_callback(node.close, 0.0)
        self.events[node] = found
        return node

    async def open_pair(self, bounds: Limits | None = None) -> tuple[Node, Node]:
        """Open ann and bob, who have met."""
        ann, bob = await self.open("ann", bounds), await self.open("bob", bounds)
        connect_all(ann, bob)
        for source, target in ((ann, bob), (bob, ann)):
            await source.send(target.name, b"hello")
            await target.receive()
        await asyncio.gather(ann.flush(), bob.flush())
        return ann, bob

    async def start_process(self, name: str, peer: Node) -> asyncio.subprocess.Process:
        """Start a node in a process that knows a node of the test, and let both meet."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CHILD,
            json.dumps([name, peer.name, peer.address]),
            stdout=asyncio.subprocess.PIPE,
        )

        async def end() -> None:
            if process.returncode is None:
                process.kill()
                await process.wait()

        self._stack.push_async_callback(end)
        assert process.stdout is not None
        self.addresses[name] = "127.0.0.1", int(await process.stdout.readline())
        peer.add_peer(name, self.addresses[name])
        await peer.send(name, b"hello")
        await peer.flush()
        return process

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._stack.callback(task.cancel)


async def wrong_key(stage: Stage) -> Scene:
    ann = await stage.open("ann", key=bytes(range(32)))
    bob = await stage.open("bob", key=bytes(32))
    connect_all(ann, bob)
    await ann.send("bob", b"x")
    return Scene(ann, ann.waiting)


async def wrong_address(stage: Stage) -> Scene:
    ann = await stage.open("ann", peers={"bob": NOBODY})
    await ann.send("bob", b"x")
    return Scene(ann, ann.waiting)


async def duplicate_name(stage: Stage) -> Scene:
    """Another node with the name bob starts after the first one, and both send to ann."""
    ann, bob = await stage.open_pair()
    second = await stage.open("bob", peers={"ann": ann.address})

    async def send(node: Node) -> None:
        while True:
            await node.send("ann", b"x")
            await asyncio.sleep(0.1)

    for node in (bob, second):
        stage.start(send(node))
    return Scene(ann, bob.waiting)


async def not_added_back(stage: Stage) -> Scene:
    """Ann has removed bob, who sends to her."""
    ann, bob = await stage.open_pair()
    await ann.remove_peer("bob")
    await bob.send("ann", b"x")
    return Scene(ann, bob.waiting)


async def silent(stage: Stage) -> Scene:
    """The process of bob is killed."""
    ann = await stage.open("ann")
    process = await stage.start_process("bob", ann)
    process.kill()
    await process.wait()
    await ann.send("bob", b"x")
    return Scene(ann, ann.waiting)


async def gave_up(stage: Stage) -> Scene:
    """Ann removes bob, while he does not run, and adds him again.

    The number of her message that bob never gets is 2.
    """
    ann = await stage.open("ann")
    process = await stage.start_process("bob", ann)
    address = stage.addresses["bob"]
    process.kill()
    await process.wait()
    assert await ann.send("bob", b"x") == 2
    await ann.remove_peer("bob")
    ann.add_peer("bob", address)
    return Scene(ann, lambda: ann.waiting("ann", 2))


async def peer_gave_up(stage: Stage) -> Scene:
    """Ann removes bob, who cannot reach her then, and adds him again: he has a gap.

    Her message 2 waits for a handshake with the address that she has for bob.
    """
    ann, bob = await stage.open_pair()
    address = bob.address
    ann.add_peer("bob", NOBODY)
    assert await ann.send("bob", b"x") == 2
    await ann.remove_peer("bob")
    ann.add_peer("bob", address)
    return Scene(bob, lambda: bob.waiting("ann", 2))


async def limits_mismatch(stage: Stage) -> Scene:
    """Bob refuses what ann transmits after a pause, because his lease is shorter."""
    ann = await stage.open("ann", limits(lease_s=60.0))
    bob = await stage.open("bob", limits(lease_s=2.0, keep_alive_s=NEVER))
    connect_all(ann, bob)
    await ann.send("bob", b"x")
    await bob.receive()
    await ann.flush()
    await asyncio.sleep(2.5)  # Longer than the lease of bob.
    await ann.send("bob", b"x")
    return Scene(ann, ann.waiting)


async def full_inbox(stage: Stage) -> Scene:
    """The application of ann receives nothing."""
    bounds = limits(inbox_messages_max=4, window_copies_max=4)
    ann, bob = await stage.open_pair(bounds)

    async def send() -> None:
        while True:
            await bob.send("ann", b"x")

    stage.start(send())
    return Scene(ann, bob.waiting)


async def deadlock(stage: Stage) -> Scene:
    """Both nodes answer each message with two, inside the loop that receives."""
    bounds = limits(inbox_messages_max=20, window_copies_max=20)
    ann, bob = await stage.open_pair(bounds)

    async def answer(node: Node, peer: str) -> None:
        for _ in range(5):
            await node.send(peer, b"x")
        async for _ in node:
            await node.send(peer, b"x")
            await node.send(peer, b"x")

    stage.start(answer(ann, "bob"))
    stage.start(answer(bob, "ann"))
    return Scene(ann, ann.waiting)


FAULTS: list[tuple[Callable[[Stage], Awaitable[Scene]], type[NodeEvent], str, str]] = [
    (wrong_key, KeyMismatch, "same key", "give both nodes the same key"),
    (
        wrong_address,
        PeerSilent,
        "which was never met at 127.0.0.1:9 for",
        "never met: no answer from 127.0.0.1:9",
    ),
    (
        duplicate_name,
        DuplicateName,
        "two running nodes have the name bob",
        "two running nodes have the name bob",
    ),
    (
        not_added_back,
        UnknownPeer,
        "bob was removed, but transmits from 127.0.0.1:",
        "has removed bob: call add_peer there",
    ),
    (silent, PeerSilent, "no answer from bob at", "waits for an ack of bob, silent for"),
    (gave_up, Gap, "gave up messages 2 to bob, after message 1", "was given up by ann"),
    (peer_gave_up, Gap, "gave up messages from ann after message 1", "was given up by ann"),
    (
        limits_mismatch,
        LimitsMismatch,
        "Limits.lease_s is 60 here and 2 at bob",
        "Limits.lease_s is 60 here and 2 at bob: give both nodes the same value",
    ),
    (
        full_inbox,
        InboxFull,
        "receive in a task of its own",
        "which has a full inbox: its application receives nothing",
    ),
    (
        deadlock,
        ReceiveLoopDeadlock,
        "send from another task",
        "these wait for each other",
    ),
]
"""What is wrong, the event, what its line in the log says, and what the answer says."""


@pytest.mark.parametrize(
    ("fault", "kind", "line", "answer"), FAULTS, ids=[each[0].__name__ for each in FAULTS]
)
def test_a_fault_has_an_event_a_log_line_and_an_answer_that_names_it(
    fault: Callable[[Stage], Awaitable[Scene]],
    kind: type[NodeEvent],
    line: str,
    answer: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            stage = Stage(stack)
            scene = await fault(stage)
            found = stage.events[scene.node]
            await wait_until(lambda: any(type(event) is kind for event in found))
            texts: list[str] = []
            while not any(answer in text for text in texts):
                texts += [str(report) for report in await scene.waiting()]
                await asyncio.sleep(0.05)

    run(main)
    lines = [
        record.getMessage()
        for record in caplog.records
        if record.name == "antecede.net.events" and record.levelno == logging.WARNING
    ]
    assert any(line in text for text in lines), lines
