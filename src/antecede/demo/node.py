"""One node of ``antecede demo``, in an OS process of its own.

It reads what to do as a line of JSON, says where it listens, is told where the others are,
sends to some of them at random, answers half of what it gets, and reports how it stands as
lines of JSON, until everything is delivered.
"""

import asyncio
import json
import random
import sys
from typing import Any

from antecede.engine.limits import Limits
from antecede.net.node import Node

__all__ = ["Actor", "main", "read_line", "run", "say"]

REPORT_S = 0.2
ANSWER = b"heard "
"""How an answer begins; it is not answered again, or there would be no end."""
ANSWER_S = 0.01
ANSWER_SHARE = 0.5
MULTICAST_SHARE = 0.2


def say(**words: object) -> None:
    """Tell the parent something."""
    print(json.dumps(words), flush=True)


async def read_line() -> dict[str, Any]:
    """Return what the parent says next."""
    loop = asyncio.get_running_loop()
    line = await loop.run_in_executor(None, sys.stdin.readline)
    said: dict[str, Any] = json.loads(line)
    return said


class Actor:
    """Sends, answers and counts."""

    def __init__(self, node: Node, messages: int, gap_s: float, seed: int) -> None:
        """Plan to send so many messages, with gaps of this mean."""
        self._node = node
        self._messages = messages
        self._gap_s = gap_s
        self._random = random.Random(seed)
        self._answering = False
        self._multicast = node.engine.info.capabilities.multicast

    async def send(self) -> None:
        """Send the messages of its own."""
        peers = self._node.peers
        for number in range(self._messages):
            await asyncio.sleep(self._random.expovariate(1 / self._gap_s))
            text = f"{self._node.name} says {number}".encode()
            if self._multicast and self._random.random() < MULTICAST_SHARE:
                await self._node.broadcast(text)
            else:
                await self._node.send(self._random.choice(peers), text)

    async def listen(self) -> None:
        """Take what comes, and pass half of it on: that is what makes chains."""
        async for message in self._node:
            self._answering = True
            if not message.data.startswith(ANSWER) and self._random.random() < ANSWER_SHARE:
                whom = self._random.choice(self._node.peers)
                await self._node.send(whom, ANSWER + message.data[-20:])
            self._answering = False

    async def answer_all(self) -> None:
        """Wait until everything that has come is answered."""
        while self._answering or self._node.stats().inbox:  # noqa: ASYNC110 (no event)
            await asyncio.sleep(ANSWER_S)

    async def report(self) -> None:
        """Tell the parent how it stands, again and again."""
        while True:
            self.tell("stand")
            await asyncio.sleep(REPORT_S)

    def tell(self, what: str) -> None:
        """Tell the parent how it stands."""
        stats = self._node.stats()
        say(
            what=what,
            sent=stats.engine.sent,
            released=stats.engine.released,
            retransmitted=stats.engine.retransmitted,
            delivered=stats.engine.delivered,
            waiting=stats.waiting,
            unacked=stats.unacked,
            waits_on=stats.waits_on,
        )


async def run(task: dict[str, Any]) -> None:
    """Take part in one demonstration."""
    node = Node(
        task["name"],
        bind=("127.0.0.1", task["port"]),
        peers={name: tuple(at) for name, at in task["peers"].items()},
        protocol=task["protocol"],
        limits=Limits(datagram=1232),
        trace=task["trace"],
    )
    async with node:
        say(what="ready")
        await read_line()
        actor = Actor(node, task["messages"], task["gap_s"], task["seed"])
        listener = asyncio.create_task(actor.listen())
        reporter = asyncio.create_task(actor.report())
        await actor.send()
        await node.flush()
        actor.tell("sent")
        await read_line()  # The others have sent everything, too.
        await actor.answer_all()
        await node.flush()
        reporter.cancel()
        actor.tell("flushed")
        await read_line()  # Nobody will answer any more.
        listener.cancel()


def main() -> None:
    """Run one node, as the parent says on standard input."""
    task: dict[str, Any] = json.loads(sys.stdin.readline())
    asyncio.run(run(task))


if __name__ == "__main__":
    main()
