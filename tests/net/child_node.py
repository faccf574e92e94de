"""A node in an OS process: ``python -m tests.net.child_node OPTIONS``, options as JSON.

The process appends one line for each event to a log file, which survives a kill:

    begin INDEX TARGETS           it starts to send its message INDEX
    sent INDEX NUMBER             the message was accepted
    received SOURCE NUMBER INDEX  a message was delivered to the application
    committed SOURCE NUMBER       the message must never be redelivered

It prints its address, and reads commands from standard input: ``peers`` with addresses as
JSON, ``stop_sending`` (and print ``flushed`` when all messages are delivered) and
``finish`` (receive the remaining messages, and exit). After a kill it continues with the
next INDEX.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from antecede.engine.message import Message
from antecede.net import Node
from tests.net.limits import quick_limits

RECEIVE_TIMEOUT_S = 0.01
LARGE_BYTES = 30_000


@dataclass(frozen=True, kw_only=True)
class ChildOptions:
    """The options of one process."""

    name: str
    log: str
    others: list[str]
    """The nodes that it sends to."""
    seed: int
    peers: dict[str, tuple[str, int]] = field(default_factory=dict)
    bind: str = "127.0.0.1:0"
    key: str = ""
    journal: str | None = None
    sync: bool = False
    pause_s: float = 0.0
    """Maximum pause between two sends."""
    messages: int = 1 << 30
    """How many messages to send, unless the command ``stop_sending`` comes earlier."""
    lease_s: float = 20.0
    loop: str = "asyncio"

    def command(self) -> list[str]:
        """Return the command that starts the process."""
        return [sys.executable, "-m", "tests.net.child_node", json.dumps(asdict(self))]


class ChildNode:
    """The node and its application."""

    def __init__(self, options: ChildOptions) -> None:
        path = Path(options.log)
        begun = path.read_text().count("begin ") if path.exists() else 0
        self.options = options
        self.index = begun
        self.random = Random(f"{options.name} {options.seed} {begun}")
        self.log_file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.stop_sending = False
        self.finishing = False
        self.uncommitted: deque[Message] = deque()
        self.node = Node(
            options.name,
            bind=options.bind,
            peers=options.peers,
            key=bytes.fromhex(options.key) if options.key else None,
            journal=options.journal,
            journal_sync=options.sync,
            limits=quick_limits(lease_s=options.lease_s),
        )

    def log(self, *words: object) -> None:
        os.write(self.log_file, (" ".join(map(str, words)) + "\n").encode())

    async def read_commands(self) -> None:
        """Execute commands; exit at the end of the input, when the parent has died."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := await reader.readline():
            command, _, argument = line.decode().strip().partition(" ")
            if command == "peers":
                for peer, (host, port) in json.loads(argument).items():
                    self.node.add_peer(peer, (host, port))
            elif command == "stop_sending":
                self.stop_sending = True
            else:
                self.finishing = True
        os._exit(3)

    async def send(self) -> None:
        random = self.random
        others = self.options.others
        targets = random.sample(others, random.randint(1, len(others)))
        self.index += 1
        self.log("begin", self.index, ",".join(targets))
        data = str(self.index).encode()
        if random.random() < 0.05:
            data = data.ljust(LARGE_BYTES)
        number = await self.node.multicast(targets, data)
        self.log("sent", self.index, number)

    async def receive(self) -> bool:
        """Receive one message, if there is one, and commit some earlier messages."""
        try:
            message = await asyncio.wait_for(self.node.receive(), RECEIVE_TIMEOUT_S)
        except TimeoutError:
            return False
        index = int(message.data)
        assert len(message.data) in (len(str(index)), LARGE_BYTES)
        self.log("received", message.source, message.number, index)
        self.uncommitted.append(message)
        while len(self.uncommitted) > self.random.choice((0, 0, 3, 10)):
            await self.commit(self.uncommitted.popleft())
        return True

    async def commit(self, message: Message) -> None:
        await message.commit()
        self.log("committed", message.source, message.number)

    async def run(self) -> None:
        """Send and receive in one task, so that the log is in the order of the events."""
        flushing: asyncio.Task[None] | None = None
        commands = asyncio.create_task(self.read_commands())
        async with self.node:
            print("listening", *self.node.address, flush=True)
            while not self.finishing:
                may_send = self.node.peers and not self.stop_sending
                if may_send and self.index < self.options.messages:
                    await self.send()
                    await asyncio.sleep(self.random.random() * self.options.pause_s)
                elif flushing is None and self.stop_sending:
                    flushing = asyncio.create_task(self.node.flush())
                    flushing.add_done_callback(lambda _: print("flushed", flush=True))
                while await self.receive():
                    pass
            while await self.receive():
                pass
            for message in self.uncommitted:
                await self.commit(message)
            print("finished", flush=True)
        commands.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await commands


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["peers"] = {peer: tuple(at) for peer, at in given["peers"].items()}
    asyncio.run(ChildNode(ChildOptions(**given)).run())
