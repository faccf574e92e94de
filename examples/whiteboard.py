"""A chat and a whiteboard: two rooms, which processes join and leave at any time.

    python examples/whiteboard.py ann --bind 127.0.0.1:9001
    python examples/whiteboard.py bob --bind 127.0.0.1:9002 --seed 127.0.0.1:9001

Commands: "ROOM add TEXT", "ROOM erase KEY", "ROOM show", "ROOM remove NAME", "ROOM leave".
"""

import argparse
import asyncio
import json
import sys
import uuid

from antecede import AntecedeError, Node


def encode(value: object) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value).encode()


class Sheet:
    """The texts of a room by their keys. Every member sees a text before it is erased."""

    async def join(self, node: Node, title: str, found: bool | None) -> None:
        self.name, self.title, self.texts = node.name, title, dict[str, str]()
        self.room = await node.join(
            title, snapshot=lambda: encode(self.texts), restore=self.restore, found=found
        )
        self.tasks = [asyncio.create_task(task) for task in (self.receive(), self.watch())]
        await self.execute("show")

    def restore(self, state: bytes) -> None:
        self.texts = json.loads(state)

    def apply(self, source: str, key: str, text: str | None) -> None:
        if text is None:
            self.texts.pop(key, None)
        else:
            self.texts[key] = text
        print(f"{self.title}: {source} {key} {text or 'erased'}", flush=True)

    async def receive(self) -> None:
        async for message in self.room:
            self.apply(message.source, *message.value)

    async def watch(self) -> None:
        async for event in self.room.events():
            print(f"{self.title}: event: {event}", flush=True)

    async def execute(self, verb: str, argument: str = "") -> None:
        if verb in ("add", "erase"):
            change = (uuid.uuid4().hex, argument) if verb == "add" else (argument, None)
            self.apply(self.name, *change)  # No await between this and the broadcast.
            await self.room.broadcast(change)
        elif verb == "remove":
            await self.room.remove(argument)
        elif verb == "leave":
            await self.room.leave()
        else:
            print(f"{self.title}:", json.dumps(self.texts), *self.room.members, flush=True)


async def main(options: argparse.Namespace) -> None:
    """Join the rooms, and execute the commands from standard input."""
    sheets = {title: Sheet() for title in vars(options).pop("rooms")}
    async with Node(**vars(options), encode=encode, decode=json.loads) as node:
        for title, sheet in sheets.items():
            await sheet.join(node, title, found=False if options.seeds else None)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                title, *command = line.strip().split(" ", 2)
                await sheets[title].execute(*command)
            except (AntecedeError, KeyError, TypeError) as error:
                print(f"cannot execute {line!r}: {error}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--bind", default="127.0.0.1:0")
    parser.add_argument("--seed", action="append", default=[], dest="seeds")
    parser.add_argument("--journal")
    parser.add_argument("--rooms", nargs="+", default=["chat", "board"])
    asyncio.run(main(parser.parse_args()))
