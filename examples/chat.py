"""A chat in which no participant sees an answer before its question.

    python examples/chat.py                                     three scripted participants
    python examples/chat.py ann 127.0.0.1:9001 bob=127.0.0.1:9002   you, as ann

Type a line to send it to all participants; end with Ctrl-D.
"""

import asyncio
import sys

from antecede import Node


async def print_messages(node: Node) -> None:
    """Print each message when it is delivered."""
    async for message in node:
        print(f"[{node.name} sees] {message.source}: {message.data.decode()}", flush=True)


async def run_interactive(name: str, bind: str, peers: dict[str, str]) -> None:
    """Send the lines from standard input, and print the messages of the others."""
    async with Node(name, bind=bind, peers=peers) as node:
        printing = asyncio.create_task(print_messages(node))
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            await node.broadcast(line.rstrip("\n").encode())
        await node.flush()
        printing.cancel()


async def run_scripted() -> None:
    """Let two participants answer a question of the third as soon as they see it."""
    async with Node("ann") as ann, Node("bob") as bob, Node("eve") as eve:
        nodes = [ann, bob, eve]
        for node in nodes:
            for peer in nodes:
                if peer is not node:
                    node.add_peer(peer.name, peer.address)

        async def answer(node: Node, text: str) -> None:
            while (await node.receive()).data != b"shall we meet at noon?":
                pass
            await node.broadcast(text.encode())

        answers = [answer(bob, "yes, at the fountain"), answer(eve, "I cannot come")]
        tasks = [asyncio.create_task(task) for task in answers]
        await ann.broadcast(b"shall we meet at noon?")
        for _ in range(2):
            message = await ann.receive()
            print(f"[ann sees] {message.source}: {message.data.decode()}")
        await asyncio.gather(*tasks)
        print("every participant saw the question before the answers")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        peers = dict(argument.split("=", 1) for argument in sys.argv[3:])
        asyncio.run(run_interactive(sys.argv[1], sys.argv[2], peers))
    else:
        asyncio.run(run_scripted())
