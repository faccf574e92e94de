"""A node as a process of its own: ``python -m tests.net.member OPTIONS``, as JSON.

It logs what it does to a file that survives it, a line at a time:

    begin K TARGETS      it is about to send its K-th message
    sent K NUMBER        and that was accepted
    got SOURCE NUMBER K  a message was handed over
    done SOURCE NUMBER   and will never be again

It says where it listens on its output, and obeys lines on its input: ``peers`` with
addresses as JSON, ``quiet`` (send nothing more, and say when all is delivered), and
``finish`` (take what is left, and end). After a kill it goes on with the next K.
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
from tests.net.bounds import quick_limits

PATIENCE_S = 0.01
LARGE = 30_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a member is told when it is started."""

    name: str
    log: str
    others: list[str]
    """To whom it sends."""
    seed: int
    peers: dict[str, tuple[str, int]] = field(default_factory=dict)
    bind: str = "127.0.0.1:0"
    key: str = ""
    journal: str | None = None
    sync: bool = False
    pause_s: float = 0.0
    """How long to wait between two sends, at most."""
    messages: int = 1 << 30
    """How many to send, unless it is told to be quiet before."""
    lease_s: float = 20.0
    loop: str = "asyncio"

    def arguments(self) -> list[str]:
        """Return the command line."""
        return [sys.executable, "-m", "tests.net.member", json.dumps(asdict(self))]


class Member:
    """The application."""

    def __init__(self, options: Options) -> None:
        path = Path(options.log)
        begun = path.read_text().count("begin ") if path.exists() else 0
        self.options = options
        self.count = begun
        self.random = Random(f"{options.name} {options.seed} {begun}")
        self.log_file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.quiet = False
        self.finishing = False
        self.waiting: deque[Message] = deque()
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

    async def obey(self) -> None:
        """Do what is said on the input; its end is the end of whoever started us."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := await reader.readline():
            word, _, rest = line.decode().strip().partition(" ")
            if word == "peers":
                for peer, (host, port) in json.loads(rest).items():
                    self.node.add_peer(peer, (host, port))
            elif word == "quiet":
                self.quiet = True
            else:
                self.finishing = True
        os._exit(3)

    async def send(self) -> None:
        random = self.random
        others = self.options.others
        targets = random.sample(others, random.randint(1, len(others)))
        self.count += 1
        self.log("begin", self.count, ",".join(targets))
        data = str(self.count).encode()
        if random.random() < 0.05:
            data = data.ljust(LARGE)
        number = await self.node.multicast(targets, data)
        self.log("sent", self.count, number)

    async def take(self, patience_s: float) -> bool:
        try:
            message = await asyncio.wait_for(self.node.receive(), patience_s)
        except TimeoutError:
            return False
        place = int(message.data)
        assert len(message.data) in (len(str(place)), LARGE)
        self.log("got", message.source, message.number, place)
        self.waiting.append(message)
        while len(self.waiting) > self.random.choice((0, 0, 3, 10)):
            self.deal_with(self.waiting.popleft())
        return True

    def deal_with(self, message: Message) -> None:
        message.done()
        self.log("done", message.source, message.number)

    async def live(self) -> None:
        """Send and take, in one task, so that the log is in the order of what happens."""
        flushing: asyncio.Task[None] | None = None
        obeying = asyncio.create_task(self.obey())
        async with self.node:
            print("listening", *self.node.address, flush=True)
            while not self.finishing:
                may_send = self.node.peers and not self.quiet
                if may_send and self.count < self.options.messages:
                    await self.send()
                    await asyncio.sleep(self.random.random() * self.options.pause_s)
                elif flushing is None and self.quiet:
                    flushing = asyncio.create_task(self.node.flush())
                    flushing.add_done_callback(lambda _: print("flushed", flush=True))
                while await self.take(PATIENCE_S):
                    pass
            while await self.take(PATIENCE_S):
                pass
            for message in self.waiting:
                self.deal_with(message)
            print("finished", flush=True)
        obeying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await obeying


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["peers"] = {peer: tuple(at) for peer, at in given["peers"].items()}
    asyncio.run(Member(Options(**given)).live())
