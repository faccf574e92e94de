"""A text that several people edit at the same time, and their cursors.

Changes are messages in causal order. Cursors are unordered messages: no message waits for
them. pycrdt merges the changes. It is not a part of antecede: ``pip install pycrdt``.
"""

import asyncio
from typing import Any

from pycrdt import Awareness, Doc, Text, TransactionEvent

from antecede import Node


class Provider:
    """Connects a document, and the cursors of its editors, with the peers of a node."""

    def __init__(self, node: Node, doc: Doc[Any], awareness: Awareness) -> None:
        self.node, self.doc, self.awareness = node, doc, awareness
        self.outgoing: asyncio.Queue[tuple[bytes, bool]] = asyncio.Queue()
        self.is_applying = False
        doc.observe(self.text_changed)
        awareness.observe(self.cursor_moved)

    def text_changed(self, event: TransactionEvent) -> None:
        if not self.is_applying:  # Else the change comes from another process.
            self.outgoing.put_nowait((event.update, True))

    def cursor_moved(self, topic: str, change: tuple[dict[str, Any], Any]) -> None:
        if topic == "update" and change[1] == "local":
            own = self.awareness.encode_awareness_update([self.awareness.client_id])
            self.outgoing.put_nowait((own, False))

    async def send(self) -> None:
        while True:
            data, is_change = await self.outgoing.get()
            await self.node.broadcast(data, ordered=is_change)

    async def receive(self) -> None:
        async for message in self.node:
            if message.ordered:
                self.is_applying = True
                self.doc.apply_update(message.data)
                self.is_applying = False
            else:
                self.awareness.apply_awareness_update(message.data, message.source)


async def write(node: Node, words: str, all_done: asyncio.Barrier) -> None:
    """Append words; wait for the words and the cursors of all three writers."""
    doc: Doc[Any] = Doc()
    text = doc.get("text", type=Text)
    awareness = Awareness(doc)
    provider = Provider(node, doc, awareness)
    tasks = [asyncio.create_task(each) for each in (provider.send(), provider.receive())]
    for word in words.split():
        text += word + " "
        await asyncio.sleep(0.01)
    while len(str(text).split()) < 12 or len(awareness.states) < 3:
        awareness.set_local_state({"name": node.name, "cursor": len(str(text))})
        await asyncio.sleep(0.02)
    names = sorted(state["name"] for state in awareness.states.values())
    print(f"{node.name} sees {', '.join(names)} and: {text}", flush=True)
    await all_done.wait()  # The others may still need this cursor.
    for task in tasks:
        task.cancel()


async def main() -> None:
    """Let three writers write at the same time."""
    async with Node("ann") as ann, Node("bob") as bob, Node("eve") as eve:
        for node in (ann, bob, eve):
            for peer in {ann, bob, eve} - {node}:
                node.add_peer(peer.name, peer.address)
        all_done = asyncio.Barrier(3)
        await asyncio.gather(
            write(ann, "Ann was here first.", all_done),
            write(bob, "Bob came much later.", all_done),
            write(eve, "Eve saw it all.", all_done),
        )


if __name__ == "__main__":
    asyncio.run(main())
