"""A replicated set: an operation-based CRDT that is simple because delivery is causal.

Everybody may add and remove at once. An add has a tag that nobody else uses; a remove
names the tags that its author had seen. Causal order brings a remove after the adds that
it names, so no tombstones are needed, and concurrent adds win.

    python examples/replicated_set.py
"""

import asyncio
import json
import random

from antecede import Message, Node


class ReplicatedSet:
    """A set of words, the same at all replicas once everything is delivered."""

    def __init__(self, node: Node) -> None:
        """Start empty."""
        self.node = node
        self.tags: dict[str, set[str]] = {}
        self.counter = 0

    async def add(self, word: str) -> None:
        """Add a word here at once, and elsewhere when they hear of it."""
        self.counter += 1
        await self._apply_and_tell("add", word, [f"{self.node.name}/{self.counter}"])

    async def remove(self, word: str) -> None:
        """Remove what this replica has seen of a word."""
        await self._apply_and_tell("remove", word, sorted(self.tags.get(word, ())))

    async def _apply_and_tell(self, what: str, word: str, tags: list[str]) -> None:
        self._apply(what, word, tags)
        await self.node.broadcast(json.dumps([what, word, tags]).encode())

    def deliver(self, message: Message) -> None:
        """Apply what another replica has done."""
        self._apply(*json.loads(message.data))

    def _apply(self, what: str, word: str, tags: list[str]) -> None:
        known = self.tags.setdefault(word, set())
        if what == "add":
            known.update(tags)
        else:
            known.difference_update(tags)

    def words(self) -> list[str]:
        """Return what is in the set."""
        return sorted(word for word, tags in self.tags.items() if tags)


async def main(operations: int = 50) -> list[list[str]]:
    """Let three replicas add and remove at random; return what each ends with."""
    async with Node("a") as a, Node("b") as b, Node("c") as c:
        nodes = [a, b, c]
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.add_peer(other.name, other.address)
        replicas = [ReplicatedSet(node) for node in nodes]

        async def work(replica: ReplicatedSet) -> None:
            for _ in range(operations):
                act = random.choice([replica.add, replica.add, replica.remove])
                await act(random.choice(["ash", "elm", "fir", "oak", "yew"]))

        async def listen(replica: ReplicatedSet) -> None:
            for _ in range(operations * 2):
                replica.deliver(await replica.node.receive())

        await asyncio.gather(*map(work, replicas), *map(listen, replicas))
        return [replica.words() for replica in replicas]


if __name__ == "__main__":
    print(*asyncio.run(main()), sep="\n")
