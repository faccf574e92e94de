"""The application of ``antecede demo`` in one program: nodes that send and answer messages.

Each node sends messages to random peers, and answers half of those that it receives. The
demonstration runs the same class in processes of their own, on a network with faults.

    python examples/chatter.py
"""

import asyncio

from antecede import Node
from antecede.demo.node import DemoApplication


async def main(messages: int = 20) -> None:
    """Run three nodes until all messages are answered."""
    async with Node("ann") as ann, Node("bob") as bob, Node("eve") as eve:
        nodes = [ann, bob, eve]
        for node in nodes:
            for peer in nodes:
                if peer is not node:
                    node.add_peer(peer.name, peer.address)
        chatters = [
            DemoApplication(node, messages, gap_s=0.005, seed=seed)
            for seed, node in enumerate(nodes)
        ]
        tasks = [asyncio.create_task(chatter.receive()) for chatter in chatters]
        await asyncio.gather(*(chatter.send() for chatter in chatters))
        for _ in range(2):  # Wait for the messages, then for the answers.
            await asyncio.gather(*(node.flush() for node in nodes))
            await asyncio.gather(*(chatter.wait_until_answered() for chatter in chatters))
        for node in nodes:
            stats = node.stats().engine
            print(f"{node.name} sent {stats.sent}, and received {stats.delivered}")
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
