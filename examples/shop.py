"""A shop with two rooms: bank, shop and customer in one, shop and store in the other.

    python examples/shop.py shop 127.0.0.1:9001
    python examples/shop.py bank 127.0.0.1:9002 127.0.0.1:9001
    python examples/shop.py store 127.0.0.1:9003 127.0.0.1:9001
    python examples/shop.py customer 127.0.0.1:9004 127.0.0.1:9001

The customer pays for each line of its input, and orders when the bank has confirmed the
payment. The shop learns of the payment from the bank and of the order from the customer.
Causal order delivers the payment first. The store is in a room of its own, so a silent
store does not delay the other room.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from antecede import Node, Room

Join = Callable[[str], Awaitable[Room]]


async def wait_for(room: Room, name: str) -> None:
    """Wait until a node has joined a room."""
    events = room.events()
    while name not in room.members:
        await anext(events)


async def run_bank(join: Join) -> None:
    """Confirm every payment to all members of the room."""
    counter = await join("counter")
    async for message in counter:
        if message.value[0] == "pay":
            await counter.broadcast(["paid", message.value[1]])


async def run_store(join: Join) -> None:
    """Pack the sold goods."""
    store = await join("store")
    async for message in store:
        await store.broadcast(["packed", message.value[1]])


async def run_shop(join: Join) -> None:
    """Sell the paid goods, and send the store the order to pack them."""
    counter, store = await join("counter"), await join("store")
    paid: set[str] = set()
    await wait_for(store, "store")

    async def report() -> None:
        async for message in store:
            await counter.broadcast(message.value)

    reporting = asyncio.create_task(report())
    async for message in counter:
        kind, item = message.value
        if kind == "paid":
            paid.add(item)
        elif kind == "order":
            await counter.broadcast(["sold" if item in paid else "not paid", item])
            if item in paid:
                await store.broadcast(["pack", item])
    await reporting


async def run_customer(join: Join) -> None:
    """Buy each line of the input, and print the answers of the shop."""
    counter = await join("counter")
    await wait_for(counter, "bank")

    async def order() -> None:
        async for message in counter:
            kind, item = message.value
            if kind == "paid":
                await counter.broadcast(["order", item])
            else:
                print(kind, item, flush=True)

    ordering = asyncio.create_task(order())
    while line := await asyncio.to_thread(sys.stdin.readline):
        await counter.broadcast(["pay", line.strip()])
    await counter.leave()
    await ordering


async def main(role: str, bind: str, *seeds: str) -> None:
    """Run one role, through any node that runs already."""
    coding: Any = {"encode": lambda value: json.dumps(value).encode(), "decode": json.loads}
    async with Node(role, bind=bind, seeds=seeds, **coding) as node:
        founds = None if role == "shop" else False
        run = globals()[f"run_{role}"]
        await run(lambda room: node.join(room, found=founds))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
