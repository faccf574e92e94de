"""A chat in which no answer is ever seen before its question.

    python examples/chat.py                                     three people, by themselves
    python examples/chat.py ann 127.0.0.1:9001 bob=127.0.0.1:9002   you, as ann

Type a line to send it to everybody; end with Ctrl-D.
"""

import asyncio
import sys

from antecede import Node


async def show(node: Node) -> None:
    """Print what arrives, as it arrives."""
    async for message in node:
        print(f"[{node.name} sees] {message.source}: {message.data.decode()}", flush=True)


async def talk(name: str, bind: str, peers: dict[str, str]) -> None:
    """Let a person at the keyboard take part."""
    async with Node(name, bind=bind, peers=peers) as node:
        shower = asyncio.create_task(show(node))
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            await node.broadcast(line.rstrip("\n").encode())
        await node.flush()
        shower.cancel()


async def converse() -> None:
    """Let three people talk: everybody answers the question as soon as they see it."""
    async with Node("ann") as ann, Node("bob") as bob, Node("eve") as eve:
        nodes = [ann, bob, eve]
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.add_peer(other.name, other.address)

        async def answer(node: Node, words: str) -> None:
            while (await node.receive()).data != b"shall we meet at noon?":
                pass
            await node.broadcast(words.encode())

        answers = [answer(bob, "yes, at the fountain"), answer(eve, "I cannot come")]
        tasks = [asyncio.create_task(task) for task in answers]
        await ann.broadcast(b"shall we meet at noon?")
        for _ in range(2):
            message = await ann.receive()
            print(f"[ann sees] {message.source}: {message.data.decode()}")
        await asyncio.gather(*tasks)
        print("ann asked first, and nobody saw an answer before the question")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        known = dict(argument.split("=", 1) for argument in sys.argv[3:])
        asyncio.run(talk(sys.argv[1], sys.argv[2], known))
    else:
        asyncio.run(converse())
