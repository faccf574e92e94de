"""A customer pays, then collects the goods: the shop must learn of the payment first.

The bank notifies the shop and *then* the customer, who collects the goods. The message
from the bank to the shop may be slow. With FIFO order the customer's message can overtake
it, and the shop turns away a customer who has paid. With causal order it cannot.

    python examples/bank_shop_customer.py [PROTOCOL]
"""

import asyncio
import sys

from antecede import Node

Answers = asyncio.Queue[tuple[str, bytes]]


async def run_bank(bank: Node, answers: Answers) -> None:
    """Confirm every payment to the shop, then to the customer."""
    async for message in bank:
        account = message.data.removeprefix(b"pay from ")
        answers.put_nowait(("shop", b"paid: " + account))
        answers.put_nowait((message.source, b"confirmed: " + account))


async def run_shop(shop: Node, answers: Answers) -> None:
    """Hand out the goods to every customer who has paid."""
    paid: set[bytes] = set()
    async for message in shop:
        if message.source == "bank":
            paid.add(message.data.removeprefix(b"paid: "))
        else:
            account = message.data.removeprefix(b"collect for ")
            answer = b"here you are" if account in paid else b"you have not paid"
            answers.put_nowait((message.source, answer))


async def send_answers(node: Node, answers: Answers) -> None:
    """Send the answers of a node.

    A node that sends inside its receiving loop receives nothing while ``send`` waits. Two
    such nodes can block each other.
    """
    while True:
        target, data = await answers.get()
        await node.send(target, data)


async def pay_and_collect(protocol: str) -> str:
    """Pay, collect, and return the answer of the shop."""
    nodes = [Node(name, protocol=protocol) for name in ("bank", "shop", "customer")]
    bank, shop, customer = nodes
    async with bank, shop, customer:
        for node in nodes:
            for peer in nodes:
                if peer is not node:
                    node.add_peer(peer.name, peer.address)
        tasks = []
        for node, run in ((bank, run_bank), (shop, run_shop)):
            answers = Answers()
            tasks.append(asyncio.create_task(run(node, answers)))
            tasks.append(asyncio.create_task(send_answers(node, answers)))
        await customer.send("bank", b"pay from 4711")
        await customer.receive()  # The confirmation.
        await customer.send("shop", b"collect for 4711")
        answer = (await customer.receive()).data.decode()
        for task in tasks:
            task.cancel()
    return answer


if __name__ == "__main__":
    protocol = sys.argv[1] if len(sys.argv) > 1 else "hybrid"
    print(f"{protocol}: the shop says: {asyncio.run(pay_and_collect(protocol))}")
