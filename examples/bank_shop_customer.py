"""The customer pays, then collects: the shop must hear of the payment first.

The bank tells the shop, *then* the customer. The customer, who now knows, asks the shop for
the goods. The bank's word may be slow on its way: an ordering of each pair (``fifo``) lets
the customer's question overtake it, and the shop refuses a customer who has paid. Causal
order (``hybrid``) does not.

    python examples/bank_shop_customer.py [PROTOCOL]
"""

import asyncio
import sys

from antecede import Node


async def run_bank(bank: Node) -> None:
    """Confirm every payment to the shop, then to the customer."""
    async for message in bank:
        account = message.data.removeprefix(b"pay from ")
        await bank.send("shop", b"paid: " + account)
        await bank.send(message.source, b"confirmed: " + account)


async def run_shop(shop: Node) -> None:
    """Hand out the goods to whoever has paid."""
    paid: set[bytes] = set()
    async for message in shop:
        if message.source == "bank":
            paid.add(message.data.removeprefix(b"paid: "))
        else:
            account = message.data.removeprefix(b"collect for ")
            answer = b"here you are" if account in paid else b"you have not paid"
            await shop.send(message.source, answer)


async def shop_once(protocol: str) -> str:
    """Pay and collect, and return what the shop answers."""
    nodes = [Node(name, protocol=protocol) for name in ("bank", "shop", "customer")]
    bank, shop, customer = nodes
    async with bank, shop, customer:
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.add_peer(other.name, other.address)
        tasks = [asyncio.create_task(run_bank(bank)), asyncio.create_task(run_shop(shop))]
        await customer.send("bank", b"pay from 4711")
        await customer.receive()  # Confirmed.
        await customer.send("shop", b"collect for 4711")
        answer = (await customer.receive()).data.decode()
        for task in tasks:
            task.cancel()
    return answer


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "hybrid"
    print(f"{chosen}: the shop says: {asyncio.run(shop_once(chosen))}")
