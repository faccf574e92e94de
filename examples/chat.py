"""A chat in which no participant sees an answer before its question.

    python examples/chat.py                                     three scripted participants
    python examples/chat.py ann 127.0.0.1:9001                  you, as ann, the first one
    python examples/chat.py bob 127.0.0.1:9002 127.0.0.1:9001   you, as bob, through ann

Type a line to send it to all participants; end with Ctrl-D. Participants that join later
get the earlier lines.
"""

import asyncio
import json
import sys

from antecede import Node, Room


class Transcript:
    """The lines that one participant has seen."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[str] = []

    def snapshot(self) -> bytes:
        return json.dumps(self._lines).encode()

    def restore(self, state: bytes) -> None:
        """Show the lines that were sent before this participant joined."""
        self._lines = json.loads(state)
        for line in self._lines:
            print(f"[{self._name} sees] {line}", flush=True)

    def add(self, source: str, text: str) -> None:
        self._lines.append(f"{source}: {text}")
        if source != self._name:
            print(f"[{self._name} sees] {source}: {text}", flush=True)

    async def receive(self, room: Room) -> None:
        async for message in room:
            self.add(message.source, message.data.decode())


async def run_interactive(name: str, bind: str, seeds: list[str]) -> None:
    """Send the lines from standard input, and print the messages of the others."""
    transcript = Transcript(name)
    async with Node(name, bind=bind, seeds=seeds) as node:
        room = await node.join(
            "chat",
            snapshot=transcript.snapshot,
            restore=transcript.restore,
            found=False if seeds else None,
        )
        receiving = asyncio.create_task(transcript.receive(room))
        while line := await asyncio.to_thread(sys.stdin.readline):
            text = line.rstrip("\n")
            transcript.add(name, text)  # No await between this and the broadcast.
            await room.broadcast(text.encode())
        await room.leave()
        await receiving


async def run_scripted() -> None:
    """Let two participants answer a question of the third as soon as they see it."""
    async with (
        Node("ann") as ann,
        Node("bob", seeds=[ann.address]) as bob,
        Node("eve", seeds=[ann.address]) as eve,
    ):
        ann_room, bob_room, eve_room = [await node.join("chat") for node in (ann, bob, eve)]

        async def answer(room: Room, text: str) -> None:
            await room.receive()  # Causal order delivers the question before all answers.
            await room.broadcast(text.encode())

        tasks = [
            asyncio.create_task(answer(bob_room, "yes, at the fountain")),
            asyncio.create_task(answer(eve_room, "I cannot come")),
        ]
        await ann_room.broadcast(b"shall we meet at noon?")
        for _ in range(2):
            message = await ann_room.receive()
            print(f"[ann sees] {message.source}: {message.data.decode()}")
        await asyncio.gather(*tasks)
        print("every participant saw the question before the answers")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(run_interactive(sys.argv[1], sys.argv[2], sys.argv[3:]))
    else:
        asyncio.run(run_scripted())
