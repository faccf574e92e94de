"""One node of ``antecede demo``, as an OS process.

The process reads its parameters as one line of JSON, sends messages to random peers,
answers half of the messages that it receives, and writes reports, until all messages are
delivered. See :mod:`antecede.demo.demo` for the phases.
"""

import asyncio
import json
import random
import sys
from typing import Any, Final

from antecede.engine.limits import Limits
from antecede.net.node import Node

__all__ = ["DemoApplication", "main", "run_node"]

REPORT_INTERVAL_S: Final = 0.2
ANSWER_PREFIX: Final = b"heard "
"""Marks an answer; nodes do not answer answers, so that the traffic ends."""
POLL_INTERVAL_S: Final = 0.01
ANSWER_PROBABILITY: Final = 0.5
BROADCAST_PROBABILITY: Final = 0.2


def _write_report(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


async def _wait_for_parent() -> None:
    """Wait for a line from the parent: all nodes have reached the current phase."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.readline)


class DemoApplication:
    """The application of one node: sends, answers and reports."""

    def __init__(self, node: Node, messages: int, gap_s: float, seed: int) -> None:
        """Prepare to send ``messages`` messages with a mean gap of ``gap_s`` seconds."""
        self._node = node
        self._messages = messages
        self._gap_s = gap_s
        self._random = random.Random(seed)
        self._is_answering = False
        self._can_broadcast = node.engine.info.capabilities.multicast

    async def send(self) -> None:
        """Send the messages of this node."""
        peers = self._node.peers
        for number in range(self._messages):
            await asyncio.sleep(self._random.expovariate(1 / self._gap_s))
            text = f"{self._node.name} says {number}".encode()
            if self._can_broadcast and self._random.random() < BROADCAST_PROBABILITY:
                await self._node.broadcast(text)
            else:
                await self._node.send(self._random.choice(peers), text)

    async def receive(self) -> None:
        """Receive messages, and answer half of them to a random peer.

        The answers create chains of causally dependent messages.
        """
        async for message in self._node:
            self._is_answering = True
            is_answer = message.data.startswith(ANSWER_PREFIX)
            if not is_answer and self._random.random() < ANSWER_PROBABILITY:
                target = self._random.choice(self._node.peers)
                await self._node.send(target, ANSWER_PREFIX + message.data[-20:])
            self._is_answering = False

    async def wait_until_answered(self) -> None:
        """Wait until all received messages are answered."""
        while self._is_answering or self._node.stats().inbox:  # noqa: ASYNC110 (no event)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def report_periodically(self) -> None:
        """Report until cancelled."""
        while True:
            self.report("running")
            await asyncio.sleep(REPORT_INTERVAL_S)

    def report(self, phase: str) -> None:
        """Write the phase and the statistics of the node for the parent."""
        stats = self._node.stats()
        _write_report(
            phase=phase,
            sent=stats.engine.sent,
            released=stats.engine.released,
            retransmitted=stats.engine.retransmitted,
            delivered=stats.engine.delivered,
            queued=stats.queued,
            in_flight=stats.in_flight,
            waiting_for=stats.waiting_for,
        )


async def run_node(parameters: dict[str, Any]) -> None:
    """Run one node through all phases."""
    node = Node(
        parameters["name"],
        bind=("127.0.0.1", parameters["port"]),
        peers={name: tuple(at) for name, at in parameters["peers"].items()},
        protocol=parameters["protocol"],
        limits=Limits(datagram_bytes_max=1232),
        trace=parameters["trace"],
        metrics=parameters["metrics"],
    )
    async with node:
        _write_report(phase="ready")
        await _wait_for_parent()
        application = DemoApplication(
            node, parameters["messages"], parameters["gap_s"], parameters["seed"]
        )
        receiving = asyncio.create_task(application.receive())
        reporting = asyncio.create_task(application.report_periodically())
        await application.send()
        await node.flush()
        application.report("sent")
        await _wait_for_parent()  # All nodes have sent their messages.
        await application.wait_until_answered()
        await node.flush()
        reporting.cancel()
        application.report("flushed")
        await _wait_for_parent()  # No node will send another answer.
        receiving.cancel()


def main() -> None:
    """Run one node with the parameters from standard input."""
    parameters: dict[str, Any] = json.loads(sys.stdin.readline())
    asyncio.run(run_node(parameters))


if __name__ == "__main__":
    main()
