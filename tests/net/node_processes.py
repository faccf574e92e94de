"""Starts, kills and restarts nodes in OS processes, and verifies their logs."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from antecede.net.udp import Address
from antecede.trace.event import Event, Kind
from antecede.verify.oracle import Verdict, verify_events
from tests.net.child_node import ChildOptions
from tests.net.harness import wait_until

ROOT = Path(__file__).parents[2]


class NodeProcess:
    """A node in an OS process; a restart continues the same log."""

    def __init__(self, options: ChildOptions, prefix: Sequence[str] = ()) -> None:
        self.options = options
        self.log = Path(options.log)
        self.kills = 0
        self._prefix = prefix
        self._process: asyncio.subprocess.Process | None = None

    @property
    def name(self) -> str:
        return self.options.name

    async def start(self, peers: dict[str, Address] | None = None) -> Address:
        """Start or restart the process, and return the node's address."""
        self.options = replace(self.options, peers=peers or {})
        self._process = await asyncio.create_subprocess_exec(
            *self._prefix,
            *self.options.command(),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        _, host, port = (await self._expect("listening")).split()
        return host, int(port)

    async def _expect(self, word: str) -> str:
        """Read a line that starts with ``word``."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode().strip()
        assert line.startswith(word), f"{self.name} printed {line!r} instead of {word}"
        return line

    async def _command(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def add_peers(self, peers: str) -> None:
        await self._command(f"peers {peers}")

    async def stop_sending(self) -> None:
        """Stop sending; return when all messages are delivered everywhere."""
        await self._command("stop_sending")
        await self._expect("flushed")

    async def finish(self) -> None:
        assert self._process is not None
        await self._command("finish")
        await self._expect("finished")
        assert await self._process.wait() == 0

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()
        self.kills += 1

    def log_lines(self) -> int:
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    async def wait_until_sent(self, count: int) -> None:
        """Wait until ``count`` messages of the node have been accepted."""
        await wait_until(
            lambda: self.log.exists() and self.log.read_text().count("sent ") >= count
        )

    async def wait_for_activity(self, lines: int) -> None:
        """Wait until the node has logged ``lines`` more lines."""
        before = self.log_lines()
        await wait_until(lambda: self.log_lines() >= before + lines)

    async def kill_if_running(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


async def finish_all(processes: Iterable[NodeProcess]) -> None:
    """Wait until all messages are delivered, and end the processes."""
    members = list(processes)
    await asyncio.gather(*(process.stop_sending() for process in members))
    await asyncio.gather(*(process.finish() for process in members))


@dataclass(kw_only=True)
class LogVerdict:
    """The result of :func:`verify_logs`."""

    order: Verdict | None
    """The verdict on the events; None if ``ambiguous`` is not empty."""
    accepted: int = 0
    received: int = 0
    redelivered: int = 0
    """Deliveries of a message delivered before; allowed until it is committed."""
    lost: list[str] = field(default_factory=list)
    after_commit: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    """Numbers of two messages, and messages with two numbers."""

    @property
    def correct(self) -> bool:
        errors = self.lost or self.after_commit or self.ambiguous
        return not errors and self.order is not None and self.order.held


class LogVerifier:
    """Reads and verifies the logs of all nodes."""

    def __init__(self, logs: dict[str, Path]) -> None:
        self.lines = {
            name: [line.split() for line in path.read_text().splitlines()]
            for name, path in logs.items()
        }
        self.ids = {name: index for index, name in enumerate(sorted(logs))}
        self.targets: dict[tuple[str, int], list[str]] = {}
        self.numbers: dict[tuple[str, int], int] = {}
        """The number of a message, by source and index."""
        self.indexes: dict[tuple[str, int], int] = {}
        """The index of a message, by source and number."""
        self.verdict = LogVerdict(order=None)

    def verify(self) -> LogVerdict:
        accepted: set[tuple[str, int]] = set()
        for name, lines in self.lines.items():
            for word, *rest in lines:
                if word == "begin":
                    self.targets[name, int(rest[0])] = rest[1].split(",")
                elif word == "sent":
                    accepted.add((name, int(rest[0])))
                    self._assign(name, int(rest[1]), int(rest[0]))
        for lines in self.lines.values():
            for word, *rest in lines:
                if word == "received":
                    self._assign(rest[0], int(rest[1]), int(rest[2]))
        self.verdict.accepted = len(accepted)
        events = [event for name in self.lines for event in self._events(name)]
        # A send that a kill interrupted counts if any node has received the message.
        self._find_lost(accepted | set(self.numbers))
        if not self.verdict.ambiguous:
            self.verdict.order = verify_events(events)
        return self.verdict

    def _assign(self, name: str, number: int, index: int) -> None:
        """Check that number and index of a message belong to each other only."""
        if (
            self.indexes.setdefault((name, number), index) != index
            or self.numbers.setdefault((name, index), number) != number
        ):
            self.verdict.ambiguous.append(f"{name}:{number} is {index}")

    def _events(self, name: str) -> list[Event]:
        """Return the sends and first deliveries of one node, over all its restarts."""
        own = self.ids[name]
        events: list[Event] = []
        received: set[tuple[str, int]] = set()
        committed: set[tuple[str, int]] = set()
        for word, *rest in self.lines[name]:
            if word == "begin" and (name, int(rest[0])) in self.numbers:
                targets = self.targets[name, int(rest[0])]
                events.append(
                    Event(
                        process=own,
                        kind=Kind.SEND,
                        source=own,
                        number=self.numbers[name, int(rest[0])],
                        targets=tuple(self.ids[target] for target in targets),
                    )
                )
            elif word == "committed":
                committed.add((rest[0], int(rest[1])))
            elif word == "received":
                message = (rest[0], int(rest[1]))
                self.verdict.received += 1
                if message in committed:
                    self.verdict.after_commit.append(f"{name} received {message}")
                elif message in received:
                    self.verdict.redelivered += 1
                else:
                    received.add(message)
                    events.append(
                        Event(
                            process=own,
                            kind=Kind.DELIVER,
                            source=self.ids[message[0]],
                            number=message[1],
                            target=own,
                        )
                    )
        return events

    def _find_lost(self, messages: set[tuple[str, int]]) -> None:
        received = {
            (name, rest[0], int(rest[2]))
            for name, lines in self.lines.items()
            for word, *rest in lines
            if word == "received"
        }
        self.verdict.lost = [
            f"{source}'s message {index} never reached {target}"
            for source, index in sorted(messages)
            for target in self.targets[source, index]
            if (target, source, index) not in received
        ]


def verify_logs(processes: Iterable[NodeProcess]) -> LogVerdict:
    """Verify a run by the logs of its nodes."""
    return LogVerifier({process.name: process.log for process in processes}).verify()
