"""The bytes that name processes between nodes: ``python -m bench.node_names NODES SENDS``.

The program simulates nodes with ``bounded`` in virtual time, and prints the bytes of names
and of their definitions per message as JSON. It counts them in the code of the nodes, which
must be interpreted.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from random import Random

from antecede import Node
from antecede.engine.name_exchange import NameExchange
from antecede.testing import Faults, Simulation

DELAY_S = 0.05
GAP_S = 10 * DELAY_S
DRAIN_S = 60.0


def count_name_bytes() -> list[int]:
    """Count the bytes of all names that are written from now on, in the list returned."""
    counted = [0, 0]
    write = NameExchange.write

    def counting(self: NameExchange, buffer: bytearray, numbers: list[int]) -> None:
        before = len(buffer)
        write(self, buffer, numbers)
        counted[0] += len(buffer) - before
        counted[1] += len(numbers)

    NameExchange.write = counting  # type: ignore[method-assign]
    return counted


def make_program(
    name: str, addresses: dict[str, str], sends: int
) -> Callable[[], Coroutine[None, None, None]]:
    """Return the program of a node that sends to random peers, and receives."""
    peers = {peer: address for peer, address in addresses.items() if peer != name}
    random = Random(name)

    async def receive(node: Node) -> None:
        while True:
            await node.receive()

    async def program() -> None:
        bind = addresses[name]
        async with Node(name, bind=bind, peers=peers, protocol="bounded") as node:
            receiver = asyncio.create_task(receive(node))
            await asyncio.sleep(1.0)
            for _ in range(sends):
                await asyncio.sleep(random.expovariate(1 / GAP_S))
                await node.send(random.choice(list(peers)), b"")
            await asyncio.sleep(DRAIN_S)
            receiver.cancel()

    return program


def measure(nodes: int, sends: int) -> dict[str, float]:
    """Return the bytes and the definitions per message."""
    addresses = {f"node{i}": f"127.0.0.1:{9000 + i}" for i in range(nodes)}
    counted = count_name_bytes()
    with Simulation(seed=1, faults=Faults(jitter_s=2 * DELAY_S)) as simulation:
        for name in addresses:
            simulation.start(name, make_program(name, addresses, sends))
        simulation.run(limit_s=sends * GAP_S * 10 + 2 * DRAIN_S)
        if not simulation.verdict().held:
            raise SystemExit("bounded violated causal order")
    messages = nodes * sends
    return {
        "bytes": counted[0] / messages,
        "definitions": counted[1] / messages,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
