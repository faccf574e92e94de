"""A replicated set: an operation-based CRDT that relies on causal delivery.

Every replica may add and remove words concurrently. An add has a unique tag; a remove
names the tags that its replica has seen. Causal order delivers a remove after the adds
that it names, so no tombstones are needed; a concurrent add wins over a remove.

    python examples/replicated_set.py
"""

import asyncio
import json
import random

from antecede import Message, Node


class ReplicatedSet:
    """A set of words, equal at all replicas when all messages are delivered."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.tags: dict[str, set[str]] = {}
        self.counter = 0

    async def add(self, word: str) -> None:
        """Add a word here, and at the other replicas when they deliver the message."""
        self.counter += 1
        await self._update("add", word, [f"{self.node.name}/{self.counter}"])

    async def remove(self, word: str) -> None:
        """Remove the tags of a word that this replica has seen."""
        await self._update("remove", word, sorted(self.tags.get(word, ())))

    async def _update(self, operation: str, word: str, tags: list[str]) -> None:
        self._apply(operation, word, tags)
        await self.node.broadcast(json.dumps([operation, word, tags]).encode())

    def deliver(self, message: Message) -> None:
        """Apply an operation of another replica."""
        self._apply(*json.loads(message.data))

    def _apply(self, operation: str, word: str, tags: list[str]) -> None:
        known = self.tags.setdefault(word, set())
        if operation == "add":
            known.update(tags)
        else:
            known.difference_update(tags)

    def words(self) -> list[str]:
        """Return the words in the set."""
        return sorted(word for word, tags in self.tags.items() if tags)


async def main(operations: int = 50) -> list[list[str]]:
    """Run random operations at three replicas, and return the words of each."""
    async with Node("a") as a, Node("b") as b, Node("c") as c:
        nodes = [a, b, c]
        for node in nodes:
            for peer in nodes:
                if peer is not node:
                    node.add_peer(peer.name, peer.address)
        replicas = [ReplicatedSet(node) for node in nodes]

        async def update(replica: ReplicatedSet) -> None:
            for _ in range(operations):
                operation = random.choice([replica.add, replica.add, replica.remove])
                await operation(random.choice(["ash", "elm", "fir", "oak", "yew"]))

        async def receive(replica: ReplicatedSet) -> None:
            for _ in range(operations * 2):
                replica.deliver(await replica.node.receive())

        await asyncio.gather(*map(update, replicas), *map(receive, replicas))
        return [replica.words() for replica in replicas]


if __name__ == "__main__":
    print(*asyncio.run(main()), sep="\n")
